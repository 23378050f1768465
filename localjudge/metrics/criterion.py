"""Criterion: a question of one's own, asked of the whole answer, of each of its sentences, or of each chunk.

    criterion    units whose answer is the good one / units            a yes/no question
    rubric       mean over units of (expected level - 1) / 4           levels 1 to 5, each described

A criterion is a value: its words are in the prompts, in the manifest and, as a checksum, in the signature. Its file:

    name = "names_its_source"
    question = "Does the response name the source of what it says?"
    of = "response"                   # or "sentence" (of the response), or "chunk" (each retrieved context)
    good = "yes"                      # or "no"
    shows = ["user_input"]            # what else the judge sees; the unit itself it always does

    [[examples]]
    text = "According to the leaflet, twice a day."
    user_input = "How often?"         # an example gives what the criterion shows
    answer = "yes"

A rubric has `levels = {1 = "...", 2 = "...", 3 = "...", 4 = "...", 5 = "..."}` and no `good`; its examples have a level
as their answer. The expected level is read off the probabilities of the five digits, so that a judge torn between 3 and
4 is between them. (G-Eval, Liu et al. 2023, weighs the levels of a form by their probabilities.) The verdict of a unit
is that number in [0, 1], and 1 from the threshold on; the score does not look at the threshold.

More is always better: where "no" is the good answer, the score counts those. Nothing is cut: what does not fit the
model is failed, as the answer about a part need not be that about all. Only a judge that reads instructions can be
asked. Empty cases: a field that it shows and that is blank, a response without a sentence and no context text are
`Undefined`.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, ModelWrapValidatorHandler, ValidationError, ValidationInfo, field_validator, model_validator

from localjudge import resources
from localjudge.errors import UsageError
from localjudge.metrics.metric import About, Sentences, Steps, chunks
from localjudge.resources import parse_toml
from localjudge.types import (
    AnsweredQuestion,
    CustomQuestion,
    Label,
    Record,
    Sample,
    Scored,
    Span,
    Undefined,
    Unit,
    UserValue,
    context_texts,
)
from localjudge.words import option_name, suggestion

ShownField = Literal["user_input", "retrieved_contexts", "reference", "response"]
_LEVELS = (1, 2, 3, 4, 5)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
_LONGEST = 4_000
_MOST_EXAMPLES = 16
_WRITTEN = {"yes": '{"answer":"yes"}', "no": '{"answer":"no"}'}
_HINT = "docs/metrics.md shows a whole one"


class CriterionExample(UserValue):
    """A unit with its right answer, and the texts that its criterion shows."""

    text: str = Field(min_length=1)
    answer: Literal["yes", "no", 1, 2, 3, 4, 5]
    user_input: str | None = None
    retrieved_contexts: tuple[str, ...] | None = None
    reference: str | None = None
    response: str | None = None


class Criterion(Record):
    """A question of one's own as a metric. Raises UsageError for what cannot be asked."""

    name: str
    """Small letters, digits and _."""
    question: str = Field(min_length=1, max_length=_LONGEST)
    of: Literal["response", "sentence", "chunk"] = "response"
    shows: tuple[ShownField, ...] = ()
    good: Literal["yes", "no"] = "yes"
    levels: dict[int, str] = Field(default_factory=dict)
    examples: tuple[CriterionExample, ...] = Field(default=(), max_length=_MOST_EXAMPLES)
    version: ClassVar[int] = 1

    @field_validator("name")
    @classmethod
    def _can_be_named(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError("a name is made of small letters, digits and _, a letter first, at most 60")
        return name

    @field_validator("question")
    @classmethod
    def _says_something(cls, question: str) -> str:
        if not question.strip():
            raise ValueError("a question is not blank")
        return question.strip()

    @field_validator("shows")
    @classmethod
    def _in_one_order(cls, shows: tuple[ShownField, ...]) -> tuple[ShownField, ...]:
        return tuple(sorted(set(shows)))

    @field_validator("levels")
    @classmethod
    def _all_described(cls, levels: dict[int, str]) -> dict[int, str]:
        if levels and tuple(sorted(levels)) != _LEVELS:
            raise ValueError("a rubric describes each of the levels 1, 2, 3, 4 and 5")
        if any(not meaning.strip() or len(meaning) > _LONGEST for meaning in levels.values()):
            raise ValueError(f"the description of a level has 1 to {_LONGEST} characters")
        return {level: levels[level].strip() for level in sorted(levels)}

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.levels and self.good == "no":
            raise ValueError("level 5 of a rubric is the best: describe the levels in the other order")
        if self.of == "response" and "response" in self.shows:
            raise ValueError("the response is what the question is about: shows names what else is shown")
        kind, answers = ("a level", _LEVELS) if self.levels else ("yes or no", tuple(_WRITTEN))
        for number, example in enumerate(self.examples, start=1):
            fields = {field for field in _SHOWN if getattr(example, field) is not None}
            if fields != set(self.shows):
                raise ValueError(f"example {number} gives {_listed(fields)}, and {_listed(self.shows)} is shown")
            if example.answer not in answers:
                raise ValueError(f"the answer of example {number} is {kind}")
        return self

    @model_validator(mode="wrap")
    @classmethod
    def _can_be_asked(cls, values: Any, validate: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        """Around all other validators, so it stands behind them. The context says where the criterion is written."""
        try:
            return validate(values)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, problem["loc"]))
            message = problem["msg"].removeprefix("Value error, ")
            raise UsageError(
                f"{info.context or 'the criterion'} cannot be asked: {place}{': ' if place else ''}{message}",
                hint=_HINT,
            ) from error

    @property
    def required_fields(self) -> frozenset[str]:
        """Where its units stand, and what it shows."""
        return frozenset({"retrieved_contexts" if self.of == "chunk" else "response", *self.shows})

    @property
    def special_tasks(self) -> frozenset[str]:
        """Only a judge that reads instructions has words for it."""
        return frozenset({"rubric" if self.levels else "criterion"})

    @property
    def about(self) -> About:
        """The question."""
        return About(asks=self.question, verdicts=f"{self.of}s", source="")

    @property
    def sha256(self) -> str:
        """Of all that was said; what was left to its default is left out, so that new fields change no old checksum."""
        return hashlib.sha256(self.model_dump_json(exclude_defaults=True).encode()).hexdigest()

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask about each unit."""
        units = list(self._units(sample, sentences))
        blank = [field for field in self.shows if not _says_anything(sample, field)]
        if not units:
            return Undefined(reason="no context text" if self.of == "chunk" else "the response has no sentence")
        if blank:
            return Undefined(reason=f"{_listed(blank)} is blank")
        verdicts = yield [self._asked(sample, unit) for unit in units]
        values = [verdict.label if verdict.p_yes is None else verdict.p_yes for verdict in verdicts]
        return self.read([verdict.label for verdict in verdicts], values)

    def read(self, labels: Sequence[Label], values: Sequence[float]) -> Scored:
        """The score of units with these labels and expected values, at least one."""
        if not self.levels:
            good = 1 if self.good == "yes" else 0
            return Scored.fraction([1 if label == good else 0 for label in labels])
        mean = sum(values) / len(values)
        level = 1 + mean * (len(_LEVELS) - 1)
        return Scored(value=mean, detail=f"expected level {level:.2f} of 1 to {len(_LEVELS)}")

    def _units(self, sample: Sample, sentences: Sentences) -> Iterator[Unit]:
        if self.of == "chunk":
            yield from chunks(sample)
            return
        response = sample.response or ""
        spans = sentences(response)
        whole = [Span.whole(response)] if spans else []
        for index, span in enumerate(whole if self.of == "response" else spans):
            yield Unit(kind=self.of, index=index, source="response", span=span)

    def _asked(self, sample: Sample, unit: Unit) -> CustomQuestion:
        return CustomQuestion(
            unit=unit,
            question=self.question,
            levels=tuple(self.levels.values()),
            user_input=sample.user_input if "user_input" in self.shows else None,
            contexts=context_texts(sample.retrieved_contexts) if "retrieved_contexts" in self.shows else (),
            reference=sample.reference if "reference" in self.shows else None,
            response=sample.response if "response" in self.shows else None,
            examples=tuple(map(self._example, self.examples)),
        )

    def _example(self, example: CriterionExample) -> AnsweredQuestion:
        source: Literal["retrieved_contexts", "response"] = "retrieved_contexts" if self.of == "chunk" else "response"
        asked = CustomQuestion(
            unit=Unit(kind=self.of, index=0, source=source, span=Span.whole(example.text)),
            question=self.question,
            user_input=example.user_input,
            contexts=example.retrieved_contexts or (),
            reference=example.reference,
            response=example.response,
        )
        answer = _WRITTEN.get(str(example.answer), f'{{"level":{example.answer}}}')
        return AnsweredQuestion(asked=asked, answer=answer)


_SHOWN: tuple[ShownField, ...] = ("user_input", "retrieved_contexts", "reference", "response")


def rubrics(metrics: Iterable[object]) -> frozenset[str]:
    """Names of the metrics whose verdicts are levels, and no probabilities of 1."""
    return frozenset(metric.name for metric in metrics if isinstance(metric, Criterion) and metric.levels)


def criteria_of(criteria: object) -> tuple[Criterion, ...]:
    """Criteria from names of files or of bundled ones, from mappings and from criteria; one, or a list of them.

    Raises UsageError for what is not a criterion, and for two different ones of one name.
    """
    if criteria is None:
        return ()
    by_name: dict[str, Criterion] = {}
    for each in criteria if isinstance(criteria, Sequence) and not isinstance(criteria, str) else [criteria]:
        criterion = _criterion(each)
        if by_name.setdefault(criterion.name, criterion) != criterion:
            raise UsageError(f"two different criteria are called {criterion.name!r}", hint="rename one of them")
    return tuple(by_name.values())


def read_criterion(file: str | Path) -> Criterion:
    """The criterion in a TOML file, or the bundled one of that name. Raises UsageError if it is none."""
    bundled = resources.criterion_files()
    path = bundled.get(str(file)) or Path(file)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"the criterion {file} cannot be read: {error.strerror}",
            hint=f"name a TOML file, or a bundled criterion: {suggestion(str(file), bundled, 'those')}",
        ) from error
    table = parse_toml(content, f"the criterion {file}", hint=_HINT)
    return Criterion.model_validate(table, context=f"the criterion {file}")


def _criterion(given: object) -> Criterion:
    match given:
        case Criterion():
            return given
        case str() | Path():
            return read_criterion(given)
        case Mapping():
            return Criterion.model_validate(given)
    raise UsageError(f"{option_name('criteria')} must be TOML files or a localjudge.Criterion, got {given!r:.80}")


def _says_anything(sample: Sample, field: ShownField) -> bool:
    if field == "retrieved_contexts":
        return any(text.strip() for text in context_texts(sample.retrieved_contexts))
    return bool((getattr(sample, field) or "").strip())


def _listed(fields: Collection[str]) -> str:
    return " and ".join(sorted(fields)) or "nothing"
