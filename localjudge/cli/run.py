"""Commands that make a run or ask its judge again: `run`, `verify`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from localjudge import resources
from localjudge.analysis.check import Check
from localjudge.cli import command as cli
from localjudge.cli.gates import GateOptions, exit_code, gate_values, gate_views
from localjudge.cli.main import ExitCode
from localjudge.cli.pair import refuse_beside_against, run_pair, verify_labels_of_both
from localjudge.config import Config
from localjudge.errors import InputError
from localjudge.judging.estimate import estimate_plan
from localjudge.judging.job import open_job
from localjudge.judging.plan import Plan
from localjudge.judging.settings import SETTINGS, RunSettings, VerifySettings, checked
from localjudge.judging.stored_data import plan_run
from localjudge.judging.verify import Verification, verify_run
from localjudge.metrics.catalog import described
from localjudge.progress import Progress
from localjudge.report.html_page import check_report, write_report
from localjudge.report.planning_views import estimate_view, metric_list
from localjudge.report.sample_views import verdicts_view
from localjudge.report.summary_views import summary_values, summary_view
from localjudge.report.terminal import Table, show
from localjudge.report.verification_views import verification_view
from localjudge.run_directory.comparison_directory import ComparisonDirectory
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.files import VERIFICATION
from localjudge.run_directory.run_record import RunRecord
from localjudge.words import printable

_DEMO_METRIC = "context_recall"
_ACCEPTED = {
    "identical": {"bit-identical"},
    "verdicts": {"bit-identical", "same verdicts"},
}
"""Accepted results of `verify` by the value of --accept."""


def _repeat_reuse(arguments: Sequence[str]) -> list[str]:
    """Write `--reuse a b` as `--reuse a --reuse b`.

    The first name may be anything, the others are directories.
    """
    repeated: list[str] = []
    is_reused = False
    for position, argument in enumerate(arguments):
        if argument.startswith("-"):
            is_reused = argument == "--reuse"
        elif is_reused and arguments[position - 1] != "--reuse":
            is_reused = Path(argument).is_dir()
            if is_reused:
                repeated.append("--reuse")
        repeated.append(argument)
    return repeated


@cli.command(
    "run",
    "localjudge run data.jsonl --judge model.gguf --metrics faithfulness",
    advanced={
        **cli.advanced_settings(),
        "config": "Data",
        "allow_different": "Evidence",
        "junit": "Evidence",
        "markdown": "Evidence",
    },
    rewrite=_repeat_reuse,
)
@click.argument("data", nargs=-1, type=click.Path())
@click.option("--demo", is_flag=True, help="Score the bundled example and show its verdicts.")
@cli.config_option
@cli.judge_option(together=True)
@cli.metrics_option(
    "Default: for each question, the first metric that the data allows. With options: "
    "'document_map(compare_by=id)'."
)
@click.option(
    "--list-metrics", is_flag=True, help="List the metrics: what each asks, needs and costs."
)
@cli.settings()
@cli.against_option
@cli.baseline_option
@cli.gate_option
@cli.allow_different_option
@click.option(
    "--junit",
    type=cli.PATH,
    metavar="FILE",
    help="Write the gates as JUnit XML.",
)
@click.option(
    "--markdown", type=cli.PATH, metavar="FILE", help="Write table, gates and changes (no texts)."
)
@cli.out_option("Run directory.  [default: runs/<data>-<hash>]")
@click.option(
    "--dry-run", is_flag=True, help="Only estimate verdicts, tokens, time and memory (30 seconds)."
)
@cli.quiet_option
@cli.json_option
def run_command(data: tuple[str, ...], quiet: bool, as_json: bool, **options: Any) -> int:
    """Score DATA (JSONL, JSON, CSV, Parquet, Arrow; - for standard input) with a local judge.

    After an interruption, the same command resumes. Options that are not given come from
    localjudge.toml, which has more settings (docs/runs.md). Without DATA, --reuse RUN scores the
    samples of RUN, or of all shards of a run, with their judge, metrics and settings unless others
    are given, and asks only new questions.
    """
    if options["list_metrics"]:
        return _list_metrics(as_json)
    arguments, config = _arguments(data, options)
    if arguments.get("against") is not None:
        refuse_beside_against(arguments, is_demo=options["demo"])
    gates = GateOptions(arguments)
    gates.refuse_needless(cli.typed_arguments())
    settings = checked(cli.pick(arguments, SETTINGS))
    if not options["dry_run"]:
        gates.begin()
    with cli.progress_shown(quiet=quiet) as progress:
        if arguments.get("against") is not None:
            formats = {"as_json": as_json, "is_dry": options["dry_run"]}
            return run_pair(arguments, settings, gates, progress, **formats)
        planned = _plan(arguments, settings, config, progress)
        gates.refuse_unknown([metric.name for metric in planned.metrics])
        how: dict[str, Any] = {
            "judge": arguments.get("judge"),
            "out": arguments.get("out"),
            "baseline": gates.baseline,
        }
        if options["dry_run"]:
            return _estimate(planned, as_json, progress, **how)
        with open_job(planned, **how, progress=progress) as job:
            run = job.run()
    result = gates.check(run)
    report: Path | None = None
    if arguments.get("report"):
        report = write_report(run, result, gates.baseline)
    if as_json:
        cli.print_json(_values(run, result, report))
    else:
        show(*_views(run, result, report, is_demo=options["demo"]))
    return exit_code(run, passed=result.passed)


def _values(run: RunRecord, result: Check, report: Path | None) -> dict[str, Any]:
    values = {"run": str(run.directory), **summary_values(run)}
    if report:
        values["report"] = str(report)
    return {**values, **gate_values(result)}


def _views(run: RunRecord, result: Check, report: Path | None, *, is_demo: bool) -> list[Table]:
    views: list[Table] = []
    if is_demo:
        scores = [score for score in run.iter_scores() if score.metric == _DEMO_METRIC]
        views += verdicts_view(scores, run.iter_verdicts())
    views.append(summary_view(run, labels=result.labels, advice=cli.names_next_step()))
    return [*views, *gate_views(result, report)]


def _arguments(
    data: tuple[str, ...], options: Mapping[str, Any]
) -> tuple[dict[str, Any], Config | None]:
    """Return the arguments and the configuration file.

    The demo uses a configuration file only if named.
    """
    if options["demo"] and data:
        raise InputError("--demo brings its own data", hint="omit --demo, or omit the files")
    config_file = options["config"]
    if options["demo"]:
        config_file = config_file or cli.NO_CONFIG
    arguments, config = cli.with_config(config_file)
    if options["demo"]:
        arguments["data"] = [str(resources.demo_file())]
    return arguments, config


def _plan(
    arguments: Mapping[str, Any],
    settings: RunSettings,
    config: Config | None,
    progress: Progress,
) -> Plan:
    data = list(arguments.get("data", ()))
    if not data and not settings.reuse:
        where = ""
        if config:
            where = f" on the command line or in {config.file}"
        hint = "name a file, or try: localjudge run --demo"
        raise InputError(f"no data file was named{where}", hint=hint)
    if config:
        progress.note(f"using default settings from {config.file}")
    given = cli.pick(arguments, SETTINGS)
    return plan_run(data or None, arguments.get("metrics"), settings, given, progress)


def _estimate(planned: Plan, as_json: bool, progress: Progress, **how: Any) -> int:
    estimate = estimate_plan(planned, **how, progress=progress)
    progress.close()
    if as_json:
        cli.print_json(estimate)
    else:
        show(estimate_view(estimate))
    return ExitCode.DONE


def _list_metrics(as_json: bool) -> int:
    metrics = described()
    if as_json:
        rows = []
        for metric in metrics:
            rows.append({**metric._asdict(), "about": metric.about._asdict()})
        cli.print_json(rows)
    else:
        show(*metric_list(metrics))
    return ExitCode.DONE


@cli.command("verify", "localjudge verify runs/data-3f9a1c2e --sample 200")
@cli.run_argument
@cli.count_option("--sample", "Repeat N random answers.", least=1)
@click.option(
    "--data",
    type=cli.PATH,
    multiple=True,
    metavar="FILE",
    help="Compare the data file with the samples of RUN. May be repeated.",
)
@cli.judge_option("the judge of RUN", together=True)
@click.option(
    "--accept",
    type=click.Choice(list(_ACCEPTED)),
    default="identical",
    show_default=True,
    help="Accept only identical bits, or also identical verdicts.",
)
@cli.settings(*VerifySettings.__annotations__)
@cli.quiet_option
@cli.json_option
def verify_command(directory: Path, quiet: bool, as_json: bool, **options: Any) -> int:
    """Re-run the judge of RUN and report the result: bit-identical, same verdicts, or different.

    Asks the judge for the stored answers again, recomputes sentences, scores and intervals, and
    compares the result files and report.html byte for byte, and labels with the last verification.
    Adds only the result to RUN. Bits are equal on the same kind of processor; on another one, use
    --accept verdicts. Of a comparison (localjudge run --against), both runs are verified.

    Exit code: 0 verified; 3 not verified, or FILE gives other samples; 1 the run or its judge
    cannot be opened; 4 interrupted, or verified but the result could not be stored.
    """
    comparison = ComparisonDirectory.find(directory)
    paths = [directory]
    if comparison is not None:
        paths = [comparison.baseline_path, comparison.run_path]
    results: list[Verification] = []
    for path in paths:
        result = _verify(path, options, quiet=quiet)
        results.append(result)
        if not as_json and comparison is not None:
            show(Table(titles=[excerpt(path)]), verification_view(result))
        elif not as_json:
            show(verification_view(result))
    codes = [_code_of_verification(result, options["accept"]) for result in results]
    if comparison is not None:
        return verify_labels_of_both(comparison, results, codes, as_json=as_json)
    if as_json:
        cli.print_json(results[0])
    return codes[0]


def _verify(path: Path, options: Mapping[str, Any], *, quiet: bool) -> Verification:
    with cli.progress_shown(quiet=quiet) as progress:
        result = verify_run(
            path,
            judge=options["judge"],
            sample=options["sample"],
            data=options["data"] or None,
            progress=progress,
            check_report=check_report,
            **cli.pick(cli.typed_arguments(), VerifySettings.__annotations__),
        )
    if result.not_stored and quiet:
        problem = f"{VERIFICATION} cannot be stored: {result.not_stored}"
        click.echo(printable(problem), err=True)
    return result


def _code_of_verification(result: Verification, accept: str) -> ExitCode:
    if result.not_stored and result.result != "different":
        return ExitCode.GO_ON_LATER
    if result.result not in _ACCEPTED[accept] or not result:
        return ExitCode.GATE_MISSED
    return ExitCode.DONE
