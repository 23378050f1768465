"""Labelling in the terminal, and views of labels: summary, disputes, disagreeing verdicts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from localjudge.labels.corrected_mean import CorrectedMean, labels_waiting
from localjudge.labels.label_source import AnswerAround, ClosestSentence, name_context
from localjudge.labels.labelling import Labelling
from localjudge.labels.read_labels import LabelsRead
from localjudge.labels.run_labels import LabelledStatement, RunLabels, read_run_labels
from localjudge.report.terminal import Table, number, terminal
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.label_rows import LABELS
from localjudge.run_directory.result_rows import VerdictRow
from localjudge.run_directory.run_record import RunRecord
from localjudge.words import call, numbered, printable_lines

EVIDENCE_KEY = "e"
_ANSWER_KEYS = {"1": "yes", "0": "no", "?": "cannot tell"}
_OTHER_KEYS = {"s": "skip", "u": "undo", "q": "quit"}


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
