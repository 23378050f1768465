"""Judge the answers of two columns: two runs in one directory, on the same questions and texts.

    data ──plan_pair──> PairPlan           two plans with the same ids
    PairPlan, judge ──judge_pair──> runs   the baseline first; equal answers are asked once

The same call resumes an interrupted pair.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.dataset import load_pair
from localjudge.dataset.dataset import PairedAnswers
from localjudge.errors import InputError
from localjudge.judging.estimate import Estimate, estimate_job
from localjudge.judging.job import Job, open_job
from localjudge.judging.plan import Data, Plan, data_to_read, pair_directory
from localjudge.judging.settings import RunSettings
from localjudge.metrics import Metric, catalog
from localjudge.progress import NotedProgress, Progress
from localjudge.run_directory.comparison_directory import ComparisonDirectory, folder_names
from localjudge.run_directory.run_record import RunRecord
from localjudge.words import numbered, option, option_name

_ANSWER = "response"


class PairPlan(NamedTuple):
    """The plans of two columns, `columns`: of the baseline, and of the new run.

    `note` describes the pairs, and `warning` the rows without one answer.
    """

    baseline: Plan
    run: Plan
    columns: tuple[str, str]
    note: str
    warning: str | None

    def report(self, progress: NotedProgress) -> None:
        """Report the pairs, and the rows without one answer."""
        progress.note(self.note)
        if self.warning:
            progress.warn(self.warning)


def plan_pair(
    data: Data | None,
    metrics: object,
    against: str,
    settings: RunSettings,
    progress: Progress | None = None,
) -> PairPlan:
    """Plan two runs: of the response, and of the answers in the column `against`.

    Raises the errors of `localjudge.judging.plan.plan`, and InputError for settings and metrics
    that two answers cannot have.
    """
    progress = progress or Progress()
    name = option_name("against")
    if data is None:
        raise InputError(f"{name} names a column of data", hint="name the data file")
    if settings.stops_by:
        stops = option_name(settings.stops_by)
        why = "both runs must have the same samples, and labels"
        hint = f"omit {stops}, or judge fewer samples with {option_name('sample')}"
        raise InputError(f"{stops} and {name} cannot both be given: {why}", hint=hint)
    settings = settings.model_copy(update={"reuse": tuple(_list_reused(settings))})
    to_read = data_to_read(data, metrics, settings)
    _check_metrics(to_read.requested)
    paired = load_pair(to_read.rows, against, **to_read.options, progress=progress)
    baseline = _only_of_answers(to_read.plan_samples(paired.baseline))
    run = _only_of_answers(to_read.plan_samples(paired.run))
    columns = (against, paired.run.mapping[_ANSWER])
    return PairPlan(baseline, run, columns, *_describe_pairs(paired, columns))


def _describe_pairs(paired: PairedAnswers, columns: tuple[str, str]) -> tuple[str, str | None]:
    """Return how many pairs there are, and how many rows lack one answer, if any."""
    against, column = columns
    pairs = numbered(len(paired.run.samples), "pair")
    note = f"{pairs} of answers: {column} against {against}, the baseline"
    if paired.equal:
        note += f"; {paired.equal:,} with equal answers, which are asked once"
    if not paired.left_out:
        return note, None
    examples = ", ".join(paired.examples)
    if paired.left_out > len(paired.examples):
        examples += ", ..."
    rows = numbered(paired.left_out, "row")
    return note, f"{rows} left out, because one answer is missing: {examples}"


def _list_reused(settings: RunSettings) -> list[str]:
    """Return the runs to reuse, with both runs of a comparison."""
    names: list[str] = []
    for name in settings.reuse:
        directory = ComparisonDirectory.find(name)
        if directory is None:
            names.append(name)
        else:
            names += [str(directory.baseline_path), str(directory.run_path)]
    return names


def _check_metrics(requested: Sequence[Metric] | None) -> None:
    """Raise InputError for a requested metric that does not read the answers."""
    for metric in requested or ():
        if _ANSWER not in metric.required_fields:
            hint = "name metrics of the response, such as faithfulness"
            problem = f"{metric.name} does not read the response, so both columns have equal scores"
            raise InputError(problem, hint=hint)


def _only_of_answers(planned: Plan) -> Plan:
    """Return the plan with the metrics that read the answers. Raises InputError without any."""
    selected = tuple(metric for metric in planned.metrics if _ANSWER in metric.required_fields)
    if not selected:
        problem = f"the columns allow no metric that reads the {_ANSWER}"
        hint = f"map the texts or the reference: {option('mapping', {'FIELD': 'COLUMN'})}"
        raise InputError(problem, hint=hint)
    omitted: dict[str, frozenset[str]] = {}
    for skipped, fields in planned.left_out.items():
        if _ANSWER in catalog.example(skipped).required_fields:
            omitted[skipped] = fields
    return planned._replace(metrics=selected, left_out=omitted)


def judge_pair(
    planned: PairPlan, *, out: str | Path | None = None, **how: Any
) -> tuple[ComparisonDirectory, RunRecord, RunRecord]:
    """Judge both columns. Returns their directory, the run of the baseline, and the other run.

    `how` are the judge, the engine and the progress of `open_job`. Raises RunDirectoryError for a
    directory with other content.
    """
    with _open_baseline(planned, out, how) as (directory, job):
        baseline = job.run()
    with _open_run(planned, directory, job, how) as job:
        run = job.run()
    return directory, baseline, run


def estimate_pair(
    planned: PairPlan, *, out: str | Path | None = None, **how: Any
) -> tuple[Estimate, Estimate]:
    """Estimate the work of both runs as `estimate_plan` does.

    The answers that it measures stay in the directory, where the runs find them.
    """
    with _open_baseline(planned, out, how) as (directory, job):
        baseline = estimate_job(job)
    with _open_run(planned, directory, job, how) as job:
        run = estimate_job(job)
    return baseline, run


@contextmanager
def _open_baseline(
    planned: PairPlan, out: str | Path | None, how: Mapping[str, Any]
) -> Iterator[tuple[ComparisonDirectory, Job]]:
    """Open the judge for the baseline, and make the directory of the comparison."""
    folder: Path | None = None
    if out is not None:
        path = Path(os.path.expanduser(out))
        ComparisonDirectory.refuse_unusable(path, *planned.columns)
        folder = path / folder_names(*planned.columns)[0]
    with open_job(planned.baseline, out=folder, **how) as job:
        if out is None:
            path = pair_directory(planned.baseline, planned.run, job.identity)
        directory = ComparisonDirectory.create(path, *planned.columns)
        planned.report(job.progress)
        yield directory, replace(job, path=directory.baseline_path)


@contextmanager
def _open_run(
    planned: PairPlan, directory: ComparisonDirectory, baseline: Job, how: Mapping[str, Any]
) -> Iterator[Job]:
    """Open the judge for the new run, which reuses the answers of the baseline.

    Remarks that were shown for the baseline are not shown again.
    """
    settings = planned.run.settings
    reuse = (*settings.reuse, str(directory.baseline_path))
    settings = settings.model_copy(update={"reuse": reuse})
    run = planned.run._replace(settings=settings)
    progress = NotedProgress(how.get("progress"), told=baseline.progress.notes)
    with open_job(run, out=directory.run_path, **{**how, "progress": progress}) as job:
        planned.report(job.progress)
        yield job
