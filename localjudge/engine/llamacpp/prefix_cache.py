"""The path that the cells hold: what requests share, evaluated once.

    holds        instructions ─ context ─ statement 1
    wanted       instructions ─ context ─ statement 2
    go back to   instructions ─ context                and evaluate what is new

Every node is a step of its own, whether or not anything is shared, and a place to go back to.
"""

from localjudge.engine.llamacpp.kv_cache import KVCache, TokenRun
from localjudge.engine.planner import TokenPath, shared_nodes


class PrefixCache:
    """The nodes that are in the cache."""

    def __init__(self, cache: KVCache) -> None:
        self._cache = cache
        self._held: TokenPath = ()

    def hold(self, path: TokenPath) -> int:
        """Let the cells hold this path and nothing else; how many tokens that is. Evaluates only what is new."""
        shared = shared_nodes(self._held, path)
        self._held = ()
        there = self._cache.rewind(sum(map(len, path[:shared])))
        position = 0
        for node in path:
            if position >= there:
                self._cache.evaluate(TokenRun(position, node))
                self._cache.checkpoint(position + len(node))
            position += len(node)
        self._held = path
        return position

    def wipe(self) -> None:
        """Hold nothing, and overwrite all cells: what is not a number spreads even from cells that nobody looks at.

        Attention multiplies cells that are cut by zero, and NaN times zero is NaN.
        """
        self._held = ()
        self._cache.clear()
