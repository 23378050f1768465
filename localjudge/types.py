"""The core types, as frozen values.

    Sample ──metric──> Task ──judge──> VerdictRequest ──engine──> Answer ──threshold──> Verdict
                                                                    Verdicts ──metric──> Outcome

A task is one question about one unit of text; the judge words it as prompt nodes and a grammar.
"""

import html
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import singledispatch
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from localjudge.errors import ArgumentValueError

FieldName = Literal[
    "user_input",
    "retrieved_contexts",
    "reference",
    "response",
    "reference_contexts",
]
FIELDS: tuple[FieldName, ...] = get_args(FieldName)
CONTEXT_FIELDS: tuple[FieldName, ...] = ("retrieved_contexts", "reference_contexts")
Label = Literal[0, 1]
UnitKind = Literal["statement", "sentence", "chunk", "question", "response"]
UnitSource = Literal["user_input", "reference", "response", "retrieved_contexts"]
AgainstText = Literal["reference", "response", "cited"]
Against = int | AgainstText | None
Use = Literal["ranking", "means", "thresholds"]
"""Uses of a judge, each including the previous ones: compare systems, read a mean as a share,
decide one verdict.
"""
USES: tuple[Use, ...] = get_args(Use)
Language = Literal["en", "de", "fr", "es"]
"""Language of a page."""


class Record(BaseModel):
    """A frozen value without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def _repr_html_(self) -> str:
        return notebook_html(self)


class UserValue(Record):
    """A value that users make. Raises ArgumentValueError for invalid content."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(map(str, problem["loc"]))
            message = problem["msg"].removeprefix("Value error, ")
            if field:
                message = f"{field}: {message}"
            hint = f"its fields are {', '.join(type(self).model_fields)}"
            if problem.get("ctx", {}).get("class_name") == Context.__name__:
                example = "{'text': 'It rains.'}"
                hint = f"a context is an object: {example}, perhaps with id, meta and score"
            raise ArgumentValueError(
                f"a {type(self).__name__} cannot be made: {message}",
                hint=hint,
            ) from error

    # Read from JSON as any other value.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


@singledispatch
def notebook_html(value: object) -> str:
    """Return a value as HTML for notebooks. `localjudge.run` registers the views of results."""
    escaped = ""
    for letter in str(value):
        if letter.isprintable():
            escaped += letter
        else:
            escaped += repr(letter)[1:-1]
    return html.escape(escaped)


@notebook_html.register
def _table_of_fields(value: Record) -> str:
    return _table_of_entries(dict(value))


@notebook_html.register(Mapping)
def _table_of_entries(value: Mapping[Any, Any]) -> str:
    rows = ""
    for name, entry in value.items():
        rows += f"<tr><td>{notebook_html(name)}</td><td>{notebook_html(entry)}</td></tr>"
    return f"<table>{rows}</table>"


class Context(UserValue):
    """A retrieved or ground-truth passage. `text` is None if only the id is known."""

    text: str | None = None
    id: str | None = None
    meta: dict[str, Any] = Field(default_factory=dict)
    score: float | None = Field(default=None, allow_inf_nan=False)

    @model_validator(mode="after")
    def _is_something(self) -> "Context":
        if self.text is None and self.id is None:
            raise ValueError("a context has a text, an id or both")
        return self


class Sample(UserValue):
    """One row of data. A missing field is None."""

    id: str
    user_input: str | None = None
    retrieved_contexts: tuple[Context, ...] | None = None
    reference: str | None = None
    response: str | None = None
    reference_contexts: tuple[Context, ...] | None = None


class Span(Record):
    """A verbatim part of a text, `text == given[start:end]`, in code points."""

    start: int
    end: int
    text: str

    @classmethod
    def whole(cls, text: str) -> Self:
        return cls(start=0, end=len(text), text=text)


