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
from itertools import chain
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
    AnsweredQuestion,
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
_CACHE_SIZE = 512
_CONTEXT_CACHE_SIZE = 64
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
        self._chat: ChatEnds | None = None
        if profile.chat:
            self._chat = chat
        self._ends = self._chat or _PLAIN._replace(tail=profile.bare_answer)
        self._reasons: Reasons = reasons
        self._skeleton = lru_cache(maxsize=_CACHE_SIZE)(partial(skeleton, profile, self._chat))
        self._whole: list[Skeleton] = []
        """Template text of each conversation, with all of its messages."""
        for name, task in sorted(profile.tasks.items()):
            if task.is_conversation:
                roles = tuple(filter(None, (node.role for node in task.node)))
                self._whole.append(self._skeleton(name, roles))

    @property
    def identity(self) -> dict[str, Any]:
        """Options, and hashes of profile, chat template and grammars of the common tasks."""
        common = sorted(self._profile.tasks.keys() - self._profile.special.keys())
        grammars = {name: _digest(self._grammars(name)) for name in common}
        ends = list(chain.from_iterable(skeleton.gaps for skeleton in self._whole))
        if not ends:
            ends = [self._ends.head, self._ends.tail]
        return {
            "profile": self._profile.name,
            "profile_sha256": self._profile.sha256,
            "chat_template_sha256": self._chat.sha256 if self._chat else None,
            "chat_ends_sha256": hashlib.sha256("\0".join(ends).encode()).hexdigest(),
            "grammars_sha256": grammars,
            "reasons": self._reasons,
        }

    def identity_for(self, special_tasks: Iterable[str]) -> dict[str, Any]:
        """Return the identity, with the hashes of these special tasks."""
        asked = {}
        for name in sorted(special_tasks):
            if name in self._profile.special:
                asked[name] = {
                    "sha256": self._profile.special[name],
                    "grammar_sha256": _digest(self._grammars(name)),
                }
        if not asked:
            return self.identity
        return self.identity | {"special_tasks": asked}

    def unsupported(self, tasks: Iterable[str]) -> list[str]:
        return sorted(set(tasks) - self._profile.tasks.keys())

    @property
    def why_not_asked(self) -> str:
        questions = ", ".join(sorted(self._profile.tasks))
        return f"the prompt profile {self._profile.name!r} has only {questions}"

    def has_words_for(self, task: Task) -> bool:
        return task_name(task) in self._profile.tasks

    def request(self, task: Task) -> VerdictRequest:
        """Return the request for a task.

        Raises SampleError if the profile has no prompt for the task, or no place for some of its
        texts.
        """
        name = task_name(task)
        profile = f"the prompt profile {self._profile.name!r}"
        if not self.has_words_for(task):
            raise SampleError(f"{profile} has no words for the task {name}")
        prompt = self._profile.tasks[name]
        unshown = _not_shown(prompt, task)
        if unshown:
            texts = ", ".join(unshown)
            raise SampleError(f"{profile} has no place for {texts} in the task {name}")
        form = prompt.form
        if self._reasons == "before" and prompt.reasons:
            form = prompt.reasons.form
        path = self._path(prompt, task, form=form)
        grammars = self._grammars(name)
        explanation = None
        if len(grammars) > 1:
            explanation = grammars[1]
        return VerdictRequest(path, grammars[0], explanation, self._profile.reading(prompt))

    @property
    def overlap(self) -> int:
        """Sentences that a window repeats of the previous one."""
        head = self._profile.head
        if head is None:
            return 0
        return head.overlap

    def window_capacity(self, capacity: int) -> int:
        """Return the tokens of a window for an engine with this capacity."""
        head = self._profile.head
        if head is None or head.window_tokens is None:
            return capacity
        return min(head.window_tokens, capacity)

    def requests(self, tasks: Iterable[Task]) -> list[VerdictRequest]:
        return list(map(self.request, tasks))

    def _path(self, prompt: TaskPrompt, task: Task, *, form: str) -> tuple[Node, ...]:
        nodes = render(prompt, task, form=form)
        if prompt.is_conversation:
            roles = tuple(role for role, _ in nodes if role)
            around = self._skeleton(task_name(task), roles)
            return tuple(map(_join, _in_skeleton(nodes, around)))
        path = [node for _, node in nodes]
        path[0] = _join((Piece(text=self._ends.head, trusted=True), *path[0]))
        path[-1] = _join((*path[-1], Piece(text=self._ends.tail, trusted=True)))
        return tuple(path)

    def _grammars(self, name: str) -> list[Grammar]:
        """Return the grammar of a task's verdict, then the grammar of a reason after it, if any."""
        prompt = self._profile.tasks[name]
        if not isinstance(prompt.grammar, str):
            return [prompt.grammar.grammar(name)]
        if prompt.reasons and self._reasons == "before":
            return [load_grammar(prompt.reasons.before)]
        grammars = [load_grammar(prompt.grammar)]
        if prompt.reasons and self._reasons == "after":
            grammars.append(load_grammar(prompt.reasons.after))
        return grammars


