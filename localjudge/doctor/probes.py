"""Labelled items that measure a judge: 32 passages, written for this, each with 8 statements and 4 of relevance.

    holds        copied  paraphrase  combination  inference
    does not     changed number | name | negation, swapped relation, absent, general, other passage     4 of the 7

    needed       sentence that answers, chunk that answers
    not needed   sentence on the same topic, chunk on the same topic | unrelated chunk

Half of each passage's items are 1 in either task. A changed number, name or negation is a substitution in a statement
that holds, so that the two are a minimal pair; the copied sentence, the statement about another passage and the
unrelated chunk are taken by rule. All else is written by hand (`probes/README.md`). The passages come in an order in
which their first few have as many of each kind and domain as can be: fewer items are the first of more.
"""

import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

from localjudge.types import Attribution, Label, Record, Relevance, Span, Task, Unit

Kind = Literal[
    "copied", "paraphrase", "combination", "inference",
    "number", "name", "negation", "relation", "absent", "general", "other passage",
    "sentence that answers", "sentence on the topic", "chunk that answers", "chunk on the topic", "unrelated chunk",
]  # fmt: skip
Change = tuple[Literal["copied", "paraphrase", "combination"], str, str]
"""The statement that is changed, what is taken out, what is put in."""
Rearrangement = Literal["needed chunk last", "others swapped", "same chunk twice"]

PER_PASSAGE = 12
"""Items of a passage: 8 of attribution and 4 of relevance."""
_HOLDING: tuple[Kind, ...] = ("paraphrase", "combination", "inference")
_CHANGED: tuple[Kind, ...] = ("number", "name", "negation")
_WRITTEN: tuple[Kind, ...] = ("relation", "absent", "general")
_REARRANGED_EVERY = 4
_FOLDER = Path(__file__).parent / "probes"


class Passage(Record):
    """A short text with what is asked about it. Sentences are counted from 0.

    `other` is the title of the passage whose paraphrase is judged against this one; `near` a question on the topic that
    the text does not answer: without one, another passage's is asked.
    """

    title: str
    text: tuple[str, ...]
    question: str
    copied: int
    paraphrase: str
    combination: str
    inference: str
    number: Change | None = None
    name: Change | None = None
    negation: Change | None = None
    relation: str | None = None
    absent: str | None = None
    general: str | None = None
    other: str | None = None
    asked: str
    answer: int
    beside: int
    answered: str
    near: str | None = None

    @property
    def whole(self) -> str:
        """The sentences as one text."""
        return " ".join(self.text)


class Probe(NamedTuple):
    """An item: what is asked, its kind, the right answer. `changed_from` is the kind of a minimal pair's other half."""

    passage: str
    kind: Kind
    answer: Label
    task: Attribution | Relevance
    changed_from: Kind | None = None


class Rearranged(NamedTuple):
    """A statement, asked twice about the same evidence in two arrangements: the verdict should not care."""

    passage: str
    effect: Rearrangement
    before: Attribution
    after: Attribution


@cache
def passages() -> tuple[Passage, ...]:
    """One of each domain (a file), then the next of each domain, and so on."""
    files = [
        [Passage.model_validate(table) for table in tomllib.loads(file.read_text(encoding="utf-8"))["passage"]]
        for file in sorted(_FOLDER.glob("*.toml"))
    ]
    return tuple(chain.from_iterable(zip(*files, strict=True)))


def probes(count: int | None = None) -> list[Probe]:
    """The items of the first `count` passages, of all if None."""
    return [probe for place in range(len(passages()[:count])) for probe in _items(place)]


def rearranged(count: int | None = None) -> list[Rearranged]:
    """Statements of every fourth of the first `count` passages, among chunks of the next passage."""
    places = range(0, len(passages()[:count]), _REARRANGED_EVERY)
    return [pair for place in places for pair in _arrangements(place)]


