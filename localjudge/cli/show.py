"""`localjudge show`: the terminal view of a run, or of one of its samples."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localjudge.cli.label_options import label_options
from localjudge.cli.option_groups import GroupedCommand
from localjudge.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from localjudge.record.results import Run


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
def command(
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
    from localjudge.record.results import Run
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
    from localjudge.report.table import summary_view
    from localjudge.report.worst import worst_view

    table = summary_view(run, max_failed=run.max_failed, metric=metric)
    return [table, worst_view(run, metric=metric, count=worst)] if worst else [table]


def _show_corrected(run: "Run", metric: str | None, labels: Path, foreign: bool, as_json: bool) -> None:
    from localjudge.analysis.corrected_means import corrected_means
    from localjudge.report.corrected_view import corrected_view
    from localjudge.report.table import summary_view
    from localjudge.report.terminal import put, show

    found = corrected_means(run, labels, foreign_labels=foreign)
    if as_json:
        corrected = {"corrected": found.model_dump(mode="json")}
        put(f"{json.dumps({**_values(run, None, metric, 0), **corrected}, indent=2)}\n")
    else:
        show(summary_view(run, max_failed=run.max_failed, metric=metric), corrected_view(found, metric=metric))


def _show_slices(run: "Run", column: str, metric: str | None, as_json: bool) -> None:
    from localjudge.analysis.slices import slices
    from localjudge.report.table import slices_view
    from localjudge.report.terminal import put, show

    found = slices(run, column)
    if as_json:
        put(f"{found.model_dump_json(indent=2)}\n")
    else:
        show(slices_view(run, found, metric=metric, max_failed=run.max_failed))


def _views_of_sample(run: "Run", sample: str, metric: str | None, *, prompts: bool) -> "list[RenderableType]":
    from localjudge.report.sample import find_sample, prompts_view, sample_view

    views = [sample_view(run, sample, metric=metric)]
    if prompts:
        sample_id = find_sample(run, sample).id
        views += [prompts_view(run, sample_id, name) for name in ([metric] if metric else run.summary.metrics)]
    return views


def _values(run: "Run", sample: str | None, metric: str | None, worst: int) -> dict[str, Any]:
    from localjudge.record.result_rows import row_values
    from localjudge.report.sample import find_sample
    from localjudge.report.table import summary_values
    from localjudge.report.worst import worst_samples

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
