r"""Prompt profiles: how a kind of model is asked, and which answers are legal.

A profile is a folder of plain files, hashed as a whole: `profile.toml`, and one file per task with the prompt's nodes,
root first. A node's end is a cut point, whether or not anything is shared: where a prompt is cut moves the logits.

    instructions | context ... | question | statement        attribution
    instructions | chunk | question                          relevance of a chunk
    instructions, examples | context ... | question | statements     attribution of all statements in one answer

Answers are ours, a JSON schema in `grammars/` (`reason_attributed` asks for a reason before the verdict of
`attributed`, `attributed_reason` for one after it), or what a model was trained to write:

    {"properties": {"attributed": {"enum": [0, 1]}}}   ->   \{"attributed":(0|1)\}            by Outlines

    form = "<score> {verdict} </score>"        literal text, with the verdict's place
    labels = { yes = 0, no = 1 }               ->   <score> (yes|no) </score>
    form = "{reason}[RESULT] {verdict}"        a reason first: it ends where the text behind it begins

A label stands for a value in [0, 1]. There is no free white space: every valid answer is short and ends. A reason is
bounded in characters by the expression and in tokens, because a character takes up to four tokens.

Tasks that only some metrics ask stand in the folder `special/` and have a hash each, which is part of the identity of
the judges that are asked them alone. A prompt file of the user's takes the place of one task (`task = ...` above its
nodes) and is hashed into the profile's sha256: a changed word is another judge.
"""

import hashlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, ValidationError, model_validator

from localjudge import resources
from localjudge.errors import InputError, SampleError
from localjudge.resources import parse_toml
from localjudge.types import Attribution, CustomQuestion, Grammar, Label, Record, Relevance, Span, Task, Unit
from localjudge.words import option, option_name

COMPILER = "outlines" if sys.version_info < (3, 14) else "outlines_core"
"""The package that makes expressions of schemas; `pyproject.toml` installs it by the same rule."""
JOINT = "attribution_joint"
"""The task of judging all statements in one answer."""
TASKS = frozenset(
    f"attribution {JOINT} relevance_chunk relevance_sentence usefulness sufficiency refusal criterion rubric".split()
)
DEFAULT_PROFILE = "instruct"

_BUNDLED = Path(__file__).parent / "prompts"
_VERDICT, _REASON = "{verdict}", "{reason}"
_SPECIAL = re.compile(r"([\\.^$*+?{}\[\]|()])")
_CHARACTERS_PER_TOKEN = 4  # of a reason, at its longest
_LABELS: dict[str, dict[str, int | float]] = {
    **{key: {"0": 0, "1": 1} for key in ("attributed", "relevant", "useful", "sufficient", "refused")},
    "answer": {"no": 0, "yes": 1},
    "level": {"1": 0, "2": 0.25, "3": 0.5, "4": 0.75, "5": 1},
}
"""What the values of each verdict in JSON stand for."""
_STATEMENTS = "classifications"
PLACE = re.compile(r"\{( ?)(context|question|unit|reference|response|own_question|levels|level|answer)\}")


@cache
def load_grammar(name: str) -> Grammar:
    """The bundled grammar `name`. Raises InputError if there is none."""
    schema = _schema(name)
    labels = next((_LABELS[key] for key in schema["properties"] if key in _LABELS), _LABELS["attributed"])
    return _grammar(name, schema, labels, reasons_of=schema)


def for_statements(statements: Sequence[str]) -> Grammar:
    """The grammar of one answer about all the statements: every one verbatim, in order, with a reason and a verdict.

    Raises SampleError for a statement that JSON cannot hold.
    """
    try:
        "".join(statements).encode()
    except UnicodeEncodeError as error:
        raise SampleError("a statement holds a lone surrogate, which cannot be part of an answer in JSON") from error
    schema = _schema(_STATEMENTS)
    entries = schema["properties"][_STATEMENTS]
    entry = entries["items"]
    asked = ({**entry["properties"], "statement": {"const": statement}} for statement in statements)
    entries["prefixItems"] = [{**entry, "properties": properties} for properties in asked]
    entries["minItems"] = entries["maxItems"] = len(statements)
    entries["items"] = False
    return _grammar(_STATEMENTS, schema, _LABELS["attributed"], reasons_of=entry, verdicts=len(statements))


