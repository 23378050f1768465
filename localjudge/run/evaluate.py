"""Advances every metric on every sample, in rounds; the only place where a sample may fail.

    round 1   sample 1: metric a asks 3, metric b asks 2    sample 2: metric a asks 5    ...   asked together
    round 2   metrics that asked again                                                   ...   until none does

All questions of a round are asked together, so that the engine can share what they have in common. The outcome is
`Scored`, `Undefined` or `Failed`: an error that speaks of one sample becomes its `Failed`, anything else stops the run.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import get_args

from localjudge.errors import SampleError
from localjudge.metrics import Metric, Sentences, Steps, catalog, foreign
from localjudge.metrics.catalog import reads_texts_of
from localjudge.metrics.criterion import Criterion
from localjudge.record.evaluation import Evaluation, JudgedUnit
from localjudge.run.wording import AskedTask
from localjudge.types import (
    CONTEXT_FIELDS,
    Failed,
    FieldName,
    NoAnswer,
    Outcome,
    Sample,
    Span,
    Task,
    Undefined,
    Verdict,
)

Ask = Callable[[Sequence[AskedTask]], Sequence[Verdict | NoAnswer]]
"""Tasks in, one verdict for each, in their order."""

_CUTS_KEPT = 4096


def evaluate_samples(
    samples: Sequence[Sample], metrics: Sequence[Metric], sentences: Sentences, ask: Ask
) -> list[Evaluation]:
    """All metrics on all samples, in the order of the samples, then of the metrics."""
    cut = _remembering(sentences)
    cases = [_Case(sample, metric, cut) for sample in samples for metric in metrics]
    while waiting := [case for case in cases if case.tasks]:
        verdicts = iter(ask([asked for case in waiting for asked in case.asked_tasks()]))
        for case in waiting:
            case.advance([next(verdicts) for _ in case.tasks])
    return [case.result() for case in cases]


class _Case:
    """One metric on one sample, in progress: `tasks` is what it wants to know next, nothing once it has an outcome."""

    def __init__(self, sample: Sample, metric: Metric, sentences: Sentences) -> None:
        self._sample = sample
        self._metric = metric
        self._steps = _steps(sample, metric, sentences)
        self._units: list[JudgedUnit] = []
        self._outcome: Outcome | None = None
        self.tasks: Sequence[Task] = ()
        self._step(None)

    def asked_tasks(self) -> list[AskedTask]:
        """The tasks with their positions among the sample's verdicts."""
        first = len(self._units)
        return [
            AskedTask(self._sample.id, self._metric.name, position, task)
            for position, task in enumerate(self.tasks, first)
        ]

    def advance(self, verdicts: Sequence[Verdict | NoAnswer]) -> None:
        """Hand the metric its verdicts, or fail where one is missing."""
        self._units += [JudgedUnit(task.unit, verdict) for task, verdict in zip(self.tasks, verdicts, strict=True)]
        errors = [verdict.error for verdict in verdicts if isinstance(verdict, NoAnswer)]
        if errors:
            self._end(Failed(reason=f"no verdict for {len(errors)} of {len(verdicts)} units: {errors[0]}"))
        else:
            self._step([verdict for verdict in verdicts if isinstance(verdict, Verdict)])

    def result(self) -> Evaluation:
        """What came of it."""
        assert self._outcome is not None, "a case that asks nothing more has an outcome"
        return Evaluation(self._sample.id, self._metric.name, self._outcome, tuple(self._units))

    def _step(self, verdicts: Sequence[Verdict] | None) -> None:
        try:
            self.tasks = next(self._steps) if verdicts is None else self._steps.send(verdicts)
            while not self.tasks:
                self.tasks = self._steps.send([])
        except StopIteration as finished:
            self._end(finished.value)
        except SampleError as error:
            self._end(Failed(reason=error.in_one_line))

    def _end(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self.tasks = ()


def _steps(sample: Sample, metric: Metric, sentences: Sentences) -> Steps:
    """The metric's own steps, guarded if it is not ours; a field that it needs and lacks ends them at once."""
    nulls = [
        field for field in get_args(FieldName) if field in metric.required_fields and getattr(sample, field) is None
    ]
    if nulls:
        return Undefined(reason=" and ".join(f"{field} is null" for field in nulls))
    bare = [field for field in CONTEXT_FIELDS if field in reads_texts_of(metric) and _lacks_text(sample, field)]
    if bare:
        return Undefined(reason=" and ".join(f"{field} has ids and no texts" for field in bare))
    if catalog.is_ours(metric.name) or isinstance(metric, Criterion):
        return (yield from metric.steps(sample, sentences))
    return (yield from foreign.guarded_steps(metric, sample, sentences))


def _lacks_text(sample: Sample, field: FieldName) -> bool:
    return any(context.text is None for context in getattr(sample, field))


def _remembering(sentences: Sentences) -> Sentences:
    """Sentences that say something: a line of dashes has no letter and no digit, and is in no denominator.

    Remembered, because several metrics cut the same text and many samples retrieve the same passage.
    """

    @lru_cache(maxsize=_CUTS_KEPT)
    def cut(text: str) -> tuple[Span, ...]:
        return tuple(span for span in sentences(text) if any(map(str.isalnum, span.text)))

    return cut
