from collections.abc import Callable
from typing import Any

import pytest

from localjudge.doctor import probing
from localjudge.doctor.probing import (
    ProbeFigures,
    check_admission,
)
from localjudge.judge.probes import (
    Probe,
    answer_probes,
    passages,
    probe_tasks,
    probes,
    rearranged,
)
from localjudge.judge.profile_choice import load_profile
from localjudge.judge.wording import PromptWriter
from localjudge.labels.judge_figures import Skill
from localjudge.metrics import Task
from localjudge.stats.interval import Mean
from localjudge.types import Answer
from tests.doctor.scripted_judges import examinee, examinee_at_speed

Scripted = Callable[[Probe], float | None]


NO_USES: dict[str, list[Any]] = {"attribution": [], "relevance": [], "answers": []}


def knows(item: Probe) -> float:
    return 0.9 if item.answer else 0.1


def says_yes(_item: Probe) -> float:
    return 0.8


def half(item: Probe) -> float:
    """Simulate a judge that knows statements and guesses relevance."""
    return knows(item) if item.task.unit.kind == "statement" else 0.5


def measure(
    p: Scripted, *, count: int = 32, mass: float = 1.0
) -> tuple[ProbeFigures, dict[str, Any]]:
    """Measure `count` passages with the probability `p` of each item, without arrangements.

    Their answers are measured, too: three questions for two passages.
    """
    answers: dict[Task, Answer] = {}
    for item in (*probes(count), *answer_probes(count)):
        p_yes = p(item)
        if p_yes is not None:
            answers[item.task] = Answer(p_yes=p_yes, valid_mass=mass, raw="")
    why = "as asked for" if count < 32 else ""
    figures, checks = probing.measure_skills(count, why, answers)
    return figures, {check.name: check for check in checks}


def admission(
    p: Scripted, *, passes: bool = True, required: Any | None = None, **more: float | int
) -> Any:
    figures, _ = measure(p, **more)  # type: ignore[arg-type]
    return check_admission(figures, passes_plain_cases=passes, required=required)


def test_figures_by_hand() -> None:
    """Labels 0 0 1 1 with .2 .7 .6 .9: AUC 3/4.

    At .5, verdicts 0 1 1 1: accuracy (1 + 1/2) / 2, bias 3/4 - 2/4.
    """
    p: dict[Task, float] = {}
    for kind, value in (("number", 0.2), ("relation", 0.7), ("copied", 0.6), ("paraphrase", 0.9)):
        first = next(item for item in probes() if item.kind == kind)
        p[first.task] = value
    _, checks = measure(lambda item: p.get(item.task))
    figures = checks["attribution"].figures
    assert figures["items"] == 4
    names = ("auc", "balanced_accuracy", "bias")
    assert [figures[name]["value"] for name in names] == [0.75, 0.75, 0.25]


@pytest.mark.parametrize(
    ("before", "after", "flipped"), [(0.8, 0.6, 0), (0.4, 0.5, 1), (0.0, 1.0, 1)]
)
def test_flips_cross_the_threshold(before: float, after: float, flipped: int) -> None:
    answers: dict[Task, Answer] = {}
    for pair in rearranged()[::3]:
        for task, p_yes in zip(pair, (before, after), strict=True):
            answers[task] = Answer(p_yes=p_yes, valid_mass=1.0, raw="")
    _, (_, check) = probing.measure_skills(32, "", answers)
    assert check.name == "order"
    assert check.status == ("warning" if flipped else "ok")
    assert check.figures["order_flip_rate"] == flipped


def test_one_passage_has_figures_and_no_interval() -> None:
    """One cluster has no variance. Bounds that need an interval are missed."""
    _, checks = measure(knows, count=1)
    assert [name for name, check in checks.items() if check.status == "ok"] == ["probes"]
    for name in ("attribution", "relevance", "answers"):
        assert checks[name].figures["auc"] == {"value": 1.0, "low": None, "high": None}
        assert "1 group" in checks[name].finding
        assert "guessing" not in checks[name].finding
    assert "1 pair" in checks["answers"].finding
    assert "1 pairs" not in checks["answers"].finding


