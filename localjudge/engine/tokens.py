"""Tokenize prompts for one model and keep user text apart from control tokens.

    ours      may contain control tokens: `<|im_end|>` becomes one token
    user's    never does: `<|im_end|>` becomes the tokens of its characters, as does `[INST]` if
              it marks turns

llama.cpp matches tokens of type USER_DEFINED in plain text even without `parse_special`. So user
text is cut inside every literal of a control or user-defined token, and its parts are tokenised
separately. Markers of older templates (`[INST]`, `### Response:`) are tokenised by character.

SentencePiece vocabularies put a space before every text, so each part is tokenised after an anchor,
usually a newline, and the anchor's tokens are removed.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from localjudge.engine.chat_template import ChatTemplate
from localjudge.errors import ModelError, SampleError

_SPACE_MARK = "▁".encode()
_CONTINUATION_BYTE = 0b1000_0000  # of a character in UTF-8
_ANCHORS = (b"\n", b".", b"a")
# llama.cpp needs 130 bytes of memory per byte of text, and without them ends the process.
_MAX_BYTES = 16 * 2**20


def is_reserved(literal: bytes, *, control: bool) -> bool:
    """Return whether user text must not produce a token with this literal."""
    return bool(literal.strip()) and (control or len(literal.decode(errors="replace")) > 1)


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
