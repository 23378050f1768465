"""If at most 1 % of the samples failed, a mean is shown with its bounds, otherwise none."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import gate_file, printed, printed_lines, printed_slices, printed_summary

from localjudge import Run
from tests.conftest import ScriptedRun

METRIC = "context_recall"
GATE = f"{METRIC}>=0.9"


def run_with(
    scripted_run: ScriptedRun, name: str, samples: int, failed: int, **options: Any
) -> Run:
    """Return a run in which the first samples failed and the others have the score 1."""
    rows = [
        {
            "id": str(number),
            "reference": f"Sentence {number}.",
            "retrieved_contexts": ["A context."],
            "half": "first" if number < samples // 2 else "second",
        }
        for number in range(samples)
    ]
    script = {f"Sentence {number}.": "broken" for number in range(failed)}
    return scripted_run(name, rows, script, metrics=[METRIC], **options)


@pytest.mark.parametrize(
    ("max_failed", "samples", "allowed"),
    [(None, 9, 0), (None, 99, 0), (None, 100, 1), (None, 199, 1), (0, 150, 0), (7, 10, 7)],
)
def test_one_percent_of_the_samples_may_fail(
    scripted_run: ScriptedRun, max_failed: int | None, samples: int, allowed: int
) -> None:
    for failed in (allowed, allowed + 1):
        run = run_with(scripted_run, str(failed), samples, failed, max_failed=max_failed)
        assert (run[METRIC].mean is None) == (failed > allowed)


@pytest.mark.parametrize(("samples", "failed"), [(100, 1), (250, 2)])
def test_a_mean_with_few_failures_is_shown_with_their_count_and_its_bounds(
    scripted_run: ScriptedRun, samples: int, failed: int
) -> None:
    """99 scores of 1 and a failure: from 99 / 100 to 1. With 248 and 2: from 248 / 250."""
    run = run_with(scripted_run, "run", samples, failed)
    lowest = (samples - failed) / samples
    summary = run[METRIC]
    assert (summary.mean, summary.failed, summary.bounds) == (1.0, failed, (lowest, 1.0))
    stored = json.loads((run.directory / "summary.json").read_text(encoding="utf-8"))["metrics"][
        METRIC
    ]
    assert (stored["mean"], stored["failed"], stored["bounds"]) == (1.0, failed, [lowest, 1.0])
    values = json.loads(printed("show", run, "--json"))["metrics"][METRIC]
    assert (values["mean"], values["bounds"]) == (1.0, [lowest, 1.0])
    table = printed_summary(run)
    assert f"{failed} failed" in table
    assert f"between {lowest:.3f} and 1.000" in table
    [decision] = run.check([GATE]).decisions
    assert decision.outcome == "pass"
    assert f"failed samples: {failed}" in decision.reason
    assert f"{lowest:.3f} to 1.000" in decision.reason
    pooled = run[METRIC].pooled
    assert pooled is not None
    assert pooled.share == 1.0
    page = run.report().read_text(encoding="utf-8")
    assert f"between {lowest:.3f} and 1.000" in page
    assert Run.open(run.directory).max_failed == failed


@pytest.mark.parametrize(("samples", "failed"), [(99, 1), (100, 2), (250, 3)])
def test_a_mean_with_more_failures_is_withheld_everywhere(
    scripted_run: ScriptedRun, samples: int, failed: int
) -> None:
    run = run_with(scripted_run, "run", samples, failed)
    assert run[METRIC].mean is None
    assert run[METRIC].ci95 is None
    stored = json.loads((run.directory / "summary.json").read_text(encoding="utf-8"))["metrics"][
        METRIC
    ]
    assert (stored["mean"], stored["ci95"]) == (None, None)
    table = printed_lines("show", run, "--worst", "0", width=200)
    [row] = [line.split() for line in table if line.startswith(f"{METRIC} ")]
    assert row[1] == "-"
    [decision] = run.check([GATE], undecided="pass").decisions
    assert (decision.outcome, decision.passed, decision.value) == ("fail", False, None)
    assert run[METRIC].pooled is None
    assert "1.000 |" not in gate_file("markdown", run)
    assert "no mean" in run.report().read_text(encoding="utf-8")
    clean = run_with(scripted_run, "clean", samples, 0)
    for baseline, new in ((run, clean), (clean, run)):
        change = new.compare(baseline).metrics[METRIC]
        assert (change.scores, change.quoted.mean) == (None, None)
        [decision] = new.check([f"{METRIC}.delta>=-0.5"], baseline=baseline).decisions
        assert (decision.outcome, decision.value) == ("fail", None)


def test_each_slice_allows_one_percent_of_its_samples(scripted_run: ScriptedRun) -> None:
    """2 of 250 samples may fail, but not 2 of the 125 in the first half."""
    run = run_with(scripted_run, "run", 250, 2)
    means: dict[str, float | None] = {}
    for part in printed_slices(run, "half"):
        means[part["value"]] = part["metrics"][METRIC]["mean"]
    assert means == {"first": None, "second": 1.0}
    decisions = run.check([f"{METRIC}[half=first]>=0.5", f"{METRIC}[half=second]>=0.5"]).decisions
    assert [decision.outcome for decision in decisions] == ["fail", "pass"]


def test_runs_of_different_sizes_have_their_own_allowance(scripted_run: ScriptedRun) -> None:
    """3 of 300 samples of the baseline may fail, and 1 of 100 of the run."""
    baseline = run_with(scripted_run, "old", 300, 3)
    run = run_with(scripted_run, "new", 100, 1)
    [decision] = run.check([f"{METRIC}.delta>=-0.5"], baseline=baseline).decisions
    assert decision.outcome == "pass"


def test_an_explicit_number_holds_for_any_size(scripted_run: ScriptedRun) -> None:
    assert run_with(scripted_run, "strict", 200, 1, max_failed=0)[METRIC].mean is None
    assert run_with(scripted_run, "lenient", 20, 5, max_failed=5)[METRIC].mean == 1.0


def test_a_run_that_may_stop_early_goes_on_after_a_failure(scripted_run: ScriptedRun) -> None:
    """Of 300 samples 3 may fail; one failure among the first samples does not decide the gate."""
    run = run_with(scripted_run, "run", 300, 3, until=[GATE])
    assert run.check([GATE])
    strict = run_with(scripted_run, "strict", 300, 3, until=[GATE], max_failed=0)
    assert not strict.check([GATE])


def test_a_resumed_run_applies_the_default(scripted_run: ScriptedRun, tmp_path: Path) -> None:
    run = run_with(scripted_run, "run", 100, 1, max_failed=0)
    assert run[METRIC].mean is None
    again = run_with(scripted_run, "run", 100, 1)
    fresh = run_with(scripted_run, "fresh", 100, 1)
    assert again[METRIC].mean == 1.0
    for name in ("summary.json", "scores.jsonl", "verdicts.jsonl"):
        assert (again.directory / name).read_bytes() == (fresh.directory / name).read_bytes()