def test_a_perfect_judge_is_recommended_for_everything() -> None:
    figures, checks = measure(lambda item: 0.99 if item.answer else 0.01)
    sizes = ((256, 32), (128, 32), (96, 48))
    for measured, (items, clusters) in zip(figures.skills.values(), sizes, strict=True):
        assert (measured.auc.n, measured.auc.clusters, measured.auc.low) == (items, clusters, 1.0)
        assert (measured.balanced_accuracy.low, measured.bias.low, measured.bias.high) == (
            1.0,
            0.0,
            0.0,
        )
        assert measured.calibration_slope is None
        assert measured.calibration_error == pytest.approx(0.01)
    names = ["probes", "attribution", "relevance", "answers", "sensitivity"]
    assert {name: check.status for name, check in checks.items()} == dict.fromkeys(names, "ok")
    assert admission(knows).figures["uses"]["relevance"] == ["ranking", "means", "thresholds"]


def test_a_judge_that_always_says_yes_is_not_recommended() -> None:
    """Balanced accuracy .5, AUC .5, share of yes 1 instead of 1/2."""
    figures, checks = measure(says_yes)
    warned = {name for name, check in checks.items() if check.status == "warning"}
    assert warned == {"attribution", "relevance", "answers", "sensitivity"}
    for measured in figures.skills.values():
        assert (measured.auc.mean, measured.balanced_accuracy.mean, measured.bias.mean) == (
            0.5,
            0.5,
            0.5,
        )
    assert admission(says_yes).figures["uses"] == NO_USES


def test_minimal_pairs_are_complete_and_within_one_passage() -> None:
    """A changed number lowers p by .2, other changes raise it by .1; none crosses .5.

    An equal p is not lower.
    """
    p = {"number": 0.6, "name": 0.9, "negation": 0.9}
    figures, checks = measure(lambda item: p.get(item.kind, 0.8))
    sensitivity = figures.skills["attribution"].pair_sensitivity
    assert sensitivity is not None
    assert sensitivity.mean == 24 / 64
    pairs = checks["sensitivity"].figures
    assert pairs["pairs"] == 64
    assert measure(lambda _item: 0.5)[1]["sensitivity"].figures["pair_sensitivity"]["value"] == 0
    _, checks = measure(lambda item: None if item.kind in ("copied", "combination") else 0.5)
    assert checks["sensitivity"].figures["pairs"] == sum(
        item.changed_from == "paraphrase" for item in probes()
    )


def test_a_low_valid_mass_or_missing_answers_are_a_warning_and_no_answer_a_failure() -> None:
    for mass, status in ((0.5, "ok"), (0.49, "warning")):
        assert (
            measure(knows, mass=mass)[1]["probes"].status
            == admission(knows, mass=mass).status
            == status
        )
    check = measure(lambda item: None if item.passage == "sourdough" else knows(item))[1]["probes"]
    assert (check.status, check.figures["answered"]) == ("warning", 480 - 12)
    _, checks = measure(lambda _item: None)
    assert [(check.name, check.status) for check in checks.values()] == [("probes", "failed")]


def test_a_judge_with_prompts_for_attribution_only_is_recommended_for_it() -> None:
    """32 x 8 statements, as for the bundled reader: relevance is neither asked nor undecided."""
    questions = probing.list_questions(None, ["attribution"])
    answers: dict[Task, Answer] = {}
    for item in probes():
        if item.task in questions:
            answers[item.task] = Answer(p_yes=knows(item), valid_mass=1.0, raw="")
    figures, checks = probing.measure_skills(32, "", answers, ["attribution"])
    assert (figures.items, checks[0].status, checks[0].figures["items"]) == (256, "ok", 256)
    check = check_admission(
        figures, passes_plain_cases=True, required="means", tasks=["attribution"]
    )
    assert check.status == "ok"
    assert check.figures["uses"] == {"attribution": ["ranking", "means", "thresholds"]}


