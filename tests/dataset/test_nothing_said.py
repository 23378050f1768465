import json
from pathlib import Path
from typing import Any

import pytest

from localjudge.dataset import Dataset, load
from localjudge.dataset.rows import NOTHING
from localjudge.run.plan import nothing_lines
from localjudge.types import Sample

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
ROWS = [{"question": f"q{word}", "answer": word} for word in ("NaN", " NULL ", "None", "N/A", "#N/A", "-", "none")]


def from_source(kind: str, rows: list[dict[str, Any]], folder: Path) -> Dataset:
    frame, path = pandas.DataFrame(rows), folder / f"data.{kind}"
    match kind:
        case "csv":
            frame.to_csv(path, index=False)
        case "jsonl":
            path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        case "parquet":
            parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        case "pandas":
            return load(frame)
        case "polars":
            return load(polars.DataFrame(rows))
        case "rows":
            return load(rows)
    return load(path)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "pandas", "polars", "rows"])
def test_a_missing_value_is_counted_by_column_for_any_source(kind: str, tmp_path: Path) -> None:
    data = from_source(kind, ROWS, tmp_path)
    assert [sample.response for sample in data.samples] == [None] * 6 + ["none"]
    assert [*nothing_lines(data)] == ["6 cells of answer say #N/A, -, N/A, NULL, NaN, None: treated as missing"]


def test_all_missing_words_of_pandas_are_known() -> None:
    """So a file and its `read_csv` frame are the same data."""
    from pandas._libs.parsers import STR_NA_VALUES

    assert {word for word in STR_NA_VALUES if word} <= NOTHING


def test_a_missing_element_is_left_out_with_its_id() -> None:
    rows = [{"question": "q", "contexts": ["a", "NaN", {"text": "-"}, "b"], "retrieved_context_ids": [*"wxyz"]}]
    data = load([*rows, {"question": "q", "contexts": ["nan"]}, {"question": "q", "contexts": []}])
    read = [sample.retrieved_contexts for sample in data.samples]
    assert [(context.text, context.id) for context in read[0] or ()] == [("a", "w"), ("b", "z")]
    assert read[1:] == [None, ()]
    assert [*nothing_lines(data)] == ["3 cells of contexts[] say -, NaN, nan: treated as missing"]


def test_a_sample_keeps_missing_words_as_text() -> None:
    assert load([Sample(id="1", response="None")]).samples[0].response == "None"


LISTS = [json.dumps(["a b", "c d"]), "['a b', 'c d']", "['a b' 'c d']", "a b", "[1] A note."]


def test_a_cell_is_read_alike_from_files_frames_and_rows(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"question": LISTS, "contexts": LISTS})
    frame.to_csv(tmp_path / "data.csv", index=False)
    data = load(tmp_path / "data.csv")
    assert [len(sample.retrieved_contexts or ()) for sample in data.samples] == [2, 2, 2, 1, 1]
    read_again = pandas.read_csv(tmp_path / "data.csv")
    assert load(read_again).samples == load(read_again.to_dict("records")).samples == data.samples
