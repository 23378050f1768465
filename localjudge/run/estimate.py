"""What a run would take, before it is begun: `localjudge run --dry-run`.

    tokens     counted on the real prompts, those that requests share once
    seconds    tokens x seconds a token, measured on this machine with the first requests of this data
    memory     weights, cache and working space of the model

Nothing is written. Of a metric that asks in several rounds only the first is counted.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from localjudge.engine.protocol import Engine
from localjudge.metrics.metric import Sentences
from localjudge.progress import Progress, Silence
from localjudge.run.answers import answers_in_order
from localjudge.run.data_notes import tell
from localjudge.run.evaluate import evaluate_samples
from localjudge.run.judges import DEFAULT_JUDGE, opened
from localjudge.run.plan import Data, Plan, plan
from localjudge.run.settings import Options, checked
from localjudge.run.wording import AskedTask, Wording, distinct
from localjudge.types import NoAnswer, Record, Verdict, VerdictRequest

_MEASURED_TOKENS = 1024
_MEASURED_REQUESTS = 16


class Estimate(Record):
    """What a run would take. `seconds` is None where nothing is asked."""

    schema_version: int = 1
    samples: int
    metrics: tuple[str, ...]
    verdicts: int
    requests: int
    tokens: int
    seconds: float | None
    memory_bytes: int


def estimate(
    data: Data,
    *,
    judge: str | Path = DEFAULT_JUDGE,
    metrics: Sequence[str] | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
    **options: Unpack[Options],
) -> Estimate:
    """Count and measure what `evaluate` with the same arguments would do; raises what it would raise at the start."""
    planned = plan(data, metrics, checked(options))
    return estimate_plan(planned, judge=judge, engine=engine, progress=progress)


def estimate_plan(
    planned: Plan,
    *,
    judge: str | Path = DEFAULT_JUDGE,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Estimate:
    """The same for what was planned; raises what opening the judge raises."""
    settings = planned.settings
    tell(planned, progress or Silence())
    segmenter = settings.sentences
    tasks = first_tasks(planned, segmenter)
    with opened(str(judge), engine, settings) as ours:
        worded = Wording(ours.judge, ours.engine, segmenter).worded(tasks)
        requests = [keyed.request for keyed in distinct(worded).values()]
        tokens = ours.engine.distinct_tokens(requests)
        return Estimate(
            samples=len(planned.dataset.samples),
            metrics=tuple(metric.name for metric in planned.metrics),
            verdicts=len(tasks),
            requests=len(requests),
            tokens=tokens,
            seconds=_seconds(ours.engine, requests, tokens),
            memory_bytes=ours.engine.memory_bytes,
        )


def first_tasks(planned: Plan, sentences: Sentences) -> list[AskedTask]:
    """What the metrics ask in their first round; nobody is asked."""
    tasks: list[AskedTask] = []

    def note(asked: Sequence[AskedTask]) -> Sequence[Verdict | NoAnswer]:
        tasks.extend(asked)
        return [NoAnswer(error="not asked")] * len(asked)

    evaluate_samples(planned.dataset.samples, planned.metrics, sentences, note)
    return tasks


def _seconds(engine: Engine, requests: Sequence[VerdictRequest], tokens: int) -> float | None:
    """Time for all requests, from the time of the first few."""
    if not requests:
        return None
    few = 1
    while few < min(len(requests), _MEASURED_REQUESTS) and engine.distinct_tokens(requests[:few]) < _MEASURED_TOKENS:
        few += 1
    before = engine.stats.seconds_total
    answers_in_order(engine, requests[:few], Silence())
    return (engine.stats.seconds_total - before) * tokens / max(engine.distinct_tokens(requests[:few]), 1)
