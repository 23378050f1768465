"""Which samples of two runs are the same, so that their scores can be compared one by one.

    baseline   a  b  row-3f  row-90        a = a                 by id
    new run    a  x  row-7c  row-90        b = x                 by content: they say the same under other names
                                           row-3f = row-7c       by question: the only ones left that ask the same

A question is a `user_input` with its `reference`: what the system under test was given and should have found. It finds
the samples of data without an id column again whose contexts or responses have changed. Each sample has one partner at
most, and no pair rests on its place in a file.
"""

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Literal, NamedTuple

from localjudge.dataset.identity import content_hash
from localjudge.types import Sample

Ground = Literal["id", "content", "question"]

_BYTES = 16


class Named(NamedTuple):
    """A sample without its texts: its id, and 16 bytes of the hashes of what it says and of what it asks."""

    id: str
    content: bytes
    question: bytes | None


class Pair(NamedTuple):
    """One sample in both runs, what makes it the same, and whether it also says the same."""

    before: Named
    after: Named
    by: Ground
    same_content: bool


class Pairing(NamedTuple):
    """Pairs in the order of the new run, and the ids of the samples that only one of the runs has."""

    pairs: tuple[Pair, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]


_Key = Callable[[Named], Hashable | None]


def pair_samples(before: Iterable[Sample], after: Iterable[Sample]) -> Pairing:
    """Pair by id; what is left by content; what is still left by question, where only one on each side asks it.

    The samples are read once, and their texts are not kept.
    """
    steps: list[tuple[Ground, _Key]] = [
        ("id", lambda sample: sample.id),
        ("content", lambda sample: sample.content),
        ("question", lambda sample: sample.question),
    ]
    there, here = [_named(sample) for sample in before], [_named(sample) for sample in after]
    order = here
    found: dict[str, Pair] = {}
    for ground, key in steps:
        matches = _matches(there, here, key, single=ground == "question")
        found |= {new.id: Pair(old, new, ground, old.content == new.content) for old, new in matches}
        taken = {old.id for old, _ in matches}
        there = [sample for sample in there if sample.id not in taken]
        here = [sample for sample in here if sample.id not in found]
    return Pairing(
        pairs=tuple(found[sample.id] for sample in order if sample.id in found),
        only_before=tuple(sample.id for sample in there),
        only_after=tuple(sample.id for sample in here),
    )


def _named(sample: Sample) -> Named:
    return Named(sample.id, bytes.fromhex(content_hash(sample))[:_BYTES], _question(sample))


def _question(sample: Sample) -> bytes | None:
    """What the sample asks; None if it holds neither question nor reference."""
    if sample.user_input is None and sample.reference is None:
        return None
    asked = json.dumps([sample.user_input, sample.reference])
    return hashlib.sha256(asked.encode()).digest()[:_BYTES]


def _matches(there: Sequence[Named], here: Sequence[Named], key: _Key, *, single: bool) -> list[tuple[Named, Named]]:
    """Those with equal keys, the first with the first, the second with the second; or only where each is single."""
    before, after = _by_key(there, key), _by_key(here, key)
    return [
        match
        for name in before.keys() & after.keys()
        if not single or len(before[name]) == len(after[name]) == 1
        for match in zip(before[name], after[name], strict=False)
    ]


def _by_key(candidates: Sequence[Named], key: _Key) -> dict[Hashable, list[Named]]:
    found: dict[Hashable, list[Named]] = {}
    for candidate in candidates:
        if (name := key(candidate)) is not None:
            found.setdefault(name, []).append(candidate)
    return found
