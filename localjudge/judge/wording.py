"""Turn tasks into verdict requests in the prompt format of the model.

    reasons    none      verdict only
               before    a reason, then the verdict, which may depend on it
               after     the verdict of `none`, bit for bit, then a reason

User text never passes through a chat template: it is placed between the parts of the rendered
template. It cannot close the tag around it: `{fence}` becomes the first of "", "-2", "-3" ... so
that no tag of the node occurs in its texts, in any spelling.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import count
from typing import Any, Literal, NamedTuple

from localjudge.errors import InputError, ModelError, SampleError
from localjudge.judge.profile import (
    PLACE,
    PromptProfile,
    TaskPrompt,
    load_grammar,
    task_name,
)
from localjudge.types import (
    ChatEnds,
    CustomQuestion,
    Grammar,
    Node,
    Piece,
    Refusal,
    Task,
    Usefulness,
    VerdictRequest,
)
from localjudge.words import option, option_name

Reasons = Literal["none", "before", "after"]

_DOCUMENT = "document"  # in the template's argument `documents`
_PLAIN = ChatEnds(head="", tail="", sha256="")
_KEPT = 512
_CONTEXT_LISTS_KEPT = 64
_FENCED_TAG = re.compile(r"<[^<>\n]*\{fence\}>")
_MARK = "localjudge-text-7f3a"
_UNLIKE_JSON = '"\n'  # JSON escapes these


class PromptWriter:
    """Write prompts by a profile, inside the model's chat template if it has one.

    Raises InputError for unsupported options or a missing chat template, ModelError for an unusable
    one.
    """

    def __init__(
        self,
        profile: PromptProfile,
        chat: ChatEnds | None = None,
        *,
        reasons: Reasons = "none",
    ) -> None:
        require(profile, reasons)
        self._profile = profile
        self._chat = chat if profile.chat else None
        self._ends = self._chat or _PLAIN._replace(tail=profile.bare_answer)
        self._reasons: Reasons = reasons
        self._skeleton = lru_cache(maxsize=_KEPT)(partial(skeleton, profile, self._chat))
        self._whole = [
            self._skeleton(name, tuple(node.role for node in task.node if node.role))
            for name, task in sorted(profile.tasks.items())
            if task.is_conversation
        ]

    @property
    def identity(self) -> dict[str, Any]:
        """Options, and hashes of profile, chat template and grammars of the common tasks."""
        common = sorted(self._profile.tasks.keys() - self._profile.special.keys())
        answers = {name: self._answer_shape(name) for name in common}
        ends = [gap for skeleton in self._whole for gap in skeleton.gaps] or self._ends[:2]
        return {
            "profile": self._profile.name,
            "profile_sha256": self._profile.sha256,
            "chat_template_sha256": self._chat.sha256 if self._chat else None,
            "chat_ends_sha256": hashlib.sha256("\0".join(ends).encode()).hexdigest(),
            "grammars_sha256": {name: _digest(shape) for name, shape in answers.items()},
            "reasons": self._reasons,
        }

    def identity_for(self, special_tasks: Iterable[str]) -> dict[str, Any]:
        asked = {
            name: {"sha256": self._profile.special[name], "grammar_sha256": _digest(self._answer_shape(name))}
            for name in sorted(special_tasks)
            if name in self._profile.special
        }
        return self.identity | ({"special_tasks": asked} if asked else {})

    def unsupported(self, tasks: Iterable[str]) -> list[str]:
        return sorted(set(tasks) - self._profile.tasks.keys())

    @property
    def why_not_asked(self) -> str:
        if not self._profile.instructions:
            return "it does not follow instructions"
        words = ", ".join(sorted(self._profile.tasks))
        return f"its prompt profile {self._profile.name!r} supports only {words}"

    def has_words_for(self, task: Task) -> bool:
        return task_name(task) in self._profile.tasks

    def request(self, task: Task) -> VerdictRequest:
        """Return the request for a task.

        Raises SampleError if the profile has no prompt for the task, or no place for some of its
        texts.
        """
        name = task_name(task)
        if not self.has_words_for(task):
            raise SampleError(f"the prompt profile {self._profile.name!r} has no words for the task {name}")
        prompt = self._profile.tasks[name]
        if unshown := _not_shown(prompt, task):
            texts = ", ".join(unshown)
            raise SampleError(f"the prompt profile {self._profile.name!r} has no place for {texts} in the task {name}")
        announced = prompt.reasons.form if self._reasons == "before" and prompt.reasons else prompt.form
        grammar, *explanation = self._answer_shape(name)
        path = self._path(prompt, task, form=announced)
        reading = self._profile.reading(prompt)
        return VerdictRequest(path, grammar, explanation[0] if explanation else None, reading)

    @property
    def overlap(self) -> int:
        """Sentences that a window repeats of the previous one."""
        return self._profile.head.overlap if self._profile.head else 0

    def window_capacity(self, capacity: int) -> int:
        """Return the tokens of a window for an engine with this capacity."""
        wanted = self._profile.head.window_tokens if self._profile.head else None
        return min(wanted or capacity, capacity)

    def requests(self, tasks: Iterable[Task]) -> list[VerdictRequest]:
        return [self.request(task) for task in tasks]

    def _path(self, prompt: TaskPrompt, task: Task, *, form: str) -> tuple[Node, ...]:
        nodes = render(prompt, task, form=form)
        if prompt.is_conversation:
            around = self._skeleton(task_name(task), tuple(role for role, _ in nodes if role))
            return tuple(_join(*node) for node in _in_skeleton(nodes, around))
        root, *rest = (node for _, node in nodes)
        path = [_join(Piece(text=self._ends.head, trusted=True), *root), *rest]
        path[-1] = _join(*path[-1], Piece(text=self._ends.tail, trusted=True))
        return tuple(path)

    def _answer_shape(self, name: str) -> list[Grammar]:
        prompt = self._profile.tasks[name]
        if not isinstance(prompt.grammar, str):
            return [prompt.grammar.grammar(name)]
        if self._reasons == "before" and prompt.reasons:
            return [load_grammar(prompt.reasons.before)]
        explained = [load_grammar(prompt.reasons.after)] if self._reasons == "after" and prompt.reasons else []
        return [load_grammar(prompt.grammar), *explained]


def require(profile: PromptProfile, reasons: Reasons) -> None:
    """Raise InputError if the profile does not support the options."""
    mute = sorted(name for name, task in profile.tasks.items() if not task.reasons)
    if reasons != "none" and mute:
        problem = f"the prompt profile {profile.name!r} cannot give reasons ({', '.join(mute)})"
        raise InputError(problem, hint=f"omit {option_name('reasons')}, or name another model with {option('judge')}")


def _digest(shape: Sequence[Grammar]) -> str:
    return hashlib.sha256("\n".join(grammar.model_dump_json() for grammar in shape).encode()).hexdigest()


def _join(*pieces: Piece) -> Node:
    joined: list[Piece] = []
    for piece in pieces:
        if joined and joined[-1].trusted and piece.trusted:
            joined[-1] = Piece(text=joined[-1].text + piece.text, trusted=True)
        elif piece.text:
            joined.append(piece)
    return tuple(joined)


_RoledNode = tuple[str | None, Node]
"""Node with the role of the message that it begins, if any."""


def render(prompt: TaskPrompt, task: Task, *, form: str) -> list[_RoledNode]:
    texts, contexts = _texts(task), () if isinstance(task, Usefulness | Refusal) else task.contexts
    examples = task.examples if isinstance(task, CustomQuestion) else ()
    is_there = {**texts, "contexts": any(map(str.strip, contexts)), "examples": examples}
    our_texts = {
        "{form}": form,
        "{kind}": "passage" if task.unit.kind == "chunk" else task.unit.kind,
    }
    nodes: list[_RoledNode] = []
    for node in prompt.node:
        if node.when and not is_there[node.when]:
            continue
        template = node.text
        for place, text in our_texts.items():
            template = template.replace(place, text)
        made: Sequence[Node]
        match node.for_each:
            case None:
                made = [_fill(template, texts)]
            case "contexts":
                places = {name for _, name in _parse(template)[1]}
                made = _context_nodes(template, contexts, tuple((k, text) for k, text in texts.items() if k in places))
            case "examples":
                made = [_example_node(prompt, node.text, example.asked, example.answer) for example in examples]
        nodes += ((node.role, each) for each in made)
    return nodes


def _texts(task: Task) -> dict[str, str]:
    texts = {"unit": task.unit.text, "question": (task.user_input or "").strip(), "reference": "", "response": ""}
    if isinstance(task, Usefulness):
        texts["reference"] = task.reference
    if isinstance(task, CustomQuestion):
        levels = "\n".join(f"{level}: {meaning}" for level, meaning in enumerate(task.levels, start=1))
        texts |= {"reference": (task.reference or "").strip(), "response": (task.response or "").strip()}
        texts |= {"own_question": task.question, "levels": levels}
    return texts


def _not_shown(prompt: TaskPrompt, task: Task) -> list[str]:
    if not isinstance(task, CustomQuestion):
        return []
    held = {name for name in ("reference", "response") if _texts(task)[name]}
    held |= {"context"} if any(map(str.strip, task.contexts)) else set()
    held |= {"examples"} if task.examples and not any(node.for_each == "examples" for node in prompt.node) else set()
    return sorted(held - prompt.places)


@lru_cache(maxsize=_CONTEXT_LISTS_KEPT)
def _context_nodes(template: str, contexts: tuple[str, ...], texts: tuple[tuple[str, str], ...]) -> tuple[Node, ...]:
    """Return a node for each non-empty context. Cached for the questions of a sample."""
    return tuple(_fill(template, {**dict(texts), "context": context}) for context in contexts if context.strip())


def _example_node(prompt: TaskPrompt, heading: str, asked: CustomQuestion, answer: str) -> Node:
    visible = tuple(node for node in prompt.node[1:] if "examples" not in (node.when, node.for_each))
    nodes = render(prompt.model_copy(update={"node": visible}), asked, form="")
    return (*_fill(heading, {"answer": answer}), *(piece for _, node in nodes for piece in node))


@lru_cache(maxsize=_KEPT)
def _parse(template: str) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Split a template into literals, placeholders (blank, name) and fenced tags, as a model may read them."""
    parts = PLACE.split(template)
    tags = (_as_read(tag.replace("{fence}>", "")) for tag in _FENCED_TAG.findall(template))
    return tuple(parts[::3]), tuple(zip(parts[1::3], parts[2::3], strict=True)), tuple(tags)


