"""Which of their columns is which of our fields: the one table of foreign names.

People bring data that was made for another evaluator. A column is known by its name alone, with these exceptions,
where the *shape* of the source decides, because one name means different things to different tools:

    context      ground truth next to DeepEval's retrieval_context, and next to expected_output where there is no
                 output; otherwise what was retrieved (Opik writes output, expected_output and context)
    sample_id    the id where there is no column `id`, otherwise not ours; so is query_id where there is neither
    data         the answer next to `query` and `documents` (Haystack's GeneratedAnswer), otherwise not ours
    outputs      the answer next to what was expected, otherwise not ours: in LangSmith's examples it is the right one

Loose names, under which people also keep labels, scores and ids (`target`, `docs`), come last: one is taken where
nothing else gives the field and its values read like text. A name with dots reaches into objects (`vars.query`), unless
there is a column of exactly that name; the object itself is then not taken. The user's own mapping goes first.

A column that is not used may be a field that the data lacks: a guess from its name, which is said and never taken.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

from localjudge.dataset.problems import lookup
from localjudge.errors import DataError, InputError
from localjudge.types import CONTEXT_FIELDS, FieldName
from localjudge.words import option


def _names(table: str) -> dict[str, tuple[str, ...]]:
    """Names by field: each row of the table begins with a field and a colon, and may go on in the next line."""
    names: dict[str, tuple[str, ...]] = {}
    for word in table.split():
        if word.endswith(":"):
            field = word.removesuffix(":")
            names[field] = ()
        else:
            names[field] += (word,)
    return names


ALIASES = _names("""
    id:                     id sample_id query_id
    user_input:             user_input question questions query input vars.query vars.question inputs.question
                            inputs.query inputs.input inputs.messages input.question input.query input.input
                            input.messages
    retrieved_contexts:     retrieved_contexts contexts retrieved_documents retrieval_context retrieved_context
                            context vars.context
    reference:              reference ground_truth ground_truths ground_truth_answers expected_output gt_answer
                            expected vars.expected expectations.expected_response reference_outputs.answer
                            reference_outputs.output reference.answer reference.output expectedOutput
                            expectedOutput.answer expected_output.answer answers.text
    response:               response answer actual_output predicted_answers output response.output output.completion
                            output.answer outputs outputs.answer outputs.output outputs.response answer.data data
    reference_contexts:     reference_contexts ground_truth_documents ground_truth_context context
    retrieved_context_ids:  retrieved_context_ids
    reference_context_ids:  reference_context_ids
""")
"""Our name of a field: the names under which other tools write it (ragas, Haystack, DeepEval, RAGChecker, ...).

With dots: promptfoo's vars, inspect's output, SQuAD's answers, and the rows of MLflow, LangSmith and Langfuse.
"""

LOOSE_NAMES = _names("""
    user_input:             messages request answer.query answers.0.query answer_builder.answers.0.query
    retrieved_contexts:     documents docs passages chunks source_nodes source_documents answer.documents
                            answers.0.documents answer_builder.answers.0.documents retriever.documents
                            outputs.contexts outputs.context outputs.retrieved_contexts outputs.documents
                            output.contexts output.documents inputs.contexts inputs.context inputs.documents
                            input.contexts input.context metadata.contexts metadata.context
                            metadata.retrieved_contexts metadata.documents metadata_contexts
    reference:              gold_answer expected_answer expected_response reference_answer ideal target gold
    response:               prediction completion result answers.0.data answer_builder.answers.0.data llm.replies.0
                            generator.replies.0
""")
"""Names that may also mean something else, for the fields that nothing above gives."""


ID_COLUMNS = {"retrieved_context_ids": "retrieved_contexts", "reference_context_ids": "reference_contexts"}
"""Columns that hold nothing but the ids of another field's contexts: beside their texts, or in place of them."""

_EXPECTED = frozenset({"expectations", "reference_outputs", "reference", "reference.answer", "reference.output"})
_LETTER = re.compile(r"[^\W\d_]")
_WORDS = re.compile(r"[^\W_]\s+[^\W_]|[^\W\d_\x00-\x7f]")
"""Two words, or a letter of a script that need not put blanks between them."""

Resolved = dict[str, str]
"""Our field -> their column; for a field of contexts also several, with commas between them."""


def columns_of(resolved: Mapping[str, str]) -> set[str]:
    """The columns that are taken for fields: a name with commas may be one column or several."""
    return {name for column in resolved.values() for name in (column, *column.split(","))}


def check_mapping(mapping: Mapping[str, str]) -> None:
    """Raise InputError if a mapping names a field that is not ours."""
    for field in [field for field in mapping if field not in ALIASES]:
        form = option("mapping", {"FIELD": "COLUMN"})
        raise InputError(
            f"the mapping {field}={mapping[field]} names no field of ours",
            hint=f"{form} takes a column of yours for one of {', '.join(ALIASES)}",
        )


def is_there(field: str, column: str, has: Callable[[str], bool]) -> bool:
    """Whether the source has the column; for a field of contexts, or of their ids, all of several."""
    return has(column) or (field in (*CONTEXT_FIELDS, *ID_COLUMNS) and all(map(has, column.split(","))))


