"""Sentences that answer a question, rightly or wrongly, and sentences that look as if they did."""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reader_recipe import answers, edits
from reader_recipe.rules import capitalised

FEWEST_STRANGERS = 6
MOST_OF_ONE_LABEL = 3
NEAR_QUESTION = 0.4  # share of shared words from which two questions may ask the same
NEAR_TEXT = 0.5  # share of the question's words from which a like value may be an answer
SURE_WORDS = 2  # words of the question that the sentence of the answer has at least
NEAR_REASON = 0.34  # the same, of questions how and why
NONE_SHARE = 0.4  # of the questions: an answer that there is none
NONE_PLACES = 0.3
NONE_YES_NO = 0.5
REFUSING_SHARE = 0.2  # of true sentences beside the point: behind a refusal
LONGEST_VALUE = 60
LONGEST_WRONG_VALUE = 40
REASON = r"\b(?:because|since|due|as|to|so|for|effort|reason|therefore|by|after)\b"


@dataclass(frozen=True)
class Reply:
    """A sentence of an answer, its label, and what sort of sentence it is."""

    kind: str
    text: str
    label: int


@dataclass(frozen=True)
class Asked:
    """A question with what its paragraph has.

    `others` are the other questions with their answers, `statements` are sentences made of the
    paragraph's questions, each with its question. `elsewhere` are sentences of another paragraph on
    the same subject. `strangers` are answers of other paragraphs, by
    what kind of answer their question wants.
    """

    question: str
    answer: str
    sentences: Sequence[str]
    others: Sequence[tuple[str, str]]
    statements: Sequence[tuple[str, str]]
    elsewhere: Sequence[str]
    strangers: Mapping[tuple[str, str], Sequence[str]]

    @property
    def about(self) -> str:
        return answers.topic(self.question)

    def wrong(self, rng: random.Random) -> str | None:
        """An answer of the kind that the question wants, which is not its answer."""
        kind = answers.wanted(self.question, self.answer)
        if kind[0] in {"how", "why", "what", answers.YES_OR_NO}:
            return None
        if kind[1] == "words" and kind[0].startswith("what"):
            return None
        choices = self.strangers.get(kind, ())
        if len(choices) < FEWEST_STRANGERS:
            return None
        value = rng.choice(choices)
        if answers.may_contain(value, self.answer) or len(value) > LONGEST_WRONG_VALUE:
            return None
        return value.rstrip(",;.")


def squad_replies(asked: Asked, rng: random.Random) -> list[Reply]:
    """Several replies of either label, drawn from all that the paragraph gives."""
    right = list(_right(asked, rng))
    beside = [
        reply
        for reply in [
            *_beside(asked, rng),
            *_of_others(asked, rng),
            *_vague(asked, rng),
            *_short_beside(asked, rng),
        ]
        if not answers.may_contain(reply.text, asked.answer)
        or answers.may_contain(asked.question, asked.answer)
    ]
    evaded = list(_evaded(asked, rng))
    rng.shuffle(right)
    rng.shuffle(beside)
    return right[:MOST_OF_ONE_LABEL] + beside[:MOST_OF_ONE_LABEL] + evaded


def _own_sentence(asked: Asked) -> str | None:
    """The sentence with the answer, if it has enough words of the question."""
    found = [s for s in asked.sentences if answers.has_words(s, asked.answer)]
    words = answers.content_words(asked.question)

    def shared(sentence: str) -> int:
        return len(words & answers.content_words(sentence))

    best = max(found, key=shared, default=None)
    if best is None or shared(best) < SURE_WORDS:
        return None
    return best


def _right(asked: Asked, rng: random.Random) -> Iterator[Reply]:
    """Answers: the sentence of the answer, parts of it, short forms; some with a wrong value."""
    question, answer, about = asked.question, asked.answer, asked.about
    values = [("answer", answer)]
    wrong = asked.wrong(rng)
    if wrong:
        values.append(("answer_wrong", wrong))
        corrected = answers.corrected_answer(answer, wrong, rng)
        yield Reply("answer", corrected, 1)
    for kind, value in values:
        yield from _with_value(asked, kind, value, rng)
    for statement, made_of in asked.statements:
        if made_of == question:
            kind = "answer"
            if not answers.may_contain(statement, answer):
                kind = "answer_wrong"
            yield Reply(kind, answers.framed(statement, question, about, rng), 1)
    if rng.random() < NONE_SHARE:
        yield Reply("answer_none", answers.none_answer(question, about, rng), 1)


