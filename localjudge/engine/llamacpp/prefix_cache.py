"""The path that the cells hold: what requests share, evaluated once.

    holds        instructions ─ context ─ statement 1
    wanted       instructions ─ context ─ statement 2
    go back to   instructions ─ context                and evaluate what is new

Every node is a step of its own, whether or not anything is shared, and a place to go back to. Where the user keeps the
states of earlier runs, the cells may get such a state instead of being filled: it is a copy of what they would hold.
"""

from localjudge.engine.llamacpp.kv_cache import KVCache, TokenRun
from localjudge.engine.planner import TokenPath, shared_nodes
from localjudge.engine.prefix_states import PrefixStates

_WORTH_KEEPING = 64
"""Tokens that a state must spare to be read or written: fewer are evaluated as quickly."""


class PrefixCache:
    """The nodes that are in the cache."""

    def __init__(self, cache: KVCache) -> None:
        self._cache = cache
        self._held: TokenPath = ()
        self.states: PrefixStates | None = None
        self.restored_tokens = 0

    def hold(self, path: TokenPath) -> int:
        """Let the cells hold this path and nothing else; how many tokens that is. Evaluates only what is new."""
        shared = shared_nodes(self._held, path)
        self._held = ()
        there = self._cache.rewind(sum(map(len, path[:shared])))
        there = self._restored(path, shared, there)
        position = 0
        for node in path:
            if position >= there:
                self._cache.evaluate(TokenRun(position, node))
                self._cache.checkpoint(position + len(node))
            position += len(node)
        if self.states and position - there >= _WORTH_KEEPING and (state := self._cache.state()):
            self.states.keep(path, state)
        self._held = path
        return position

    def _restored(self, path: TokenPath, shared: int, there: int) -> int:
        """How many tokens the cells hold, of which the first `there` were shared, once a kept state is in them."""
        if not self.states or sum(map(len, path)) - there < _WORTH_KEEPING:
            return there
        found = self.states.longest(path, beyond=shared)
        if found is None or (position := sum(map(len, path[: found.nodes]))) - there < _WORTH_KEEPING:
            return there
        if not self._cache.restore(position, found.state):
            self.states.forget(path[: found.nodes])
            return 0
        self.restored_tokens += position - there
        return position

    def wipe(self) -> None:
        """Hold nothing, and overwrite all cells: what is not a number spreads even from cells that nobody looks at.

        Attention multiplies cells that are cut by zero, and NaN times zero is NaN.
        """
        self._held = ()
        self._cache.clear()
