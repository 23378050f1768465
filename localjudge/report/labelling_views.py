"""Labelling in the terminal, and the labels read from files."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from localjudge.labels.closest_sentences import ClosestSentence
from localjudge.labels.label_sheet import name_context
from localjudge.labels.labelling import Labelling
from localjudge.labels.read_labels import LabelsRead
from localjudge.labels.shown_texts import AnswerAround
from localjudge.report.terminal import Table, terminal
from localjudge.run_directory.label_rows import LABELS
from localjudge.words import call, numbered, printable_lines

EVIDENCE_KEY = "e"
_ANSWER_KEYS = {"1": "yes", "0": "no", "?": "cannot tell"}
_OTHER_KEYS = {"s": "skip", "u": "undo", "q": "quit"}


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
        cells += _field_cells(name, text)
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
) -> Iterator[tuple[str, Any]]:
    """Yield the question, the contexts, and the answers except for the one around the statement."""
    yield "user_input", row.get("user_input")
    contexts = row.get("contexts")
    if isinstance(contexts, list):
        for number, text in enumerate(contexts, start=1):
            yield f"context {name_context(row, number)}", text
    for name in ("reference", "response"):
        if not answer or name != answer.field:
            yield name, row.get(name)


def _field_cells(name: str, text: Any) -> Iterator[tuple[Text, str]]:
    """Yield the lines of a text without blank ones, the first with its name."""
    if not isinstance(text, str):
        return
    heading = name
    for line in text.splitlines():
        if line.strip():
            yield Text(heading, style="dim"), line
            heading = ""


def ended_view(labelling: Labelling) -> Table:
    """Return the number of answers, and how to label more."""
    file = labelling.source.directory / LABELS
    title = f"{labelling.labelled:,} of {labelling.total:,} answered, stored in {file}"
    lines: list[str] = []
    if labelling.rows:
        lines.append(f"{len(labelling.rows):,} left: run the same command to resume")
    elif not labelling.disputed:
        command = call("label", str(labelling.source.directory), "sample", 2 * labelling.total)
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
