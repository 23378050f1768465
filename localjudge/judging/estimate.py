"""Estimate the work of a run before it starts (`localjudge run --dry-run`).

tokens     of the real prompts of each metric's first round, with shared prefixes once
seconds    tokens x seconds per token, measured on the first questions
memory     weights, cache and working space of the model

A dry run begins the run and keeps the measured answers in its directory, where the run finds them.
It stops after 30 seconds or 64 answers of each worker. The 95 % interval of the seconds comes from
the ratio of seconds to tokens in ten consecutive parts of the measured answers, as answers that
share a text have related times. It assumes that the other questions are like the first.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from localjudge.engine.protocol import Engine, count_workers, start_workers
from localjudge.judging.evaluate import NoAnswers, evaluate
from localjudge.judging.job import Job, open_job
from localjudge.judging.judges import SingleJudge
from localjudge.judging.model_answers import (
    EarlierAnswers,
    ModelAnswers,
    OtherRun,
    answers_of_jury,
    earlier_answers,
)
from localjudge.judging.plan import Plan
from localjudge.judging.questions import Wording, digest, distinct
from localjudge.judging.settings import parse_time
from localjudge.judging.stopping import AimStatus, Stopping
from localjudge.metrics import Metric
from localjudge.progress import count_with_progress
from localjudge.run_directory.directory import STORE, refuse_unusable
from localjudge.run_directory.measured_judges import with_examination
from localjudge.stats.interval import Limits, ratio_interval
from localjudge.types import JudgeCard, Record, VerdictRequest

_MAX_SECONDS = 30.0
_MAX_ANSWERS = 64
_PARTS = 10


class Needed(Record):
    """Samples and seconds to reach an aim (None if unknown)."""

    aim: str
    samples: int | None
    seconds: float | None


class Estimate(Record):
    """Estimated work of a run.

    `requests` are all distinct ones, `reused` those with stored answers by source. `tokens` and
    `seconds` are of the others. They include the `measured` answers, which the dry run keeps in the
    run's `directory`. `workers` says where a cluster measured them: `4 workers on 2 nodes`.
    """

    schema_version: int = 1
    judge: JudgeCard
    samples: int
    metrics: tuple[str, ...]
    verdicts: int
    requests: int
    reused: dict[str, int]
    tokens: int
    seconds: float | None
    seconds_ci95: Limits = None
    memory_bytes: int
    directory: str
    measured: int = 0
    workers: str | None = None
    until: tuple[Needed, ...] = ()

    @property
    def remaining(self) -> int:
        return self.requests - sum(self.reused.values())


def estimate_plan(
    planned: Plan, *, clock: Callable[[], float] = time.monotonic, **how: Any
) -> Estimate:
    """Count the work of a plan, and measure the judge on its first questions.

    `how` are the arguments of `open_job`. Raises RunDirectoryError where the run would.
    """
    with open_job(planned, **how) as job:
        return estimate_job(job, clock)


def estimate_job(job: Job, clock: Callable[[], float] = time.monotonic) -> Estimate:
    """Estimate the work of each judge, add it up, and say what the aims of the run need.

    Raises RunDirectoryError where the run would.
    """
    refuse_unusable(job.path)
    job.read_existing()
    settings = job.plan.settings
    earlier = earlier_answers(job.jury.memory, job.identity, settings.reuse, job.progress)
    aims: list[AimStatus] = []
    if not job.jury.is_single and settings.optional_stopping:
        aims = _measure(job, earlier, job.plan.metrics)
    estimates: list[Estimate] = []
    for number in range(len(job.jury.judges)):
        estimate, statuses = _estimate_judge(job, number, earlier, clock)
        estimates.append(estimate)
        aims = aims or statuses
    total = _add_up(estimates)
    values = {
        "judge": with_examination(job.jury.card, job.identity),
        "memory_bytes": job.jury.memory_bytes,
        "until": tuple(_list_needs(total, aims, settings.budget)),
    }
    return total.model_copy(update=values)


def _list_needs(total: Estimate, aims: Sequence[AimStatus], budget: str | None) -> list[Needed]:
    """Return the samples and seconds that each aim needs, and the samples that fit the budget."""
    seconds_each = 0.0
    if total.samples:
        seconds_each = (total.seconds or 0) / total.samples
    samples_of_aims = [(aim.words, aim.needed) for aim in aims]
    if budget and total.samples:
        affordable = total.samples
        if seconds_each:
            affordable = min(total.samples, int(parse_time(budget) / seconds_each))
        samples_of_aims.append((f"what fits in {budget}", affordable))
    needs: list[Needed] = []
    for aim, samples in samples_of_aims:
        seconds = samples and samples * seconds_each
        needs.append(Needed(aim=aim, samples=samples, seconds=seconds))
    return needs


def _estimate_judge(
    job: Job, number: int, earlier: Sequence[EarlierAnswers], clock: Callable[[], float]
) -> tuple[Estimate, list[AimStatus]]:
    """Count the questions of one judge, and measure it on the first ones.

    Also returns how far these answers bring the aims.
    """
    judge = job.jury.open(number)
    stored: list[EarlierAnswers] = []
    if (job.path / STORE).exists():
        stored.append(OtherRun(job.path, job.identity))
    earlier = [*stored, *earlier]
    answered = _metrics_of(job, number)
    estimate = _count_questions(job, judge, answered, earlier)
    is_single = job.jury.is_single
    must_decide = is_single and job.plan.settings.optional_stopping
    if not must_decide and not estimate.tokens:
        return estimate, []
    max_answers: float = _MAX_ANSWERS * count_workers(judge.engine)
    if must_decide:
        max_answers = math.inf
    workers = start_workers(judge.engine)
    stopwatch = _Stopwatch(clock, max_answers)
    seconds = f"at most {_MAX_SECONDS:.0f} seconds"
    job.progress.note(f"measuring the judge {judge.card.name} for {seconds}")
    aims = _measure(job, earlier, answered, number, stopwatch)
    values: dict[str, Any] = {"measured": len(stopwatch.requests), "workers": workers}
    if stopwatch.requests:
        expected, limits = stopwatch.extrapolate(judge.engine, estimate.tokens)
        values |= {"seconds": expected, "seconds_ci95": limits}
    return estimate.model_copy(update=values), aims


def _add_up(estimates: Sequence[Estimate]) -> Estimate:
    """Return the work of all judges, without an interval of the time for several."""
    if len(estimates) == 1:
        return estimates[0]
    reused: Counter[str] = Counter()
    for estimate in estimates:
        reused.update(estimate.reused)
    measured_seconds = [each.seconds for each in estimates if each.seconds is not None]
    seconds = None
    if measured_seconds:
        seconds = sum(measured_seconds)
    values = {
        "requests": sum(each.requests for each in estimates),
        "reused": dict(reused),
        "tokens": sum(each.tokens for each in estimates),
        "seconds": seconds,
        "seconds_ci95": None,
        "measured": sum(each.measured for each in estimates),
        "workers": estimates[-1].workers,
    }
    return estimates[0].model_copy(update=values)


def _metrics_of(job: Job, number: int) -> list[Metric]:
    """Return the metrics that a judge answers: in a jury, those in which it has a weight."""
    name = job.jury.names[number]
    combinations = job.identity.combinations
    answered: list[Metric] = []
    for metric in job.plan.metrics:
        combination = combinations.get(metric.name)
        if combination is None or name in combination.weights:
            answered.append(metric)
    return answered


def _count_questions(
    job: Job, judge: SingleJudge, answered: Sequence[Metric], earlier: Sequence[EarlierAnswers]
) -> Estimate:
    """Count the first round's verdicts, and the judge's distinct requests and new tokens.

    `answered` are the metrics that the judge answers.
    """
    settings = job.plan.settings
    metrics = job.plan.metrics
    names = {metric.name for metric in answered}
    samples = job.plan.dataset.samples
    wording = Wording(judge, settings)
    seen: set[bytes] = set()
    verdicts = 0
    tokens = 0
    reused = {source.name: 0 for source in earlier}
    counted = count_with_progress(samples, job.progress, "counting", len(samples))
    unanswered = NoAnswers()
    for _ in evaluate(counted, metrics, unanswered, settings.sentences):
        verdicts += len(unanswered.tasks)
        requests: dict[str, VerdictRequest] = {}
        asked = [task for task in unanswered.tasks if task.metric in names]
        for key, keyed in distinct(wording.word(asked)).items():
            if digest(key) not in seen:
                requests[key] = keyed.request
        seen.update(map(digest, requests))
        for source in earlier:  # counted where a run would take the answers
            answers = source.answers_to(list(requests))
            reused[source.name] += len(answers)
            for key in answers:
                del requests[key]
        if requests:
            tokens += judge.engine.distinct_tokens(list(requests.values()))
    return Estimate(
        judge=judge.card,
        samples=len(samples),
        metrics=tuple(metric.name for metric in metrics),
        verdicts=verdicts,
        requests=len(seen),
        reused=reused,
        tokens=tokens,
        seconds=None,
        memory_bytes=judge.memory_bytes,
        directory=str(job.path),
    )


class _EnoughAnswers(Exception):
    """Ends the loop over the engine; no error."""


class _Stopwatch:
    """Note when each answer came. Raises _EnoughAnswers after 30 seconds or `max_answers`."""

    def __init__(self, clock: Callable[[], float], max_answers: float) -> None:
        self._clock = clock
        self._max_answers = max_answers
        self._times = [clock()]
        self.requests: list[VerdictRequest] = []

    def __call__(self, request: VerdictRequest) -> None:
        self.requests.append(request)
        self._times.append(self._clock())
        if len(self.requests) >= self._max_answers or self.seconds >= _MAX_SECONDS:
            raise _EnoughAnswers

    @property
    def seconds(self) -> float:
        return self._times[-1] - self._times[0]

    def extrapolate(self, engine: Engine, tokens: int) -> tuple[float, Limits]:
        """Return the seconds of questions with this many tokens, and their 95 % interval.

        The interval is None if only one answer was measured.
        """
        count = len(self.requests)
        parts = min(count, _PARTS)
        ends = [count * part // parts for part in range(parts + 1)]
        measured = [engine.distinct_tokens(self.requests[:end]) for end in ends]
        seconds = np.diff([self._times[end] for end in ends])
        rate, half_width = ratio_interval(seconds, np.diff(measured))
        rest = max(0, tokens - measured[-1])
        total = self.seconds + rate * rest
        if half_width is None:
            return total, None
        low = max(self.seconds, total - half_width * rest)
        return total, (low, total + half_width * rest)


def _measure(
    job: Job,
    earlier: Sequence[EarlierAnswers],
    metrics: Sequence[Metric],
    only: int | None = None,
    stopwatch: _Stopwatch | None = None,
) -> list[AimStatus]:
    """Let the jury answer questions of metrics, or one judge until the stopwatch has enough.

    Returns how far the aims are.
    """
    planned = job.plan
    samples = planned.dataset.samples
    job.progress.phase("measuring")
    stopping = None
    if planned.settings.stops_by and (job.jury.is_single or only is None):
        stopping = Stopping(planned, job.baseline)
    with job.begun() as begun, suppress(_EnoughAnswers):
        sources = (job.jury, begun.store, planned, job.progress, earlier)
        if only is None:
            answers = answers_of_jury(*sources)
        else:
            answers = ModelAnswers(*sources, only=only)
        answers.total = len(samples)
        if stopwatch is not None:
            answers.watch = stopwatch
        if stopping is None:
            for _ in evaluate(samples, metrics, answers, planned.settings.sentences):
                pass
        else:
            stopping.pilot(answers)
    if stopping is None:
        return []
    return stopping.pilot_statuses()
