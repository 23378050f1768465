"""Commands that only read runs: `show`, `report`, `export`, `compare`."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import click

from localjudge.analysis.breakdowns import slices
from localjudge.analysis.compare import compare
from localjudge.cli import command as cli
from localjudge.cli.gates import GateOptions, exit_code, gate_values, gate_views
from localjudge.cli.pair import name_sides, open_comparison, show_pair
from localjudge.errors import InputError
from localjudge.labels.run_labels import (
    disagreements,
    disputed_statements,
    values_with_labels,
    with_labels,
)
from localjudge.report.certificate import write_certificate
from localjudge.report.comparison_views import comparison_view, gates_view
from localjudge.report.conclusions import next_step_of_comparison
from localjudge.report.difference_certificate import write_difference_certificate
from localjudge.report.export import Format, exported_parts
from localjudge.report.flat_table import Rows
from localjudge.report.html_page import write_report
from localjudge.report.label_views import disagreements_view, disputes_view
from localjudge.report.sample_views import find_sample, prompts_view, sample_view
from localjudge.report.summary_views import (
    evidence_view,
    slices_view,
    summary_values,
    summary_view,
    two_means_view,
)
from localjudge.report.terminal import Table, show
from localjudge.report.worst_samples import worst_samples, worst_view
from localjudge.resources import write_output
from localjudge.run_directory.comparison_directory import ComparisonDirectory
from localjudge.run_directory.directory import STORE
from localjudge.run_directory.result_rows import VerdictId
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.run_rows import read_sample_rows, texts_read
from localjudge.run_directory.store_reader import stored_prompts
from localjudge.types import Sample
from localjudge.words import option_name


@cli.command("show", "localjudge show runs/data-3f9a1c2e 2 --metrics context_recall")
@cli.run_argument
@click.argument("sample", required=False)
@cli.metrics_option("Only these metrics.")
@cli.count_option("--worst", "Number of worst samples to show.", default=10)
@click.option(
    "--by", "column", metavar="COLUMN", help="Show each metric by the values of a column."
)
@click.option(
    "--labels", is_flag=True, help="Show disputed statements with each annotator's answer."
)
@click.option(
    "--disagree",
    is_flag=True,
    help="Show verdicts that differ from human labels, most certain first.",
)
@click.option(
    "--details",
    is_flag=True,
    help="Also show labels, calibrations, origins and the signature; with SAMPLE, what was read.",
)
@click.option(
    "--prompts", is_flag=True, help="With SAMPLE: also show the prompts as sent to the judge."
)
@cli.json_option
def show_command(
    directory: Path,
    sample: str | None,
    column: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Show a run (its table and its worst samples), or one SAMPLE with its texts and verdicts.

    Human labels (localjudge label) correct the means; the judge's means are shown below. An
    unfinished run is shown up to its current state. SAMPLE is an id, the beginning of one, or a row
    of the data, counted from 1. Of a comparison (localjudge run --against), both runs are shown.
    """
    comparison = ComparisonDirectory.find(directory)
    if comparison is not None:
        show_pair(comparison, sample, {**options, "column": column}, as_json=as_json)
        return
    run = RunRecord.open(directory, unfinished=True)
    chosen_metrics: Sequence[str] | None = options["metrics"]
    _check_metrics(run, chosen_metrics or ())
    _check_one_view(sample, column, options)
    metrics = chosen_metrics or list(run)
    if options["labels"]:
        disputes = disputed_statements(run, metrics)
        if as_json:
            cli.print_json([dispute.model_dump() for dispute in disputes])
        else:
            show(disputes_view(run, disputes))
    elif options["disagree"]:
        _show_disagreements(run, metrics, as_json)
    elif column is not None:
        _show_slices(run, column, chosen_metrics, as_json)
    elif sample is not None:
        _show_sample(run, sample, chosen_metrics, options, as_json)
    elif as_json:
        cli.print_json(_values(run, metrics, options["worst"]))
    else:
        show(*_run_tables(run, chosen_metrics, options["worst"], details=options["details"]))