class Unit(Record):
    """The part of a sample that one verdict judges, with its location.

    It is compared `against` the context with this index, the reference, the response, or the
    contexts that it cites; by default against the texts that its metric shows. `shown` is the text
    for the judge, if it differs from the span: a statement without the citation marks inside it.
    """

    kind: UnitKind
    index: int
    source: UnitSource
    source_index: int | None = None
    span: Span
    against: Against = None
    shown: str | None = None

    @property
    def text(self) -> str:
        """The text for the judge."""
        if self.shown is None:
            return self.span.text
        return self.shown


class Attribution(Record):
    """Can the unit (a statement) be attributed to the contexts?"""

    unit: Unit
    contexts: tuple[str, ...]
    user_input: str | None = None


class Relevance(Record):
    """Is the unit (a sentence or a chunk) needed to answer the question?"""

    unit: Unit
    user_input: str
    contexts: tuple[str, ...] = ()
    """Retrieved contexts, including that of the sentence. Empty for a chunk."""
    start: int | None = None
    """Offset of the sentence in its context, if parts before it are not shown."""


class Usefulness(Record):
    """Is the unit (a chunk) useful for arriving at the reference answer?"""

    unit: Unit
    user_input: str | None
    reference: str


class Sufficiency(Record):
    """Do the contexts contain everything that an answer to the unit (the question) needs?"""

    unit: Unit
    contexts: tuple[str, ...]
    user_input: str


class Refusal(Record):
    """Does the unit (the response) decline to answer?"""

    unit: Unit
    user_input: str | None = None


class CustomQuestion(Record):
    """A question of a criterion, with the shown texts.

    The answer is yes or no, or one of the `levels` 1, 2 ...
    """

    unit: Unit
    question: str
    levels: tuple[str, ...] = ()
    user_input: str | None = None
    contexts: tuple[str, ...] = ()
    reference: str | None = None
    response: str | None = None
    examples: tuple[tuple["CustomQuestion", str], ...] = ()
    """Other questions, each with its answer as the judge would write it."""


Task = Attribution | Relevance | Usefulness | Sufficiency | Refusal | CustomQuestion


class Piece(NamedTuple):
    """Prompt text. Only `trusted` text, ours or the chat template's, may form control tokens."""

    text: str
    trusted: bool


RenderChat = Callable[[Sequence[Mapping[str, str]], Mapping[str, Any]], str]
"""From messages (`role`, `content`) and other arguments to a prompt that ends before the answer.

Raises ModelError.
"""


class ChatEnds(NamedTuple):
    """Text of a chat template before and after the user's message.

    `render` renders any conversation, if the engine can.
    """

    head: str
    tail: str
    sha256: str
    render: RenderChat | None = None


class Grammar(Record):
    """The valid answers: a regular expression, and the value of each value literal.

    Yes and no have the values 1 and 0, five levels 0, .25, .5, .75 and 1. Other text that is not
    forced is a reason: the string under the key "reason", or the group `reason` of the pattern.
    """

    name: str
    pattern: str
    labels: dict[str, int | float]
    reason_tokens: int = Field(default=0, ge=0)
    """Maximum length of a reason."""
    reason_end: Literal['"'] = '"'
    """Ends a reason, never occurs inside."""

    def __hash__(self) -> int:
        return hash((self.name, self.pattern))


Node = tuple[Piece, ...]
OUTPUTS_KEY = "classifier.output_labels"
"""Names a classifier's outputs in its metadata, joined by commas."""
VOCABULARY_KEY = "vocabulary_size"
"""Number of a classifier's tokens in its metadata."""
SHARE_PLACEHOLDER = "{share}"
"""Stands for a share token (`ClassifierReading.share`) in trusted text."""


class ClassifierReading(Record):
    """How the outputs of a classification head become the probability of yes.

    p = sigmoid(scale * z + bias). z is the logit of a single output; of several outputs, the log
    odds of `yes` after a softmax.
    """

    outputs: tuple[str, ...] = Field(min_length=1)
    """Names of all outputs, in the order of the model."""
    yes: tuple[str, ...] = Field(min_length=1)
    scale: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    bias: float = Field(default=0.0, allow_inf_nan=False)
    share: tuple[int, ...] = ()
    """Ids of tokens for equal steps of a share, one of which replaces `SHARE_PLACEHOLDER`.

    The share is that of the first text, by the scores of its tokens, that occurs in the other
    texts.
    """
    adapter: str = ""
    """The sha256 of the adapter that the model reads with, "" without one."""

    def __hash__(self) -> int:
        return hash((self.outputs, self.yes, self.scale, self.bias, self.share, self.adapter))

    @property
    def as_json(self) -> str:
        """JSON of all fields, without `adapter` if there is none."""
        without = set()
        if not self.adapter:
            without.add("adapter")
        return self.model_dump_json(exclude=without)


