"""Commands that only read runs: `show`, `report`, `export`, `compare`."""

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

import click

from localjudge.analysis.compare import compare
from localjudge.analysis.labelled_statements import disagreements, disputed_statements, with_labels
from localjudge.analysis.slices import slices
from localjudge.cli import options as cli
from localjudge.cli.gates import Checks, values, views
from localjudge.cli.main import ExitCode
from localjudge.errors import InputError
from localjudge.record.run import Run
from localjudge.report import tables
from localjudge.report.certificate import write_certificate
from localjudge.report.export import Format, Rows, exported_parts
from localjudge.report.html_page import write_report
from localjudge.report.label_views import disagreements_view, disputes_view
from localjudge.report.sample import find_sample, prompts_view, sample_view
from localjudge.report.sentences import two_means_view
from localjudge.report.terminal import Table, View
from localjudge.resources import write_output
from localjudge.words import call, option_name


@cli.command("show", "localjudge show runs/data-3f9a1c2e 2 --metrics context_recall")
@cli.run_argument
@click.argument("sample", required=False)
@cli.metrics("Only these metrics.")
@cli.count_option("Output", "--worst", "Number of worst samples to show.", default=10)
@cli.option("Data", "--by", "column", metavar="COLUMN", help="Show each metric by the values of a column.")
@cli.option("Data", "--labels", is_flag=True, help="Show disputed statements with each annotator's answer.")
@cli.option("Data", "--disagree", is_flag=True, help="Show verdicts that differ from human labels, most certain first.")
@cli.option("Output", "--details", is_flag=True, help="Also show labels, calibrations, origins and the signature.")
@cli.option("Output", "--prompts", is_flag=True, help="With SAMPLE: also show the prompts as sent to the judge.")
@cli.json_option
def show_command(directory: Path, sample: str | None, column: str | None, as_json: bool, **options: Any) -> None:
    """Show a run (its table and its worst samples), or one SAMPLE with its texts, sentences and verdicts.

    Human labels (localjudge label) correct the means; the judge's means are shown below. An unfinished run is shown
    up to its current state. SAMPLE is an id, the beginning of one, or a row of the data, counted from 1.
    """
    run, names = Run.open(directory, unfinished=True), options["metrics"]
    for name in names or ():
        if name not in run:
            raise InputError(f"the run has no metric {name!r}", hint=f"it has {', '.join(run)}")
    choices = {"SAMPLE": sample is not None, "--by": column is not None}
    choices |= {f"--{name}": options[name] for name in ("labels", "disagree", "details")}
    if len(chosen := [name for name, is_given in choices.items() if is_given]) > 1:
        raise InputError(f"{' and '.join(chosen)} exclude each other", hint="name one of them")
    if options["labels"]:
        disputes = disputed_statements(run, names or list(run))
        values = [dispute.model_dump() for dispute in disputes]
        cli.print_result(as_json, lambda: values, lambda: disputes_view(run, disputes))
    elif options["disagree"]:
        verdicts = disagreements(run, names or list(run))
        cli.print_result(as_json, lambda: [row.values for row in verdicts], lambda: disagreements_view(verdicts))
    elif column is not None:
        parts = slices(run, column)
        cli.print_result(
            as_json, parts, lambda: [tables.slices_view(run, parts, metric=name) for name in names or (None,)]
        )
    elif sample is not None:
        _show_sample(run, sample, names, options["prompts"], as_json)
    else:
        worst = options["worst"]
        summary = partial(tables.summary_view, details=options["details"])
        shown: list[Callable[..., Table]] = [summary, two_means_view]
        shown += [partial(tables.worst_view, count=worst)] if worst else []
        cli.print_result(
            as_json,
            lambda: _values(run, names or list(run), worst),
            lambda: [
                table
                for metric in names or (None,)
                for view in shown
                if (table := view(run, metric=metric)).notes or table.rows
            ],
        )


def _values(run: Run, names: Sequence[str], worst: int) -> dict[str, Any]:
    summary = tables.summary_values(run)
    return {
        **summary,
        "metrics": {name: summary["metrics"][name] for name in names},
        "missing_scores": [group for group in summary["missing_scores"] if group["metric"] in names],
        "run": str(run.directory),
        "finished": run.so_far is None,
        "worst": [
            {"row": row, "user_input": question, **vars(score)}
            for row, question, score in tables.worst_samples(run, names, worst)
        ],
    }


def _show_sample(run: Run, name: str, names: Sequence[str] | None, prompts: bool, as_json: bool) -> None:
    sample, listed = find_sample(run, name), names or list(run)
    cli.print_result(
        as_json,
        lambda: {
            "schema_version": run.summary.schema_version,
            "judge": run.judge.model_dump(mode="json"),
            "sample": sample.model_dump(mode="json"),
            "scores": [vars(row) for row in run.scores_of(sample.id) if row.metric in listed],
            "verdicts": [
                verdict.values
                for verdict in with_labels(run, run.verdicts_of(sample.id))
                if verdict.row.metric in listed
            ],
        },
        lambda: [
            *(sample_view(run, sample.id, metric=metric) for metric in names or (None,)),
            *(prompts_view(run, sample.id, metric) for metric in (listed if prompts else ())),
        ],
    )


