"""`localjudge export`: a run's results in another format."""

import json
import sys
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from localjudge.cli.option_groups import GroupedCommand
from localjudge.errors import UsageError

if TYPE_CHECKING:
    from localjudge.report.export import Format, Rows


@click.command("export", cls=GroupedCommand, example="localjudge export runs/data-3f9a1c2e --as csv --out scores.csv")
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--as",
    "as_format",
    type=click.Choice(
        ["ragas", "ragas-csv", "ragas-parquet", "ragas-classifications", "inspect", "jsonl", "csv", "parquet"]
    ),
    required=True,
    help="The format.",
)
@click.option(
    "--rows",
    type=click.Choice(["scores", "verdicts", "samples"]),
    default="scores",
    show_default=True,
    help="One row per sample and metric, per judged unit, or per sample (for jsonl, csv, parquet).",
)
@click.option(
    "--with-texts", "texts", is_flag=True, help="Beside each row the texts of its sample (jsonl, csv, parquet)."
)
@click.option("--with-columns", "columns", is_flag=True, help="Beside each row the other columns of your data.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Default: standard output.")
@click.option("--json", "as_json", is_flag=True, help="With --out: print what was written as JSON.")
def command(directory: Path, as_format: "Format", rows: "Rows", out: Path | None, as_json: bool, **added: bool) -> None:
    """Write a run's results for another program.

    ragas, ragas-csv, ragas-parquet: a row per sample, its texts and a column for each metric, as ragas has them
    (ragas is JSON lines).

    ragas-classifications: statements with their verdicts, as ragas's judge answers about context recall.

    inspect: scores for a log of inspect, for its precomputed_scores("FILE.jsonl").

    jsonl, csv, parquet: the rows that --rows names; the CSV is safe in spreadsheets.
    """
    from localjudge.record.results import Run
    from localjudge.report.export import exported_parts
    from localjudge.report.rows_with_data import Added

    encoding = as_format.rpartition("-")[2]
    if as_json and out is None and encoding in {"csv", "parquet"}:
        raise UsageError(f"{as_format} is not JSON", hint="name a file with --out: --json then says what was written")
    if encoding == "parquet" and out is None and sys.stdout.isatty():
        raise UsageError("Parquet is binary and cannot be shown on a terminal", hint="name a file with --out")
    parts = exported_parts(Run.open(directory), as_format, rows, Added(**added))
    first = next(parts, b"")  # before the file is opened: a run that cannot be read must not empty it
    written = _write(chain([first], parts), out)
    if as_json and out is not None:
        click.echo(json.dumps({"file": str(out), "format": as_format, "bytes": written}))


def _write(parts: Iterable[bytes], out: Path | None) -> int:
    """Write all parts to the file, or to standard output; how many bytes these were."""
    if out is None:
        return sum(map(sys.stdout.buffer.write, parts))
    try:
        with out.open("wb") as file:
            return sum(map(file.write, parts))
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}", hint="name another file with --out") from error
