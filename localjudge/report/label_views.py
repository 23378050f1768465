"""Labels of a run, and statements to label: in the terminal, in a sheet, or on one private page.

Sheet and page are in the annotator's language. The page is made of these scripts:

    shared_words.js   marks words that a statement shares with the texts to compare
    evidence.js       marks the sentences that come closest to the statement, on request
    decisions.js      decisions, stored in the browser and downloaded as labels-NAME.jsonl
    label.js          keys and buttons

It has no labels of others, and the verdicts of a single judge are not in it. The parts of a jury
are shown on request, and only after the statement has an answer. The closest sentences are
hidden until the annotator asks for them, because they can bias an answer, or shown at once; with
them, or in their place if a statement has none, the page shows what a judge has read, if it did not
read everything. The downloaded file has a row for each answer: label_id, draw, sample_id, metric,
position, text, planned (statements of the page), human (1, 0, or null for "cannot tell" and undone
answers), annotator, when (UTC), and evidence_seen (opened, shown, or no key).
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Required, TypedDict, Unpack

from rich.text import Text

from localjudge.labels.corrected_mean import CorrectedMean, labels_waiting
from localjudge.labels.label_sheet import CLOSEST, write_sheet
from localjudge.labels.label_source import AnswerAround, ClosestSentence, SheetRow, name_context
from localjudge.labels.labelling import Labelling
from localjudge.labels.read_labels import LabelsRead
from localjudge.labels.run_labels import LabelledStatement, RunLabels, read_run_labels
from localjudge.report.messages import Messages
from localjudge.report.private_page import browser_offset, name_run, page_parts, write_page
from localjudge.report.terminal import Table, number, terminal
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.label_rows import LABELS
from localjudge.run_directory.result_rows import VerdictRow, select_context
from localjudge.run_directory.run_record import RunRecord
from localjudge.types import Language
from localjudge.words import call, numbered, printable_lines

EVIDENCE_KEY = "e"
_ANSWER_KEYS = {"1": "yes", "0": "no", "?": "cannot tell"}
_OTHER_KEYS = {"s": "skip", "u": "undo", "q": "quit"}
_STYLES = ("base.css", "label.css")
_SCRIPTS = ("elements.js", "shared_words.js", "evidence.js", "decisions.js", "label.js")
_NAMES = ("label_id", "draw", "sample_id", "metric", "position")
_SHOWN = ("asks", "user_input", "contexts", "reference", "response", "text", "source_text")


def label_remarks(labels: RunLabels) -> list[str]:
    """Return why means are not corrected by their labels, the agreement, and warnings."""
    lines: list[str] = []
    for name, mean in labels.corrected.items():
        if mean.ci95 is None and mean.counts:
            labelled = numbered(mean.counts.labelled, "label")
            missing = _missing_labels(mean)
            lines.append(f"{name}: not corrected by {labelled}: {missing}; {mean.counts.in_words}")
        waiting = labels_waiting(mean.labels, mean.labelled, mean.next_look)
        if mean.ci95 and waiting:
            lines.append(f"{name}: {waiting}")
        if mean.evidence_use:
            lines.append(f"{name}: {mean.evidence_use.in_words}")
    if labels.agreement:
        pairs = [pair.line for pair in labels.agreement.pairs]
        lines += [line for line in labels.agreement.lines if line not in pairs]
    lines += [f"warning: {warning}" for warning in labels.warnings]
    return lines


def _missing_labels(mean: CorrectedMean) -> str:
    if not mean.needed:
        return mean.remark or "too few labels"
    minutes = numbered(mean.minutes or 0, "minute")
    return f"{numbered(mean.needed, 'more label')} needed, about {minutes}"


def label_lines(labels: RunLabels) -> Iterator[str]:
    """Yield a line on the labels of each mean, then annotators and agreement."""
    for name, mean in labels.corrected.items():
        yield f"{name}: {'; '.join(_mean_parts(mean))}"
    statements = numbered(labels.statements, "statement")
    annotators = numbered(len(labels.annotators), "annotator")
    yield f"{statements} labelled by {annotators}, {labels.last[:10]}"
    if labels.agreement:
        for pair in labels.agreement.pairs:
            yield pair.line


def _mean_parts(mean: CorrectedMean) -> Iterator[str]:
    if mean.ci95:
        yield f"corrected by {mean.in_words}"
    if mean.labels_saved:
        yield f"the judge saves about {numbered(mean.labels_saved, 'label')}"
    if mean.by_annotator:
        yield "annotators disagree, so the interval covers the mean of each"
    if mean.remark:
        yield mean.remark
    elif not mean.labels:
        yield "no labels"
    if mean.next_look:
        yield f"the interval is computed again at {mean.next_look:,} labels"
    if mean.rates_in_words:
        yield mean.rates_in_words


def disagreements_view(verdicts: Sequence[tuple[VerdictRow, LabelledStatement]]) -> Table:
    """Return the labelled verdicts with their labels."""
    rows: list[tuple[str, ...]] = []
    for row, statement in verdicts:
        judged = f"{row.label} {number(row.p_yes)}"
        sample = excerpt(row.sample_id)
        rows.append((sample, row.metric, judged, statement.label_line, row.text))
    if not rows:
        return Table(notes=["no verdict differs from a human label"])
    headings = ("sample", "metric", "judge", "human label", "statement")
    notes = ["the judge's most certain verdicts come first"]
    return Table(headings, rows, notes, names=len(headings))


def disputes_view(run: RunRecord, disputes: Sequence[LabelledStatement]) -> Table:
    """Return the disputed statements with each annotator's answer, and the agreement."""
    labels = read_run_labels(run)
    if labels is None:
        return Table(notes=["no statement has a label"])
    headings: tuple[str, ...] = ()
    if disputes:
        headings = ("sample", "metric", "answers", "settled", "disputed statement")
    rows: list[tuple[str, ...]] = []
    for dispute in disputes:
        sample = excerpt(dispute.sample_id)
        answers = dispute.answers_line
        rows.append((sample, dispute.metric, answers, dispute.label_line, dispute.text))
    notes = ["no statement has labels from several annotators"]
    if labels.agreement:
        notes = list(labels.agreement.lines)
    unsettled = [dispute for dispute in disputes if dispute.adjudicator is None]
    if unsettled:
        settle = call("label", str(run.directory), disputed=True)
        notes.append(f"to settle {numbered(len(unsettled), 'disputed statement')}: {settle}")
    return Table(headings, rows, notes, names=len(headings))


