"""One line why a score is what it is."""

from typing import Any

import pytest

from localjudge.record.result_rows import ScoreRow, VerdictRow
from localjudge.report.tables import why
from localjudge.types import Label


def score(metric: str, value: float | None, *fraction: int, **given: Any) -> ScoreRow:
    status = given.get("status", "scored" if value is not None else "undefined")
    numerator, denominator = fraction or (None, None)
    return ScoreRow("a", metric, status, value, numerator, denominator, given.get("detail"))


def verdicts(metric: str, **labels: Label | None) -> list[VerdictRow]:
    return [
        VerdictRow("a", metric, "statement", at, "reference", None, 0, 1, text, 0.5, label, None, None, None)
        for at, (text, label) in enumerate(labels.items())
    ]


@pytest.mark.parametrize(
    ("row", "labels", "line"),
    [
        (score("context_recall", 1.0, 2, 2), {"A": 1, "B": 1}, "2 of 2 attributed"),
        (score("context_recall", 0.5, 1, 2), {"A": 1, "B": 0}, '1 of 2 attributed; not attributed: "B"'),
        (
            score("faithfulness", 0.25, 1, 4),
            {"A": 0, "B": 1, "C": 0, "D": 0},
            '1 of 4 attributed; not attributed: "A" and 2 more',
        ),
        (score("context_relevancy", 0.5, 1, 2), {"A": 0, "B": 1}, '1 of 2 needed; not needed: "A"'),
        (score("context_precision", 0.75), {"A": 1, "B": 0, "C": 1, "D": 1}, "3 of 4 useful, at ranks 1, 3 and 4"),
        (score("context_precision", 1.0), {"A": 1, "B": 0}, "1 of 2 useful, at rank 1"),
        (score("context_precision", 0.0), {"A": 0, "B": 0}, "0 of 2 useful"),
        (
            score("matrix_recall@3", 0.5, 1, 2),
            {"A": 1, "B": 0},
            "1 of 2 sentences of the reference supported by a context",
        ),
        (
            score("recall@2(compare_by=id)", 0.5, 1, 2, detail="so it is"),
            {},
            "1 of 2 ground-truth documents retrieved (so it is)",
        ),
        (score("a package's own", 0.5, 1, 2), {"A": 1, "B": 0}, "1 of 2"),
        (score("context_recall", 0.0, 0, 2, detail="no context"), {}, "0 of 2 attributed (no context)"),
        (score("document_mrr", 0.5), {}, ""),
        (score("document_ndcg", 0.0, detail="nothing retrieved"), {}, "nothing retrieved"),
        (score("context_recall", None, detail="no sentence in the reference"), {}, "no sentence in the reference"),
        (score("context_recall", None, status="failed", detail="it broke"), {"A": 0, "B": None}, "it broke"),
    ],
)
def test_the_line(row: ScoreRow, labels: dict[str, Label | None], line: str) -> None:
    assert why(row, verdicts(row.metric, **labels)) == line
