"""`localjudge combine`: one run of several judges' runs on the same data. A thin layer over `localjudge.combine`.

`localjudge merge`: one run of the shards that several processes judged. A thin layer over `localjudge.merge`.

`localjudge rescore`: the samples of a run once more, with another threshold or other metrics.

`localjudge run`: the main job. A thin layer over `localjudge.evaluate`, which does the same.

`localjudge verify`: whether a run can be reproduced.
"""

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from localjudge.cli.main import ExitCode, be_quiet, be_verbose
from localjudge.cli.options import (
    GroupedCommand,
    gate_options,
    grouped,
    metrics,
    settings,
    settings_given,
    suite_options,
)
from localjudge.errors import UsageError
from localjudge.run.settings import settings_with

if TYPE_CHECKING:
    from rich.console import RenderableType

    from localjudge.record.run import Run
    from localjudge.run.estimate import Estimate
    from localjudge.run.settings import Options
    from localjudge.suite import Suite


@click.command("combine", cls=GroupedCommand, example="localjudge combine runs/by-a runs/by-b --out runs/both")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Directory of the new run.")
@click.option(
    "--weights",
    multiple=True,
    metavar="NAME|FILE",
    help="Calibration of a combined run of the same judges (calibrate --weights): its weights and threshold decide the "
    "metrics that ask its question (may be repeated).",
)
@click.option("--quiet", is_flag=True, help="No progress: warnings and the result.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def combine_command(runs: tuple[Path, ...], out: Path, weights: tuple[str, ...], quiet: bool, as_json: bool) -> int:
    """Combine runs of different judges on the same data, with the same metrics: the mean of their log odds decides.

    The result is a run that can be shown, compared, reported, exported and held to gates like any other. No model is
    opened, and the runs are not changed.
    """
    from localjudge.report.tables import summary_values, summary_view
    from localjudge.report.terminal import progress_on, put, show
    from localjudge.run.combine import combine_runs

    with closing(progress_on(sys.stderr, quiet=quiet)) as progress:
        run = combine_runs(runs, out, weights=weights, progress=progress)
    if as_json:
        put(f"{json.dumps({'run': str(run.directory), **summary_values(run)}, indent=2)}\n")
    else:
        show(summary_view(run, max_failed=run.max_failed))
    return ExitCode.SOME_FAILED if run.summary.failed_beyond(run.max_failed) else ExitCode.DONE


@click.command("merge", cls=GroupedCommand, example="localjudge merge runs/data-3f9a1c2e-shard-* --out whole")
@click.argument("shards", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Directory of the whole run."
)
@click.option("--quiet", is_flag=True, help="No progress: warnings and the result.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def merge_command(shards: tuple[Path, ...], out: Path, quiet: bool, as_json: bool) -> int:
    """Make one run of all shards that `localjudge run --shard I/N` left in these directories, in any order.

    Its result files are those of one run over all of the data, byte for byte, and it can be shown, verified, compared
    and rescored like one. No model is opened, and the shards are not changed. They have to be of one judge, on one kind
    of processor; one that is missing, or there twice, is named.
    """
    from localjudge.record.merge import merge_shards
    from localjudge.report.tables import summary_values, summary_view
    from localjudge.report.terminal import progress_on, put, show

    with closing(progress_on(sys.stderr, quiet=quiet)) as progress:
        run = merge_shards(shards, out, progress)
    if as_json:
        put(f"{json.dumps({'run': str(run.directory), **summary_values(run)}, indent=2)}\n")
    else:
        show(summary_view(run, max_failed=run.max_failed))
    return ExitCode.SOME_FAILED if run.summary.failed_beyond(run.max_failed) else ExitCode.DONE


@click.command("rescore", cls=GroupedCommand, example="localjudge rescore runs/answers-3f9a1c2e --threshold 0.7")
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@metrics("those of RUN.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Default: runs/<data>-<hash>.")
@click.option(
    "--judge",
    metavar="NAME|PATH|URL",
    help="Where the model of RUN is now, if it was moved.",
)
@settings(*settings_with("rescorable"), default="as in RUN")
@click.option("--quiet", is_flag=True, help="No progress and no remarks: warnings and the result.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def rescore_command(directory: Path, quiet: bool, as_json: bool, **options: Any) -> int:
    """Score the samples of RUN with another threshold or other metrics, in a run directory of its own.

    What RUN asked is not asked again, and the data is not needed. RUN is not changed.
    """
    from localjudge.report.tables import summary_values, summary_view
    from localjudge.report.terminal import progress_on, put, show
    from localjudge.run.job import rescore_run

    if quiet:
        be_quiet()
    judge, out, names = (options.pop(name) for name in ("judge", "out", "metrics"))
    given = cast("Options", {name: value for name, value in options.items() if value is not None})
    with closing(progress_on(sys.stderr, quiet=quiet)) as progress:
        run = rescore_run(directory, names, given, out=out, judge=judge, progress=progress)
    if as_json:
        put(f"{json.dumps({'run': str(run.directory), **summary_values(run)}, indent=2)}\n")
    else:
        show(summary_view(run, max_failed=run.max_failed))
    return ExitCode.SOME_FAILED if run.summary.failed_beyond(run.max_failed) else ExitCode.DONE


_DEMO_METRIC = "context_recall"
_CHECKS = ("gates", "baseline", "undecided", "junit", "markdown", "with_texts")


@click.command(
    "run", cls=GroupedCommand, example="localjudge run data.jsonl --judge model.gguf --metrics context_recall"
)
@click.argument("data", nargs=-1, type=click.Path())
@suite_options
@grouped(
    "Data",
    "--demo",
    is_flag=True,
    is_eager=True,
    help="Score the bundled example and show its sentences with their verdicts.",
)
@grouped(
    "Judge",
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
@grouped("Output", "--out", type=click.Path(path_type=Path), metavar="DIR", help="Default: runs/<data>-<hash>.")
@settings()
@gate_options
@grouped("Evidence", "--junit", type=click.Path(path_type=Path), metavar="FILE", help="Write the gates as JUnit XML.")
@grouped(
    "Evidence",
    "--markdown",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write table, gates and what moved as Markdown, for a pull request or the summary of a CI job: figures and "
    "row numbers, no texts and no ids.",
)
@grouped(
    "Evidence",
    "--with-texts",
    is_flag=True,
    help="With --markdown: also ids of samples and judged texts of those that moved most.",
)
@grouped(
    "Evidence",
    "--report",
    "as_page",
    is_flag=True,
    help="Also write the run as one HTML page: report.html in its directory.",
)
@grouped(
    "Output", "--dry-run", is_flag=True, help="Only estimate what the run would take: verdicts, tokens, time, memory."
)
@grouped(
    "Output", "--verbose", is_flag=True, help="Also what engineers of the engine want to know: tokens and seconds."
)
@grouped("Output", "--quiet", is_flag=True, help="No progress and no remarks: warnings and the result.")
@grouped("Output", "--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def run_command(data: tuple[str, ...], quiet: bool, as_json: bool, as_page: bool, dry_run: bool, **options: Any) -> int:
    """Score DATA (JSONL, JSON, CSV, Parquet, Arrow; - for standard input) with a local judge.

    Everything asked and answered is kept in the run directory. An interrupted run continues where it
    stopped when the same command is given again. What is not given is taken from localjudge.toml, if it is there.
    """
    from localjudge.cli.options import Checks, values, views
    from localjudge.report.tables import summary_values
    from localjudge.report.terminal import progress_on, put, show
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
    from localjudge.report.tables import estimate_view
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
    from localjudge.report.sample import verdicts_view
    from localjudge.report.tables import summary_view

    table = summary_view(run, max_failed=max_failed)
    return [verdicts_view(run, metric=_DEMO_METRIC), table] if with_sentences else [table]


_SAME = {"identical": {"bit-identical"}, "verdicts": {"bit-identical", "same verdicts"}}


@click.command("verify", cls=GroupedCommand, example="localjudge verify runs/data-3f9a1c2e --sample 200")
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--sample", "count", type=click.IntRange(min=1), metavar="N", help="Ask again for only so many answers.")
@click.option("--seed", type=int, default=0, show_default=True, help="Which answers --sample draws.")
@click.option(
    "--judge",
    metavar="NAME|PATH|URL",
    help="Default: the judge of the run.",
)
@click.option(
    "--accept",
    type=click.Choice(["identical", "verdicts"]),
    default="identical",
    show_default=True,
    help="What counts as verified: every bit, or every verdict.",
)
@click.option(
    "--redacted",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="In place of judging again: whether FILE, of export --redacted, is this run.",
)
@click.option(
    "--salt",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --redacted: the salt that it was exported with. Default: salt.key in RUN.",
)
@settings(*settings_with("place"))
@click.option("--quiet", is_flag=True, help="No progress and no remarks: warnings and the result.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify_command(directory: Path, accept: str, judge: str | None, quiet: bool, as_json: bool, **options: Any) -> int:
    """Judge RUN again and say what is the same: bit-identical, same verdicts, or different.

    The judge is asked for the stored answers again. Sentences, scores and intervals are computed again from the
    stored data, and the result files are compared byte for byte. RUN is not changed, and the data is not needed.

    Bytes are promised on the same kind of processor; on another, ask for --accept verdicts.

    With --redacted FILE nothing is judged: FILE is compared with what RUN gives without its texts, byte for byte.

    Exit code: 0 verified; 3 not; 1 the run or its judge cannot be opened; 4 interrupted.
    """
    redacted, salt = options.pop("redacted"), options.pop("salt")
    if redacted is not None:
        return _check_redacted(directory, redacted, salt, as_json)
    if salt is not None:
        raise UsageError("--salt is for --redacted", hint="name the redacted file with --redacted")
    from localjudge.report.checks import verification_view
    from localjudge.report.terminal import progress_on, put, show
    from localjudge.run.verify import verify_run

    if quiet:
        be_quiet()
    found = verify_run(directory, judge=judge, progress=progress_on(sys.stderr, quiet=quiet), **options)
    if as_json:
        put(f"{found.model_dump_json(indent=2)}\n")
    else:
        show(verification_view(found))
    return ExitCode.DONE if found.result in _SAME[accept] else ExitCode.GATE_MISSED


def _check_redacted(directory: Path, file: Path, salt: Path | None, as_json: bool) -> int:
    from localjudge.record.run import Run
    from localjudge.report.redacted import check_redacted, salt_in
    from localjudge.report.terminal import put, safe_text, show

    found = check_redacted(Run.open(directory), file, salt_in(salt) if salt else None)
    if as_json:
        put(f"{found.model_dump_json(indent=2)}\n")
    elif found.belongs:
        show(safe_text(f"{file} belongs to {directory}: {found.lines:,} lines, every byte the same"))
    else:
        show(safe_text(f"{file} is not what {directory} gives: line {found.first_difference:,} is another"))
    return ExitCode.DONE if found.belongs else ExitCode.GATE_MISSED
