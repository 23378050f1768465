from localjudge.record.run import Run
from localjudge.report.export import Format, Rows, exported_parts


def exported(run: Run, as_format: Format, rows: Rows = "scores", **added: bool) -> bytes:
    return b"".join(exported_parts(run, as_format, rows, **added))
