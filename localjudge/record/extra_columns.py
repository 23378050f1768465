"""The columns of the data that are no field of ours, as a run keeps them: they move no verdict, and say what a row is.

    {"department": "cardiology", "asked_at": "2026-03-01", "tags": ["a"]}       one JSON object for each sample

They are no part of the signature. Numbers by the values of a column are shown, though, so the manifest has a checksum
of them all, whatever the order of rows and columns, and `verify` says when they are not what they were.

What JSON does not have is kept as JSON can have it: a NaN as null, as pandas means it, other things in words.
"""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from localjudge.dataset.checks import DEEPEST
from localjudge.dataset.identity import Hashes, fingerprint_of, hash_of
from localjudge.dataset.sound_rows import kept_words

_LARGEST = 2**63


def extras_text(extras: Mapping[str, Any]) -> str:
    """The columns of one sample as JSON."""
    return json.dumps(_kept(extras, DEEPEST), ensure_ascii=False, separators=(",", ":"))


def extras_fingerprint(extras: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """Sha256 (hexadecimal) of the columns of all samples, by their ids, whatever their order."""
    hashes = Hashes(32)
    for sample_id, columns in extras:
        hashes.append(hash_of({"id": sample_id, "columns": columns}))
    return fingerprint_of(hashes)


def _kept(value: Any, levels: int) -> Any:
    kept: Any
    match value:
        case str():
            # SQLite holds UTF-8, and readers of JSON want it: a lone surrogate is neither.
            kept = value.encode("utf-8", "backslashreplace").decode("utf-8")
        case Mapping() if levels:
            kept = {_kept(str(name), 0): _kept(item, levels - 1) for name, item in value.items()}
        case list() if levels:
            kept = [_kept(item, levels - 1) for item in value]
        case float() if not math.isfinite(value):
            kept = None if math.isnan(value) else str(value)
        case None | bool() | float():
            kept = value
        case int() if -_LARGEST <= value < _LARGEST:
            kept = value
        case _:
            kept = kept_words(value)
    return kept