def _with_value(asked: Asked, kind: str, value: str, rng: random.Random) -> Iterator[Reply]:
    """Answers with one value, right or wrong."""
    question, answer, about = asked.question, asked.answer, asked.about
    sentence = _own_sentence(asked)
    if len(value) < LONGEST_VALUE:
        yield Reply(kind, answers.short_answer(value, question, about, rng), 1)
        yield Reply(kind, answers.hedged_answer(value, about, rng), 1)
        yield Reply(kind, answers.answer_with_question(value, question, rng), 1)
    statement = answers.answered_stem(question, value)
    if statement:
        yield Reply(kind, answers.framed(statement, question, about, rng), 1)
    if sentence is None:
        return
    said = answers.replace_answer(sentence, answer, value)
    if kind == "answer":
        said = edits.reword(sentence, rng)
    if kind == "answer" and not answers.has_words(said.lower(), answer.lower()):
        said = sentence
    yield Reply(kind, answers.framed(said, question, about, rng), 1)
    part = answers.shortened(said, value)
    if part:
        yield Reply(kind, answers.framed(part, question, about, rng), 1)


def _has_like_value(sentence: str, answer: str) -> bool:
    """Whether a sentence has a year, number or name as the answer does."""
    kind = answers.answer_type(answer)
    if kind == "year":
        return re.search(r"\b(?:1\d\d\d|20\d\d)\b", sentence) is not None
    if kind == "number":
        return re.search(r"\d", sentence) is not None
    return True


def _is_beside(asked: Asked, sentence: str) -> bool:
    """Whether a true sentence surely answers the question no more than by its subject."""
    question, answer = asked.question, asked.answer
    if answers.may_contain(sentence, answer):
        return False
    shared = answers.overlap(question, sentence)
    if answers.question_type(question) in {"how", "why"}:
        return shared < NEAR_REASON or not (shared >= NEAR_TEXT or re.search(REASON, sentence))
    return shared < NEAR_TEXT or not _has_like_value(sentence, answer)


def _beside(asked: Asked, rng: random.Random) -> Iterator[Reply]:
    """True sentences of the paragraph that do not answer, or that answer another question."""
    question, about = asked.question, asked.about
    free = [s for s in asked.sentences if _is_beside(asked, s)]
    chosen: list[str] = []
    if free:
        chosen.append(max(free, key=lambda s: answers.overlap(question, s)))
        chosen.append(rng.choice(free))
    if asked.sentences[:1] == free[:1]:
        chosen += free[:1]
    elsewhere = [s for s in asked.elsewhere if _is_beside(asked, s)]
    if elsewhere:
        chosen.append(rng.choice(elsewhere))
    for text in dict.fromkeys(chosen):
        said = edits.reword(text, rng)
        if rng.random() < REFUSING_SHARE:
            yield Reply("answer_evaded", answers.refusing(said, question, about, rng), 0)
        else:
            yield Reply("answer_other", answers.framed(said, question, about, rng), 0)
        parts = answers.parts_of(text)
        if len(parts) > 1 and len(parts[0]) > edits.SHORTEST_REST:
            part = parts[0].rstrip(",;") + "."
            yield Reply("answer_other", answers.framed(part, question, about, rng), 0)


def _of_others(asked: Asked, rng: random.Random) -> Iterator[Reply]:
    """Answers of other questions of the paragraph, said with their questions."""
    question, answer, about = asked.question, asked.answer, asked.about
    far = [
        (other, value)
        for other, value in asked.others
        if answers.overlap(question, other) < NEAR_QUESTION
        and answers.overlap(other, question) < NEAR_QUESTION
        and not answers.may_contain(value, answer)
    ]
    for statement, made_of in asked.statements:
        if made_of in {other for other, _ in far}:
            yield Reply("answer_other", answers.framed(statement, question, about, rng), 0)
    if far:
        other, value = rng.choice(far)
        stem = answers.answered_stem(other, value)
        if stem:
            yield Reply("answer_other", answers.framed(stem, question, about, rng), 0)
        yield Reply("answer_other", answers.answer_with_question(value, other, rng), 0)


