"""The commands that only read runs: `show`, `report`, `export`, `redact`, `compare`."""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localjudge.cli.main import ExitCode
from localjudge.cli.options import (
    PATH,
    GroupedCommand,
    count_option,
    gate_options,
    grouped,
    json_option,
    label_options,
    metrics,
    out_option,
    print_result,
    run_argument,
    typed_arguments,
)
from localjudge.errors import InputError
from localjudge.resources import write_output

if TYPE_CHECKING:
    from rich.console import RenderableType

    from localjudge.record.run import Run
    from localjudge.report.export import Format, Rows

_Names = Sequence[str] | None


def _each(names: _Names) -> Sequence[str | None]:
    """The metrics to show one by one; None for all at once."""
    return names or [None]


@click.command("show", cls=GroupedCommand, example="localjudge show runs/data-3f9a1c2e 2 --metrics context_recall")
@run_argument
@click.argument("sample", required=False)
@metrics("Only these metrics.")
@count_option("Output", "--worst", "How many of the worst samples to show.", default=10)
@grouped("Data", "--by", "column", metavar="COLUMN", help="Each metric by the values of a column of the data.")
@grouped("Output", "--prompts", is_flag=True, help="With SAMPLE: also show the prompts, as the judge saw them.")
@label_options
@json_option
def show_command(directory: Path, sample: str | None, column: str | None, as_json: bool, **options: Any) -> None:
    """Show a run (its table and its worst samples), or one SAMPLE with its texts, sentences and verdicts.

    A run that is still running, or was stopped, is shown as far as it is. SAMPLE is an id, the beginning of one, or a
    row of the data, counted from 1.
    """
    from localjudge.record.run import Run

    run, names = Run.open(directory, unfinished=True), options["metrics"]
    for name in names or ():
        if name not in run:
            raise InputError(f"the run has no metric {name!r}", hint=f"it has {', '.join(run)}")
    if sum(part is not None for part in (sample, column, options["labels"])) > 1:
        raise InputError("SAMPLE, --by and --labels are three views", hint="ask for one of them")
    if options["labels"]:
        _show_corrected(run, names, options["labels"], as_json)
    elif column is not None:
        _show_slices(run, column, names, as_json)
    elif sample is not None:
        _show_sample(run, sample, names, options["prompts"], as_json)
    else:
        worst = options["worst"]
        print_result(as_json, lambda: _values(run, names, worst), lambda: _views_of_run(run, names, worst))


def _views_of_run(run: "Run", names: _Names, worst: int) -> "list[RenderableType]":
    from localjudge.report.tables import summary_view, worst_view

    views: list[RenderableType] = []
    for metric in _each(names):
        views.append(summary_view(run, max_failed=run.max_failed, metric=metric))
        views += [worst_view(run, metric=metric, count=worst)] if worst else []
    return views


def _show_corrected(run: "Run", names: _Names, labels: Path, as_json: bool) -> None:
    from localjudge.analysis.correct import corrected_means
    from localjudge.report.label_tables import corrected_view

    corrected = corrected_means(run, labels)
    print_result(
        as_json,
        lambda: {**_values(run, names, 0), "corrected": corrected.model_dump(mode="json")},
        lambda: [*_views_of_run(run, names, 0), *(corrected_view(corrected, metric=metric) for metric in _each(names))],
    )


def _show_slices(run: "Run", column: str, names: _Names, as_json: bool) -> None:
    from localjudge.analysis.compare import slices
    from localjudge.report.tables import slices_view

    by_value = slices(run, column)
    print_result(
        as_json,
        by_value,
        lambda: [slices_view(run, by_value, metric=metric, max_failed=run.max_failed) for metric in _each(names)],
    )


def _values(run: "Run", names: _Names, worst: int) -> dict[str, Any]:
    from localjudge.report.tables import summary_values, worst_samples

    summary = summary_values(run)
    names = names or list(run)
    summary["metrics"] = {name: summary["metrics"][name] for name in names}
    rows = [
        {"row": sample.row, "user_input": sample.question, **vars(sample.score)}
        for sample in worst_samples(run, names, worst)
    ]
    return {**summary, "run": str(run.directory), "finished": run.so_far is None, "worst": rows}


