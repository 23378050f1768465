"""Write statements to label as a sheet, or as one private page, in the annotator's language.

    shared_words.js   marks words that a statement shares with the texts to compare
    evidence.js       marks the sentences that come closest to the statement, on request
    decisions.js      decisions, stored in the browser and downloaded as labels-NAME.jsonl
    label.js          keys and buttons

The page has no labels of others, and the verdicts of a single judge are not in it. The parts of a
jury are shown on request, and only after the statement has an answer. The closest sentences are
hidden until the annotator asks for them, because they can bias an answer, or shown at once; with
them, or in their place if a statement has none, the page shows what a judge has read, if it did not
read everything. The downloaded file has a row for each answer: label_id, draw, sample_id, metric,
position, text, planned (statements of the page), human (1, 0, or null for "cannot tell" and undone
answers), annotator, when (UTC), and evidence_seen (opened, shown, or no key).
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Required, TypedDict, Unpack

from localjudge.labels.label_sheet import CLOSEST, write_sheet
from localjudge.labels.label_source import ClosestSentence, SheetRow
from localjudge.labels.labelling import Labelling
from localjudge.report.messages import Messages
from localjudge.report.private_page import browser_offset, name_run, page_parts, write_page
from localjudge.run_directory.result_rows import select_context
from localjudge.types import Language

_STYLES = ("base.css", "label.css")
_SCRIPTS = ("elements.js", "shared_words.js", "evidence.js", "decisions.js", "label.js")
_NAMES = ("label_id", "draw", "sample_id", "metric", "position")
_SHOWN = ("asks", "user_input", "contexts", "reference", "response", "text", "source_text")


def write_labelling(
    path: Path, labelling: Labelling, *, language: Language = "en", as_page: bool | None = None
) -> int:
    """Write the remaining statements for annotators, and return their number.

    A page for a browser (by default if the path ends in .html), or a sheet. Raises InputError if no
    statement is left, or for a file that cannot be written.
    """
    rows = labelling.rows_to_send()
    if as_page is None:
        as_page = path.suffix.lower() == ".html"
    if not as_page:
        write_translated_sheet(path, rows, language=language)
        return len(rows)
    write_label_page(
        path,
        rows,
        title=name_run(labelling.source.directory.resolve()),
        language=language,
        parts_of_juries=labelling.parts_of_juries(),
        evidence=labelling.closest_sentences,
        show_evidence=labelling.show_evidence,
        read=labelling.texts_read(),
    )
    return len(rows)


def write_translated_sheet(
    path: Path, rows: Sequence[SheetRow], *, language: Language = "en"
) -> None:
    """Write a sheet with instruction and questions in this language; see `write_sheet`.

    Spreadsheets expect a comma between cells in English, and a semicolon in languages that have a
    decimal comma.
    """
    messages = Messages(language)
    translated = [{**row, "asks": messages.question(row["metric"]) or row["asks"]} for row in rows]
    instruction = messages.plain("sheet.instruction")
    if any(row.get(CLOSEST) for row in rows):
        about_evidence = messages.plain("sheet.evidence")
        instruction = f"{instruction} {about_evidence}"
    separator = ";"
    if language == "en":
        separator = ","
    write_sheet(path, translated, instruction=instruction, separator=separator)


class PageContent(TypedDict, total=False):
    """What a label page shows beside the statements, by `label_id`.

    `parts_of_juries` has the probability of each judge for verdicts of a jury. `evidence` has the
    closest sentences, and `read` what the judge has read. Both are hidden at first unless
    `show_evidence`.
    """

    title: Required[str]
    language: Language
    parts_of_juries: Mapping[str, Mapping[str, float]]
    evidence: Mapping[str, Sequence[ClosestSentence]]
    show_evidence: bool
    read: Mapping[str, str]


def write_label_page(
    path: Path, rows: Sequence[Mapping[str, Any]], **content: Unpack[PageContent]
) -> None:
    """Write sheet rows as a page, reproducibly. The first row may name the annotator.

    Replaces an earlier page. Raises InputError for another file of that name, or if it cannot be
    written.
    """
    messages = Messages(content.get("language", "en"))
    shown = [_row_values(row, len(rows), content, messages) for row in rows]
    show_evidence = content.get("show_evidence", False)
    annotator: str | None = None
    if rows:
        annotator = rows[0].get("annotator")
    evidence_state: Literal["shown", "hidden"] | None = None
    if any("closest" in values for values in shown):
        evidence_state = "hidden"
        if show_evidence:
            evidence_state = "shown"
    parts = page_parts(
        "label.html",
        styles=_STYLES,
        scripts=_SCRIPTS,
        messages=messages,
        script_messages=["label"],
        config={
            "key": _storage_key(content["title"], shown),
            "annotator": annotator,
            "showsEvidence": show_evidence,
            "rows": shown,
        },
        title=content["title"],
        count=len(shown),
        evidence=evidence_state,
        has_closest=any(values.get("closest") for values in shown),
    )
    write_page(path, parts, kind="page")


def _row_values(
    row: Mapping[str, Any], planned: int, content: PageContent, messages: Messages
) -> dict[str, Any]:
    """Return what the page shows of a sheet row, with its question in the annotator's language.

    `closest` has the field, the context, and start and end in UTF-16 code units.
    """
    values = {name: row[name] for name in (*_NAMES, *_SHOWN)}
    values["asks"] = messages.question(row["metric"]) or row["asks"]
    values["planned"] = planned
    if row.get("context_ids") is not None:
        values["context_ids"] = row["context_ids"]
    label_id = row["label_id"]
    parts_of_juries = content.get("parts_of_juries", {})
    if label_id in parts_of_juries:
        values["judges"] = dict(parts_of_juries[label_id])
    evidence = content.get("evidence", {})
    read = content.get("read", {})
    if label_id in evidence or label_id in read:
        values["closest"] = []
        for sentence in evidence.get(label_id, ()):
            text = row[sentence.field]
            if sentence.context is not None:
                text = select_context(text, sentence.context)
            ends = (browser_offset(text, sentence.start), browser_offset(text, sentence.end))
            values["closest"].append([sentence.field, sentence.context, *ends])
        values["read"] = read.get(label_id)
    return values


def _storage_key(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the key of the answers in the browser's storage.

    It depends on the run's title, the drawing, and the ordered labels.
    """
    names = [title, *(f"{row['draw']}\n{row['label_id']}" for row in rows)]
    digest = hashlib.sha256("".join(f"{name}\n" for name in names).encode()).hexdigest()
    return f"localjudge-labels-{digest}"
