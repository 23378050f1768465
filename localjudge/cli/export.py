"""`localjudge export`: a run's results in another format."""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
@click.option("--redacted", is_flag=True, help="In place of --as: numbers, ids and hashes, and no text.")
@click.option("--salt", metavar="FILE|TEXT", help="With --redacted: hashes with this salt in place of the ids.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Default: standard output.")
@click.option("--json", "as_json", is_flag=True, help="With --out: print what was written as JSON.")
def command(directory: Path, as_format: "Format | None", out: Path | None, as_json: bool, **options: Any) -> None:
    """Write a run's results for another program.

    ragas, ragas-csv, ragas-parquet: a row per sample, its texts and a column for each metric, as ragas has them
    (ragas is JSON lines).

    ragas-classifications: statements with their verdicts, as ragas's judge answers about context recall.

    inspect: scores for a log of inspect, for its precomputed_scores("FILE.jsonl").

    jsonl, csv, parquet: the rows that --rows names; the CSV is safe in spreadsheets.

    --redacted: scores, verdicts and where they stand, intervals and hashes, as JSON lines without any text. Beside
    FILE stands FILE.sha256, for sha256sum -c and to be signed; localjudge verify RUN --redacted FILE proves that it is
    this run.
    """
    redacted, salt = options.pop("redacted"), options.pop("salt")
    if redacted:
        if as_format or options.pop("rows") != "scores" or any(options.values()):
            raise UsageError("a redacted run has one format, without texts and columns", hint="leave the others out")
        _write_redacted(directory, salt, out, as_json)
        return
    if salt is not None:
        raise UsageError("--salt is for --redacted", hint="add --redacted, or leave out --salt")
    if as_format is None:
        raise UsageError("no format was named", hint="name one with --as, or give --redacted")
    _write_as(directory, as_format, out, as_json, **options)


def _write_as(
    directory: Path, as_format: "Format", out: Path | None, as_json: bool, *, rows: "Rows", **added: bool
) -> None:
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


def _write_redacted(directory: Path, salt: str | None, out: Path | None, as_json: bool) -> None:
    """Write the redacted run, and beside it the list that `sha256sum -c` reads."""
    from localjudge.record.results import Run
    from localjudge.report.redacted import redacted_lines, salt_of

    if (out is not None and not out.name.isprintable()) or (out and "\\" in out.name):
        raise UsageError(f"{out.name!r} cannot stand in a list of checksums", hint="name another file with --out")
    sha256 = hashlib.sha256()

    def parts() -> Iterator[bytes]:
        for line in redacted_lines(Run.open(directory), salt_of(salt) if salt is not None else b""):
            part = line.encode()
            sha256.update(part)
            yield part

    given = parts()
    first = next(given)  # before the file is opened, as above
    written = _write(chain([first], given), out)
    if out is None:
        return
    checksums = out.with_name(f"{out.name}.sha256")
    _write([f"{sha256.hexdigest()}  {out.name}\n".encode()], checksums)
    if as_json:
        told = {"file": str(out), "format": "redacted", "bytes": written, "checksums": str(checksums)}
        click.echo(json.dumps({**told, "sha256": sha256.hexdigest()}))


def _write(parts: Iterable[bytes], out: Path | None) -> int:
    """Write all parts to the file, or to standard output; how many bytes these were."""
    if out is None:
        return sum(map(sys.stdout.buffer.write, parts))
    try:
        with out.open("wb") as file:
            return sum(map(file.write, parts))
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}", hint="name another file with --out") from error
