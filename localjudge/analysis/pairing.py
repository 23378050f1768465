"""Which samples of two runs are the same, so that their scores can be compared one by one.

    baseline   a  b  row-3f  row-90        a = a                 by id
    new run    a  x  row-7c  row-90        b = x                 by content: they say the same under other names
                                           row-3f = row-7c       by question: the only ones left that ask the same

A question is a `user_input` with its `reference`, and for what is left after that the `user_input` alone. It finds the
samples of data without an id column again whose contexts, responses or references have changed, also where one run has
ids and the other has none. Each sample has one partner at most, and no pair rests on its place in a file.

Of each sample four hashes of 16 bytes are held, and of each pair a few numbers: no text, no id and no object.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from localjudge.dataset.identity import Hashes, content_hash
from localjudge.types import Sample

Ground = Literal["id", "content", "question"]
Places = npt.NDArray[np.int64]
"""Samples by their positions in the data of their run."""
Flags = npt.NDArray[np.bool_]

GROUNDS: tuple[Ground, ...] = get_args(Ground)
_BYTES = 16
_NOTHING = b""
"""NumPy's way to write a hash of zeros, which stands for a sample that asks nothing."""
_Hashed = npt.NDArray[np.bytes_]
_STEPS: tuple[tuple[str, Ground], ...] = (
    ("id", "id"),
    ("content", "content"),
    ("question", "question"),
    ("user_input", "question"),
)
"""The columns in the order in which they pair, and the ground that each is."""


class HashedSamples:
    """The samples of a run in the order of the data: what each is called, says and asks."""

    def __init__(self, samples: Iterable[Sample] = ()) -> None:
        self.ids = Hashes(_BYTES)
        self.contents = Hashes(_BYTES)
        self.questions = Hashes(_BYTES)
        self.user_inputs = Hashes(_BYTES)
        for sample in samples:
            self.append(sample)

    def __len__(self) -> int:
        return len(self.ids)

    def append(self, sample: Sample) -> None:
        """The next sample."""
        self.ids.append(hashlib.sha256(sample.id.encode()).digest())
        self.contents.append(bytes.fromhex(content_hash(sample)))
        self.questions.append(_hash(sample.user_input, sample.reference))
        self.user_inputs.append(_hash(sample.user_input))

    def columns(self) -> dict[str, _Hashed]:
        """The hashes that make two samples the same, each (n,)."""
        return {
            "id": self.ids.array(),
            "content": self.contents.array(),
            "question": self.questions.array(),
            "user_input": self.user_inputs.array(),
        }


class Pairing(NamedTuple):
    """The pairs in the order of the new run, a column for each fact of them, and the samples that one run alone has.

    `grounds` are places in GROUNDS.
    """

    before: Places
    after: Places
    grounds: npt.NDArray[np.int8]
    same_content: Flags
    same_question: Flags
    only_before: Places
    only_after: Places

    def by(self, ground: Ground) -> int:
        """How many pairs are the same sample on that ground."""
        return int(np.count_nonzero(self.grounds == GROUNDS.index(ground)))


def pair_samples(before: HashedSamples, after: HashedSamples) -> Pairing:
    """Pair by id; what is left by content; what is still left by question, where only one on each side asks it."""
    old, new = before.columns(), after.columns()
    left_before, left_after = np.ones(len(before), dtype=bool), np.ones(len(after), dtype=bool)
    partners = np.zeros(len(after), dtype=np.int64)
    grounds = np.zeros(len(after), dtype=np.int8)
    for column, ground in _STEPS:
        single = ground == "question"
        there, here = (np.flatnonzero(left) for left in (left_before, left_after))
        if single:
            there, here = there[old[column][there] != _NOTHING], here[new[column][here] != _NOTHING]
        first, second = _matches(old[column][there], new[column][here], single=single)
        partners[here[second]] = there[first]
        grounds[here[second]] = GROUNDS.index(ground)
        left_before[there[first]] = left_after[here[second]] = False
    paired = np.flatnonzero(~left_after)
    partners = partners[paired]
    return Pairing(
        before=partners,
        after=paired,
        grounds=grounds[paired],
        same_content=old["content"][partners] == new["content"][paired],
        same_question=old["question"][partners] == new["question"][paired],
        only_before=np.flatnonzero(left_before),
        only_after=np.flatnonzero(left_after),
    )


def _matches(there: _Hashed, here: _Hashed, *, single: bool) -> tuple[Places, Places]:
    """Places of equal hashes, the first with the first, the second with the second; or only where each is single."""
    if not single and np.array_equal(there, here):  # the usual case: the same samples in the same order
        every = np.arange(len(here))
        return every, every
    order_there, order_here = (np.argsort(hashes, kind="stable") for hashes in (there, here))
    there, here = there[order_there], here[order_here]
    start, own_start = np.searchsorted(there, here), np.searchsorted(here, here)
    count = np.searchsorted(there, here, side="right") - start
    rank = np.arange(len(here)) - own_start
    matched = rank < count
    if single:
        own_count = np.searchsorted(here, here, side="right") - own_start
        matched &= (count == 1) & (own_count == 1)
    return order_there[start[matched] + rank[matched]], order_here[matched]


def _hash(*texts: str | None) -> bytes:
    """A hash of what the sample asks; zeros if it holds none of the texts."""
    if not any(texts):
        return bytes(_BYTES)
    return hashlib.sha256(json.dumps(texts).encode()).digest()
