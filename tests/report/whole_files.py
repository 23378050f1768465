import tempfile
from pathlib import Path
from typing import Literal

from localjudge import Run

Format = Literal["jsonl", "csv", "parquet"]
Rows = Literal["scores", "verdicts", "samples"]


def exported(run: Run, as_format: Format, rows: Rows = "scores", **added: bool) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "exported"
        return run.export(file, as_format, rows=rows, **added).read_bytes()
