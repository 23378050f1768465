"""The vocabulary of a server that lists its tokens, for a model whose file is not at hand.

A list of probabilities of all tokens is a list of all tokens, each with its bytes; control tokens are those whose bytes
are empty there, and a call that turns tokens to text gives their literals.

What a list does not say is which tokens match in plain text whatever it is (llama.cpp's USER_DEFINED). So every token
that looks like markup counts as reserved, `<div>` with `<|im_end|>`: user text is then cut inside it, which spells the
same text by other tokens.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from localjudge.engine.llamacpp.token_table import TokenTable, is_reserved
from localjudge.errors import ModelError

_FOLDING = (3, 4)
"""llama.cpp's numbers for WordPiece and Unigram (`llama_vocab_type`), whose tokens fold case or accents."""
_MARKUP = re.compile(rb"<[^<>\s]+>|\[[^\[\]\s]*[A-Za-z][^\[\]\s]*\]")
_AT_ONCE = 256
_NO_TOKEN = -1


class TokenCalls(NamedTuple):
    """How a server is asked: texts to tokens, without and with control tokens, and tokens to a text."""

    plain: Callable[[str], list[int]]
    special: Callable[[str], list[int]]
    text_of: Callable[[Sequence[int]], str]


def listed_tokens(
    pieces: list[bytes], vocabulary_type: int, *, begins: Sequence[int], eos: str, calls: TokenCalls
) -> TokenTable:
    """The table of listed pieces. `begins` is what the server puts in front of a text, `eos` the text that ends one.

    Raises ModelError for a list that cannot be one of tokens.
    """
    if not any(pieces):
        raise ModelError(
            "the server lists tokens without their bytes: it is of a version that localjudge does not know"
        )
    control = _control_literals(pieces, calls)
    exact = vocabulary_type not in _FOLDING
    spelled = [control.get(token, piece) for token, piece in enumerate(pieces)]
    if not exact:
        spelled = [piece.removeprefix(b" ") for piece in spelled]
    ends = calls.special(eos) if eos else []
    return TokenTable(
        pieces=spelled,
        exact=exact,
        reserved={
            token: piece
            for token, piece in enumerate(spelled)
            if is_reserved(piece, control=token in control) and (token in control or _MARKUP.fullmatch(piece.strip()))
        },
        bytes_alone={piece: token for token, piece in enumerate(spelled) if len(piece) == 1},
        bos=begins[0] if begins else _NO_TOKEN,
        eos=ends[0] if len(ends) == 1 else _NO_TOKEN,
        begin=begins[0] if begins else None,
        tokenize=lambda data: calls.plain(data.decode()),
    )


def _control_literals(pieces: Sequence[bytes], calls: TokenCalls) -> dict[int, bytes]:
    """Literals of the tokens that are listed without bytes, asked for many at once with line ends between them."""
    silent = [token for token, piece in enumerate(pieces) if not piece]
    line_end = calls.plain("\n")
    if len(line_end) != 1 or pieces[line_end[0]] != b"\n":
        return {token: calls.text_of([token]).encode() for token in silent}
    literals: dict[int, bytes] = {}
    for start in range(0, len(silent), _AT_ONCE):
        some = silent[start : start + _AT_ONCE]
        spelled = calls.text_of([part for token in some for part in (token, *line_end)]).split("\n")
        if len(spelled) == len(some) + 1:
            literals |= {token: text.encode() for token, text in zip(some, spelled, strict=False)}
        else:
            literals |= {token: calls.text_of([token]).encode() for token in some}
    return literals
