"""Sentences of answers: some answer their question, some evade it, repeat it or answer another."""

import random
import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

from reader_recipe.rules import capitalised


def read_table() -> dict[str, Any]:
    """Read answers.toml, which has the sentences."""
    return tomllib.loads(Path(__file__).with_name("answers.toml").read_text(encoding="utf-8"))


_TABLE = read_table()
QUESTION_WORDS: dict[str, dict[str, list[str]]] = _TABLE["question_words"]
REFUSALS: dict[str, list[str]] = _TABLE["refusals"]
REPEATED: dict[str, list[str]] = _TABLE["repeated"]
EMPTY: dict[str, list[str]] = _TABLE["empty"]
VAGUE: dict[str, dict[str, list[str]]] = _TABLE["vague"]
"""By language and type of the question."""
VAGUE_WORDS: dict[str, list[str]] = _TABLE["vague_words"]
VAGUE_VALUES: dict[str, dict[str, list[str]]] = _TABLE["vague_values"]
NONE_ANSWERS: dict[str, dict[str, list[str]]] = _TABLE["none_answers"]
YES_NO: dict[str, list[tuple[str, str]]] = _TABLE["yes_no"]
SHORT_ANSWERS: list[str] = _TABLE["answers"]["short"]
HEDGED: list[str] = _TABLE["answers"]["hedged"]
WITH_QUESTION: list[str] = _TABLE["answers"]["with_question"]
WRONG_RIGHT: list[str] = _TABLE["answers"]["wrong_right"]
FRAMES: dict[str, list[str]] = _TABLE["frames"]
REFUSING: dict[str, list[str]] = _TABLE["refusing"]
SUBJECTS: dict[str, dict[str, Any]] = _TABLE["subjects"]
_WORDS: dict[str, list[str]] = _TABLE["words"]
_NO_TOPIC = frozenset(_WORDS["no_topic"])
_SMALL_WORDS = frozenset(_WORDS["small"])
_EMPTY_WORDS = frozenset(_WORDS["empty"])
_NO_NOUNS = frozenset(_WORDS["no_nouns"])
FRAMED = 0.45  # of the sentences, of either label
YES_OR_NO = "yes or no"
_MOVED_VERB = 0.6
_AUXILIARY = r"(?:did|does|do|is|are|was|were|has|have|had|can|could|will|would|should)"
_TYPES = {
    "how many": r"how (?:much|long|old|far|tall|high|large|big|fast|often|deep|wide|heavy|many)",
    "why": "why",
    "when": "when",
    "where": "where",
    "who": "who",
    "how": "how",
}
_TIME = r"\b(?:what|which) (?:year|date|day|month)\b"
_PARTICIPLE = r"\w+ed|built|born|made|held|found|written|known|sold|won|given|taken|begun|set|sent"
_TOPIC_WORDS = 4
_PRONOUN = "(?:it|you|i|we|they|he|she|there|someone|people|this|that|one)"


def _type_elsewhere(lowered: str, language: str) -> str:
    for kind, beginnings in QUESTION_WORDS[language].items():
        if re.search(rf"\b(?:{'|'.join(beginnings)})\w{{0,2}}\b", lowered):
            return kind
    asks_what = re.match(r"¿?(?:à |en |mit |con )?(?:welch|was|qu|cuál)", lowered)
    if asks_what and not lowered.startswith("qu'"):
        return "what"
    return YES_OR_NO


def question_type(question: str, language: str = "en") -> str:
    """The question's first words: how many, why, when, where, who, how, what, or yes or no."""
    lowered = question.lower()
    if language != "en":
        return _type_elsewhere(lowered, language)
    if re.match(_AUXILIARY + r"\b|may\b", lowered) and not re.search(r"\b(?:wh|how\b)", lowered):
        return YES_OR_NO
    for kind, pattern in _TYPES.items():
        if re.search(rf"\b(?:{pattern})\b", lowered):
            return kind
    if re.search(_TIME, lowered):
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


@lru_cache(maxsize=4096)
def content_words(text: str) -> frozenset[str]:
    """Words of three letters or more, without those that a question is made of."""
    return frozenset(re.findall(r"\w{3,}", text.lower())) - _EMPTY_WORDS


def overlap(question: str, text: str) -> float:
    """The share of the question's words that a text has."""
    words = content_words(question)
    return len(words & content_words(text)) / max(1, len(words))


def has_words(text: str, answer: str) -> bool:
    """Whether a text has an answer as whole words."""
    start = text.find(answer)
    while start >= 0:
        end = start + len(answer)
        if not text[:start][-1:].isalnum() and not text[end : end + 1].isalnum():
            return True
        start = text.find(answer, start + 1)
    return False


def may_contain(text: str, answer: str) -> bool:
    """Whether a text has an answer, or half of its words, in any case."""
    words = content_words(answer)
    shared = len(words & content_words(text))
    return has_words(text.lower(), answer.lower()) or (shared > 0 and 2 * shared >= len(words))