def require(profile: PromptProfile, reasons: Reasons) -> None:
    """Raise InputError if the profile does not support the options."""
    if reasons == "none":
        return
    mute = sorted(name for name, task in profile.tasks.items() if not task.reasons)
    if mute:
        tasks = ", ".join(mute)
        problem = f"the prompt profile {profile.name!r} cannot give reasons ({tasks})"
        hint = f"omit {option_name('reasons')}, or name another model with {option('judge')}"
        raise InputError(problem, hint=hint)


def _digest(grammars: Iterable[Grammar]) -> str:
    written = "\n".join(grammar.model_dump_json() for grammar in grammars)
    return hashlib.sha256(written.encode()).hexdigest()


def _join(pieces: Node) -> Node:
    """Join neighbouring pieces of trusted text, and drop empty pieces."""
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
    """Fill a prompt's nodes with the texts of a task. `form` describes a valid answer."""
    texts = _texts(task)
    contexts = _contexts(task)
    examples: tuple[AnsweredQuestion, ...] = ()
    if isinstance(task, CustomQuestion):
        examples = task.examples
    shown = {**texts, "contexts": "".join(contexts).strip(), "examples": examples}
    kind: str = task.unit.kind
    if kind == "chunk":
        kind = "passage"
    nodes: list[_RoledNode] = []
    for template in prompt.node:
        if template.when and not shown[template.when]:
            continue
        text = template.text.replace("{form}", form).replace("{kind}", kind)
        if template.for_each is None:
            nodes.append((template.role, _fill(text, texts)))
        elif template.for_each == "contexts":
            for node in _context_nodes(text, contexts, _texts_for(text, texts)):
                nodes.append((template.role, node))
        else:
            for example in examples:
                node = _example_node(prompt, template.text, example.asked, example.answer)
                nodes.append((template.role, node))
    return nodes


def _contexts(task: Task) -> tuple[str, ...]:
    if isinstance(task, Usefulness | Refusal):
        return ()
    return task.contexts


