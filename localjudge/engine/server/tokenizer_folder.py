"""The vocabulary of a model in Hugging Face's form: `tokenizer.json` of its folder, read as data.

Byte-level BPE (Qwen, Llama 3) spells each byte by a character of its own; the other kind of BPE (Llama 2, Gemma) writes
a space as `▁` and bytes as `<0x0A>`. Other kinds of tokenizer are refused. Every added token counts as reserved: the
tokenizers library finds it in any text, whatever it is.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.engine.llamacpp.token_table import TokenTable, is_reserved
from localjudge.errors import ModelError

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_LARGEST = 1 << 28
_NO_TOKEN = -1
_USE_FOLDER = "name the folder of the model when the server is started: vllm serve /PATH/MODEL"


class TokenizerFolder(NamedTuple):
    """What a model's folder says: its tokens by id, those that were added, its chat template, begin and end."""

    pieces: list[bytes]
    added: Mapping[int, bytes]
    chat_template: str | None
    bos: str
    eos: str

    def table(self, begins: Sequence[int], tokenize: Callable[[bytes], list[int]]) -> TokenTable:
        """The tokens with the call that makes them. `begins` is what is put in front of a text."""
        by_text = {piece: token for token, piece in self.added.items()}
        return TokenTable(
            pieces=self.pieces,
            exact=True,
            reserved={token: piece for token, piece in self.added.items() if is_reserved(piece, control=True)},
            bytes_alone={piece: token for token, piece in enumerate(self.pieces) if len(piece) == 1},
            bos=by_text.get(self.bos.encode(), _NO_TOKEN),
            eos=by_text.get(self.eos.encode(), _NO_TOKEN),
            begin=begins[0] if begins else None,
            tokenize=tokenize,
        )


def read_folder(folder: Path) -> TokenizerFolder:
    """What the folder says. Raises ModelError for one that is none, or of a kind that is not known."""
    described = _json(folder / "tokenizer.json")
    settings = _json(folder / "tokenizer_config.json")
    model = described.get("model", {})
    vocabulary = model.get("vocab")
    if model.get("type") != "BPE" or not isinstance(vocabulary, dict):
        raise ModelError(f"{folder}: its tokenizer is of a kind that localjudge does not know", hint="use llama-server")
    spelled = _byte_level if "ByteLevel" in json.dumps(described.get("decoder")) else _with_marks
    added = {row["id"]: str(row["content"]).encode() for row in described.get("added_tokens", [])}
    size = max([*vocabulary.values(), *added]) + 1
    pieces = [b""] * size
    for text, token in vocabulary.items():
        pieces[token] = spelled(text)
    for token, literal in added.items():
        pieces[token] = literal
    return TokenizerFolder(pieces, added, _template(folder, settings), _text(settings, "bos"), _text(settings, "eos"))


def _template(folder: Path, settings: Mapping[str, Any]) -> str | None:
    beside = folder / "chat_template.jinja"
    if beside.is_file():
        return beside.read_text(encoding="utf-8")
    found = settings.get("chat_template")
    return found if isinstance(found, str) else None


def _text(settings: Mapping[str, Any], which: str) -> str:
    found = settings.get(f"{which}_token") or ""
    return str(found.get("content", "")) if isinstance(found, dict) else str(found)


def _json(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > _LARGEST:
            raise ModelError(f"{file} is too large for a tokenizer", hint=_USE_FOLDER)
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{file} cannot be read: {error}", hint=_USE_FOLDER) from error
    if not isinstance(found, dict):
        raise ModelError(f"{file} is not a tokenizer's", hint=_USE_FOLDER)
    return found


def _byte_level(text: str) -> bytes:
    """The bytes that the characters stand for; the text itself where they stand for none."""
    try:
        return bytes(_byte_of()[character] for character in text)
    except KeyError:
        return text.encode()


def _with_marks(text: str) -> bytes:
    byte = _BYTE.fullmatch(text)
    return bytes([int(byte[1], 16)]) if byte else text.replace("▁", " ").encode()


@cache
def _byte_of() -> dict[str, int]:
    """The byte of each character of byte-level BPE: printable Latin 1 stands for itself, the rest from U+0100 on."""
    themselves = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in set(themselves)]
    return {chr(byte): byte for byte in themselves} | {chr(0x100 + place): byte for place, byte in enumerate(others)}