def _vague(asked: Asked, rng: random.Random) -> Iterator[Reply]:
    """The sentence of the answer with vague words in its place, or cut off before it."""
    question, answer, about = asked.question, asked.answer, asked.about
    sentence = _own_sentence(asked)
    said: list[str | None] = []
    if sentence:
        said.append(answers.vague_version(sentence, question, answer, rng))
        said.append(answers.without_answer(sentence, answer))
        part = answers.shortened(sentence, answer)
        if part and len(part) > edits.SHORTEST_REST:
            said.append(answers.vague_version(part, question, answer, rng))
    start = answers.stem(question)
    if start:
        said.append(f"{start}.")
        ends = ["at some point", "for several reasons", "in a certain place", "in some way"]
        said.append(f"{start} {rng.choice(ends)}.")
    if answers.question_type(question) == "who":
        phrase = answers.vague_phrase(question, answer, rng)
        said.append(answers.answered_stem(question, phrase))
    for text in said:
        if text:
            yield Reply("answer_vague", answers.framed(text, question, about, rng), 0)


def _short_beside(asked: Asked, rng: random.Random) -> Iterator[Reply]:
    """Short words that cannot be the answer: of another kind than the question wants."""
    question, about = asked.question, asked.about
    kind = answers.question_type(question)
    own_type = answers.answer_type(asked.answer)
    others = [
        value
        for other, value in asked.others
        if answers.answer_type(value) != own_type
        and answers.question_type(other) != kind
        and len(value) < LONGEST_VALUE
        and _cannot_answer(kind, own_type, answers.question_type(other), value)
    ]
    for value in rng.sample(others, min(2, len(others))):
        yield Reply("answer_other", answers.short_answer(value, question, about, rng), 0)
        yield Reply("answer_other", answers.hedged_answer(value, about, rng), 0)
    if kind in {"when", "why", "how many", "how"} and about[:1].isupper():
        yield Reply("answer_other", answers.short_answer(about, question, about, rng), 0)
    if kind != "how":
        phrase = answers.vague_phrase(question, asked.answer, rng)
        yield Reply("answer_vague", answers.short_answer(phrase, question, about, rng), 0)
        yield Reply("answer_vague", answers.hedged_answer(phrase, about, rng), 0)
        yield Reply("answer_vague", answers.answer_with_question(phrase, question, rng), 0)
    start = answers.stem(question)
    fillers = {"when": ("where", "name"), "where": ("when", "year"), "why": ("when", "year")}
    if start and kind in fillers:
        choices = asked.strangers.get(fillers[kind], ())
        if choices:
            text = f"{start} in {rng.choice(choices)}."
            yield Reply("answer_other", answers.framed(text, question, about, rng), 0)
    designed = re.match(r"Who (\w+ed) (.+?)\??$", question)
    years = asked.strangers.get(("when", "year"), ())
    if designed and years:
        text = f"{capitalised(designed[2])} was {designed[1]} in {rng.choice(years)}."
        yield Reply("answer_other", answers.framed(text, question, about, rng), 0)


def _cannot_answer(kind: str, own_type: str, other_kind: str, value: str) -> bool:
    """Whether a value of another question is of no kind that this question could want."""
    found = answers.answer_type(value)
    if kind == "when":
        return found in {"name", "words"} and other_kind in {"who", "where", "what", "why"}
    if kind == "how many":
        return found in {"name", "words"} and other_kind in {"who", "where", "why", "how"}
    if kind in {"who", "where", "why"}:
        return found in {"year", "number"}
    return found in {"year", "number"} and own_type in {"name", "words"}


def _evaded(asked: Asked, rng: random.Random) -> Iterator[Reply]:
    """Refusals, the question again, empty and vague words."""
    text = answers.evasion(asked.question, asked.about, "en", rng)
    yield Reply("answer_evaded", text, 0)