@cli.command("report", "localjudge report runs/new --baseline runs/old")
@cli.run_argument
@cli.baseline_option
@cli.gate_option
@cli.allow_different_option
@cli.option("Output", "--title", metavar="TEXT", help="Heading of the page.  [default: the names of the data files]")
@cli.option("Data", "--by", metavar="COLUMN", help="Also show each metric by the values of a column.")
@cli.out_option("The page.  [default: report.html in RUN]", metavar="FILE")
@cli.option("Output", "--certificate", type=cli.PATH, metavar="FILE", help="Write a certificate of one page instead.")
@cli.language_option
@cli.json_option
def report_command(
    directory: Path, out: Path | None, certificate: Path | None, as_json: bool, title: str | None, **options: Any
) -> int:
    """Write RUN as one HTML page: findings, means, gates, all samples, and changes since a baseline.

    The page is one file that loads no other files and sends no data. It contains the texts of the run, and only you can
    read it. Replaces an earlier report, but no other file.

    A certificate states the result, what was checked, and how others can repeat the check, without texts. It checks all
    files of RUN, but does not ask the judge: run localjudge verify first.

    Exit code: 0 written; 3 written, but a gate failed or the run was altered; 1 the run cannot be opened or the page
    cannot be written.
    """
    if certificate is not None:
        how = {"title": title, "language": options["language"], "by": options["by"]}
        return _certify(directory, certificate, as_json, **how)
    if "language" in cli.typed_arguments():
        raise InputError("--language is the language of a certificate", hint="add --certificate, or omit it")
    checks, run = Checks(cli.typed_arguments()), Run.open(directory)
    checks.refuse_unknown(run.summary.metrics)
    result = checks.check(run)
    page = write_report(run, result, checks.baseline, out, title=title, by=options["by"])
    cli.print_result(
        as_json,
        lambda: {"file": str(page), "bytes": page.stat().st_size, **values(result)},
        lambda: views(result, page),
    )
    return ExitCode.DONE if result.passed else ExitCode.GATE_MISSED


def _certify(directory: Path, file: Path, as_json: bool, **how: Any) -> int:
    if others := cli.typed_arguments().keys() & {"baseline", "out"}:
        hint = f"omit {option_name(min(others).removesuffix('s'))}, or write the report by another command"
        raise InputError("--certificate writes no report", hint=hint)
    gates = cli.typed_arguments().get("gates", ())
    certificate = write_certificate(Run.open(directory, check=False), file, gates=gates, **how)
    lines = [f"certificate {certificate.file}"]
    lines += [f"do not quote its results: {problem}" for problem in certificate.problems]
    decisions = [decision.model_dump(mode="json") for decision in certificate.decisions]
    shown: dict[str, Any] = {"file": str(certificate.file), "problems": certificate.problems}
    if decisions:
        shown["gates"] = decisions
    views = [tables.gates_view(certificate.decisions)] if decisions else []
    cli.print_result(as_json, lambda: shown, lambda: View([Table(notes=lines), *views]))
    return ExitCode.DONE if certificate.passed else ExitCode.GATE_MISSED


_rows = "One row per sample and metric, per judged unit, or per sample."


@cli.command("export", "localjudge export runs/data-3f9a1c2e --format csv --out scores.csv")
@cli.run_argument
@cli.option("Output", "--format", "as_format", required=True, type=click.Choice(get_args(Format)), help="The format.")
@cli.option("Data", "--rows", type=click.Choice(get_args(Rows)), default="scores", show_default=True, help=_rows)
@cli.option("Data", "--with-texts", "texts", is_flag=True, help="Add the texts of the sample to each row.")
@cli.option("Data", "--with-columns", "columns", is_flag=True, help="Add the other columns of your data to each row.")
@cli.out_option("Default: standard output.", metavar="FILE")
@cli.json_option
def export_command(
    directory: Path, as_format: Format, rows: Rows, out: Path | None, as_json: bool, **added: bool
) -> None:
    """Write the results of a run for another program. FILE is written atomically, and only you can read it.

    The CSV is safe in spreadsheets.
    """
    if as_format == "parquet" and out is None and sys.stdout.isatty():
        raise InputError("Parquet is binary and cannot be shown on a terminal", hint="name a file with --out")
    parts = exported_parts(Run.open(directory), as_format, rows, **added)
    if out is None:
        for part in parts:
            sys.stdout.buffer.write(part)
        return
    size = write_output(out, parts)
    if as_json:
        click.echo(json.dumps({"file": str(out), "format": as_format, "bytes": size}))


@cli.command("compare", "localjudge compare runs/before runs/after --moved 3")
@click.argument("baseline", metavar="A", type=cli.PATH)
@click.argument("run", metavar="B", type=cli.PATH)
@cli.count_option("Output", "--moved", "Number of samples to show, largest changes first.", default=5)
@cli.option("Data", "--by", metavar="COLUMN", help="Also compare each metric by the values of a column of B's data.")
@cli.json_option
def compare_command(baseline: Path, run: Path, moved: int, by: str | None, as_json: bool) -> None:
    """Compare run B, the new one, with run A, the baseline, sample by sample.

    Pairs samples by id, then by content, then by question. Every difference is B - A. Enough labels of both runs
    (localjudge label) correct it; the judge's difference is shown below.
    """
    comparison = compare(baseline, run, moved=moved, by=by)
    if not comparison.metrics or not comparison.samples.paired:
        raise InputError(f"{baseline} and {run} cannot be compared: {comparison.warnings[0]}")
    page = call("report", str(run), "baseline", str(baseline))
    cli.print_result(as_json, comparison, lambda: [tables.comparison_view(comparison), Table(notes=[f"next: {page}"])])
