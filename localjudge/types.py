"""The nouns of the project, as frozen values.

    Sample ──metric──> Task ──judge──> VerdictRequest ──engine──> Answer ──threshold──> Verdict ──metric──> Outcome

A metric turns a sample into *tasks* (one unit of text, one question about it). The judge words each task as a
*verdict request*: a path of prompt nodes and a grammar. The engine, which knows tokens and nothing of retrieval, gives
an *answer*. The run applies the threshold and hands the metric its *verdicts*; the metric does the arithmetic.
"""

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from localjudge.errors import InputError

FieldName = Literal["user_input", "retrieved_contexts", "reference", "response", "reference_contexts"]
CONTEXT_FIELDS: tuple[FieldName, ...] = ("retrieved_contexts", "reference_contexts")
Label = Literal[0, 1]
UnitKind = Literal["statement", "sentence", "chunk", "question", "response"]
UnitSource = Literal["user_input", "reference", "response", "retrieved_contexts"]
AgainstText = Literal["reference", "response", "cited"]
Against = int | AgainstText | None


class Record(BaseModel):
    """A value: frozen, compared by content, with no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def _repr_html_(self) -> str:
        return _html(dict(self))


class UserValue(Record):
    """A value that users make themselves. Raises InputError for what it cannot be."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, problem["loc"]))
            message = f"{place}{': ' if place else ''}{problem['msg'].removeprefix('Value error, ')}"
            hint = f"its fields are {', '.join(type(self).model_fields)}"
            if problem.get("ctx", {}).get("class_name") == Context.__name__:
                hint = "a context is an object: {'text': 'It rains.'}, perhaps with id, meta and score"
            raise InputError(f"a {type(self).__name__} cannot be made: {message}", hint=hint) from error

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined] # read from JSON as any other value


def _html(value: object) -> str:
    """A table of a value's fields or of a mapping's entries; of anything else its text, which acts on nothing."""
    if isinstance(value, Record):
        return value._repr_html_()
    if isinstance(value, Mapping):
        rows = (f"<tr><td>{_html(name)}</td><td>{_html(entry)}</td></tr>" for name, entry in value.items())
        return f"<table>{''.join(rows)}</table>"
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    return html.escape("".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text))


class Context(UserValue):
    """One retrieved or ground-truth passage; of some nothing but the id is known, and `text` is then None."""

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
    """One row of data. Only `id` is required; a field is None when the row does not give it."""

    id: str
    user_input: str | None = None
    retrieved_contexts: tuple[Context, ...] | None = None
    reference: str | None = None
    response: str | None = None
    reference_contexts: tuple[Context, ...] | None = None


class Span(Record):
    """A verbatim piece of a text: `text == given[start:end]`, counted in Unicode code points."""

    start: int
    end: int
    text: str

    @classmethod
    def whole(cls, text: str) -> Self:
        """All of a text."""
        return cls(start=0, end=len(text), text=text)


class Unit(Record):
    """The piece of a sample that one verdict is about, and where in the sample it stands.

    It is held `against` the retrieved context of this index, the reference, the response, the contexts that its own
    marks cite, or what its metric shows all units (mostly all contexts) if None.
    """

    kind: UnitKind
    index: int
    source: UnitSource
    source_index: int | None = None
    span: Span
    against: Against = None


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
    """What was retrieved, and the sentence with it; empty for a chunk."""


class Usefulness(Record):
    """Is the unit (a chunk) useful for arriving at the reference answer?"""

    unit: Unit
    user_input: str | None
    reference: str


class Sufficiency(Record):
    """Do the contexts hold all that an answer to the unit (the question) needs?"""

    unit: Unit
    contexts: tuple[str, ...]
    user_input: str


class Refusal(Record):
    """Does the unit (the response) decline to answer?"""

    unit: Unit
    user_input: str | None = None


class CustomQuestion(Record):
    """The user's own question about the unit, in the words of a criterion, and the texts that it shows.

    With `levels`, the descriptions of the levels 1, 2 ... in their order, the answer is one of them; else yes or no.
    """

    unit: Unit
    question: str
    levels: tuple[str, ...] = ()
    user_input: str | None = None
    contexts: tuple[str, ...] = ()
    reference: str | None = None
    response: str | None = None
    examples: tuple["AnsweredQuestion", ...] = ()


class AnsweredQuestion(Record):
    """An example of an own question: what is shown, and the answer as the judge would write it."""

    asked: CustomQuestion
    answer: str


Task = Attribution | Relevance | Usefulness | Sufficiency | Refusal | CustomQuestion


class Piece(NamedTuple):
    """Prompt text. Only `trusted` text (ours, or the model's chat template) may form control tokens."""

    text: str
    trusted: bool


RenderChat = Callable[[Sequence[Mapping[str, str]], Mapping[str, Any]], str]
"""Renders a model's chat template: the messages (`role`, `content`) and its other arguments to a prompt, up to where
the answer begins. Raises ModelError if the template cannot be rendered with them."""


class ChatEnds(NamedTuple):
    """What a chat template puts before and after the user's message, up to where the answer begins.

    `render` gives any other conversation; None for an engine that knows no more than the ends.
    """

    head: str
    tail: str
    sha256: str
    render: RenderChat | None = None


