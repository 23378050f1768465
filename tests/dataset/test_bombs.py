"""Compressed, sparse and damaged files neither fill the memory nor end the process."""

import gzip
import io
import random
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from localjudge import DataError
from localjudge.dataset import csv_file, formats, load, sources
from localjudge.labels.label_sheet import read_sheet

pyarrow = pytest.importorskip("pyarrow")
ipc = pytest.importorskip("pyarrow.ipc")
parquet = pytest.importorskip("pyarrow.parquet")
LARGE = "large " * 20_000
TABLES = Path(__file__).parents[1] / "integrations" / "files" / "datasets-5.0.1"


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "ALWAYS_UNPACKED", 2**20)
    monkeypatch.setattr(formats, "ALWAYS_UNPACKED", 2**20)
    monkeypatch.setattr(csv_file, "ALWAYS_UNPACKED", 2**20)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{"question": "q"}\n' * 200_000, "unpacks to more than 200 times its size"),
        (
            b'{"question": "%s"}\n' % random.Random(1).randbytes(2**20).hex().encode(),
            "has a line of more than",
        ),
    ],
    ids=["rows", "a line"],
)
def test_oversized_compressed_data_are_refused(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(content))
    with pytest.raises(DataError, match=problem):
        load(tmp_path / "a.jsonl.gz")


@pytest.mark.parametrize("form", ["dictionary", "views", "run ends", "pages", "nulls"])
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_table_that_repeats_a_large_value_is_refused(
    tmp_path: Path, form: str, ending: str
) -> None:
    if ending == "parquet" and form in {"views", "run ends"}:
        pytest.skip("no type of Parquet")
    columns: dict[str, Callable[[], Any]] = {
        "dictionary": lambda: pyarrow.DictionaryArray.from_arrays(
            pyarrow.array([0] * 1_000), [LARGE]
        ),
        "views": views,
        "run ends": lambda: pyarrow.RunEndEncodedArray.from_arrays(
            pyarrow.array([1_000], pyarrow.int32()), [LARGE]
        ),
        "pages": lambda: pyarrow.array([LARGE] * 20),
        "nulls": lambda: pyarrow.nulls(100_000),
    }
    table = pyarrow.table({"question": columns[form]()})
    path = tmp_path / f"a.{ending}"
    if ending == "parquet":
        parquet.write_table(table, path, compression="zstd", use_dictionary=form != "pages")
    else:
        with ipc.new_file(
            path, table.schema, options=ipc.IpcWriteOptions(compression="zstd")
        ) as file:
            file.write_table(table)
    with pytest.raises(DataError, match=rf"a.{ending} unpacks to more than 200 times its size"):
        load(path)


def views() -> object:
    buffers = pyarrow.array([LARGE], pyarrow.string_view()).buffers()
    view = pyarrow.py_buffer(buffers[1].to_pybytes()[:16] * 1_000)
    return pyarrow.Array.from_buffers(pyarrow.string_view(), 1_000, [None, view, *buffers[2:]])


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json"])
@pytest.mark.parametrize("start", ["", '{"question": "q"}\n' * 5_000], ids=["empty", "begun"])
@pytest.mark.parametrize("read", [load, read_sheet])
def test_a_sparse_file_is_refused_in_little_memory(
    tmp_path: Path, name: str, start: str, read: Any
) -> None:
    """A sparse file of 1 GiB would take 5.3 GB as CSV and 2.2 GB as JSONL."""
    path = tmp_path / name
    with path.open("w") as file:
        file.write(start)
        file.truncate(1 << 30)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"NUL bytes|is not text: 65,536 of its first"):
            read(str(path))
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "text",
    [
        "x" * 2**21,
        "," * 2**21,
        'question,answer\n"' + "x\n" * 2**20,
        "question,answer\n" + "x," * 2**20,
    ],
    ids=["header", "columns", "open quote", "cells"],
)
def test_a_record_without_an_end_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=r"a\.csv .*too large") as caught:
        load(str(path))
    assert "every quote is closed" in str(caught.value.hint)


LOAD = """
import sys
from pathlib import Path
from localjudge.dataset import load
from localjudge.errors import LocaljudgeError
for path in Path(sys.argv[1]).iterdir():
    try:
        load(path)
    except LocaljudgeError:
        pass
"""


def load_apart(folder: Path, contents: Iterable[bytes | bytearray], ending: str) -> None:
    for number, content in enumerate(contents):
        (folder / f"{number}{ending}").write_bytes(content)
    command = [sys.executable, "-c", LOAD, str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2_000:]


@pytest.mark.parametrize("name", ["saved/data-00000-of-00001.arrow", "table.feather"])
def test_a_damaged_table_does_not_crash_the_process(tmp_path: Path, name: str) -> None:
    """300 damaged copies each, a third truncated."""
    drawn = random.Random(7)
    copies = [bytearray((TABLES / name).read_bytes()) for _ in range(300)]
    for number, content in enumerate(copies):
        if number % 3 == 0:
            del content[drawn.randrange(len(content)) :]
        for _ in range(drawn.randint(1, 8) if content else 0):
            content[drawn.randrange(len(content))] = drawn.randrange(256)
    load_apart(tmp_path, copies, Path(name).suffix)


def test_a_parquet_footer_with_wrong_counts_does_not_crash_the_process(tmp_path: Path) -> None:
    """In each byte of the footer, one bit of a list length or a column's level is flipped."""
    table = pyarrow.Table.from_pylist([{"contexts": ["a", "b"]}, {"contexts": []}])
    file = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata(None), file, store_schema=False)
    whole = file.getvalue()
    footer = range(len(whole) - 8 - int.from_bytes(whole[-8:-4], "little"), len(whole) - 8)
    copies = (whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :] for place in footer)
    load_apart(tmp_path, copies, ".parquet")
