r"""Prompt profiles: how a kind of model is asked, and which answers are valid.

A profile is a folder: `profile.toml`, and one file per task with the prompt's nodes, root first.
Prompts are always evaluated node by node, because the steps affect the logits.

    instructions | context ... | question | statement                attribution
    instructions | chunk | question                                  relevance of a chunk

Answers follow a JSON schema (`localjudge.judge.answer_grammars`), or the format that the model was
trained for:

    form = "<score> {verdict} </score>",  labels = { yes = 0, no = 1 } -> <score> (yes|no) </score>

All files are hashed together, but a task in `special/` separately, and only if it is asked.

A profile with a `head` is for models with a classification head, which write no text. It names
their outputs in order, and each task says which of them mean yes:

    [head]                                                     <s>{share}{unit}</s>{context}</s>
    outputs = ["contradiction", "neutral", "entailment"]       answer = { yes = ["entailment"] }
"""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from localjudge.errors import InputError
from localjudge.judge.answer_grammars import GRAMMARS
from localjudge.resources import parse_toml
from localjudge.types import (
    SHARE_PLACEHOLDER,
    ClassifierReading,
    CustomQuestion,
    Grammar,
    Record,
    Relevance,
    Task,
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

_BUNDLED = Path(__file__).parent / "prompts"
_MAX_PROBLEMS = 4
"""Problems of a profile in a message."""
_VERDICT = "{verdict}"
_SPECIAL = re.compile(r"([\\.^$*+?{}\[\]|()])")  # in Python and in llguidance
_UNNAMED = re.compile(r"LABEL_\d+")  # Hugging Face's names of outputs without names
PLACEHOLDER = re.compile(
    r"\{( ?)(context|question|unit|reference|response|own_question|levels|answer)\}"
)


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

    `share` has the ids of the tokens for `{share}` (see `ClassifierReading`). With `letters`, the
    model reads the sentences nearest to a statement, so many letters at most. Without, it reads
    everything, in windows that have at most `window_tokens` tokens, and begin with the last
    `overlap` sentences of the previous one.
    """

    outputs: tuple[str, ...] = Field(min_length=1)
    share: tuple[NonNegativeInt, ...] = ()
    letters: PositiveInt | None = None
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

    @property
    def grammar_names(self) -> list[str]:
        """Names of the bundled grammars that answers follow."""
        names = []
        if isinstance(self.grammar, str):
            names.append(self.grammar)
        if self.reasons:
            names += [self.reasons.before, self.reasons.after]
        return names

    @model_validator(mode="after")
    def _can_be_asked(self) -> Self:
        if self.is_conversation and not self.node[0].role:
            raise ValueError("the first node must have a role if another node has one")
        if self.template and not self.is_conversation:
            raise ValueError("arguments of a chat template need nodes with roles")
        for name in self.grammar_names:
            if name not in GRAMMARS:
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
            known = ", ".join(sorted(TASKS))
            raise ValueError(f"no task is called {names}; the tasks are {known}")
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


class ProfileFolder(Record):
    """A profile's files, as stored in a run."""

    path: str
    files: dict[str, str]

    @classmethod
    def read(cls, folder: Path) -> Self:
        files = (*folder.glob("*.toml"), *folder.glob("special/*.toml"))
        texts = {}
        for file in files:
            texts[file.relative_to(folder).as_posix()] = _read_text(file)
        return cls(path=str(folder), files=texts)


def _read_text(file: Path) -> str:
    if not file.is_file():  # a pipe would be waited for
        raise InputError(f"{file} is not a regular file", hint="copy the file itself there")
    try:
        return file.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{file} cannot be read: {error}",
            hint="name a TOML file in UTF-8",
        ) from error


def bundled() -> list[str]:
    return sorted(path.parent.name for path in _BUNDLED.glob("*/profile.toml"))


def read_profile(profile: object) -> object:
    if not isinstance(profile, str | Path) or str(profile) in bundled():
        return profile
    folder = Path(profile).expanduser()
    if not folder.is_dir():
        return str(profile)
    return ProfileFolder.read(folder.absolute())


def no_profile(name: str) -> InputError:
    names = ", ".join(bundled())
    hint = f"profiles are {names}, or name a folder with one"
    return InputError(f"no prompt profile is called {name!r}", hint=hint)


def load_profile(profile: str | ProfileFolder) -> PromptProfile:
    """Load a profile by name or folder. Raises InputError if it does not exist or is not valid."""
    if isinstance(profile, ProfileFolder):
        return _load_folder(profile)
    if profile in bundled():
        return _load_bundled(profile)
    return _load_folder(_read_folder(profile))


@lru_cache
def _load_bundled(name: str) -> PromptProfile:
    """Load a bundled profile once in a process."""
    return _load_folder(_read_folder(name))


def _load_folder(profile: ProfileFolder) -> PromptProfile:
    digest = hashlib.sha256()
    special: dict[str, str] = {}
    tables: dict[str, dict[str, Any]] = {}
    for name in sorted(profile.files, key=lambda name: ("/" in name, name)):
        task = PurePath(name).stem
        content = profile.files[name].encode()
        if "/" in name:
            special[task] = hashlib.sha256(content).hexdigest()
        else:
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        tables[task] = parse_toml(content, f"{profile.path}/{name}")
    fields = tables.pop("profile", {})
    fields |= {
        "name": PurePath(profile.path).name,
        "sha256": digest.hexdigest(),
        "special": special,
        "tasks": tables,
    }
    try:
        return PromptProfile.model_validate(fields)
    except (ValidationError, TypeError) as error:
        reasons = str(error)
        if isinstance(error, ValidationError):
            reasons = _list_problems(error)
        problem = f"the prompt profile {profile.path} is not valid: {reasons}"
        raise InputError(problem, hint="correct its files") from error


def _list_problems(error: ValidationError) -> str:
    """Return the first problems as `attribution.node.1.colour: Extra inputs are not permitted`."""
    problems: list[str] = []
    for problem in error.errors(include_url=False, include_input=False)[:_MAX_PROBLEMS]:
        names = [str(part) for part in problem["loc"] if re.fullmatch(r"\w+", str(part))]
        place = ".".join(names).removeprefix("tasks.")
        message = problem["msg"].removeprefix("Value error, ")
        problems.append(": ".join(filter(None, (place, message))))
    return "; ".join(problems)


def _read_folder(name: str) -> ProfileFolder:
    folder = Path(name).expanduser()
    if name in bundled():
        folder = _BUNDLED / name
    if not folder.is_dir():
        raise no_profile(name)
    return ProfileFolder.read(folder.resolve())
