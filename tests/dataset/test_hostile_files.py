import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import socket
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from localjudge import DataError, InputError, LocaljudgeError
from localjudge.dataset import load
from localjudge.progress import Progress

ROW = b'{"question": "q"}\n'


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("xl/workbook.xml", "")
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", b"", "a.jsonl has no rows"),
        ("a.json", b"[]", "a.json has no rows"),
        ("a.json", b'{"results": []}', "a.json has no rows"),
        ("a.csv", b"question,contexts\n", "a.csv has no rows"),
        ("a.jsonl.gz", gzip.compress(b"", mtime=0), "a.jsonl.gz has no rows"),
        (
            "a.json",
            b'[{"question": "q"}\n{"question": "r"}]',
            "a.json:2 is not valid JSON: Expecting ',' delimiter",
        ),
        ("a.json", b'[{"question": "q"}]\n[]', "a.json:2 is not valid JSON: Extra data"),
        ("a.json", b"[" * 100_000, "a.json is not valid JSON: values"),
        ("a.json", b'{\n"question": "q"', "a.json:2 is not valid JSON: Expecting ',' delimiter"),
        (
            "a.json",
            b'[\n\n{"question": "caf\xe9 \xc3\xa9"}]',
            "a.json, row 1: question: found the byte 0xE9",
        ),
        (
            "a.json",
            b'{"question": ["a"],\n "answer": ["a", "b"]}',
            "different lengths (question: 1, answer: 2)",
        ),
        (
            "a.jsonl",
            b'{"question": ' * 100_000,
            "a.jsonl:1: found invalid JSON: values",
        ),
        (
            "a.jsonl",
            b'{"question": ' + b"9" * 5000 + b"}",
            "a.jsonl:1: found invalid JSON: Exceeds the limit",
        ),
        (
            "a.jsonl",
            bytes(range(256)) * 9,
            "a.jsonl is not text: 261 of its first 2,304 bytes are control characters",
        ),
        ("a.jsonl", b"true\n7\n", "a.jsonl:2: found a number (7)"),
        ("a.jsonl", ROW + b"\x00", "a.jsonl:2: found invalid JSON: Expecting value"),
        (
            "a.jsonl",
            b'{"question": "a", "question": "b"}',
            "key 'question' appears twice",
        ),
        (
            "a.jsonl",
            b'{"question": "a\x00b"}',
            "a.jsonl:1: found invalid JSON: Invalid control character",
        ),
        (
            "a.jsonl",
            b'{"question": "\\ud83d"}',
            "surrogate pair (U+D83D, at position 0)",
        ),
        (
            "a.jsonl",
            ROW.decode().encode("utf-16-le"),
            "a.jsonl is not text: 18 of its first 36 bytes are control",
        ),
        (
            "a.jsonl",
            b"\xff\xfe" + b'{"question"',
            "a.jsonl is marked as utf-16-le",
        ),
        ("a.csv", b"question,question\na,b\n", "two columns question"),
        ("a.csv", b"question,answer\na,b,c\n", "a.csv:2: found a record of 3 "),
        ("a.csv", b"question\na,b\n", "a.csv:2: found a record of 2 "),
        ("a.csv", b'question\n"a\nb\n', "a.csv:2 is not valid CSV: unexpected end"),
        ("a.csv", b'question\n"a" b\n', "a.csv:2 is not valid CSV: ',' expected after '\"'"),
        (
            "a.csv",
            b"question\ncaf\xe9 \xc3\xa9\n",
            "a.csv:2: question: found the byte 0xE9, which is not UTF-8",
        ),
        (
            "a.jsonl.gz",
            gzip.compress(ROW * 99, mtime=0)[:-9],
            "a.jsonl.gz cannot be unpacked: Compressed",
        ),
        (
            "a.jsonl.gz",
            gzip.compress(ROW, mtime=0)[:-8] + b"\0" * 8,
            "a.jsonl.gz cannot be unpacked: CRC",
        ),
        (
            "a.jsonl.gz",
            gzip.compress(ROW, mtime=0) + b"junk",
            "a.jsonl.gz cannot be unpacked: Not",
        ),
        (
            "a.jsonl.gz",
            b"\x1f\x8b\x08\x00",
            "a.jsonl.gz cannot be unpacked: Compressed",
        ),
        ("a.parquet", b"PAR1", "as a Parquet file"),
        ("a.parquet", b"PAR1" + b"\xff" * 50 + b"PAR1", "as a Parquet file"),
        ("a.xlsx", zipped(), "a zip archive"),
        ("a.jsonl.bz2", bz2.compress(ROW), "packed with bzip2"),
        ("a.jsonl.xz", lzma.compress(ROW), "packed with xz"),
        ("a.pkl", pickle.dumps([{"question": "q" * 99}]), "Python pickle"),
    ],
)
def test_a_broken_file_is_refused_with_the_reason(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LocaljudgeError) as caught:
        load(tmp_path / name)
    assert name in str(caught.value)
    assert said in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("cells", "said"), [(["a", "b"], "two columns question"), ([b"caf\xe9"], "is not UTF-8")]
)
def test_a_table_with_impossible_values_is_refused(
    tmp_path: Path, cells: list[Any], said: str
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    arrays = [pyarrow.array([cell], pyarrow.binary()).view(pyarrow.string()) for cell in cells]
    parquet.write_table(
        pyarrow.table(arrays, names=["question"] * len(cells)), tmp_path / "a.parquet"
    )
    with pytest.raises(DataError, match=rf"a\.parquet .*{said}"):
        load(tmp_path / "a.parquet")


def test_line_separators_of_unicode_do_not_end_a_line(tmp_path: Path) -> None:
    text = "one\u2028two\u2029three\x85four\x0bfive"
    (tmp_path / "a.jsonl").write_text(json.dumps({"question": text}, ensure_ascii=False))
    (tmp_path / "a.csv").write_text(f"question\n{text}\n", encoding="utf-8")
    assert load(tmp_path / "a.jsonl").samples == load(tmp_path / "a.csv").samples


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no /dev/zero")
def test_a_device_and_a_socket_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        for name in ("s", "/dev/zero"):
            with pytest.raises(DataError, match=f"{name} .*not a file"):
                load(name)


@pytest.mark.parametrize("name", ["missing.jsonl", "a\0b", "x" * 5000, ""])
def test_a_path_without_a_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError):
        load(name)


