"""Views of the labels of a run: lines below its summary, disputes, and disagreeing verdicts."""

from collections.abc import Iterator, Sequence

from localjudge.labels.corrected_mean import CorrectedMean
from localjudge.labels.labelled_statements import LabelledStatement
from localjudge.labels.run_labels import RunLabels, read_run_labels
from localjudge.report.terminal import Table, number
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.result_rows import VerdictRow
from localjudge.run_directory.run_record import RunRecord
from localjudge.words import call, numbered


def label_remarks(labels: RunLabels, metric: str | None = None) -> list[str]:
    """Return why means are not corrected by their labels, the agreement, and warnings."""
    lines: list[str] = []
    for name, mean in labels.corrected.items():
        if metric in (None, name) and mean.ci95 is None and mean.counts:
            labelled = numbered(mean.counts.labelled, "label")
            missing = _missing_labels(mean)
            lines.append(f"{name}: not corrected by {labelled}: {missing}; {mean.counts.in_words}")
        if metric in (None, name) and mean.ci95 and mean.until_next_look:
            more = numbered(mean.until_next_look, "more label")
            lines.append(
                f"{name}: {mean.in_words} count; the interval is computed again at planned numbers "
                f"only: {more} to reach {mean.next_look:,}"
            )
        if metric in (None, name) and mean.evidence_use:
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


def label_lines(labels: RunLabels, metric: str | None = None) -> Iterator[str]:
    """Yield a line on the labels of each mean, then annotators and agreement."""
    for name, mean in labels.corrected.items():
        if metric in (None, name):
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
        settle = call("label", str(run.directory), "disputed", True)
        notes.append(f"to settle {numbered(len(unsettled), 'disputed statement')}: {settle}")
    return Table(headings, rows, notes, names=len(headings))
