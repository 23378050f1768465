import tracemalloc
from pathlib import Path

import pytest

from localjudge.analysis.label_sheet import read_sheet
from localjudge.dataset import formats, load
from localjudge.errors import DataError

GIB = 1 << 30


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json"])
@pytest.mark.parametrize("start", ["", '{"question": "q"}\n' * 5_000], ids=["empty", "begun"])
@pytest.mark.parametrize("read", [load, read_sheet])
def test_a_sparse_file_is_refused_before_it_fills_the_memory(
    tmp_path: Path, name: str, start: str, read: object
) -> None:
    """A sparse file of 1 GiB would take 5.3 GB as CSV and 2.2 GB as JSONL."""
    path = tmp_path / name
    with path.open("w") as file:
        file.write(start)
        file.truncate(GIB)
    tracemalloc.start()
    try:
        with pytest.raises(
            DataError, match=r"NUL bytes in place of text|is not text: 65,536 of its first 65,536 bytes"
        ):
            read(str(path))  # type: ignore[operator]
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "text",
    ["x" * 2**21, "," * 2**21, 'question,answer\n"' + "x\n" * 2**20, "question,answer\n" + "x," * 2**20],
    ids=["header", "columns", "open quote", "cells"],
)
def test_a_record_without_an_end_is_refused(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unclosed quote or a missing line end makes the file one record."""
    monkeypatch.setattr(formats, "ALWAYS_UNPACKED", 2**20)
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=r"a\.csv has a header or a row that is too large") as caught:
        load(str(path))
    assert "is every quote closed" in str(caught.value.hint)
