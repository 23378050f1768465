"""Criterion: a custom question about the whole answer, each of its sentences, or each chunk.

    criterion    units with the good answer / units                    a yes/no question
    rubric       mean over units of (expected level - 1) / 4           levels 1 to 5, each described

A criterion's text is part of the prompts and the manifest, and its checksum is part of the
signature. A file:

    name = "names_its_source"
    question = "Does the response name the source of what it says?"
    of = "response"                   # or "sentence" (of the response), or "chunk" (each retrieved context)
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

Higher is always better: with `good = "no"`, the score counts "no". Inputs too long for the model
fail. Needs a judge that follows instructions. Empty cases: a blank shown field, a response without
a sentence, and no context text are `Undefined`.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from localjudge import resources
from localjudge.errors import ArgumentValueError, InputError
from localjudge.metrics.metric import About, Sentences, Steps, chunks, prepared_response, response_statements
from localjudge.text.responses import Statement
from localjudge.types import (
    AnsweredQuestion,
    CustomQuestion,
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
_MOST_EXAMPLES = 16
_WRITTEN = {"yes": '{"answer":"yes"}', "no": '{"answer":"no"}'}
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
    shows: Annotated[tuple[ShownField, ...], AfterValidator(lambda shows: tuple(sorted(set(shows))))] = ()
    good: Literal["yes", "no"] = "yes"
    levels: dict[int, _Text] = Field(default_factory=dict)
    examples: tuple[CriterionExample, ...] = Field(default=(), max_length=_MOST_EXAMPLES)

    @field_validator("levels")
    @classmethod
    def _all_described(cls, levels: dict[int, str]) -> dict[int, str]:
        if levels and tuple(sorted(levels)) != _LEVELS:
            raise ValueError("a rubric describes each of the levels 1, 2, 3, 4 and 5")
        return dict(sorted(levels.items()))

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.levels and self.good == "no":
            raise ValueError("level 5 of a rubric is the best: reverse the order of the levels and omit good")
        if self.of == "response" and "response" in self.shows:
            raise ValueError("the response is always shown: shows lists only other fields")
        kind, answers = ("a level", _LEVELS) if self.levels else ("yes or no", tuple(_WRITTEN))
        for number, example in enumerate(self.examples, start=1):
            fields = example.model_dump(exclude={"text", "answer"}, exclude_none=True).keys()
            if fields != set(self.shows):
                raise ValueError(f"example {number} has {_listed(fields)}, but shows lists {_listed(self.shows)}")
            if example.answer not in answers:
                raise ValueError(f"the answer of example {number} must be {kind}")
        return self

    @property
    def version(self) -> int:
        """Version of the arithmetic and of the judged texts."""
        return 2

    @property
    def required_fields(self) -> frozenset[str]:
        """The field of its units and the shown fields."""
        return frozenset({"retrieved_contexts" if self.of == "chunk" else "response", *self.shows})

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
        return hashlib.sha256(self.model_dump_json(exclude_defaults=True).encode()).hexdigest()

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask about each unit."""
        units = list(chunks(sample)) if self.of == "chunk" else self._response_units(sample, sentences)
        if not units:
            return Undefined(reason="no context text" if self.of == "chunk" else "the response has no sentence")
        sample = sample.model_copy(update={"response": prepared_response(sample, sentences).without_thinking})
        texts = {field: getattr(sample, field) or "" for field in self.shows}
        if "retrieved_contexts" in texts:
            texts["retrieved_contexts"] = "".join(context_texts(sample.retrieved_contexts))
        if blank := [field for field, text in texts.items() if not text.strip()]:
            return Undefined(reason=f"{_listed(blank)} is blank")
        rest = {"levels": tuple(self.levels.values()), "examples": tuple(map(self._example, self.examples))}
        contexts = context_texts(sample.retrieved_contexts)
        verdicts = yield [self._question(sample, unit, contexts, **rest) for unit in units]
        if not self.levels:
            return Scored.fraction([1 if verdict.label == (self.good == "yes") else 0 for verdict in verdicts])
        values = [verdict.label if verdict.p_yes is None else verdict.p_yes for verdict in verdicts]
        mean = sum(values) / len(values)
        return Scored(value=mean, detail=f"expected level {1 + mean * (len(_LEVELS) - 1):.2f} of 1 to {len(_LEVELS)}")

    def _response_units(self, sample: Sample, sentences: Sentences) -> list[Unit]:
        """Return the response or its sentences without thinking. Marks and sources are kept: it may be about them."""
        response, statements = prepared_response(sample, sentences), response_statements(sample, sentences)
        if self.of == "sentence":
            spans = [_with_marks(statement, response.text) for statement in statements]
            return [Unit(kind="sentence", index=at, source="response", span=span) for at, span in enumerate(spans)]
        shown = response.without_thinking if response.thinking else None
        whole = Unit(kind="response", index=0, source="response", span=Span.whole(response.text), shown=shown)
        return [whole] if statements else []

    def _question(
        self, shown: Sample | CriterionExample, unit: Unit, contexts: tuple[str, ...] | None, **rest: Any
    ) -> CustomQuestion:
        texts = {field: getattr(shown, field) for field in self.shows if field != "retrieved_contexts"}
        contexts = contexts if contexts and "retrieved_contexts" in self.shows else ()
        return CustomQuestion(unit=unit, question=self.question, contexts=contexts, **texts, **rest)

    def _example(self, example: CriterionExample) -> AnsweredQuestion:
        source: Literal["retrieved_contexts", "response"] = "retrieved_contexts" if self.of == "chunk" else "response"
        unit = Unit(kind=self.of, index=0, source=source, span=Span.whole(example.text))
        answer = _WRITTEN.get(str(example.answer), f'{{"level":{example.answer}}}')
        return AnsweredQuestion(asked=self._question(example, unit, example.retrieved_contexts), answer=answer)


