import io
import random
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

FILES = Path(__file__).parents[1] / "integrations" / "files"
ARROW = FILES / "datasets-5.0.1" / "saved" / "data-00000-of-00001.arrow"
FEATHER = FILES / "datasets-5.0.1" / "table.feather"


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
    """Load files with these contents in a subprocess, as Arrow's C++ reader may crash."""
    for number, content in enumerate(contents):
        (folder / f"{number}{ending}").write_bytes(content)
    command = [sys.executable, "-c", LOAD, str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2_000:]


@pytest.mark.parametrize("file", [ARROW, FEATHER], ids=["stream", "feather"])
def test_a_damaged_table_does_not_crash_the_process(tmp_path: Path, file: Path) -> None:
    """300 damaged copies each, a third truncated."""
    pytest.importorskip("pyarrow")
    drawn, copies = random.Random(7), [bytearray(file.read_bytes()) for _ in range(300)]
    for number, content in enumerate(copies):
        if number % 3 == 0:
            del content[drawn.randrange(len(content)) :]
        for _ in range(drawn.randint(1, 8) if content else 0):
            content[drawn.randrange(len(content))] = drawn.randrange(256)
    load_apart(tmp_path, copies, file.suffix)


def test_a_parquet_footer_with_wrong_counts_does_not_crash_the_process(tmp_path: Path) -> None:
    """In each byte of the footer, one bit of a list length or a column's level is flipped."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table, file = pyarrow.Table.from_pylist([{"contexts": ["a", "b"]}, {"contexts": []}]), io.BytesIO()
    parquet.write_table(table.replace_schema_metadata(None), file, store_schema=False)
    whole = file.getvalue()
    footer = range(len(whole) - 8 - int.from_bytes(whole[-8:-4], "little"), len(whole) - 8)
    copies = (whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :] for place in footer)
    load_apart(tmp_path, copies, ".parquet")
