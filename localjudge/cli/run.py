"""`localjudge run`: the main job. A thin layer over `localjudge.evaluate`, which does the same."""

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localjudge.cli.gate_options import gate_options
from localjudge.cli.main import ExitCode, be_quiet, be_verbose
from localjudge.cli.option_groups import GroupedCommand
from localjudge.cli.options import metrics, settings
from localjudge.cli.suite_options import settings_given, suite_options
from localjudge.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from localjudge.record.results import Run
    from localjudge.run.estimate import Estimate
    from localjudge.suite import Suite

_DEMO_METRIC = "context_recall"
_CHECKS = ("gates", "baseline", "undecided", "junit", "markdown", "with_texts")


@click.command(
    "run", cls=GroupedCommand, example="localjudge run data.jsonl --judge model.gguf --metrics context_recall"
)
@click.argument("data", nargs=-1, type=click.Path())
@suite_options
@click.option(
    "--demo", is_flag=True, is_eager=True, help="Score the bundled example and show its sentences with their verdicts."
)
@click.option(
    "--judge",
    default="reference",
    show_default=True,
    metavar="NAME|PATH|URL",
    help="Registered name, GGUF file, a name that localjudge models lists, or the address of a server on this machine "
    "(http://127.0.0.1:8080).",
)
@metrics(
    "a first picture of the data. Options in parentheses: 'document_map(compare_by=id)'. "
    "What there is: localjudge metrics."
)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Default: runs/<data>-<hash>.")
@settings()
@gate_options
@click.option("--junit", type=click.Path(path_type=Path), metavar="FILE", help="Write the gates as JUnit XML.")
@click.option(
    "--markdown",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write table, gates and what moved as Markdown, for a pull request or the summary of a CI job: figures and "
    "row numbers, no texts and no ids.",
)
@click.option(
    "--with-texts", is_flag=True, help="With --markdown: also ids of samples and judged texts of those that moved most."
)
@click.option(
    "--report", "as_page", is_flag=True, help="Also write the run as one HTML page: report.html in its directory."
)
@click.option("--dry-run", is_flag=True, help="Only estimate what the run would take: verdicts, tokens, time, memory.")
@click.option("--verbose", is_flag=True, help="Also what engineers of the engine want to know: tokens and seconds.")
@click.option("--quiet", is_flag=True, help="No progress and no remarks: warnings and the result.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def command(data: tuple[str, ...], quiet: bool, as_json: bool, as_page: bool, dry_run: bool, **options: Any) -> int:
    """Score DATA (JSONL, JSON, CSV, Parquet, Arrow; - for standard input) with a local judge.

    Everything asked and answered is kept in the run directory. An interrupted run continues where it
    stopped when the same command is given again. What is not given is taken from localjudge.toml, if it is there.
    """
    from localjudge.cli.gate_options import Checks, values, views
    from localjudge.report.progress_bar import progress_on
    from localjudge.report.table import summary_values
    from localjudge.report.terminal import put, show
    from localjudge.run.estimate import estimate_plan
    from localjudge.run.job import run_plan
    from localjudge.run.plan import plan
    from localjudge.run.settings import checked

    checks = Checks(**{name: options.pop(name) for name in _CHECKS})
    judge, names, out, demo = (options.pop(name) for name in ("judge", "metrics", "out", "demo"))
    suite = options.pop("suite")
    if options.pop("verbose"):
        be_verbose()
    if quiet:
        be_quiet()
    checked_settings = checked(settings_given(options, suite))
    if not dry_run:
        checks.begin()
    with closing(progress_on(sys.stderr, quiet=quiet)) as progress:
        if suite:
            progress.note(f"suite {suite.file}: what the command does not name is taken from it")
        planned = plan(_sources(data, demo, suite), names, checked_settings, progress)
        planned = planned._replace(suite=suite.for_manifest if suite else None)
        checks.refuse_unknown([metric.name for metric in planned.metrics])
        if dry_run:
            estimated = estimate_plan(planned, judge=judge, progress=progress)
            progress.close()
            return _show_estimate(estimated, as_json)
        run = run_plan(planned, judge=judge, out=out, progress=progress)
    found = checks.check(run)
    report = checks.report(run, found) if as_page else None
    if as_json:
        written = {"report": str(report)} if report else {}
        summary = {**written, **summary_values(run), **values(found)}
        put(f"{json.dumps({'run': str(run.directory), **summary}, indent=2)}\n")
    else:
        show(*_views(run, max_failed=checked_settings.max_failed, with_sentences=demo), *views(found, report))
    if not found.kept:
        return ExitCode.GATE_MISSED
    return ExitCode.SOME_FAILED if run.summary.failed_beyond(checked_settings.max_failed) else ExitCode.DONE


def _show_estimate(found: "Estimate", as_json: bool) -> int:
    from localjudge.report.estimate_view import estimate_view
    from localjudge.report.terminal import put, show

    if as_json:
        put(f"{found.model_dump_json(indent=2)}\n")
    else:
        show(estimate_view(found))
    return ExitCode.DONE


def _sources(data: tuple[str, ...], demo: bool, suite: "Suite | None") -> list[str]:
    from localjudge import resources

    if demo and data:
        raise UsageError("--demo brings its own data", hint="leave out --demo, or leave out the files")
    if demo:
        return [str(resources.demo_file())]
    named = list(data or (suite.arguments.get("data", ()) if suite else ()))
    if not named:
        where = f", nor in {suite.file}" if suite else ""
        raise UsageError(f"no data was named{where}", hint="name a file, or try: localjudge run --demo")
    return named


def _views(run: "Run", *, max_failed: int, with_sentences: bool) -> "list[RenderableType]":
    from localjudge.report.table import summary_view
    from localjudge.report.verdicts import verdicts_view

    table = summary_view(run, max_failed=max_failed)
    return [verdicts_view(run, metric=_DEMO_METRIC), table] if with_sentences else [table]
