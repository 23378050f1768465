"""Estimate the work of a run before it starts (`localjudge run --dry-run`).

tokens     of the real prompts of each metric's first round, with shared prefixes once
seconds    tokens x seconds per token, measured on the first questions
memory     weights, cache and working space of the model

A dry run begins the run and keeps the measured answers in its directory, where the run finds them.
It stops after 30 seconds or 64 answers. The 95 % interval of the seconds comes from the ratio of
seconds to tokens in ten consecutive parts of the measured answers, as answers that share a text
have related times. It assumes that the other questions are like the first.
"""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from localjudge.engine.protocol import Engine
from localjudge.judging import judges
from localjudge.judging.bench import JudgeNames, announce_bench, judging_by, use_bench
from localjudge.judging.job import Job, default_judge
from localjudge.judging.judges import LoadedJudge
from localjudge.judging.jury import LoadedJury
from localjudge.judging.loop import (
    Blocks,
    TaskRef,
    Wording,
    blocks,
    digest,
    distinct,
    evaluate_samples,
)
from localjudge.judging.plan import NotedProgress, Plan, report_data
from localjudge.judging.settings import seconds_of
from localjudge.judging.stopping import AimStatus, Stopping, check_aims
from localjudge.metrics.metric import Metric, Sentences
from localjudge.progress import Progress, count_with_progress
from localjudge.run_directory.directory import STORE, refuse_unusable
from localjudge.run_directory.examination import with_examination
from localjudge.run_directory.reuse import EarlierAnswers, OtherRun
from localjudge.run_directory.run_record import RunRecord
from localjudge.stats.interval import ratio_interval
from localjudge.types import JudgeCard, NoAnswer, Record, Sample, Verdict, VerdictRequest

_MOST_SECONDS = 30.0
_MOST_ANSWERS = 64
_PARTS = 10


class Needed(Record):
    """Samples and seconds to reach an aim (None if unknown)."""

    aim: str
    samples: int | None
    seconds: float | None