class Changing(Progress):
    """Change a file when the first thousand rows have been read."""

    def __init__(self, path: Path, change: str) -> None:
        self._path = path
        self._change = change

    def rows(self, doing: str, done: int, total: int | None) -> None:
        """Change the file."""
        size = self._path.stat().st_size
        with self._path.open("r+b") as file:
            if self._change == "append":
                file.seek(0, os.SEEK_END)
                file.write(b"\n")
            elif self._change == "truncate":
                file.truncate(size // 2)
            else:
                file.write(self._path.read_bytes())
        os.utime(self._path, ns=(1, 1))


@pytest.mark.parametrize("change", ["append", "truncate", "rewrite"])
@pytest.mark.parametrize("ending", ["jsonl", "json", "csv", "parquet"])
def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, ending: str, change: str
) -> None:
    path = tmp_path / f"a.{ending}"
    if ending == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table({"question": ["q"] * 10_000}), path)
    else:
        csv = b"question\n" + b"q\n" * 50_000
        array = b"[" + b",".join([ROW] * 10_000) + b"]"
        path.write_bytes({"jsonl": ROW * 10_000, "json": array, "csv": csv}[ending])
    with pytest.raises(DataError, match=r"changed while|not valid JSON|cannot be read"):
        load(path, progress=Changing(path, change))


def test_closed_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match="no standard input"):
        load("-")
