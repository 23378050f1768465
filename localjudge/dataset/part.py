"""A part of the data: its first samples, some drawn by a seed, or a shard, which one of several processes judges.

    drawn   the N samples with the smallest sha256 of (seed, id), in the order of the data
    shard   those whose sha256 of the id, modulo N, is I - 1: I from 1 to N, each sample in one of them

So it depends on the ids alone: more rows, fewer or another order change the part by no more than these rows, and the
samples drawn for N are among those drawn for N + 1. Rows without ids have made ones, which hang on their content.

A part is data of its own, with a fingerprint of its own. What the columns give is what they give in the whole, so that
a part is scored by the metrics that the whole is.
"""

import hashlib
import heapq
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Self, TypeVar, overload

from localjudge.dataset.dataset import Dataset
from localjudge.dataset.identity import fingerprint
from localjudge.errors import UsageError
from localjudge.option_spelling import option_name
from localjudge.types import CONTEXT_FIELDS, Sample

_T = TypeVar("_T")
_SHARD = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


class Shard(NamedTuple):
    """Shard `number`, from 1, of so many."""

    number: int
    of: int

    @classmethod
    def read(cls, text: str) -> Self:
        """The shard that `2/4` names. Raises UsageError for a text that names none."""
        found = _SHARD.fullmatch(text)
        number, count = map(int, found.groups()) if found else (0, 0)
        if not 1 <= number <= count:
            raise UsageError(
                f"{option_name('shard')} must be I/N with I from 1 to N, got {text!r:.80}",
                hint="the second of four shards is 2/4",
            )
        return cls(number, count)

    def __str__(self) -> str:
        """As it is given: `2/4`."""
        return f"{self.number}/{self.of}"

    def has(self, sample_id: str) -> bool:
        """Whether the sample is in it."""
        return shard_number(sample_id, self.of) == self.number


def shard_number(sample_id: str, count: int) -> int:
    """In which of so many shards the sample is, from 1. It hangs on the id alone."""
    digest = hashlib.sha256(f"shard|{sample_id}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest) % count + 1


def first(dataset: Dataset, count: int) -> Dataset:
    """The first samples; all if there are no more."""
    return picked(dataset, range(min(count, len(dataset.samples))))


def drawn(dataset: Dataset, count: int, seed: int) -> Dataset:
    """So many samples drawn by the seed; all if there are no more."""
    ranked = ((_rank(sample.id, seed), position) for position, sample in enumerate(dataset.samples))
    return picked(dataset, sorted(position for _, position in heapq.nsmallest(count, ranked)))


def positions_in(dataset: Dataset, shard: Shard) -> Sequence[int]:
    """Positions of the samples of a shard, ascending."""
    return array("q", (position for position, sample in enumerate(dataset.samples) if shard.has(sample.id)))


def _rank(sample_id: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}|{sample_id}".encode("utf-8", "surrogatepass")).digest()


def picked(dataset: Dataset, positions: Sequence[int]) -> Dataset:
    """The samples at these positions, ascending."""
    if len(positions) == len(dataset.samples):
        return dataset
    samples = _Picked(dataset.samples, positions)
    return replace(
        dataset,
        samples=samples,
        extras=_Picked(dataset.extras, positions),
        fingerprint=fingerprint(samples),
        ids_alone=sum(map(_has_bare_context, samples)),
    )


def _has_bare_context(sample: Sample) -> bool:
    contexts = (context for field in CONTEXT_FIELDS for context in getattr(sample, field) or ())
    return any(context.text is None for context in contexts)


class _Picked(Sequence[_T]):
    """Some of the values of a sequence, looked up there each time."""

    def __init__(self, whole: Sequence[_T], positions: Sequence[int]) -> None:
        self._whole = whole
        self._positions = positions

    def __len__(self) -> int:
        return len(self._positions)

    def __iter__(self) -> Iterator[_T]:
        return (self._whole[position] for position in self._positions)

    @overload
    def __getitem__(self, index: int) -> _T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[_T, ...]: ...
    def __getitem__(self, index: int | slice) -> _T | tuple[_T, ...]:
        if isinstance(index, slice):
            return tuple(self._whole[position] for position in self._positions[index])
        return self._whole[self._positions[index]]
