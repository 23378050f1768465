"""Map column names of other tools to our fields.

The user's mapping has priority. Most columns are recognised by name. A few names are ambiguous, and
the other columns decide their meaning:

    context      the reference context if there is a column retrieval_context (DeepEval), or
                 expected_output but no output; otherwise the retrieved context (Opik)
    sample_id    the id if there is no column id; query_id if there is neither
    data         the response if there are columns query and documents (Haystack's GeneratedAnswer)
    outputs      the response if there is an expected answer; LangSmith's examples store the right
                 answer here

Names are recognised in any case, and with spaces for underscores (`Question`, `Ground Truth`),
unless another column is spelled exactly so. Columns that may also contain labels, scores or ids
(`target`, `docs`) are used only if no other column has the field and their values look like text.

`localjudge start` asks about unknown columns, and suggests fields by the words in their names.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from statistics import median
from typing import Any

from localjudge.dataset.paths import first_part, first_parts, has_value, lookup, reaches_inside
from localjudge.errors import DataError
from localjudge.types import CONTEXT_FIELDS
from localjudge.words import option

_Names = dict[str, tuple[str, ...]]


def _split_names(names: Mapping[str, str]) -> _Names:
    return {field: tuple(text.split()) for field, text in names.items()}


ALIASES = _split_names(
    {
        "id": "id sample_id query_id",
        "user_input": """
            user_input question questions query input vars.query vars.question inputs.question
            inputs.query inputs.input inputs.messages input.question input.query input.input
            input.messages
        """,
        "retrieved_contexts": """
            retrieved_contexts contexts retrieved_documents retrieval_context retrieved_context
            context vars.context
        """,
        "reference": """
            reference ground_truth ground_truths ground_truth_answers expected_output gt_answer
            expected vars.expected expectations.expected_response reference_outputs.answer
            reference_outputs.output reference.answer reference.output expectedOutput
            expectedOutput.answer expected_output.answer answers.text
        """,
        "response": """
            response answer actual_output predicted_answers output response.output
            output.completion output.answer outputs outputs.answer outputs.output outputs.response
            answer.data data
        """,
        "reference_contexts": """
            reference_contexts ground_truth_documents ground_truth_context context
        """,
        "retrieved_context_ids": "retrieved_context_ids",
        "reference_context_ids": "reference_context_ids",
    }
)
"""Our field -> names in other tools.

