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

`{ unit}` is the place of a text with a space before it, which is tokenised with the text, as models saw it that were
trained on `Claim: text`.

A profile for a model that was trained on prompts of its own has what that needs, in its files: the form of its answers
(`answer_forms.py`), roles of messages, documents and arguments of the model's chat template (`conversation.py`), and by
which metadata it is picked (`made_for`). It may word a few tasks only: a judge is refused the others.

Tasks that only some metrics ask stand in the profile's folder `special/` and have a hash each, which is part of the
identity of the judges that are asked them: the others stay the judges that they were.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from localjudge.errors import UsageError
from localjudge.judge.answer_forms import AnswerForm
from localjudge.judge.chat_skeleton import RoledNode
from localjudge.judge.examples import Example
from localjudge.judge.fences import fence
from localjudge.judge.profile_folder import ProfileFolder
from localjudge.toml_file import parse_toml
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


def load(profile: str | ProfileFolder) -> PromptProfile:
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


def _fill(template: str, texts: Mapping[str, str]) -> tuple[Piece, ...]:
    template = template.replace("{fence}", fence(template, [texts[name] for name in places_of(template)]))
    pieces: list[Piece] = []
    start = 0
    for place in _PLACEHOLDER.finditer(template):
        text = texts[place[2]]
        pieces += [Piece(template[start : place.start()], trusted=True), Piece(text and place[1] + text, trusted=False)]
        start = place.end()
    pieces.append(Piece(template[start:], trusted=True))
    return tuple(piece for piece in pieces if piece.text)
