"""What a run would take, before it is begun: `localjudge run --dry-run`.

    tokens     counted on the real prompts, those that requests share once
    seconds    tokens x seconds a token, measured on this machine with the first requests of this data
    memory     weights, cache and working space of the model

Questions that another run (`--reuse`) or the user's cache has answered are counted apart: they take no tokens and no
time. Nothing is written. Of a metric that asks in several rounds only the first is counted.

Metrics share questions, and questions share the beginnings of their prompts. What several metrics need is counted once,
with the first of them: a metric's share is what it adds to those before it, and the shares sum up to the whole.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

from localjudge.engine.protocol import Engine
from localjudge.metrics.metric import Metric, Sentences
from localjudge.progress import Progress, Silence, counted
from localjudge.record.cache import EarlierAnswers
from localjudge.record.store import KeyedRequest
from localjudge.run import judges
from localjudge.run.judges import DEFAULT_JUDGE, JudgeName
from localjudge.run.loop import TaskRef, Worded, Wording, answers_in_order, blocks, distinct, evaluate_samples
from localjudge.run.plan import Data, Noted, Plan, plan, tell
from localjudge.run.settings import checked
from localjudge.types import NoAnswer, Record, Sample, Verdict, VerdictRequest

_MEASURED_TOKENS = 1024
_MEASURED_REQUESTS = 16
_DIGEST_BYTES = 16
"""So much of a key is kept of each question: 1,000,000 take about 100 MB."""


class MetricShare(Record):
    """What a metric adds to those before it. `verdicts` are all of its own; `requests` those that none before it asks.

    Of the requests so many are `answered` already. `tokens` are those of the others, and `seconds` is its part of the
    whole time by its tokens; None where nothing is asked.
    """

    verdicts: int = 0
    requests: int = 0
    answered: int = 0
    tokens: int = 0
    seconds: float | None = None


class Estimate(Record):
    """What a run would take. `requests` are all distinct questions; `tokens` and `seconds` are of those that remain.

    `reused` counts the questions that are answered already, by where: other runs, the cache; each is counted once.
    `seconds` is None where nothing is asked.
    """

    schema_version: int = 1
    samples: int
    metrics: tuple[str, ...]
    by_metric: dict[str, MetricShare]
    verdicts: int
    requests: int
    reused: dict[str, int]
    tokens: int
    seconds: float | None
    memory_bytes: int

    @property
    def remaining(self) -> int:
        """Questions that the judge would be asked."""
        return self.requests - sum(self.reused.values())


def estimate(
    data: Data,
    *,
    judge: JudgeName = DEFAULT_JUDGE,
    metrics: object = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Estimate:
    """Count and measure what `evaluate` with the same arguments would do; raises what it would raise at the start."""
    settings, progress = checked(options), progress or Silence()
    with closing(progress):
        planned = plan(data, metrics, settings, progress)
        return estimate_plan(planned, judge=judge, engine=engine, progress=progress)


def estimate_plan(
    planned: Plan,
    *,
    judge: JudgeName = DEFAULT_JUDGE,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Estimate:
    """The same for what was planned; raises what opening the judge raises."""
    settings, noted = planned.settings, Noted(progress)
    metrics, samples = planned.metrics, planned.dataset.samples
    with (
        judges.opened_judge(judge, engine, settings) as opened,
        judges.earlier_answers(opened, metrics, settings) as earlier,
    ):
        tell(planned, noted)
        judges.refuse_unaskable(opened, metrics)
        for line in opened.announcement.splitlines()[1:]:  # to count tokens, a server is sent texts too
            noted.note(line)
        judges.check_calibrations(judges.judge_part_of(opened, metrics, settings), metrics, settings, noted)
        wording = Wording(opened.judge, opened.engine, settings.sentences)
        counts = _Counts(opened.engine, metrics, earlier)
        for block in blocks(counted(samples, noted, "counting", len(samples))):
            tasks = first_tasks(block, metrics, settings.sentences)
            counts.add(tasks, wording.worded(tasks))
        return counts.estimate(len(samples))


def first_tasks(samples: Sequence[Sample], metrics: Sequence[Metric], sentences: Sentences) -> list[TaskRef]:
    """What the metrics ask in their first round; nobody is asked."""
    tasks: list[TaskRef] = []

    def note(asked: Sequence[TaskRef]) -> Sequence[Verdict | NoAnswer]:
        tasks.extend(asked)
        return [NoAnswer(error="not asked")] * len(asked)

    evaluate_samples(samples, metrics, sentences, note)
    return tasks


class _Counts:
    """What the blocks of the data come to; a question that was in an earlier block is not asked again."""

    def __init__(self, engine: Engine, metrics: Sequence[Metric], earlier: Sequence[EarlierAnswers]) -> None:
        self._engine = engine
        self._earlier = earlier
        self._reused = {source.name: 0 for source in earlier}
        self._seen: set[bytes] = set()
        self._first: list[VerdictRequest] = []
        self._shares = {metric.name: MetricShare() for metric in metrics}

    def add(self, tasks: Sequence[TaskRef], worded: Sequence[Worded]) -> None:
        """The next block: what each metric adds to those before it."""
        of_metric: dict[str, list[Worded]] = {name: [] for name in self._shares}
        for task, questions in zip(tasks, worded, strict=True):
            of_metric[task.metric].append(questions)
        new = {name: self._new(distinct(its)) for name, its in of_metric.items()}
        unanswered = {key for its in new.values() for key in its}
        for earlier in self._earlier:  # counted where a run would take the answers
            answers = earlier.answers_to(list(unanswered))
            self._reused[earlier.name] += len(answers)
            unanswered -= answers.keys()
        asked: list[VerdictRequest] = []
        tokens_before = 0
        for name, its in new.items():
            rest = [request for key, request in its.items() if key in unanswered]
            asked += rest
            tokens = self._engine.distinct_tokens(asked) if rest else tokens_before
            share = self._shares[name]
            self._shares[name] = MetricShare(
                verdicts=share.verdicts + len(of_metric[name]),
                requests=share.requests + len(its),
                answered=share.answered + len(its) - len(rest),
                tokens=share.tokens + tokens - tokens_before,
            )
            tokens_before = tokens
        self._first += islice(asked, _MEASURED_REQUESTS - len(self._first))

    def _new(self, questions: Mapping[str, KeyedRequest]) -> dict[str, VerdictRequest]:
        """The requests that were not counted before, and are from now on, by their keys."""
        new: dict[str, VerdictRequest] = {}
        for key, keyed in questions.items():
            digest = bytes.fromhex(key)[:_DIGEST_BYTES]
            if digest not in self._seen:
                self._seen.add(digest)
                new[key] = keyed.request
        return new

    def estimate(self, samples: int) -> Estimate:
        """What all blocks come to; each metric with its part of the time."""
        tokens = sum(share.tokens for share in self._shares.values())
        seconds = self._seconds(tokens)
        per_token = seconds / tokens if seconds is not None and tokens else None
        return Estimate(
            samples=samples,
            metrics=tuple(self._shares),
            by_metric={
                name: share.model_copy(update={"seconds": None if per_token is None else per_token * share.tokens})
                for name, share in self._shares.items()
            },
            verdicts=sum(share.verdicts for share in self._shares.values()),
            requests=len(self._seen),
            reused=self._reused,
            tokens=tokens,
            seconds=seconds,
            memory_bytes=self._engine.memory_bytes,
        )

    def _seconds(self, tokens: int) -> float | None:
        """Time for so many tokens, from the time of the first few requests."""
        few = [*islice(self._first, 1)]
        for request in self._first[1:]:
            if self._engine.distinct_tokens(few) >= _MEASURED_TOKENS:
                break
            few.append(request)
        if not few:
            return None
        before = self._engine.stats.seconds_total
        answers_in_order(self._engine, few, Silence())
        took = self._engine.stats.seconds_total - before
        return took * tokens / max(self._engine.distinct_tokens(few), 1)
