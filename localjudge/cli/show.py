"""`localjudge show`: the terminal view of a run, or of one of its samples."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localjudge.errors import UsageError

if TYPE_CHECKING:
    from localjudge.record.results import Run


@click.command("show")
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("sample", required=False)
@click.option("--metric", metavar="NAME", help="Only this metric.")
@click.option(
    "--worst", type=click.IntRange(min=0), default=5, show_default=True, help="How many of the worst samples to show."
)
@click.option("--by", "column", metavar="COLUMN", help="Each metric by the values of a column of the data.")
@click.option("--prompts", is_flag=True, help="With SAMPLE: also show the prompts, as the judge saw them.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    directory: Path,
    sample: str | None,
    metric: str | None,
    worst: int,
    column: str | None,
    prompts: bool,
    as_json: bool,
) -> None:
    """Show a run (its table and its worst samples), or one SAMPLE with its texts, sentences and verdicts.

    A run that is still running, or was stopped, is shown as far as it is.
    """
    from localjudge.record.results import Run

    run = Run.open(directory, unfinished=True)
    if metric is not None and metric not in run.summary.metrics:
        raise UsageError(f"the run has no metric {metric!r}", hint=f"it has {', '.join(run.summary.metrics)}")
    if column is not None:
        if sample is not None:
            raise UsageError("--by is about all samples", hint="leave out SAMPLE, or leave out --by")
        _show_slices(run, column, metric, as_json)
    elif as_json:
        click.echo(json.dumps(_values(run, sample, metric, worst), indent=2))
    elif sample is None:
        _show_run(run, metric, worst)
    else:
        _show_sample(run, sample, metric, prompts=prompts)


def _show_run(run: "Run", metric: str | None, worst: int) -> None:
    from localjudge.report.table import summary_view
    from localjudge.report.terminal import terminal
    from localjudge.report.worst import worst_view

    console = terminal()
    console.print(summary_view(run, max_failed=run.max_failed))
    if worst:
        console.print(worst_view(run, metric=metric, count=worst))


def _show_slices(run: "Run", column: str, metric: str | None, as_json: bool) -> None:
    from localjudge.analysis.slices import slices
    from localjudge.report.slices_view import slices_view
    from localjudge.report.terminal import terminal

    found = slices(run, column)
    if as_json:
        click.echo(found.model_dump_json(indent=2))
    else:
        terminal().print(slices_view(run, found, metric=metric, max_failed=run.max_failed))


def _show_sample(run: "Run", sample: str, metric: str | None, *, prompts: bool) -> None:
    from localjudge.report.sample import prompts_view, sample_view
    from localjudge.report.terminal import terminal

    console = terminal()
    console.print(sample_view(run, sample, metric=metric))
    if prompts:
        for name in [metric] if metric else run.summary.metrics:
            console.print(prompts_view(run, sample, name))


def _values(run: "Run", sample: str | None, metric: str | None, worst: int) -> dict[str, Any]:
    from localjudge.report.sample import find_sample
    from localjudge.report.worst import worst_of_each

    names = [metric] if metric else list(run.summary.metrics)
    if sample is None:
        found = [vars(row) for rows in worst_of_each(run.iter_scores(), names, worst).values() for row in rows]
        return {
            **run.summary.model_dump(mode="json"),
            "run": str(run.directory),
            "finished": run.so_far is None,
            "worst": found,
        }
    given = find_sample(run, sample).model_dump(mode="json")
    return {
        "schema_version": run.summary.schema_version,
        "judge": run.judge.model_dump(mode="json"),
        "sample": given,
        "scores": [vars(row) for row in run.scores_of(sample) if row.metric in names],
        "verdicts": [vars(row) for row in run.verdicts_of(sample) if row.metric in names],
    }
