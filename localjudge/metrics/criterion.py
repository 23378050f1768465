"""Criterion: a custom question about the whole answer, each of its sentences, or each chunk.

    criterion    units with the good answer / units                    a yes/no question
    rubric       mean over units of (expected level - 1) / 4           levels 1 to 5, each described

A criterion's text is part of the prompts and the manifest, and its checksum is part of the
signature. A file:

    name = "names_its_source"
    question = "Does the response name the source of what it says?"
    of = "response"                   # or "sentence" (of the response), or "chunk"
    good = "yes"                      # or "no"
    shows = ["user_input"]            # what the judge sees in addition to the unit

    [[examples]]
    text = "According to the leaflet, twice a day."
    user_input = "How often?"         # an example has the fields in `shows`
    answer = "yes"

A rubric has `levels = {1 = "...", 2 = "...", 3 = "...", 4 = "...", 5 = "..."}` and no `good`; the
answer of an example is a level. The expected level follows from the probabilities of the five
digits, as in G-Eval (Liu et al. 2023). A unit's value is that level scaled to [0, 1]; its label is
1 at or above the threshold.

Higher is always better: with `good = "no"`, the score counts "no", and the expected score is the
mean of 1 - p. The score of a rubric is an expected one. Inputs too long for the model
fail. Needs a judge that follows instructions. Empty cases: a blank shown field, a response without
a sentence, and no context text are `Undefined`.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import fsum
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from localjudge import resources
from localjudge.errors import ArgumentValueError, InputError
from localjudge.metrics.metric import (
    NO_RESPONSE,
    About,
    Formula,
    Sentences,
    Steps,
    chunks,
    prepared_response,
    response_statements,
)
from localjudge.types import (
    CustomQuestion,
    Label,
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
_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4_000)]
_MAX_EXAMPLES = 16
_WRITTEN = {"yes": '{"answer":"yes"}', "no": '{"answer":"no"}'}
_OPPOSITE: dict[Label, Label] = {0: 1, 1: 0}
_HINT = "docs/metrics.md shows a complete one"


class CriterionExample(UserValue):
    """A unit with its right answer and the shown texts."""

    text: str = Field(min_length=1)
    answer: Literal["yes", "no", 1, 2, 3, 4, 5]
    user_input: str | None = None
    retrieved_contexts: tuple[str, ...] | None = None
    reference: str | None = None
    response: str | None = None


class Criterion(UserValue):
    """A custom question as a metric. The name has lower-case letters, digits and _."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,59}$")
    question: _Text
    of: Literal["response", "sentence", "chunk"] = "response"
    shows: Annotated[
        tuple[ShownField, ...], AfterValidator(lambda fields: tuple(sorted(set(fields))))
    ] = ()
    good: Literal["yes", "no"] = "yes"
    levels: dict[int, _Text] = Field(default_factory=dict)
    examples: tuple[CriterionExample, ...] = Field(default=(), max_length=_MAX_EXAMPLES)

    @field_validator("levels")
    @classmethod
    def _all_described(cls, levels: dict[int, str]) -> dict[int, str]:
        if levels and tuple(sorted(levels)) != _LEVELS:
            raise ValueError("a rubric describes each of the levels 1, 2, 3, 4 and 5")
        return dict(sorted(levels.items()))

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.levels and self.good == "no":
            raise ValueError(
                "level 5 of a rubric is the best: reverse the order of the levels and omit good",
            )
        if self.of == "response" and "response" in self.shows:
            raise ValueError("the response is always shown: shows lists only other fields")
        for number, example in enumerate(self.examples, start=1):
            fields = example.model_dump(exclude={"text", "answer"}, exclude_none=True).keys()
            if fields != set(self.shows):
                has = _listed(fields)
                shows = _listed(self.shows)
                raise ValueError(f"example {number} has {has}, but shows lists {shows}")
            if self.levels and example.answer not in _LEVELS:
                raise ValueError(f"the answer of example {number} must be a level")
            if not self.levels and example.answer not in _WRITTEN:
                raise ValueError(f"the answer of example {number} must be yes or no")
        return self

    @property
    def version(self) -> int:
        """Version of the arithmetic and of the judged texts."""
        return 2

    @property
    def required_fields(self) -> frozenset[str]:
        """The field of its units and the shown fields."""
        return frozenset({self._source, *self.shows})

    @property
    def _source(self) -> Literal["retrieved_contexts", "response"]:
        return "retrieved_contexts" if self.of == "chunk" else "response"

    @property
    def special_tasks(self) -> frozenset[str]:
        """Only judges that follow instructions can be asked."""
        return frozenset({"rubric" if self.levels else "criterion"})

    @property
    def about(self) -> About:
        """The question and its units."""
        return About(question=self.question, unit=f"{self.of}s")

    @property
    def sha256(self) -> str:
        """Checksum of all values except defaults."""
        values = self.model_dump_json(exclude_defaults=True)
        return hashlib.sha256(values.encode()).hexdigest()

    @property
    def formula(self) -> Formula | None:
        """The share of the good answer. None for a rubric, whose score has probabilities."""
        if self.levels:
            return None
        if self.good == "yes":
            return lambda _, values: fsum(values) / len(values)
        return lambda _, values: fsum(1 - value for value in values) / len(values)

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask about each unit."""
        units = self._units(sample, sentences)
        if not units and self.of == "chunk":
            return Undefined(reason="no context text")
        if not units:
            return Undefined(reason=NO_RESPONSE)
        without_thinking = prepared_response(sample, sentences).without_thinking
        sample = sample.model_copy(update={"response": without_thinking})
        blank = [field for field in self.shows if self._is_blank(sample, field)]
        if blank:
            return Undefined(reason=f"{_listed(blank)} is blank")
        verdicts = yield self._questions(sample, units)
        if self.levels:
            values = [
                verdict.label if verdict.p_yes is None else verdict.p_yes for verdict in verdicts
            ]
            mean = fsum(values) / len(values)  # `sum` rounds differently between Python versions
            highest = len(_LEVELS)
            level = 1 + mean * (highest - 1)
            return Scored(value=mean, detail=f"expected level {level:.2f} of 1 to {highest}")
        if self.good == "yes":
            return Scored.fraction(verdict.label for verdict in verdicts)
        return Scored.fraction(_OPPOSITE[verdict.label] for verdict in verdicts)

    def _units(self, sample: Sample, sentences: Sentences) -> list[Unit]:
        """Return the chunks, the response or its sentences.

        Thinking is left out. Marks and sources are kept, as the question may be about them.
        """
        if self.of == "chunk":
            return list(chunks(sample))
        response = prepared_response(sample, sentences)
        statements = response_statements(sample, sentences)
        if self.of == "sentence":
            units = []
            for index, statement in enumerate(statements):
                start = statement.span.start
                end = statement.span.end
                for mark in statement.marks:
                    end = max(end, mark.end)
                span = Span(start=start, end=end, text=response.text[start:end])
                units.append(Unit(kind="sentence", index=index, source="response", span=span))
            return units
        if not statements:
            return []
        shown = response.without_thinking if response.thinking else None
        span = Span.whole(response.text)
        return [Unit(kind="response", index=0, source="response", span=span, shown=shown)]

    def _is_blank(self, sample: Sample, field: ShownField) -> bool:
        if field == "retrieved_contexts":
            return not any(text.strip() for text in context_texts(sample.retrieved_contexts))
        return not (getattr(sample, field) or "").strip()

    def _questions(self, sample: Sample, units: Iterable[Unit]) -> list[CustomQuestion]:
        contexts = context_texts(sample.retrieved_contexts)
        levels = tuple(self.levels.values())
        examples = tuple(self._answered(example) for example in self.examples)
        questions = []
        for unit in units:
            question = self._question(sample, unit, contexts, levels=levels, examples=examples)
            questions.append(question)
        return questions

    def _question(
        self,
        shown: Sample | CriterionExample,
        unit: Unit,
        contexts: tuple[str, ...] | None,
        *,
        levels: tuple[str, ...] = (),
        examples: tuple[tuple[CustomQuestion, str], ...] = (),
    ) -> CustomQuestion:
        """Ask about a unit of a sample or of an example, with the shown texts."""
        texts = {}
        shown_contexts: tuple[str, ...] = ()
        for field in self.shows:
            if field == "retrieved_contexts":
                shown_contexts = contexts or ()
            else:
                texts[field] = getattr(shown, field)
        return CustomQuestion(
            unit=unit,
            question=self.question,
            levels=levels,
            contexts=shown_contexts,
            examples=examples,
            **texts,
        )

    def _answered(self, example: CriterionExample) -> tuple[CustomQuestion, str]:
        """Return the question about an example, with its answer as the judge would write it."""
        unit = Unit(kind=self.of, index=0, source=self._source, span=Span.whole(example.text))
        question = self._question(example, unit, example.retrieved_contexts)
        answer = _WRITTEN.get(str(example.answer), f'{{"level":{example.answer}}}')
        return question, answer


def read_criteria(criteria: object) -> tuple[Criterion, ...]:
    """Return criteria from a file name, bundled name, mapping or criterion, or a list of them.

    Raises InputError for an invalid criterion, or for two different ones with the same name.
    """
    if criteria is None:
        return ()
    items: Sequence[object] = [criteria]
    if isinstance(criteria, Sequence) and not isinstance(criteria, str):
        items = criteria
    by_name: dict[str, Criterion] = {}
    for item in items:
        match item:
            case Criterion():
                criterion = item
            case Mapping():
                criterion = Criterion(**item)
            case str() | Path():
                criterion = read_criterion(item)
            case _:
                name = option_name("criteria")
                problem = f"{name} must be TOML files or a localjudge.Criterion, got {item!r:.80}"
                raise InputError(problem)
        if by_name.setdefault(criterion.name, criterion) != criterion:
            problem = f"two different criteria are called {criterion.name!r}"
            raise InputError(problem, hint="rename one of them")
    return tuple(by_name.values())


def read_criterion(file: str | Path) -> Criterion:
    """Read a criterion from a TOML file or a bundled name. Raises InputError."""
    bundled = resources.criterion_files()
    path = bundled.get(str(file)) or Path(file)
    try:
        content = path.read_bytes()
    except OSError as error:
        names = suggestion(str(file), bundled, "those")
        problem = f"the criterion {file} cannot be read: {error.strerror}"
        hint = f"name a TOML file, or a bundled criterion: {names}"
        raise InputError(problem, hint=hint) from error
    values = resources.parse_toml(content, f"the criterion {file}", hint=_HINT)
    try:
        return Criterion(**values)
    except ArgumentValueError as error:
        raise InputError(f"{file}: {error.message}", hint=_HINT) from error


def rubrics(metrics: Iterable[object]) -> frozenset[str]:
    """Return the names of metrics with levels as verdicts."""
    names = set()
    for metric in metrics:
        if isinstance(metric, Criterion) and metric.levels:
            names.add(metric.name)
    return frozenset(names)


def _listed(fields: Collection[str]) -> str:
    return " and ".join(sorted(fields)) or "nothing"
