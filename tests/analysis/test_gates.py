import re
from typing import Any

import pytest

from localjudge import InputError, Run
from localjudge.analysis.gates import parse_gate
from localjudge.stats.interval import mean_interval
from localjudge.stats.paired import samples_to_decide
from tests.analysis.conftest import expect
from tests.conftest import ScriptedRun


def rows(count: int) -> list[dict[str, Any]]:
    return [
        {
            "id": str(number),
            "reference": f"Sentence {number}.",
            "retrieved_contexts": ["A context."],
        }
        for number in range(count)
    ]


def zeros(*numbers: int) -> dict[str, float]:
    return {f"Sentence {number}.": 0.0 for number in numbers}


def decided(run: Run, gate: str, baseline: Run | None = None, **rules: Any) -> Any:
    [decision] = run.check([gate], baseline=baseline, **rules).decisions
    return decision


@pytest.mark.parametrize(
    ("text", "metric", "delta", "comparison", "threshold"),
    [
        ("context_recall>=0.8", "context_recall", False, ">=", 0.8),
        (" context_recall > .5 ", "context_recall", False, ">", 0.5),
        ("context_recall.delta>=-0.02", "context_recall", True, ">=", -0.02),
        ("matrix_recall@3<=1e-1", "matrix_recall@3", False, "<=", 0.1),
        ("faithfulness.delta<0", "faithfulness", True, "<", 0.0),
        ("document_map(compare_by=id)>=0.5", "document_map(compare_by=id)", False, ">=", 0.5),
        (
            "hit_rate@3(compare_by=meta.a b).delta > 0",
            "hit_rate@3(compare_by=meta.a b)",
            True,
            ">",
            0.0,
        ),
        ("my.own.metric>=1", "my.own.metric", False, ">=", 1.0),
    ],
)
def test_a_gate_is_a_metric_a_comparison_and_a_number(
    text: str, metric: str, delta: bool, comparison: Any, threshold: float
) -> None:
    expect(parse_gate(text), metric=metric, delta=delta, comparison=comparison, threshold=threshold)
    exact = "context_recall.delta>=-0.12345678901"
    assert str(parse_gate(exact.replace(">=", " >= "))) == exact


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *(
            (f"context_recall{rest}", "is not a gate")
            for rest in ("", "=0.8", "==0.8", ">=", ">=much", ">=0.8<0.9")
        ),
        *(
            (f"context_recall{rest}", "is not a gate")
            for rest in (">=nan", ">=0_1", ">=٠.٥", ">=1e9999")
        ),
        (">=0.8", "is not a gate"),
        ("context_recall>=1e-400", "too close to 0"),
        ("context_recall>=80", r"not in \[0, 1\]"),
        ("context_recall>=-0.1", r"not in \[0, 1\]"),
        ("context_recall.delta>=-2", r"not in \[-1, 1\]"),
    ],
)
def test_malformed_gates_are_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parse_gate(text)


def test_a_gate_is_decided_if_the_whole_interval_agrees(scripted_run: ScriptedRun) -> None:
    """20 of 20: from 0.025^(1/20) = 0.832; 0 of 10: up to 1 - 0.025^(1/10) = 0.308."""
    good = decided(scripted_run("good", rows(20), {}), "context_recall>=0.8")
    assert (good.outcome, good.passed, good.value, good.samples) == ("pass", True, 1, 20)
    assert good.reason == "1.000, 95 % interval 0.832 to 1.000, 20 samples"
    bad = decided(scripted_run("bad", rows(10), zeros(*range(10))), "context_recall>=0.5")
    assert (bad.outcome, bad.passed, bad.value, bad.samples) == ("fail", False, 0, 10)
    assert bad.reason == "0.000, 95 % interval 0.000 to 0.308, 10 samples"


@pytest.mark.parametrize(("undecided", "kept"), [("fail", False), ("pass", True)])
def test_a_mean_above_the_threshold_is_not_enough(
    scripted_run: ScriptedRun, undecided: str, kept: bool
) -> None:
    """The interval of 9 of 10 begins at 0.555."""
    decision = decided(
        scripted_run("run", rows(10), zeros(0)), "context_recall>=0.8", undecided=undecided
    )
    needed = samples_to_decide(mean_interval([0.0] + [1.0] * 9), 0.8)
    expect(decision, outcome="undecided", passed=kept, samples_needed=needed)
    assert {"0.900", str(needed)} <= set(re.findall(r"[\d.]+", decision.reason))


def test_samples_of_one_group_decide_no_gate(scripted_run: ScriptedRun) -> None:
    """40 of 40, but all from one document."""
    grouped = [{**row, "document": "a"} for row in rows(40)]
    decision = decided(
        scripted_run("run", grouped, {}, cluster_by="document"), "context_recall>=0.1"
    )
    expect(decision, outcome="undecided", passed=False, samples_needed=None)
    assert decision.ci95 is None


