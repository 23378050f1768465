import csv
import gzip
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from localjudge import DataError, InputError
from localjudge.dataset import load

ROWS: list[dict[str, Any]] = [
    {
        "id": "1",
        "question": "Where?",
        "contexts": ['Here, "there".\nAnd there', "נכון מאוד"],
        "answer": "Ja 😀",
    },
    {"id": "2", "question": "When?", "contexts": [], "answer": None},
    {"id": "3", "question": "Who?", "contexts": None, "answer": "x" * 200_000},
]


def as_jsonl(rows: list[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def as_csv(rows: list[dict[str, Any]], delimiter: str = ",") -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    for row in rows:
        writer.writerow(
            {
                name: json.dumps(value) if isinstance(value, list) else value
                for name, value in row.items()
            }
        )
    return text.getvalue()


def as_columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def as_numbered_columns(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        name: {str(at): value for at, value in enumerate(cells)}
        for name, cells in as_columns(rows).items()
    }


@pytest.fixture
def expected(tmp_path: Path) -> Any:
    path = tmp_path / "expected.jsonl"
    path.write_text(as_jsonl(ROWS), encoding="utf-8")
    return load(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("lines.jsonl", as_jsonl(ROWS)),
        ("lines.json", as_jsonl(ROWS)),
        ("lines.txt", as_jsonl(ROWS)),
        ("windows.jsonl", as_jsonl(ROWS).replace("\n", "\r\n")),
        ("blank.jsonl", "\n\n" + as_jsonl(ROWS).replace("\n", "\n \n")),
        ("unended.jsonl", as_jsonl(ROWS).rstrip("\n")),
        ("joined.jsonl", "".join("\ufeff" + as_jsonl([row]) for row in ROWS)),
        ("array.json", json.dumps(ROWS)),
        ("array.jsonl", json.dumps(ROWS, indent=2)),
        ("array", json.dumps(ROWS, indent=4, ensure_ascii=False)),
        ("results.json", json.dumps({"version": 2, "results": ROWS}, indent=1)),
        ("results.jsonl", json.dumps({"results": ROWS})),
        ("columns.json", json.dumps(as_columns(ROWS))),
        ("columns-indented.json", json.dumps(as_columns(ROWS), indent=1)),
        ("pandas.json", json.dumps(as_numbered_columns(ROWS))),
        ("table.csv", as_csv(ROWS)),
        ("table.txt", as_csv(ROWS)),
        ("unix.csv", as_csv(ROWS).replace("\r\n", "\n")),
        ("semicolons.csv", as_csv(ROWS, ";")),
        ("tabs.tsv", as_csv(ROWS, "\t")),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_formats_and_encodings_agree(
    tmp_path: Path, expected: Any, name: str, content: str, encoding: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode(encoding))
    data = load(path)
    assert data.samples == expected.samples


@pytest.mark.parametrize(
    ("start", "delimiter"),
    [
        ("\n", ","),
        ("\r\n \r\n", ";"),
        (";;;\n", ";"),
        ("sep=;\r\n", ";"),
        ('"sep=|"\n\n', "|"),
        ("SEP=\t\n", "\t"),
    ],
)
def test_csv_may_begin_with_a_sep_line(
    tmp_path: Path, expected: Any, start: str, delimiter: str
) -> None:
    path = tmp_path / "data.csv"
    content = f"\ufeff{start}{as_csv(ROWS, delimiter)}"
    path.write_text(content, encoding="utf-8", newline="")
    assert load(path).samples == expected.samples
    path.write_text(content + delimiter.join("more cells"), encoding="utf-8", newline="")
    line = 5 + start.count("\n")
    place = f"{path}:{line}"
    if "sep" in start.lower():  # a spreadsheet does not show that line
        place += f", row {line - 1}"
    with pytest.raises(DataError, match=rf"{re.escape(place)}: found a record of 10 cells"):
        load(path)


def test_parquet_keeps_objects_dates_and_numbers(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    from datetime import date
    from decimal import Decimal

    meta = {"day": date(2024, 5, 1), "price": Decimal("0.50")}
    row = {"id": 7, "question": "q", "contexts": [{"text": "a", "meta": meta, "score": 0.5}]}
    parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "table.parquet")
    (sample,) = load(tmp_path / "table.parquet").samples
    assert sample.retrieved_contexts is not None
    assert (sample.id, sample.retrieved_contexts[0].score) == ("7", 0.5)
    assert sample.retrieved_contexts[0].meta == {"day": "2024-05-01", "price": "0.50"}


def test_a_table_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for content in (b"PAR1....PAR1", b"\xff\xff\xff\xff\x10\x00\x00\x00"):
        (tmp_path / "table").write_bytes(content)
        with pytest.raises(InputError, match="pip install pyarrow"):
            load(tmp_path / "table")


def test_gzip_and_standard_input_are_recognised_by_their_content(
    tmp_path: Path, expected: Any
) -> None:
    packed = gzip.compress(as_jsonl(ROWS).encode())
    (tmp_path / "data.jsonl").write_bytes(packed)
    assert load(tmp_path / "data.jsonl").samples == expected.samples
    program = (
        "from localjudge.dataset import load; data = load('-'); "
        "print(data.fingerprint, *data.sources)"
    )
    for content in (packed, as_csv(ROWS).encode("utf-16")):
        done = subprocess.run(
            [sys.executable, "-c", program], input=content, capture_output=True, check=True
        )
        assert done.stdout.decode().split() == [expected.fingerprint, "stdin"]


def test_several_files_are_one_dataset_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "question": "q", "page": 3}\n')
    (tmp_path / "b.csv").write_text("id,user_input\n2,r\n")
    data = load([tmp_path / "b.csv", tmp_path / "a.jsonl"])
    assert [sample.id for sample in data.samples] == ["2", "1"]
    assert data.mapping["id"] == "id"
    assert (
        data.mapping["user_input"]
        == f"user_input ({tmp_path / 'b.csv'}), question ({tmp_path / 'a.jsonl'})"
    )
    assert data.mappings == (
        {"id": "id", "user_input": "user_input"},
        {"id": "id", "user_input": "question"},
    )
    assert data.column("page") == (None, 3)


def test_the_same_file_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"question": "q"}\n')
    (tmp_path / "b.jsonl").symlink_to(tmp_path / "a.jsonl")
    with pytest.raises(InputError, match="is named twice"):
        load([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ({"q": "Why?", "a": [{"text": "Because."}]}, "q, a"),
        ({"results": [{"Q": "Why?", "C": ["Because."]}]}, "results"),
        ({"train": [{"question": "Why?"}], "test": [{"question": "How?"}]}, "train, test"),
    ],
)
def test_an_object_with_unknown_keys_is_refused(
    tmp_path: Path, content: dict[str, Any], found: str
) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps(content))
    with pytest.raises(DataError, match=rf"a\.jsonl: .*\(columns: {found}"):
        load(tmp_path / "a.jsonl")


