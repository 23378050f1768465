import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.dataset.samples import extras_text
from localjudge.errors import InputError, RunDirectoryError
from localjudge.run.verify import verify_run as verify
from tests.record.conftest import in_store

ROWS: list[dict[str, Any]] = [
    {"id": "a", "contexts": ["It rains."], "ground_truth": "One.", "topic": "x", "meta": {"year": 2026, "tags": ["t"]}},
    {"id": "b", "contexts": ["It rains."], "ground_truth": "Two.", "topic": None, "\x1b[31m": "\u202e=1+1"},
    {"id": "c", "contexts": ["It rains."], "ground_truth": "Three."},
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def engine() -> ScriptedEngine:
    return ScriptedEngine({"Two.": 0.1}, default=0.9)


def judged(out: Path, rows: list[dict[str, Any]] = ROWS, **options: Any) -> Run:
    return evaluate(rows, metrics=["context_recall"], out=out, engine=engine(), **options)


def test_extra_columns_are_kept_and_change_no_result(tmp_path: Path) -> None:
    """Changed columns are stored without asking again."""
    fields = ("id", "contexts", "ground_truth")
    bare = [{name: row[name] for name in fields} for row in ROWS]
    with_columns, without = judged(tmp_path / "1"), judged(tmp_path / "2", bare)
    expected = [(row["id"], {name: value for name, value in row.items() if name not in fields}) for row in ROWS]
    assert list(with_columns.iter_extras()) == expected
    assert (with_columns.summary, with_columns.scores) == (without.summary, without.scores)
    using = engine()
    changed = [{**row, "topic": "z"} for row in ROWS]
    again = evaluate(changed, metrics=["context_recall"], out=tmp_path / "1", engine=using)
    assert [columns["topic"] for _, columns in again.iter_extras()] == ["z", "z", "z"]
    assert using.asked == ()
    assert verify(again, engine=engine()).data_changes == ()


@pytest.mark.parametrize("content", ["[]", "{", '{"a": 1e999}', "[" * 5_000, '{"a": ' * 5_000, '{"a": 1, "a": 2}'])
def test_invalid_stored_columns_are_refused(tmp_path: Path, content: str) -> None:
    run = judged(tmp_path / "run")
    in_store(run.directory, "UPDATE sample SET extras = ?", values=(content,))
    with pytest.raises(RunDirectoryError, match=r"run\.sqlite cannot be read"):
        list(run.iter_extras())


def test_a_rescored_run_keeps_extra_columns(tmp_path: Path) -> None:
    first = judged(tmp_path / "first", [{**row, "topic": row["id"]} for row in ROWS])
    again = first.rescore(out=tmp_path / "again", engine=engine(), cluster_by="topic")
    assert list(again.iter_extras()) == list(first.iter_extras())
    assert again.cluster_of is not None
    assert [again.cluster_of[name] for name in "abc"] == ["a", "b", "c"]


def test_values_outside_json_are_stored_as_text() -> None:
    values: dict[str, Any] = {"nan": math.nan, "inf": -math.inf, "half": "a\ud800", "largest": 2**63 - 1}
    kept = json.loads(extras_text({**values, "bytes": b"x", "large": 2**63, "set": {2, 1}, "path": Path("a/b")}))
    assert "9223372036854775808" in kept.pop("large")
    expected = {"nan": None, "inf": "-inf", "half": "a\\ud800", "largest": 2**63 - 1}
    assert kept == {**expected, "bytes": "b'x'", "set": [1, 2], "path": "a/b"}
    deep: Any = "bottom"
    for _ in range(1_000):
        deep = [deep]
    assert extras_text({"deep": deep}).count("[") < 100


def test_objects_without_a_stable_text_are_not_groups(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", [{**row, "thing": object()} for row in ROWS])
    with pytest.raises(InputError, match="the column thing of the sample a is not a text or a number"):
        run.compare(run, by="thing")


def test_1_and_1_point_0_name_the_same_group(tmp_path: Path) -> None:
    """With gaps, pandas turns 1 into 1.0."""
    rows = [{**row, "doc": doc} for row, doc in zip(ROWS, (1, 1.0, "1"), strict=True)]
    run = judged(tmp_path / "run", rows, cluster_by="doc")
    changes = run.compare(run, by="doc").by
    assert changes
    assert [(part.value, part.samples) for part in changes.slices] == [("1", 3)]
    assert set((run.cluster_of or {}).values()) == {"1"}


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_any_columns_are_stored_as_valid_json(extras: dict[str, Any]) -> None:
    text = extras_text(extras)
    text.encode()
    assert extras_text(json.loads(text, parse_constant=lambda _: pytest.fail("not JSON"))) == text
