"""Views of the labelled statements of a run."""

from collections.abc import Sequence

from localjudge.labels.labelled_statements import LabelledStatement, LabelledVerdict
from localjudge.labels.run_labels import labels_of
from localjudge.report.terminal import Table, number
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.run_record import RunRecord
from localjudge.words import call, numbered


def disagreements_view(verdicts: Sequence[LabelledVerdict]) -> Table:
    rows = [
        (
            excerpt(row.sample_id),
            row.metric,
            f"{row.label} {number(row.p_yes)}",
            statement.label_line,
            row.text,
        )
        for row, statement, _ in verdicts
        if statement
    ]
    if not rows:
        return Table(notes=["no verdict differs from a human label"])
    headings = ("sample", "metric", "judge", "human label", "statement")
    return Table(
        headings, rows, ["the judge's most certain verdicts come first"], names=len(headings)
    )


def disputes_view(run: RunRecord, disputes: Sequence[LabelledStatement]) -> Table:
    """Return the disputed statements with each annotator's answer, and the agreement."""
    if (labels := labels_of(run)) is None:
        return Table(notes=["no statement has a label"])
    rows = [
        (
            excerpt(dispute.sample_id),
            dispute.metric,
            dispute.answers_line,
            dispute.label_line,
            dispute.text,
        )
        for dispute in disputes
    ]
    headings = ("sample", "metric", "answers", "settled", "disputed statement") if rows else ()
    notes = (
        labels.agreement.lines
        if labels.agreement
        else ["no statement has labels from several annotators"]
    )
    if unsettled := sum(dispute.adjudicator is None for dispute in disputes):
        settle = call("label", str(run.directory), "disputed", True)
        notes = [*notes, f"to settle {numbered(unsettled, 'disputed statement')}: {settle}"]
    return Table(headings, rows, notes, names=len(headings))
