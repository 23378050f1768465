"""Means, counts and intervals of runs by hand, and the rows that they leave."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from localjudge import Criterion, Run, Sample, ScriptedEngine, evaluate
from localjudge.metrics import Outcome, SampleError, Scored, Sentences, Steps, Undefined
from localjudge.stats.interval import mean_interval
from localjudge.types import Answer, NoAnswer, VerdictRequest

NO = Undefined(reason="none")
FAIL = SampleError("broken")
Given = Outcome | SampleError | float


@dataclass(frozen=True)
class Measured:
    """A metric with these outcomes by the id of the sample."""

    outcomes: tuple[Given, ...]
    name: str = "m"
    version: int = 1
    required_fields: frozenset[str] = frozenset()

    def steps(self, sample: Sample, _: Sentences) -> Steps:
        """Return the outcome of the sample without a question."""
        yield from ()
        outcome = self.outcomes[int(sample.id)]
        if isinstance(outcome, SampleError):
            raise outcome
        if isinstance(outcome, float):
            outcome = Scored(value=outcome)
        return outcome


def measured(
    *outcomes: Given, clusters: str = "", order: int = 1, out: Path | None = None, **how: Any
) -> Run:
    rows: list[dict[str, Any]] = []
    for number in range(len(outcomes))[::order]:
        rows.append({"id": str(number), "response": "a"})
        if clusters:
            rows[-1]["group"] = clusters[number]
            how["cluster_by"] = "group"
    engine = ScriptedEngine({})
    metrics = [Measured(outcomes)]
    where: Any = out or False
    return evaluate(rows, metrics=metrics, engine=engine, out=where, max_failed=1, **how)


def metric(*outcomes: Given, clusters: str = "") -> Any:
    return measured(*outcomes, clusters=clusters)["m"]


def test_mean_skips_failed_samples_and_bounds_count_them_as_0_and_1() -> None:
    """(1 + 0.5) / 2; low (1 + 0.5 + 0) / 3 = 0.5, high (1 + 0.5 + 1) / 3 = 5/6; undefined: none."""
    summary = metric(1.0, 0.5, NO, FAIL)
    assert (summary.mean, summary.scored, summary.undefined, summary.failed) == (0.75, 2, 1, 1)
    assert summary.bounds == pytest.approx((0.5, 5 / 6))


def test_intervals_and_clusters_are_those_of_the_scored_samples() -> None:
    interval = mean_interval([1.0, 0.5, 0.25])
    assert metric(1.0, NO, 0.5, 0.25).ci95 == (interval.low, interval.high)
    interval = mean_interval([1.0, 0.5, 0.25], clusters=["x", "x", "y"])
    summary = metric(1.0, 0.5, NO, 0.25, clusters="xxzy")
    assert (summary.ci95, summary.clusters, summary.method) == (
        (interval.low, interval.high),
        2,
        "clustered bootstrap",
    )
    alone = metric(1.0, 0.5, clusters="xx")
    assert (alone.mean, alone.ci95, alone.clusters, alone.by_judge and alone.by_judge.ci95) == (
        0.75,
        None,
        1,
        None,
    )


@pytest.mark.parametrize(("outcomes", "bounds"), [([NO, NO], None), ([FAIL], (0.0, 1.0))])
def test_nothing_scored_has_no_mean(
    outcomes: list[Given], bounds: tuple[float, float] | None
) -> None:
    summary = metric(*outcomes)
    assert (summary.mean, summary.ci95, summary.bounds) == (None, None, bounds)
    assert (summary.scored, summary.undefined, summary.failed) == (
        0,
        outcomes.count(NO),
        outcomes.count(FAIL),
    )


class Answering(ScriptedEngine):
    """Gives these answers in order."""

    def __init__(self, answers: Sequence[Answer | NoAnswer], **how: Any) -> None:
        super().__init__({}, **how)
        self.left = list(answers)

    def _answer(self, _: VerdictRequest) -> Answer | NoAnswer:
        return self.left.pop(0)


def answer(p_yes: float, valid_mass: float = 1.0) -> Answer:
    return Answer(p_yes=p_yes, valid_mass=valid_mass, raw="")


def judged(*answers: Answer | NoAnswer, **options: Any) -> Run:
    """Return a run with a statement for each answer, and one without a context."""
    statements = " ".join(f"It is number {number}, too." for number in range(len(answers)))
    contexts = ["All."]
    rows = [
        {"id": "a", "retrieved_contexts": contexts, "response": statements},
        {"id": "b", "retrieved_contexts": [""], "response": "It is so."},
    ]
    settings = {"metrics": ["faithfulness"], "max_failed": 2, **options}
    return evaluate(rows, engine=Answering(answers), out=False, **settings)


def decidedness(*answers: Answer | NoAnswer, **options: Any) -> tuple[Any, ...]:
    found: Any = judged(*answers, **options).summary.verdicts
    return found.count, found.near_threshold, found.median_valid_mass


def test_near_threshold_verdicts_and_median_valid_mass_by_hand() -> None:
    """.41, .5 and .6 of four are within .1 of .5; of .002, .2, .8, .9 and 1 the median is .8.

    An invalid answer has a mass. A label without a model has neither. Of two masses the lower
    counts.
    """
    answers = (
        answer(0.41, 0.2),
        answer(0.5, 1.0),
        answer(0.6, 0.9),
        answer(0.97, 0.8),
        answer(0.5, 0.002),
        NoAnswer(error="too long"),
    )
    assert decidedness(*answers) == (4, 0.75, 0.8)
    assert decidedness(answer(1, 0.25), answer(1, 0.5))[2] == 0.25
    assert decidedness(NoAnswer(error="too long")) == (0, None, None)
    assert decidedness(answer(1, 0.5), answer(0.5, 0.002))[2] == 0.002


def test_rubric_levels_are_not_near_the_threshold() -> None:
    """Level 3 of 5 is an expected value of .5 and no probability, so only its mass counts."""
    levels = {level: f"level {level}" for level in range(1, 6)}
    tone = Criterion(name="tone", question="How kind?", levels=levels)
    answers = [answer(0.9, 0.75), answer(0.5, 0.25), answer(0.5, 0.25)]
    rows = [{"id": "a", "retrieved_contexts": ["All."], "response": "It is so."}]
    rows.append({"id": "b", "response": "It is so."})
    run = evaluate(rows, metrics=["faithfulness", tone], engine=Answering(answers), out=False)
    found: Any = run.summary.verdicts
    assert (found.count, found.near_threshold, found.median_valid_mass) == (1, 0.0, 0.25)


def test_a_summary_does_not_depend_on_the_order_of_samples() -> None:
    scores = tuple(number / 7 for number in range(8))
    forwards = measured(*scores)
    backwards = measured(*scores, order=-1)
    assert forwards.summary.metrics == backwards.summary.metrics
    assert forwards.summary.samples == backwards.summary.samples == 8


def test_verdicts_on_windows_are_counted() -> None:
    """A text of three times the room is asked about in parts, a short one is not."""
    long = " ".join(f"Number {n} is so." for n in range(300))
    rows = [
        {"id": name, "retrieved_contexts": [context], "response": "It is so. It is."}
        for name, context in (("long", long), ("short", "All."))
    ]
    engine = ScriptedEngine({}, default=0.9, capacity=4_000)
    run = evaluate(rows, metrics=["faithfulness"], engine=engine, out=False, profile="instruct")
    assert sum(row.window is not None for row in run.verdicts) == 2
    assert run.summary.verdicts is not None
    assert run.summary.verdicts.windowed == 2


def test_score_rows_hold_the_contract_s_keys_in_order(tmp_path: Path) -> None:
    run = measured(
        Scored(value=2 / 3, expected=0.61, numerator=2, denominator=3),
        Undefined(reason="the reference has no sentence"),
        SampleError("too long"),
        Scored(value=0.5, detail="said so"),
        out=tmp_path / "run",
    )
    assert (run.directory / "scores.jsonl").read_text(encoding="utf-8") == (
        '{"sample_id": "0", "metric": "m", "status": "scored",'
        ' "score": 0.6666666666666666,'
        ' "numerator": 2, "denominator": 3, "detail": null, "expected": 0.61}\n'
        '{"sample_id": "1", "metric": "m", "status": "undefined", "score": null,'
        ' "numerator": null, "denominator": null, "detail": "the reference has no sentence",'
        ' "expected": null}\n'
        '{"sample_id": "2", "metric": "m", "status": "failed", "score": null,'
        ' "numerator": null, "denominator": null, "detail": "too long", "expected": null}\n'
        '{"sample_id": "3", "metric": "m", "status": "scored", "score": 0.5,'
        ' "numerator": null, "denominator": null, "detail": "said so", "expected": 0.5}\n'
    )


def test_verdict_rows_hold_the_contract_s_keys_in_order(tmp_path: Path) -> None:
    """A unit without a verdict is listed with its error; keys from `against` on are additions."""
    first = Answer(p_yes=0.75, valid_mass=0.5, raw="", reason="so")
    run = evaluate(
        [{"id": "a", "user_input": "Why?", "retrieved_contexts": ["Größe. Two."]}],
        metrics=["context_relevancy"],
        engine=Answering([first, NoAnswer(error="too long")]),
        out=tmp_path / "run",
        max_failed=1,
    )
    assert (run.directory / "verdicts.jsonl").read_text(encoding="utf-8") == (
        '{"sample_id": "a", "metric": "context_relevancy", "unit": "sentence", "index": 0,'
        ' "source": "retrieved_contexts", "source_index": 0, "start": 0, "end": 6,'
        ' "text": "Größe.",'
        ' "p_yes": 0.75, "label": 1, "reason": "so", "window": null, "error": null,'
        ' "against": null, "valid_mass": 0.5, "position": 0}\n'
        '{"sample_id": "a", "metric": "context_relevancy", "unit": "sentence", "index": 1,'
        ' "source": "retrieved_contexts", "source_index": 0, "start": 7, "end": 11, "text": "Two.",'
        ' "p_yes": null, "label": null, "reason": null, "window": null,'
        ' "error": "too long", "against": null,'
        ' "valid_mass": null, "position": 1}\n'
    )


def test_any_characters_round_trip_as_one_utf8_line(tmp_path: Path) -> None:
    """Python's `splitlines` also breaks at U+2028 and U+0085."""
    letters = [
        chr(number) for number in (*range(1, 0x100), *range(0x2000, 0x2070), 0xFEFF, 0x1F600)
    ]
    words = [f"a{letter}b" for letter in letters]
    numbers = count(1)
    engine = ScriptedEngine(lambda _: next(numbers) / 1_000)
    rows = [
        {"id": str(number), "retrieved_contexts": ["All."], "response": f"{word} is."}
        for number, word in enumerate(words)
    ]
    run = evaluate(rows, metrics=["faithfulness"], engine=engine, out=tmp_path / "run")
    text = (run.directory / "verdicts.jsonl").read_bytes().decode()
    read = [json.loads(line) for line in text.splitlines()]
    by_sample: dict[str, str] = {}
    for row in read:
        by_sample[row["sample_id"]] = by_sample.get(row["sample_id"], "") + row["text"]
    assert len(by_sample) == len(words)
    for number, word in enumerate(words):
        assert "".join(by_sample[str(number)].split()) == "".join(f"{word} is.".split())
