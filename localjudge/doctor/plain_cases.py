"""Check that a judge is right on easy cases, far beyond chance.

a statement copied from its context         -> 1
a sentence about something else             -> 0
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Literal

from localjudge.doctor.examinee import ENOUGH_MASS, THRESHOLD, Examinee
from localjudge.doctor.health_check import ANOTHER_JUDGE, HealthCheck, failed, warning
from localjudge.judge.wording import PromptWriter
from localjudge.stats.interval import binomial_cdf
from localjudge.types import (
    Answer,
    Attribution,
    Label,
    NoAnswer,
    Record,
    Relevance,
    Span,
    Task,
    Unit,
)

ENOUGH_RIGHT = 0.8
"""Required share of right answers to obvious cases, with or without injections. Of 16: 13."""
_CHANCE = 0.05


class Case(Record):
    """A question with an obvious answer.

    Attribution of the statement to the context, or relevance of the passage, or its sentence, to
    the question.
    """

    context: str | None = None
    passage: str | None = None
    question: str
    statement: str | None = None
    answer: Label = 0

    @property
    def about(self) -> Literal["attribution", "relevance"]:
        return "relevance" if self.context is None else "attribution"

    @property
    def task(self) -> Task:
        if self.context is not None:
            return self._attribution(self.context)
        passage = self.passage or ""
        text = self.statement or passage
        start = passage.index(text)
        unit = Unit(
            kind="sentence" if self.statement else "chunk",
            index=0,
            source="retrieved_contexts",
            source_index=0,
            span=Span(start=start, end=start + len(text), text=text),
        )
        contexts = (passage,) if self.statement else ()
        return Relevance(unit=unit, user_input=self.question, contexts=contexts)

    def _attribution(self, context: str) -> Attribution:
        span = Span.whole(self.statement or "")
        unit = Unit(kind="statement", index=0, source="reference", span=span)
        return Attribution(unit=unit, contexts=(context,), user_input=self.question)


@cache
def read_cases(name: str) -> dict[str, Any]:
    """Read a TOML file of this folder."""
    return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


@cache
def plain_cases() -> tuple[Case, ...]:
    return tuple(map(Case.model_validate, read_cases("plain_cases.toml")["case"]))


def plain_tasks(writer: PromptWriter) -> list[Task]:
    """Return the questions of the plain cases that the judge's prompts cover."""
    tasks = [case.task for case in plain_cases()]
    return [task for task in tasks if writer.has_words_for(task)]


def min_right_beyond_chance(cases: int) -> int:
    """Return the number of right answers that guessing reaches with probability at most .05.

    It is 12 of 16 cases. One-sided exact binomial test against 1/2. With balanced labels, a
    constant judge passes no more often than a coin. Source: W. Hoeffding (1956), Annals of Mathem.
    Statistics 27.
    """
    for right in range(cases + 1):
        if binomial_cdf(cases - right, cases)(0.5) <= _CHANCE:
            return right
    return cases + 1


def check_plain_cases(judge: Examinee) -> HealthCheck:
    cases = [case for case in plain_cases() if judge.writer.has_words_for(case.task)]
    if not cases:
        finding = "none: this judge's prompts cover neither statements nor sentences"
        advice = "compare its verdicts with labels of your own"
        return warning("plain cases", finding, advice, cases=0)
    answers = judge.answer([judge.writer.request(case.task) for case in cases])
    labels = [_read_label(answer) for answer in answers]
    wrong = []
    for case, label in zip(cases, labels, strict=True):
        if label != case.answer:
            wrong.append(case.statement)
    right = len(cases) - len(wrong)
    needed = min_right_beyond_chance(len(cases))
    masses = [answer.valid_mass for answer in answers if isinstance(answer, Answer)]
    figures = {
        "cases": len(cases),
        "right": right,
        "wrong": wrong,
        "min_right_beyond_chance": needed,
        "min_valid_mass": min(masses, default=None),
    }
    finding = f"{right} of {len(cases)} obvious cases right, {labels.count(1)} judged 1"
    errors = [answer.error for answer in answers if isinstance(answer, NoAnswer)]
    if errors:
        finding += f"; {len(errors)} without an answer: {errors[0]}"
    if right < needed:
        finding += f"; not better than guessing ({needed} needed): its verdicts are meaningless"
        return failed("plain cases", finding, f"{ANOTHER_JUDGE}, or check your prompts", **figures)
    finding += f"; probability of valid answers at least {100 * min(masses):.3g} %"
    is_poor = right < ENOUGH_RIGHT * len(cases) or min(masses) < ENOUGH_MASS
    return warning("plain cases", finding, ANOTHER_JUDGE, when=is_poor, **figures)


def _read_label(answer: Answer | NoAnswer) -> int | None:
    if isinstance(answer, NoAnswer):
        return None
    return int(answer.p_yes >= THRESHOLD)
