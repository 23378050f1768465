"""Turn tasks into verdict requests in the prompt format of the model.

    reasons    none      verdict only
               before    a reason, then the verdict, which may depend on it
               after     the verdict of `none`, bit for bit, then a reason

User text never passes through a chat template: it is placed between the parts of the rendered
template. It cannot close the tag around it (`localjudge.judge.rendering`).

    template, rendered once with marks    <|user|> MARK-0 <|end|><|assistant|>
    its text around the marks             "<|user|> "  "<|end|><|assistant|>"      the skeleton
    prompt                                "<|user|> " + user text + "<|end|><|assistant|>"
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Literal

from localjudge.errors import InputError, ModelError, SampleError
from localjudge.judge.profile import PromptProfile, load_grammar, reads_nearest, task_name
from localjudge.judge.rendering import RoledNode, list_unshown, render
from localjudge.types import (
    ChatEnds,
    Grammar,
    Node,
    Piece,
    Task,
    VerdictRequest,
)
from localjudge.words import option, option_name

_DOCUMENT = "document"  # in the template's argument `documents`
_MARK = "localjudge-text-7f3a"
_UNLIKE_JSON = '"\n'  # JSON escapes these
Reasons = Literal["none", "before", "after"]

_PLAIN = ChatEnds(head="", tail="", sha256="")
_CACHE_SIZE = 512


class PromptWriter:
    """Write prompts by a profile, inside the model's chat template if it has one.

    `nearest` says how the sentences that the model reads are chosen, for the identity. Raises
    InputError for unsupported options or a missing chat template, ModelError for an unusable one.
    """

    def __init__(
        self,
        profile: PromptProfile,
        chat: ChatEnds | None = None,
        *,
        reasons: Reasons = "none",
        nearest: Mapping[str, Any] | None = None,
    ) -> None:
        require_reasons(profile, reasons)
        self._profile = profile
        self._nearest = nearest
        self._chat: ChatEnds | None = None
        if profile.chat:
            self._chat = chat
        self._ends = self._chat or _PLAIN._replace(tail=profile.bare_answer)
        self._reasons: Reasons = reasons
        self._skeleton = lru_cache(maxsize=_CACHE_SIZE)(partial(read_skeleton, profile, self._chat))
        self._template_texts: list[str] = []
        """Template text around all messages of each conversation."""
        for name, task in sorted(profile.tasks.items()):
            if task.is_conversation:
                roles = tuple(filter(None, (node.role for node in task.node)))
                skeleton, _ = self._skeleton(name, roles)
                self._template_texts += skeleton

    def identity(self, tasks: Iterable[str] = ()) -> dict[str, Any]:
        """Options, and hashes of profile, chat template and grammars of the common tasks.

        With the hashes of those `tasks` that are special in the profile.
        """
        common = sorted(self._profile.tasks.keys() - self._profile.special.keys())
        grammars = {name: _digest(self._grammars(name)) for name in common}
        ends = self._template_texts or [self._ends.head, self._ends.tail]
        chat_sha256 = None
        if self._chat:
            chat_sha256 = self._chat.sha256
        identity: dict[str, Any] = {
            "profile": self._profile.name,
            "profile_sha256": self._profile.sha256,
            "chat_template_sha256": chat_sha256,
            "chat_ends_sha256": hashlib.sha256("\0".join(ends).encode()).hexdigest(),
            "grammars_sha256": grammars,
            "reasons": self._reasons,
        }
        if self._nearest is not None:
            identity["nearest"] = dict(self._nearest)
        asked = {}
        for name in sorted(tasks):
            if name in self._profile.special:
                asked[name] = {
                    "sha256": self._profile.special[name],
                    "grammar_sha256": _digest(self._grammars(name)),
                }
        if asked:
            identity["special_tasks"] = asked
        return identity

    def unsupported(self, tasks: Iterable[str]) -> list[str]:
        return sorted(name for name in set(tasks) if self._profile.find_task(name) is None)

    @property
    def why_not_asked(self) -> str:
        questions = ", ".join(sorted(self._profile.tasks))
        return f"the prompt profile {self._profile.name!r} has only {questions}"

    def has_words_for(self, task: Task) -> bool:
        return self._profile.find_task(task_name(task)) is not None

    @property
    def special_tasks(self) -> frozenset[str]:
        """The tasks whose prompts are in the folder `special` of the profile."""
        return frozenset(self._profile.special)

    def request(self, task: Task) -> VerdictRequest:
        """Return the request for a task.

        Raises SampleError if the profile has no prompt for the task, or no place for some of its
        texts.
        """
        asked = task_name(task)
        name = self._profile.find_task(asked)
        profile = f"the prompt profile {self._profile.name!r}"
        if name is None:
            raise SampleError(f"{profile} has no words for the task {asked}")
        prompt = self._profile.tasks[name]
        unshown = list_unshown(prompt, task)
        if unshown:
            texts = ", ".join(unshown)
            raise SampleError(f"{profile} has no place for {texts} in the task {name}")
        form = prompt.form
        if self._reasons == "before" and prompt.reasons:
            form = prompt.reasons.form
        path = self._path(name, task, form=form)
        grammars = self._grammars(name)
        explanation = None
        if len(grammars) > 1:
            explanation = grammars[1]
        return VerdictRequest(path, grammars[0], explanation, self._profile.reading(prompt))

    def letters(self, task: Task) -> int | None:
        """Return the letters of the nearest sentences that the model reads for a task.

        None if it reads everything.
        """
        nearest = self._profile.nearest
        if nearest is None or not reads_nearest(nearest.units, task.unit.kind):
            return None
        return nearest.letters

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

    def _path(self, name: str, task: Task, *, form: str) -> tuple[Node, ...]:
        prompt = self._profile.tasks[name]
        nodes = render(prompt, task, form=form)
        if prompt.is_conversation:
            roles = tuple(role for role, _ in nodes if role)
            skeleton, in_json = self._skeleton(name, roles)
            return tuple(map(_join, put_in_skeleton(nodes, skeleton, in_json=in_json)))
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


def require_reasons(profile: PromptProfile, reasons: Reasons) -> None:
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


def read_skeleton(
    profile: PromptProfile,
    chat: ChatEnds | None,
    name: str,
    roles: Sequence[str],
) -> tuple[tuple[str, ...], bool]:
    """Return the template's text around messages with these roles, for the task `name`.

    The flag tells whether its documents are inside JSON.

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
    for number, role in enumerate(roles):
        if role == _DOCUMENT:
            mark = f"{_MARK}-{number}{_UNLIKE_JSON}."
            documents.append({"doc_id": str(len(documents)), "text": mark})
        else:
            mark = f"{_MARK}-{number}."
            messages.append({"role": role, "content": mark})
        marks.append(mark)
    arguments = dict(profile.tasks[name].template)
    if documents:
        arguments["documents"] = documents
    rendered = chat.render(messages, arguments)
    gaps = _split_at(marks, rendered)
    if gaps:
        return gaps, False
    gaps = _split_at([_in_json(mark) for mark in marks], rendered)
    if gaps:
        return gaps, True
    names = " and ".join(dict.fromkeys(roles))
    raise ModelError(
        f"the model's chat template does not show {names} once and in this order",
        hint="use a conversion of the model with its own chat template, or another profile",
    )


def put_in_skeleton(
    nodes: Sequence[RoledNode], skeleton: Sequence[str], *, in_json: bool
) -> list[Node]:
    """Put the template around the nodes, whose documents may be inside JSON.

    Its text before the first document is a node that all samples share.
    """
    gaps = (Piece(gap, trusted=True) for gap in skeleton)
    path: list[Node] = []
    is_document = False
    for role, texts in nodes:
        if role:
            is_document = role == _DOCUMENT
        node = texts
        if is_document and in_json:
            node = tuple(piece._replace(text=_in_json(piece.text)) for piece in texts)
        if role == _DOCUMENT and not path:
            path.append((next(gaps),))
        elif role:
            node = (next(gaps), *node)
        path.append(node)
    path[-1] = (*path[-1], next(gaps))
    return path


def _split_at(marks: Sequence[str], rendered: str) -> tuple[str, ...]:
    """Return the text around the marks, or () unless each occurs once and in this order."""
    pattern = re.compile("|".join(map(re.escape, marks)))
    if pattern.findall(rendered) != marks:
        return ()
    return tuple(pattern.split(rendered))


def _in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
