"""Training rows for the judge: a context, a question or none, a statement, and whether the context supports it.

Three sources: rows labelled by people, SQuAD answers (right, and wrong of the same kind), and sentences of prose
(unchanged, and with a number, a name, a word or a negation changed). The standard library only.
"""

import gzip
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

Line = dict[str, Any]

LABELLED_FILE = "attribution.train.large.jsonl.gz"
ANSWERS_FILE = "train_qa.jsonl.gz"
PROSE_FILE = "train_prose.jsonl.gz"
NON_COMMERCIAL = ("anli",)
HELD_OUT = ("summedits", "wice", "feversym", "attributionbench", "begin", "expertqa")
"""Beginnings of the names of data sets that are also in the development data, or contained in one of them."""

WITHOUT_QUESTION, WITH_QUESTION, BARE_ANSWER = 0.5, 0.3, 0.3
"""Chances: a labelled row loses its question, a sentence made of an answer keeps it, an answer makes no sentence."""
AS_IT_IS, NEGATED, LARGER = 0.5, 0.15, 0.5
"""Chances: a sentence is not shortened, a negation is the change, a changed number grows."""
LONGEST_ANSWER = 12
"""Words of an answer that may become part of a sentence."""
SHORTEST, LONGEST = 40, 300
"""Characters of a sentence."""
SMALL = 20
"""Smaller numbers change by steps, larger ones by a share."""


class Row(NamedTuple):
    """One statement to judge. `label` is 1 if the context supports the statement, 0 if not."""

    dataset: str
    context: str
    question: str | None
    statement: str
    label: int


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the objects of a JSON Lines file, compressed or not."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        yield from map(json.loads, lines)


def labelled_rows(path: Path, left_out: tuple[str, ...], rng: random.Random) -> Iterator[Row]:
    """Yield human-labelled rows of the data sets that may be used for training."""
    for line in read_lines(path):
        if line["dataset"].startswith((*NON_COMMERCIAL, *left_out)):
            continue
        question, statement = line["question"], line["statement"]
        if line["dataset"] == "multirc":
            question, statement = question_and_answer(statement, rng)
        elif rng.random() < WITHOUT_QUESTION:
            question = None
        yield Row(family(line["dataset"]), line["context"], question, statement, line["label"])


def family(dataset: str) -> str:
    """Return the name under which parts of a data set are mixed: MCTest has two parts."""
    return "mctest" if dataset.startswith("mc") else dataset


def question_and_answer(statement: str, rng: random.Random) -> tuple[str | None, str]:
    """Split "Question: ... Answer: ..." into a question and a statement."""
    question, _, answer = statement.removeprefix("Question: ").partition(" Answer: ")
    return as_statement(question, answer, rng)


def as_statement(question: str, answer: str, rng: random.Random) -> tuple[str | None, str]:
    """Return a question and a statement that answers it: a sentence if the question allows one, else the answer."""
    sentence = to_sentence(question, answer)
    if sentence is None or rng.random() < BARE_ANSWER:
        return question.strip(), answer.strip()
    return (question.strip() if rng.random() < WITH_QUESTION else None), sentence


_VERBS = r"wrote|won|led|made|became|built|gave|took|ran|began|sang|said|held|lost|found|told|met|went|saw|\w{3,}ed"
_SUBJECT_QUESTION = re.compile(
    r"(?:(?:who|what) (?P<copula>is|was|are|were)|"
    rf"(?:who|what|which(?: \w+)?|what \w+) (?P<verb>{_VERBS})) (?P<rest>.+)",
    re.I,
)
_UNFINISHED = re.compile(r"\b(called|named|known|for|of|in|to|at|by|from|with|about|on|as|like|doing|used|born)$", re.I)
_PRONOUN = re.compile(r"(he|she|it|they|we|you|i|there|this|these|those|his|her|their|its)\b", re.I)


