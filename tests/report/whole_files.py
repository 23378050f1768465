import tempfile
from pathlib import Path

from localjudge import Run
from localjudge.report.export import Format
from localjudge.report.flat_table import Rows


def exported(run: Run, as_format: Format, rows: Rows = "scores", **added: bool) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "exported"
        return run.export(file, as_format, rows=rows, **added).read_bytes()
