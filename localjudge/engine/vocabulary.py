"""One model's tokenizer, with a border between our text and the user's.

    ours      may name control tokens: `<|im_end|>` becomes one token
    user's    never does: `<|im_end|>` becomes the tokens of its characters

llama.cpp's own switch (`parse_special`) is not enough: tokens of type USER_DEFINED match in plain text whatever it is.
So user text is cut inside every literal of a control or user-defined token, its parts are tokenised by separate calls,
and the result is checked: no such token in it, and it decodes to exactly the text.

Some vocabularies (SentencePiece) put a space before whatever they tokenise. Every part is therefore tokenised behind a
newline, whose tokens are then taken off.
"""

import ctypes
import re
from functools import cached_property
from typing import Any

import llama_cpp

from localjudge.errors import ModelError, SampleError

_NORMALISING = (llama_cpp.LLAMA_VOCAB_TYPE_WPM, llama_cpp.LLAMA_VOCAB_TYPE_UGM)
_RESERVED = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED
_CONTINUATION_BYTE = 0b1000_0000  # of a character in UTF-8
_ANCHORS = (b"\n", b".", b"a")


class Vocabulary:
    """Tokens of a loaded model. `pointer` is llama.cpp's vocabulary; it must outlive this object."""

    def __init__(self, pointer: Any) -> None:
        self._pointer = pointer
        self.size: int = llama_cpp.llama_vocab_n_tokens(pointer)
        self.exact: bool = llama_cpp.llama_vocab_type(pointer) not in _NORMALISING
        """False for vocabularies that fold case or accents: their tokens do not decode to the text."""
        self.pieces: list[bytes] = [self._piece(token) for token in range(self.size)]
        if not self.exact:
            self.pieces = [
                piece.removeprefix(b" ") for piece in self.pieces
            ]  # marks the start of a word: not in the text
        self.eos: int = llama_cpp.llama_vocab_eos(pointer)
        self.bos: int = llama_cpp.llama_vocab_bos(pointer)
        self.begin: int | None = self.bos if llama_cpp.llama_vocab_get_add_bos(pointer) and self.bos >= 0 else None
        """The token that every text of this model begins with, if it has one."""
        self._anchor = self._find_anchor()

    @cached_property
    def reserved(self) -> dict[int, bytes]:
        """Tokens that user text must never contain, with their literals: control and non-blank user-defined ones."""
        attributes = ((token, llama_cpp.llama_vocab_get_attr(self._pointer, token)) for token in range(self.size))
        return {
            token: self.pieces[token]
            for token, attribute in attributes
            if attribute & _RESERVED and self.pieces[token].strip()
        }

    def trusted(self, text: str) -> list[int]:
        """Tokens of our own text: literals of control tokens become those tokens."""
        by_literal = {literal: token for token, literal in self.reserved.items()}
        tokens: list[int] = []
        for part in _split(self._literals, text.encode()):
            tokens += [by_literal[part]] if part in by_literal else self._plain(part)
        return tokens

    def user(self, text: str) -> list[int]:
        """Tokens of user text. Raises SampleError if the model cannot be shown this text as it is."""
        data = _utf8(text)
        tokens = [token for part in _cut_inside(self._literals, data) for token in self._plain(part)]
        forged = next((token for token in tokens if token in self.reserved), None)
        if forged is not None:
            raise SampleError(
                f"the text cannot be shown to this model without its control token {self.pieces[forged]!r}"
            )
        if self.exact and self.decode(tokens) != data:
            raise SampleError("the model's tokenizer does not give this text back as it is")
        return tokens

    def decode(self, tokens: list[int]) -> bytes:
        """Bytes that the tokens stand for."""
        return b"".join(self.pieces[token] for token in tokens)

    def text_of(self, token: int) -> str:
        """Literal of a token; "" for one that the vocabulary lacks (negative)."""
        return "" if token < 0 else self.pieces[token].decode(errors="replace")

    @cached_property
    def _literals(self) -> re.Pattern[bytes]:
        literals = sorted(set(self.reserved.values()), key=lambda literal: (-len(literal), literal))
        if not literals:
            return re.compile(rb"(?!)")
        starts = b"".join(re.escape(bytes([first])) for first in sorted({literal[0] for literal in literals}))
        return re.compile(b"(?=[" + starts + b"])(?:" + b"|".join(map(re.escape, literals)) + b")")

    def _plain(self, data: bytes) -> list[int]:
        """Tokens of the bytes, with no control token parsed and no space put before them."""
        if not data:
            return []
        if not self._anchor:
            return self._tokenize(data)
        anchor = self._tokenize(self._anchor)
        tokens = self._tokenize(self._anchor + data)
        if tokens[: len(anchor)] != anchor:
            raise SampleError(f"the model's tokenizer joins a text that begins with {data[:20]!r} to what is before it")
        return tokens[len(anchor) :]

    def _find_anchor(self) -> bytes:
        """What to put before a text so that the vocabulary puts no space there; b"" if it puts none anyway."""
        if not self.exact or self.decode(self._tokenize(b"x")) == b"x":
            return b""
        for anchor in _ANCHORS:
            head, whole = self._tokenize(anchor), self._tokenize(anchor + b"x")
            if whole[: len(head)] == head and self.decode(whole[len(head) :]) == b"x":
                return anchor
        raise ModelError("the model's tokenizer cannot tokenise a text without putting a space before it")

    def _tokenize(self, data: bytes) -> list[int]:
        room = len(data) + 16
        while True:
            buffer = (llama_cpp.llama_token * room)()
            found = llama_cpp.llama_tokenize(self._pointer, data, len(data), buffer, room, False, False)
            if found >= 0:
                return list(buffer[:found])
            room = -found

    def _piece(self, token: int) -> bytes:
        room = 64
        while True:
            buffer = ctypes.create_string_buffer(room)
            length = llama_cpp.llama_token_to_piece(self._pointer, token, buffer, room, 0, True)
            if length >= 0:
                return buffer.raw[:length]
            room = -length


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise SampleError(f"the text holds a lone surrogate at position {error.start}") from error


def _split(literals: re.Pattern[bytes], data: bytes) -> list[bytes]:
    """Cut before and after every literal."""
    parts, start = [], 0
    for match in literals.finditer(data):
        parts += [data[start : match.start()], match.group()]
        start = match.end()
    return [part for part in [*parts, data[start:]] if part]


def _cut_inside(literals: re.Pattern[bytes], data: bytes) -> list[bytes]:
    """Cut after the first character of every literal, so that no part holds one."""
    parts, start = [], 0
    while match := literals.search(data, start):
        cut = match.start() + 1
        while cut < match.end() and data[cut] & 0b1100_0000 == _CONTINUATION_BYTE:
            cut += 1
        parts.append(data[start:cut])
        start = cut
    return [*parts, data[start:]]
