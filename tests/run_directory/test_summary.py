import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge.metrics import Failed, Outcome, Scored, Span, Undefined, Unit, Verdict
from localjudge.run_directory.result_rows import Evaluation, VerdictRow, json_line, score_rows
from localjudge.run_directory.summary import Totals, VerdictSummary
from localjudge.stats.interval import mean_interval
from localjudge.types import JudgeCard, NoAnswer, VerdictRule

NO = Undefined(reason="none")
FAIL = Failed(reason="broken")
CARD = JudgeCard(name="scripted")


def metric(*outcomes: Outcome | float, clusters: str = "") -> Any:
    evaluations = [
        Evaluation(
            str(number), "m", Scored(value=outcome) if isinstance(outcome, float) else outcome
        )
        for number, outcome in enumerate(outcomes)
    ]
    cluster_of = {str(number): name for number, name in enumerate(clusters)} if clusters else None
    totals = Totals(["m"], VerdictRule(0.5, 0.01), cluster_of, max_failed=1)
    totals.add(evaluations)
    return totals.metrics["m"]


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


@pytest.mark.parametrize(
    ("outcomes", "bounds"), [([], None), ([NO, NO], None), ([FAIL], (0.0, 1.0))]
)
def test_nothing_scored_has_no_mean(
    outcomes: list[Outcome], bounds: tuple[float, float] | None
) -> None:
    summary = metric(*outcomes)
    assert (summary.mean, summary.ci95, summary.bounds) == (None, None, bounds)
    assert (summary.scored, summary.undefined, summary.failed) == (
        0,
        outcomes.count(NO),
        outcomes.count(FAIL),
    )


def decidedness(*verdicts: Verdict | NoAnswer) -> VerdictSummary:
    totals = Totals(["m"], VerdictRule(0.5, 0.01))
    rows = [make_row("m", make_unit("x", 0), verdict) for verdict in verdicts]
    totals.add([Evaluation("a", "m", NO, tuple(rows))])
    return totals.summary("", CARD).verdicts


def test_near_threshold_verdicts_and_median_valid_mass_by_hand() -> None:
    """.41, .5 and .6 of four are within .1 of .5; of .002, .2, .8, .9 and 1 the median is .8.

    An invalid answer has a mass. A label without a model has neither. Of two masses the lower
    counts.
    """
    verdicts = (
        Verdict(label=0, p_yes=0.41, valid_mass=0.2),
        Verdict(label=1, p_yes=0.5, valid_mass=1.0),
        Verdict(label=1, p_yes=0.6, valid_mass=0.9),
        Verdict(label=1, p_yes=0.97, valid_mass=0.8),
        NoAnswer(error="the model did not answer", valid_mass=0.002),
        NoAnswer(error="too long"),
        Verdict(label=0),
    )
    assert decidedness(*verdicts) == VerdictSummary(
        count=4, near_threshold=0.75, median_valid_mass=0.8
    )
    pair = (Verdict(label=1, p_yes=1, valid_mass=mass) for mass in (0.25, 0.5))
    assert decidedness(*pair).median_valid_mass == 0.25
    none = VerdictSummary(count=0, near_threshold=None, median_valid_mass=None)
    assert decidedness(Verdict(label=0)) == none


def test_a_jury_is_divided_where_its_judges_are_on_both_sides_of_one_half() -> None:
    """One of three; .5 is a 1. A verdict without a jury does not count."""
    parts = ({"a": 0.9, "b": 0.5}, {"a": 0.9, "b": 0.49}, {"a": 0.1, "b": 0.2}, None)
    verdicts = [Verdict(label=1, p_yes=0.9, valid_mass=1.0, judges=each) for each in parts]
    assert decidedness(*verdicts).divided == pytest.approx(1 / 3)


def test_rubric_levels_are_not_near_the_threshold() -> None:
    """Level 3 of 5 is an expected value of .5 and no probability, so only its mass counts.

    Judges of a jury with levels on both sides of one half do not disagree.
    """
    totals = Totals(["m", "tone"], VerdictRule(0.5, 0.01), rubrics={"tone"})
    for name, p_yes, mass in (("m", 0.9, 0.75), ("tone", 0.5, 0.25), ("tone", 0.5, 0.25)):
        parts = {"a": 0.9, "b": 0.1} if name == "tone" else None
        verdict = Verdict(label=1, p_yes=p_yes, valid_mass=mass, judges=parts)
        totals.add([Evaluation("a", name, NO, (make_row(name, make_unit("x", 0), verdict),))])
    assert totals.summary("", CARD).verdicts == VerdictSummary(
        count=1, near_threshold=0.0, median_valid_mass=0.25
    )