def topic(question: str) -> str:
    """What a question is about: its longest run of capitalised words, or its last words."""
    words = question.strip("¿ ").rstrip("? ").split()
    found = re.findall(r"[A-Z][\w'-]+(?: (?:of |the |de )?[A-Z][\w'-]+)*", " ".join(words[1:]))
    names = [name for name in found if name.lower() not in _NO_TOPIC]
    if names:
        return str(max(names, key=len))
    words = [word for word in words if word.lower() not in _NO_TOPIC]
    return " ".join(words[-_TOPIC_WORDS:])


def indirect(question: str, rng: random.Random) -> str:
    """The question inside a sentence: "how many there were"; often with the verb moved."""
    text = question.strip().rstrip("?").strip()
    match = re.match(rf"(?i)((?:how \w+|wh\w+)) ({_AUXILIARY}) (.+?) (\w+)$", text)
    if match and rng.random() < _MOVED_VERB:
        is_form = match[2].lower() in {"is", "are", "was", "were"}
        if is_form and not re.fullmatch(_PARTICIPLE, match[4]):
            return f"{match[1].lower()} {match[3]} {match[4]} {match[2]}"
        return f"{match[1].lower()} {match[3]} {match[2]} {match[4]}"
    statement = yes_no_statement(question)
    if statement:
        return "whether " + statement.lower().rstrip(".")
    match = re.match(rf"(?i)({_AUXILIARY}) (.+)$", text)
    if match:
        return f"whether {match[2]}"
    return text[:1].lower() + text[1:]


def yes_no_statement(question: str, end: str = "") -> str | None:
    """What "is it open?" asks about: "It is open.". None unless it asks about a pronoun.

    `end` follows the verb: " not".
    """
    text = question.strip().rstrip("?").strip()
    match = re.match(rf"(?i)({_AUXILIARY}) ({_PRONOUN}) (.+)$", text)
    if match is None:
        return None
    verb = match[1].lower()
    if verb == "do" and not end:
        return capitalised(f"{match[2]} {match[3]}.")
    return capitalised(f"{match[2]} {verb}{end} {match[3]}.")


def fill(pattern: str, question: str, about: str, rng: random.Random, sentence: str = "") -> str:
    """Write a question, its topic and a sentence into a pattern. English questions get indirect."""
    asked = question
    if not re.search(r"„\{q|[«“] ?\{q|: \{q", pattern):
        asked = indirect(question, rng)
    whole = sentence
    if not pattern.endswith(("S}", "s}")):
        whole = sentence.rstrip(".")
    text = pattern.format(q=asked, Q=question, t=about, s=lowered(whole), S=capitalised(whole))
    return capitalised(text)


def lowered(sentence: str) -> str:
    """Begin with a small letter, where the first word is surely no name."""
    if sentence.split(" ", 1)[0] in _SMALL_WORDS:
        return sentence[0].lower() + sentence[1:]
    return sentence


def framed(
    sentence: str, question: str, about: str, rng: random.Random, language: str = "en"
) -> str:
    """A sentence as it is, or with a preface or an end that says nothing about its label."""
    if rng.random() > FRAMED:
        return sentence
    return fill(rng.choice(FRAMES[language]), question, about, rng, sentence)


def refusing(
    sentence: str, question: str, about: str, rng: random.Random, language: str = "en"
) -> str:
    """A refusal that goes on with a sentence beside the point."""
    return fill(rng.choice(REFUSING[language]), question, about, rng, sentence)


def evasion(question: str, about: str, language: str, rng: random.Random, kind: str = "") -> str:
    """A sentence that does not answer: a refusal, the question again, or vague words."""
    vague = VAGUE[language][kind or question_type(question, language)]
    tables = (REFUSALS[language], REFUSALS[language], REPEATED[language], EMPTY[language], vague)
    return fill(rng.choice(rng.choice(tables)), question, about, rng)


def short_answer(answer: str, question: str, about: str, rng: random.Random) -> str:
    pattern = rng.choice(SHORT_ANSWERS)
    asked = indirect(question, rng)
    return capitalised(pattern.format(a=answer, A=capitalised(answer), t=about, q=asked))


def hedged_answer(answer: str, about: str, rng: random.Random) -> str:
    """An answer in words that look like a refusal."""
    pattern = rng.choice(HEDGED)
    return capitalised(pattern.format(a=answer, A=capitalised(answer), t=about))


def answer_with_question(answer: str, question: str, rng: random.Random) -> str:
    pattern = rng.choice(WITH_QUESTION)
    return capitalised(pattern.format(a=answer, q=indirect(question, rng), Q=question))


def corrected_answer(answer: str, wrong: str, rng: random.Random) -> str:
    """An answer that sets itself against another one."""
    pattern = rng.choice(WRONG_RIGHT)
    return pattern.format(a=answer, A=capitalised(answer), b=wrong)


