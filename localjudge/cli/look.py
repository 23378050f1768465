"""`localjudge compare`: what changed from one run to another.

`localjudge export`: a run's results in another format.

`localjudge report`: a finished run as one HTML page.

`localjudge show`: the terminal view of a run, or of one of its samples.
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localjudge.cli.main import ExitCode
from localjudge.cli.options import GroupedCommand, gate_options, label_options
from localjudge.errors import UsageError
from localjudge.resources import write_output

if TYPE_CHECKING:
    from rich.console import RenderableType

    from localjudge.analysis.check import Undecided
    from localjudge.analysis.correct import CorrectedMeans
    from localjudge.record.run import Run
    from localjudge.report.export import Format, Rows


@click.command("compare", cls=GroupedCommand, example="localjudge compare runs/before runs/after --moved 3")
@click.argument("baseline", metavar="A", type=click.Path(path_type=Path))
@click.argument("run", metavar="B", type=click.Path(path_type=Path))
@click.option(
    "--moved",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="How many of the samples that moved most to show.",
)
@click.option("--by", metavar="COLUMN", help="Also compare each metric by the values of a column of the data of B.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compare_command(baseline: Path, run: Path, moved: int, by: str | None, as_json: bool) -> None:
    """Compare run B, the new one, with run A, the baseline, sample by sample.

    Samples are paired by id, those left by content, and those left then by question. Every difference is B - A.
    """
    from localjudge.analysis.compare import compare
    from localjudge.report.tables import comparison_view
    from localjudge.report.terminal import put, show

    found = compare(baseline, run, moved=moved, by=by)
    if not found.metrics or not found.samples.paired:
        raise UsageError(f"{baseline} and {run} cannot be compared: {found.warnings[0]}")
    if as_json:
        put(f"{found.model_dump_json(indent=2)}\n")
    else:
        show(comparison_view(found))


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
def export_command(
    directory: Path, as_format: "Format | None", out: Path | None, as_json: bool, **options: Any
) -> None:
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
    from localjudge.record.run import Run
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
    from localjudge.record.run import Run
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


@click.command("report", cls=GroupedCommand, example="localjudge report runs/new --baseline runs/old")
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@gate_options
@label_options
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Default: report.html in RUN.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written, and the gates, as JSON.")
def report_command(
    directory: Path,
    baseline: Path | None,
    gates: tuple[str, ...],
    undecided: "Undecided",
    out: Path | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Write RUN as one HTML page: metrics, every sample with its judged sentences, and what moved since a baseline.

    The page is one file that loads nothing and sends nothing; it holds the texts of the run, and only you can read it.
    An earlier report is replaced, and no other file.

    Exit code: 0 written; 3 written, and a gate was missed; 1 the run cannot be opened or the page not be written.
    """
    from localjudge.cli.options import Checks, values, views
    from localjudge.record.run import Run
    from localjudge.report.terminal import put, show

    checks = Checks(gates, baseline=baseline, undecided=undecided)
    run = Run.open(directory)
    checks.refuse_unknown(run.summary.metrics)
    found = checks.check(run)
    corrected = _corrected(run, **given)
    path = checks.report(run, found, out, corrected)
    if as_json:
        by_labels = {"corrected": corrected.model_dump(mode="json")} if corrected else {}
        written = {"file": str(path), "bytes": path.stat().st_size, **by_labels, **values(found)}
        put(f"{json.dumps(written, indent=2)}\n")
    else:
        show(*views(found, path))
    return ExitCode.DONE if found.kept else ExitCode.GATE_MISSED


def _corrected(run: "Run", *, labels: Path | None, foreign_labels: bool) -> "CorrectedMeans | None":
    from localjudge.analysis.correct import corrected_means

    return corrected_means(run, labels, foreign_labels=foreign_labels) if labels else None


