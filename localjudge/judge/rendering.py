"""Fill the nodes of a prompt with the texts of a task.

Texts cannot close the tag around them: `{fence}` becomes the first of "", "-2", "-3" ... so that no
tag of the node occurs in its texts, in any spelling.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache

from localjudge.judge.profile import PLACEHOLDER, TaskPrompt
from localjudge.text.markup import read_characters
from localjudge.types import (
    CustomQuestion,
    Node,
    Piece,
    Refusal,
    Task,
    Usefulness,
)

_CACHE_SIZE = 512
_CONTEXT_CACHE_SIZE = 64
_DASH = r"\s?[-\u2010-\u2014\u2212]\s?"
_RANGE = re.compile(rf"(?<!\d)\d+(?:{_DASH}\d+){{1,4}}")
_MAX_RANGES = 20
_FENCED_TAG = re.compile(r"<[^<>\n]*\{fence\}>")

RoledNode = tuple[str | None, Node]
"""Node with the role of the message that it begins, if any."""


def render(prompt: TaskPrompt, task: Task, *, form: str) -> list[RoledNode]:
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
    nodes: list[RoledNode] = []
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


def _texts_for(template: str, texts: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the names and texts that a template shows."""
    names = {name for _, name in _parse(template)[1]}
    return tuple((name, text) for name, text in texts.items() if name in names)


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


def list_unshown(prompt: TaskPrompt, task: Task) -> list[str]:
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


def _example_node(prompt: TaskPrompt, heading: str, question: CustomQuestion, answer: str) -> Node:
    """Return an example as one node: its heading with the answer, then its texts."""
    visible = []
    for node in prompt.node[1:]:
        if node.when != "examples" and node.for_each != "examples":
            visible.append(node)
    prompt_of_example = prompt.model_copy(update={"node": tuple(visible)})
    pieces = list(_fill(heading, {"answer": answer}))
    for _, rendered in render(prompt_of_example, question, form=""):
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