def _grammar(
    name: str, schema: dict[str, Any], labels: dict[str, int | float], *, reasons_of: dict[str, Any], verdicts: int = 1
) -> Grammar:
    """The grammar of a schema without free white space, by Outlines, or by its core where there is no Outlines."""
    text = json.dumps(schema)
    if COMPILER == "outlines":
        from outlines.types import JsonSchema
        from outlines.types.dsl import to_regex

        pattern = str(to_regex(JsonSchema(text, whitespace_pattern="")))
    else:
        from outlines_core.json_schema import build_regex_from_schema

        pattern = f"({build_regex_from_schema(text, '')})"
    tokens = int(reasons_of["properties"].get("reason", {}).get("x-max-tokens", 0))
    return Grammar(name=name, pattern=pattern, labels=labels, verdicts=verdicts, reason_tokens=tokens, json_schema=text)


def _schema(name: str) -> dict[str, Any]:
    """The schema of a file, or that of a verdict with the reason that joint answers have, before or after it."""
    verdict = next((key for key in _LABELS if name in {f"reason_{key}", f"{key}_reason"}), None)
    if verdict is None:
        schema: dict[str, Any] = json.loads(
            resources.bundled_file("grammars", f"{name}.json").read_text(encoding="utf-8")
        )
        return schema
    schema = _schema(verdict)
    reason = {"reason": _schema(_STATEMENTS)["properties"][_STATEMENTS]["items"]["properties"]["reason"]}
    first = name.startswith("reason_")
    properties = {**reason, **schema["properties"]} if first else {**schema["properties"], **reason}
    order = "A reason, then the verdict." if first else "The verdict, then a reason."
    description = f"{schema['description']} {order}"
    return {**schema, "description": description, "properties": properties, "required": list(properties)}


class AnswerForm(Record):
    """The valid answers of a task in a model's own words, and what each verdict stands for."""

    labels: dict[str, int | float]
    form: str = _VERDICT
    reason_tokens: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _can_be_read_back(self) -> Self:
        before, _, after = self.form.partition(_VERDICT)
        if not all(0 <= value <= 1 for value in self.labels.values()):
            raise ValueError("a label stands for a value from 0 to 1")
        if len({label[:1] for label in self.labels}) < len(self.labels) or len(set(self.labels.values())) <= 1:
            raise ValueError("labels must begin with different characters, and stand for two values or more")
        if self.form.count(_VERDICT) != 1 or _REASON in after:
            raise ValueError(f"the form of an answer shows {_VERDICT} once, and last")
        if before.count(_REASON) != bool(self.reason_tokens) or before.endswith(_REASON):
            raise ValueError(f"a form with reason_tokens, and no other, shows {_REASON} once, with text behind it")
        return self

    def grammar(self, name: str) -> Grammar:
        """The answers as a grammar of this name."""
        before, _, after = self.form.partition(_VERDICT)
        opening, _, between = before.partition(_REASON)
        verdict = f"({'|'.join(map(_literal, self.labels))})"
        if not self.reason_tokens:
            return Grammar(name=name, pattern=f"{_literal(before)}{verdict}{_literal(after)}", labels=self.labels)
        end, most = between[0], self.reason_tokens * _CHARACTERS_PER_TOKEN
        reason = rf"(?P<reason>[^{_literal(end)}\x00-\x1F\x7F-\x9F]{{1,{most}}})"
        pattern = f"{_literal(opening)}{reason}{_literal(between)}{verdict}{_literal(after)}"
        return Grammar(name=name, pattern=pattern, labels=self.labels, reason_tokens=self.reason_tokens, reason_end=end)


def _literal(text: str) -> str:
    """The text in an expression that both Python and llguidance read."""
    return _SPECIAL.sub(r"\\\1", text)


class ExampleEntry(Record):
    """One judged statement, its keys in the order of the answer."""

    statement: str
    reason: str
    attributed: Label


class Example(Record):
    """A worked example of a joint answer: asked and answered exactly as the real question is."""

    contexts: tuple[str, ...]
    question: str | None = None
    classifications: tuple[ExampleEntry, ...]

    @property
    def tasks(self) -> tuple[Attribution, ...]:
        """What the example asks."""
        spans = enumerate(Span.whole(entry.statement) for entry in self.classifications)
        units = (Unit(kind="statement", index=index, source="reference", span=span) for index, span in spans)
        return tuple(Attribution(unit=unit, contexts=self.contexts, user_input=self.question) for unit in units)

    @property
    def answer(self) -> str:
        """The whole answer, in JSON with no free white space."""
        entries = [entry.model_dump() for entry in self.classifications]
        return json.dumps({_STATEMENTS: entries}, ensure_ascii=False, separators=(",", ":"))


_Shown = Literal["question", "contexts", "reference", "response", "examples"]


