import re
from typing import Any
from xml.etree import ElementTree

import pytest
from command_line import gate_file

from localjudge import Run
from localjudge.report.messages import Messages, gate_row
from localjudge.stats.interval import Mean
from localjudge.stats.paired import labels_needed
from localjudge.words import signed
from tests.analysis.conftest import corrected, expect, label, labels_of
from tests.analysis.labelled_runs import METRIC, make_run
from tests.conftest import ScriptedRun


def limits(run: Run) -> tuple[float, float]:
    low, high = corrected(run).ci95
    return low, high


def decided(run: Run, gate: str, baseline: Run | None = None) -> Any:
    [decision] = run.check([f"{METRIC}{gate}"], baseline=baseline).decisions
    return decision


def test_a_gate_uses_the_corrected_interval_and_says_so(scripted_run: ScriptedRun) -> None:
    run = make_run(scripted_run, "run", samples=200, threshold=0.8)
    assert decided(run, ">=0.5").outcome == "fail"
    label(run, n=100)
    mean = corrected(run)
    decision = decided(run, ">=0.5")
    assert (decision.outcome, decision.corrected, decision.labels) == ("pass", True, 100)
    assert (decision.value, decision.ci95, decision.samples) == (mean.mean, mean.ci95, 200)
    assert decision.reason.startswith("corrected by 100 labels: ")


def test_a_threshold_on_the_interval_s_bound_passes_only_or_equal(
    scripted_run: ScriptedRun,
) -> None:
    run = label(make_run(scripted_run, "run"), n=60)
    low, high = limits(run)
    outcomes = {
        gate: decided(run, gate).outcome
        for gate in (f">={low!r}", f">{low!r}", f">={high!r}", f">{high!r}")
    }
    assert list(outcomes.values()) == ["pass", "undecided", "undecided", "fail"]
    assert decided(run, f"<={high!r}").outcome == "pass"
    assert decided(run, f"<{low!r}").outcome == "fail"


def test_an_undecided_gate_says_how_many_labels_would_decide_it(scripted_run: ScriptedRun) -> None:
    run = label(make_run(scripted_run, "run", samples=300), n=30)
    low, high = limits(run)
    judge = run[METRIC].by_judge
    mean = corrected(run).mean
    assert judge is not None
    assert mean is not None
    threshold = round(low + 0.01, 3)
    decision = decided(run, f">={threshold}")
    expected = labels_needed(Mean(mean, (low, high), "", 300, 30), judge, threshold, 30, 600)
    assert expected is not None
    expect(decision, outcome="undecided", labels_needed=expected, samples_needed=None)
    assert re.search(rf"\b{expected} labels \(\d+ minutes?\b", decision.reason)


def test_too_few_labels_decide_nothing(scripted_run: ScriptedRun) -> None:
    run = make_run(scripted_run, "run")
    before = decided(run, ">=0.1")
    expect(before, outcome="pass", corrected=False, labels=None, labels_needed=None)
    after = decided(label(run, n=5), ">=0.1")
    expect(after, outcome="undecided", passed=False, value=None, ci95=None)
    assert (after.corrected, after.labels, after.labels_needed) == (False, 5, 20)
    assert after.reason.startswith("5 labels, 20 needed; ")


def test_labels_of_the_baseline_correct_a_run_of_the_same_data(scripted_run: ScriptedRun) -> None:
    before = label(make_run(scripted_run, "a"), n=50)
    after = make_run(scripted_run, "b", threshold=0.7)
    result = after.check([f"{METRIC}>=0.5", f"{METRIC}.delta>=-0.15"], baseline=before)
    delta = result.decisions[1]
    assert result.comparison is not None
    change = result.comparison.metrics[METRIC].corrected
    assert change is not None
    assert change.difference is not None
    assert [decision.labels for decision in result.decisions] == [50, 50]
    assert (delta.value, delta.ci95, delta.outcome) == (change.difference, change.ci95, "pass")
    assert delta.reason.startswith(
        f"corrected by 50 labels: {signed(change.difference)}, 95 % interval -"
    )
    assert after.labels is None
    assert not decided(after, ">=0.5").corrected


@pytest.mark.parametrize(("kind", "least"), [("", 0), (".delta", -1)])
def test_reason_shows_on_which_side_of_the_threshold_the_interval_ends(
    scripted_run: ScriptedRun, kind: str, least: int
) -> None:
    """The threshold is .00003 above the lower end, which both have three equal digits."""
    before = label(make_run(scripted_run, "a"), n=50)
    after = make_run(scripted_run, "b", threshold=0.7)
    wide = decided(after, f"{kind}>={least}", before)
    assert wide.ci95
    threshold = wide.ci95[0] + 0.00003
    near = decided(after, f"{kind}>={threshold:.9f}", before)
    assert near.outcome == "undecided"
    shown = re.search(r"interval ([-+]?[0-9.]+) to", near.reason)
    assert shown
    assert float(shown[1]) < threshold
    row = gate_row(near, Messages("de"))
    assert shown[1].replace(".", ",") in row["interval"]


@pytest.mark.parametrize("labels", [0, 50])
def test_files_for_ci_say_that_a_value_is_corrected(scripted_run: ScriptedRun, labels: int) -> None:
    before = make_run(scripted_run, "a")
    after = make_run(scripted_run, "b", threshold=0.7)
    if labels:
        label(before, n=labels)
    gates = [f"{METRIC}>=0.99"]
    [decision] = after.check(gates, baseline=before).decisions
    text = gate_file("markdown", after, gates, baseline=before)
    junit = gate_file("junit", after, gates, baseline=before)
    case = ElementTree.fromstring(junit.encode()).find(".//failure")
    assert case is not None
    assert (f"corrected by {labels} labels" in case.attrib["message"]) == bool(labels)
    assert ("`  judge only`" in text) == bool(labels)
    assert f"| `{METRIC}` | {decision.value:.3f} |" in text


def test_labels_of_the_baseline_are_not_counted_beside_the_run_s_own(
    scripted_run: ScriptedRun,
) -> None:
    """Both runs have the same statements; ann labelled 40 of the baseline, bob 22 of the run."""
    baseline = label(make_run(scripted_run, "a"), n=40, annotator="ann")
    run = label(make_run(scripted_run, "b"), n=22, annotator="bob")
    alone = labels_of(run.check())
    assert alone == run.check(baseline=baseline).labels
    assert (alone.statements, alone.annotators) == (22, {"bob": 22})
    unlabelled = labels_of(make_run(scripted_run, "c").check(baseline=baseline))
    assert unlabelled.corrected[METRIC].own_labels == 0
