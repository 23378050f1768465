"""Preview the columns of data files: names, examples, and which columns look like evidence."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from itertools import islice
from statistics import median

from localjudge.dataset.columns import ALIASES, LOOSE_NAMES, ROW_NUMBERS
from localjudge.dataset.formats import read
from localjudge.dataset.rows import RawRow
from localjudge.dataset.sources import Source

_ROWS = 100
_LONG_TEXT = 100
"""Median number of characters from which a column of texts may be evidence."""
_FREE_TEXT = 3
"""Median number of words from which a column may hold answers."""
_SIMILAR = 3
"""Most times that the answers of one system are longer than those of another."""
_NUMBERING = re.compile(r"[\W\d_]*\b[a-e]?$")
"""`1`, ` 2` or `_b` at the end of a column's name."""
_WORDS: Mapping[str, Sequence[str]] = {
    "id": ("id", *ROW_NUMBERS),
    "reference": (
        *("correct", "expected", "gold", "ideal", "reference", "right", "truth"),
        *("erwartet", "korrekt", "muster", "referenz", "richtig", "soll"),
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


def preview_columns(files: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns in order of appearance, each with its texts in the first rows of a file.

    Empty values are left out. Raises DataError for a file that cannot be read.
    """
    columns: dict[str, list[str]] = {}
    for file in files:
        with closing(Source(file)) as source:
            for row in islice(read(source, {}), _ROWS):
                if isinstance(row, RawRow):
                    for name, value in row.values.items():
                        texts = columns.setdefault(name, [])
                        if value is None:
                            continue
                        text = " ".join(str(value).split())
                        if text:
                            texts.append(text)
    return columns


def guess_columns(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the columns of each field that their names suggest.

    A name that other tools use is preferred. Several columns of a field that has one are all
    returned: none of them is the default.
    """
    guesses: dict[str, list[str]] = {field: [] for field in _WORDS}
    for name in names:
        field = _field_by_name(name)
        if field:
            guesses[field].append(name)
    for field, candidates in guesses.items():
        known = [name for name in candidates if name in ALIASES[field]]
        if field != "retrieved_contexts" and known:
            guesses[field] = known[:1]
    return guesses


def guess_answers(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """Return two or more columns of free texts that may be answers, although no name says so.

    Their names say nothing, and their texts are about equally long. Returns [] otherwise.
    """
    lengths: dict[str, float] = {}
    for name, texts in columns.items():
        is_varied = 2 * len(set(texts)) > len(texts)
        if _field_by_name(name) is None and is_varied:
            words = median(len(text.split()) for text in texts)
            if words >= _FREE_TEXT:
                lengths[name] = words
    if len(lengths) > 1 and max(lengths.values()) <= _SIMILAR * min(lengths.values()):
        return list(lengths)
    return []


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
    columns: Mapping[str, Sequence[str]],
    used: Iterable[str],
    contexts: Collection[str],
) -> list[str]:
    """Return the unused columns that look like evidence: by name, by a used one, or long texts.

    `columns` are those of `preview_columns`. A column without texts is not evidence.
    """
    taken = set(used)
    stems = {_remove_numbering(name) for name in columns if name in contexts}
    names: list[str] = []
    for name, texts in columns.items():
        if name in taken or not texts:
            continue
        has_used_stem = _remove_numbering(name) in stems
        is_named_so = has_used_stem or _field_by_name(name) == "retrieved_contexts"
        if is_named_so or median(map(len, texts)) >= _LONG_TEXT:
            names.append(name)
    return names


def _remove_numbering(name: str) -> str:
    """Return `fundstelle` for `Fundstelle 2`."""
    return _NUMBERING.sub("", name.casefold())