def list_keys(*, has_evidence: bool) -> dict[str, str]:
    """Return what each key does, with the one for evidence if there is evidence to open."""
    keys = dict(_ANSWER_KEYS)
    if has_evidence:
        keys[EVIDENCE_KEY] = "closest sentences"
    return keys | _OTHER_KEYS


def keys_line(keys: Mapping[str, str]) -> str:
    """Return `1 yes, 0 no, ...`."""
    return ", ".join(f"{key} {what}" for key, what in keys.items())


def row_view(
    row: Mapping[str, Any], labelled: int, total: int, keys: Mapping[str, str]
) -> list[Table]:
    """Return a statement to label, below the texts to compare it with, and above the keys."""
    answer: AnswerAround | None = row.get("source_text")
    cells: list[tuple[Text, str | Text]] = []
    for name, text in _texts_to_compare(row, answer):
        heading = name
        for line in filter(str.strip, text.splitlines()):
            cells.append((Text(heading, style="dim"), line))
            heading = ""
    if answer:
        before, statement, after = map(printable_lines, answer[1:])
        if not terminal().color_system:
            statement = f"[[{statement}]]"
        marked = Text.assemble(before, (statement, "bold underline"), after)
        cells.append((Text(answer.field, style="dim"), marked))
    metric = str(row.get("metric"))
    title = f"{labelled:,} of {total:,} answered   {metric}"
    return [
        Table(titles=[title], notes=[str(row.get("asks"))]),
        Table(rows=cells),
        Table(titles=[f"> {row.get('text')}"]),
        Table(notes=[Text(keys_line(keys), style="dim")]),
    ]


def closest_view(sentences: Sequence[ClosestSentence]) -> Table:
    """Return the sentences that come closest to a statement to label."""
    if not sentences:
        return Table(notes=["no sentence comes close to this statement"])
    notes = [sentence.in_words for sentence in sentences]
    return Table(titles=["closest sentences by their words, without the judge"], notes=notes)


def _texts_to_compare(
    row: Mapping[str, Any], answer: AnswerAround | None
) -> Iterator[tuple[str, str]]:
    """Yield the question, the contexts, and the answers except for the one around the statement."""
    texts: dict[str, Any] = {"user_input": row.get("user_input")}
    contexts = row.get("contexts")
    if isinstance(contexts, list):
        for number, text in enumerate(contexts, start=1):
            texts[f"context {name_context(row, number)}"] = text
    for name in ("reference", "response"):
        if not answer or name != answer.field:
            texts[name] = row.get(name)
    for name, text in texts.items():
        if isinstance(text, str):
            yield name, text


def ended_view(labelling: Labelling) -> Table:
    """Return the number of answers, and how to label more."""
    file = labelling.source.directory / LABELS
    title = f"{labelling.labelled:,} of {labelling.total:,} answered, stored in {file}"
    lines: list[str] = []
    if labelling.rows:
        lines.append(f"{len(labelling.rows):,} left: run the same command to resume")
    elif not labelling.disputed:
        command = call("label", str(labelling.source.directory), sample=2 * labelling.total)
        lines.append(f"to draw more: {command}")
    return Table(titles=[title], notes=lines)


def read_view(taken: Mapping[str, LabelsRead]) -> Table:
    """Return the numbers of labels read from each source."""
    lines: list[str] = []
    for source, labels in taken.items():
        kinds = [numbered(labels.new, "new label")]
        counts = {
            "changed": labels.changed,
            "withdrawn": labels.withdrawn,
            "already stored": labels.known,
            "older than the current label": labels.older,
            "undecidable (?)": labels.undecidable,
        }
        for words, count in counts.items():
            if count:
                kinds.append(f"{count:,} {words}")
        if labels.unlabelled:
            kinds.append(f"{numbered(labels.unlabelled, 'row')} without a label")
        lines.append(f"{source}: {', '.join(kinds)}")
        for remark in labels.remarks:
            lines.append(f"warning: {remark}")
    return Table(notes=lines)


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