def test_a_mean_on_the_threshold_and_a_metric_without_a_score_are_undecided(
    scripted_run: ScriptedRun,
) -> None:
    decision = decided(scripted_run("run", rows(2), zeros(0)), "context_recall>=0.5")
    assert (decision.outcome, decision.samples_needed) == ("undecided", None)
    decision = decided(
        scripted_run("unscored", [{**rows(1)[0], "reference": ""}], {}), "context_recall>=0.5"
    )
    assert (decision.outcome, decision.value, decision.ci95) == ("undecided", None, None)


def test_a_missing_value_and_the_text_for_it_are_two_slices(scripted_run: ScriptedRun) -> None:
    """A gate on one of them took the larger slice."""
    missing = [{**row, "team": None} for row in rows(8)]
    texts = [{**row, "id": f"t{row['id']}", "team": "(none)"} for row in rows(4)]
    run = scripted_run("run", [*missing, *texts], {})
    assert decided(run, "context_recall[team=(none)]>=0").samples == 8
    assert decided(run, 'context_recall[team="(none)"]>=0').samples == 4


def test_a_run_without_any_score_never_passes(scripted_run: ScriptedRun) -> None:
    """`undecided="pass"` is for small samples; an empty column passed in CI."""
    run = scripted_run("unscored", [{**rows(1)[0], "reference": ""}], {})
    decision = decided(run, "context_recall>=0.5", undecided="pass")
    assert (decision.outcome, decision.passed) == ("undecided", False)


def test_failed_samples_fail_a_gate(scripted_run: ScriptedRun) -> None:
    """19 perfect samples and one failed sample, unless `max_failed` allows it."""
    run = scripted_run("run", rows(20), {"Sentence 0.": "broken"})
    decision = decided(run, "context_recall>=0.5")
    assert (decision.outcome, decision.passed) == ("fail", False)
    assert re.findall(r"\d+", decision.reason) == ["1", "0"]
    lenient = scripted_run("lenient", rows(20), {"Sentence 0.": "broken"}, max_failed=1)
    decision = decided(lenient, "context_recall>=0.5")
    assert (decision.outcome, decision.samples) == ("pass", 19)


@pytest.mark.parametrize(
    ("now", "gate", "outcome"),
    [(0, ">=-0.02", "undecided"), (40, ">=-0.02", "fail"), (0, ">=-0.2", "pass")],
)
def test_a_delta_is_decided_on_the_paired_interval(
    scripted_run: ScriptedRun, now: int, gate: str, outcome: str
) -> None:
    """40 samples without change exclude a loss of 0.2, but not of 0.02."""
    old = scripted_run("old", rows(40), {})
    new = scripted_run("new", rows(40), zeros(*range(now)))
    decision = decided(new, f"context_recall.delta{gate}", old)
    scores = new.compare(old).metrics["context_recall"].scores
    assert scores is not None
    expect(decision, outcome=outcome, value=scores.difference, ci95=scores.ci95)
    assert decision.reason.startswith("-1.000, 95 %" if now else "0.000, 95 % interval -")


def test_a_delta_reports_the_number_of_unpaired_samples(scripted_run: ScriptedRun) -> None:
    old = scripted_run("old", rows(3), {})
    new = scripted_run("new", rows(8)[1:], {})
    decision = decided(new, "context_recall.delta>=-0.5", old)
    assert re.findall(r"\d+", decision.reason)[-4:] == ["1", "3", "5", "7"]
    assert (decision.samples, decision.unpaired) == (2, 6)
    assert decided(new, "context_recall>=0.1", old).unpaired == 0


def test_failures_in_the_baseline_fail_a_delta_and_without_a_pair_it_is_undecided(
    scripted_run: ScriptedRun,
) -> None:
    old = scripted_run("old", rows(40), {"Sentence 0.": "broken"})
    new = scripted_run("new", rows(40), {})
    decision = decided(new, "context_recall.delta>=-0.5", old)
    assert (decision.outcome, decision.reason[:17]) == ("fail", "failed samples: 1")
    other = scripted_run("other", [{**rows(41)[40], "id": "other"}], {})
    decision = decided(other, "context_recall.delta>=0", new)
    assert (decision.outcome, decision.samples) == ("undecided", 0)


def test_a_delta_needs_a_baseline_with_its_metric(scripted_run: ScriptedRun) -> None:
    run = scripted_run("run", rows(1), {})
    gate = "faithfulness.delta>=0"
    with pytest.raises(InputError, match=r"needs a baseline\n.*baseline="):
        run.check([gate])
    with pytest.raises(InputError, match=r"'faithfulness'.* baseline\n.*context_recall"):
        run.check([gate], baseline=run)


def test_a_run_directory_is_checked_against_a_baseline(scripted_run: ScriptedRun) -> None:
    run = scripted_run("run", rows(40), {})
    assert not run.check(["context_recall>=0.9", "context_recall<0.5"]).passed
    bare = run.check()
    assert (bare.passed, bare.decisions, bare.comparison) == (True, (), None)
    half = scripted_run("half", rows(40), zeros(*range(20)))
    checked = half.check(["context_recall.delta>=-0.1"], baseline=run.directory)
    assert checked.decisions[0].outcome == "fail"
    assert checked.comparison is not None
    assert checked.comparison.metrics["context_recall"].compared == 40