def resolve(
    has: Callable[[str], bool], is_read: Callable[[str], bool], mapping: Mapping[str, str], source: str
) -> Resolved:
    """Decide which column of a source's rows is which field. Raises DataError where two columns would fill one.

    `mapping` is what the user decided (ours -> theirs) and goes first; `has` says whether any row has a column, or a
    value under a dotted name, `is_read` whether any value of a column with a loose name `reads_like` its field.
    """
    resolved = {field: column for field, column in mapping.items() if is_there(field, column, has)}
    names = {name for table in (ALIASES, LOOSE_NAMES) for names in table.values() for name in names}
    taken = columns_of(resolved)
    present = frozenset(filter(has, names | _EXPECTED)) | taken

    def reserved(field: str) -> list[str]:
        return [name for name in ALIASES[field] if name in present - taken and _means(name, field, present)]

    def loose(field: str) -> list[str]:
        names = [name for name in LOOSE_NAMES.get(field, ()) if name in present - columns_of(resolved)]
        # LangChain's chains give a query and its result.
        return [name for name in names if is_read(name) and (name != "result" or "query" in present)]

    for candidates in (reserved, loose):
        for field in [field for field in ALIASES if field not in resolved]:
            match candidates(field):
                case [column]:
                    resolved[field] = column
                case [first, *_] as several:
                    raise DataError(
                        f"{source}: the columns {' and '.join(several)} both give {field}",
                        hint=f"say which one counts: {option('mapping', {field: first})}",
                    )
    return {field: resolved[field] for field in ALIASES if field in resolved}


def _means(column: str, field: str, present: frozenset[str]) -> bool:
    """Whether a column stands for the field, where its name alone does not decide."""
    if any(name.startswith(f"{column}.") for name in present):
        return False
    match column.partition(".")[0]:
        case "context":
            golden = "expected_output" in present and "output" not in present
            return (field == "reference_contexts") == (golden or "retrieval_context" in present)
        case "sample_id" | "query_id":
            names = ALIASES["id"]
            return present.isdisjoint(names[: names.index(column)])
        case "data":
            return present >= {"query", "documents"}
        case "outputs":
            return bool(present & _EXPECTED)
        case _:
            return True


def reads_like(field: str, rows: Iterable[Mapping[str, Any]], column: str) -> bool:
    """Whether any value of the column reads like what the field holds: a text with a letter; for contexts, with words.

    So does a list of references, as inspect has targets. `7`, `"0.93"`, `["doc_12"]` do not.
    """
    values = [lookup(row, column) for row in rows]
    lists = values if field in CONTEXT_FIELDS else [v for v in values if field == "reference" and isinstance(v, list)]
    if any(_WORDS.search(text) for value in lists for text in _texts(value)):
        return True
    return field not in CONTEXT_FIELDS and any(isinstance(value, str) and _LETTER.search(value) for value in values)


def _texts(value: Any) -> Iterator[str]:
    """The texts in a text, an object, or a list of either; in an object also those one level down (`node.text`)."""
    for item in value if isinstance(value, list | tuple) else [value]:
        values = [*item.values()] if isinstance(item, Mapping) else [item]
        values += [inner for node in values if isinstance(node, Mapping) for inner in node.values()]
        yield from (text for text in values if isinstance(text, str))


LOOKED_AT = 1_000
"""So many rows are looked at to say what columns hold."""
_CONTEXTS = {"context", "document", "doc", "passage", "chunk", "snippet", "evidence"}
_ANSWERS = {"answer", "response", "output", "completion", "prediction", "reply"}
_QUESTIONS = {"question", "query", "prompt", "input"}
_TRUTH = {"gold", "golden", "truth", "gt", "reference", "ref", "expected", "expectation", "ideal", "target", "correct"}

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_FIELD_OF = {
    name: field
    for table in (ALIASES, LOOSE_NAMES)
    for field, names in table.items()
    if field in get_args(FieldName)
    for name in names
}


def guessed_columns(rows: Sequence[Mapping[str, Any]], taken: set[str]) -> dict[str, list[str]]:
    """For each of our fields the columns, also inside objects, that may be it by their names and read like it.

    `taken` are the columns that are used. One of them may be meant for something else: what some call `context` beside
    `expected_output`, and Phoenix `reference`, is what was retrieved.
    """
    names: dict[str, None] = {}
    for row in rows:
        for name, value in row.items():
            inside = value if isinstance(value, Mapping) else ()
            names |= dict.fromkeys([str(name), *(f"{name}.{key}" for key in inside)])
    guesses: dict[str, list[str]] = {}
    for name in names:
        field = likely_field(name)
        if field and name not in taken and reads_like(field, rows, name):
            guesses.setdefault(field, []).append(name)
    if "retrieved_contexts" not in guesses:
        is_of_phoenix = taken >= {"input", "output", "reference"}
        other = ["context"] if "context" in taken else ["reference"] if is_of_phoenix else []
        guesses |= {"retrieved_contexts": other} if other else {}
    return guesses


def likely_field(name: str) -> str | None:
    """The field that a column of this name may be; None if its name does not say."""
    if re.match(r"\[[^\]]+\] .", name):  # promptfoo's CSV calls a column of answers `[provider] prompt`
        return "response"
    words = [word.lower().removesuffix("s") for word in _WORD.findall(name)]
    words = [word for word in words if word not in {"text", "list", "string"}] or [""]
    truth = not _TRUTH.isdisjoint(words)
    if words[-1] in _CONTEXTS:
        return "reference_contexts" if truth else "retrieved_contexts"
    if truth and words[-1] in _ANSWERS | _TRUTH | {"standard"}:
        return "reference"
    if words[-1] in _ANSWERS:
        return "response"
    if words[-1] in _QUESTIONS:
        return "user_input"
    near = difflib.get_close_matches(name.lower(), _FIELD_OF, n=1, cutoff=0.9)
    return _FIELD_OF[near[0]] if near else None


def map_option(guessed: Mapping[str, Sequence[str]]) -> str:
    """How to say that these columns are these fields; columns of contexts that are numbered are one field together."""
    columns = {}
    for field, names in guessed.items():
        numbered = field in CONTEXT_FIELDS and len({name.rstrip("0123456789") for name in names}) == 1
        columns[field] = ",".join(names) if numbered else names[0]
    return option("mapping", columns)