class NodeTemplate(Record):
    """Text of one node, with places for the user's. `when` leaves it out if that is empty, `unless` if it is not.

    `for_each = "contexts"` or `"examples"` makes a node of every one, `"statements"` or `"levels"` one node of all.
    With a `role`, a message of that role begins here, or a document of the chat template's. `{ unit}` is the place of a
    text with a space before it, which is tokenised with the text, as in training on `Claim: text`.
    """

    text: str
    for_each: Literal["contexts", "examples", "statements", "levels"] | None = None
    when: _Shown | None = None
    unless: _Shown | None = None
    role: str | None = None


class ReasonPrompt(Record):
    """How a task is answered with a reason: a grammar for each order, and the `{form}` that announces only `before`."""

    before: str
    after: str
    form: str


class TaskPrompt(Record):
    """The nodes of one task, root first, the grammar of its answer (a name, or the model's own form), and of a reason.

    `template` holds arguments of the model's chat template.
    """

    grammar: str | AnswerForm
    form: str = ""
    template: dict[str, Any] = Field(default_factory=dict)
    reasons: ReasonPrompt | None = None
    node: tuple[NodeTemplate, ...]
    example: tuple[Example, ...] = ()

    @property
    def is_conversation(self) -> bool:
        """Whether it is more than one message of the user's."""
        return bool(self.template) or any(node.role for node in self.node)

    @property
    def places(self) -> set[str]:
        """What of a task is shown: names of places in its nodes."""
        return {name for node in self.node for _, name in PLACE.findall(node.text)}

    @model_validator(mode="after")
    def _begins_a_message(self) -> Self:
        if any(node.role for node in self.node) and not self.node[0].role:
            raise ValueError("the first node has no role, and another has one")
        return self


class PromptProfile(Record):
    """How a kind of model is asked about every task. `sha256` covers every file of the profile but the special tasks.

    A model without `instructions` reads markers alone: it cannot be asked in other words. `special` has the sha256 of
    each special task's file. `made_for` holds rows of a model file's keys, each with a regular expression for its
    value: a model to which all of a row apply is asked by this profile.
    """

    name: str
    description: str
    sha256: str
    chat: bool
    instructions: bool = True
    begin_of_text: bool = True
    bare_answer: str = ""
    made_for: tuple[Annotated[dict[str, str], Field(min_length=1)], ...] = ()
    tasks: dict[str, TaskPrompt]
    special: dict[str, str] = Field(default_factory=dict)

    @property
    def converses(self) -> bool:
        """Whether no task is one message of the user's alone."""
        return all(task.is_conversation for task in self.tasks.values())

    @model_validator(mode="after")
    def _can_be_asked(self) -> Self:
        unknown = sorted(self.tasks.keys() - TASKS)
        if unknown:
            raise ValueError(f"no task is called {', '.join(unknown)}; there are {', '.join(sorted(TASKS))}")
        if not self.chat and any(task.is_conversation for task in self.tasks.values()):
            raise ValueError("roles and arguments of a chat template need chat = true")
        for pattern in (pattern for row in self.made_for for pattern in row.values()):
            re.compile(pattern)
        return self


def task_name(task: Task) -> str:
    """The name of the file that words this task."""
    if isinstance(task, Relevance):
        return "relevance_chunk" if task.unit.kind == "chunk" else "relevance_sentence"
    if isinstance(task, CustomQuestion):
        return "rubric" if task.levels else "criterion"
    return type(task).__name__.lower()


class ProfileFolder(Record):
    """Where a profile stood, and every word of its files: what a run keeps of it."""

    path: str
    files: dict[str, str]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The files of a folder. Raises InputError for one that cannot be read."""
        files = (*folder.glob("*.toml"), *folder.glob("special/*.toml"))
        return cls(path=str(folder), files={file.relative_to(folder).as_posix(): _text_of(file) for file in files})


class CustomPrompt(Record):
    """The name of a prompt file and every word of it: what a run keeps of it."""

    file: str
    text: str


def _text_of(file: Path) -> str:
    try:
        return file.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}", hint="name a TOML file in UTF-8") from error


def bundled() -> list[str]:
    """Names of the profiles that come with the package."""
    return sorted(path.parent.name for path in _BUNDLED.glob("*/profile.toml"))


def read_profile(profile: object) -> object:
    """The folder of a profile of one's own, read; anything else as it is, a path as text."""
    if not isinstance(profile, str | Path) or str(profile) in bundled():
        return profile
    folder = Path(profile).expanduser()
    return ProfileFolder.read(folder.absolute()) if folder.is_dir() else str(profile)


