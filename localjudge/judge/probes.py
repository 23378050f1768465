"""Labelled items for measuring a judge.

Each of 32 handwritten passages has 8 statements and 4 items about relevance:

    supported    copied  paraphrase  combination  inference
    not          4 of: changed number, changed name, changed negation, swapped relation, absent,
                 general, other passage

    needed       sentence that answers, chunk that answers
    not needed   sentence on the same topic, chunk on the same topic | unrelated chunk

A changed number, name or negation in a supported statement gives a minimal pair.

Each of 48 questions has two answers of one sentence, in English, German, French or Spanish:

    good    short  full  long  restated  no
    poor    refusal  evasion  question_again  off_point  other_part  vague

See `probes/README.md`.
"""

import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

from localjudge.types import Attribution, Label, Record, Relevance, Span, Task, Unit

Kind = Literal[
    "copied",
    "paraphrase",
    "combination",
    "inference",
    "number",
    "name",
    "negation",
    "relation",
    "absent",
    "general",
    "other passage",
    "sentence that answers",
    "sentence on the topic",
    "chunk that answers",
    "chunk on the topic",
    "unrelated chunk",
    "short",
    "full",
    "long",
    "restated",
    "no",
    "refusal",
    "evasion",
    "question_again",
    "off_point",
    "other_part",
    "vague",
]
Change = tuple[Literal["copied", "paraphrase", "combination"], str, str]
"""The statement to change, the removed text, the inserted text."""

PER_PASSAGE = 15
"""Items asked for each passage: twelve about it, and answers to one and a half questions."""
_QUESTIONS_PER_PASSAGE = 1.5
_ANSWERS_FILE = "answers.toml"
_SUPPORTED: tuple[Kind, ...] = ("paraphrase", "combination", "inference")
_CHANGED: tuple[Kind, ...] = ("number", "name", "negation")
_WRITTEN: tuple[Kind, ...] = ("relation", "absent", "general")
_REARRANGED_EVERY = 4


