"""`localjudge export`: a run's results in another format."""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localjudge.cli.option_groups import GroupedCommand
from localjudge.errors import UsageError
from localjudge.whole_file import write_output

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
@click.option("--redacted", is_flag=True, help="In place of --as: numbers and hashes, no text and no ids.")
@click.option(
    "--salt",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --redacted: hash ids with the salt in this file. Default: salt.key in RUN, made if it is not there.",
)
@click.option("--keep-ids", is_flag=True, help="With --redacted: leave the ids of the samples as they are.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Default: standard output.")
@click.option("--json", "as_json", is_flag=True, help="With --out: print what was written as JSON.")
def command(directory: Path, as_format: "Format | None", out: Path | None, as_json: bool, **options: Any) -> None:
    """Write a run's results for another program.

    ragas, ragas-csv, ragas-parquet: a row per sample, its texts and a column for each metric, as ragas has them
    (ragas is JSON lines).

    ragas-classifications: statements with their verdicts, as ragas's judge answers about context recall.

    inspect: scores for a log of inspect, for its precomputed_scores("FILE.jsonl").

    jsonl, csv, parquet: the rows that --rows names; the CSV is safe in spreadsheets.

    --redacted: scores, verdicts and where they stand, intervals and hashes, as JSON lines without any text, with salted
    hashes in place of ids. What it still tells is printed. FILE.sha256 is written too, for sha256sum -c and to be
    signed; localjudge verify RUN --redacted FILE proves that it is this run.

    Every FILE is written whole or not at all, and only you can read it.
    """
    redacted, salt, keep_ids = (options.pop(name) for name in ("redacted", "salt", "keep_ids"))
    if redacted:
        if as_format or options.pop("rows") != "scores" or any(options.values()):
            raise UsageError("a redacted run has one format, without texts and columns", hint="leave the others out")
        if salt and keep_ids:
            raise UsageError("--salt and --keep-ids cannot both be given", hint="omit one of them")
        _write_redacted(directory, salt, keep_ids, out, as_json)
        return
    if salt is not None or keep_ids:
        raise UsageError("--salt and --keep-ids are for --redacted", hint="add --redacted, or omit them")
    if as_format is None:
        raise UsageError("no format was named", hint="name one with --as, or give --redacted")
    _write_as(directory, as_format, out, as_json, **options)


def _write_as(
    directory: Path, as_format: "Format", out: Path | None, as_json: bool, *, rows: "Rows", **added: bool
) -> None:
    from localjudge.record.results import Run
    from localjudge.report.export import Added, exported_parts

    encoding = as_format.rpartition("-")[2]
    if as_json and out is None and encoding in {"csv", "parquet"}:
        raise UsageError(f"{as_format} is not JSON", hint="name a file with --out: --json then says what was written")
    if encoding == "parquet" and out is None and sys.stdout.isatty():
        raise UsageError("Parquet is binary and cannot be shown on a terminal", hint="name a file with --out")
    parts = exported_parts(Run.open(directory), as_format, rows, Added(**added))
    written = _write(parts, out)
    if as_json and out is not None:
        click.echo(json.dumps({"file": str(out), "format": as_format, "bytes": written}))


def _write_redacted(directory: Path, salt_file: Path | None, keep_ids: bool, out: Path | None, as_json: bool) -> None:
    """Write the redacted run, and beside it the list that `sha256sum -c` reads."""
    from localjudge.record.results import Run
    from localjudge.report.redacted import redacted_lines, salt_in, salt_of, still_tells

    if (out is not None and not out.name.isprintable()) or (out and "\\" in out.name):
        raise UsageError(f"{out.name!r} cannot stand in a list of checksums", hint="name another file with --out")
    run, sha256 = Run.open(directory), hashlib.sha256()
    salt = b"" if keep_ids else salt_in(salt_file) if salt_file else salt_of(run)

    def parts() -> Iterator[bytes]:
        for line in redacted_lines(run, salt):
            part = line.encode()
            sha256.update(part)
            yield part

    written = _write(parts(), out)
    for line in still_tells(salt):
        click.echo(line, err=True)
    if out is None:
        return
    checksums = out.with_name(f"{out.name}.sha256")
    _write([f"{sha256.hexdigest()}  {out.name}\n".encode()], checksums)
    if as_json:
        values = {"file": str(out), "format": "redacted", "bytes": written, "checksums": str(checksums)}
        click.echo(json.dumps({**values, "sha256": sha256.hexdigest()}))


def _write(parts: Iterable[bytes], out: Path | None) -> int:
    """Write all parts to the file, or to standard output; how many bytes these were."""
    return sum(map(sys.stdout.buffer.write, parts)) if out is None else write_output(out, parts)