def no_profile(name: str) -> InputError:
    """The error for a name that no profile has."""
    return InputError(
        f"no prompt profile is called {name!r}", hint=f"profiles are {', '.join(bundled())}, or name a folder with one"
    )


def load_profile(profile: str | ProfileFolder) -> PromptProfile:
    """The bundled profile of this name, or the one in a folder, read before or now. Raises InputError if it is none."""
    if isinstance(profile, str):
        folder = _BUNDLED / profile if profile in bundled() else Path(profile).expanduser()
        if not folder.is_dir():
            raise no_profile(profile)
        profile = ProfileFolder.read(folder.resolve())
    digest = hashlib.sha256()
    special: dict[str, str] = {}
    tables: dict[str, dict[str, Any]] = {}
    for name, text in sorted(profile.files.items(), key=lambda item: ("/" in item[0], item[0])):
        task, content = PurePath(name).stem, text.encode()
        if "/" in name:
            special[task] = hashlib.sha256(content).hexdigest()
        else:
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        tables[task] = parse_toml(content, f"{profile.path}/{name}")
    fields = {"name": PurePath(profile.path).name, "sha256": digest.hexdigest(), "special": special}
    try:
        return PromptProfile.model_validate(tables.pop("profile", {}) | fields | {"tasks": tables})
    except (ValidationError, TypeError, re.error) as error:
        raise InputError(
            f"the prompt profile {profile.path} is not valid: {error}", hint="correct its files"
        ) from error


def read_prompts(files: object) -> tuple[CustomPrompt, ...]:
    """Prompts from files and from prompts; one, or a list of them. Raises InputError for what cannot be read."""
    prompts = []
    for file in files if isinstance(files, Sequence) and not isinstance(files, str) else [files]:
        if not isinstance(file, CustomPrompt | str | Path):
            raise InputError(f"{option_name('prompts')} must be names of files, got {file!r:.80}")
        prompts.append(
            file if isinstance(file, CustomPrompt) else CustomPrompt(file=str(file), text=_text_of(Path(file)))
        )
    return tuple(prompts)


def with_prompt(profile: PromptProfile, prompt: CustomPrompt) -> PromptProfile:
    """The profile with one task worded by the prompt. Raises InputError for what does not word one of its tasks."""
    file, content = prompt.file, prompt.text.encode()
    if not profile.instructions:
        raise InputError(
            f"the prompt {file} cannot be used: this judge ({profile.description}) would not understand a word of it",
            hint=f"leave out {option_name('prompts')}, or name a model that follows instructions: {option('judge')}",
        )
    table = parse_toml(content, f"the prompt {file}")
    task = table.pop("task", None)
    if task not in profile.tasks:
        raise InputError(
            f"the prompt {file} says task = {task!r}",
            hint=f"put task = ... above the first [[node]]; it is one of {', '.join(sorted(profile.tasks))}",
        )
    try:
        wording = TaskPrompt.model_validate(table)
    except ValidationError as error:
        raise InputError(f"the prompt {file} is not valid: {error}", hint="compare it with a bundled one") from error
    if wording.grammar != profile.tasks[task].grammar:
        legal = f"the answer of this task is that of the bundled profile: {profile.tasks[task].grammar!r}"
        raise InputError(f"the prompt {file} asks for the answer {wording.grammar!r}", hint=legal)
    if "unit" not in wording.places:
        raise InputError(f"the prompt {file} never shows the text that is judged", hint="put {unit} into a node")
    digest = hashlib.sha256(profile.sha256.encode() + hashlib.sha256(content).digest()).hexdigest()
    return profile.model_copy(update={"tasks": {**profile.tasks, task: wording}, "sha256": digest})


class ChosenProfile(NamedTuple):
    """A profile, and why it was chosen; "" where no other was in question."""

    profile: PromptProfile
    why: str


def choose(named: str | ProfileFolder | None, registered: str | None, metadata: Mapping[str, str]) -> ChosenProfile:
    """The profile of a model: `named` by the user, `registered` with its checksum, or by what its file says of it."""
    if named is not None:
        return ChosenProfile(load_profile(named), f"as {option_name('profile')} says")
    if registered is not None:
        return ChosenProfile(load_profile(registered), "as it is registered")
    for profile in map(load_profile, bundled()):
        for row in profile.made_for:
            if all(re.search(pattern, metadata.get(key, ""), re.IGNORECASE) for key, pattern in row.items()):
                return ChosenProfile(profile, f"made for it, by its {' and '.join(row)}")
    return ChosenProfile(load_profile(DEFAULT_PROFILE), "")