def _show_sample(run: "Run", named: str, names: _Names, prompts: bool, as_json: bool) -> None:
    from localjudge.record.result_rows import row_values
    from localjudge.report.sample import find_sample, prompts_view, sample_view

    sample, listed = find_sample(run, named), names or list(run)
    print_result(
        as_json,
        lambda: {
            "schema_version": run.summary.schema_version,
            "judge": run.judge.model_dump(mode="json"),
            "sample": sample.model_dump(mode="json"),
            "scores": [row_values(row) for row in run.scores_of(sample.id) if row.metric in listed],
            "verdicts": [row_values(row) for row in run.verdicts_of(sample.id) if row.metric in listed],
        },
        lambda: [
            *(sample_view(run, sample.id, metric=metric) for metric in _each(names)),
            *(prompts_view(run, sample.id, name) for name in (listed if prompts else ())),
        ],
    )


@click.command("report", cls=GroupedCommand, example="localjudge report runs/new --baseline runs/old")
@run_argument
@gate_options
@label_options
@out_option("The page.  [default: report.html in RUN]", metavar="FILE")
@json_option
def report_command(directory: Path, out: Path | None, as_json: bool, **options: Any) -> int:
    """Write RUN as one HTML page: metrics, every sample with its judged sentences, and what moved since a baseline.

    The page is one file that loads nothing and sends nothing; it holds the texts of the run, and only you can read it.
    An earlier report is replaced, and no other file.

    Exit code: 0 written; 3 written, and a gate failed; 1 the run cannot be opened or the page not be written.
    """
    from localjudge.analysis.correct import corrected_means
    from localjudge.cli.gates import Checks, values, views
    from localjudge.record.run import Run

    checks, labels = Checks(typed_arguments()), options["labels"]
    run = Run.open(directory)
    checks.refuse_unknown(run.summary.metrics)
    result = checks.check(run)
    corrected = corrected_means(run, labels) if labels else None
    page = checks.report(run, result, out, corrected)
    by_labels = {"corrected": corrected.model_dump(mode="json")} if corrected else {}
    print_result(
        as_json,
        lambda: {"file": str(page), "bytes": page.stat().st_size, **by_labels, **values(result)},
        lambda: views(result, page),
    )
    return ExitCode.DONE if result.kept else ExitCode.GATE_MISSED


@click.command(
    "export", cls=GroupedCommand, example="localjudge export runs/data-3f9a1c2e --format csv --out scores.csv"
)
@run_argument
@grouped(
    "Output",
    "--format",
    "as_format",
    required=True,
    type=click.Choice(
        ["ragas", "ragas-csv", "ragas-parquet", "ragas-classifications", "inspect", "jsonl", "csv", "parquet"]
    ),
    help="The format.",
)
@grouped(
    "Data",
    "--rows",
    type=click.Choice(["scores", "verdicts", "samples"]),
    default="scores",
    show_default=True,
    help="One row per sample and metric, per judged unit, or per sample (for jsonl, csv, parquet).",
)
@grouped("Data", "--with-texts", "texts", is_flag=True, help="Add the texts of the sample to each row.")
@grouped("Data", "--with-columns", "columns", is_flag=True, help="Add the other columns of your data to each row.")
@out_option("Default: standard output.", metavar="FILE")
@json_option
def export_command(
    directory: Path, as_format: "Format", rows: "Rows", out: Path | None, as_json: bool, **added: bool
) -> None:
    """Write the results of a run for another program. FILE is written whole or not at all, and only you can read it.

    ragas, ragas-csv, ragas-parquet: a row per sample, its texts and a column for each metric, as ragas has them
    (ragas is JSON lines).

    ragas-classifications: statements with their verdicts, as ragas's judge answers about context recall.

    inspect: scores for a log of inspect, for its precomputed_scores("FILE.jsonl").

    jsonl, csv, parquet: the rows that --rows names; the CSV is safe in spreadsheets.
    """
    from localjudge.record.run import Run
    from localjudge.report.export import Added, exported_parts

    encoding = as_format.rpartition("-")[2]
    if as_json and out is None and encoding in {"csv", "parquet"}:
        raise InputError(f"{as_format} is not JSON", hint="name a file with --out: --json then says what was written")
    if encoding == "parquet" and out is None and sys.stdout.isatty():
        raise InputError("Parquet is binary and cannot be shown on a terminal", hint="name a file with --out")
    written = _write(exported_parts(Run.open(directory), as_format, rows, Added(**added)), out)
    if as_json and out is not None:
        click.echo(json.dumps({"file": str(out), "format": as_format, "bytes": written}))


