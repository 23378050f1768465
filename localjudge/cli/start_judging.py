"""Judge the data of `localjudge start`, unless that is done and the data are unchanged."""

import math
from collections.abc import Sequence
from typing import Literal

import click

from localjudge.cli.main import ExitCode
from localjudge.cli.output import progress_shown
from localjudge.cli.start_answers import select_settings
from localjudge.cli.start_folder import StartFolder
from localjudge.cli.start_steps import print_step, run_step
from localjudge.errors import MissingRun, UnfinishedRun
from localjudge.judging.estimate import Estimate, estimate_plan
from localjudge.judging.plan import Plan, plan
from localjudge.judging.settings import checked
from localjudge.labels.labelling import DEFAULT_COUNT
from localjudge.labels.labelling_time import SECONDS_A_LABEL
from localjudge.report.estimate_views import estimate_view
from localjudge.report.terminal import put, show
from localjudge.run_directory.examination import NOT_EXAMINED
from localjudge.run_directory.run_record import RunRecord
from localjudge.words import roughly

_DOCTOR_MINUTES = 10


def judge_if_needed(folder: StartFolder) -> int:
    """Estimate, examine an unknown judge, and run. Return the exit code of the run."""
    answers = folder.answers
    planned = plan(list(folder.data), answers["metrics"], select_settings(answers))
    state = _find_state(folder, planned)
    if state == "finished":
        return ExitCode.DONE
    if state == "other data":
        _begin_again(folder)
    run = ["run", "--config", str(folder.config_file)]
    if state != "unfinished":
        print_step([*run, "--dry-run"])
        estimate = _estimate(folder, planned)
        is_new_judge = estimate.judge.examined == NOT_EXAMINED
        _print_total(estimate, is_new_judge=is_new_judge)
        if is_new_judge:
            judge = folder.answers["judge"]
            run_step(["doctor", "--judge", judge, "--config", "none"])
    return run_step(run)


def _find_state(
    folder: StartFolder, planned: Plan
) -> Literal["missing", "unfinished", "finished", "other data"]:
    """Return the state of the current run."""
    try:
        run = RunRecord.open(folder.run)
    except MissingRun:
        return "missing"
    except UnfinishedRun:
        return "unfinished"
    if run.manifest.data != planned.identity:
        return "other data"
    return "finished"


def _begin_again(folder: StartFolder) -> None:
    """Let the next run judge the changed data, with the answers of the last one."""
    stored = folder.answers
    answers = {name: stored.get(name) for name in ("mapping", "language", "judge", "metrics")}
    last = folder.run
    name = folder.next_run()
    click.echo(
        f"the data changed since {last}: judging it again in {folder.path / name}",
        err=True,
    )
    folder.write_config({**answers, "out": name, "reuse": [last.name]})


def _estimate(folder: StartFolder, planned: Plan) -> Estimate:
    """Measure how long judging takes, and print it."""
    answers = folder.answers
    names: Sequence[str] = ("mapping", "language", "reuse")
    settings = checked({name: answers[name] for name in names if name in answers})
    with progress_shown(quiet=False) as progress:
        estimate = estimate_plan(
            planned._replace(settings=settings),
            judge=answers["judge"],
            out=folder.run,
            progress=progress,
        )
    show(estimate_view(estimate))
    return estimate


def _print_total(estimate: Estimate, *, is_new_judge: bool) -> None:
    """Print how long everything takes: judging, labelling and, for a new judge, doctor."""
    seconds = estimate.seconds or 0
    judging = "no time"
    if seconds:
        judging = roughly(seconds, estimate.seconds_ci95)
    minutes = math.ceil(DEFAULT_COUNT * SECONDS_A_LABEL / 60)
    parts = [f"{judging} for judging", f"{minutes} minutes for labels"]
    if is_new_judge:
        minutes += _DOCTOR_MINUTES
        parts.append(f"up to about {_DOCTOR_MINUTES} minutes for doctor")
    put(f"\n in total {roughly(seconds + 60 * minutes)}: {', '.join(parts)}\n")
    click.echo("Ctrl-C stops; the same command resumes", err=True)
