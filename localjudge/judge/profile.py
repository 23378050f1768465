r"""Answers in a profile's own words: what a model was trained to write, where that is not one of our JSON schemas.

    form = "<score> {verdict} </score>"        literal text, with the verdict's place
    labels = { yes = 0, no = 1 }               ->   <score> (yes|no) </score>

    form = "{reason}[RESULT] {verdict}"        a reason first: it ends where the text behind it begins
    reason_tokens = 300

    pattern = "(Yes|No)"                       or a regular expression

A label stands for a value in [0, 1], which makes an inverted answer ("yes, there is a risk") a matter of its file. A
reason cannot hold the first character of what follows it: that is how its end is told, and how it is closed when its
tokens are used up. Like a reason in JSON it is bounded twice, in characters by the expression and in tokens.

Prompts in several messages, and documents: put between what a model's chat template writes around them.

    nodes        system | document | document | assistant           each with the role that it begins
    skeleton     the template, rendered with a mark in the place of every one of them, then cut at the marks
    path         head | (gap) document | (gap) document | (gap) statement (tail)

No text of the user's passes through the template: it is rendered once for a row of roles, and the texts are put between
the gaps as they are. A template may show its documents inside JSON; their texts are then spelled as JSON spells them,
which the marks show.

Worked examples, shown to a model that answers about several statements at once.

An example is asked and answered exactly as the real question is: its prompt comes from the same nodes, and its answer
is one that the grammar for its statements allows (a test holds every bundled example to that).

Tags that a text cannot close: `</context>` becomes `</context-2>` where the text itself says `</context>`.

However the text spells it: in other letter forms, with blanks or invisible characters in it.

Grammars: which answers are legal.

Each is a JSON schema in `grammars/`, or one of these with a reason: `reason_attributed` asks for a reason before the
verdict of `attributed`, `attributed_reason` for one after it. Outlines turns it into a regular expression with no free
white space, so that every legal answer is short and ends; the engine compiles that expression for a model's vocabulary.
Outlines 1.3 does not install on Python 3.14 and above: there its core is called, which makes the expression on any
Python.

    {"properties": {"attributed": {"enum": [0, 1]}}}   ->   \{"attributed":(0|1)\}

A reason is bounded twice: in characters by the expression, and in tokens by the schema's `x-max-tokens`, because a
character takes up to four tokens and what is kept free for the longest answer cannot hold the prompt.

Your own wording of a task: one file in the place of a profile's.

    task = "relevance_sentence"       which wording it replaces
    grammar = "relevant"              the answer, as in the profile
    [[node]] ...                      the prompt's nodes, root first

The file is hashed into the profile's sha256, so into the judge's part of the signature and into every stored answer's
key: a changed word is another judge.

Which prompt profile a model is asked by, and why.

1  the one that the user names
2  the one that its file is registered with
3  a bundled one that is made for it: patterns in the profile's own file, looked for in the model's metadata
4  the one for any model that follows instructions

The files of a prompt profile, held as words, so that a run in which they are kept needs no folder beside itself.

Prompt profiles: how a kind of model is asked.

A profile is a folder of plain files, hashed as a whole: `profile.toml`, and one file per task with the prompt's nodes,
root first.

    instructions | context ... | question | statement        attribution
    instructions | context ... | question | sentence         relevance of a sentence
    instructions | chunk | question                          relevance of a chunk
    instructions | context ... | question                    sufficiency of the contexts
    instructions | question | response                       refusal to answer
    own question | example ... | context ... | question | reference | response | unit       an own question

    instructions, examples | context ... | question | statements     attribution of all statements in one answer

A node's end is a cut point. Cut points are the same whether or not anything is shared, because where a prompt is cut
moves the logits. `{fence}` becomes "", "-2", "-3" ...: the first for which none of the node's tags occurs in the text
that it encloses, however it is spelled, so that no text can close its own tag. `{form}` says how to answer: the verdict
alone, or a reason first. A reason after the verdict is not announced, so that it cannot move the verdict.

`{ unit}` is the place of a text with a space before it, which is tokenised with the text, as models saw it that were
trained on `Claim: text`.

A profile for a model that was trained on prompts of its own has what that needs, in its files: the form of its answers
(`answer_forms.py`), roles of messages, documents and arguments of the model's chat template (`conversation.py`), and by
which metadata it is picked (`made_for`). It may word a few tasks only: a judge is refused the others.

Tasks that only some metrics ask stand in the profile's folder `special/` and have a hash each, which is part of the
identity of the judges that are asked them: the others stay the judges that they were.
"""