def test_a_summary_does_not_depend_on_the_order_of_evaluations() -> None:
    evaluations = [Evaluation(str(number), "m", Scored(value=number / 7)) for number in range(8)]
    whole, single, backwards = (Totals(["m"], VerdictRule(0.5, 0.01)) for _ in range(3))
    whole.add(evaluations)
    for evaluation in evaluations:
        single.add([evaluation])
        backwards.add([evaluations[7 - int(evaluation.sample_id)]])
    assert whole.metrics == single.metrics == backwards.metrics
    assert whole.samples == single.samples == 8


def test_verdicts_on_windows_are_counted() -> None:
    verdicts = (Verdict(label=1, p_yes=0.9, window=number) for number in (0, None, 3))
    assert decidedness(*verdicts).windowed == 2


def make_unit(text: str, start: int, index: int = 0) -> Unit:
    span = Span(start=start, end=start + len(text), text=text)
    return Unit(
        kind="sentence", index=index, source="retrieved_contexts", source_index=3, span=span
    )


def make_row(metric: str, unit: Unit, verdict: Verdict | NoAnswer, position: int = 0) -> VerdictRow:
    return VerdictRow.of("a", metric, position, unit, verdict)


def test_score_rows_hold_the_contract_s_keys_in_order() -> None:
    two_of_three = Scored(value=2 / 3, expected=0.61, numerator=2, denominator=3)
    evaluations = [
        Evaluation("a", "context_recall", two_of_three),
        Evaluation("b", "context_recall", Undefined(reason="the reference has no sentence")),
        Evaluation("c", "context_recall", Failed(reason="too long")),
        Evaluation("d", "context_precision", Scored(value=0.5, detail="said so")),
    ]
    assert "".join(json_line(vars(row)) for row in score_rows(evaluations)) == (
        '{"sample_id": "a", "metric": "context_recall", "status": "scored",'
        ' "score": 0.6666666666666666,'
        ' "numerator": 2, "denominator": 3, "detail": null, "expected": 0.61}\n'
        '{"sample_id": "b", "metric": "context_recall", "status": "undefined", "score": null,'
        ' "numerator": null, "denominator": null, "detail": "the reference has no sentence",'
        ' "expected": null}\n'
        '{"sample_id": "c", "metric": "context_recall", "status": "failed", "score": null,'
        ' "numerator": null, "denominator": null, "detail": "too long", "expected": null}\n'
        '{"sample_id": "d", "metric": "context_precision", "status": "scored", "score": 0.5,'
        ' "numerator": null, "denominator": null, "detail": "said so", "expected": 0.5}\n'
    )


def test_verdict_rows_hold_the_contract_s_keys_in_order() -> None:
    """A unit without a verdict is listed with its error; keys from `against` on are additions."""
    first = Verdict(label=1, p_yes=0.75, valid_mass=0.5, reason="so", window=2)
    rows = (
        make_row("context_relevancy", make_unit("Größe.", 0), first),
        make_row("context_relevancy", make_unit("Two.", 7, index=1), NoAnswer(error="too long"), 1),
    )
    assert "".join(json_line(row.values) for row in rows) == (
        '{"sample_id": "a", "metric": "context_relevancy", "unit": "sentence", "index": 0,'
        ' "source": "retrieved_contexts", "source_index": 3, "start": 0, "end": 6,'
        ' "text": "Größe.",'
        ' "p_yes": 0.75, "label": 1, "reason": "so", "window": 2, "error": null, "against": null,'
        ' "valid_mass": 0.5, "position": 0}\n'
        '{"sample_id": "a", "metric": "context_relevancy", "unit": "sentence", "index": 1,'
        ' "source": "retrieved_contexts", "source_index": 3, "start": 7, "end": 11, "text": "Two.",'
        ' "p_yes": null, "label": null, "reason": null, "window": null,'
        ' "error": "too long", "against": null,'
        ' "valid_mass": null, "position": 1}\n'
    )


@given(st.text(st.characters(categories=None, exclude_categories=())), st.floats(0, 1))
def test_any_values_round_trip_as_one_utf8_line(text: str, p_yes: float) -> None:
    """Python's `splitlines` also breaks at U+2028 and U+0085."""
    line = json_line({"text": text, "p_yes": p_yes})
    assert line.encode().decode().splitlines() == [line[:-1]]
    assert json.loads(line) == {"text": text, "p_yes": p_yes}
