"""Rankings of sentences, on statements whose evidence is known."""

import json
from pathlib import Path

from evidence_accuracy.rankings import by_finder, by_overlap
from evidence_accuracy.rows import LabelledStatement, read_statements

STATEMENT = LabelledStatement(
    "a",
    "the town of Ulm is on the Danube",
    ["It is on the list of the town.", "Ulm: Danube.", "It rains."],
    [False, True, False],
)


def test_overlap_counts_words_and_the_finder_weighs_them() -> None:
    """Of the statement's words, the first sentence has `the`, `town`, `of`, `is`, `on`; the second
    has two, which are rare.
    """
    assert by_overlap([STATEMENT]) == [[0, 1, 2]]
    assert by_finder([STATEMENT])[0][0] == 1


def test_statements_without_evidence_are_left_out(tmp_path: Path) -> None:
    rows = []
    for number, relevant in enumerate(([0, 0], [1, 0], [1, 1])):
        row = {"id": str(number), "dataset": "wice", "question": "Q", "sentences": ["a", "b"]}
        rows.append(json.dumps({**row, "relevant": relevant}))
    (tmp_path / "relevance.dev.jsonl").write_text("\n".join(rows), encoding="utf-8")

    [statement] = read_statements(tmp_path, "wice", 10)

    assert statement == LabelledStatement("1", "Q", ["a", "b"], [True, False])