They are ragas, Haystack, DeepEval, RAGChecker, promptfoo, inspect, MLflow, LangSmith, Langfuse ...
"""

LOOSE_NAMES = _split_names(
    {
        "user_input": """
            messages request answer.query answers.0.query answer_builder.answers.0.query
        """,
        "retrieved_contexts": """
            documents docs passages chunks source_nodes source_documents answer.documents
            answers.0.documents answer_builder.answers.0.documents retriever.documents
            outputs.contexts outputs.context outputs.retrieved_contexts outputs.documents
            output.contexts output.documents inputs.contexts inputs.context inputs.documents
            input.contexts input.context metadata.contexts metadata.context
            metadata.retrieved_contexts metadata.documents metadata_contexts
        """,
        "reference": """
            gold_answer expected_answer expected_response reference_answer ideal target gold
        """,
        "response": """
            prediction completion result answers.0.data answer_builder.answers.0.data llm.replies.0
            generator.replies.0
        """,
    }
)
"""Names of columns that may also contain labels, scores or ids."""

ROW_NUMBERS = ("nr", "num", "number", "nummer", "kennung", "numéro", "número")
"""Names of columns that number the rows in English, German, French and Spanish."""

ID_COLUMNS = {
    "retrieved_context_ids": "retrieved_contexts",
    "reference_context_ids": "reference_contexts",
}
"""Columns of ids -> the contexts that they identify."""

KNOWN_NAMES = frozenset(chain(*ALIASES.values(), *LOOSE_NAMES.values()))
"""All of these names."""

_FIELD_OF_LOOSE_NAME = {name: field for field in LOOSE_NAMES for name in LOOSE_NAMES[field]}
_EXPECTED = frozenset({"expectations", "reference_outputs", *ALIASES["reference"]})
_LETTER = re.compile(r"[^\W\d_]")
_WORDS = re.compile(r"[^\W_]\s+[^\W_]|[^\W\d_\x00-\x7f]")
"""Two words, or a letter of a script that may have no spaces."""

_SPACES = re.compile(r"[\s_-]+")
_TEXT_LEVELS = 4
"""Of a list of LlamaIndex nodes: `[{"node": {"text_resource": {"text": "..."}}}]`."""


def _spelling(name: str) -> str:
    return _SPACES.sub("_", name.strip()).casefold()


_KNOWN_SPELLINGS = {_spelling(name): name for name in map(first_part, sorted(KNOWN_NAMES))}


def numbers_rows(column: str) -> bool:
    """Return whether a column is named as one that numbers the rows, in any spelling."""
    return column.strip().rstrip(".").casefold() in ROW_NUMBERS


def is_known_name(column: str) -> bool:
    """Return whether a column has the name of a field in some tool, in any spelling."""
    return _spelling(column) in _KNOWN_SPELLINGS


ColumnOf = dict[str, str]
"""Our field -> their column, or columns separated by commas."""


def split_columns(column_of: Mapping[str, str]) -> set[str]:
    """Return the mapped columns. A name with commas is returned whole and in parts."""
    names: set[str] = set()
    for column in column_of.values():
        names.add(column)
        names.update(column.split(","))
    return names


def source_has(field: str, column: str, has: Callable[[str], bool]) -> bool:
    """Return whether the source has the column or, for contexts and ids, every column in a list."""
    if has(column):
        return True
    can_have_a_list = field in CONTEXT_FIELDS or field in ID_COLUMNS
    return can_have_a_list and all(map(has, column.split(",")))


class Survey:
    """All `columns` of a source in order of appearance, and whether they contain values."""

    def __init__(self, mapping: Mapping[str, str]) -> None:
        self.columns: dict[str, bool] = {}
        self._spellings: dict[str, dict[str, None]] = {}
        self._reached: set[str] = set()
        inside = filter(reaches_inside, KNOWN_NAMES | split_columns(mapping))
        self._unreached = {name: first_parts(name) for name in inside}
        self._unread = {name: first_parts(name) for name in _FIELD_OF_LOOSE_NAME}

    def add(self, values: Mapping[str, Any]) -> None:
        known = dict(values)
        for column, value in values.items():
            if not self.columns.get(column):
                self.columns[column] = value is not None and value != ""
            name = _KNOWN_SPELLINGS.get(_spelling(column), column)
            if name != column and name not in values:
                self._spellings.setdefault(name, {})[column] = None
                known[name] = value
        for name, columns in list(self._unreached.items()):
            if not columns.isdisjoint(known) and has_value(known, name):
                self._reached.add(name)
                del self._unreached[name]
        for name, columns in list(self._unread.items()):
            is_there = not columns.isdisjoint(known)
            if is_there and _looks_like(_FIELD_OF_LOOSE_NAME[name], lookup(known, name)):
                del self._unread[name]

    def has(self, name: str) -> bool:
        return name in self.columns or name in self._reached

    def spellings(self, name: str) -> list[str]:
        """Return the columns, or paths into columns, with this known name."""
        if name in self.columns:
            return [name]
        column = first_part(name)
        if column in self.columns or column not in self._spellings:
            if name in self._reached:
                return [name]
            return []
        if name != column and name not in self._reached:
            return []
        return [f"{other}{name.removeprefix(column)}" for other in self._spellings[column]]

    def is_read(self, name: str) -> bool:
        return name not in self._unread

    def unused(self, column_of: ColumnOf) -> tuple[str, ...]:
        """Return the non-empty columns that no field is read from."""
        taken = split_columns(column_of)
        for path in list(taken):
            columns = sorted(first_parts(path) & self.columns.keys(), key=len)
            taken.update(columns[-1:])
        return tuple(name for name, filled in self.columns.items() if filled and name not in taken)


def choose_columns(survey: Survey, mapping: Mapping[str, str], source: str) -> ColumnOf:
    """Choose the column for each field. Raises DataError if two columns match one field."""
    column_of: ColumnOf = {}
    for field, column in mapping.items():
        if source_has(field, column, survey.has):
            column_of[field] = column
    mapped = split_columns(column_of)
    present = set(mapped)
    for name in KNOWN_NAMES | _EXPECTED:
        if not mapped.issuperset(survey.spellings(name)):
            present.add(name)
    known_names = {}
    loose_names = {}
    for field in ALIASES:
        unmapped = [name for name in ALIASES[field] if name in present and name not in mapped]
        known_names[field] = [name for name in unmapped if _means(name, field, present)]
        loose_names[field] = [
            name
            for name in LOOSE_NAMES.get(field, ())
            if name in present and survey.is_read(name) and (name != "result" or "query" in present)
        ]
    for names in (known_names, loose_names):
        for field in ALIASES:
            if field in column_of:
                continue
            unused = _find_column(names[field], survey, column_of, field, source)
            if unused is not None:
                column_of[field] = unused
    return {field: column_of[field] for field in ALIASES if field in column_of}


def _find_column(
    names: Iterable[str], survey: Survey, column_of: ColumnOf, field: str, source: str
) -> str | None:
    """Return the column with one of these names that no field is read from, or None without one.

    Raises DataError if there are several.
    """
    used = split_columns(column_of)
    columns = []
    for name in names:
        for column in survey.spellings(name):
            if column not in used:
                columns.append(column)
    if len(columns) > 1:
        raise DataError(
            f"{source}: the columns {' and '.join(columns)} both match {field}",
            hint=f"choose one: {option('mapping', {field: columns[0]})}",
        )
    return next(iter(columns), None)


def _means(column: str, field: str, present: Set[str]) -> bool:
    if any(name.startswith(f"{column}.") for name in present):
        return False
    match column.partition(".")[0]:
        case "context":
            golden = "expected_output" in present and "output" not in present
            meant = "retrieved_contexts"
            if golden or "retrieval_context" in present:
                meant = "reference_contexts"
            return field == meant
        case "sample_id" | "query_id":
            names = ALIASES["id"]
            return present.isdisjoint(names[: names.index(column)])
        case "data":
            return present >= {"query", "documents"}
        case "outputs":
            return not present.isdisjoint(_EXPECTED)
        case _:
            return True


def _looks_like(field: str, value: Any) -> bool:
    if field in CONTEXT_FIELDS or (field == "reference" and isinstance(value, list)):
        return any(_WORDS.search(text) for text in _texts(value))
    if isinstance(value, list | tuple):
        texts = [item for item in value if isinstance(item, str)]
        messages = [item for item in value if isinstance(item, Mapping)]
        has_words = any(map(_WORDS.search, texts))
        return has_words or any(_looks_like(field, message) for message in messages)
    if isinstance(value, Mapping):
        value = value.get("content", value.get("text"))
    return isinstance(value, str) and bool(_LETTER.search(value))


def _texts(value: Any, levels: int = _TEXT_LEVELS) -> Iterator[str]:
    """Yield the texts of a value, and of the lists and objects inside it."""
    inside: Iterable[Any] = ()
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        inside = value.values()
    elif isinstance(value, list | tuple):
        inside = value
    if levels:
        for item in inside:
            yield from _texts(item, levels - 1)


_LONG_TEXT = 100
"""Median number of characters from which a column of texts may be evidence."""
_FREE_TEXT = 3
"""Median number of words from which a column may hold answers."""
_SIMILAR = 3
"""Most times that the answers of one system are longer than those of another."""
_NUMBERING = re.compile(r"[\W\d_]*\b[a-e]?$")
"""`1`, ` 2` or `_b` at the end of a column's name."""
_FIELD_WORDS: Mapping[str, Sequence[str]] = {
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


def guess_columns(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the columns of each field that their names suggest.

    A name that other tools use is preferred. Several columns of a field that has one are all
    returned: none of them is the default.
    """
    guesses: dict[str, list[str]] = {field: [] for field in _FIELD_WORDS}
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
    for field in _FIELD_WORDS:
        if name in (*ALIASES[field], *LOOSE_NAMES.get(field, ())):
            return field
    words = re.findall(r"[^\W\d_]+", name.casefold())
    for field, beginnings in _FIELD_WORDS.items():
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
