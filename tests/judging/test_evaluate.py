"""Rounds of questions, and samples without a score."""

from pathlib import Path
from typing import Any

import pytest

from localjudge import Run, Sample, ScriptedEngine, evaluate
from localjudge.engine.scripted import unit_text
from localjudge.metrics import Relevance, SampleError, Scored, Sentences, Span, Steps, Unit

ROW = {
    "id": "a",
    "reference": "One. Two.",
    "retrieved_contexts": ["Three. Four."],
    "user_input": "Why?",
}


def judged(
    out: Path, *rows: dict[str, Any], metrics: Any, **script: float | str
) -> tuple[Run, list[str]]:
    """Return a run, and the texts that were asked about; texts without a script get 1."""
    engine = ScriptedEngine({f"{text}.": said for text, said in script.items()}, default=1.0)
    run = evaluate(rows, metrics=metrics, engine=engine, out=out, max_failed=0)
    return run, [unit_text(request) for request in engine.asked]


class TwoRounds:
    """A metric with a second question if the first is answered with 1."""

    name = "two_rounds"
    version = 1
    required_fields = frozenset[str]()

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask, ask for an empty round, and perhaps ask again."""
        (first,) = yield [self.ask(f"First {sample.id}.", 0)]
        nothing = yield []
        assert list(nothing) == []
        if first.label == 0:
            return Scored(value=0)
        verdicts = yield [self.ask("Second.", 1)]
        return Scored.fraction(verdict.label for verdict in verdicts)

    def ask(self, text: str, index: int) -> Relevance:
        """Return a question about this text."""
        unit = Unit(kind="sentence", index=index, source="reference", span=Span.whole(text))
        return Relevance(unit=unit, user_input="?")


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


def test_a_metric_that_asks_again_gets_a_second_round(tmp_path: Path) -> None:
    """All samples share the first round, and the second sample ends there."""
    rows = [{**ROW, "id": name} for name in ("x", "y", "z")]
    run, asked = judged(tmp_path, *rows, metrics=[TwoRounds()], **{"First y": 0.0})
    assert asked == ["First x.", "First y.", "First z.", "Second."]
    verdicts = [(row.sample_id, row.position, row.label) for row in run.verdicts]
    assert verdicts == [("x", 0, 1), ("x", 1, 1), ("y", 0, 0), ("z", 0, 1), ("z", 1, 1)]
    assert [row.score for row in run.scores] == [1, 0, 1]


def test_one_unit_without_an_answer_fails_its_sample_for_that_metric_only(
    tmp_path: Path,
) -> None:
    """Metrics ask together about all samples: 2 sentences of each text."""
    metrics = ["context_recall", "context_relevancy"]
    run, asked = judged(tmp_path, ROW, metrics=metrics, Two="it does not fit")
    assert asked == ["One.", "Two.", "Three.", "Four."]
    recall, relevancy = run.scores
    assert recall.status == "failed"
    assert recall.detail == "no verdict for 1 of 2 units: it does not fit"
    assert [(row.label, row.error) for row in run.verdicts[:2]] == [
        (1, None),
        (None, "it does not fit"),
    ]
    assert (relevancy.score, relevancy.numerator, relevancy.denominator) == (1, 2, 2)


def test_a_sample_error_fails_only_its_sample(tmp_path: Path) -> None:
    rows = [{**ROW, "id": name} for name in ("bad", "good")]
    run, _ = judged(tmp_path, *rows, metrics=[Computed()])
    bad, good = run.scores
    assert (bad.status, bad.detail) == ("failed", "cannot be done (do something else)")
    assert good.score == 1


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
def test_a_null_in_a_needed_field_is_undefined(
    tmp_path: Path, fields: dict[str, Any], reason: str
) -> None:
    rows = [{**ROW, **fields}, {**ROW, "id": "b"}]
    run, asked = judged(tmp_path, *rows, metrics=["context_recall"])
    assert [row.status for row in run.scores] == ["undefined", "scored"]
    assert run.scores[0].detail == reason
    assert asked == ["One.", "Two."]