class VerdictRequest(NamedTuple):
    """A path of prompt nodes, root first, and the grammar of the answer.

    Requests with equal first nodes share their evaluation. The prompt profile cuts the nodes,
    because cuts affect the logits. `explanation` continues the answer with a reason. `reading` is
    for models with a classification head.
    """

    path: tuple[Node, ...]
    grammar: Grammar
    explanation: Grammar | None = None
    reading: ClassifierReading | None = None

    @property
    def shape(self) -> str:
        explanation = "null"
        if self.explanation:
            explanation = self.explanation.model_dump_json()
        parts = f'"grammar":{self.grammar.model_dump_json()},"explanation":{explanation}'
        if self.reading:
            parts += f',"reading":{self.reading.as_json}'
        return f"{{{parts}}}"


ONE_HALF = 0.5
_LARGEST_EXPONENT = 700.0
NO_MODEL = "none"
"""Type of the engine of a run without questions."""
CLASSIFIER = "llama.cpp classifier"
"""Type of the engine of a model with a classification head."""


PlainValue = str | int | float | bool | list["PlainValue | None"]


def plain_value(value: object) -> PlainValue | None:
    """Return a value that cannot change as JSON has it, and None for any other.

    These are texts, numbers and booleans, and tuples and frozen sets of them or None.
    """
    if isinstance(value, str):
        return _without_surrogates(value)
    if isinstance(value, int | float | bool):
        return value
    if not isinstance(value, tuple | frozenset):
        return None
    entries: list[PlainValue | None] = []
    for entry in value:
        plain = plain_value(entry)
        if plain is None and entry is not None:
            return None
        entries.append(plain)
    if isinstance(value, frozenset):
        entries.sort(key=repr)
    return entries