@click.command("redact", cls=GroupedCommand, example="localjudge redact runs/data-3f9a1c2e --out carried.jsonl")
@run_argument
@out_option("Default: standard output.", metavar="FILE")
@grouped("Data", "--salt", type=PATH, metavar="FILE", help="Hash ids with this salt.  [default: salt.key in RUN]")
@grouped("Data", "--keep-ids", is_flag=True, help="Leave the ids of the samples as they are.")
@json_option
def redact_command(directory: Path, out: Path | None, salt: Path | None, keep_ids: bool, as_json: bool) -> None:
    """Write the numbers of RUN as JSON lines, without any text: scores, verdicts and where they stand, intervals.

    Salted hashes take the place of ids; salt.key in RUN is made if it is not there. What the file still tells is
    printed. FILE.sha256 is written too, for sha256sum -c and to be signed. localjudge verify RUN FILE checks that the
    file is of this run.
    """
    from localjudge.record.run import Run
    from localjudge.report.redacted import redacted_lines, salt_in, salt_of, still_tells

    if salt and keep_ids:
        raise InputError("--salt and --keep-ids cannot both be given", hint="omit one of them")
    if out is not None and (not out.name.isprintable() or "\\" in out.name):
        raise InputError(f"{out.name!r} cannot stand in a list of checksums", hint="name another file with --out")
    run, sha256 = Run.open(directory), hashlib.sha256()
    key = b"" if keep_ids else salt_in(salt) if salt else salt_of(run)

    def parts() -> Iterator[bytes]:
        for line in redacted_lines(run, key):
            sha256.update(part := line.encode())
            yield part

    written = _write(parts(), out)
    for line in still_tells(key):
        click.echo(line, err=True)
    if out is None:
        return
    checksums = out.with_name(f"{out.name}.sha256")
    _write([f"{sha256.hexdigest()}  {out.name}\n".encode()], checksums)
    if as_json:
        figures = {"file": str(out), "format": "redacted", "bytes": written, "checksums": str(checksums)}
        click.echo(json.dumps({**figures, "sha256": sha256.hexdigest()}))


def _write(parts: Iterable[bytes], out: Path | None) -> int:
    """Write all parts to the file, or to standard output; how many bytes these were."""
    return sum(map(sys.stdout.buffer.write, parts)) if out is None else write_output(out, parts)


@click.command("compare", cls=GroupedCommand, example="localjudge compare runs/before runs/after --moved 3")
@click.argument("baseline", metavar="A", type=PATH)
@click.argument("run", metavar="B", type=PATH)
@count_option("Output", "--moved", "How many of the samples that moved most to show.", default=5)
@grouped("Data", "--by", metavar="COLUMN", help="Also compare each metric by the values of a column of the data of B.")
@json_option
def compare_command(baseline: Path, run: Path, moved: int, by: str | None, as_json: bool) -> None:
    """Compare run B, the new one, with run A, the baseline, sample by sample.

    Samples are paired by id, those left by content, and those left then by question. Every difference is B - A.
    """
    from localjudge.analysis.compare import compare
    from localjudge.report.tables import comparison_view

    comparison = compare(baseline, run, moved=moved, by=by)
    if not comparison.metrics or not comparison.samples.paired:
        raise InputError(f"{baseline} and {run} cannot be compared: {comparison.warnings[0]}")
    print_result(as_json, comparison, lambda: comparison_view(comparison))
