"""How many labels were given with the evidence open, and how often the judge agrees with each kind.

    evidence   labels   equal to the verdict
    open         12            11               sentences that lead the eye can also mislead it,
    closed       38            30               so both shares are stated

A label of each annotator counts, and so does one of each adjudicator.
"""

from localjudge.labels.decisions import Decisions
from localjudge.labels.units import UnitFrame
from localjudge.run_directory.label_rows import LabelRow
from localjudge.types import Record
from localjudge.words import numbered


class EvidenceUse(Record):
    """Labels of a metric's statements by whether the evidence was open, and the judge's agreement.

    Of the labels with open evidence, `shown` were made with `--show-evidence`.
    """

    open: int
    open_agreeing: int
    shown: int
    closed: int
    closed_agreeing: int

    @property
    def in_words(self) -> str:
        """`closest sentences open for 12 of 50 labels: the judge agrees with 11 of them ...`."""
        labels = self.open + self.closed
        counted = f"closest sentences open for {self.open:,} of {numbered(labels, 'label')}"
        if self.shown:
            counted += f" (shown at once for {self.shown:,})"
        agreement = f"the judge agrees with {self.open_agreeing:,} of them"
        if self.closed:
            agreement += f", and with {self.closed_agreeing:,} of the other {self.closed:,}"
        return f"{counted}: {agreement}"


def count_evidence_use(frame: UnitFrame, decisions: Decisions) -> EvidenceUse | None:
    """Count the labels of a metric's statements, or return None if none used the evidence."""
    latest: dict[tuple[str, str, bool], LabelRow] = {}
    for row in decisions.rows:
        if row.key in frame.by_key:
            latest[row.key, row.annotator, row.adjudicated] = row
    labels = [row for row in latest.values() if row.human in (0, 1)]
    if not any(row.evidence_seen for row in labels):
        return None
    counts = dict.fromkeys(EvidenceUse.model_fields, 0)
    for row in labels:
        kind = "open" if row.evidence_seen else "closed"
        counts[kind] += 1
        counts["shown"] += row.evidence_seen == "shown"
        judged = frame.judged[frame.by_key[row.key][0]]
        counts[f"{kind}_agreeing"] += bool(judged == row.human)
    return EvidenceUse(**counts)
