from collections.abc import Sequence

import pytest

from localjudge import Sample
from localjudge.judging.evaluate import evaluate_samples
from localjudge.judging.questions import TaskRef
from localjudge.metrics import (
    Context,
    Failed,
    Relevance,
    SampleError,
    Scored,
    Sentences,
    Span,
    Steps,
    Undefined,
    Unit,
    Verdict,
)
from localjudge.metrics.attribution import context_recall
from localjudge.metrics.relevancy import context_relevancy
from localjudge.text import sentences
from localjudge.types import NoAnswer


def sample(identifier: str = "a", **fields: object) -> Sample:
    content = {
        "reference": "One. Two.",
        "retrieved_contexts": [Context(text="Three. Four.")],
        "user_input": "Why?",
    }
    return Sample.model_validate({"id": identifier, **content, **fields})


class Recorder:
    """Answer from a table of unit texts (default 1) and record each round."""

    def __init__(self, **said: Verdict | NoAnswer) -> None:
        self.said = said
        self.rounds: list[list[TaskRef]] = []

    def __call__(self, tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        """Answer one round."""
        self.rounds.append(list(tasks))
        return [
            self.said.get(asked.task.unit.span.text.rstrip("."), Verdict(label=1))
            for asked in tasks
        ]


def unit(text: str, index: int = 0) -> Unit:
    return Unit(kind="sentence", index=index, source="reference", span=Span.whole(text))


class TwoRounds:
    """A metric with a second question if the first is answered with 1."""

    name = "two_rounds"
    version = 1
    required_fields = frozenset[str]()

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask, ask for an empty round, and perhaps ask again."""
        (first,) = yield [Relevance(unit=unit("First"), user_input="?")]
        nothing = yield []
        assert list(nothing) == []
        if first.label == 0:
            return Scored(value=0)
        verdicts = yield [Relevance(unit=unit("Second", 1), user_input="?")]
        return Scored.fraction(verdict.label for verdict in verdicts)


class Computed:
    """A metric without a judge that fails on one sample."""

    name = "computed"
    version = 1
    required_fields = frozenset[str]()

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Return 1, unless the sample is bad."""
        yield from ()
        if sample.id == "bad":
            raise SampleError("cannot be done", hint="do something else")
        return Scored(value=1)


def test_a_metric_that_asks_again_gets_a_second_round() -> None:
    """The other sample shares the first round and ends there."""
    ask = Recorder()
    (evaluated,) = evaluate_samples([sample()], [TwoRounds()], sentences, ask)
    assert [[asked.task.unit.span.text for asked in tasks] for tasks in ask.rounds] == [
        ["First"],
        ["Second"],
    ]
    assert [asked.position for tasks in ask.rounds for asked in tasks] == [0, 1]
    assert [verdict.position for verdict in evaluated.verdicts] == [0, 1]


def test_one_unit_without_an_answer_fails_its_sample_for_that_metric_only() -> None:
    ask = Recorder(Two=NoAnswer(error="it does not fit"))
    evaluations = evaluate_samples(
        [sample(), sample("b")], [context_recall(), context_relevancy()], sentences, ask
    )
    names = [(evaluation.sample_id, evaluation.metric) for evaluation in evaluations]
    assert names == [
        (row, metric) for row in "ab" for metric in ("context_recall", "context_relevancy")
    ]
    assert [len(tasks) for tasks in ask.rounds] == [8], (
        "2 samples x (2 sentences of each text), asked together"
    )
    recall, relevancy = evaluations[:2]
    assert recall.outcome == Failed(reason="no verdict for 1 of 2 units: it does not fit")
    assert [(verdict.label, verdict.error) for verdict in recall.verdicts] == [
        (1, None),
        (None, "it does not fit"),
    ]
    assert relevancy.outcome == Scored(value=1, numerator=2, denominator=2)


def test_a_sample_error_fails_only_its_sample() -> None:
    bad, good = evaluate_samples(
        [sample("bad"), sample("good")], [Computed()], sentences, Recorder()
    )
    assert bad.outcome == Failed(reason="cannot be done (do something else)")
    assert good.outcome == Scored(value=1)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"reference": None}, "reference is null"),
        (
            {"reference": None, "retrieved_contexts": None},
            "retrieved_contexts is null and reference is null",
        ),
    ],
)
def test_a_null_in_a_needed_field_is_undefined(fields: dict[str, object], reason: str) -> None:
    ask = Recorder()
    (evaluated,) = evaluate_samples([sample("a", **fields)], [context_recall()], sentences, ask)
    assert (evaluated.outcome, ask.rounds) == (Undefined(reason=reason), [])