def _check_metrics(run: RunRecord, names: Sequence[str]) -> None:
    for name in names:
        if name not in run:
            raise InputError(f"the run has no metric {name!r}", hint=f"it has {', '.join(run)}")


def _check_one_view(sample: str | None, column: str | None, options: Mapping[str, Any]) -> None:
    """Raise InputError for arguments that each name another view, or that need one."""
    views = ["labels", "disagree"]
    if sample is None:
        views.append("details")
    chosen = [f"--{name}" for name in views if options[name]]
    if column is not None:
        chosen.insert(0, "--by")
    if sample is not None:
        chosen.insert(0, "SAMPLE")
    if len(chosen) > 1:
        raise InputError(f"{' and '.join(chosen)} exclude each other", hint="name one of them")
    if options["prompts"] and sample is None:
        raise InputError("--prompts shows the prompts of one sample", hint="name a SAMPLE")
    if "worst" in cli.typed_arguments() and chosen not in ([], ["--details"]):
        hint = f"omit it, or {chosen[0]}"
        raise InputError("--worst is the number of samples below the table of a run", hint=hint)


def _show_disagreements(run: RunRecord, metrics: Sequence[str], as_json: bool) -> None:
    verdicts = disagreements(run, metrics)
    if as_json:
        cli.print_json([values_with_labels(row, statement) for row, statement in verdicts])
    else:
        show(disagreements_view(verdicts))


def _show_slices(run: RunRecord, column: str, metrics: Sequence[str] | None, as_json: bool) -> None:
    parts = slices(run, column)
    if as_json:
        cli.print_json(parts)
    else:
        show(*[slices_view(run, parts, metric) for metric in metrics or (None,)])


def _run_tables(
    run: RunRecord,
    metrics: Sequence[str] | None,
    worst: int,
    *,
    details: bool,
) -> list[Table]:
    """Return the summary and the worst samples for each of these metrics, or for all together."""
    shown: list[Table] = []
    for metric in metrics or (None,):
        shown.append(summary_view(run, metric=metric, details=details))
        shown.append(two_means_view(run, metric=metric))
        if details:
            shown += evidence_view(run, metric)
        if worst:
            shown.append(worst_view(run, metric=metric, count=worst))
    return [table for table in shown if table.notes or table.rows]


def _values(run: RunRecord, names: Sequence[str], worst: int) -> dict[str, Any]:
    summary = summary_values(run)
    missing_scores = [group for group in summary["missing_scores"] if group["metric"] in names]
    worst_rows: list[dict[str, Any]] = []
    for row, question, score in worst_samples(run, names, worst):
        worst_rows.append({"row": row, "user_input": question, **vars(score)})
    return {
        **summary,
        "metrics": {name: summary["metrics"][name] for name in names},
        "missing_scores": missing_scores,
        "run": str(run.directory),
        "finished": run.so_far is None,
        "worst": worst_rows,
    }


def _show_sample(
    run: RunRecord,
    name: str,
    metrics: Sequence[str] | None,
    options: Mapping[str, Any],
    as_json: bool,
) -> None:
    sample = find_sample(run, name)
    details = options["details"]
    if as_json:
        values = _sample_values(run, sample, metrics or list(run), details=details)
        if options["prompts"]:
            values["prompts"] = _prompts(run, sample, metrics or list(run))
        cli.print_json(values)
        return
    tables: list[Table] = []
    if metrics is None:
        tables += sample_view(run, sample, details=details)
    for metric in metrics or ():
        tables += sample_view(run, sample, metric=metric, details=details)
    if options["prompts"]:
        for metric in metrics or run:
            tables += prompts_view(run, sample.id, metric)
    show(*tables)


