"""Answers on their way through the cells, one after the other or several at once.

    alone      the answer grows in sequence 0, behind its path
    pool       instructions ─ context ─┬─ statement 1 ... reason      sequence 1
                                       └─ statement 2 ... reason      sequence 2
               instructions ─ other ───── statement 3 ... reason      sequence 3

The pool evaluates what all its answers wait for in one step: a step of one token costs about as much as one of four,
and a prompt's tokens carry the single ones along.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from localjudge.engine.llamacpp.constrained_answer import Answering
from localjudge.engine.llamacpp.constraint import Constraints
from localjudge.engine.llamacpp.fork_groups import Siblings
from localjudge.engine.llamacpp.kv_cache import Cells, Stretch
from localjudge.engine.llamacpp.prefix_cache import Trunk
from localjudge.engine.llamacpp.tokenized import Work
from localjudge.errors import SampleError
from localjudge.types import Answer, NoAnswer


class Decoding:
    """One answer and the sequence that it is decoded in. `held`: tokens of its prompt that the sequence holds."""

    def __init__(self, constraints: Constraints, work: Work, *, sequence: int, held: int, shared: int) -> None:
        self._answering = Answering(constraints, work.shape, work.explanation)
        self._limit = work.longest
        self._failure: NoAnswer | None = None
        self.stretch = Stretch(sequence, held, tuple(chain(*work.path[shared:])))
        """What to evaluate next."""
        self.continued = 0
        """Tokens of the answer that were evaluated behind its forced beginning."""

    @property
    def going_on(self) -> bool:
        """Whether `stretch` is to be evaluated."""
        return not self._answering.finished and self._failure is None

    @property
    def failed(self) -> bool:
        """Whether there is no answer. The cells may then hold what is not a number."""
        return self._failure is not None

    @property
    def free_tokens(self) -> int:
        """Tokens that the model chose for reasons."""
        return self._answering.free_tokens

    def take(self, logits: NDArray[np.float32]) -> None:
        """Decide from the logits behind the stretch."""
        position = self.stretch.position + len(self.stretch.tokens)
        try:
            self._answering.take(logits)
        except SampleError as error:
            self._failure = NoAnswer(error=error.in_one_line)
            return
        if self._answering.finished:
            return
        self.stretch = Stretch(self.stretch.sequence, position, self._answering.pending)
        if position + len(self.stretch.tokens) >= self._limit:
            self._failure = NoAnswer(error=f"the answer did not end within the {self._limit} tokens kept for it")
            return
        self.continued += len(self.stretch.tokens)

    def result(self) -> tuple[Answer, ...] | NoAnswer:
        """An answer for each verdict, or why there is none."""
        return self._failure or self._answering.answers()


class Decoded(NamedTuple):
    """A decoding, and the place of its work among those given."""

    place: int
    decoding: Decoding


class Alone:
    """Every answer by itself, in sequence 0."""

    def __init__(self, constraints: Constraints, cells: Cells) -> None:
        self._constraints = constraints
        self._cells = cells
        self._trunk = Trunk(cells)

    def decode(self, works: Sequence[Work], groups: Iterable[Siblings]) -> Iterator[Decoded]:
        """Each answer as soon as it is there."""
        for members, shared in groups:
            for place in members:
                held = self._trunk.hold(works[place].path[:shared])
                decoding = Decoding(self._constraints, works[place], sequence=0, held=held, shared=shared)
                while decoding.going_on:
                    decoding.take(self._cells.logits_behind(decoding.stretch))
                if decoding.failed:
                    self._trunk.wipe()
                yield Decoded(place, decoding)


class _Running(NamedTuple):
    """A decoding in the pool: the group that it came with, and the cells that it may fill behind their prefix."""

    group: int
    decoded: Decoded
    own: int


class Pool:
    """As many answers at once as there are `forks` and `n_ctx` cells for.

    One whose logits are not numbers may take those beside it along: they fail too. Those that come later do not.
    """

    def __init__(self, constraints: Constraints, cells: Cells, *, forks: int, n_ctx: int) -> None:
        self._constraints = constraints
        self._cells = cells
        self._trunk = Trunk(cells)
        self._sequences = range(1, 1 + forks)
        self._n_ctx = n_ctx
        self._running: dict[int, _Running] = {}
        self._prefixes: dict[int, int] = {}
        self._to_wipe = False

    def decode(self, works: Sequence[Work], groups: Iterable[Siblings]) -> Iterator[Decoded]:
        """Each answer as soon as it is there. Groups must fit the pool while it is empty."""
        try:
            for number, group in enumerate(groups):
                while not self._has_room(group, works):
                    yield from self._step()
                self._admit(number, group, works)
                yield from self._step()
            while self._running:
                yield from self._step()
        finally:
            for sequence in list(self._running):
                self._remove(sequence)

    def _has_room(self, group: Siblings, works: Sequence[Work]) -> bool:
        if self._to_wipe and self._running:
            return False
        prefix = sum(map(len, works[group.members[0]].path[: group.shared]))
        wanted = prefix + sum(works[place].longest - prefix for place in group.members)
        taken = sum(self._prefixes.values()) + sum(running.own for running in self._running.values())
        free = len(self._sequences) - len(self._running)
        return len(group.members) <= free and taken + wanted <= self._n_ctx

    def _admit(self, number: int, group: Siblings, works: Sequence[Work]) -> None:
        held = self._trunk.hold(works[group.members[0]].path[: group.shared])
        self._prefixes[number] = held
        unused = (sequence for sequence in self._sequences if sequence not in self._running)
        for place, sequence in list(zip(group.members, unused, strict=False)):
            self._cells.fork(sequence)
            work = works[place]
            decoding = Decoding(self._constraints, work, sequence=sequence, held=held, shared=group.shared)
            self._running[sequence] = _Running(number, Decoded(place, decoding), work.longest - held)

    def _step(self) -> Iterator[Decoded]:
        """Evaluate what every answer waits for; those that end leave the pool."""
        decodings = {sequence: running.decoded.decoding for sequence, running in self._running.items()}
        logits = self._cells.logits_behind_each([decoding.stretch for decoding in decodings.values()])
        for decoding, behind in zip(decodings.values(), logits, strict=True):
            decoding.take(behind)
        for sequence, decoding in decodings.items():
            if not decoding.going_on:
                yield self._remove(sequence)

    def _remove(self, sequence: int) -> Decoded:
        self._cells.drop(sequence)
        group, decoded, _ = self._running.pop(sequence)
        if all(running.group != group for running in self._running.values()):
            del self._prefixes[group]
        self._to_wipe |= decoded.decoding.failed
        if self._to_wipe and not self._running:
            self._trunk.wipe()
            self._to_wipe = False
        return decoded
