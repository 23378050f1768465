"""For what a judge is fit: every rule at its bound, with figures that are written down."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge.doctor.probes import Admission, OrderEffect, PairFigures, ProbeFigures, Sensitivity, Skill, admissions
from localjudge.stats.interval import Interval

BARS = ("auc", "accuracy", "lean", "slope", "error", "falls", "flipped", "mass")


def limits(low: float, mean: float | None = None, high: float | None = None) -> Interval:
    mean = low if mean is None else mean
    return Interval(mean, low, mean if high is None else high, "clustered bootstrap", 256, 32, 0.95)


def figures(**changed: float) -> ProbeFigures:
    """Those of a judge that is just fit for everything, but for what is changed."""
    best = {"auc": 0.65, "accuracy": 0.85, "lean": 0.15, "slope": 2.0, "error": 0.15, "falls": 0.75, "flipped": 0.1}
    at = {**best, "mass": 0.5, **changed}
    lean = limits(min(at["lean"], 0.0), 0.0, max(at["lean"], 0.0))
    skill = Skill(limits(at["auc"]), limits(at["accuracy"]), lean, limits(at["slope"]), at["error"], {})
    pairs = PairFigures(64, 60, 50, 0.4)
    return ProbeFigures(
        skills={"attribution": skill, "relevance": skill},
        sensitivity=Sensitivity(limits(at["falls"]), pairs, {"number": pairs}),
        order={"others swapped": OrderEffect(32, 3, 0.1, 0.4)},
        flipped=at["flipped"],
        median_mass=at["mass"],
    )


def uses(measured: ProbeFigures, *, passes: bool = True) -> tuple[str, str]:
    """The last use of either task; "" for none."""
    found = admissions(measured, passes_plain_cases=passes)
    return tuple((one.uses or ("",))[-1] for one in (found["attribution"], found["relevance"]))  # type: ignore[return-value]


def test_every_bound_is_reached_by_what_equals_it() -> None:
    assert uses(figures()) == ("thresholds", "thresholds")
    assert admissions(figures(), passes_plain_cases=True)["attribution"].barred_by == ()


@pytest.mark.parametrize(
    ("changed", "attribution", "relevance"),
    [
        ({"auc": 0.649}, "", ""),
        ({"accuracy": 0.749}, "ranking", "ranking"),
        ({"accuracy": 0.75}, "means", "means"),
        ({"accuracy": 0.849}, "means", "means"),
        ({"lean": 0.151}, "ranking", "ranking"),
        ({"lean": -0.151}, "ranking", "ranking"),
        ({"flipped": 0.11}, "ranking", "thresholds"),
        ({"slope": 2.1}, "means", "means"),
        ({"slope": 0.49}, "means", "means"),
        ({"error": 0.16}, "means", "means"),
        ({"falls": 0.74}, "means", "thresholds"),
        ({"mass": 0.49}, "", ""),
    ],
)
def test_what_misses_a_bound_loses_that_use_and_those_above_it(
    changed: dict[str, float], attribution: str, relevance: str
) -> None:
    """Order and minimal pairs are measured on statements, and bar no use in relevance."""
    assert uses(figures(**changed)) == (attribution, relevance)


def test_a_judge_that_fails_the_plain_cases_is_fit_for_nothing() -> None:
    assert uses(figures(), passes=False) == ("", "")


def test_labels_that_one_threshold_splits_have_no_slope_and_need_none() -> None:
    measured = figures()
    split = {task: skill._replace(slope=None) for task, skill in measured.skills.items()}
    assert uses(measured._replace(skills=split)) == ("thresholds", "thresholds")


def test_the_reasons_are_those_of_the_next_use_alone() -> None:
    found = admissions(figures(accuracy=0.7, lean=0.2, error=0.9), passes_plain_cases=True)["attribution"]
    assert str(found) == (
        "fit for ranking, not for means (balanced accuracy 0.70 [0.70, 0.70]: its lower limit has to reach 0.75; "
        "share of yes is off by +0.00 [+0.00, +0.20], more than 0.15)"
    )


def test_in_words() -> None:
    assert str(Admission(("ranking", "means", "thresholds"), ())) == "fit for ranking, means and thresholds"
    assert str(Admission(("ranking", "means"), ("a", "b"))) == "fit for ranking and means, not for thresholds (a; b)"
    assert str(Admission((), ("it fails the plain cases",))) == "not fit (it fails the plain cases)"


@given(
    st.fixed_dictionaries({bar: st.floats(0, 3) for bar in BARS}),
    st.sampled_from(["auc", "accuracy", "falls", "mass"]),
    st.floats(0, 1),
)
def test_a_better_judge_is_fit_for_no_less(at: dict[str, float], better: str, more: float) -> None:
    def count(measured: ProbeFigures) -> list[int]:
        return [len(one.uses) for one in admissions(measured, passes_plain_cases=True).values()]

    assert all(
        after >= before
        for before, after in zip(count(figures(**at)), count(figures(**{**at, better: at[better] + more})), strict=True)
    )
