"""Views of the labelled statements of a run."""

from collections.abc import Collection

from localjudge.analysis.labelled_statements import disputed_statements
from localjudge.analysis.labels import labels_of
from localjudge.record.directory import excerpt
from localjudge.record.run import Run
from localjudge.report.terminal import Table
from localjudge.words import call, numbered


def disputes_view(run: Run, metrics: Collection[str]) -> Table:
    """Return the disputed statements with each annotator's answer, and the agreement."""
    labels, disputes = labels_of(run), disputed_statements(run, metrics)
    if labels is None:
        return Table(notes=["no statement has a label"])
    rows = [
        (excerpt(dispute.sample_id), dispute.metric, dispute.answers_line, dispute.settled_line, dispute.text)
        for dispute in disputes
    ]
    headings = ("sample", "metric", "answers", "settled", "disputed statement") if rows else ()
    notes = labels.agreement.lines if labels.agreement else ["no statement has labels from several annotators"]
    if unsettled := sum(dispute.adjudicator is None for dispute in disputes):
        settle = call("label", str(run.directory), "disputed", True)
        notes = [*notes, f"to settle {numbered(unsettled, 'disputed statement')}: {settle}"]
    return Table(headings, rows, notes, names=len(headings))