def none_answer(
    question: str, about: str, rng: random.Random, language: str = "en", kind: str = ""
) -> str:
    """An answer that there is none: "It was never built."."""
    choices = NONE_ANSWERS[language][kind or question_type(question, language)]
    return capitalised(rng.choice(choices).format(t=about))


def vague_phrase(question: str, answer: str, rng: random.Random) -> str:
    """What can stand in the place of an answer without answering."""
    kind = question_type(question)
    found = answer_type(answer)
    noun = re.search(r"\b(?:[Ww]hat|[Ww]hich) ([a-z]{4,}) (?:did|does|do|is|was|has)\b", question)
    if found == "year":
        key = "year"
    elif kind == "when":
        key = "time"
    elif kind == "who":
        key = "person"
    elif kind == "where":
        key = "place"
    elif found == "number" and re.fullmatch(r"[\d.,]+", answer):
        key = "count"
    elif found == "number" or kind == "how many":
        key = "amount"
    elif noun and noun[1] not in _NO_NOUNS:
        return rng.choice(VAGUE_WORDS["noun"]).format(n=noun[1])
    else:
        key = "other"
    return rng.choice(VAGUE_WORDS[key])


def replace_answer(sentence: str, answer: str, new: str) -> str:
    """Put other words in the place of an answer and of its article."""
    article = r"(?:\b(?:the|a|an|The|A|An) )?"
    if re.match(r"\d", new) or answer_type(answer) in {"year", "number"}:
        article = ""
    text = re.sub(rf"{article}(?<!\w){re.escape(answer)}(?!\w)", lambda _: new, sentence)
    return capitalised(text)


def vague_version(sentence: str, question: str, answer: str, rng: random.Random) -> str | None:
    """The sentence of an answer without it: vague words stand in its place."""
    if question_type(question) in {"why", "how"}:
        before, found, after = sentence.partition(answer)
        match = re.search(r" (?:because|due to|since|by|in order to) [^,;]*$", before)
        if not found or not match:
            return None
        phrase = rng.choice(VAGUE_WORDS["cause"])
        if question_type(question) == "how":
            phrase = "in a certain way"
        return f"{before[: match.start()]} {phrase}{after}"
    text = replace_answer(sentence, answer, vague_phrase(question, answer, rng))
    if may_contain(text, answer):
        return None
    return text


def parts_of(sentence: str) -> list[str]:
    return re.split(r"(?<=[,;]) ", sentence.rstrip("."))


def shortened(sentence: str, answer: str) -> str | None:
    """The part of a sentence, between two commas, that has the answer."""
    parts = parts_of(sentence)
    found = [part for part in parts if has_words(part, answer)]
    if len(parts) == 1 or not found:
        return None
    text = re.sub(r"^(?:and|but|which|who|while|where|that) ", "", found[0].strip(" ,;"))
    return capitalised(text) + "."


def without_answer(sentence: str, answer: str) -> str | None:
    """A sentence without its last part, if that has the answer."""
    parts = parts_of(sentence)
    if len(parts) == 1:
        return None
    rest = " ".join(parts[:-1]).rstrip(",;")
    if may_contain(rest, answer) or not has_words(parts[-1], answer):
        return None
    return rest + "."


def stem(question: str) -> str | None:
    """What "when was it built?" takes for granted: "it was built"; None for other questions."""
    text = question.strip().rstrip("?").strip()
    asked = "(?:when|where|why|how|in (?:what|which) year)"
    match = re.match(rf"(?i){asked} (was|were|is|are) (.+) ({_PARTICIPLE})$", text)
    if match is None:
        return None
    return capitalised(f"{match[2]} {match[1]} {match[3]}")


def answered_stem(question: str, answer: str) -> str | None:
    """The question as a statement with an answer, for questions that are turned with ease."""
    text = question.strip().rstrip("?").strip()
    rest = re.match(rf"Who (?!{_AUXILIARY}\b)(\w{{3,}} .+)$", text)
    if rest:
        return f"{capitalised(answer)} {rest[1]}."
    was = re.match(r"(?:What|Who) (is|was|are|were) (the .+)$", text)
    if was:
        return f"{capitalised(was[2])} {was[1]} {answer}."
    start = stem(question)
    kind = question_type(question)
    if start and kind in {"when", "where"} and answer_type(answer) in {"year", "name"}:
        return f"{start} in {answer}."
    return None


def wanted(question: str, answer: str) -> tuple[str, str]:
    """What kind of answer a question wants: two questions with one kind can swap answers."""
    kind = question_type(question)
    if kind == "what":
        noun = re.search(r"(?i)\b(?:what|which) ([a-z]{4,})", question)
        if noun and noun[1].lower() not in _NO_NOUNS:
            kind = f"what {noun[1].lower()}"
    return kind, answer_type(answer)