import hashlib
import json
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import count
from pathlib import Path, PurePath
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field, ValidationError, model_validator

from localjudge import resources
from localjudge.errors import ModelError, SampleError, UsageError
from localjudge.resources import parse_toml
from localjudge.types import (
    AnsweredQuestion,
    Attribution,
    Grammar,
    Label,
    Node,
    OwnQuestion,
    Piece,
    Record,
    Refusal,
    Relevance,
    RenderChat,
    Span,
    Sufficiency,
    Task,
    Unit,
    UnitKind,
    Usefulness,
)
from localjudge.words import option, option_name

_VERDICT, _REASON = "{verdict}", "{reason}"
_SPECIAL = re.compile(r"([\\.^$*+?{}\[\]|()])")
_CHARACTERS_PER_TOKEN = 4
"""Of a reason, at its longest: about that of English text in common vocabularies."""


class AnswerForm(Record):
    """The legal answers of a task, and what each verdict stands for."""

    labels: dict[str, int | float]
    form: str = _VERDICT
    pattern: str = ""
    reason_tokens: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _can_be_told_apart(self) -> Self:
        if not all(0 <= value <= 1 for value in self.labels.values()):
            raise ValueError("a label stands for a value from 0 to 1")
        if len({label[:1] for label in self.labels}) < len(self.labels) or len(set(self.labels.values())) <= 1:
            raise ValueError("labels must begin with different characters, and stand for two values or more")
        return self

    @model_validator(mode="after")
    def _has_its_places(self) -> Self:
        before, verdict, _ = self.form.partition(_VERDICT)
        if not verdict or self.form.count(_VERDICT) > 1:
            raise ValueError(f"the form of an answer shows {_VERDICT} once")
        if self.pattern:
            if self.form != _VERDICT or self.reason_tokens:
                raise ValueError("an answer has a form or a pattern, and only a form holds a reason")
            _compiled(self.pattern)
        if (self.form.count(_REASON) == 1) != bool(self.reason_tokens) or self.form.count(_REASON) > 1:
            raise ValueError(f"a form with {_REASON} has reason_tokens, and no other")
        if self.reason_tokens and not before.partition(_REASON)[2]:
            raise ValueError(f"a form shows {_REASON} before {_VERDICT}, with text between them")
        return self

    def grammar(self, name: str) -> Grammar:
        """The answers as a grammar of this name."""
        if not self.reason_tokens:
            return Grammar(name=name, pattern=self.pattern or self._expression(), labels=self.labels)
        return Grammar(
            name=name,
            pattern=self._expression(),
            labels=self.labels,
            reason_tokens=self.reason_tokens,
            reason_end=self._reason_end,
        )

    @property
    def _reason_end(self) -> str:
        return self.form.partition(_REASON)[2][0]

    def _expression(self) -> str:
        before, _, after = self.form.partition(_VERDICT)
        verdict = f"({'|'.join(map(_literal, self.labels))})"
        opening, has_reason, between = before.partition(_REASON)
        reason = ""
        if has_reason:
            most = self.reason_tokens * _CHARACTERS_PER_TOKEN
            reason = rf"(?P<reason>[^{_literal(self._reason_end)}\x00-\x1F\x7F-\x9F]{{1,{most}}})"
        return f"{_literal(opening)}{reason}{_literal(between)}{verdict}{_literal(after)}"


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"the pattern of an answer is no regular expression: {error}") from error


def _literal(text: str) -> str:
    """The text in an expression that both Python and llguidance read."""
    return _SPECIAL.sub(r"\\\1", text)


DOCUMENT = "document"
"""The role of a node that becomes an entry of the template's argument `documents`."""

_MARK = "localjudge-text-7f3a"
_UNLIKE_JSON = '"\n'
"""What JSON spells otherwise."""


class RoledNode(NamedTuple):
    """A node, and the role of the message that begins with it; None where it goes on with the one before."""

    role: str | None
    node: Node