def to_sentence(question: str, answer: str) -> str | None:
    """Return the sentence that puts the answer in the place of "who" or "what", or None where that is not safe.

    >>> to_sentence("Who wrote Emma?", "Jane Austen")
    'Jane Austen wrote Emma.'
    """
    match = _SUBJECT_QUESTION.fullmatch(question.strip().rstrip("? "))
    if (
        match is None
        or _UNFINISHED.search(match["rest"])
        or _PRONOUN.match(match["rest"])
        or len(answer.split()) > LONGEST_ANSWER
    ):
        return None
    answer = answer.strip().rstrip(".")
    if not answer:
        return None
    return f"{answer[0].upper()}{answer[1:]} {match['copula'] or match['verb']} {match['rest']}."


_MONTH = re.compile(r"\b(Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sep|Oct|Nov|Dec)[a-z]*\b")


def kind_of(answer: str) -> str:
    """Return which kind of answer a text is: year, date, number, name or phrase."""
    if re.fullmatch(r"\d{4}", answer):
        return "year"
    if re.search(r"\d", answer):
        return "date" if _MONTH.search(answer) else "number"
    return "name" if answer[:1].isupper() else "phrase"


def overlaps(text: str, other: str) -> bool:
    """Return whether one text contains the other, or they share a word of four letters or more."""
    text, other = text.lower(), other.lower()
    return text in other or other in text or bool({*re.findall(r"\w{4,}", text)} & {*re.findall(r"\w{4,}", other)})


def answer_rows(paragraphs: Iterable[Line], rng: random.Random, *, per_paragraph: int = 4) -> Iterator[Row]:
    """Yield SQuAD questions with the right answer and with a wrong one of the same kind.

    The wrong answer belongs to another question of the paragraph if one fits, else to an earlier paragraph.
    """
    pool: dict[str, list[str]] = defaultdict(list)
    for paragraph in paragraphs:
        pairs = [(qa["question"], qa["answer"]) for qa in paragraph["qas"] if qa["answer"]]
        answers = [answer for _, answer in pairs]
        for question, answer in rng.sample(pairs, min(per_paragraph, len(pairs))):
            wrong = wrong_answer(question, answer, answers, pool, rng)
            for candidate, label in ((answer, 1), (wrong, 0)):
                if candidate is not None:
                    yield Row("squad", paragraph["context"], *as_statement(question, candidate, rng), label)
        for answer in answers:
            pool[kind_of(answer)].append(answer)


def wrong_answer(
    question: str, answer: str, answers: list[str], pool: dict[str, list[str]], rng: random.Random
) -> str | None:
    """Return an answer of the same kind that shares no word with the right one or the question, or None."""
    kind = kind_of(answer)
    for candidates in (answers, pool[kind][-400:]):
        fitting = [
            other
            for other in candidates
            if kind_of(other) == kind and not overlaps(other, answer) and other.lower() not in question.lower()
        ]
        if fitting:
            return rng.choice(fitting)
    return None


