import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localjudge.dataset import load, sources
from localjudge.errors import DataError

pyarrow = pytest.importorskip("pyarrow")
ipc, parquet = pytest.importorskip("pyarrow.ipc"), pytest.importorskip("pyarrow.parquet")
LARGE = "large " * 20_000


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limits, so that a megabyte is large."""
    monkeypatch.setattr(sources, "ALWAYS_UNPACKED", 2**20)


def test_oversized_compressed_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"question": "q"}\n' * 200_000))
    with pytest.raises(DataError, match=r"a.jsonl.gz unpacks to more than 200 times its size"):
        load(tmp_path / "a.jsonl.gz")


def test_an_oversized_compressed_line_is_refused(tmp_path: Path) -> None:
    import random

    noise = random.Random(1).randbytes(2**20).hex().encode()
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"question": "%s"}\n' % noise))
    with pytest.raises(DataError, match=r"a.jsonl.gz is packed and has a line of more than 1,048,576 bytes"):
        load(tmp_path / "a.jsonl.gz")


@pytest.mark.parametrize("form", ["dictionary", "views", "run ends", "pages", "nulls"])
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_table_that_repeats_a_large_value_is_refused(tmp_path: Path, form: str, ending: str) -> None:
    if ending == "parquet" and form in {"views", "run ends"}:
        pytest.skip("no type of Parquet")
    columns: dict[str, Callable[[], Any]] = {
        "dictionary": lambda: pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 1_000), [LARGE]),
        "views": views,
        "run ends": lambda: pyarrow.RunEndEncodedArray.from_arrays(pyarrow.array([1_000], pyarrow.int32()), [LARGE]),
        "pages": lambda: pyarrow.array([LARGE] * 20),
        "nulls": lambda: pyarrow.nulls(100_000),
    }
    table = pyarrow.table({"question": columns[form]()})
    path = tmp_path / f"a.{ending}"
    if ending == "parquet":
        parquet.write_table(table, path, compression="zstd", use_dictionary=form != "pages")
    else:
        with ipc.new_file(path, table.schema, options=ipc.IpcWriteOptions(compression="zstd")) as file:
            file.write_table(table)
    with pytest.raises(DataError, match=rf"a.{ending} unpacks to more than 200 times its size"):
        load(path)


def views() -> object:
    buffers = pyarrow.array([LARGE], pyarrow.string_view()).buffers()
    view = pyarrow.py_buffer(buffers[1].to_pybytes()[:16] * 1_000)
    return pyarrow.Array.from_buffers(pyarrow.string_view(), 1_000, [None, view, *buffers[2:]])