def yes_no_replies(
    question: str, sentences: Sequence[str], language: str, rng: random.Random
) -> Iterator[Reply]:
    """Yes, no, and neither, with and without sentences of the passage."""
    about = answers.topic(question)
    kind = answers.YES_OR_NO
    said = rng.choice(rng.choice(answers.YES_NO[language])).format(t=about)
    yield Reply("answer_yes_no", capitalised(said), 1)
    yield Reply("answer_yes_no", answers.evasion(question, about, language, rng, kind), 0)
    if rng.random() < NONE_YES_NO:
        none = answers.none_answer(question, about, rng, language, kind)
        yield Reply("answer_yes_no", none, 1)
    statement = answers.yes_no_statement(question, rng.choice(("", " not")))
    if statement:
        framed = answers.framed(statement, question, about, rng, language)
        yield Reply("answer_yes_no", framed, 1)
    near = sorted(sentences, key=lambda s: -answers.overlap(question, s))
    if near:
        start = rng.choice(("Yes, ", "No, ", "Yes: ", "No: ", "Probably not; ", "Yes, since "))
        rest = re.sub(r"^(?:However|Therefore|Thus|Moreover), ", "", near[0])
        yield Reply("answer_yes_no", start + answers.lowered(rest), 1)
        refusing = answers.refusing(near[0], question, about, rng, language)
        yield Reply("answer_yes_no", refusing, 0)
    far = [s for s in near if answers.overlap(question, s) < NEAR_TEXT / 2]
    if far and len(sentences) > SURE_WORDS:
        text = rng.choice(far)
        yield Reply("answer_yes_no", answers.framed(text, question, about, rng, language), 0)


class Places:
    """Facts about places in four languages: what they are asked, and what answers it."""

    def __init__(self, language: str, rng: random.Random) -> None:
        self._rng = rng
        self._language = language
        self._table = answers.SUBJECTS[language]

    def _name(self) -> str:
        town = self._rng.choice(self._table["towns"])
        name: str = self._rng.choice(self._table["objects"])
        return name.format(c=town)

    def _value(self, family: Mapping[str, Any]) -> str:
        low, high = family.get("numbers", (10, 99))
        number = self._rng.randint(low, high)
        value: str = self._rng.choice(family["values"])
        return value.format(n=number)

    def _write(self, pattern: str, name: str, value: str = "") -> str:
        text = pattern.format(o=name, v=value)
        if self._language == "es":
            text = text.replace(" de el ", " del ")
        return capitalised(text)

    def _say(self, family: Mapping[str, Any], name: str) -> str:
        """One fact: a value, or yes or no."""
        patterns = family["says"]
        if "denies" in family:
            patterns = self._rng.choice((family["says"], family["denies"]))
            return self._write(self._rng.choice(patterns), name)
        return self._write(self._rng.choice(patterns), name, self._value(family))

    def _say_vaguely(self, family: Mapping[str, Any], name: str) -> str:
        vague = self._rng.choice(family["vague"])
        if "denies" in family:
            return self._write(vague, name)
        return self._write(self._rng.choice(family["says"]), name, vague)

    def replies(self) -> tuple[str, list[Reply]]:
        """A question with replies of both labels."""
        rng, language = self._rng, self._language
        family, second, third = rng.sample(self._table["family"], 3)
        name, other = self._name(), self._name()
        question = self._write(rng.choice(family["asks"]), name)
        kind = family["kind"]
        said = [self._say(family, name), self._say(family, name)]
        if "denies" in family:
            said.append(rng.choice(rng.choice(answers.YES_NO[language])).format(t=name))
        else:
            said.append(capitalised(self._value(family)) + ".")
        beside = [self._say(second, name), self._say(third, name)]
        beside.append(self._say_vaguely(family, name))
        if other != name:
            beside.append(self._say(family, other))
        if "denies" not in second:
            value = self._value(second)
            if second["kind"] != kind:
                beside.append(capitalised(value) + ".")
        evasion = answers.evasion(question, name, language, rng, kind)
        refusal = answers.refusing(self._say(second, name), question, name, rng, language)
        replies = [Reply("answer_places", rng.choice((evasion, refusal)), 0)]
        none = answers.none_answer(question, name, rng, language, kind)
        if rng.random() < NONE_PLACES:
            replies.append(Reply("answer_places", none, 1))
        for text in said:
            framed = answers.framed(text, question, name, rng, language)
            replies.append(Reply("answer_places", framed, 1))
        for text in rng.sample(beside, 3):
            framed = answers.framed(text, question, name, rng, language)
            replies.append(Reply("answer_places", framed, 0))
        return question, replies