def _with_marks(statement: Statement, text: str) -> Span:
    start, end = statement.span.start, statement.span.end
    end = max([end, *(mark.end for mark in statement.marks)])
    return Span(start=start, end=end, text=text[start:end])


def rubrics(metrics: Iterable[object]) -> frozenset[str]:
    """Return the names of metrics with levels as verdicts."""
    return frozenset(metric.name for metric in metrics if isinstance(metric, Criterion) and metric.levels)


def criteria_of(criteria: object) -> tuple[Criterion, ...]:
    """Return criteria from one file name, bundled name, mapping or criterion, or from a list of them.

    Raises InputError for an invalid criterion, or for two different ones with the same name.
    """
    if criteria is None:
        return ()
    by_name: dict[str, Criterion] = {}
    for item in criteria if isinstance(criteria, Sequence) and not isinstance(criteria, str) else [criteria]:
        match item:
            case Criterion():
                criterion = item
            case Mapping():
                criterion = Criterion(**item)
            case str() | Path():
                criterion = read_criterion(item)
            case _:
                name = option_name("criteria")
                raise InputError(f"{name} must be TOML files or a localjudge.Criterion, got {item!r:.80}")
        if by_name.setdefault(criterion.name, criterion) != criterion:
            raise InputError(f"two different criteria are called {criterion.name!r}", hint="rename one of them")
    return tuple(by_name.values())


def read_criterion(file: str | Path) -> Criterion:
    """Read a criterion from a TOML file or a bundled name. Raises InputError."""
    bundled, what = resources.criterion_files(), f"the criterion {file}"
    path = bundled.get(str(file)) or Path(file)
    try:
        content = path.read_bytes()
    except OSError as error:
        hint = f"name a TOML file, or a bundled criterion: {suggestion(str(file), bundled, 'those')}"
        raise InputError(f"{what} cannot be read: {error.strerror}", hint=hint) from error
    values = resources.parse_toml(content, what, hint=_HINT)
    try:
        return Criterion(**values)
    except ArgumentValueError as error:
        raise InputError(f"{file}: {error.message}", hint=_HINT) from error


def _listed(fields: Collection[str]) -> str:
    return " and ".join(sorted(fields)) or "nothing"