def _fill(template: str, texts: Mapping[str, str]) -> Node:
    return _with_texts(template, tuple(texts[name] for _, name in _parse(template)[1]))


@lru_cache(maxsize=_KEPT)
def _with_texts(template: str, texts: tuple[str, ...]) -> Node:
    literals, places, tags = _parse(template)
    inside = _as_read("\n".join(dict.fromkeys(texts))) if tags else ""
    fences = ("" if number == 1 else f"-{number}" for number in count(1))  # a text cannot contain every number
    fence = next(fence for fence in fences if not any(f"{tag}{fence}>" in inside for tag in tags))
    pieces: list[Piece] = []
    for literal, (blank, _), text in zip(literals, (*places, ("", "")), (*texts, ""), strict=True):
        if literal:
            pieces.append(Piece(literal.replace("{fence}", fence), trusted=True))
        if text:
            pieces.append(Piece(blank + text, trusted=False))
    return tuple(piece for piece in pieces if piece.text)


def _as_read(text: str) -> str:
    """Return how a model may read a text: `＜ / Context >` as `</context>`, without invisible characters."""
    if text.isascii() and "<" not in text:
        return ""
    folded = unicodedata.normalize("NFKC", text).casefold()
    if "<" not in folded:
        return ""
    return "".join(part for part in folded if not part.isspace() and unicodedata.category(part) != "Cf")


