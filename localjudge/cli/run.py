"""`localjudge run`: the main job. A thin layer over `localjudge.evaluate`, which does the same."""

import json
import re
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localjudge.cli.main import ExitCode, be_quiet
from localjudge.cli.options import settings
from localjudge.errors import UsageError

if TYPE_CHECKING:
    from localjudge.record.results import Run
    from localjudge.run.estimate import Estimate

_DEMO_METRIC = "context_recall"
# A comma that is not between the options of one metric.
_BETWEEN_METRICS = re.compile(r",(?![^()]*\))")


def _names(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> list[str] | None:
    names = [name.strip() for value in given for name in _BETWEEN_METRICS.split(value)]
    return [name for name in names if name] if given else None


@click.command("run")
@click.argument("data", nargs=-1)
@click.option("--demo", is_flag=True, help="Score the bundled example and show its sentences with their verdicts.")
@click.option(
    "--judge", default="reference", show_default=True, metavar="NAME|PATH", help="Registered name or GGUF file."
)
@click.option(
    "--metrics",
    multiple=True,
    callback=_names,
    metavar="A,B",
    help="Default: a first picture of the data. Options in parentheses: 'document_map(compare_by=id)'. "
    "What there is: localjudge metrics.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Default: runs/<data>-<hash>.")
@settings()
@click.option("--baseline", type=click.Path(path_type=Path), metavar="RUN", help="Also compare with this earlier run.")
@click.option(
    "--gate",
    "gates",
    multiple=True,
    metavar="GATE",
    help="Promise, decided on the 95 % interval: context_recall>=0.8, or, with --baseline, context_recall.delta>=-0.02 "
    "(may be repeated). Exit code 3 if one is missed.",
)
@click.option(
    "--undecided",
    type=click.Choice(["pass", "fail"]),
    default="fail",
    show_default=True,
    help="What a gate counts as when there are too few samples to decide it.",
)
@click.option("--junit", type=click.Path(path_type=Path), metavar="FILE", help="Write the gates as JUnit XML.")
@click.option("--dry-run", is_flag=True, help="Only estimate what the run would take: verdicts, tokens, time, memory.")
@click.option("--quiet", is_flag=True, help="No progress and no remarks: warnings and the result.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def command(data: tuple[str, ...], demo: bool, quiet: bool, as_json: bool, dry_run: bool, **options: Any) -> int:
    """Score DATA (JSONL, JSON, CSV or Parquet files; - for standard input) with a local judge.

    Everything asked and answered is kept in the run directory. An interrupted run continues where it
    stopped when the same command is given again.
    """
    from localjudge.cli.gate_options import Checks, show, values
    from localjudge.report.progress_bar import progress_on
    from localjudge.run.estimate import estimate_plan
    from localjudge.run.job import run_plan
    from localjudge.run.plan import plan
    from localjudge.run.settings import checked

    checks = Checks(**{name: options.pop(name) for name in ("gates", "baseline", "undecided", "junit")})
    judge, metrics, out = (options.pop(name) for name in ("judge", "metrics", "out"))
    checked_settings = checked(options)
    if quiet:
        be_quiet()
    if not dry_run:
        checks.begin()
    with closing(progress_on(sys.stderr, quiet=quiet)) as progress:
        planned = plan(_sources(data, demo), metrics, checked_settings, progress)
        checks.refuse_unknown([metric.name for metric in planned.metrics])
        if dry_run:
            estimated = estimate_plan(planned, judge=judge, progress=progress)
            progress.close()
            return _show_estimate(estimated, as_json)
        run = run_plan(planned, judge=judge, out=out, progress=progress)
    found = checks.check(run)
    if as_json:
        click.echo(
            json.dumps({"run": str(run.directory), **run.summary.model_dump(mode="json"), **values(found)}, indent=2)
        )
    else:
        _show(run, max_failed=checked_settings.max_failed, with_sentences=demo)
        show(found)
    if not found.kept:
        return ExitCode.GATE_MISSED
    return ExitCode.SOME_FAILED if run.summary.failed_beyond(checked_settings.max_failed) else ExitCode.DONE


def _show_estimate(found: "Estimate", as_json: bool) -> int:
    from localjudge.report.estimate_view import estimate_view
    from localjudge.report.terminal import terminal

    if as_json:
        click.echo(found.model_dump_json(indent=2))
    else:
        terminal().print(estimate_view(found))
    return ExitCode.DONE


def _sources(data: tuple[str, ...], demo: bool) -> list[str]:
    from localjudge import resources

    if demo and data:
        raise UsageError("--demo brings its own data", hint="leave out --demo, or leave out the files")
    if not demo and not data:
        raise UsageError("no data was named", hint="name a file, or try: localjudge run --demo")
    return [str(resources.demo_file())] if demo else list(data)


def _show(run: "Run", *, max_failed: int, with_sentences: bool) -> None:
    from localjudge.report.table import summary_view
    from localjudge.report.terminal import terminal
    from localjudge.report.verdicts import verdicts_view

    console = terminal()
    if with_sentences:
        console.print(verdicts_view(run, metric=_DEMO_METRIC))
    console.print(summary_view(run, max_failed=max_failed))
