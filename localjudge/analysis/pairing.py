"""Which samples of two runs are the same, so that their scores can be compared one by one.

    baseline   a  b  row-3f  row-90        a = a                 by id
    new run    a  x  row-7c  row-90        b = x                 by content: they say the same under other names
                                           row-3f = row-7c       by question: the only ones left that ask the same

A question is a `user_input` with its `reference`: what the system under test was given and should have found. It finds
the samples of data without an id column again whose contexts or responses have changed. Each sample has one partner at
most, and no pair rests on its place in a file.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Literal, NamedTuple

from localjudge.dataset.identity import content_hash
from localjudge.types import Sample

Ground = Literal["id", "content", "question"]


class Pair(NamedTuple):
    """One sample in both runs, what makes it the same, and whether it also says the same."""

    before: Sample
    after: Sample
    by: Ground
    same_content: bool


class Pairing(NamedTuple):
    """Pairs in the order of the new run, and the ids of the samples that only one of the runs has."""

    pairs: tuple[Pair, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]


class _Candidate(NamedTuple):
    sample: Sample
    content: str


_Key = Callable[[_Candidate], Hashable | None]


def pair_samples(before: Sequence[Sample], after: Sequence[Sample]) -> Pairing:
    """Pair by id; what is left by content; what is still left by question, where only one on each side asks it."""
    steps: list[tuple[Ground, _Key]] = [
        ("id", lambda candidate: candidate.sample.id),
        ("content", lambda candidate: candidate.content),
        ("question", lambda candidate: question(candidate.sample)),
    ]
    there = [_Candidate(sample, content_hash(sample)) for sample in before]
    here = [_Candidate(sample, content_hash(sample)) for sample in after]
    found: dict[str, Pair] = {}
    for ground, key in steps:
        matches = _matches(there, here, key, single=ground == "question")
        found |= {
            new.sample.id: Pair(old.sample, new.sample, ground, old.content == new.content) for old, new in matches
        }
        taken = {old.sample.id for old, _ in matches}
        there = [candidate for candidate in there if candidate.sample.id not in taken]
        here = [candidate for candidate in here if candidate.sample.id not in found]
    return Pairing(
        pairs=tuple(found[sample.id] for sample in after if sample.id in found),
        only_before=tuple(candidate.sample.id for candidate in there),
        only_after=tuple(candidate.sample.id for candidate in here),
    )


def question(sample: Sample) -> Hashable | None:
    """What the sample asks; None if it holds neither question nor reference."""
    asked = (sample.user_input, sample.reference)
    return asked if asked != (None, None) else None


def _matches(
    there: Sequence[_Candidate], here: Sequence[_Candidate], key: _Key, *, single: bool
) -> list[tuple[_Candidate, _Candidate]]:
    """Those with equal keys, the first with the first, the second with the second; or only where each is single."""
    before, after = _by_key(there, key), _by_key(here, key)
    return [
        match
        for name in before.keys() & after.keys()
        if not single or len(before[name]) == len(after[name]) == 1
        for match in zip(before[name], after[name], strict=False)
    ]


def _by_key(candidates: Sequence[_Candidate], key: _Key) -> dict[Hashable, list[_Candidate]]:
    found: dict[Hashable, list[_Candidate]] = {}
    for candidate in candidates:
        if (name := key(candidate)) is not None:
            found.setdefault(name, []).append(candidate)
    return found