class Skeleton(NamedTuple):
    """What a template writes before, between and behind its messages; whether its documents stand inside JSON."""

    gaps: tuple[str, ...]
    escaped: bool


def skeleton(render: RenderChat, roles: Sequence[str], arguments: Mapping[str, Any]) -> Skeleton:
    """What the template writes around messages with these roles, in their order.

    Raises ModelError if it cannot be rendered, or does not show every one of them once and in this order.
    """
    marks = [f"{_MARK}-{place}{_UNLIKE_JSON if role == DOCUMENT else ''}." for place, role in enumerate(roles)]
    messages = [{"role": role, "content": mark} for role, mark in zip(roles, marks, strict=True) if role != DOCUMENT]
    texts = [mark for role, mark in zip(roles, marks, strict=True) if role == DOCUMENT]
    documents = [{"doc_id": str(number), "text": text} for number, text in enumerate(texts)]
    rendered = render(messages, {**arguments, **({"documents": documents} if documents else {})})
    for escaped in (False, True):
        shown = [_in_json(mark) if escaped else mark for mark in marks]
        parts = re.split("|".join(map(re.escape, shown)), rendered)
        if re.findall("|".join(map(re.escape, shown)), rendered) == shown:
            return Skeleton(tuple(parts), escaped)
    raise ModelError(
        f"the model's chat template does not show {' and '.join(dict.fromkeys(roles))} once and in this order, as the "
        "prompt profile wants it",
        hint="use a conversion of the model with its own chat template, or another profile",
    )


def in_skeleton(nodes: Sequence[RoledNode], around: Skeleton) -> list[Node]:
    """The nodes of the prompt. What stands before the first document is one by itself: all samples share it."""
    gaps = iter(around.gaps)
    path: list[Node] = []
    is_document = False
    for role, node in nodes:
        gap: Node = ()
        if role is not None:
            gap = (Piece(text=next(gaps), trusted=True),)
            if not path and role == DOCUMENT:
                path.append(gap)
                gap = ()
            is_document = role == DOCUMENT
        path.append((*gap, *(_spelled(node) if is_document and around.escaped else node)))
    path[-1] = (*path[-1], Piece(text=next(gaps), trusted=True))
    return path


def _spelled(node: Node) -> Node:
    return tuple(piece._replace(text=_in_json(piece.text)) for piece in node)


def _in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


class ExampleEntry(Record):
    """One judged statement, its keys in the order of the answer."""

    statement: str
    reason: str
    attributed: Label


class Example(Record):
    """Contexts, a question and judged statements."""

    contexts: tuple[str, ...]
    question: str | None = None
    classifications: tuple[ExampleEntry, ...]

    @property
    def tasks(self) -> tuple[Attribution, ...]:
        """What the example asks."""
        return tuple(
            Attribution(
                unit=Unit(
                    kind="statement",
                    index=index,
                    source="reference",
                    span=Span(start=0, end=len(entry.statement), text=entry.statement),
                ),
                contexts=self.contexts,
                user_input=self.question,
            )
            for index, entry in enumerate(self.classifications)
        )

    @property
    def answer(self) -> str:
        """The whole answer, in JSON with no free white space."""
        entries = [entry.model_dump() for entry in self.classifications]
        return json.dumps({"classifications": entries}, ensure_ascii=False, separators=(",", ":"))


_TAGS_KEPT = 64
_FENCED_TAG = re.compile(r"<[^<>\n]*\{fence\}>")


def fence(tags: Sequence[str], enclosed: Iterable[str]) -> str:
    """What `{fence}` becomes in a template with these tags around these texts."""
    inside = _as_read("\n".join(enclosed)) if tags else ""
    if not inside:
        return ""
    for number in count(1):
        suffix = "" if number == 1 else f"-{number}"
        if not any(_tag_as_read(f"{tag}{suffix}>") in inside for tag in tags):
            return suffix
    raise AssertionError("a text cannot hold every number")


@lru_cache(maxsize=_TAGS_KEPT)
def _tag_as_read(tag: str) -> str:
    return _as_read(tag)


def _as_read(text: str) -> str:
    """A text as a model may take it: `＜ / Context >` reads as `</context>`, with invisible characters in it too."""
    if text.isascii() and "<" not in text:
        return ""
    folded = unicodedata.normalize("NFKC", text).casefold()
    if "<" not in folded:
        return ""
    return "".join(part for part in folded if not part.isspace() and unicodedata.category(part) != "Cf")