class Estimate(Record):
    """Estimated work of a run: all distinct `requests`, the `reused` ones by source, and the rest in tokens and
    seconds, `measured` answers included, which the dry run keeps in the run's `directory`.
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
    seconds_ci95: tuple[float, float] | None = None
    memory_bytes: int
    directory: str
    measured: int = 0
    until: tuple[Needed, ...] = ()

    @property
    def remaining(self) -> int:
        return self.requests - sum(self.reused.values())


class _EnoughAnswers(Exception):
    """Ends the loop over the engine; no error."""


class _Stopwatch:
    """Note when each answer came. Raises _EnoughAnswers after 30 seconds or `most` answers."""

    def __init__(self, clock: Callable[[], float], most: float) -> None:
        self._clock, self._most, self._times = clock, most, [clock()]
        self.requests: list[VerdictRequest] = []

    def __call__(self, request: VerdictRequest) -> None:
        self.requests.append(request)
        self._times.append(self._clock())
        if len(self.requests) >= self._most or self.seconds >= _MOST_SECONDS:
            raise _EnoughAnswers

    @property
    def seconds(self) -> float:
        return self._times[-1] - self._times[0]

    def total_seconds(
        self, engine: Engine, tokens: int
    ) -> tuple[float, tuple[float, float] | None]:
        """Return the seconds of questions with this many tokens, and the 95 % interval unless only one was measured."""
        count, parts = len(self.requests), min(len(self.requests), _PARTS)
        ends = [count * part // parts for part in range(parts + 1)]
        measured = [engine.distinct_tokens(self.requests[:end]) for end in ends]
        rest = max(0, tokens - measured[-1])
        rate, arm = ratio_interval(np.diff([self._times[end] for end in ends]), np.diff(measured))
        seconds = self.seconds + rate * rest
        return seconds, None if arm is None else (
            max(self.seconds, seconds - arm * rest),
            seconds + arm * rest,
        )


def estimate_plan(  # options of a dry run
    planned: Plan,
    *,
    judge: JudgeNames | None = None,
    out: str | Path | None = None,
    engine: Engine | None = None,
    baseline: RunRecord | None = None,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Estimate:
    """Count the work of a plan, and measure the judge on its first questions.

    Raises RunDirectoryError where the run would.
    """
    check_aims(planned, baseline)
    settings, samples, notes = planned.settings, planned.dataset.samples, NotedProgress(progress)
    if judge is None or judge == ():  # no option --judge
        judge = default_judge(planned, engine)
    with use_bench(judge, engine, settings, notes) as opened:
        report_data(planned, notes)
        part = announce_bench(opened, planned.metrics, settings, notes)
        job = Job(planned, opened, part, notes, baseline)
        path = job.path(out)
        refuse_unusable(path)
        job.existing(path)
        earlier = judges.earlier_answers(opened.memory, part, settings, notes)
        aims = (
            _pilot(job, path, earlier)
            if settings.optional_stopping and isinstance(opened, LoadedJury)
            else []
        )
        works: list[_Work] = []
        for place in range(len(opened.members)) if isinstance(opened, LoadedJury) else [0]:
            asked = opened.open(place) if isinstance(opened, LoadedJury) else opened
            stored = [OtherRun(path, part)] if (path / STORE).exists() else []
            works.append(_work_of(job, path, place, asked, [*stored, *earlier], clock))
        aims = aims or works[0].aims
        total = _sum_of(works)
        each = (total.seconds or 0) / len(samples) if len(samples) else 0
        if settings.budget and len(samples):
            fit = (
                min(len(samples), int(seconds_of(settings.budget) / each)) if each else len(samples)
            )
            aims.append(AimStatus(f"what fits in {settings.budget}", decided=False, needed=fit))
        return Estimate(
            judge=with_examination(opened.card, part),
            samples=len(samples),
            metrics=tuple(metric.name for metric in planned.metrics),
            seconds=total.seconds,
            seconds_ci95=total.limits,
            memory_bytes=opened.memory_bytes,
            directory=str(path),
            measured=total.measured,
            until=tuple(
                Needed(aim=aim.words, samples=aim.needed, seconds=aim.needed and aim.needed * each)
                for aim in aims
            ),
            verdicts=total.counts.verdicts,
            requests=total.counts.requests,
            reused=total.counts.reused,
            tokens=total.counts.tokens,
        )


class _Counts(NamedTuple):
    verdicts: int
    requests: int
    reused: dict[str, int]
    tokens: int


class _Work(NamedTuple):
    """Work of one judge, or of all judges of a jury."""

    counts: _Counts
    seconds: float | None
    limits: tuple[float, float] | None
    measured: int
    aims: list[AimStatus]


def _work_of(
    job: Job,
    path: Path,
    place: int,
    judge: LoadedJudge,
    earlier: Sequence[EarlierAnswers],
    clock: Callable[[], float],
) -> _Work:
    settings = job.plan.settings
    counts = _count(job.plan, judge, earlier, job.progress)
    optional_stopping = settings.optional_stopping and isinstance(job.judge, LoadedJudge)
    if not (optional_stopping or counts.tokens):
        return _Work(counts, None, None, 0, [])
    watch = _Stopwatch(clock, math.inf if optional_stopping else _MOST_ANSWERS)
    aims = _measure(job, path, place, judge, watch, earlier)
    seconds, limits = None, None
    if watch.requests:
        seconds, limits = watch.total_seconds(judge.engine, counts.tokens)
    return _Work(counts, seconds, limits, len(watch.requests), aims)


def _sum_of(works: Sequence[_Work]) -> _Work:
    """Return the work of all judges, without an interval of the time for several."""
    if len(works) == 1:
        return works[0]
    reused: Counter[str] = Counter()
    for work in works:
        reused.update(work.counts.reused)
    counts = _Counts(
        verdicts=works[0].counts.verdicts,
        requests=sum(work.counts.requests for work in works),
        reused=dict(reused),
        tokens=sum(work.counts.tokens for work in works),
    )
    known = [work.seconds for work in works if work.seconds is not None]
    measured = sum(work.measured for work in works)
    return _Work(counts, sum(known) if known else None, None, measured, [])


def _pilot(job: Job, path: Path, earlier: Sequence[EarlierAnswers]) -> list[AimStatus]:
    """Let a jury judge the first samples."""
    planned, notes = job.plan, job.progress
    notes.phase("measuring")
    stopping = Stopping(planned, job.baseline)
    with job.begun(path) as begun:
        stopping.pilot(
            judging_by(job.judge, begun.store, planned.metrics, planned.settings, notes, earlier),
        )
    return stopping.pilot_statuses()


def _measure(
    job: Job,
    path: Path,
    place: int,
    judge: LoadedJudge,
    watch: _Stopwatch,
    earlier: Sequence[EarlierAnswers],
) -> list[AimStatus]:
    planned, notes = job.plan, job.progress
    notes.note(f"measuring the judge for at most {_MOST_SECONDS:.0f} seconds")
    notes.phase("measuring")
    is_single = isinstance(job.judge, LoadedJudge)
    stopping = Stopping(planned, job.baseline) if planned.settings.stops_by and is_single else None
    with job.begun(path) as begun, suppress(_EnoughAnswers):
        judging = Blocks(
            judge,
            begun.store,
            planned.metrics,
            planned.settings,
            notes,
            earlier,
            watch=watch,
            place=place,
        )
        if stopping:
            stopping.pilot(judging)
        else:
            deque(judging.evaluations(planned.dataset.samples), maxlen=0)
    return stopping.pilot_statuses() if stopping else []


def _count(
    planned: Plan, judge: LoadedJudge, earlier: Sequence[EarlierAnswers], progress: Progress
) -> _Counts:
    settings, samples = planned.settings, planned.dataset.samples
    wording, seen, verdicts, tokens = Wording(judge, settings.sentences), set[bytes](), 0, 0
    reused = {source.name: 0 for source in earlier}
    for block in blocks(count_with_progress(samples, progress, "counting", len(samples))):
        tasks = _first_round_tasks(block, planned.metrics, settings.sentences)
        verdicts += len(tasks)
        questions = distinct(wording.worded(tasks))
        requests = {
            key: keyed.request for key, keyed in questions.items() if digest(key) not in seen
        }
        seen.update(map(digest, requests))
        for source in earlier:  # counted where a run would take the answers
            answers = source.answers_to(list(requests))
            reused[source.name] += len(answers)
            requests = {key: request for key, request in requests.items() if key not in answers}
        tokens += judge.engine.distinct_tokens(list(requests.values())) if requests else 0
    return _Counts(verdicts, len(seen), reused, tokens)


def _first_round_tasks(
    samples: Sequence[Sample], metrics: Sequence[Metric], sentences: Sentences
) -> list[TaskRef]:
    tasks: list[TaskRef] = []

    def note(asked: Sequence[TaskRef]) -> Sequence[Verdict | NoAnswer]:
        tasks.extend(asked)
        return [NoAnswer(error="not asked")] * len(asked)

    evaluate_samples(samples, metrics, sentences, note)
    return tasks
