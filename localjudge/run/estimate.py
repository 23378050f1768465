"""Estimate the work of a run before it starts (`localjudge run --dry-run`).

tokens     of the real prompts of each metric's first round, with shared prefixes once
seconds    tokens x seconds per token, from the judge's last run here or measured on the first requests
memory     weights, cache and working space of the model
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from localjudge.engine.protocol import Engine
from localjudge.metrics.metric import Metric, Sentences
from localjudge.progress import Progress, count_with_progress
from localjudge.record.reuse import EarlierAnswers
from localjudge.record.run import Run
from localjudge.run import judges
from localjudge.run.judges import JudgeName, OpenJudge
from localjudge.run.loop import Blocks, TaskRef, Wording, answers_in_order, blocks, digest, distinct, evaluate_samples
from localjudge.run.pace import Pace, pace_of
from localjudge.run.plan import NotedProgress, Plan, report_data
from localjudge.run.settings import seconds_of
from localjudge.run.stopping import AimStatus, Stopping, check_aims
from localjudge.types import NoAnswer, Record, Sample, Verdict, VerdictRequest
from localjudge.words import numbered

_MEASURED_TOKENS = 1024
_MEASURED_REQUESTS = 16


class Needed(Record):
    """Samples and seconds to reach an aim (None if unknown)."""

    aim: str
    samples: int | None
    seconds: float | None


class Estimate(Record):
    """Estimated work of a run: all distinct `requests`, the `reused` ones by source, and the rest in tokens and
    seconds.
    """

    schema_version: int = 1
    samples: int
    metrics: tuple[str, ...]
    verdicts: int
    requests: int
    reused: dict[str, int]
    tokens: int
    seconds: float | None
    memory_bytes: int
    pace: Pace | None = None
    until: tuple[Needed, ...] = ()

    @property
    def remaining(self) -> int:
        return self.requests - sum(self.reused.values())


def estimate_plan(
    planned: Plan,
    *,
    judge: JudgeName | None = None,
    engine: Engine | None = None,
    baseline: Run | None = None,
    progress: Progress | None = None,
) -> Estimate:
    """Count and measure the work of a plan. With `until` or `width`, judge the first samples."""
    check_aims(planned, baseline)
    settings, metrics, samples = planned.settings, planned.metrics, planned.dataset.samples
    notes = NotedProgress(progress)
    with judges.use_judge(judge, engine, settings, notes) as opened:
        report_data(planned, notes)
        part = judges.announce_judge(opened, metrics, settings, notes)
        earlier = judges.earlier_answers(opened, part, settings)
        counts = _count(planned, opened, earlier, notes)
        aims: list[AimStatus] = []
        if settings.by_scores:
            notes.phase("judging the first samples")
            judging = Blocks(opened, None, metrics, settings, notes, earlier)
            aims = Stopping(planned, baseline).pilot(judging)
        requests, pace, seconds = counts.pop("first"), pace_of(opened, settings), None
        if requests:
            per_token = pace.seconds_per_token if pace else _seconds_per_token(opened.engine, requests, notes)
            seconds = per_token * counts["tokens"]
        each = (seconds or 0) / len(samples) if len(samples) else 0
        if each and settings.budget:
            fit = min(len(samples), int(seconds_of(settings.budget) / each))
            aims.append(AimStatus(f"what fits in {settings.budget}", decided=False, needed=fit))
        return Estimate(
            samples=len(samples),
            metrics=tuple(metric.name for metric in metrics),
            seconds=seconds,
            memory_bytes=opened.engine.memory_bytes,
            pace=pace if requests else None,
            until=tuple(
                Needed(aim=aim.words, samples=aim.needed, seconds=aim.needed and aim.needed * each) for aim in aims
            ),
            **counts,
        )


def _count(planned: Plan, judge: OpenJudge, earlier: Sequence[EarlierAnswers], progress: Progress) -> dict[str, Any]:
    settings, samples = planned.settings, planned.dataset.samples
    wording, seen, verdicts, tokens = Wording(judge, settings.sentences), set[bytes](), 0, 0
    reused, first = {source.name: 0 for source in earlier}, list[VerdictRequest]()
    for block in blocks(count_with_progress(samples, progress, "counting", len(samples))):
        tasks = _first_tasks(block, planned.metrics, settings.sentences)
        verdicts += len(tasks)
        questions = distinct(wording.worded(tasks))
        requests = {key: keyed.request for key, keyed in questions.items() if digest(key) not in seen}
        seen.update(map(digest, requests))
        for source in earlier:  # counted where a run would take the answers
            answers = source.answers_to(list(requests))
            reused[source.name] += len(answers)
            requests = {key: request for key, request in requests.items() if key not in answers}
        tokens += judge.engine.distinct_tokens(list(requests.values())) if requests else 0
        first += islice(requests.values(), _MEASURED_REQUESTS - len(first))
    return {"verdicts": verdicts, "requests": len(seen), "reused": reused, "tokens": tokens, "first": first}


def _first_tasks(samples: Sequence[Sample], metrics: Sequence[Metric], sentences: Sentences) -> list[TaskRef]:
    tasks: list[TaskRef] = []

    def note(asked: Sequence[TaskRef]) -> Sequence[Verdict | NoAnswer]:
        tasks.extend(asked)
        return [NoAnswer(error="not asked")] * len(asked)

    evaluate_samples(samples, metrics, sentences, note)
    return tasks


def _seconds_per_token(engine: Engine, requests: Sequence[VerdictRequest], progress: Progress) -> float:
    sizes = range(1, len(requests))
    count = next((size for size in sizes if engine.distinct_tokens(requests[:size]) >= _MEASURED_TOKENS), len(requests))
    progress.note(f"the speed of this judge is unknown: measuring it with {numbered(count, 'verdict')}")
    progress.phase("measuring")
    progress.expect(count)
    start = engine.stats.seconds_total
    answers_in_order(engine, requests[:count], progress)
    return (engine.stats.seconds_total - start) / max(engine.distinct_tokens(requests[:count]), 1)