def _without_surrogates(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


Message = Annotated[str, AfterValidator(_without_surrogates)]
"""A text from code of others. Lone surrogates, which no file can hold, are escaped."""


class Answer(Record):
    """The probability of yes (the expected value over the valid answers), and how it was found.

    `valid_mass` is the total probability of all valid answers, `raw` the decoded text.
    """

    p_yes: float = Field(ge=0, le=1)
    valid_mass: float = Field(ge=0, allow_inf_nan=False)
    raw: str
    reason: Message | None = None


class NoAnswer(Record):
    """Reason for a missing answer; with `valid_mass` if that was too small."""

    error: Message
    valid_mass: float | None = None


class Verdict(Record):
    """An answer with its label. `p_yes` is None if the model was not asked.

    `judges` has the probability of each judge of a jury, by name.
    """

    label: Label
    p_yes: float | None = None
    valid_mass: float | None = None
    reason: str | None = None
    window: int | None = None
    judges: dict[str, float] | None = None


ScaleKind = Literal["attribution", "relevance", "answers", "passages"]
"""Kind of question for which a judge has a scale, and a jury has weights.

Sentences of answers and whole passages are kinds for a jury with a judge that has a special prompt
for them; for other juries they count as relevance.
"""
MAX_WEIGHT = 1e6
"""Sums of larger weights could be infinite, or no number."""
JudgeScale = Annotated[float, Field(ge=1 / MAX_WEIGHT, allow_inf_nan=False)]
"""Standard deviation of a judge's log odds."""
JudgeWeight = Annotated[float, Field(ge=0, le=MAX_WEIGHT, allow_inf_nan=False)]
"""Weight of a judge's log odds in a jury."""


def sigmoid(log_odds: float) -> float:
    """Return the probability with these log odds, clipped at 700: exp(-700) is not 0."""
    clipped = min(max(log_odds, -_LARGEST_EXPONENT), _LARGEST_EXPONENT)
    return 1 / (1 + math.exp(-clipped))


class Combination(NamedTuple):
    """Weight of each judge of a jury by name, and the bias."""

    weights: Mapping[str, float]
    bias: float = 0.0


class VerdictRule(NamedTuple):
    """Label 1 from `threshold` (or the metric's of `thresholds`) on.

    Below `min_valid_mass` there is no answer. `combinations` are those of a jury, by metric.
    """

    threshold: float
    min_valid_mass: float
    thresholds: Mapping[str, float] = MappingProxyType({})
    combinations: Mapping[str, Combination] = MappingProxyType({})

    def threshold_of(self, metric: str) -> float:
        return self.thresholds.get(metric, self.threshold)

    def for_metric(self, metric: str) -> "VerdictRule":
        return self._replace(threshold=self.threshold_of(metric))


class JudgeCard(Record):
    """The judge beside every result. `size` is in bytes, `caution` must accompany every number.

    Fields of the model file are None without one. `examined`, the result of `doctor`, is not
    stored.
    """

    model_config = ConfigDict(extra="ignore")

    name: str
    sha256: str | None = None
    size: int | None = None
    quantisation: str | None = None
    caution: str | None = None
    examined: str | None = None

    @property
    def in_brief(self) -> str:
        """`lexical (not for decisions)`."""
        parts = [self._name_with_caution]
        if self.examined:
            parts.append(self.examined)
        return ", ".join(parts)

    def __str__(self) -> str:
        """`lexical (not for decisions), 11 MiB, sha256 cfcfedcc41bb`."""
        parts = [self._name_with_caution]
        if self.size is not None:
            parts.append(readable(self.size))
        if self.sha256:
            parts.append(f"sha256 {self.sha256[:12]}")
        if self.examined:
            parts.append(self.examined)
        return ", ".join(parts)

    @property
    def _name_with_caution(self) -> str:
        if not self.caution:
            return self.name
        return f"{self.name} ({self.caution})"


def readable(size: int) -> str:
    """Format bytes: `11 MiB`, `2.0 GiB`."""
    if size >= 2**30:
        return f"{size / 2**30:.1f} GiB"
    return f"{size / 2**20:.0f} MiB"


class Scored(Record):
    """A number in [0, 1], with its fraction if it is one.

    `expected` is the number with the probability of each verdict in place of 0 or 1. By default,
    and for a metric without a judge, it equals the value.
    """

    value: float = Field(ge=0, le=1)
    expected: float = Field(ge=0, le=1, default_factory=lambda fields: fields.get("value"))
    numerator: float | None = Field(default=None, allow_inf_nan=False)
    denominator: float | None = Field(default=None, allow_inf_nan=False)
    detail: Message | None = None

    @classmethod
    def fraction(cls, labels: Iterable[Label], detail: str | None = None) -> "Scored":
        """Return the share of labels that are 1. Raises ZeroDivisionError without labels."""
        counted = list(labels)
        return cls(
            value=sum(counted) / len(counted),
            numerator=sum(counted),
            denominator=len(counted),
            detail=detail,
        )

    @classmethod
    def share(cls, verdicts: Iterable[Verdict], detail: str | None = None) -> "Scored":
        """Return the share of verdicts that are 1, and the mean of their probabilities as expected.

        Raises ZeroDivisionError without verdicts.
        """
        listed = list(verdicts)
        counted = cls.fraction((verdict.label for verdict in listed), detail)
        probabilities = [each.label if each.p_yes is None else each.p_yes for each in listed]
        expected = math.fsum(probabilities) / len(probabilities)
        return counted.model_copy(update={"expected": expected})


class Undefined(Record):
    """The metric has no value for this sample."""

    reason: Message


class Failed(Record):
    """The metric's value could not be computed."""

    reason: Message


Outcome = Scored | Undefined | Failed


def context_texts(contexts: Sequence[Context] | None) -> tuple[str, ...]:
    """Return the texts in order, "" for a missing one, () for a missing field."""
    return tuple(context.text or "" for context in contexts or ())
