r"""Prompt profiles: how a kind of model is asked, and which answers are valid.

A profile is a folder: `profile.toml`, and one file per task with the prompt's nodes, root first.
Prompts are always evaluated node by node, because the steps affect the logits.

    instructions | context ... | question | statement                attribution
    instructions | chunk | question                                  relevance of a chunk

Answers follow a JSON schema in `grammars/`, which Outlines converts to a regular expression without
white space, or the format that the model was trained for:

    {"properties": {"attributed": {"enum": [0, 1]}}}                ->   \{"attributed":(0|1)\}
    form = "<score> {verdict} </score>",  labels = { yes = 0, no = 1 } -> <score> (yes|no) </score>

All files are hashed together, but a task in `special/` separately, and only if it is asked.

With `nearest`, the model reads only the sentences nearest to what it judges.

A profile with a `head` is for models with a classification head, which write no text. It names
their outputs in order, and each task says which of them mean yes:

    [head]                                                     <s>{share}{unit}</s>{context}</s>
    outputs = ["contradiction", "neutral", "entailment"]       answer = { yes = ["entailment"] }
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from typing import Annotated, Any, Literal, Self, cast

from pydantic import (
    Field,
    NonNegativeInt,
    PositiveInt,
    field_validator,
    model_validator,
)

from localjudge import resources
from localjudge.types import (
    SHARE_PLACEHOLDER,
    Attribution,
    ClassifierReading,
    CustomQuestion,
    Grammar,
    Record,
    Relevance,
    Task,
    UnitKind,
)

ANSWER_SENTENCE = "answer_sentence"
"""A sentence of an answer: is it needed to answer the question? Asked as `relevance_sentence` by a
profile without this task."""
TASKS = frozenset(
    [
        *("attribution", "relevance_chunk", "relevance_sentence", "usefulness"),
        *("sufficiency", "refusal", "criterion", "rubric", ANSWER_SENTENCE),
    ]
)

_VERDICT = "{verdict}"
_SPECIAL = re.compile(r"([\\.^$*+?{}\[\]|()])")  # in Python and in llguidance
_UNNAMED = re.compile(r"LABEL_\d+")  # Hugging Face's names of outputs without names
PLACEHOLDER = re.compile(
    r"\{( ?)(context|question|unit|reference|response|own_question|levels|answer)\}"
)
COMPILER = "outlines" if sys.version_info < (3, 14) else "outlines_core"
"""Converts schemas to regular expressions. `pyproject.toml` has the same rule."""
_LABELS: dict[str, dict[str, int | float]] = {
    "attributed": {"0": 0, "1": 1},
    "relevant": {"0": 0, "1": 1},
    "useful": {"0": 0, "1": 1},
    "sufficient": {"0": 0, "1": 1},
    "refused": {"0": 0, "1": 1},
    "answer": {"no": 0, "yes": 1},
    "level": {"1": 0, "2": 0.25, "3": 0.5, "4": 0.75, "5": 1},
}
_REASON = {"type": "string", "minLength": 1, "maxLength": 200, "x-max-tokens": 64}
GRAMMARS = frozenset(
    [
        *_LABELS,
        *(f"reason_{verdict}" for verdict in _LABELS),
        *(f"{verdict}_reason" for verdict in _LABELS),
    ]
)
"""Names of the bundled grammars."""


class AnswerForm(Record):
    """Valid answers in a trained format, with the value of each label in [0, 1]."""

    labels: dict[str, int | float]
    form: str = _VERDICT

    @model_validator(mode="after")
    def _can_be_read_back(self) -> Self:
        if not all(0 <= value <= 1 for value in self.labels.values()):
            raise ValueError("a label stands for a value from 0 to 1")
        if "" in self.labels:
            raise ValueError("a label must have a character")
        first_characters = {label[:1] for label in self.labels}
        values = set(self.labels.values())
        if len(first_characters) < len(self.labels) or len(values) <= 1:
            problem = "labels must begin with different characters, and stand for two values"
            raise ValueError(f"{problem} or more")
        if self.form.count(_VERDICT) != 1:
            raise ValueError(f"the form of an answer must contain {_VERDICT} once")
        return self

    def grammar(self, name: str) -> Grammar:
        before, after = map(_literal, self.form.split(_VERDICT))
        verdict = "|".join(map(_literal, self.labels))
        return Grammar(name=name, pattern=f"{before}({verdict}){after}", labels=self.labels)


def _literal(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


_Shown = Literal["question", "contexts", "reference", "response", "examples"]


class NodeTemplate(Record):
    """Text of a node with placeholders. Left out if the text named by `when` is empty.

    A node for each context or example. A `role` begins a message, or a document of the chat
    template. `{ unit}` tokenises a leading space with the text, as in `Claim: text`.
    """

    text: str
    for_each: Literal["contexts", "examples"] | None = None
    when: _Shown | None = None
    role: str | None = None


class Head(Record):
    """Outputs of a classification head, in the model's order, and how long texts are cut for it.

    `share` has the ids of the tokens for `{share}` (see `ClassifierReading`). Without
    `Nearest`, it reads everything, in windows that have at most `window_tokens` tokens, and begin
    with the last `overlap` sentences of the previous one.
    """

    outputs: tuple[str, ...] = Field(min_length=1)
    share: tuple[NonNegativeInt, ...] = ()
    overlap: NonNegativeInt = 1
    window_tokens: PositiveInt | None = None

    @field_validator("outputs")
    @classmethod
    def _different(cls, outputs: tuple[str, ...]) -> tuple[str, ...]:
        for name, count in Counter(outputs).items():
            if count > 1:
                raise ValueError(f"{count} outputs are called {name!r}: give each its own name")
        return outputs

    def fits(self, outputs: Sequence[str]) -> bool:
        """Return whether a model has these outputs, by number, and by name if it has names."""
        is_named = not all(map(_UNNAMED.fullmatch, outputs))
        if not is_named:
            return len(outputs) == len(self.outputs)
        return list(map(str.casefold, outputs)) == list(map(str.casefold, self.outputs))


class Nearest(Record):
    """How much a model reads: the sentences nearest to what is judged, so many letters at most.

    With `units`, only where it judges units of these kinds, and everything for the others. With
    `closer`, it reads a second time for a statement beside texts: the nearest sentences again, but
    so many letters at most. The higher of both probabilities counts.
    """

    letters: PositiveInt
    closer: PositiveInt | None = None
    units: tuple[UnitKind, ...] = ()

    @model_validator(mode="after")
    def _closer_is_less(self) -> Self:
        if self.closer is None:
            return self
        if self.closer >= self.letters:
            raise ValueError(
                f"closer is {self.closer}: it must be less than letters, {self.letters}"
            )
        if not reads_nearest(self.units, "statement"):
            raise ValueError('closer is for statements: add "statement" to units, or omit closer')
        return self

    @field_validator("units")
    @classmethod
    def _in_one_order(cls, units: tuple[UnitKind, ...]) -> tuple[UnitKind, ...]:
        if not units:
            raise ValueError("name at least one kind of unit, or omit units for all")
        return tuple(sorted(set(units)))


def reads_nearest(units: Collection[str], unit: str) -> bool:
    """Return whether a model with these `units` in `[nearest]` reads only what is near a unit."""
    return not units or unit in units


class HeadAnswer(Record):
    """Outputs that mean yes (by default the only output), and the calibration of their log odds.

    `adapter` is the sha256 of a registered adapter of the model, which it reads this task with.
    """

    yes: tuple[str, ...] = ()
    scale: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    bias: float = Field(default=0.0, allow_inf_nan=False)
    adapter: str = Field(default="", pattern="^([0-9a-f]{64})?$")


class ReasonPrompt(Record):
    """Grammars with a reason, and the `{form}` of `before`."""

    before: str
    after: str
    form: str


class TaskPrompt(Record):
    """Prompt of one task.

    `template` has arguments for the chat template, `answer` is for a classification head.
    """

    grammar: str | AnswerForm
    answer: HeadAnswer = HeadAnswer()
    form: str = ""
    template: dict[str, Any] = Field(default_factory=dict)
    reasons: ReasonPrompt | None = None
    node: tuple[NodeTemplate, ...]

    @property
    def is_conversation(self) -> bool:
        return any(node.role for node in self.node)

    @property
    def placeholders(self) -> set[str]:
        names = set()
        for node in self.node:
            for _, name in PLACEHOLDER.findall(node.text):
                names.add(name)
        return names

    @model_validator(mode="after")
    def _can_be_asked(self) -> Self:
        if self.is_conversation and not self.node[0].role:
            raise ValueError("the first node must have a role if another node has one")
        if self.template and not self.is_conversation:
            raise ValueError("arguments of a chat template need nodes with roles")
        names: list[object] = [self.grammar]
        if self.reasons:
            names += [self.reasons.before, self.reasons.after]
        for name in names:
            if isinstance(name, str) and name not in GRAMMARS:
                listed = ", ".join(sorted(GRAMMARS))
                raise ValueError(f"no grammar is called {name!r}; the grammars are {listed}")
        if "unit" not in self.placeholders:
            raise ValueError("it never shows the text that is judged: put {unit} into a node")
        return self


class PromptProfile(Record):
    """Prompts for a kind of model, chosen if the model's metadata match a row of `made_for`.

    `head` is for models with a classification head. `special` has the sha256 of each special task's
    file, `sha256` covers the others. Without `instructions`, the model understands only fixed
    markers, so its prompts cannot be reworded.
    """

    name: str
    description: str
    sha256: str
    chat: bool
    instructions: bool = True
    begin_of_text: bool = True
    bare_answer: str = ""
    head: Head | None = None
    nearest: Nearest | None = None
    made_for: tuple[Annotated[dict[str, re.Pattern[str]], Field(min_length=1)], ...] = ()
    tasks: dict[str, TaskPrompt]
    special: dict[str, str] = Field(default_factory=dict)

    @property
    def converses(self) -> bool:
        return all(task.is_conversation for task in self.tasks.values())

    @model_validator(mode="after")
    def _can_be_asked(self) -> Self:
        unknown = sorted(self.tasks.keys() - TASKS)
        if unknown:
            names = ", ".join(unknown)
            tasks = ", ".join(sorted(TASKS))
            raise ValueError(f"no task is called {names}; the tasks are {tasks}")
        if not self.chat and any(task.is_conversation for task in self.tasks.values()):
            raise ValueError("roles need chat = true")
        for name, task in self.tasks.items():
            self._check_answer(name, task)
        return self

    def _check_answer(self, name: str, task: TaskPrompt) -> None:
        shows_share = any(SHARE_PLACEHOLDER in node.text for node in task.node)
        if self.head is None:
            if task.answer != HeadAnswer() or shows_share:
                raise ValueError(
                    f"{name}: answer and {SHARE_PLACEHOLDER} need [head] in profile.toml"
                )
            return
        if task.is_conversation or task.reasons:
            raise ValueError(
                f"{name}: a model with a classification head has no roles and gives no reasons",
            )
        if shows_share and not self.head.share:
            raise ValueError(
                f"{name}: {SHARE_PLACEHOLDER} needs the ids of its tokens: share = [...] in [head]",
            )
        yes = set(self.yes_outputs(task))
        outputs = set(self.head.outputs)
        is_only_output = len(outputs) == 1 and yes == outputs
        names_some = bool(yes) and yes < outputs
        if not is_only_output and not names_some:
            listed = ", ".join(self.head.outputs)
            problem = f"answer.yes must name some, but not all, of the outputs {listed}"
            raise ValueError(f"{name}: {problem}")

    def yes_outputs(self, task: TaskPrompt) -> tuple[str, ...]:
        """Return the outputs that mean yes: a single output does without being named."""
        if self.head and len(self.head.outputs) == 1 and not task.answer.yes:
            return self.head.outputs
        return task.answer.yes

    def reading(self, task: TaskPrompt) -> ClassifierReading | None:
        """Return how a task's answer is read from a classification head, or None if the profile has
        none.
        """
        if self.head is None:
            return None
        return ClassifierReading(
            outputs=self.head.outputs,
            yes=self.yes_outputs(task),
            scale=task.answer.scale,
            bias=task.answer.bias,
            share=self.head.share,
            adapter=task.answer.adapter,
        )

    def letters(self, task: Task) -> int | None:
        """Return the letters of the nearest sentences that the model reads for a task.

        None if it reads everything.
        """
        if self.nearest is None or not reads_nearest(self.nearest.units, task.unit.kind):
            return None
        return self.nearest.letters

    def closer_letters(self, task: Task) -> int | None:
        """Return the letters that the model reads a second time for a task, None if it does not."""
        if self.nearest is None or self.letters(task) is None or not isinstance(task, Attribution):
            return None
        return self.nearest.closer

    @property
    def overlap(self) -> int:
        """Sentences that a window repeats of the previous one."""
        return self.head.overlap if self.head else 0

    def window_capacity(self, capacity: int) -> int:
        """Return the tokens of a window for an engine with this capacity."""
        if self.head is None or self.head.window_tokens is None:
            return capacity
        return min(self.head.window_tokens, capacity)

    def find_task(self, name: str) -> str | None:
        """Return the task whose prompt asks this one, or None if the profile has none."""
        if name in self.tasks:
            return name
        if name == ANSWER_SENTENCE and "relevance_sentence" in self.tasks:
            return "relevance_sentence"
        return None


def task_name(task: Task) -> str:
    if isinstance(task, Relevance):
        if task.unit.kind == "chunk":
            return "relevance_chunk"
        if task.unit.source == "response":
            return ANSWER_SENTENCE
        return "relevance_sentence"
    if isinstance(task, CustomQuestion):
        return "rubric" if task.levels else "criterion"
    return type(task).__name__.lower()


@cache
def load_grammar(name: str) -> Grammar:
    """Load one of the bundled `GRAMMARS`. Raises InputError if its file is missing."""
    schema = load_schema(name)
    [labels] = [_LABELS[key] for key in schema["properties"] if key in _LABELS]
    pattern = _compile(json.dumps(schema))
    tokens = int(schema["properties"].get("reason", {}).get("x-max-tokens", 0))
    return Grammar(name=name, pattern=pattern, labels=labels, reason_tokens=tokens)


def _compile(schema: str) -> str:
    """Convert a JSON schema to a regular expression without white space."""
    if COMPILER == "outlines":
        from outlines.types import JsonSchema
        from outlines.types.dsl import to_regex

        return str(to_regex(JsonSchema(schema, whitespace_pattern="")))

    from outlines_core.json_schema import build_regex_from_schema

    return f"({build_regex_from_schema(schema, '')})"


def load_schema(name: str) -> dict[str, Any]:
    """Load a schema.

    `reason_attributed` has a reason before the verdict, `attributed_reason` after it.
    """
    for verdict in _LABELS:
        if name not in (f"reason_{verdict}", f"{verdict}_reason"):
            continue
        schema = load_schema(verdict)
        properties = {**schema["properties"], "reason": _REASON}
        order = "The verdict, then a reason."
        if name.startswith("reason"):
            properties = {"reason": _REASON, **schema["properties"]}
            order = "A reason, then the verdict."
        schema["description"] = f"{schema['description']} {order}"
        return {**schema, "properties": properties, "required": list(properties)}
    text = resources.bundled_file("grammars", f"{name}.json").read_text(encoding="utf-8")
    return cast(dict[str, Any], json.loads(text))
