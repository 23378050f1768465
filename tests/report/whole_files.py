from localjudge.report.export import Format, exported_parts
from localjudge.report.flat_table import Rows
from localjudge.run_directory.run_record import RunRecord


def exported(run: RunRecord, as_format: Format, rows: Rows = "scores", **added: bool) -> bytes:
    return b"".join(exported_parts(run, as_format, rows, **added))
