"""The tokens and the chat template of one model. User text is kept apart from control tokens.

    ours      may contain control tokens: `<|im_end|>` becomes one token
    user's    never does: `<|im_end|>` becomes the tokens of its characters, as does `[INST]` if
              it marks turns

llama.cpp matches tokens of type USER_DEFINED in plain text even without `parse_special`. So user
text is cut inside every literal of a control or user-defined token, and its parts are tokenised
separately. Markers of older templates (`[INST]`, `### Response:`) are tokenised by character.

SentencePiece vocabularies put a space before every text, so each part is tokenised after an anchor,
usually a newline, and the anchor's tokens are removed.

The chat template is rendered without a system message, with a fixed date and, if possible, thinking
off, in a separate process (`render_template.py`), because a template is code from the model file.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from localjudge.errors import ModelError, SampleError
from localjudge.types import ChatEnds, Node

_MARKER = "localjudge-message-7f3a"
_CONVERSATIONS = (("system", "user", "assistant", "user"), ("user", "assistant", "user"), ("user",))
_GENERATION = re.compile(r"\{%(-?)\s*(?:end)?generation\s*(-?)%\}")
_USUAL = {
    "add_generation_prompt": True,
    "enable_thinking": False,
    "thinking": False,
    "date_string": "01 Jan 2025",
}
_LIMITS = {"seconds": 5, "mebibytes": 512, "characters": 100_000}
_MAX_SECONDS = 60  # for systems without a limit of processor time
_Prompt = dict[str, str]
"""The `text` of a rendered conversation, or an `error`."""
_SPACE_MARK = "▁".encode()
_CONTINUATION_BYTE = 0b1000_0000  # of a character in UTF-8
_ANCHORS = (b"\n", b".", b"a")
# llama.cpp needs 130 bytes of memory per byte of text, and without them ends the process.
_MAX_BYTES = 16 * 2**20


class ChatTemplate(NamedTuple):
    """Chat template with its begin and end tokens."""

    template: str
    bos: str
    eos: str

    @property
    def ends(self) -> ChatEnds:
        """Template around one message. Raises ModelError unless it shows the message once."""
        prompts, _ = self._render([[{"role": "user", "content": _MARKER}]])
        rendered = _only_prompt(prompts)
        if rendered.count(_MARKER) != 1:
            raise _unusable(f"it shows the message {rendered.count(_MARKER)} times instead of once")
        head, tail = rendered.split(_MARKER)
        return self.without_ends._replace(head=head, tail=tail + answer_opener(tail))

    @property
    def without_ends(self) -> ChatEnds:
        digest = hashlib.sha256(self.template.encode("utf-8", "surrogatepass")).hexdigest()
        return ChatEnds("", "", digest, self.conversation)

    def conversation(
        self, messages: Sequence[Mapping[str, str]], arguments: Mapping[str, Any]
    ) -> str:
        """Render the prompt for these messages.

        Raises ModelError if the template fails or ignores an argument.
        """
        prompts, variables = self._render([messages], arguments)
        if variables is not None and not arguments.keys() <= set(variables):
            unknown = ", ".join(sorted(arguments.keys() - variables))
            raise ModelError(
                f"the model's chat template does not use {unknown} of the prompt profile",
                hint="use a conversion of the model with its own chat template, or another profile",
            )
        rendered = _only_prompt(prompts)
        return rendered + answer_opener(rendered)

    def between_turns(self) -> tuple[str, ...]:
        """Return the text before a system message and between messages.

        The conversation is the longest one that the template can render.
        """
        conversations: list[list[dict[str, str]]] = []
        for roles in _CONVERSATIONS:
            marked = []
            for number, role in enumerate(roles):
                marked.append({"role": role, "content": f"{_MARKER}-{number}"})
            conversations.append(marked)
        prompts, _ = self._render(conversations)
        for messages, prompt in zip(conversations, prompts, strict=True):
            marks = [message["content"] for message in messages]
            pattern = re.compile("|".join(marks))
            rendered = prompt.get("text", "")
            if pattern.findall(rendered) != marks:
                continue
            texts: list[str] = []
            for text in pattern.split(rendered):
                texts.append(text.replace(self.bos, "").replace(self.eos, "").strip())
            head, *between = texts
            if messages[0]["role"] == "system":
                # Llama 2 puts the system's message into the user's.
                between.insert(0, head.removeprefix(between[2]))
            return tuple(between)
        return ()

    def _render(
        self,
        conversations: Sequence[Sequence[Mapping[str, str]]],
        arguments: Mapping[str, Any] = MappingProxyType({}),
    ) -> tuple[list[_Prompt], list[str] | None]:
        """Return the rendered conversations, and the template's variables.

        These are None if it cannot be parsed.
        """
        shared = {**_USUAL, **arguments, "bos_token": self.bos, "eos_token": self.eos}
        request = {
            # These tags mark text for the training loss. Jinja does not know them.
            "template": _GENERATION.sub(r"{#\1 \2#}", self.template),
            "conversations": [{**shared, "messages": messages} for messages in conversations],
            "now": "2025-01-01T00:00:00+00:00",
            "limits": _LIMITS,
        }
        reply = _run_template(json.dumps(request))
        return reply["prompts"], reply["reads"]


@dataclass(eq=False, repr=False)
class Vocabulary:
    """Tokens of one model by id, with its chat template.

    `exact`: False if it folds case or accents, so that tokens do not decode to the text.
    `reserved`: tokens that user text must not produce, with their literals. `byte_tokens`: tokens
    of single bytes. `bos`, `eos`: negative if missing. `begin`: at the start of every text.
    `tokenize_bytes`: without parsing or adding control tokens. `score`: log-probability in a
    unigram vocabulary, otherwise 0 or a rank.
    """

    pieces: list[bytes]
    exact: bool
    reserved: Mapping[int, bytes]
    byte_tokens: Mapping[bytes, int]
    bos: int
    eos: int
    begin: int | None
    tokenize_bytes: Callable[[bytes], list[int]]
    score: Callable[[int], float]
    chat_template: str | None = None

    def __post_init__(self) -> None:
        self.size = len(self.pieces)
        self._by_literal = {literal: token for token, literal in self.reserved.items()}
        self._literals = _match_any(set(self._by_literal))
        self._anchors = self._find_anchors()
        self._space_mark = self._spelled_space_mark()
        self.turn_markers = self._plain_turn_markers()
        self._marker_literals = _match_any({marker.encode() for marker in self.turn_markers})

    def trusted(self, text: str) -> list[int]:
        """Tokenize our own text, which may contain control tokens."""
        tokens: list[int] = []
        for part in self._literals.split(text.encode()):
            if part in self._by_literal:
                tokens.append(self._by_literal[part])
            else:
                tokens += self._plain(part)
        return tokens

    def user(self, text: str) -> list[int]:
        """Tokenize user text.

        Raises SampleError if the model cannot be shown this text unchanged.
        """
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            problem = f"the text holds a lone surrogate at position {error.start}"
            raise SampleError(problem) from error
        if len(data) > _MAX_BYTES:
            raise SampleError(
                f"a text of {len(data):,} bytes is too long for a tokenizer, "
                f"which takes at most {_MAX_BYTES:,}",
                hint="cut it into several contexts",
            )
        tokens: list[int] = []
        for part in self._parts(data):
            tokens += self._plain(part)
        for token in tokens:
            if token in self.reserved:
                literal = repr(self.pieces[token])
                problem = "the text cannot be shown to this model without its control token"
                raise SampleError(f"{problem} {literal}")
        if self.exact and self.decode(tokens) != data:
            raise SampleError("the model's tokenizer does not give this text back as it is")
        return tokens

    def node(self, node: Node) -> tuple[int, ...]:
        """Tokenize a node of a prompt. Raises SampleError for a text of the user as `user` does."""
        tokens: list[int] = []
        for piece in node:
            if piece.trusted:
                tokens += self.trusted(piece.text)
            else:
                tokens += self.user(piece.text)
        return tuple(tokens)

    def start(self, *, begin_of_text: bool) -> tuple[int, ...]:
        """Return the tokens at the start of every prompt."""
        if begin_of_text and self.begin is not None:
            return (self.begin,)
        return ()

    def decode(self, tokens: list[int]) -> bytes:
        return b"".join(self.pieces[token] for token in tokens)

    @property
    def template(self) -> ChatTemplate | None:
        if not self.chat_template:
            return None
        return ChatTemplate(
            self.chat_template, self.spell_token(self.bos), self.spell_token(self.eos)
        )

    def spell_token(self, token: int) -> str:
        if token < 0:
            return ""
        return self.pieces[token].decode(errors="replace")

    def _plain_turn_markers(self) -> frozenset[str]:
        """Return lines between the turns of a conversation that contain no control token."""
        template = self.template
        if template is None:
            return frozenset()
        markers = set()
        for text in template.between_turns():
            if self._literals.search(text.encode()):
                continue
            for line in map(str.strip, text.split("\n")):
                if not line.isalnum() and any(map(str.isalpha, line)):
                    markers.add(line)
        return frozenset(markers)

    def _parts(self, data: bytes) -> list[bytes]:
        parts: list[bytes] = []
        for part in self._marker_literals.split(data):
            if self._marker_literals.fullmatch(part):
                parts += [character.encode() for character in part.decode()]
            else:
                parts += _cut_inside(self._literals, part)
        return parts

    def _plain(self, data: bytes) -> list[int]:
        if self._space_mark and _SPACE_MARK in data:
            first, *others = data.split(_SPACE_MARK)
            joined = self._plain(first)
            for other in others:
                joined += [*self._space_mark, *self._plain(other)]
            return joined
        if not data:
            return []
        for anchor, head in self._anchors.items():
            tokens = self.tokenize_bytes(anchor + data)
            if tokens[: len(head)] == head:
                return tokens[len(head) :]
        beginning = f"a text that begins with {data[:20]!r}"
        raise SampleError(f"the model's tokenizer joins {beginning} to what is before it")

    def _find_anchors(self) -> dict[bytes, list[int]]:
        """Return texts, with their tokens, after which the vocabulary adds no space."""
        if not self.exact or self.decode(self.tokenize_bytes(b"x")) == b"x":
            return {b"": []}
        anchors = {}
        for anchor in _ANCHORS:
            head = self.tokenize_bytes(anchor)
            if self.tokenize_bytes(anchor + b"x")[: len(head)] == head:
                anchors[anchor] = head
        if not anchors:
            raise ModelError(
                "the model's tokenizer cannot tokenise a text without putting a space before it",
            )
        return anchors

    def _spelled_space_mark(self) -> list[int]:
        """Return the byte tokens of `▁` if the vocabulary treats it as a space."""
        if self.decode(self.tokenize_bytes(b"a" + _SPACE_MARK)).endswith(_SPACE_MARK):
            return []
        spelled = [self.byte_tokens.get(bytes([byte]), -1) for byte in _SPACE_MARK]
        if -1 in spelled:
            return []
        return spelled


def _match_any(literals: set[bytes]) -> re.Pattern[bytes]:
    if not literals:
        return re.compile(rb"(?!)")
    longest_first = sorted(literals, key=lambda literal: (-len(literal), literal))
    first_bytes = sorted({literal[:1] for literal in literals})
    starts = b"".join(map(re.escape, first_bytes))
    alternatives = b"|".join(map(re.escape, longest_first))
    return re.compile(b"(?=[" + starts + b"])(" + alternatives + b")")


def _cut_inside(literals: re.Pattern[bytes], data: bytes) -> list[bytes]:
    parts = []
    start = 0
    while match := literals.search(data, start):
        cut = match.start() + 1
        while cut < match.end() and data[cut] & 0b1100_0000 == _CONTINUATION_BYTE:
            cut += 1
        parts.append(data[start:cut])
        start = cut
    return [*parts, data[start:]]


def answer_opener(tail: str) -> str:
    """Return the text between the rendered prompt and the visible answer.

    It is "" for most model families.
    """
    for opener in _openers():
        if tail.endswith(opener["after"]):
            return opener["add"]
    return ""


def _only_prompt(prompts: Sequence[_Prompt]) -> str:
    """Return the text of the only conversation. Raises ModelError if rendering failed."""
    [prompt] = prompts
    if "error" in prompt:
        raise _unusable(prompt["error"])
    return prompt["text"]


@cache
def _openers() -> list[dict[str, str]]:
    file = Path(__file__).with_name("answer_openers.toml")
    return list(tomllib.loads(file.read_text(encoding="utf-8"))["opener"])


def _unusable(why: str) -> ModelError:
    return ModelError(
        f"the model's chat template cannot be rendered: {why}",
        hint="use another conversion of it",
    )


@lru_cache(maxsize=64)
def _run_template(request: str) -> dict[str, Any]:
    why = f"it takes more than {_LIMITS['seconds']} s or {_LIMITS['mebibytes']} MiB, or fails"
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(Path(__file__).with_name("render_template.py"))],
            input=request,
            capture_output=True,
            encoding="ascii",
            errors="replace",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            timeout=_MAX_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _unusable(why) from error
    if done.returncode:
        ending = f"status {done.returncode}"
        lines = done.stderr.strip().splitlines()
        if lines:
            ending = lines[-1][:300]
        raise _unusable(f"{why}: {ending}")
    reply: dict[str, Any] = json.loads(done.stdout)
    return reply
