"""Estimate the work of a run before it starts (`localjudge run --dry-run`).

    tokens     counted on the real prompts, with shared prefixes once
    seconds    tokens x seconds per token, from the judge's last run here or measured on the first requests
    memory     weights, cache and working space of the model

With `--until` or `--width`, the first samples are judged to estimate the number of samples for a decision. Questions
answered by another run (`--reuse`) or the cache are counted separately and take no tokens or time. Writes no run, but
adds answers about the first samples to the cache if it is on. Only the first round of each metric is counted.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from localjudge.engine.protocol import Engine
from localjudge.metrics.metric import Metric, Sentences
from localjudge.progress import Progress, count_with_progress
from localjudge.record.cache import EarlierAnswers
from localjudge.record.run import Run
from localjudge.run import judges
from localjudge.run.judges import JudgeName, OpenJudge
from localjudge.run.loop import Blocks, TaskRef, Wording, answers_in_order, blocks, digest, distinct, evaluate_samples
from localjudge.run.pace import Pace, pace_of
from localjudge.run.plan import Noted, Plan, report_data
from localjudge.run.settings import seconds_of
from localjudge.run.stopping import AimStatus, Stopping, check_aims
from localjudge.types import NoAnswer, Record, Sample, Verdict, VerdictRequest
from localjudge.words import numbered

_MEASURED_TOKENS = 1024
_MEASURED_REQUESTS = 16


class Needed(Record):
    """Status of an aim after a few samples, with the number of samples and seconds to reach it.

    None if unknown; more samples than there are if the data are too few.
    """

    aim: str
    samples: int | None
    seconds: float | None


class Estimate(Record):
    """Estimated work of a run. `requests` counts all distinct questions; `tokens` and `seconds` cover the remaining
    ones.

    `reused` counts answered questions by source, each once. `seconds` is None if no question remains. `pace` is the
    known speed behind it, or None if it was measured. `until` describes each aim of a run that stops early.
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
        """Number of questions for the judge."""
        return self.requests - sum(self.reused.values())


def estimate_plan(
    planned: Plan,
    *,
    judge: JudgeName | None = None,
    engine: Engine | None = None,
    baseline: Run | None = None,
    progress: Progress | None = None,
) -> Estimate:
    """Count and measure the work of a plan. Raises the errors of `open_judge` and `check_aims`."""
    check_aims(planned, baseline)
    settings, metrics, samples = planned.settings, planned.metrics, planned.dataset.samples
    noted = Noted(progress)
    with judges.use_judge(judge, engine, settings, noted) as opened:
        report_data(planned, noted)
        part = judges.announce_judge(opened, metrics, settings, noted)
        with judges.earlier_answers(opened, part, settings) as earlier:
            counted = _count(planned, opened, earlier, noted)
            aims = _pilot(planned, opened, baseline, earlier, noted) if settings.by_scores else []
        few, pace, seconds = counted.pop("few"), pace_of(opened, settings), None
        if few:
            per_token = pace.seconds_per_token if pace else _seconds_per_token(opened.engine, few, noted)
            seconds = per_token * counted["tokens"]
        each = (seconds or 0) / len(samples) if len(samples) else 0
        if each and settings.budget:
            fit = min(len(samples), int(seconds_of(settings.budget) / each))
            aims.append(AimStatus(f"what fits in {settings.budget}", decided=False, needed=fit))
        return Estimate(
            samples=len(samples),
            metrics=tuple(metric.name for metric in metrics),
            seconds=seconds,
            memory_bytes=opened.engine.memory_bytes,
            pace=pace if few else None,
            until=tuple(
                Needed(aim=aim.words, samples=aim.needed, seconds=aim.needed and aim.needed * each) for aim in aims
            ),
            **counted,
        )


def _count(planned: Plan, judge: OpenJudge, earlier: Sequence[EarlierAnswers], progress: Progress) -> dict[str, Any]:
    """Return the counts for an estimate, and a `few` unanswered requests."""
    settings, samples = planned.settings, planned.dataset.samples
    wording, seen, verdicts, tokens = Wording(judge.judge, judge.engine, settings.sentences), set[bytes](), 0, 0
    reused, few = {source.name: 0 for source in earlier}, list[VerdictRequest]()
    for block in blocks(count_with_progress(samples, progress, "counting", len(samples))):
        tasks = first_tasks(block, planned.metrics, settings.sentences)
        verdicts += len(tasks)
        questions = distinct(wording.worded(tasks))
        requests = {key: keyed.request for key, keyed in questions.items() if digest(key) not in seen}
        seen.update(map(digest, requests))
        for source in earlier:  # counted where a run would take the answers
            answers = source.answers_to(list(requests))
            reused[source.name] += len(answers)
            requests = {key: request for key, request in requests.items() if key not in answers}
        tokens += judge.engine.distinct_tokens(list(requests.values())) if requests else 0
        few += islice(requests.values(), _MEASURED_REQUESTS - len(few))
    return {"verdicts": verdicts, "requests": len(seen), "reused": reused, "tokens": tokens, "few": few}


def first_tasks(samples: Sequence[Sample], metrics: Sequence[Metric], sentences: Sentences) -> list[TaskRef]:
    """Return the tasks of the metrics' first round without asking them."""
    tasks: list[TaskRef] = []

    def note(asked: Sequence[TaskRef]) -> Sequence[Verdict | NoAnswer]:
        tasks.extend(asked)
        return [NoAnswer(error="not asked")] * len(asked)

    evaluate_samples(samples, metrics, sentences, note)
    return tasks


def _pilot(
    planned: Plan, judge: OpenJudge, baseline: Run | None, earlier: Sequence[EarlierAnswers], progress: Progress
) -> list[AimStatus]:
    """Judge a few samples and return the status of each aim."""
    settings, metrics = planned.settings, planned.metrics
    progress.phase("judging the first samples")
    rule, sentences = settings.rule_for(metrics), settings.sentences
    return Stopping(planned, baseline).pilot(Blocks(judge, None, metrics, sentences, rule, progress, earlier))


def _seconds_per_token(engine: Engine, requests: Sequence[VerdictRequest], progress: Progress) -> float:
    sizes = range(1, len(requests))
    count = next((size for size in sizes if engine.distinct_tokens(requests[:size]) >= _MEASURED_TOKENS), len(requests))
    few = requests[:count]
    progress.note(f"no run has timed this judge here yet: asking {numbered(count, 'verdict')} to measure it")
    progress.phase("measuring")
    progress.expect(count)
    before = engine.stats.seconds_total
    answers_in_order(engine, few, progress)
    return (engine.stats.seconds_total - before) / max(engine.distinct_tokens(few), 1)