@pytest.mark.parametrize(
    ("required", "status"),
    [(None, "warning"), ("ranking", "failed"), ("thresholds", "failed")],
)
def test_a_required_use_must_be_recommended_for_every_task(
    required: Any | None, status: str
) -> None:
    assert (
        admission(says_yes, required=required).status
        == admission(half, required=required).status
        == status
    )
    assert (
        admission(knows, required=required).status
        == admission(knows, required="means", count=8).status
        == "ok"
    )
    for check in (
        admission(knows, required=required, count=7),
        admission(
            lambda item: knows(item) if item.task.unit.kind == "statement" else None,
            required=required,
        ),
        check_admission(None, passes_plain_cases=True, required=required),
    ):
        assert (check.status, check.figures["uses"], check.finding[:9]) == (
            status,
            None,
            "undecided",
        )
    assert check_admission(None, passes_plain_cases=False, required=required).status == "failed"
    assert admission(knows, passes=False).figures["uses"] == NO_USES


@pytest.mark.parametrize(
    ("seconds_each", "taken"),
    [(0.0, 32), (300 / 608, 32), (1.0, 15), (1.5, 10), (10.0, 8), (600.0, 8)],
)
def test_a_slow_judge_gets_items_for_five_minutes_but_at_least_eight_passages(
    seconds_each: float, taken: int
) -> None:
    """608 questions of 1 s: 32 x 300 / 608 = 15.8 passages; 1.5 s: 10.5; 10 s: 1.6, so eight."""
    assert len(probe_tasks()) == 512 + 96
    count, why = probing.choose_passages(examinee_at_speed(seconds_each), None)
    assert (count, why == "") == (taken, taken == len(passages()))
    assert [
        probing.choose_passages(examinee_at_speed(60), items)[0] for items in (0, 1, 15, 16, 10**9)
    ] == [
        0,
        1,
        1,
        2,
        32,
    ]


@pytest.mark.parametrize("distance", [0.05, 0.3, 0.45])
def test_probabilities_nearer_to_one_half_than_the_labels_are_said_to_move_expected_scores(
    distance: float,
) -> None:
    """Four of five answers are right, by the order of asking: log odds of log 4 = 1.386.

    Probabilities of .55 have log odds of .2, so the slope is 6.9; .8 fits (slope 1), and .95 is
    too far from one half (2.94, slope .47).
    """
    asked = 0

    def often_right(item: Probe) -> float:
        nonlocal asked
        asked += 1
        sign = 1 if item.answer else -1
        if asked % 5 == 0:
            sign = -sign
        return 0.5 + sign * distance

    _, checks = measure(often_right)
    for task in ("attribution", "relevance"):
        low = checks[task].figures["calibration_slope"]["low"]
        assert (low > 1) == (distance < 0.3)
        assert ("expected scores" in checks[task].finding) == (low > 1)


def limits(low: float, mean: float | None = None, high: float | None = None) -> Mean:
    mean = low if mean is None else mean
    if high is None:
        high = mean
    return Mean(mean, (low, high), "clustered bootstrap", 256, 32)


def at_bounds(**changed: float) -> ProbeFigures:
    """Figures exactly at the bounds of every use, with changes."""
    at = {
        "auc": 0.65,
        "balanced_accuracy": 0.85,
        "bias": 0.15,
        "slope": 2.0,
        "error": 0.15,
        "pair_sensitivity": 0.75,
        "order_flip_rate": 0.1,
        "mass": 0.5,
    }
    at |= changed
    relevance = Skill(
        auc=limits(at["auc"]),
        balanced_accuracy=limits(at["balanced_accuracy"]),
        bias=limits(min(at["bias"], 0.0), 0.0, max(at["bias"], 0.0)),
        calibration_slope=limits(at["slope"]),
        calibration_error=at["error"],
    )
    attribution = relevance._replace(
        pair_sensitivity=limits(at["pair_sensitivity"]), order_flip_rate=at["order_flip_rate"]
    )
    return ProbeFigures(32, 384, {"attribution": attribution, "relevance": relevance}, at["mass"])