class Passage(Record):
    """A short text with its questions. Sentences are numbered from 0.

    `other` is the title of the passage that supplies an unsupported paraphrase. `near` is an
    unanswered question on the topic; without one, another passage's question is used.
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
        return " ".join(self.text)


class AnsweredQuestion(Record):
    """A question with a good and a poor answer of one sentence, each with its kind before it."""

    language: str = "en"
    question: str
    good: tuple[Kind, str]
    poor: tuple[Kind, str]


class Probe(NamedTuple):
    """An item: task, kind, right answer.

    `passage` is its title, or the question of a sentence of an answer. `changed_from` is the kind
    of the other half of a minimal pair.
    """

    passage: str
    kind: Kind
    answer: Label
    task: Attribution | Relevance
    changed_from: Kind | None = None


@cache
def passages() -> tuple[Passage, ...]:
    """Return the first passage of each domain (a file), then the second, and so on."""
    by_domain: list[list[Passage]] = []
    for file in sorted((Path(__file__).parent / "probes").glob("*.toml")):
        if file.name == _ANSWERS_FILE:
            continue
        tables = tomllib.loads(file.read_text(encoding="utf-8"))["passage"]
        by_domain.append([Passage.model_validate(table) for table in tables])
    return tuple(chain.from_iterable(zip(*by_domain, strict=True)))


@cache
def answered_questions() -> tuple[AnsweredQuestion, ...]:
    """Return all questions with their answers. The first ones have the same mix as all."""
    file = Path(__file__).parent / "probes" / _ANSWERS_FILE
    tables = tomllib.loads(file.read_text(encoding="utf-8"))["question"]
    return tuple(map(AnsweredQuestion.model_validate, tables))


def _with_next(count: int | None) -> list[tuple[Passage, Passage]]:
    return list(zip(passages(), (*passages()[1:], passages()[0]), strict=True))[:count]


def probes(count: int | None = None) -> list[Probe]:
    """Return the items of the first `count` passages, by default of all."""
    items: list[Probe] = []
    for passage, other in _with_next(count):
        items += _statements(passage)
        title = passage.title
        items.append(Probe(title, "sentence that answers", 1, _sentence(passage, passage.answer)))
        items.append(Probe(title, "sentence on the topic", 0, _sentence(passage, passage.beside)))
        items.append(Probe(title, "chunk that answers", 1, _chunk(passage, passage.answered)))
        if passage.near:
            items.append(Probe(title, "chunk on the topic", 0, _chunk(passage, passage.near)))
        else:
            items.append(Probe(title, "unrelated chunk", 0, _chunk(passage, other.answered)))
    return items


def answer_probes(count: int | None = None) -> list[Probe]:
    """Return the sentences of answers that go with the first `count` passages, by default all.

    They are asked as `answer_relevancy` asks about an answer of one sentence.
    """
    questions = answered_questions()
    if count is not None:
        questions = questions[: int(count * _QUESTIONS_PER_PASSAGE)]
    items = []
    for asked in questions:
        good_kind, good = asked.good
        poor_kind, poor = asked.poor
        items.append(Probe(asked.question, good_kind, 1, _answer(asked.question, good)))
        items.append(Probe(asked.question, poor_kind, 0, _answer(asked.question, poor)))
    return items


def rearranged(count: int | None = None) -> list[tuple[Attribution, Attribution]]:
    """Return pairs of tasks with the same statement and evidence, arranged in two ways, for every
    fourth passage.
    """
    pairs = []
    for passage, other in _with_next(count)[::_REARRANGED_EVERY]:
        needed = passage.whole
        beginning = " ".join(other.text[:2])
        rest = " ".join(other.text[2:])
        arrangements = (
            ((needed, beginning, rest), (beginning, rest, needed)),
            ((needed, beginning, rest), (needed, rest, beginning)),
            ((needed,), (needed, needed)),
        )
        items = list(_statements(passage))
        for probe in (*items[:2], *items[4:6]):
            text = probe.task.unit.span.text
            for one, another in arrangements:
                pairs.append((_statement(passage, text, *one), _statement(passage, text, *another)))
    return pairs


def probe_tasks(count: int | None = None) -> list[Task]:
    """Return the distinct tasks of all items and rearranged pairs."""
    tasks: dict[Task, None] = {}
    for probe in (*probes(count), *answer_probes(count)):
        tasks[probe.task] = None
    for pair in rearranged(count):
        tasks.update(dict.fromkeys(pair))
    return list(tasks)


def _statements(passage: Passage) -> Iterator[Probe]:
    supported: dict[Kind, str] = {"copied": passage.text[passage.copied]}
    for kind in _SUPPORTED:
        supported[kind] = getattr(passage, kind)
    for kind, text in supported.items():
        yield Probe(passage.title, kind, 1, _statement(passage, text))
    for kind in _CHANGED:
        change = getattr(passage, kind)
        if change:
            base, old, new = change
            changed = _statement(passage, supported[base].replace(old, new))
            yield Probe(passage.title, kind, 0, changed, changed_from=base)
    for kind in _WRITTEN:
        text = getattr(passage, kind)
        if text:
            yield Probe(passage.title, kind, 0, _statement(passage, text))
    if passage.other is not None:
        [other] = [another for another in passages() if another.title == passage.other]
        yield Probe(passage.title, "other passage", 0, _statement(passage, other.paraphrase))


def _statement(passage: Passage, text: str, *contexts: str) -> Attribution:
    unit = Unit(kind="statement", index=0, source="response", span=Span.whole(text))
    return Attribution(
        unit=unit,
        contexts=contexts or (passage.whole,),
        user_input=passage.question,
    )


def _sentence(passage: Passage, index: int) -> Relevance:
    start = sum(len(sentence) + 1 for sentence in passage.text[:index])
    text = passage.text[index]
    span = Span(start=start, end=start + len(text), text=text)
    unit = Unit(
        kind="sentence",
        index=index,
        source="retrieved_contexts",
        source_index=0,
        span=span,
    )
    return Relevance(unit=unit, user_input=passage.asked, contexts=(passage.whole,))


def _chunk(passage: Passage, question: str) -> Relevance:
    unit = Unit(
        kind="chunk",
        index=0,
        source="retrieved_contexts",
        source_index=0,
        span=Span.whole(passage.whole),
    )
    return Relevance(unit=unit, user_input=question)


def _answer(question: str, sentence: str) -> Relevance:
    unit = Unit(kind="sentence", index=0, source="response", span=Span.whole(sentence))
    return Relevance(unit=unit, user_input=question, contexts=(sentence,), start=0)