class Grammar(Record):
    """The valid answers: a regular expression, and the value in [0, 1] that each value literal stands for.

    A verdict of yes or no has the values 1 and 0, one of five levels 0, .25, .5, .75 and 1. Where an answer is neither
    forced nor a value, it is text of a reason: the string under the key "reason", or the group `reason` of the pattern.
    """

    name: str
    pattern: str
    labels: dict[str, int | float]
    verdicts: int = Field(default=1, ge=1)
    """How many verdicts one answer holds."""
    reason_tokens: int = Field(default=0, ge=0)
    """The most tokens of a reason; 0 where the answers hold none."""
    reason_end: str = '"'
    """The character that ends a reason, which cannot hold it."""
    json_schema: str | None = Field(default=None, exclude=True, repr=False)
    """The JSON schema that the pattern was made of, for an engine that takes no patterns. It says nothing that the
    pattern does not, so it is in no key and in no run's files: None in what is read from there."""

    def __eq__(self, other: object) -> bool:
        """Equal patterns and labels are the same answers, whether or not their schema is at hand."""
        return isinstance(other, Grammar) and self.model_dump() == other.model_dump()

    def __hash__(self) -> int:
        return hash((self.name, self.pattern))


Node = tuple[Piece, ...]
"""One step of a prompt's path."""


class VerdictRequest(NamedTuple):
    """What the engine is asked: a path of prompt nodes, root first, and the grammar of the answer.

    Requests that begin with equal nodes share their evaluation. Where one node ends and the next begins is decided
    by the prompt profile alone, whether or not anything is shared, because the cut points move the logits.

    `explanation` is how the answer goes on once the verdict is read, which it cannot move: the same beginning, then a
    reason. Where one answer holds several verdicts, each is asked for by a request of its own that differs in `entry`
    alone, which of them is asked for: the answer is decoded once, and each verdict is a function of its own request.
    """

    path: tuple[Node, ...]
    grammar: Grammar
    explanation: Grammar | None = None
    entry: int = 0

    @property
    def shape(self) -> str:
        """The valid answers as JSON: what the request has in addition to its path and its entry."""
        explanation = self.explanation.model_dump_json() if self.explanation else "null"
        return f'{{"grammar":{self.grammar.model_dump_json()},"explanation":{explanation}}}'


class Answer(Record):
    """What the model gave: the expected value of the valid answers, and how much of its probability was legal.

    Of yes and no, with the values 1 and 0, the expected value is the probability of yes.
    """

    p_yes: float = Field(ge=0, le=1)
    legal_mass: float = Field(ge=0, allow_inf_nan=False)
    raw: str
    reason: str | None = None


class JudgeVote(NamedTuple):
    """What one judge of a combined run said about a unit: its probability of 1, None where it gave none."""

    judge: str
    p_yes: float | None


class NoAnswer(Record):
    """Why there is no valid answer; `legal_mass` where the model gave one, and too little of its probability to it.

    `votes` are those of the judges of a combined run, and not part of a stored answer.
    """

    error: str
    legal_mass: float | None = None
    votes: tuple[JudgeVote, ...] = Field(default=(), exclude=True, repr=False)


class Verdict(Record):
    """An answer with its label. `p_yes` is None where the label follows without a model (there is no context)."""

    label: Label
    p_yes: float | None = None
    legal_mass: float | None = None
    reason: str | None = None
    window: int | None = None
    votes: tuple[JudgeVote, ...] = ()


class VerdictRule(NamedTuple):
    """Label 1 from `threshold` on, of a metric in `thresholds` from that; below `min_legal_mass` an answer is none."""

    threshold: float
    min_legal_mass: float
    thresholds: Mapping[str, float] = MappingProxyType({})

    def of(self, metric: str) -> "VerdictRule":
        """The rule of one metric, whose `threshold` is its own."""
        return self._replace(threshold=self.thresholds.get(metric, self.threshold))


class JudgeCard(Record):
    """Who judged, as every result says it. `size` in bytes; `caution` must accompany every number.

    `sha256`, `size` and `quantisation` are None for an engine without a model file, and for the judges of a combined
    run together. `examined` is what `doctor` found it fit for, where the card is shown; in no file of a run.
    """

    model_config = ConfigDict(extra="ignore")

    name: str
    sha256: str | None = None
    size: int | None = None
    quantisation: str | None = None
    caution: str | None = None
    examined: str | None = None

    def __str__(self) -> str:
        """`reference (lexical, not for decisions), 10.7 MiB, sha256 4844085b4a92`."""
        name = f"{self.name} ({self.caution})" if self.caution else self.name
        gib = (self.size or 0) / (1 << 30)
        size = f"{gib:.1f} GiB" if gib >= 1 else f"{gib * 1024:.1f} MiB"
        sha256 = self.sha256 and f"sha256 {self.sha256[:12]}"
        return ", ".join(filter(None, (name, None if self.size is None else size, sha256, self.examined)))


class Scored(Record):
    """A number in [0, 1] and, where it is a ratio, what was divided by what."""

    value: float = Field(ge=0, le=1)
    numerator: float | None = Field(default=None, allow_inf_nan=False)
    denominator: float | None = Field(default=None, allow_inf_nan=False)
    detail: str | None = None

    @classmethod
    def fraction(cls, labels: Iterable[Label], detail: str | None = None) -> "Scored":
        """Share of labels that are 1. Raises ZeroDivisionError for no labels: decide that case before."""
        counted = list(labels)
        return cls(value=sum(counted) / len(counted), numerator=sum(counted), denominator=len(counted), detail=detail)


class Undefined(Record):
    """The metric has no value for this sample, and why."""

    reason: str


class Failed(Record):
    """The metric should have a value for this sample and could not get it, and why."""

    reason: str


Outcome = Scored | Undefined | Failed


def known_texts(contexts: Sequence[Context] | None) -> list[str] | None:
    """Texts of the contexts for other programs; None for a missing field, and where nothing is known but ids."""
    texts = [context.text for context in contexts or () if context.text is not None]
    return None if contexts is None or len(texts) < len(contexts) else texts


def context_texts(contexts: Sequence[Context] | None) -> tuple[str, ...]:
    """Texts of the contexts, in their order, empty for one that has none; nothing for a missing field."""
    return tuple(context.text or "" for context in contexts or ())