def _sample_values(
    run: RunRecord, sample: Sample, metrics: Sequence[str], *, details: bool
) -> dict[str, Any]:
    score_rows, verdict_rows = read_sample_rows(run, sample.id)
    read: dict[VerdictId, str] = {}
    if details:
        read = texts_read(run, sample, verdict_rows)
    scores = [vars(row) for row in score_rows if row.metric in metrics]
    verdicts: list[Mapping[str, Any]] = []
    for row, statement in with_labels(run, verdict_rows):
        if row.metric in metrics:
            evidence = row.values_with_evidence["evidence"]
            values = {**values_with_labels(row, statement), "evidence": evidence}
            if row.verdict_id in read:
                values["read"] = read[row.verdict_id]
            verdicts.append(values)
    return {
        "schema_version": run.summary.schema_version,
        "judge": run.judge.model_dump(mode="json"),
        "sample": sample.model_dump(mode="json"),
        "scores": scores,
        "verdicts": verdicts,
    }


def _prompts(run: RunRecord, sample: Sample, metrics: Sequence[str]) -> dict[str, list[str]]:
    """Return the prompts about a sample by metric."""
    prompts: dict[str, list[str]] = {}
    for metric in metrics:
        prompts[metric] = stored_prompts(run.directory / STORE, sample.id, metric)
    return prompts


@cli.command("report", "localjudge report runs/new --baseline runs/old")
@cli.run_argument
@cli.baseline_option
@cli.gate_option
@cli.allow_different_option
@click.option(
    "--title", metavar="TEXT", help="Heading of the page.  [default: the names of the data files]"
)
@click.option("--by", metavar="COLUMN", help="Also show each metric by the values of a column.")
@cli.out_option("The page.  [default: report.html in RUN]", metavar="FILE")
@click.option(
    "--certificate", type=cli.PATH, metavar="FILE", help="Write a certificate of one page instead."
)
@cli.language_option
@cli.json_option
def report_command(
    directory: Path,
    out: Path | None,
    certificate: Path | None,
    as_json: bool,
    title: str | None,
    **options: Any,
) -> int:
    """Write RUN as one HTML page: findings, means, gates, all samples, changes since a baseline.

    The page is one file that loads no other files and sends no data. It contains the texts of the
    run, and only you can read it. Replaces an earlier report, but no other file.

    A certificate states the result, what was checked, and how others can repeat the check, without
    texts. It checks all files of RUN, but does not ask the judge: run localjudge verify first.

    Of a comparison (localjudge run --against), the page has both runs side by side, and the
    certificate states their difference.

    Exit code: 0 written; 3 written, but a gate failed or the run was altered; 1 the run cannot be
    opened or the page cannot be written.
    """
    if certificate is not None:
        how = {"title": title, "language": options["language"], "by": options["by"]}
        return _certify(directory, certificate, as_json, **how)
    typed = cli.typed_arguments()
    if "language" in typed:
        raise InputError(
            "--language is the language of a certificate",
            hint="add --certificate, or omit it",
        )
    comparison = ComparisonDirectory.find(directory)
    if comparison is not None:
        if "baseline" in typed:
            problem = f"{comparison.path} has its own baseline, {comparison.baseline}"
            hint = f"omit --baseline, or name one run: {comparison.run_path}"
            raise InputError(problem, hint=hint)
        typed["baseline"] = comparison.baseline_path
        directory = comparison.run_path
    gates = GateOptions(typed)
    gates.refuse_needless(typed)
    run = RunRecord.open(directory)
    gates.refuse_unknown(run.summary.metrics)
    result = gates.check(run)
    page = write_report(run, result, gates.baseline, out, title=title, by=options["by"])
    if as_json:
        cli.print_json({"file": str(page), "bytes": page.stat().st_size, **gate_values(result)})
    elif comparison is not None and not cli.names_next_step() and not result.decisions:
        show(Table(notes=[f"report {page}"]))  # localjudge start shows the difference at its end
    else:
        show(*gate_views(result, page))
    return exit_code(passed=result.passed)


