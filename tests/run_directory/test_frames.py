import json
import math
import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge import InputError, Run, RunDirectoryError, ScriptedEngine, evaluate
from localjudge.dataset import load
from tests.run_directory.conftest import in_store

ROWS: list[dict[str, Any]] = [
    {
        "id": "a",
        "user_input": "Q?",
        "retrieved_contexts": ["Rain.", "Sun."],
        "reference": "It rains. It is red.",
    },
    {"id": "b", "user_input": None, "retrieved_contexts": [{"id": "7"}], "reference": None},
    {"id": "c", "user_input": "Q?", "retrieved_contexts": [""], "reference": "It snows."},
]
TEXTS = [
    "sample_id",
    "user_input",
    "retrieved_contexts",
    "reference_contexts",
    "response",
    "reference",
]

COLUMNS = ["context_recall", "context_recall_status", "context_recall_expected"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Recall 1/2, undefined, and 0 (no context has a text)."""
    engine = ScriptedEngine({"It rains.": 0.9}, default=0.1)
    return evaluate(
        ROWS, engine=engine, metrics=["context_recall"], out=tmp_path_factory.mktemp("run")
    )


def test_pandas_has_a_row_for_each_sample_with_texts_and_scores(run: Run) -> None:
    frame = run.to_pandas()
    assert list(frame.columns) == [*TEXTS, *COLUMNS]
    assert list(frame["sample_id"]) == ["a", "b", "c"]
    assert frame["retrieved_contexts"][0] == ["Rain.", "Sun."]
    assert frame["retrieved_contexts"][1] == [{"id": "7"}], "no text is made up"
    assert frame["reference"][1] is None
    assert frame["context_recall"][0] == 0.5
    assert math.isnan(frame["context_recall"][1])
    assert list(frame["context_recall_status"]) == ["scored", "undefined", "scored"]
    assert frame["context_recall"].mean() == run["context_recall"].mean


def test_polars_frame_equals_the_pandas_frame(run: Run) -> None:
    frame = run.to_polars()
    assert frame.columns == [*TEXTS, *COLUMNS]
    assert frame["context_recall"].to_list() == [0.5, None, 0.0]
    assert frame["context_recall_status"].to_list() == ["scored", "undefined", "scored"]
    nothing = {"id": None, "text": None, "score": None, "meta": None}
    contexts = [[{"text": "Rain."}, {"text": "Sun."}], [{"id": "7"}], [{"text": ""}]]
    expected = [[{**nothing, **context} for context in row] for row in contexts]
    assert frame["retrieved_contexts"].to_list() == expected
    assert frame.schema["reference_contexts"] == polars.List(polars.String)
    assert frame.schema["response"] == polars.String


def test_each_verdict_is_a_row(run: Run) -> None:
    frame = run.to_pandas("verdicts")
    assert list(frame["text"]) == ["It rains.", "It is red.", "It snows."]
    assert list(frame["label"]) == [1, 0, 0]
    assert list(frame["p_yes"][:2]) == [0.9, 0.1]
    assert math.isnan(frame["p_yes"][2])
    assert frame.dtypes["label"] == pandas.Int64Dtype()
    assert run.to_polars("verdicts")["p_yes"].to_list() == [0.9, 0.1, None]
    assert run.to_polars("verdicts").schema["window"] == polars.Int64


def test_types_are_the_same_for_a_run_without_verdicts(tmp_path: Path, run: Run) -> None:
    rows = [{"reference": None, "retrieved_contexts": [{"text": "c", "id": "1"}]}]
    empty = evaluate(rows, metrics=["context_recall"], engine=ScriptedEngine({}), out=tmp_path)
    assert empty.to_polars("verdicts").schema == run.to_polars("verdicts").schema
    assert empty.to_polars().schema == run.to_polars().schema
    assert list(empty.to_pandas("verdicts").dtypes) == list(run.to_pandas("verdicts").dtypes)


def test_contexts_that_are_only_texts_are_lists_of_texts(tmp_path: Path) -> None:
    rows = [{"reference": "It rains.", "retrieved_contexts": ["c", "d"]}]
    run = evaluate(
        rows, metrics=["context_recall"], engine=ScriptedEngine({}, default=0.9), out=tmp_path
    )
    assert run.to_polars().schema["retrieved_contexts"] == polars.List(polars.String)
    assert run.to_pandas()["retrieved_contexts"][0] == ["c", "d"]


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_missing_frame_package_is_named(
    run: Run, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        InputError,
        match=rf"package {package} is not installed\n  hint: .*pip install {package}$",
    ):
        getattr(run, f"to_{package}")()


def test_frame_columns_order_and_index_are_restored(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": number, "response": "It rains.", "retrieved_contexts": ["x"], "topic": f"t{number}"}
        for number in (7, 3)
    ]
    rows[1] |= {"faithfulness": 0.25, "tags": ["a"]}
    frame = pandas.DataFrame(rows).set_index("id")
    engine = ScriptedEngine({}, default=0.9)
    run = evaluate(frame, metrics=["faithfulness"], engine=engine, out=tmp_path / "run")
    scored = run.to_pandas()
    assert scored.index.equals(frame.index)
    assert list(scored["topic"]) == ["t7", "t3"]
    assert scored["tags"][3] == ["a"]
    assert (scored["faithfulness"][3], scored["data.faithfulness"][3]) == (1.0, 0.25)
    assert (
        frame.join(scored["faithfulness_status"])["faithfulness_status"].to_list() == ["scored"] * 2
    )
    again = evaluate(scored, metrics=["faithfulness"], engine=engine, out=tmp_path / "again")
    assert [sample.id for sample in again.samples] == ["7", "3"]
    assert Run.open(tmp_path / "again").to_pandas().index.equals(frame.index)
    assert run.to_polars()["topic"].to_list() == ["t7", "t3"]


def test_extra_columns_keep_their_pandas_types(tmp_path: Path) -> None:
    own: dict[str, Any] = {
        "bin": pandas.cut([0, 1, 2], 2),
        "grade": pandas.Categorical(["low", None, "high"], ["low", "high"], ordered=True),
        "when": pandas.to_datetime(["2024-01-01", None, "2024-07-01"]).tz_localize("Europe/Berlin"),
        "month": pandas.period_range("2024-01", periods=3, freq="M"),
        "took": pandas.to_timedelta([1, 2, None], unit="h"),
        "count": pandas.array([1, None, 3], dtype="Int64"),
        "flag": pandas.array([True, None, False], dtype="boolean"),
        "byte": pandas.Series([1, 2, 3], dtype="int8"),
    }

    texts = {"response": ["It rains.", "It rains.", "It snows."], "retrieved_contexts": [["x"]] * 3}
    frame = pandas.DataFrame(texts | own)
    engine = ScriptedEngine({"It rains.": 1}, default=0)
    run = evaluate(frame, metrics=["faithfulness"], engine=engine, out=tmp_path / "run")
    scored = run.to_pandas()
    for name in own:
        pandas.testing.assert_series_equal(scored[name], frame[name])
    assert scored.groupby("bin", observed=True)["faithfulness"].mean().tolist() == [1, 0]
    assert list(Run.open(tmp_path / "run").to_pandas()["month"]) == [
        "2024-01",
        "2024-02",
        "2024-03",
    ]


def test_extra_columns_keep_their_polars_types(tmp_path: Path) -> None:
    own: dict[str, Any] = {
        "when": polars.Series([datetime(2024, 1, 1), None]).dt.replace_time_zone("Europe/Berlin"),
        "day": [date(2024, 1, 1), None],
        "price": [Decimal("1.50"), None],
        "kind": polars.Series(["a", None], dtype=polars.Categorical),
        "byte": polars.Series([1, None], dtype=polars.UInt8),
    }
    frame = polars.DataFrame(
        {"response": ["It rains."] * 2, "retrieved_contexts": [["x"]] * 2, **own}
    )
    run = evaluate(
        frame,
        metrics=["faithfulness"],
        engine=ScriptedEngine({}, default=1),
        out=tmp_path / "run",
    )
    assert run.to_polars().select(*own).equals(frame.select(*own))
    assert run.to_polars().select(*own).schema == frame.select(*own).schema


@pytest.mark.parametrize(
    "index",
    [
        pandas.Index([5, 2]),
        pandas.Index(["x", "y"], name="row"),
        pandas.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["letter", None]),
        pandas.to_datetime(["2024-01-01", "2025-02-02"]),
        pandas.Index([0.5, 0.25], name="response"),
    ],
)
def test_any_index_is_restored(index: Any, tmp_path: Path) -> None:
    frame = pandas.DataFrame(
        {"response": ["It rains.", "So."], "retrieved_contexts": [["x"], ["y"]]}, index=index
    )
    run = evaluate(
        frame,
        metrics=["faithfulness"],
        engine=ScriptedEngine({}, default=0.9),
        out=tmp_path / "run",
    )
    assert run.to_pandas().index.equals(index)
    assert run.to_pandas().index.names == index.names
    assert run.to_pandas().index.dtype == index.dtype
    assert "response" in run.to_pandas().columns


RAIN: list[dict[str, Any]] = [
    {
        "id": "a",
        "contexts": ["It rains."],
        "ground_truth": "One.",
        "topic": "x",
        "meta": {"year": 2026, "tags": ["t"]},
    },
    {
        "id": "b",
        "contexts": ["It rains."],
        "ground_truth": "Two.",
        "topic": None,
        "\x1b[31m": "\u202e=1+1",
    },
    {"id": "c", "contexts": ["It rains."], "ground_truth": "Three."},
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def rain() -> ScriptedEngine:
    return ScriptedEngine({"Two.": 0.1}, default=0.9)


def judged(out: Path, rows: list[dict[str, Any]] = RAIN, **options: Any) -> Run:
    return evaluate(rows, metrics=["context_recall"], out=out, engine=rain(), **options)


def test_extra_columns_are_kept_and_change_no_result(tmp_path: Path) -> None:
    """Changed columns are stored without asking again."""
    fields = ("id", "contexts", "ground_truth")
    bare = [{name: row[name] for name in fields} for row in RAIN]
    with_columns = judged(tmp_path / "1")
    without = judged(tmp_path / "2", bare)
    expected = [
        (row["id"], {name: value for name, value in row.items() if name not in fields})
        for row in RAIN
    ]
    assert list(with_columns.iter_extras()) == expected
    assert (with_columns.summary, with_columns.scores) == (without.summary, without.scores)
    using = rain()
    changed = [{**row, "topic": "z"} for row in RAIN]
    again = evaluate(changed, metrics=["context_recall"], out=tmp_path / "1", engine=using)
    assert [columns["topic"] for _, columns in again.iter_extras()] == ["z", "z", "z"]
    assert using.asked == ()
    assert again.verify(engine=rain()).data_changes == ()


@pytest.mark.parametrize(
    "content", ["[]", "{", '{"a": 1e999}', "[" * 5_000, '{"a": ' * 5_000, '{"a": 1, "a": 2}']
)
def test_invalid_stored_columns_are_refused(tmp_path: Path, content: str) -> None:
    run = judged(tmp_path / "run")
    in_store(run.directory, "UPDATE sample SET extras = ?", values=(content,))
    with pytest.raises(RunDirectoryError, match=r"run\.sqlite cannot be read"):
        list(run.iter_extras())


def test_a_rescored_run_keeps_extra_columns(tmp_path: Path) -> None:
    first = judged(tmp_path / "first", [{**row, "topic": row["id"]} for row in RAIN])
    again = evaluate(reuse=first, out=tmp_path / "again", engine=rain(), cluster_by="topic")
    assert list(again.iter_extras()) == list(first.iter_extras())
    assert again.cluster_of is not None
    assert [again.cluster_of[name] for name in "abc"] == ["a", "b", "c"]


def stored_columns(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a row that are no fields, as they are stored."""
    [stored] = load([{"id": "1", "user_input": "Q?", **columns}]).extras
    return stored


def test_values_outside_json_are_stored_as_text() -> None:
    values: dict[str, Any] = {
        "nan": math.nan,
        "inf": -math.inf,
        "half": "a\ud800",
        "largest": 2**63 - 1,
    }
    others = {"bytes": b"x", "large": 2**63, "set": {2, 1}, "path": Path("a/b")}
    stored = stored_columns({**values, **others})
    assert "9223372036854775808" in stored.pop("large")
    expected = {"nan": None, "inf": "-inf", "half": "a\\ud800", "largest": 2**63 - 1}
    assert stored == {**expected, "bytes": "b'x'", "set": [1, 2], "path": "a/b"}
    deep: Any = "bottom"
    for _ in range(1_000):
        deep = [deep]
    assert json.dumps(stored_columns({"deep": deep})).count("[") < 100


def test_objects_without_a_stable_text_are_not_groups(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", [{**row, "thing": object()} for row in RAIN])
    with pytest.raises(InputError, match="column thing of the sample a "):
        run.compare(run, by="thing")


def test_1_and_1_point_0_name_the_same_group(tmp_path: Path) -> None:
    """With gaps, pandas turns 1 into 1.0."""
    rows = [{**row, "doc": doc} for row, doc in zip(RAIN, (1, 1.0, "1"), strict=True)]
    run = judged(tmp_path / "run", rows, cluster_by="doc")
    changes = run.compare(run, by="doc").by
    assert changes
    assert [(part.value, part.samples) for part in changes.slices] == [("1", 3)]
    assert set((run.cluster_of or {}).values()) == {"1"}


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_any_columns_are_stored_as_valid_json(extras: dict[str, Any]) -> None:
    stored = stored_columns(extras)
    json.dumps(stored, allow_nan=False, ensure_ascii=False).encode()
    assert stored_columns(stored) == stored