def prose_rows(paragraphs: Iterable[Line], rng: random.Random, *, per_paragraph: int = 3) -> Iterator[Row]:
    """Yield sentences of each paragraph, and the same sentences with one change that the paragraph does not support."""
    earlier = ""
    for paragraph in paragraphs:
        text = paragraph["text"]
        candidates = [sentence for sentence in sentences(text) if SHORTEST <= len(sentence) <= LONGEST]
        for sentence in rng.sample(candidates, min(per_paragraph, len(candidates))):
            statement = shorten(sentence, rng)
            changed = change(statement, text, earlier, rng)
            if changed is not None:
                yield Row("changed", text, None, statement, 1)
                yield Row("changed", text, None, changed, 0)
        earlier = text


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, cut after ., ! or ? before a capital letter."""
    return re.split(r"(?<=[a-z\d)\"][.!?])\s+(?=[A-Z\"])", text.strip())


def shorten(sentence: str, rng: random.Random) -> str:
    """Return the sentence, or with a half chance without its brackets and without what follows its first clause."""
    if rng.random() < AS_IT_IS:
        return sentence
    shorter = re.sub(r" ?\([^()]*\)", "", sentence)
    clause = re.match(r"(.{40,}?),? (which|who|where|while|whereas|but) ", shorter)
    return f"{clause[1]}." if clause else shorter


def change(sentence: str, text: str, other_text: str, rng: random.Random) -> str | None:
    """Return the sentence with one small change of its meaning, or None if no kind of change applies.

    A negation is rare, so that "not" does not become the sign of an unsupported statement.
    """
    kinds = [change_number, change_name, change_word]
    rng.shuffle(kinds)
    if rng.random() < NEGATED:
        kinds.insert(0, change_negation)
    for make in kinds:
        changed = make(sentence, text, other_text, rng)
        if changed is not None and changed not in text:
            return changed
    return None


def change_number(sentence: str, text: str, _other: str, rng: random.Random) -> str | None:
    """Replace a number by another one, near it, that is not in the text."""
    matches = list(re.finditer(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?![\w])", sentence))
    if not matches:
        return None
    match = rng.choice(matches)
    digits = match[0].rstrip(",").replace(",", "")
    value = float(digits)
    is_year = re.fullmatch(r"1\d{3}|20\d{2}", digits)
    step = (
        rng.choice([1, 2, 3, 5, 10]) if is_year or value < SMALL else max(1, round(value * rng.choice([0.1, 0.2, 0.5])))
    )
    new = value + step if value <= step or rng.random() < LARGER else value - step
    decimals = len(digits.partition(".")[2])
    written = f"{new:,.{decimals}f}" if "," in match[0].rstrip(",") else f"{new:.{decimals}f}"
    if re.search(rf"(?<!\d){re.escape(written)}(?!\d)", text):
        return None
    tail = "," if match[0].endswith(",") else ""
    return sentence[: match.start()] + written + tail + sentence[match.end() :]


_NAME = re.compile(r"(?<=[a-z,;)] )[A-Z][a-z]+(?: [A-Z][a-z]+)*")


def change_name(sentence: str, text: str, other_text: str, rng: random.Random) -> str | None:
    """Replace a name by another one of the text or of the text before it."""
    here = _NAME.findall(sentence)
    if not here:
        return None
    name = rng.choice(here)
    for source in (text, other_text):
        others = sorted({other for other in _NAME.findall(source) if not overlaps(other, sentence)})
        alike = [other for other in others if len(other.split()) == len(name.split())]
        if alike:
            return sentence.replace(name, rng.choice(alike), 1)
    return None


_PAIRS = """
    increase/decrease increased/decreased increases/decreases more/less most/least higher/lower highest/lowest
    larger/smaller largest/smallest first/last before/after north/south east/west northern/southern eastern/western
    older/younger oldest/youngest won/lost above/below always/never many/few major/minor early/late earlier/later
    began/ended beginning/end best/worst better/worse longer/shorter longest/shortest only/also rise/fall rose/fell
    male/female men/women father/mother son/daughter brother/sister husband/wife inside/outside same/different
    positive/negative public/private rich/poor strong/weak success/failure successful/unsuccessful with/without
    allowed/forbidden accepted/rejected support/oppose supported/opposed old/new hot/cold left/right few/most
    improve/worsen improved/worsened high/low all/none greater/smaller faster/slower include/exclude day/night
"""
_OPPOSITES = dict(pair.split("/") for pair in _PAIRS.split())
_OPPOSITES |= {b: a for a, b in _OPPOSITES.items()}


def change_word(sentence: str, _text: str, _other: str, rng: random.Random) -> str | None:
    """Replace a word by its opposite."""
    matches = [match for match in re.finditer(r"\b[a-z]+\b", sentence) if match[0] in _OPPOSITES]
    if not matches:
        return None
    match = rng.choice(matches)
    return sentence[: match.start()] + _OPPOSITES[match[0]] + sentence[match.end() :]


_AUXILIARY = re.compile(r" (is|was|are|were|has been|have been|had been|can|could|will|would|did|does|do|should|may) ")


def change_negation(sentence: str, _text: str, _other: str, rng: random.Random) -> str | None:
    """Remove "not", or insert it after an auxiliary verb."""
    if " not " in sentence:
        return sentence.replace(" not ", " ", 1)
    matches = list(_AUXILIARY.finditer(sentence))
    if not matches:
        return None
    match = rng.choice(matches)
    verb, _, rest = match[1].partition(" ")
    return f"{sentence[: match.start()]} {verb} not {rest}{' ' * bool(rest)}{sentence[match.end() :]}"
