"""Logs of inspect and Arrow files that are damaged or not what they seem: an error that names them, never a crash."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from localjudge.dataset import load
from localjudge.errors import DataError, InputError

FILES = Path(__file__).parents[1] / "integrations" / "files"
LOG = FILES / "inspect-ai-0.3.285" / "log.eval"
ARROW = FILES / "datasets-5.0.1" / "saved" / "data-00000-of-00001.arrow"
FEATHER = FILES / "datasets-5.0.1" / "table.feather"
SAMPLE: dict[str, Any] = {"id": 1, "epoch": 1, "input": "q", "target": "r", "output": {"completion": "a"}}


def log(path: Path, members: dict[str, str], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_a_log_packed_otherwise_is_read_and_one_that_is_not_finished_too(tmp_path: Path) -> None:
    """An unfinished log has its journal in place of the header."""
    members = {"_journal/start.json": "{}", "samples/1_epoch_1.json": json.dumps(SAMPLE), "summaries.json": "[]"}
    (sample,) = load(log(tmp_path / "a.eval", members)).samples
    assert (sample.id, sample.user_input, sample.reference, sample.response) == ("1", "q", "r", "a")


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"xl/workbook.xml": ""}, "a.eval is a zip archive or an Excel workbook"),
        ({"samples/1_epoch_1.json": "{}"}, "a.eval is a zip archive or an Excel workbook"),
        ({"header.json": "{}"}, "a.eval has no rows"),
        ({"header.json": "{}", "samples/1.json": "{"}, "row 1: found no valid JSON: Expecting property name"),
        ({"header.json": "{}", "samples/1.json": "[" * 100_000}, "row 1: found no valid JSON: values nested too deep"),
        ({"header.json": "{}", "samples/1.json": '{"id": 1, "id": 2}'}, "the key 'id' stands twice"),
        ({"header.json": "{}", "samples/1.json": "[]"}, "row 1: found an empty list, expected an object with columns"),
    ],
)
def test_an_archive_that_is_no_log_or_a_broken_one_is_refused(
    tmp_path: Path, members: dict[str, str], said: str
) -> None:
    with pytest.raises(DataError) as caught:
        load(log(tmp_path / "a.eval", members))
    assert said in str(caught.value)


def test_a_sample_whose_bytes_are_no_text_is_a_problem_of_its_row(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.eval", "w") as archive:
        archive.writestr("header.json", "{}")
        archive.writestr("samples/1.json", b'{"input": "caf\xe9"}')
        archive.writestr("samples/2.json", json.dumps(SAMPLE))
    with pytest.raises(DataError, match="row 1: found the byte 0xE9, which is not UTF-8"):
        load(tmp_path / "a.eval")
    assert len(load(tmp_path / "a.eval", skip_bad_rows=True).samples) == 1


def test_a_member_with_a_password_is_refused(tmp_path: Path) -> None:
    """The flag alone makes the standard library ask for one."""
    path = log(tmp_path / "a.eval", {"header.json": "{}", "samples/1.json": json.dumps(SAMPLE)})
    content = bytearray(path.read_bytes())
    central = content.rindex(b"PK\x01\x02")
    content[central + 8] |= 1
    content[content.index(b"PK\x03\x04", 1) + 6] |= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.eval cannot be unpacked: .*encrypted"):
        load(path)


def test_zstd_without_pyarrow_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"log\.eval is packed with zstd, and pyarrow is not installed"):
        load(LOG)


def test_a_wrong_checksum_is_noticed(tmp_path: Path) -> None:
    """That of the second sample, as the directory of the archive has it."""
    pytest.importorskip("pyarrow")
    content = bytearray(LOG.read_bytes())
    place = content.rindex(b"samples/s2_epoch_1.json") - 46 + 16
    content[place] ^= 1
    (tmp_path / "log.eval").write_bytes(content)
    with pytest.raises(DataError, match=r"cannot be unpacked: the checksum of samples/s2_epoch_1\.json is wrong"):
        load(tmp_path / "log.eval")


BROKEN = """
import random, sys
from pathlib import Path
from localjudge.dataset import load
from localjudge.errors import LocaljudgeError
whole, target = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2])
drawn = random.Random(7)
for number in range(300):
    content = bytearray(whole)
    if number % 3 == 0:
        del content[drawn.randrange(len(content)):]
    for _ in range(drawn.randint(1, 8)):
        if content:
            content[drawn.randrange(len(content))] = drawn.randrange(256)
    target.write_bytes(content)
    try:
        load(target)
    except LocaljudgeError:
        pass
"""


@pytest.mark.parametrize("file", [LOG, ARROW, FEATHER], ids=["log", "stream", "feather"])
def test_bytes_that_changed_are_read_or_refused_and_end_no_process(tmp_path: Path, file: Path) -> None:
    """300 damaged copies each, in a process of their own: Arrow's reader is C++."""
    pytest.importorskip("pyarrow")
    command = [sys.executable, "-c", BROKEN, str(file), str(tmp_path / file.name)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2_000:]


COUNTS = """
import sys
from pathlib import Path
from localjudge.dataset import load
from localjudge.errors import LocaljudgeError
target = Path(sys.argv[1])
whole = target.read_bytes()
footer = int.from_bytes(whole[-8:-4], "little")
for place in range(len(whole) - 8 - footer, len(whole) - 8):
    target.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
    try:
        load(target)
    except LocaljudgeError:
        pass
"""


def test_a_parquet_file_that_counts_wrong_ends_no_process(tmp_path: Path) -> None:
    """In each byte of the footer the bit that makes a list of it one longer or shorter, such as a column's levels."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pyarrow.Table.from_pylist([{"contexts": ["a", "b"]}, {"contexts": []}])
    parquet.write_table(table.replace_schema_metadata(None), tmp_path / "a.parquet", store_schema=False)
    command = [sys.executable, "-c", COUNTS, str(tmp_path / "a.parquet")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2_000:]