def _certify(directory: Path, file: Path, as_json: bool, **how: Any) -> int:
    typed = cli.typed_arguments()
    others = typed.keys() & {"baseline", "out", "allow_different"}
    if others:
        hint = f"omit {option_name(min(others))}, or write the report by another command"
        if "baseline" in typed:
            hint = (
                "a difference is certified from a directory with both runs, as in `localjudge "
                "report DIR --certificate FILE`; `localjudge run --against COLUMN --out DIR` makes "
                "it; to certify one mean, omit --baseline"
            )
        raise InputError("--certificate writes no report", hint=hint)
    how["gates"] = typed.get("gates", ())
    comparison = ComparisonDirectory.find(directory)
    if comparison is None:
        run = RunRecord.open(directory, check=False)
        certificate = write_certificate(run, file, **how)
    else:
        certificate = write_difference_certificate(comparison, file, **how)
    if as_json:
        values: dict[str, Any] = {
            "file": str(certificate.file),
            "problems": certificate.problems,
        }
        if certificate.decisions:
            gates = [decision.model_dump(mode="json") for decision in certificate.decisions]
            values["gates"] = gates
        cli.print_json(values)
    else:
        lines = [f"certificate {certificate.file}"]
        for problem in certificate.problems:
            lines.append(f"do not quote its results: {problem}")
        tables = [Table(notes=lines)]
        if certificate.decisions:
            tables.append(gates_view(certificate.decisions))
        show(*tables)
    return exit_code(passed=certificate.passed)


@cli.command("export", "localjudge export runs/data-3f9a1c2e --format csv --out scores.csv")
@cli.run_argument
@click.option(
    "--format",
    "as_format",
    required=True,
    type=click.Choice(get_args(Format)),
    help="The format.",
)
@click.option(
    "--rows",
    type=click.Choice(get_args(Rows)),
    default="scores",
    show_default=True,
    help="One row per sample and metric, per judged unit, or per sample.",
)
@click.option(
    "--with-texts", "texts", is_flag=True, help="Add the texts of the sample to each row."
)
@click.option(
    "--with-columns",
    "columns",
    is_flag=True,
    help="Add the other columns of your data to each row.",
)
@cli.out_option("Default: standard output.", metavar="FILE")
@cli.json_option
def export_command(
    directory: Path,
    as_format: Format,
    rows: Rows,
    out: Path | None,
    as_json: bool,
    **added: bool,
) -> None:
    """Write the results of a run for another program.

    FILE is written atomically, and only you can read it. The CSV is safe in spreadsheets.
    """
    if as_format == "parquet" and out is None and sys.stdout.isatty():
        problem = "Parquet is binary and cannot be shown on a terminal"
        raise InputError(problem, hint="name a file with --out")
    if as_json and out is None:
        hint = "name a file with --out, or omit --json"
        raise InputError("--json describes the file that is written", hint=hint)
    parts = exported_parts(RunRecord.open(directory), as_format, rows, **added)
    if out is None:
        for part in parts:
            sys.stdout.buffer.write(part)
        return
    size = write_output(out, parts)
    if as_json:
        cli.print_json({"file": str(out), "format": as_format, "bytes": size})


@cli.command("compare", "localjudge compare runs/before runs/after --moved 3")
@click.argument("baseline", metavar="A", type=cli.PATH)
@click.argument("run", metavar="[B]", type=cli.PATH, required=False)
@cli.count_option("--moved", "Number of samples to show, largest changes first.", default=5)
@click.option(
    "--by", metavar="COLUMN", help="Also compare each metric by the values of a column of B's data."
)
@cli.json_option
def compare_command(
    baseline: Path, run: Path | None, moved: int, by: str | None, as_json: bool
) -> None:
    """Compare run B, the new one, with run A, the baseline, sample by sample.

    Without B, A is the directory of a comparison (localjudge run --against), which has both runs.

    Pairs samples by id, then by content, then by question. Every difference is B - A. Enough labels
    of both runs (localjudge label) correct it; the judge's difference is shown below.
    """
    baseline, run = open_comparison(baseline, run)
    comparison = compare(baseline, run, moved=moved, by=by)
    if not comparison.metrics or not comparison.samples.paired:
        problem = comparison.warnings[0]
        raise InputError(f"{baseline} and {run} cannot be compared: {problem}")
    if as_json:
        cli.print_json(comparison)
        return
    step = next_step_of_comparison(comparison)
    show(*name_sides(comparison), *comparison_view(comparison), Table(notes=[f"next: {step}"]))
