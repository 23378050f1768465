"""Turn tasks into verdict requests in the prompt format of the model.

    reasons    none      verdict only
               before    a reason, then the verdict, which may depend on it
               after     the verdict of `none`, bit for bit, then a reason

User text never passes through a chat template: it is placed between the parts of the rendered
template. It cannot close the tag around it: `{fence}` becomes the first of "", "-2", "-3" ... so
that no tag of a node occurs in its texts, in any spelling.

    template, rendered once with marks    <|user|> MARK-0 <|end|><|assistant|>
    its text around the marks             "<|user|> "  "<|end|><|assistant|>"      the skeleton
    prompt                                "<|user|> " + user text + "<|end|><|assistant|>"
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Literal

from localjudge.errors import InputError, ModelError, SampleError
from localjudge.judge.profile import (
    PLACEHOLDER,
    PromptProfile,
    TaskPrompt,
    load_grammar,
    task_name,
)
from localjudge.judge.profile_choice import require_reasons
from localjudge.text.markup import read_characters
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
from localjudge.words import option

_DOCUMENT = "document"  # in the template's argument `documents`
_MARK = "localjudge-text-7f3a"
_UNLIKE_JSON = '"\n'  # JSON escapes these
Reasons = Literal["none", "before", "after"]

_PLAIN = ChatEnds(head="", tail="", sha256="")
_CACHE_SIZE = 512
_DASH = r"\s?[-\u2010-\u2014\u2212]\s?"
_RANGE = re.compile(rf"(?<!\d)\d+(?:{_DASH}\d+){{1,4}}")
_MAX_RANGES = 20
_FENCED_TAG = re.compile(r"<[^<>\n]*\{fence\}>")

_RoledNode = tuple[str | None, Node]
"""Node with the role of the message that it begins, if any."""


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
        self.profile = profile
        self._nearest = nearest
        self._chat: ChatEnds | None = None
        if profile.chat:
            self._chat = chat
        self._ends = self._chat or _PLAIN._replace(tail=profile.bare_answer)
        self._reasons: Reasons = reasons
        read_skeleton = partial(_read_skeleton, profile, self._chat)
        self._skeleton = lru_cache(maxsize=_CACHE_SIZE)(read_skeleton)
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
        common = sorted(self.profile.tasks.keys() - self.profile.special.keys())
        grammars = {name: _digest(self._grammars(name)) for name in common}
        ends = self._template_texts or [self._ends.head, self._ends.tail]
        chat_sha256 = None
        if self._chat:
            chat_sha256 = self._chat.sha256
        identity: dict[str, Any] = {
            "profile": self.profile.name,
            "profile_sha256": self.profile.sha256,
            "chat_template_sha256": chat_sha256,
            "chat_ends_sha256": hashlib.sha256("\0".join(ends).encode()).hexdigest(),
            "grammars_sha256": grammars,
            "reasons": self._reasons,
        }
        if self._nearest is not None:
            identity["nearest"] = dict(self._nearest)
        asked = {}
        for name in sorted(tasks):
            if name in self.profile.special:
                asked[name] = {
                    "sha256": self.profile.special[name],
                    "grammar_sha256": _digest(self._grammars(name)),
                }
        if asked:
            identity["special_tasks"] = asked
        return identity

    def unsupported(self, tasks: Iterable[str]) -> list[str]:
        return sorted(name for name in set(tasks) if self.profile.find_task(name) is None)

    @property
    def why_not_asked(self) -> str:
        questions = ", ".join(sorted(self.profile.tasks))
        return f"the prompt profile {self.profile.name!r} has only {questions}"

    def has_words_for(self, task: Task) -> bool:
        return self.profile.find_task(task_name(task)) is not None

    def request(self, task: Task) -> VerdictRequest:
        """Return the request for a task.

        Raises SampleError if the profile has no prompt for the task, or no place for some of its
        texts.
        """
        asked = task_name(task)
        name = self.profile.find_task(asked)
        profile = f"the prompt profile {self.profile.name!r}"
        if name is None:
            raise SampleError(f"{profile} has no words for the task {asked}")
        prompt = self.profile.tasks[name]
        unshown = _list_unshown(prompt, task)
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
        return VerdictRequest(path, grammars[0], explanation, self.profile.reading(prompt))

    def requests(self, tasks: Iterable[Task]) -> list[VerdictRequest]:
        return list(map(self.request, tasks))

    def _path(self, name: str, task: Task, *, form: str) -> tuple[Node, ...]:
        prompt = self.profile.tasks[name]
        nodes = _render(prompt, task, form=form)
        if prompt.is_conversation:
            roles = tuple(role for role, _ in nodes if role)
            skeleton, in_json = self._skeleton(name, roles)
            return tuple(map(_join, _put_in_skeleton(nodes, skeleton, in_json=in_json)))
        path = [node for _, node in nodes]
        path[0] = _join((Piece(text=self._ends.head, trusted=True), *path[0]))
        path[-1] = _join((*path[-1], Piece(text=self._ends.tail, trusted=True)))
        return tuple(path)

    def _grammars(self, name: str) -> list[Grammar]:
        """Return the grammar of a task's verdict, then the grammar of a reason after it, if any."""
        prompt = self.profile.tasks[name]
        if not isinstance(prompt.grammar, str):
            return [prompt.grammar.grammar(name)]
        if prompt.reasons and self._reasons == "before":
            return [load_grammar(prompt.reasons.before)]
        grammars = [load_grammar(prompt.grammar)]
        if prompt.reasons and self._reasons == "after":
            grammars.append(load_grammar(prompt.reasons.after))
        return grammars


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


