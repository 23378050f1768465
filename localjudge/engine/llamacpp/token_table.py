"""What a tokenizer is made of: the tokens of one vocabulary, and the call that turns bytes into them.

A vocabulary of a loaded model is asked through llama.cpp; that of a server, through its own calls. What is built upon
it (`localjudge.engine.llamacpp.tokenizer`) does not know which.
"""

import ctypes
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from localjudge.engine.llamacpp.library import llama_cpp

_NORMALISING = (llama_cpp.LLAMA_VOCAB_TYPE_WPM, llama_cpp.LLAMA_VOCAB_TYPE_UGM)
_CONTROL = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL
_DEFINED = llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED | llama_cpp.LLAMA_TOKEN_ATTR_UNUSED


class TokenTable(NamedTuple):
    """Tokens of a vocabulary by their ids.

    `exact` is False for vocabularies that fold case or accents: their tokens do not decode to the text. `reserved`
    holds the tokens that user text must never contain, with their literals; `bytes_alone` the tokens of single bytes.
    `bos` and `eos` are negative where the vocabulary lacks them; `begin` is the token that every text begins with.
    `tokenize` gives the tokens of bytes, with no control token parsed and none put in front.
    """

    pieces: list[bytes]
    exact: bool
    reserved: Mapping[int, bytes]
    bytes_alone: Mapping[bytes, int]
    bos: int
    eos: int
    begin: int | None
    tokenize: Callable[[bytes], list[int]]


def loaded_tokens(pointer: Any) -> TokenTable:
    """Those of a loaded model. `pointer` is llama.cpp's vocabulary; it must outlive the table."""
    size = llama_cpp.llama_vocab_n_tokens(pointer)
    exact = llama_cpp.llama_vocab_type(pointer) not in _NORMALISING
    pieces = [_piece(pointer, token) for token in range(size)]
    if not exact:
        pieces = [piece.removeprefix(b" ") for piece in pieces]  # marks the start of a word: not in the text
    attributes = [llama_cpp.llama_vocab_get_attr(pointer, token) for token in range(size)]
    # The unknown token is reserved, except in vocabularies that fold text: there it is what a rare character becomes.
    unwanted = _CONTROL | _DEFINED | (llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN if exact else 0)
    bos = llama_cpp.llama_vocab_bos(pointer)
    return TokenTable(
        pieces=pieces,
        exact=exact,
        reserved={
            token: pieces[token]
            for token, attribute in enumerate(attributes)
            if attribute & unwanted and is_reserved(pieces[token], control=bool(attribute & _CONTROL))
        },
        bytes_alone={
            pieces[token]: token
            for token, attribute in enumerate(attributes)
            if len(pieces[token]) == 1 and attribute & llama_cpp.LLAMA_TOKEN_ATTR_BYTE
        },
        bos=bos,
        eos=llama_cpp.llama_vocab_eos(pointer),
        begin=bos if llama_cpp.llama_vocab_get_add_bos(pointer) and bos >= 0 else None,
        tokenize=lambda data: _tokenized(pointer, data),
    )


def is_reserved(literal: bytes, *, control: bool) -> bool:
    """Whether a special token's literal can be told from text. One character can not, and cannot be cut either."""
    return bool(literal.strip()) and (control or len(literal.decode(errors="replace")) > 1)


def _tokenized(pointer: Any, data: bytes) -> list[int]:
    room = len(data) + 16
    while True:
        buffer = (llama_cpp.llama_token * room)()
        found = llama_cpp.llama_tokenize(pointer, data, len(data), buffer, room, False, False)
        if found >= 0:
            return list(buffer[:found])
        room = -found


def _piece(pointer: Any, token: int) -> bytes:
    room = 64
    while True:
        buffer = ctypes.create_string_buffer(room)
        length = llama_cpp.llama_token_to_piece(pointer, token, buffer, room, 0, True)
        if length >= 0:
            return bytes(buffer.raw[:length])
        room = -length