def probe_tasks(count: int | None = None) -> list[Task]:
    """All that is asked about the first `count` passages, nothing twice."""
    arranged = (task for pair in rearranged(count) for task in (pair.before, pair.after))
    return list(dict.fromkeys([*(probe.task for probe in probes(count)), *arranged]))


def replace_once(text: str, old: str, new: str) -> str:
    """The text with its one occurrence of `old` exchanged. Raises ValueError unless it occurs once."""
    if text.count(old) != 1:
        raise ValueError(f"{old!r} occurs {text.count(old)} times in {text!r}")
    return text.replace(old, new)


def _items(place: int) -> Iterator[Probe]:
    passage = passages()[place]
    yield from _statements(passage)
    yield Probe(passage.title, "sentence that answers", 1, _sentence(passage, passage.answer))
    yield Probe(passage.title, "sentence on the topic", 0, _sentence(passage, passage.beside))
    yield Probe(passage.title, "chunk that answers", 1, _chunk(passage, passage.answered))
    if passage.near is not None:
        yield Probe(passage.title, "chunk on the topic", 0, _chunk(passage, passage.near))
    else:
        yield Probe(passage.title, "unrelated chunk", 0, _chunk(passage, _next(place).answered))


def _statements(passage: Passage) -> Iterator[Probe]:
    holding: dict[Kind, str] = {"copied": passage.text[passage.copied]}
    holding |= {kind: getattr(passage, kind) for kind in _HOLDING}
    for kind, text in holding.items():
        yield Probe(passage.title, kind, 1, _statement(passage, text))
    for kind in _CHANGED:
        if change := getattr(passage, kind):
            base, old, new = change
            changed = _statement(passage, replace_once(holding[base], old, new))
            yield Probe(passage.title, kind, 0, changed, changed_from=base)
    for kind in _WRITTEN:
        if text := getattr(passage, kind):
            yield Probe(passage.title, kind, 0, _statement(passage, text))
    if passage.other is not None:
        [other] = [another for another in passages() if another.title == passage.other]
        yield Probe(passage.title, "other passage", 0, _statement(passage, other.paraphrase))


def _arrangements(place: int) -> Iterator[Rearranged]:
    """The others are the two halves of the next passage, which is of another domain."""
    passage, other = passages()[place], _next(place)
    needed = passage.whole
    first, second = " ".join(other.text[:2]), " ".join(other.text[2:])
    of_passage = list(_statements(passage))
    for probe in (of_passage[0], of_passage[1], *of_passage[4:6]):
        statement = probe.task.unit.span.text
        alone, leading = _statement(passage, statement), _statement(passage, statement, needed, first, second)
        pairs: tuple[tuple[Rearrangement, Attribution, tuple[str, ...]], ...] = (
            ("needed chunk last", leading, (first, second, needed)),
            ("others swapped", leading, (needed, second, first)),
            ("same chunk twice", alone, (needed, needed)),
        )
        for effect, before, contexts in pairs:
            yield Rearranged(passage.title, effect, before, _statement(passage, statement, *contexts))


def _next(place: int) -> Passage:
    return passages()[(place + 1) % len(passages())]


def _statement(passage: Passage, text: str, *contexts: str) -> Attribution:
    unit = Unit(kind="statement", index=0, source="response", span=Span.whole(text))
    return Attribution(unit=unit, contexts=contexts or (passage.whole,), user_input=passage.question)


def _sentence(passage: Passage, index: int) -> Relevance:
    start = sum(len(sentence) + 1 for sentence in passage.text[:index])
    text = passage.text[index]
    span = Span(start=start, end=start + len(text), text=text)
    unit = Unit(kind="sentence", index=index, source="retrieved_contexts", source_index=0, span=span)
    return Relevance(unit=unit, user_input=passage.asked, contexts=(passage.whole,))


def _chunk(passage: Passage, question: str) -> Relevance:
    unit = Unit(kind="chunk", index=0, source="retrieved_contexts", source_index=0, span=Span.whole(passage.whole))
    return Relevance(unit=unit, user_input=question)