COMPILER = "outlines" if sys.version_info < (3, 14) else "outlines_core"
"""The package that makes the expressions; `pyproject.toml` installs it by the same rule."""

_LABELS: dict[str, int | float] = {"0": 0, "1": 1}
_OF_OWN_QUESTIONS: dict[str, dict[str, int | float]] = {
    "answer": {"no": 0, "yes": 1},
    "level": {"1": 0, "2": 0.25, "3": 0.5, "4": 0.75, "5": 1},
}
_VERDICTS = ("attributed", "relevant", "useful", "sufficient", "refused", "answer", "level")
_JOINT = "classifications"


@cache
def load_grammar(name: str) -> Grammar:
    """The bundled grammar `name`. Raises UsageError if there is none."""
    return from_schema(name, schema_text(name))


def schema_text(name: str) -> str:
    """The JSON schema of the bundled grammar `name`. Raises UsageError if there is none."""
    for key in _VERDICTS:
        if name in {f"reason_{key}", f"{key}_reason"}:
            return _with_reason(_schema(key), before=name.startswith("reason_"))
    return resources.grammar_file(name).read_text(encoding="utf-8")


def from_schema(name: str, schema: str) -> Grammar:
    """A grammar from the text of a JSON schema whose verdict is an enum of 0 and 1, a level or yes or no."""
    tree = json.loads(schema)
    own = [labels for key, labels in _OF_OWN_QUESTIONS.items() if key in tree["properties"]]
    return Grammar(
        name=name,
        pattern=_pattern(tree),
        labels=own[0] if own else _LABELS,
        reason_tokens=_reason_tokens(tree),
        json_schema=schema,
    )


def for_statements(statements: Sequence[str]) -> Grammar:
    """The grammar of one answer about all the statements: every one verbatim, in order, with a reason and a verdict.

    Raises SampleError for a statement that JSON cannot hold.
    """
    schema = _schema(_JOINT)
    entries = schema["properties"][_JOINT]
    entry = entries["items"]
    entries["prefixItems"] = [_entry_about(statement, entry) for statement in statements]
    entries["minItems"] = entries["maxItems"] = len(statements)
    entries["items"] = False
    return Grammar(
        name=_JOINT,
        pattern=_pattern(schema),
        labels=_LABELS,
        verdicts=len(statements),
        reason_tokens=_reason_tokens(entry),
        json_schema=json.dumps(schema),
    )


