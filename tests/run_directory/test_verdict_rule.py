"""Arithmetic of juries, by hand and as properties."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge.run_directory.identity import jury_card
from localjudge.run_directory.verdict_rule import combine, combine_by_scales, compute_scale
from localjudge.types import Combination, JudgeCard
from tests.conftest import ScriptedRun
from tests.run_directory.conftest import judged_by

PROBABILITIES = st.floats(0, 1)


def test_the_default_is_the_mean_of_the_scaled_log_odds() -> None:
    """Log odds of .8 and .5 are log 4 and 0: (log 4 / 2 + 0 / 1) / 2 = log 4 / 4.

    p = 1 / (1 + 4^(-1/4)) = .5858.
    """
    combination = combine_by_scales({"a": 2.0, "b": 1.0})
    assert combination == Combination({"a": 0.25, "b": 0.5}, 0.0)
    assert combine({"a": 0.8, "b": 0.5}, combination) == pytest.approx(1 / (1 + 4**-0.25))


def test_weights_and_bias() -> None:
    """-1 + 2 log 3 - log 3 = log 3 - 1."""
    combination = Combination({"a": 2.0, "b": -1.0}, -1.0)
    assert combine({"a": 0.75, "b": 0.75}, combination) == pytest.approx(3 / (3 + math.e))


@pytest.mark.parametrize(
    ("probability", "expected"), [(0.0, 1e-4), (1.0, 1 - 1e-4), (1e-9, 1e-4), (0.3, 0.3)]
)
def test_probabilities_are_clipped(probability: float, expected: float) -> None:
    alone = Combination({"a": 1.0})
    assert combine({"a": probability}, alone) == pytest.approx(expected)


@given(PROBABILITIES, PROBABILITIES, st.floats(0.1, 5), st.floats(0.1, 5))
def test_the_order_of_judges_changes_no_bit(
    first: float, second: float, one: float, other: float
) -> None:
    forwards = combine({"a": first, "b": second}, Combination({"a": one, "b": other}))
    backwards = combine({"b": second, "a": first}, Combination({"b": other, "a": one}))
    assert forwards == backwards
    assert 0 <= forwards <= 1


@given(PROBABILITIES, PROBABILITIES, PROBABILITIES)
def test_a_judge_that_is_surer_moves_the_jury_its_way(
    first: float, second: float, other: float
) -> None:
    combination = combine_by_scales({"a": 1.3, "b": 0.7})
    low, high = sorted((first, second))
    assert combine({"a": low, "b": other}, combination) <= combine(
        {"a": high, "b": other}, combination
    )


def test_a_scale_is_the_standard_deviation_of_the_log_odds() -> None:
    """Log odds of -log 3 and log 3 have the standard deviation log 3 = 1.0986, rounded 1.1."""
    assert compute_scale([0.25, 0.75]) == 1.1
    assert compute_scale([0.5, 0.5]) == 0.1


def test_the_card_of_a_jury() -> None:
    cards = [
        JudgeCard(name="a", size=3, sha256="0", caution="small"),
        JudgeCard(name="b", size=4, caution="lexical, not for decisions"),
    ]
    assert jury_card(cards, None, None) == JudgeCard(
        name="a + b", size=7, caution="lexical, not for decisions"
    )
    assert jury_card(cards, "bundled", "measured") == JudgeCard(
        name="bundled", size=7, caution="measured"
    )
    unsized = [*cards, JudgeCard(name="c")]
    assert jury_card(unsized, None, None).size is None


@pytest.mark.parametrize(
    ("cautions", "strictest"),
    [
        ([None, None], None),
        (["small", None, "small"], "small"),
        (["small", "bytes not proved"], "small; bytes not proved"),
        (
            ["small", "very small, not for decisions", "lexical, not for decisions"],
            "very small, not for decisions",
        ),
    ],
)
def test_the_strictest_caution_counts(cautions: list[str | None], strictest: str | None) -> None:
    cards = [JudgeCard(name="a", caution=caution) for caution in cautions]
    assert jury_card(cards, None, None).caution == strictest


def test_only_the_judges_with_a_weight_for_a_metric_answer_it(scripted_run: ScriptedRun) -> None:
    run = scripted_run("run", [{"reference": "One.", "retrieved_contexts": ["Two."]}], {})
    jury = {
        name: {"engine": {"engine": "llama.cpp"}, "judge": {"profile": name}}
        for name in ("lexical", "reader")
    }
    combinations = {
        "answer_relevancy": {"weights": {"lexical": 1.0}, "bias": 0.0},
        "faithfulness": {"weights": {"lexical": 0.3, "reader": 0.7}, "bias": 0.0},
    }
    judge = judged_by(run, jury=jury, combinations=combinations).manifest.judge
    assert judge.profiles("answer_relevancy") == {"lexical"}
    assert judge.profiles("faithfulness") == {"lexical", "reader"}
