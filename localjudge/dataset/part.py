"""A part of the data: its first samples, some drawn by a seed, or a shard, which one of several processes judges.

    drawn   the N samples with the smallest sha256 of (seed, id), in the order of the data
    shard   those whose sha256 of the id, modulo N, is I - 1: I from 1 to N, each sample in one of them

So it depends on the ids alone: more rows, fewer or another order change the part by no more than these rows, and the
samples drawn for N are among those drawn for N + 1. Rows without ids have made ones, which depend on their content.
"""

import hashlib
import heapq
import re
from typing import NamedTuple, Self

from localjudge.dataset.load import Dataset
from localjudge.errors import InputError
from localjudge.words import option_name

_SHARD = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


class Shard(NamedTuple):
    """Shard `number`, from 1, of `of` shards."""

    number: int
    of: int

    @classmethod
    def read(cls, text: str) -> Self:
        """The shard that `2/4` names. Raises InputError for a text that names none."""
        match = _SHARD.fullmatch(text)
        number, count = map(int, match.groups()) if match else (0, 0)
        if not 1 <= number <= count:
            raise InputError(
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
    """Number of the shard, from 1 to `count`, that the sample is in. It depends on the id alone."""
    return int.from_bytes(_digest(f"shard|{sample_id}")) % count + 1


def first(dataset: Dataset, count: int) -> Dataset:
    """The first samples; all if there are no more."""
    return dataset.where(lambda position, _: position < count)


def drawn(dataset: Dataset, count: int, seed: int) -> Dataset:
    """So many samples drawn by the seed; all if there are no more."""
    ranked = ((_digest(f"{seed}|{row.id}"), row.position) for row in dataset.table.rows())
    chosen = {position for _, position in heapq.nsmallest(count, ranked)}
    return dataset.where(lambda position, _: position in chosen)


def in_shard(dataset: Dataset, shard: Shard) -> Dataset:
    """The samples of a shard, at their positions in the data."""
    return dataset.where(lambda _, sample_id: shard.has(sample_id), in_place=True)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
