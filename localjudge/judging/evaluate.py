"""Evaluate samples. Every run, dry run, verification and certificate does it here.

    block of samples ──metrics──> tasks ──answers──> verdicts ──metrics──> outcomes, or more tasks

Metrics ask in rounds: all metrics ask together about a block, and again, until none has a question
left. The size and position of blocks change no byte. A SampleError makes its sample `Failed`; any
other error stops the run.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TypeVar, get_args

from localjudge import types
from localjudge.errors import SampleError
from localjudge.judging.answers import Answers
from localjudge.judging.questions import TaskRef
from localjudge.metrics import Metric, Sentences, Steps, catalog
from localjudge.metrics.criterion import Criterion
from localjudge.metrics.metric import guarded_steps
from localjudge.run_directory.result_rows import Evaluation, VerdictRow, with_expected
from localjudge.text.segmenter import judged_sentences
from localjudge.types import NoAnswer, Sample, Verdict, VerdictRule

_FIRST_BLOCK = 16
_MAX_BLOCK = 256
_MAX_TIMES = 16
_Item = TypeVar("_Item")
_Rounds = Generator[list[TaskRef], list[Verdict | NoAnswer] | None, Evaluation]
"""Yields the tasks of each round, receives their verdicts, and returns the evaluation."""


def evaluate(
    samples: Iterable[Sample],
    metrics: Sequence[Metric],
    answers: Answers,
    sentences: Sentences,
) -> Iterator[list[Evaluation]]:
    """Yield the evaluations of the samples, block by block."""
    for block in blocks(samples, answers.workers):
        answers.begin(block)
        yield evaluate_samples(block, metrics, sentences, answers.verdicts, answers.rule)


def blocks(samples: Iterable[_Item], workers: int = 1) -> Iterator[list[_Item]]:
    """Yield the samples in growing blocks, so that the first results appear soon.

    Several workers get larger blocks, so that few of them are idle at the end of one.
    """
    rest = iter(samples)
    times = min(workers, _MAX_TIMES)
    size = _FIRST_BLOCK * times
    while block := list(islice(rest, size)):
        yield block
        size = min(2 * size, _MAX_BLOCK * times)


def evaluate_samples(
    samples: Sequence[Sample],
    metrics: Sequence[Metric],
    sentences: Sentences,
    ask: Callable[[Sequence[TaskRef]], Sequence[Verdict | NoAnswer]],
    rule: VerdictRule,
) -> list[Evaluation]:
    """Evaluate all metrics on all samples, ordered by sample, then by metric."""
    cut = judged_sentences(sentences)
    cases: list[_Rounds] = []
    for sample in samples:
        for metric in metrics:
            cases.append(_evaluate_in_rounds(sample, metric, cut, rule))
    evaluations: dict[int, Evaluation] = {}
    rounds: dict[int, list[TaskRef]] = {}

    def advance(case: int, verdicts: list[Verdict | NoAnswer] | None) -> None:
        try:
            rounds[case] = cases[case].send(verdicts)
        except StopIteration as finished:
            evaluations[case] = finished.value

    for case in range(len(cases)):
        advance(case, None)
    while rounds:
        asked = rounds
        rounds = {}
        verdicts = iter(ask(list(chain.from_iterable(asked.values()))))
        for case, tasks in asked.items():
            advance(case, list(islice(verdicts, len(tasks))))
    return [evaluations[case] for case in range(len(cases))]


def _evaluate_in_rounds(
    sample: Sample, metric: Metric, sentences: Sentences, rule: VerdictRule
) -> _Rounds:
    rows: list[VerdictRow] = []
    steps = _start(metric, sample, sentences)
    try:
        tasks = next(steps)
        while True:
            refs: list[TaskRef] = []
            for position, task in enumerate(tasks, len(rows)):
                refs.append(TaskRef(sample.id, metric.name, position, task))
            verdicts: list[Verdict | NoAnswer] = []
            if refs:
                verdicts = (yield refs) or []
            for ref, verdict in zip(refs, verdicts, strict=True):
                unit = ref.task.unit
                rows.append(VerdictRow.of(sample.id, metric.name, len(rows), unit, verdict))
            errors = [verdict.error for verdict in verdicts if isinstance(verdict, NoAnswer)]
            if errors:
                missing = f"no verdict for {len(errors)} of {len(verdicts)} units"
                outcome: types.Outcome = types.Failed(reason=f"{missing}: {errors[0]}")
                break
            tasks = steps.send([each for each in verdicts if isinstance(each, Verdict)])
    except StopIteration as finished:
        outcome = finished.value
    except SampleError as error:
        outcome = types.Failed(reason=error.in_one_line)
    evaluation = Evaluation(sample.id, metric.name, outcome, tuple(rows))
    return with_expected(evaluation, metric, rule)


def _start(metric: Metric, sample: Sample, sentences: Sentences) -> Steps:
    """Run the steps of a metric, unless the sample lacks what it reads."""
    nulls: list[str] = []
    for field in get_args(types.FieldName):
        if field in metric.required_fields and getattr(sample, field) is None:
            nulls.append(f"{field} is null")
    if nulls:
        return types.Undefined(reason=" and ".join(nulls))
    without_texts: list[str] = []
    for field in types.CONTEXT_FIELDS:
        has_bare_ids = any(context.text is None for context in getattr(sample, field) or ())
        if field in catalog.fields_read_as_text(metric) and has_bare_ids:
            without_texts.append(f"{field} has ids and no texts")
    if without_texts:
        return types.Undefined(reason=" and ".join(without_texts))
    if catalog.is_ours(metric.name) or isinstance(metric, Criterion):
        return (yield from metric.steps(sample, sentences))
    return (yield from guarded_steps(metric, sample, sentences))
