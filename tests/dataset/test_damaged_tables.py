"""Tables in files that are damaged: an error that names them, never a crash."""

import subprocess
import sys
from pathlib import Path

import pytest

FILES = Path(__file__).parents[1] / "integrations" / "files"
ARROW = FILES / "datasets-5.0.1" / "saved" / "data-00000-of-00001.arrow"
FEATHER = FILES / "datasets-5.0.1" / "table.feather"


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


@pytest.mark.parametrize("file", [ARROW, FEATHER], ids=["stream", "feather"])
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
