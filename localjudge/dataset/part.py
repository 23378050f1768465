"""A part of the data, to look at first: its first samples, or some drawn by a seed.

    drawn   the N samples with the smallest sha256 of (seed, id), in the order of the data

So it depends on the ids alone: more rows, fewer or another order change the part by no more than these rows, and the
samples drawn for N are among those drawn for N + 1. Rows without ids have made ones, which hang on their content.

A part is data of its own, with a fingerprint of its own. What the columns give is what they give in the whole, so that
a part is scored by the metrics that the whole is.
"""

import hashlib
import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar, overload

from localjudge.dataset.dataset import Dataset
from localjudge.dataset.identity import fingerprint
from localjudge.types import CONTEXT_FIELDS, Sample

_T = TypeVar("_T")


def first(dataset: Dataset, count: int) -> Dataset:
    """The first samples; all if there are no more."""
    return _part(dataset, range(min(count, len(dataset.samples))))


def drawn(dataset: Dataset, count: int, seed: int) -> Dataset:
    """So many samples drawn by the seed; all if there are no more."""
    ranked = ((_rank(sample.id, seed), position) for position, sample in enumerate(dataset.samples))
    return _part(dataset, sorted(position for _, position in heapq.nsmallest(count, ranked)))


def _rank(sample_id: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}|{sample_id}".encode("utf-8", "surrogatepass")).digest()


def _part(dataset: Dataset, positions: Sequence[int]) -> Dataset:
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