@pytest.mark.parametrize(
    ("content", "mapping"),
    [
        # Without the mapping, the rows would be read from `passages`.
        (
            {"Q": "Why?", "passages": [{"text": "a"}]},
            {"user_input": "Q", "retrieved_contexts": "passages"},
        ),
        # Columns by row number have equal keys; the parts of a row have different names.
        (
            {"test": {"Q": {"text": "Why?"}}, "response": {"output": "So."}},
            {"user_input": "test.Q.text"},
        ),
        ({"version": 2, "tags": ["x"], "results": [{"Q": "Why?"}]}, {"user_input": "Q"}),
    ],
)
def test_a_mapping_tells_a_row_from_an_object_with_rows(
    tmp_path: Path, content: Any, mapping: dict[str, str]
) -> None:
    (tmp_path / "a.json").write_text(json.dumps(content))
    assert [sample.user_input for sample in load(tmp_path / "a.json", mapping=mapping).samples] == [
        "Why?"
    ]


def test_a_csv_problem_has_the_first_line_of_its_row(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,question\n1,"two\nlines"\n1,again\n')
    with pytest.raises(
        DataError, match=r"a\.csv:4, row 3: id: found the id '1' again \(first at .*a\.csv:2\)"
    ):
        load(tmp_path / "a.csv")


def write_arrow(table: Any, path: Path, kind: str) -> None:
    ipc = pytest.importorskip("pyarrow.ipc")
    with (ipc.new_stream if kind == "stream" else ipc.new_file)(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


@pytest.mark.parametrize("kind", ["stream", "file", "lz4", "zstd", "uncompressed", "snappy"])
@pytest.mark.parametrize("packed", [False, True])
def test_tables_in_files_give_the_same_samples(
    tmp_path: Path, expected: Any, kind: str, packed: bool
) -> None:
    path = tmp_path / "table"
    table = pytest.importorskip("pyarrow").Table.from_pylist(ROWS)
    if kind in {"stream", "file"}:
        write_arrow(table, path, kind)
    elif kind == "snappy":
        pytest.importorskip("pyarrow.parquet").write_table(table, path, compression=kind)
    else:
        pytest.importorskip("pyarrow.feather").write_feather(table, path, compression=kind)
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    assert load(path).fingerprint == expected.fingerprint