def _schema(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(resources.grammar_file(name).read_text(encoding="utf-8"))
    return schema


def _with_reason(schema: dict[str, Any], *, before: bool) -> str:
    """The schema of a verdict with the reason that joint answers have, before or after it."""
    reason = {"reason": _schema(_JOINT)["properties"][_JOINT]["items"]["properties"]["reason"]}
    verdict = schema["properties"]
    properties = {**reason, **verdict} if before else {**verdict, **reason}
    order = "A reason, then the verdict." if before else "The verdict, then a reason."
    description = f"{schema['description']} {order}"
    return json.dumps({**schema, "description": description, "properties": properties, "required": list(properties)})


def _entry_about(statement: str, entry: dict[str, Any]) -> dict[str, Any]:
    try:
        statement.encode()
    except UnicodeEncodeError as error:
        raise SampleError(f"a statement holds a lone surrogate at position {error.start}") from error
    return {**entry, "properties": {**entry["properties"], "statement": {"const": statement}}}


def _pattern(schema: dict[str, Any]) -> str:
    text = json.dumps(schema)
    return _by_outlines(text) if COMPILER == "outlines" else _by_its_core(text)


def _by_outlines(schema: str) -> str:
    """The regular expression of a JSON schema, by Outlines."""
    from outlines.types import JsonSchema
    from outlines.types.dsl import to_regex

    expression: str = to_regex(JsonSchema(schema, whitespace_pattern=""))
    return expression


def _by_its_core(schema: str) -> str:
    """The same expression, by what Outlines calls."""
    from outlines_core.json_schema import build_regex_from_schema

    return f"({build_regex_from_schema(schema, '')})"


def _reason_tokens(schema: dict[str, Any]) -> int:
    return int(schema["properties"].get("reason", {}).get("x-max-tokens", 0))


class ProfileFolder(Record):
    """Where a profile stood, and every word of its files: what a run keeps, so that it can be verified without them."""

    path: str
    files: dict[str, str]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The files of a folder. Raises UsageError for one that cannot be read."""
        files = {}
        for file in (*folder.glob("*.toml"), *folder.glob("special/*.toml")):
            try:
                files[str(file.relative_to(folder))] = file.read_bytes().decode()
            except OSError as error:
                raise UsageError(f"{file} cannot be read: {error.strerror}") from error
            except UnicodeDecodeError as error:
                raise UsageError(f"{file} is not TOML: {error}", hint="mend the file") from error
        return cls(path=str(folder), files=files)


JOINT = "attribution_joint"
"""The task of judging all statements in one answer."""

TASKS = frozenset(
    {
        "attribution",
        "relevance_chunk",
        "relevance_sentence",
        "usefulness",
        "sufficiency",
        "refusal",
        "criterion",
        "rubric",
        JOINT,
    }
)
"""What a profile may word."""

DEFAULT_PROFILE = "instruct"
"""How a model is asked that no registry names a profile for."""

_CONTEXT_LISTS_KEPT = 64
_TEMPLATES_KEPT = 512
_BUNDLED = Path(__file__).parent / "prompts"
_KINDS: dict[UnitKind, str] = {"chunk": "passage"}
"""What `{kind}` calls a unit in a prompt, where not by its own name."""
_NUMBER = "{number}"
_PLACEHOLDER = re.compile(r"\{( ?)(context|question|unit|reference|response|own_question|levels|level|answer)\}")
_PROFILE = "profile.toml"


_Shown = Literal["question", "contexts", "reference", "response", "examples"]


class NodeTemplate(Record):
    """Text of one node, with places for the user's. `when` leaves it out if that is empty, `unless` if it is not.

    `for_each = "contexts"` makes a node of every context, `for_each = "examples"` one of every example of an own
    question, `for_each = "statements"` one node of all statements and `for_each = "levels"` one of all levels.
    With a `role`, a message of that role begins here, or a document of the chat template's.
    """

    text: str
    for_each: Literal["contexts", "examples", "statements", "levels"] | None = None
    when: _Shown | None = None
    unless: _Shown | None = None
    role: str | None = None


class ReasonPrompt(Record):
    """How a task is answered with a reason: a grammar for each order, and the `{form}` that announces `before`."""

    before: str
    after: str
    form: str


class TaskPrompt(Record):
    """The nodes of one task, root first, the grammar of its answer, and how it is answered with a reason.

    `grammar` names one of ours, or says how the model answers by itself. `template` holds arguments of the model's chat
    template.
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
    def places(self) -> frozenset[str]:
        """What of a task is shown: names of places in its nodes."""
        return frozenset(name for node in self.node for name in places_of(node.text))

    @model_validator(mode="after")
    def _begins_a_message(self) -> Self:
        if any(node.role for node in self.node) and not self.node[0].role:
            raise ValueError("the first node has no role, and another has one")
        return self


class PromptProfile(Record):
    """How a kind of model is asked about every task. `sha256` covers every file of the profile but the special tasks.

    A model without `instructions` reads markers alone: it cannot be asked in other words. `special` names the special
    tasks, with the sha256 of each one's file. `made_for` holds rows of a model file's keys, each with a regular
    expression that is looked for in its value: a model to which all of a row apply is asked by this profile.
    """

    name: str
    description: str
    sha256: str
    chat: bool
    instructions: bool = True
    begin_of_text: bool = True
    bare_answer: str = ""
    made_for: tuple[dict[str, str], ...] = ()
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
        if not all(self.made_for):
            raise ValueError("a row of made_for names a key of a model's file, and a pattern")
        for pattern in (one for row in self.made_for for one in row.values()):
            re.compile(pattern)
        return self


def bundled() -> list[str]:
    """Names of the profiles that come with the package."""
    return sorted(path.parent.name for path in _BUNDLED.glob(f"*/{_PROFILE}"))


def load_profile(profile: str | ProfileFolder) -> PromptProfile:
    """The bundled profile of this name, or the one in a folder, read before or now. Raises UsageError if it is none."""
    if isinstance(profile, ProfileFolder):
        return _assemble(profile)
    folder = _BUNDLED / profile if profile in bundled() else Path(profile).expanduser()
    if folder.is_dir():
        return _assemble(ProfileFolder.read(folder.resolve()))
    raise no_profile(profile)


def no_profile(name: str) -> UsageError:
    """The error for a name that no profile has."""
    return UsageError(
        f"no prompt profile is called {name!r}", hint=f"profiles are {', '.join(bundled())}, or name a folder with one"
    )


def _assemble(folder: ProfileFolder) -> PromptProfile:
    digest = hashlib.sha256()
    special: dict[str, str] = {}
    tables: dict[str, dict[str, Any]] = {}
    for name, text in sorted(folder.files.items(), key=lambda item: ("/" in item[0], item[0])):
        file, content = PurePath(name), text.encode()
        if "/" not in name:
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        else:
            special[file.stem] = hashlib.sha256(content).hexdigest()
        tables[file.stem] = parse_toml(content, f"{folder.path}/{name}")
    settings = tables.pop("profile", {})
    name = PurePath(folder.path).name
    try:
        return PromptProfile.model_validate(
            {"name": name, "sha256": digest.hexdigest(), "tasks": tables, "special": special, **settings}
        )
    except (ValidationError, TypeError, re.error) as error:
        raise UsageError(f"the prompt profile {folder.path} is not valid: {error}", hint="mend its files") from error


def task_name(task: Task) -> str:
    """The name of the file that words this task."""
    match task:
        case Attribution():
            return "attribution"
        case Relevance():
            return "relevance_chunk" if task.unit.kind == "chunk" else "relevance_sentence"
        case Usefulness():
            return "usefulness"
        case Sufficiency():
            return "sufficiency"
        case Refusal():
            return "refusal"
        case OwnQuestion():
            return "rubric" if task.levels else "criterion"


def places_of(text: str) -> set[str]:
    """Names of the places for the user's texts."""
    return {name for _, name in _PLACEHOLDER.findall(text)}


def not_shown(prompt: TaskPrompt, task: Task) -> list[str]:
    """What an own question holds and its prompt has no place for: it would be asked about less than it says."""
    if not isinstance(task, OwnQuestion):
        return []
    held = {name for name in ("reference", "response") if _texts(task)[name]}
    held |= {"context"} if any(context.strip() for context in task.contexts) else set()
    places = set(prompt.places)
    if task.examples and not any(node.for_each == "examples" for node in prompt.node):
        held.add("examples")
    return sorted(held - places)


def render(prompt: TaskPrompt, tasks: Sequence[Task], *, form: str) -> list[Node]:
    """The nodes of a prompt about one task, or about several with the same contexts and question.

    Our text is trusted, the user's is not.
    """
    return [node for _, node in render_with_roles(prompt, tasks, form=form)]


def render_with_roles(prompt: TaskPrompt, tasks: Sequence[Task], *, form: str) -> list[RoledNode]:
    """The same, each node with the role of the message that it begins."""
    task = tasks[0]
    contexts = () if isinstance(task, Usefulness | Refusal) else task.contexts
    texts = _texts(task)
    nodes: list[RoledNode] = []
    ours = {
        "{form}": form,
        "{examples}": "".join(_example(prompt, example) for example in prompt.example),
        "{kind}": _KINDS.get(task.unit.kind, task.unit.kind),
    }
    for node in prompt.node:
        template = _with_ours(node.text, ours)
        if _is_left_out(node, task, texts):
            continue
        made: Sequence[Node]
        if node.for_each == "examples":
            made = _example_nodes(prompt, node, task)
        elif node.for_each == "contexts":
            places = places_of(template)
            shown = {name: text for name, text in texts.items() if name in places}
            made = _context_nodes(template, contexts, tuple(shown.items()))
        elif node.for_each == "statements":
            units = ({**texts, "unit": each.unit.span.text} for each in tasks)
            made = [tuple(piece for each in units for piece in _fill(template, each))]
        elif node.for_each == "levels":
            made = [tuple(piece for level in _levels(task) for piece in _level_pieces(template, *level))]
        else:
            made = [_fill(template, texts)]
        nodes += (RoledNode(node.role, one) for one in made)
    return nodes


def _is_left_out(node: NodeTemplate, task: Task, texts: Mapping[str, str]) -> bool:
    def is_there(what: str) -> bool:
        if what == "examples":
            return bool(_examples_of(task))
        if what == "contexts":
            return not isinstance(task, Usefulness | Refusal) and any(text.strip() for text in task.contexts)
        return bool(texts[what])

    return bool((node.when and not is_there(node.when)) or (node.unless and is_there(node.unless)))


def _levels(task: Task) -> list[tuple[int, str]]:
    return list(enumerate(task.levels, start=1)) if isinstance(task, OwnQuestion) else []


def _level_pieces(template: str, number: int, level: str) -> Node:
    return _fill(template.replace(_NUMBER, str(number)), {"level": level})


def _texts(task: Task) -> dict[str, str]:
    """What the user's places hold, but for contexts."""
    texts = {"unit": task.unit.span.text, "question": (task.user_input or "").strip(), "reference": "", "response": ""}
    match task:
        case Usefulness():
            texts["reference"] = task.reference
        case OwnQuestion():
            levels = "\n".join(f"{level}: {meaning}" for level, meaning in _levels(task))
            texts |= {"reference": (task.reference or "").strip(), "response": (task.response or "").strip()}
            texts |= {"own_question": task.question, "levels": levels}
    return texts


def _examples_of(task: Task) -> Sequence[AnsweredQuestion]:
    return task.examples if isinstance(task, OwnQuestion) else ()


def _example_nodes(prompt: TaskPrompt, heading: NodeTemplate, task: Task) -> list[Node]:
    """One node for each example of an own question: the heading, then what it shows as the real texts are shown."""
    shown = tuple(node for node in prompt.node[1:] if "examples" not in (node.when, node.for_each))
    alike = prompt.model_copy(update={"node": shown})
    return [
        tuple(
            piece
            for node in (_fill(heading.text, {"answer": example.answer}), *render(alike, [example.asked], form=""))
            for piece in node
        )
        for example in _examples_of(task)
    ]


@lru_cache(maxsize=_CONTEXT_LISTS_KEPT)
def _context_nodes(template: str, contexts: tuple[str, ...], shown: tuple[tuple[str, str], ...]) -> tuple[Node, ...]:
    """A node for each context that says something. Remembered: a sample asks many questions about the same contexts."""
    return tuple(_fill(template, {**dict(shown), "context": context}) for context in contexts if context.strip())


def _example(prompt: TaskPrompt, example: Example) -> str:
    """The example as its own prompt would look, without the instructions, and its answer."""
    asked = prompt.model_copy(update={"node": prompt.node[1:], "example": ()})
    nodes = render(asked, example.tasks, form="")
    return "".join(piece.text for node in nodes for piece in node) + f"\n{example.answer}\n"


def _with_ours(template: str, ours: Mapping[str, str]) -> str:
    for place, text in ours.items():
        template = template.replace(place, text)
    return template


class _Template(NamedTuple):
    """A template taken apart: a literal before each place and one after the last; the tags that fence texts in."""

    literals: tuple[str, ...]
    places: tuple[tuple[str, str], ...]
    """Of each place the blank before it and its name."""
    tags: tuple[str, ...]


@lru_cache(maxsize=_TEMPLATES_KEPT)
def _parse(template: str) -> _Template:
    parts = _PLACEHOLDER.split(template)
    tags = (tag.replace("{fence}>", "") for tag in _FENCED_TAG.findall(template))
    return _Template(tuple(parts[::3]), tuple(zip(parts[1::3], parts[2::3], strict=True)), tuple(tags))


def _fill(template: str, texts: Mapping[str, str]) -> Node:
    return _filled(template, tuple(texts[name] for _, name in _parse(template).places))


@lru_cache(maxsize=_TEMPLATES_KEPT)
def _filled(template: str, texts: tuple[str, ...]) -> Node:
    """The template with these texts in its places. Remembered: the questions of a sample have most nodes in common."""
    literals, places, tags = _parse(template)
    number = fence(tags, dict.fromkeys(texts))
    pieces: list[Piece] = []
    for literal, (blank, _), text in zip(literals, (*places, ("", "")), (*texts, ""), strict=True):
        if literal:
            pieces.append(Piece(literal.replace("{fence}", number), trusted=True))
        if text:
            pieces.append(Piece(blank + text, trusted=False))
    return tuple(piece for piece in pieces if piece.text)


class OwnPrompt(Record):
    """A file's name and every word of it: what a run keeps, so that it can be verified without the file."""

    file: str
    text: str


def read_prompts(files: object) -> tuple[OwnPrompt, ...]:
    """Prompts from files and from prompts; one, or a list of them. Raises UsageError for what cannot be read."""
    return tuple(map(_read_prompt, files if isinstance(files, Sequence) and not isinstance(files, str) else [files]))


def _read_prompt(file: object) -> OwnPrompt:
    if isinstance(file, OwnPrompt):
        return file
    if not isinstance(file, str | Path):
        raise UsageError(f"{option_name('prompts')} must be names of files, got {file!r:.80}")
    try:
        return OwnPrompt(file=str(file), text=Path(file).read_bytes().decode())
    except OSError as error:
        raise UsageError(f"the prompt {file} cannot be read: {error.strerror}", hint="name a TOML file") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the prompt {file} is not TOML: {error}", hint="mend the file") from error


def with_prompt(profile: PromptProfile, prompt: OwnPrompt) -> PromptProfile:
    """The profile with one task worded by the prompt.

    Raises UsageError for what is not a wording of a task, and for a judge that reads no instructions: it would answer
    anything with even odds.
    """
    file, content = prompt.file, prompt.text.encode()
    if not profile.instructions:
        raise UsageError(
            f"the prompt {file} cannot be used: this judge ({profile.description}) would not understand a word of it",
            hint=f"leave out {option_name('prompts')}, or name a model that follows instructions: {option('judge')}",
        )
    table = parse_toml(content, f"the prompt {file}")
    task = table.pop("task", None)
    if task not in profile.tasks:
        raise UsageError(
            f"the prompt {file} {'names no task' if task is None else f'says task = {task!r}'}",
            hint=f"put task = ... above the first [[node]]; it is one of {', '.join(sorted(profile.tasks))}",
        )
    try:
        wording = TaskPrompt.model_validate(table)
    except ValidationError as error:
        raise UsageError(
            f"the prompt {file} is not valid: {error}", hint="compare it with a bundled profile"
        ) from error
    if wording.grammar != profile.tasks[task].grammar:
        raise UsageError(
            f"the prompt {file} asks for the answer {wording.grammar!r}",
            hint=f"the answer of this task is {_said(profile.tasks[task].grammar)}",
        )
    if "unit" not in wording.places:
        raise UsageError(f"the prompt {file} never shows the text that is judged", hint="put {unit} into a node")
    digest = hashlib.sha256(profile.sha256.encode() + hashlib.sha256(content).digest()).hexdigest()
    return profile.model_copy(update={"tasks": {**profile.tasks, task: wording}, "sha256": digest})


def _said(grammar: str | AnswerForm) -> str:
    """How a file says which answer is meant."""
    return f'grammar = "{grammar}"' if isinstance(grammar, str) else "the table [grammar] of the profile's file"


class ChosenProfile(NamedTuple):
    """A profile, and why it was chosen; "" where no other was in question."""

    profile: PromptProfile
    why: str


def read_profile(profile: object) -> object:
    """The folder of a profile of one's own, read; a name, and what is none, as it is."""
    if not isinstance(profile, str | Path) or str(profile) in bundled():
        return profile
    folder = Path(profile).expanduser()
    return ProfileFolder.read(folder.absolute()) if folder.is_dir() else str(profile)


def choose(named: str | ProfileFolder | None, registered: str | None, metadata: Mapping[str, str]) -> ChosenProfile:
    """The profile of a model: `named` by the user, `registered` with its checksum, or by what its file says of it.

    Raises UsageError for a name that no profile has.
    """
    if named is not None:
        return ChosenProfile(load_profile(named), f"as {option_name('profile')} says")
    if registered is not None:
        return ChosenProfile(load_profile(registered), "as it is registered")
    for name in bundled():
        profile = load_profile(name)
        for row in profile.made_for:
            if all(re.search(pattern, metadata.get(key, ""), re.IGNORECASE) for key, pattern in row.items()):
                return ChosenProfile(profile, f"made for it, by its {' and '.join(row)}")
    return ChosenProfile(load_profile(DEFAULT_PROFILE), "")
