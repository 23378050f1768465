"""Two people on one sheet."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from localjudge import DataError, label_agreement


def sheet(path: Path, labels: Sequence[int | None], **changes: Any) -> Path:
    """One verdict a sample, with these labels."""
    rows = []
    for number, label in enumerate(labels):
        key = {"sample_id": f"s{number}", "metric": "context_recall", "unit": "statement", "source": "reference"}
        rows.append({**key, "index": 0, "text": f"Text {number}.", "human": label, **changes})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_raw_agreement_and_kappa_by_hand(tmp_path: Path) -> None:
    """Twenty verdicts: 8 both 1, 6 both 0, 4 only A, 2 only B.

    Observed 14/20 = .7; A says 1 of 12/20, B of 10/20: expected .6 .5 + .4 .5 = .5; kappa (.7 - .5) / .5 = .4.
    """
    first = sheet(tmp_path / "a.jsonl", [1] * 8 + [0] * 6 + [1] * 4 + [0] * 2)
    second = sheet(tmp_path / "b.jsonl", [1] * 8 + [0] * 6 + [0] * 4 + [1] * 2)
    found = label_agreement(first, second)
    assert found.raw.value == pytest.approx(0.7)
    assert found.kappa is not None
    assert found.kappa.value == pytest.approx(0.4)
    assert found.both == {"1 1": 8, "1 0": 4, "0 1": 2, "0 0": 6}
    assert (found.rows, found.samples, found.only_one) == (20, 20, 0)
    assert [one.sample_id for one in found.disagreements] == [f"s{number}" for number in range(14, 20)]
    for number in (found.raw, found.kappa):
        assert number.ci95 is not None
        assert number.ci95[0] < number.value < number.ci95[1]


def test_only_what_both_labelled_counts(tmp_path: Path) -> None:
    first, second = sheet(tmp_path / "a.jsonl", [1, 0, None, 1]), sheet(tmp_path / "b.jsonl", [1, None, None, 0])
    found = label_agreement(first, second)
    assert (found.rows, found.only_one, found.raw.value) == (2, 1, 0.5)


def test_intervals_are_over_samples(tmp_path: Path) -> None:
    """All verdicts of one sample are one draw: nothing is known of the next."""
    rows = [json.loads(line) for line in sheet(tmp_path / "a.jsonl", [1, 0, 1, 1]).read_text().splitlines()]
    for name in ("a", "b"):
        content = [{**row, "sample_id": "s", "index": number} for number, row in enumerate(rows)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in content))
    found = label_agreement(tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    assert (found.samples, found.raw.value, found.raw.ci95) == (1, 1.0, None)
    assert found.kappa is not None
    assert found.kappa.ci95 is None


def test_kappa_has_no_value_where_all_say_the_same(tmp_path: Path) -> None:
    found = label_agreement(sheet(tmp_path / "a.jsonl", [1] * 12), sheet(tmp_path / "b.jsonl", [1] * 12))
    assert (found.raw.value, found.kappa) == (1.0, None)


def test_sheets_that_are_not_of_one_draw_are_refused(tmp_path: Path) -> None:
    first = sheet(tmp_path / "a.jsonl", [1, 0])
    with pytest.raises(DataError, match="with other texts"):
        label_agreement(first, sheet(tmp_path / "b.jsonl", [1, 0], text="Another."))
    with pytest.raises(DataError, match="no verdict is labelled in both"):
        label_agreement(first, sheet(tmp_path / "c.jsonl", [1, 0], metric="faithfulness"))
    with pytest.raises(DataError, match="no verdict is labelled in both"):
        label_agreement(first, sheet(tmp_path / "d.jsonl", [None, None]))
    (tmp_path / "e.jsonl").write_text('{"context": "a", "statement": "b", "label": 1}\n')
    with pytest.raises(DataError, match="no sheet of verdicts"):
        label_agreement(first, tmp_path / "e.jsonl")