def _texts_for(template: str, texts: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the names and texts that a template shows."""
    names = {name for _, name in _parse(template)[1]}
    return tuple((name, text) for name, text in texts.items() if name in names)


def _texts(task: Task) -> dict[str, str]:
    """Return the texts of a task by placeholder, "" for those that it has not."""
    texts = {
        "unit": task.unit.text,
        "question": (task.user_input or "").strip(),
        "reference": "",
        "response": "",
    }
    if isinstance(task, Usefulness):
        texts["reference"] = task.reference
    if isinstance(task, CustomQuestion):
        texts["reference"] = (task.reference or "").strip()
        texts["response"] = (task.response or "").strip()
        texts["own_question"] = task.question
        levels = enumerate(task.levels, start=1)
        texts["levels"] = "\n".join(f"{level}: {meaning}" for level, meaning in levels)
    return texts


def _not_shown(prompt: TaskPrompt, task: Task) -> list[str]:
    if not isinstance(task, CustomQuestion):
        return []
    texts = _texts(task)
    unshown = []
    if any(map(str.strip, task.contexts)) and "context" not in prompt.places:
        unshown.append("context")
    shows_examples = any(node.for_each == "examples" for node in prompt.node)
    if task.examples and not shows_examples:
        unshown.append("examples")
    for name in ("reference", "response"):
        if texts[name] and name not in prompt.places:
            unshown.append(name)
    return unshown


@lru_cache(maxsize=_CONTEXT_CACHE_SIZE)
def _context_nodes(
    template: str,
    contexts: tuple[str, ...],
    texts: tuple[tuple[str, str], ...],
) -> tuple[Node, ...]:
    """Return a node for each non-empty context. Cached for the questions of a sample."""
    nodes = []
    for context in contexts:
        if context.strip():
            nodes.append(_fill(template, {**dict(texts), "context": context}))
    return tuple(nodes)


def _example_node(prompt: TaskPrompt, heading: str, asked: CustomQuestion, answer: str) -> Node:
    """Return an example as one node: its heading with the answer, then its texts."""
    visible = []
    for node in prompt.node[1:]:
        if node.when != "examples" and node.for_each != "examples":
            visible.append(node)
    prompt_of_example = prompt.model_copy(update={"node": tuple(visible)})
    pieces = list(_fill(heading, {"answer": answer}))
    for _, rendered in render(prompt_of_example, asked, form=""):
        pieces += rendered
    return tuple(pieces)


@lru_cache(maxsize=_CACHE_SIZE)
def _parse(template: str) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Split a template into literals, placeholders (blank, name) and fenced tags, as a model may
    read them.
    """
    parts = PLACE.split(template)
    literals = tuple(parts[::3])
    places = tuple(zip(parts[1::3], parts[2::3], strict=True))
    tags = [_as_read(tag.replace("{fence}>", "")) for tag in _FENCED_TAG.findall(template)]
    return literals, places, tuple(tags)


def _fill(template: str, texts: Mapping[str, str]) -> Node:
    return _with_texts(template, tuple(texts[name] for _, name in _parse(template)[1]))


@lru_cache(maxsize=_CACHE_SIZE)
def _with_texts(template: str, texts: tuple[str, ...]) -> Node:
    literals, places, tags = _parse(template)
    fence = ""
    if tags:
        fence = _find_fence(tags, texts)
    pieces: list[Piece] = []
    for literal, (blank, _), text in zip(literals, (*places, ("", "")), (*texts, ""), strict=True):
        trusted = literal.replace("{fence}", fence)
        if trusted:
            pieces.append(Piece(trusted, trusted=True))
        if text:
            pieces.append(Piece(blank + text, trusted=False))
    return tuple(pieces)


def _find_fence(tags: Sequence[str], texts: Iterable[str]) -> str:
    """Return the first of "", "-2", "-3" ... with which no tag occurs in the texts."""
    inside = _as_read("\n".join(dict.fromkeys(texts)))
    fence = ""
    number = 1
    while any(f"{tag}{fence}>" in inside for tag in tags):  # a text cannot contain every number
        number += 1
        fence = f"-{number}"
    return fence


def _as_read(text: str) -> str:
    """Return how a model may read a text: `＜ / Context >` as `</context>`, without invisible
    characters.
    """
    if text.isascii() and "<" not in text:
        return ""
    folded = unicodedata.normalize("NFKC", text).casefold()
    if "<" not in folded:
        return ""
    visible = (sign for sign in folded if unicodedata.category(sign) != "Cf")
    return "".join(sign for sign in visible if not sign.isspace())


class Skeleton(NamedTuple):
    """Template text around messages, and whether its documents are inside JSON."""

    gaps: tuple[str, ...]
    escaped: bool


def skeleton(
    profile: PromptProfile,
    chat: ChatEnds | None,
    name: str,
    roles: Sequence[str],
) -> Skeleton:
    """Return the template's text around messages with these roles, for the task `name`.

    Raises InputError without a template; ModelError if a message does not appear exactly once and
    in order.
    """
    if chat is None or chat.render is None:
        another_profile = f"another profile: {option('profile')}"
        raise InputError(
            f"the prompt profile {profile.name!r} needs a chat template, and the model has none",
            hint=f"use a conversion of the model with its chat template, or {another_profile}",
        )
    marks: list[str] = []
    messages: list[dict[str, str]] = []
    documents: list[dict[str, str]] = []
    for place, role in enumerate(roles):
        if role == _DOCUMENT:
            mark = f"{_MARK}-{place}{_UNLIKE_JSON}."
            documents.append({"doc_id": str(len(documents)), "text": mark})
        else:
            mark = f"{_MARK}-{place}."
            messages.append({"role": role, "content": mark})
        marks.append(mark)
    arguments = dict(profile.tasks[name].template)
    if documents:
        arguments["documents"] = documents
    rendered = chat.render(messages, arguments)
    gaps = _split_at(marks, rendered)
    if gaps:
        return Skeleton(gaps, escaped=False)
    gaps = _split_at([_in_json(mark) for mark in marks], rendered)
    if gaps:
        return Skeleton(gaps, escaped=True)
    names = " and ".join(dict.fromkeys(roles))
    raise ModelError(
        f"the model's chat template does not show {names} once and in this order",
        hint="use a conversion of the model with its own chat template, or another profile",
    )


def _split_at(marks: Sequence[str], rendered: str) -> tuple[str, ...]:
    """Return the text around the marks, or () unless each occurs once and in this order."""
    pattern = re.compile("|".join(map(re.escape, marks)))
    if pattern.findall(rendered) != marks:
        return ()
    return tuple(pattern.split(rendered))


def _in_skeleton(nodes: Sequence[_RoledNode], around: Skeleton) -> list[Node]:
    """Put the template around the nodes.

    Its text before the first document is a node that all samples share.
    """
    gaps = (Piece(gap, trusted=True) for gap in around.gaps)
    path: list[Node] = []
    is_document = False
    for role, texts in nodes:
        if role:
            is_document = role == _DOCUMENT
        node = texts
        if is_document and around.escaped:
            node = tuple(piece._replace(text=_in_json(piece.text)) for piece in texts)
        if role == _DOCUMENT and not path:
            path.append((next(gaps),))
        elif role:
            node = (next(gaps), *node)
        path.append(node)
    path[-1] = (*path[-1], next(gaps))
    return path


def _in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