@pytest.mark.parametrize(
    ("changed", "attribution", "relevance"),
    [
        ({}, "thresholds", "thresholds"),
        ({"auc": 0.649}, "", ""),
        ({"balanced_accuracy": 0.749}, "ranking", "ranking"),
        ({"balanced_accuracy": 0.75}, "means", "means"),
        ({"bias": -0.151}, "ranking", "ranking"),
        ({"order_flip_rate": 0.11}, "ranking", "thresholds"),
        ({"slope": 0.49}, "means", "means"),
        ({"error": 0.16}, "means", "means"),
        ({"pair_sensitivity": 0.74}, "means", "thresholds"),
        ({"mass": 0.49}, "", ""),
    ],
)
def test_a_missed_limit_excludes_its_use_and_all_higher_uses(
    changed: dict[str, float], attribution: str, relevance: str
) -> None:
    """A bound itself passes. Order and minimal pairs are measured on statements only."""
    check = check_admission(
        at_bounds(**changed),
        passes_plain_cases=True,
        required=None,
        tasks=["attribution", "relevance"],
    )
    uses = check.figures["uses"].values()
    assert [(use or [""])[-1] for use in uses] == [attribution, relevance]


def test_answers_by_hand() -> None:
    """Three questions, good and poor: .9 .2, .4 .8, .6 .6. Equal counts half.

    Pairs: (1 + 0 + 1/2) / 3 = 1/2. AUC: of 9 comparisons, .9 wins three, .4 one, .6 one and a half:
    5.5 / 9. At .5, two of three good ones are 1, and two of three poor ones: (2/3 + 1/3) / 2.
    """
    given = iter((0.9, 0.2, 0.4, 0.8, 0.6, 0.6))
    items = answer_probes(2)
    answers: dict[Task, Answer] = {}
    for item in items:
        answers[item.task] = Answer(p_yes=next(given), valid_mass=1.0, raw="")
    _, checks = probing.measure_skills(2, "", answers, ["answers"])
    figures = checks[1].figures
    assert (checks[1].name, figures["items"], figures["questions"]) == ("answers", 6, 3)
    assert figures["auc"]["value"] == pytest.approx(5.5 / 9)
    assert figures["balanced_accuracy"]["value"] == pytest.approx(1 / 2)
    assert figures["bias"]["value"] == pytest.approx(4 / 6 - 3 / 6)
    assert (figures["pairs"], figures["good_above_poor"]["value"]) == (3, 0.5)
    by_kind = {"refusal": 1.0, "evasion": 0.0, "question_again": 0.5}
    assert figures["good_above_poor_by_kind"] == by_kind


@pytest.mark.parametrize(
    ("good", "poor", "share", "uses", "guesses"),
    [
        (0.9, 0.1, 1.0, ["ranking", "means", "thresholds"], False),
        (0.1, 0.9, 0.0, [], True),
        (0.7, 0.7, 0.5, [], True),
    ],
    ids=["perfect", "inverted", "constant"],
)
def test_only_a_judge_that_knows_answers_is_recommended_for_answer_relevancy(
    good: float, poor: float, share: float, uses: list[Any], guesses: bool
) -> None:
    """All three know statements and relevance. The engine answers by the text of the sentence."""
    script = {item.task.unit.text: good if item.answer else poor for item in answer_probes()}
    judge = examinee(script)
    answers = judge.ask(probing.list_questions(None, ["answers"]))
    for item in probes():
        answers[item.task] = Answer(p_yes=knows(item), valid_mass=1.0, raw="")
    measured, checks = probing.measure_skills(32, "", answers)
    figures = {check.name: check.figures for check in checks}
    assert figures["answers"]["auc"]["value"] == share
    assert figures["answers"]["good_above_poor"]["value"] == share
    assert set(figures["answers"]["good_above_poor_by_kind"].values()) == {share}
    assert ("guessing" in checks[3].finding) == guesses
    assert "guessing" not in checks[1].finding + checks[2].finding
    check = check_admission(measured, passes_plain_cases=True, required="ranking")
    assert (check.status, check.figures["uses"]["answers"]) == ("ok" if uses else "failed", uses)
    assert check.figures["uses"]["relevance"] == ["ranking", "means", "thresholds"]
    assert "answer_relevancy: " in check.finding


def test_answers_are_asked_of_judges_with_prompts_for_sentences() -> None:
    """The reader has no prompt for relevance, but one for sentences of answers."""
    tasks = {}
    for name in ("reader", "qwen3-reranker", "lexical"):
        tasks[name] = probing.find_probed_tasks(PromptWriter(load_profile(name)))
    assert tasks == {
        "reader": ("attribution", "answers"),
        "qwen3-reranker": ("relevance", "answers"),
        "lexical": ("attribution", "relevance", "answers"),
    }