@click.command("show", cls=GroupedCommand, example="localjudge show runs/data-3f9a1c2e 2 --metric context_recall")
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("sample", required=False)
@click.option("--metric", metavar="NAME", help="Only this metric.")
@click.option(
    "--worst",
    type=click.IntRange(min=0),
    default=10,
    metavar="N",
    show_default=True,
    help="How many of the worst samples to show.",
)
@click.option("--by", "column", metavar="COLUMN", help="Each metric by the values of a column of the data.")
@click.option("--prompts", is_flag=True, help="With SAMPLE: also show the prompts, as the judge saw them.")
@label_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show_command(
    directory: Path,
    sample: str | None,
    metric: str | None,
    column: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Show a run (its table and its worst samples), or one SAMPLE with its texts, sentences and verdicts.

    A run that is still running, or was stopped, is shown as far as it is. SAMPLE is an id, the beginning of one, or a
    row of the data, counted from 1.
    """
    from localjudge.record.run import Run
    from localjudge.report.terminal import put, show

    worst, prompts, labels = options["worst"], options["prompts"], options["labels"]
    run = Run.open(directory, unfinished=True)
    if metric is not None and metric not in run.summary.metrics:
        raise UsageError(f"the run has no metric {metric!r}", hint=f"it has {', '.join(run.summary.metrics)}")
    if labels is not None:
        if sample is not None or column is not None:
            raise UsageError("--labels is about all samples", hint="leave out SAMPLE and --by, or leave out --labels")
        _show_corrected(run, metric, labels, options["foreign_labels"], as_json)
    elif column is not None:
        if sample is not None:
            raise UsageError("--by is about all samples", hint="leave out SAMPLE, or leave out --by")
        _show_slices(run, column, metric, as_json)
    elif as_json:
        put(f"{json.dumps(_values(run, sample, metric, worst), indent=2)}\n")
    elif sample is None:
        show(*_views_of_run(run, metric, worst))
    else:
        show(*_views_of_sample(run, sample, metric, prompts=prompts))


def _views_of_run(run: "Run", metric: str | None, worst: int) -> "list[RenderableType]":
    from localjudge.report.tables import summary_view, worst_view

    table = summary_view(run, max_failed=run.max_failed, metric=metric)
    return [table, worst_view(run, metric=metric, count=worst)] if worst else [table]


def _show_corrected(run: "Run", metric: str | None, labels: Path, foreign: bool, as_json: bool) -> None:
    from localjudge.analysis.correct import corrected_means
    from localjudge.report.label_tables import corrected_view
    from localjudge.report.tables import summary_view
    from localjudge.report.terminal import put, show

    found = corrected_means(run, labels, foreign_labels=foreign)
    if as_json:
        corrected = {"corrected": found.model_dump(mode="json")}
        put(f"{json.dumps({**_values(run, None, metric, 0), **corrected}, indent=2)}\n")
    else:
        show(summary_view(run, max_failed=run.max_failed, metric=metric), corrected_view(found, metric=metric))


def _show_slices(run: "Run", column: str, metric: str | None, as_json: bool) -> None:
    from localjudge.analysis.compare import slices
    from localjudge.report.tables import slices_view
    from localjudge.report.terminal import put, show

    found = slices(run, column)
    if as_json:
        put(f"{found.model_dump_json(indent=2)}\n")
    else:
        show(slices_view(run, found, metric=metric, max_failed=run.max_failed))


def _views_of_sample(run: "Run", sample: str, metric: str | None, *, prompts: bool) -> "list[RenderableType]":
    from localjudge.report.sample import find_sample, prompts_view, sample_view

    views: list[RenderableType] = [sample_view(run, sample, metric=metric)]
    if prompts:
        sample_id = find_sample(run, sample).id
        views += [prompts_view(run, sample_id, name) for name in ([metric] if metric else run.summary.metrics)]
    return views


def _values(run: "Run", sample: str | None, metric: str | None, worst: int) -> dict[str, Any]:
    from localjudge.record.result_rows import row_values
    from localjudge.report.sample import find_sample
    from localjudge.report.tables import summary_values, worst_samples

    names = [metric] if metric else list(run.summary.metrics)
    if sample is None:
        summary = summary_values(run)
        summary["metrics"] = {name: summary["metrics"][name] for name in names}
        found = [
            {"row": one.row, "user_input": one.question, **vars(one.score)} for one in worst_samples(run, names, worst)
        ]
        return {**summary, "run": str(run.directory), "finished": run.so_far is None, "worst": found}
    given = find_sample(run, sample)
    return {
        "schema_version": run.summary.schema_version,
        "judge": run.judge.model_dump(mode="json"),
        "sample": given.model_dump(mode="json"),
        "scores": [row_values(row) for row in run.scores_of(given.id) if row.metric in names],
        "verdicts": [row_values(row) for row in run.verdicts_of(given.id) if row.metric in names],
    }