class Skeleton(NamedTuple):
    """Template text around messages, and whether its documents are inside JSON."""

    gaps: tuple[str, ...]
    escaped: bool


def skeleton(profile: PromptProfile, chat: ChatEnds | None, name: str, roles: Sequence[str]) -> Skeleton:
    """Return the template's text around messages with these roles, for the task `name`.

    Raises InputError without a template; ModelError if a message does not appear exactly once and
    in order.
    """
    if chat is None or chat.render is None:
        raise InputError(
            f"the prompt profile {profile.name!r} needs a chat template, and the model has none",
            hint=f"use a conversion of the model with its chat template, or another profile: {option('profile')}",
        )
    marks = [f"{_MARK}-{place}{_UNLIKE_JSON if role == _DOCUMENT else ''}." for place, role in enumerate(roles)]
    messages = [{"role": role, "content": mark} for role, mark in zip(roles, marks, strict=True) if role != _DOCUMENT]
    texts = [mark for role, mark in zip(roles, marks, strict=True) if role == _DOCUMENT]
    documents = [{"doc_id": str(number), "text": text} for number, text in enumerate(texts)]
    arguments = profile.tasks[name].template | ({"documents": documents} if documents else {})
    rendered = chat.render(messages, arguments)
    for escaped in (False, True):
        spelled = [_in_json(mark) if escaped else mark for mark in marks]
        pattern = re.compile("|".join(map(re.escape, spelled)))
        if pattern.findall(rendered) == spelled:
            return Skeleton(tuple(pattern.split(rendered)), escaped)
    raise ModelError(
        f"the model's chat template does not show {' and '.join(dict.fromkeys(roles))} once and in this order",
        hint="use a conversion of the model with its own chat template, or another profile",
    )


def _in_skeleton(nodes: Sequence[_RoledNode], around: Skeleton) -> list[Node]:
    """Put the template around the nodes. Its text before the first document is a node that all samples share."""
    gaps = (Piece(gap, trusted=True) for gap in around.gaps)
    path: list[Node] = []
    is_document = False
    for role, texts in nodes:
        is_document = role == _DOCUMENT if role else is_document
        escaped = is_document and around.escaped
        node = tuple(piece._replace(text=_in_json(piece.text)) for piece in texts) if escaped else texts
        if role == _DOCUMENT and not path:
            path.append((next(gaps),))
        elif role:
            node = (next(gaps), *node)
        path.append(node)
    path[-1] = (*path[-1], next(gaps))
    return path


def _in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