def _read_skeleton(
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


def _put_in_skeleton(
    nodes: Sequence[_RoledNode], skeleton: Sequence[str], *, in_json: bool
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


def _render(prompt: TaskPrompt, task: Task, *, form: str) -> list[_RoledNode]:
    """Fill a prompt's nodes with the texts of a task. `form` describes a valid answer."""
    texts = _texts(task)
    contexts = _contexts(task)
    texts["unit"] = _RANGE.sub(
        lambda numbers: _as_written(numbers[0], contexts), texts["unit"], count=_MAX_RANGES
    )
    examples: tuple[tuple[CustomQuestion, str], ...] = ()
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
            for context in filter(str.strip, contexts):
                node = _fill(text, {**texts, "context": context})
                nodes.append((template.role, node))
        else:
            for question, answer in examples:
                node = _example_node(prompt, template.text, question, answer)
                nodes.append((template.role, node))
    return nodes


def _contexts(task: Task) -> tuple[str, ...]:
    if isinstance(task, Usefulness | Refusal):
        return ()
    return tuple(read_characters(context).text for context in task.contexts)


def _as_written(numbers: str, contexts: Sequence[str]) -> str:
    """Return numbers joined by a dash with the dash of the contexts: 5-10 or 5\u201310.

    Small readers take another dash for another number.
    """
    in_any_form = _DASH.join(re.split(_DASH, numbers))
    form = re.compile(rf"(?<!\d){in_any_form}(?!\d)")
    written: list[str] = []
    for context in contexts:
        written += form.findall(context)
    if numbers in written or not written:
        return numbers
    return written[0]


def _texts(task: Task) -> dict[str, str]:
    """Return the texts of a task by placeholder, "" where it has none."""
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
    for name in ("unit", "question", "reference", "response"):
        texts[name] = read_characters(texts[name]).text
    return texts


def _list_unshown(prompt: TaskPrompt, task: Task) -> list[str]:
    """Return the texts of a criterion's question for which the prompt has no placeholder."""
    if not isinstance(task, CustomQuestion):
        return []
    texts = _texts(task)
    unshown = []
    if any(map(str.strip, task.contexts)) and "context" not in prompt.placeholders:
        unshown.append("context")
    shows_examples = any(node.for_each == "examples" for node in prompt.node)
    if task.examples and not shows_examples:
        unshown.append("examples")
    for name in ("reference", "response"):
        if texts[name] and name not in prompt.placeholders:
            unshown.append(name)
    return unshown


def _example_node(prompt: TaskPrompt, heading: str, question: CustomQuestion, answer: str) -> Node:
    """Return an example as one node: its heading with the answer, then its texts."""
    visible = []
    for node in prompt.node[1:]:
        if node.when != "examples" and node.for_each != "examples":
            visible.append(node)
    prompt_of_example = prompt.model_copy(update={"node": tuple(visible)})
    pieces = list(_fill(heading, {"answer": answer}))
    for _, rendered in _render(prompt_of_example, question, form=""):
        pieces += rendered
    return tuple(pieces)


@lru_cache(maxsize=_CACHE_SIZE)
def _parse(template: str) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Split a template into literals, placeholders (blank, name) and fenced tags, as a model may
    read them.
    """
    parts = PLACEHOLDER.split(template)
    literals = tuple(parts[::3])
    placeholders = tuple(zip(parts[1::3], parts[2::3], strict=True))
    tags = [_as_read(tag.replace("{fence}>", "")) for tag in _FENCED_TAG.findall(template)]
    return literals, placeholders, tuple(tags)


def _fill(template: str, texts: Mapping[str, str]) -> Node:
    return _with_texts(template, tuple(texts[name] for _, name in _parse(template)[1]))


@lru_cache(maxsize=_CACHE_SIZE)
def _with_texts(template: str, texts: tuple[str, ...]) -> Node:
    literals, placeholders, tags = _parse(template)
    inside = ""
    if tags:
        inside = _as_read("\n".join(dict.fromkeys(texts)))
    fence = ""
    number = 1
    while any(f"{tag}{fence}>" in inside for tag in tags):  # a text cannot contain every number
        number += 1
        fence = f"-{number}"
    pieces: list[Piece] = []
    blanks = [blank for blank, _ in placeholders]
    # The last literal is followed by no text.
    for literal, blank, text in zip(literals, [*blanks, ""], [*texts, ""], strict=True):
        trusted = literal.replace("{fence}", fence)
        if trusted:
            pieces.append(Piece(trusted, trusted=True))
        if text:
            pieces.append(Piece(blank + text, trusted=False))
    return tuple(pieces)


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
