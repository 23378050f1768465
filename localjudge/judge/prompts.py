"""Prompt profiles: how a kind of model is asked.

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

Tasks that only some metrics ask stand in the profile's folder `special/` and have a hash each, which is part of the
identity of the judges that are asked them: the others stay the judges that they were.
"""

import hashlib
import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from localjudge.errors import UsageError
from localjudge.judge.examples import Example
from localjudge.types import (
    AnsweredQuestion,
    Attribution,
    Node,
    OwnQuestion,
    Piece,
    Record,
    Refusal,
    Relevance,
    Sufficiency,
    Task,
    UnitKind,
    Usefulness,
)

JOINT = "attribution_joint"
"""The task of judging all statements in one answer."""

DEFAULT_PROFILE = "instruct"
"""How a model is asked that no registry names a profile for."""

_CONTEXT_LISTS_KEPT = 64
_BUNDLED = Path(__file__).parent / "prompts"
_KINDS: dict[UnitKind, str] = {"chunk": "passage"}
"""What `{kind}` calls a unit in a prompt, where not by its own name."""
_PLACEHOLDER = re.compile(r"\{(context|question|unit|reference|response|own_question|levels|answer|fence)\}")
_FENCED_TAG = re.compile(r"<[^<>\n]*\{fence\}>")


class NodeTemplate(Record):
    """Text of one node, with places for the user's. `when` leaves it out if that is empty.

    `for_each = "contexts"` makes a node of every context, `for_each = "examples"` one of every example of an own
    question, and `for_each = "statements"` one node of all statements.
    """

    text: str
    for_each: Literal["contexts", "examples", "statements"] | None = None
    when: Literal["question", "reference", "response", "examples"] | None = None


class ReasonPrompt(Record):
    """How a task is answered with a reason: a grammar for each order, and the `{form}` that announces `before`."""

    before: str
    after: str
    form: str


class TaskPrompt(Record):
    """The nodes of one task, root first, the grammar of its answer, and how it is answered with a reason."""

    grammar: str
    form: str = ""
    reasons: ReasonPrompt | None = None
    node: tuple[NodeTemplate, ...]
    example: tuple[Example, ...] = ()


class PromptProfile(Record):
    """How a kind of model is asked about every task. `sha256` covers every file of the profile but the special tasks.

    A model without `instructions` reads markers alone: it cannot be asked in other words. `special` names the special
    tasks, with the sha256 of each one's file.
    """

    name: str
    description: str
    sha256: str
    chat: bool
    instructions: bool = True
    begin_of_text: bool = True
    bare_answer: str = ""
    tasks: dict[str, TaskPrompt]
    special: dict[str, str] = Field(default_factory=dict)


def load(name: str) -> PromptProfile:
    """The bundled profile `name`. Raises UsageError if there is none."""
    folder = _BUNDLED / name
    if not (folder / "profile.toml").is_file():
        known = sorted(path.parent.name for path in _BUNDLED.glob("*/profile.toml"))
        raise UsageError(f"no prompt profile is called {name!r}", hint=f"profiles are {', '.join(known)}")
    return read(folder)


def read(folder: Path) -> PromptProfile:
    """The profile in a folder. Raises UsageError for a file that is not what it should be."""
    digest = hashlib.sha256()
    special: dict[str, str] = {}
    tables: dict[str, dict[str, Any]] = {}
    for file in (*sorted(folder.glob("*.toml")), *sorted(folder.glob("special/*.toml"))):
        content = file.read_bytes()
        if file.parent == folder:
            digest.update(f"{file.name}\0{len(content)}\0".encode() + content)
        else:
            special[file.stem] = hashlib.sha256(content).hexdigest()
        try:
            tables[file.stem] = tomllib.loads(content.decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{file} is not TOML: {error}", hint="mend the file") from error
    settings = tables.pop("profile", {})
    try:
        return PromptProfile.model_validate(
            {"name": folder.name, "sha256": digest.hexdigest(), "tasks": tables, "special": special, **settings}
        )
    except (ValidationError, TypeError) as error:
        raise UsageError(f"the prompt profile {folder} is not valid: {error}", hint="mend its files") from error


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


def render(prompt: TaskPrompt, tasks: Sequence[Task], *, form: str) -> list[Node]:
    """The nodes of a prompt about one task, or about several with the same contexts and question.

    Our text is trusted, the user's is not.
    """
    task = tasks[0]
    contexts = () if isinstance(task, Usefulness | Refusal) else task.contexts
    texts = _texts(task)
    nodes: list[Node] = []
    ours = {
        "{form}": form,
        "{examples}": "".join(_example(prompt, example) for example in prompt.example),
        "{kind}": _KINDS.get(task.unit.kind, task.unit.kind),
    }
    for node in prompt.node:
        template = _with_ours(node.text, ours)
        if node.when and not (_examples_of(task) if node.when == "examples" else texts[node.when]):
            continue
        if node.for_each == "examples":
            nodes += _example_nodes(prompt, node, task)
        elif node.for_each == "contexts":
            shown = {name: text for name, text in texts.items() if f"{{{name}}}" in template}
            nodes += _context_nodes(template, contexts, tuple(shown.items()))
        elif node.for_each == "statements":
            units = ({**texts, "unit": each.unit.span.text} for each in tasks)
            nodes.append(tuple(piece for each in units for piece in _fill(template, each)))
        else:
            nodes.append(_fill(template, texts))
    return nodes


def _texts(task: Task) -> dict[str, str]:
    """What the user's places hold, but for contexts."""
    texts = {"unit": task.unit.span.text, "question": (task.user_input or "").strip(), "reference": "", "response": ""}
    match task:
        case Usefulness():
            texts["reference"] = task.reference
        case OwnQuestion():
            levels = "\n".join(f"{level}: {meaning}" for level, meaning in enumerate(task.levels, start=1))
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


def _fill(template: str, texts: Mapping[str, str]) -> tuple[Piece, ...]:
    used = [texts[name] for name in _PLACEHOLDER.findall(template) if name != "fence"]
    fence = _fence(template, used)
    pieces = []
    for position, part in enumerate(_PLACEHOLDER.split(template.replace("{fence}", fence))):
        text, trusted = (texts[part], False) if position % 2 else (part, True)
        if text:
            pieces.append(Piece(text=text, trusted=trusted))
    return tuple(pieces)


def _fence(template: str, enclosed: list[str]) -> str:
    tags = [tag.replace("{fence}>", "") for tag in _FENCED_TAG.findall(template)]
    if not tags:
        return ""
    inside = _as_read("\n".join(enclosed))
    for number in count(1):
        fence = "" if number == 1 else f"-{number}"
        if not any(_tag_as_read(f"{tag}{fence}>") in inside for tag in tags):
            return fence
    raise AssertionError("a text cannot hold every number")


@lru_cache(maxsize=_CONTEXT_LISTS_KEPT)
def _tag_as_read(tag: str) -> str:
    return _as_read(tag)


def _as_read(text: str) -> str:
    """A text as a model may take it: `＜ / Context >` reads as `</context>`, with invisible characters in it too."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    if "<" not in folded:
        return ""
    return "".join(part for part in folded if not part.isspace() and unicodedata.category(part) != "Cf")
