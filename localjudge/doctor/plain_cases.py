"""Check that a judge is right on easy cases, far beyond chance.

a statement copied from its context         -> 1
a sentence about something else             -> 0
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Literal

from localjudge.doctor.check_result import ANOTHER_JUDGE, CheckResult, failed, warn_if, warning
from localjudge.doctor.examinee import ENOUGH_MASS, THRESHOLD, Examinee
from localjudge.judge.wording import PromptWriter
from localjudge.stats.distributions import binomial_cdf
from localjudge.types import (
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
        if self.context is None:
            return "relevance"
        return "attribution"

    @property
    def task(self) -> Task:
        if self.context is not None:
            return self._ask_attribution(self.context)
        passage = self.passage or ""
        if self.statement is None:
            return self._ask_relevance(Span.whole(passage))
        start = passage.index(self.statement)
        span = Span(start=start, end=start + len(self.statement), text=self.statement)
        return self._ask_relevance(span, passage)

    def _ask_attribution(self, context: str) -> Attribution:
        span = Span.whole(self.statement or "")
        unit = Unit(kind="statement", index=0, source="reference", span=span)
        return Attribution(unit=unit, contexts=(context,), user_input=self.question)

    def _ask_relevance(self, span: Span, *passages: str) -> Relevance:
        """Ask about a sentence in its passage, or about a whole passage without another text."""
        kind: Literal["sentence", "chunk"] = "chunk"
        if passages:
            kind = "sentence"
        unit = Unit(kind=kind, index=0, source="retrieved_contexts", source_index=0, span=span)
        return Relevance(unit=unit, user_input=self.question, contexts=passages)


@cache
def read_cases(name: str) -> dict[str, Any]:
    """Read a TOML file of this folder."""
    return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


@cache
def plain_cases() -> tuple[Case, ...]:
    return tuple(map(Case.model_validate, read_cases("plain_cases.toml")["case"]))


def plain_tasks(writer: PromptWriter) -> list[Task]:
    """Return the questions of the plain cases that the judge's prompts cover."""
    return [case.task for case in _covered_cases(writer)]


def _covered_cases(writer: PromptWriter) -> list[Case]:
    return [case for case in plain_cases() if writer.has_words_for(case.task)]


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


def check_plain_cases(judge: Examinee) -> CheckResult:
    cases = _covered_cases(judge.writer)
    if not cases:
        finding = "none: this judge's prompts cover neither statements nor sentences"
        advice = "compare its verdicts with labels of your own"
        return warning("plain cases", finding, advice, cases=0)
    answers = judge.answer(judge.write_requests(plain_tasks(judge.writer)))
    wrong = []
    masses = []
    errors = []
    positives = 0
    for case, answer in zip(cases, answers, strict=True):
        label = None
        if isinstance(answer, NoAnswer):
            errors.append(answer.error)
        else:
            label = int(answer.p_yes >= THRESHOLD)
            masses.append(answer.valid_mass)
            positives += label
        if label != case.answer:
            wrong.append(case.statement)
    right = len(cases) - len(wrong)
    needed = min_right_beyond_chance(len(cases))
    figures = {
        "cases": len(cases),
        "right": right,
        "wrong": wrong,
        "min_right_beyond_chance": needed,
        "min_valid_mass": min(masses, default=None),
    }
    finding = f"{right} of {len(cases)} obvious cases right, {positives} judged 1"
    if errors:
        finding += f"; {len(errors)} without an answer: {errors[0]}"
    if right < needed:
        finding += f"; not better than guessing ({needed} needed): its verdicts are meaningless"
        return failed("plain cases", finding, f"{ANOTHER_JUDGE}, or check your prompts", **figures)
    finding += f"; probability of valid answers at least {100 * min(masses):.3g} %"
    is_poor = right < ENOUGH_RIGHT * len(cases) or min(masses) < ENOUGH_MASS
    return warn_if(is_poor, "plain cases", finding, ANOTHER_JUDGE, **figures)
