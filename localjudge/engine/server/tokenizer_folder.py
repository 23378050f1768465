"""The vocabulary of a model in Hugging Face's form: `tokenizer.json` of its folder, read as data.

Byte-level BPE (Qwen, Llama 3) spells each byte by a character of its own; the other kind of BPE (Llama 2, Gemma) writes
a space as `▁` and bytes as `<0x0A>`. Other kinds of tokenizer are refused. Every added token counts as reserved: the
tokenizers library finds it in any text, whatever it is.
"""

import json
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.engine.llamacpp.token_table import TokenTable, is_reserved
from localjudge.engine.server.numbers import inside
from localjudge.errors import ModelError

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_LARGEST = 1 << 28
_MOST_TOKENS = 1 << 22
_NO_TOKEN = -1
_TOKENIZER = "tokenizer.json"
_SMALL = {
    "config_sha256": "config.json",
    "tokenizer_sha256": _TOKENIZER,
    "weight_index_sha256": "model.safetensors.index.json",
}
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
    described = _json(folder / _TOKENIZER)
    settings = _json(folder / "tokenizer_config.json")
    model, rows = described.get("model"), described.get("added_tokens", [])
    vocabulary = model.get("vocab") if isinstance(model, dict) and model.get("type") == "BPE" else None
    if not isinstance(vocabulary, dict) or not isinstance(rows, list):
        raise ModelError(f"{folder}: its tokenizer is of a kind that localjudge does not know", hint="use llama-server")
    spelled = _byte_level if "ByteLevel" in json.dumps(described.get("decoder")) else _with_marks
    added = {_number(inside(row, "id"), folder): str(inside(row, "content")).encode() for row in rows}
    numbers = {text: _number(token, folder) for text, token in vocabulary.items()}
    pieces = [b""] * (max([*numbers.values(), *added], default=-1) + 1)
    for text, token in numbers.items():
        pieces[token] = spelled(text)
    for token, literal in added.items():
        pieces[token] = literal
    return TokenizerFolder(pieces, added, _template(folder, settings), _text(settings, "bos"), _text(settings, "eos"))


def folder_facts(folder: Path) -> dict[str, int | str]:
    """What tells this model from another: checksums of its small files, names and sizes of those with weights.

    Raises ModelError for a folder that cannot be read.
    """
    try:
        weights = sorted((file.name, file.stat().st_size) for file in folder.glob("*.safetensors"))
    except OSError as error:
        raise ModelError(f"{folder} cannot be read: {error.strerror}", hint=_USE_FOLDER) from error
    sums = {
        fact: sha256(_content(folder / name)).hexdigest() for fact, name in _SMALL.items() if _is_there(folder / name)
    }
    return {**sums, "weight_files_sha256": sha256(json.dumps(weights).encode()).hexdigest()}


def _template(folder: Path, settings: Mapping[str, Any]) -> str | None:
    beside = folder / "chat_template.jinja"
    if _is_there(beside):
        try:
            return _content(beside).decode()
        except UnicodeDecodeError as error:
            raise ModelError(f"{beside} is not a text: {error}", hint=_USE_FOLDER) from error
    found = settings.get("chat_template")
    return found if isinstance(found, str) else None


def _text(settings: Mapping[str, Any], which: str) -> str:
    found = settings.get(f"{which}_token") or ""
    return str(found.get("content", "")) if isinstance(found, dict) else str(found)


def _number(value: Any, folder: Path) -> int:
    """A token, of a vocabulary that can be: a list of all is made."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MOST_TOKENS:
        raise ModelError(f"{folder}: its tokenizer numbers a token {value!r:.40}", hint=_USE_FOLDER)
    return value


def _is_there(file: Path) -> bool:
    return os.path.lexists(file)


def _content(file: Path) -> bytes:
    """The bytes of a file that is one, and not so large that it cannot be a tokenizer's.

    Raises ModelError for any other: what the folder holds was said by a stranger, and a pipe would never end.
    """
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
            found = os.fstat(opened.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
                raise ModelError(f"{file} is no file of a tokenizer, or too large for one", hint=_USE_FOLDER)
            return opened.read(_LARGEST)
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror}", hint=_USE_FOLDER) from error


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(_content(file))
    except (ValueError, RecursionError) as error:
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
