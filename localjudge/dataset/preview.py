"""Preview the columns of data files: names, an example, and which columns look like evidence."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from localjudge.dataset.columns import ALIASES, LOOSE_NAMES
from localjudge.dataset.formats import read
from localjudge.dataset.rows import RawRow
from localjudge.dataset.sources import Source

_ROWS = 100
_LONG_TEXT = 100
"""Median number of characters from which a column of texts may be evidence."""
_NUMBERING = re.compile(r"[\W\d_]*\b[a-e]?$")
"""`1`, ` 2` or `_b` at the end of a column's name."""
_WORDS: Mapping[str, Sequence[str]] = {
    "reference": (
        *("expected", "gold", "ideal", "reference", "truth"),
        *("erwartet", "muster", "referenz", "richtig", "soll"),
        *("attendu", "référence", "esperad", "referencia"),
    ),
    "user_input": ("question", "query", "frage", "anfrage", "pregunta", "consulta", "requête"),
    "response": ("answer", "response", "output", "antwort", "ist", "réponse", "respuesta"),
    "retrieved_contexts": (
        *("chunk", "context", "document", "evidence", "passage", "source", "text"),
        *("auszug", "beleg", "dokument", "fundstelle", "kontext", "quelle", "textstelle"),
        *("contexte", "extrait", "contexto", "fragmento", "fuente"),
    ),
}
"""Beginnings of words in the names of columns in English, German, French and Spanish.

In this order: "expected answer" is a reference, and "text of the answer" a response.
"""


class ColumnPreview(NamedTuple):
    """A column with the first non-empty value and the median length of its values in characters."""

    name: str
    example: str
    length: float

    @property
    def stem(self) -> str:
        """The name without numbering: `Fundstelle` of `Fundstelle 2`."""
        return _NUMBERING.sub("", self.name.casefold())


def preview_columns(files: Sequence[str]) -> list[ColumnPreview]:
    """Return the columns of the first rows of each file, in order of appearance.

    Raises DataError for a file that cannot be read.
    """
    values: dict[str, list[str]] = {}
    for file in files:
        with closing(Source(file)) as source:
            for row in islice(read(source, {}), _ROWS):
                if isinstance(row, RawRow):
                    _add_values(values, row.values)
    previews: list[ColumnPreview] = []
    for name, texts in values.items():
        example = texts[0] if texts else ""
        previews.append(ColumnPreview(name, example, median(map(len, texts or [""]))))
    return previews


def _add_values(values: dict[str, list[str]], row: Mapping[str, Any]) -> None:
    for name, value in row.items():
        texts = values.setdefault(name, [])
        text = "" if value is None else " ".join(str(value).split())
        if text:
            texts.append(text)


def guess_columns(columns: Iterable[ColumnPreview]) -> dict[str, list[str]]:
    """Return the columns of each field that their names suggest: several for contexts, else one."""
    guesses: dict[str, list[str]] = {field: [] for field in _WORDS}
    for column in columns:
        field = _field_by_name(column.name)
        if field and (field == "retrieved_contexts" or not guesses[field]):
            guesses[field].append(column.name)
    return guesses


def _field_by_name(name: str) -> str | None:
    for field in _WORDS:
        if name in (*ALIASES[field], *LOOSE_NAMES.get(field, ())):
            return field
    words = re.findall(r"[^\W\d_]+", name.casefold())
    for field, beginnings in _WORDS.items():
        for beginning in beginnings:
            if any(_matches(word, beginning) for word in words):
                return field
    return None


def _matches(word: str, beginning: str) -> bool:
    is_short = len(beginning) <= len("text")
    if is_short:
        return word == beginning
    return word.startswith(beginning)


def unused_evidence(
    columns: Iterable[ColumnPreview],
    used: Iterable[str],
    contexts: Iterable[str],
) -> list[str]:
    """Return the unused columns that look like evidence: by name, by a used one, or long texts."""
    taken = set(used)
    chosen = set(contexts)
    previews = list(columns)
    stems = {column.stem for column in previews if column.name in chosen}
    names: list[str] = []
    for column in previews:
        if column.name in taken:
            continue
        is_named_so = column.stem in stems or _field_by_name(column.name) == "retrieved_contexts"
        if column.example and (is_named_so or column.length >= _LONG_TEXT):
            names.append(column.name)
    return names


def is_label_file(file: Path) -> bool:
    """Return whether a file names the columns of a label sheet or of a page's labels."""
    with file.open("rb") as stream:
        head = stream.read(1 << 16)
    for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
        if all(column.encode(encoding) in head for column in ("label_id", "human")):
            return True
    return False
