"""Sentences of answers: some answer their question, some evade it, repeat it or answer another."""

import random
import re
import tomllib
from pathlib import Path
from typing import Any


def read_table() -> dict[str, Any]:
    """Read answers.toml, which has the sentences."""
    return tomllib.loads(Path(__file__).with_name("answers.toml").read_text(encoding="utf-8"))


_TABLE = read_table()
REFUSALS: dict[str, list[str]] = _TABLE["refusals"]
REPEATED: dict[str, list[str]] = _TABLE["repeated"]
EMPTY: dict[str, list[str]] = _TABLE["empty"]
VAGUE: dict[str, list[str]] = _TABLE["vague"]
"""By the type of the question, in English."""
VAGUE_ELSEWHERE: dict[str, list[str]] = _TABLE["vague_elsewhere"]
NONE_ANSWERS: dict[str, list[str]] = _TABLE["none_answers"]
YES_NO: dict[str, list[tuple[str, str]]] = _TABLE["yes_no"]
SHORT_ANSWERS: list[str] = _TABLE["answers"]["short"]
LEADS: list[str] = _TABLE["answers"]["leads"]
_MOVED_VERB = 0.6
_AUXILIARY = r"(?:did|does|do|is|are|was|were|has|have|had|can|could|will|would|should)"
_TOPIC_WORDS = 4


def question_type(question: str) -> str:
    """The question's first words: how many, why, when, where, who, how or what."""
    lowered = question.lower()
    for kind in ("how many", "how much", "why", "when", "where", "who", "how"):
        if re.search(rf"\b{kind}\b", lowered):
            return "how many" if kind == "how much" else kind
    if re.search(r"\b(?:what|which) (?:year|date|day|month)\b", lowered):
        return "when"
    return "what"


def answer_type(answer: str) -> str:
    """A year, a number, a name or other words."""
    if re.fullmatch(r"(?:in )?1\d\d\d|(?:in )?20\d\d", answer.lower()):
        return "year"
    if re.search(r"\d", answer):
        return "number"
    if answer[:1].isupper():
        return "name"
    return "words"


def topic(question: str) -> str:
    """What a question is about: its longest run of capitalised words, or its last words."""
    words = question.strip("¿ ").rstrip("? ").split()
    names = re.findall(r"[A-Z][\w'-]+(?: (?:of |the |de )?[A-Z][\w'-]+)*", " ".join(words[1:]))
    if names:
        return str(max(names, key=len))
    return " ".join(words[-_TOPIC_WORDS:])


def indirect(question: str, rng: random.Random) -> str:
    """The question inside a sentence: "how many there were"; often with the verb moved."""
    text = question.strip().rstrip("?").strip()
    match = re.match(rf"(?i)((?:how \w+|wh\w+)) ({_AUXILIARY}) (.+?) (\w+)$", text)
    if match and rng.random() < _MOVED_VERB:
        return f"{match[1].lower()} {match[3]} {match[2]} {match[4]}"
    match = re.match(rf"(?i)({_AUXILIARY}) (.+)$", text)
    if match:
        return f"whether {match[2]}"
    return text[:1].lower() + text[1:]


def fill(pattern: str, question: str, about: str, rng: random.Random) -> str:
    """Write a question and its topic into a sentence. English questions become indirect."""
    asked = question
    if "„" not in pattern and "«" not in pattern and ": {q}" not in pattern:
        asked = indirect(question, rng)
    text = pattern.format(q=asked, Q=question, t=about)
    return text[:1].upper() + text[1:]


def evasion(question: str, about: str, language: str, rng: random.Random) -> str:
    """A sentence that does not answer: a refusal, the question again, or vague words."""
    vague = VAGUE[question_type(question)] if language == "en" else VAGUE_ELSEWHERE[language]
    tables = (REFUSALS[language], REFUSALS[language], REPEATED[language], EMPTY[language], vague)
    pattern = rng.choice(rng.choice(tables))
    return fill(pattern, question, about, rng)


def short_answer(answer: str, rng: random.Random) -> str:
    pattern = rng.choice(SHORT_ANSWERS)
    return pattern.format(a=answer, A=answer[:1].upper() + answer[1:])


def none_answer(question: str, rng: random.Random) -> str | None:
    """An answer that there is none: "It was never built." None for other kinds of questions."""
    choices = NONE_ANSWERS.get(question_type(question))
    if choices is None:
        return None
    return rng.choice(choices)
