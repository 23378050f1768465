import re
from pathlib import Path
from typing import Any

import pytest

from localjudge import Run
from localjudge.stats.paired import paired_difference, smallest_detectable_difference
from tests.analysis.conftest import expect
from tests.conftest import ScriptedRun
from tests.run_directory.conftest import judged_by


def row(name: str, *sentences: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": name,
        "reference": " ".join(sentences),
        "retrieved_contexts": ["A context."],
        **fields,
    }


A, B, C, D = (row(name.lower(), f"{name} one.", f"{name} two.") for name in "ABCD")
E = row("e", "E.")
BASELINE = {"A two.": 0.1, "C one.": 0.2, "C two.": 0.3}
"""Scores 1/2, 1, 0 and 1 for the samples a, b, c and d."""
NEW = {"C two.": 0.3, "B one.": 0.4}
"""Scores 1, 1/2, 1/2 and 1."""


def scores(change: Any) -> Any:
    assert change.scores is not None
    return change.scores


@pytest.fixture
def changed(scripted_run: ScriptedRun) -> Any:
    rows = [A, B, C, D]
    return (
        scripted_run("new", rows, NEW)
        .compare(scripted_run("old", rows, BASELINE))
        .metrics["context_recall"]
    )


def test_differences_are_new_minus_baseline_with_the_interval_of_the_pairs(
    changed: Any,
) -> None:
    """Differences +1/2, -1/2, +1/2, 0: mean 1/8.

    Baseline (1/2 + 1 + 0 + 1) / 4, new (1 + 1/2 + 1/2 + 1) / 4.
    """
    change = scores(changed)
    assert (change.before, change.after, change.difference) == (0.625, 0.75, 0.125)
    assert (change.improved, change.worsened, change.tied, changed.compared) == (2, 1, 1, 4)
    expected = paired_difference([0.5, 1, 0, 1], [1, 0.5, 0.5, 1])
    assert change.ci95 == (expected.low, expected.high)
    assert change.smallest_detectable == smallest_detectable_difference(expected)


def test_verdict_flips_are_counted_and_tested_over_samples(changed: Any) -> None:
    """Up: "A two.", "C one."; down: "B one."; eight verdicts on four samples."""
    assert changed.verdicts is not None
    assert (changed.verdicts.paired, changed.verdicts.up, changed.verdicts.down) == (8, 2, 1)
    expected = paired_difference(
        [1, 0, 1, 1, 0, 0, 1, 1], [1, 1, 0, 1, 1, 0, 1, 1], clusters=list("aabbccdd")
    )
    assert changed.verdicts.difference == 0.125
    assert changed.verdicts.ci95 == (expected.low, expected.high)


def test_samples_that_share_a_document_are_compared_by_document(scripted_run: ScriptedRun) -> None:
    """Two samples per document, one verdict each: the interval has two groups."""
    rows = [row(str(number), f"Sentence {number}.", document=number % 2) for number in range(4)]
    old = scripted_run("old", rows, {"Sentence 0.": 0.0, "Sentence 2.": 0.0}, cluster_by="document")
    new = scripted_run("new", rows, {"Sentence 1.": 0.0}, cluster_by="document")
    change = new.compare(old).metrics["context_recall"]
    expected = paired_difference([0, 1, 0, 1], [1, 0, 1, 1], clusters=[0, 1, 0, 1])
    assert scores(change).ci95 == (expected.low, expected.high)
    assert (scores(change).clusters, scores(change).method) == (2, "clustered skewness-adjusted t")
    assert change.verdicts is not None
    assert change.verdicts.ci95 == scores(change).ci95


@pytest.mark.parametrize(
    ("before", "clusters", "warning"),
    [
        ({}, 4, "runs has groups"),
        ({"cluster_by": "document"}, 2, "2 samples in another group"),
    ],
)
def test_groups_that_differ_are_a_warning(
    scripted_run: ScriptedRun, before: dict[str, str], clusters: int, warning: str
) -> None:
    rows = [
        row(str(number), f"Sentence {number}.", document=number // 2, topic=number % 2)
        for number in range(4)
    ]
    old = scripted_run("old", rows, {}, **before)
    new = scripted_run("new", rows, {}, cluster_by="topic")
    comparison = new.compare(old)
    assert [warning in words for words in comparison.warnings] == [True]
    assert scores(comparison.metrics["context_recall"]).clusters == clusters


def test_most_changed_samples_come_first_with_their_changed_sentences(
    scripted_run: ScriptedRun,
) -> None:
    """Sample b changes by 1, a by 1/2, d by 0."""
    rows = [A, B, D]
    old = scripted_run("old", rows, {"A two.": 0.1, "B one.": 0.2, "B two.": 0.3})
    new = scripted_run("new", rows, {})
    moved = new.compare(old).metrics["context_recall"].moved
    assert [(sample.sample_id, sample.before, sample.after) for sample in moved] == [
        ("b", 0, 1),
        ("a", 0.5, 1),
    ]
    [unit] = moved[1].units
    expect(unit, text="A two.", before=0, after=1, p_before=0.1, p_after=1.0)
    assert new.compare(old, moved=1).metrics["context_recall"].moved == moved[:1]


def test_of_equal_changes_losses_come_first(changed: Any) -> None:
    """Samples a and c gain 1/2, b loses 1/2."""
    assert [sample.sample_id for sample in changed.moved] == ["b", "a", "c"]


def question(*passages: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"id": "a", "user_input": "Why?", "retrieved_contexts": list(passages), **fields}]


def test_a_sentence_that_only_one_run_judged_is_listed_without_a_counterpart(
    scripted_run: ScriptedRun,
) -> None:
    old = scripted_run(
        "old", question("Both.", "Old."), {"Old.": 0.0}, metrics=["context_relevancy"]
    )
    new = scripted_run("new", question("Both.", "New."), {}, metrics=["context_relevancy"])
    change = new.compare(old).metrics["context_relevancy"]
    assert [(unit.text, unit.before, unit.after) for unit in change.moved[0].units] == [
        ("New.", None, 1),
        ("Old.", 0, None),
    ]
    assert change.verdicts is not None
    assert (change.verdicts.paired, change.verdicts.unpaired) == (1, 2)


@pytest.mark.parametrize(
    ("metric", "old", "new", "expected"),
    [
        ("context_relevancy", question("One.", "Two."), question("Two.", "One."), (2, 0, 0)),
        (
            "matrix_recall",
            question("Old.", reference="One."),
            question("New.", reference="One."),
            None,
        ),
        (
            "matrix_recall",
            question("Old.", reference="One."),
            question("Old.", reference="One."),
            (1, 0, 1),
        ),
        (
            "noise_sensitivity",
            question("Old.", reference="One.", response="Two."),
            question("New.", reference="One.", response="Two."),
            (1, 4, 0),
        ),
    ],
    ids=[
        "another rank",
        "context 0 is another passage",
        "the same passage",
        "the reference is the same",
    ],
)
def test_units_are_matched_by_text(
    scripted_run: ScriptedRun,
    metric: str,
    old: Any,
    new: Any,
    expected: tuple[int, int, int] | None,
) -> None:
    """Expected are pairs, units of one run only, and flips down."""
    before = scripted_run("old", old, {"Two.": 0.0}, metrics=[metric])
    after = scripted_run(
        "new",
        new,
        {"Two.": 0.0, **({"One.": 0.0} if expected == (1, 0, 1) else {})},
        metrics=[metric],
    )
    verdicts = after.compare(before).metrics[metric].verdicts
    assert (verdicts and (verdicts.paired, verdicts.unpaired, verdicts.down)) == expected


def test_samples_without_a_difference_are_missing(scripted_run: ScriptedRun) -> None:
    """Only the baseline has a, only the new run d; c is undefined in one run, b failed in one."""
    old = scripted_run("old", [A, B, C, E], {"B one.": "broken"}, max_failed=1)
    comparison = scripted_run("new", [B, {**C, "reference": ""}, D, E], {}).compare(old)
    change = comparison.metrics["context_recall"]
    assert (change.compared, change.unpaired, change.unscored) == (1, 2, 2)
    samples = comparison.samples
    assert (samples.only_baseline, samples.only_new, samples.by_id) == (1, 1, 3)
    assert any(
        "baseline" in warning and "context_recall: 1" in warning for warning in comparison.warnings
    )


def test_more_failures_than_allowed_in_either_run_leave_no_difference(
    scripted_run: ScriptedRun,
) -> None:
    broken = scripted_run("broken", [A, B, D], {"A one.": "broken"})
    whole = scripted_run("whole", [A, B, D], {})
    for runs, which in (((broken, whole), "the baseline"), ((whole, broken), "this run")):
        before, after = runs
        change = after.compare(before).metrics["context_recall"]
        expect(change, compared=0, scores=None, verdicts=None, moved=())
        assert change.withheld is not None
        assert f"1 sample of {which}" in change.withheld
        assert "max_failed 0" in change.withheld


def test_unpaired_samples_are_reported_with_the_means_of_all(scripted_run: ScriptedRun) -> None:
    """Pairs are b and c, at 1/2 and 1.

    All of A: (0 + 1/2 + 1) / 3 = .5; all of B: (1/2 + 1 + 1 + 1) / 4 = .875.
    """
    script = {"A one.": 0.0, "A two.": 0.0, "B one.": 0.0}
    old = scripted_run("old", [A, B, C], script)
    comparison = scripted_run("new", [B, C, D, E], script).compare(old)
    [warning] = comparison.warnings
    numbers = (
        "1 of 3 .* 2 of 4 .* 2 pairs.* baseline: context_recall 0.500.* run: context_recall 0.875"
    )
    assert re.search(numbers, warning)
    assert scores(comparison.metrics["context_recall"]).before == 0.75


def test_a_run_does_not_differ_from_itself(scripted_run: ScriptedRun, tmp_path: Path) -> None:
    run = scripted_run("run", [A, B], BASELINE)
    comparison = run.compare(run)
    change = comparison.metrics["context_recall"]
    assert (scores(change).difference, scores(change).tied, change.moved, comparison.warnings) == (
        0.0,
        2,
        (),
        (),
    )
    assert (scores(change).smallest_detectable or 0.0) > 0.5
    assert Run.open(tmp_path / "run").compare(tmp_path / "run") == comparison


def test_another_judge_is_a_warning_and_another_metric_is_not(scripted_run: ScriptedRun) -> None:
    rows = [{**A, "user_input": "Why?"}]
    old = scripted_run("old", rows, {})
    comparison = scripted_run("new", rows, {}, threshold=0.75).compare(old)
    changes = [
        (change.ingredient, change.before, change.after) for change in comparison.judge_changes
    ]
    assert changes == [("threshold", 0.5, 0.75)]
    assert any("the judges differ (threshold)" in warning for warning in comparison.warnings)
    comparison = scripted_run(
        "more", rows, {}, metrics=["context_recall", "context_precision"]
    ).compare(old)
    assert (comparison.judge_changes, comparison.warnings, [*comparison.metrics]) == (
        (),
        (),
        ["context_recall"],
    )


@pytest.mark.parametrize(
    ("judge", "words"),
    [
        ({"combinations": {"m": {"weights": {"reader": 2.0}, "bias": 1.0}}}, "weights"),
        (
            {
                "combinations": {"m": {"weights": {"reader": 2.0}, "bias": 1.0}},
                "min_valid_mass": 0.5,
            },
            "weights, min_valid_mass",
        ),
    ],
)
def test_other_judges_are_named_in_a_few_words(
    scripted_run: ScriptedRun, judge: dict[str, Any], words: str
) -> None:
    """Two lines of `combinations.m.weights.reader` and `combinations.m.bias` are one word."""
    run = scripted_run("run", [A], {})
    warnings = judged_by(run, **judge).compare(run).warnings
    assert any(f"the judges differ ({words})" in warning for warning in warnings), warnings


@pytest.mark.parametrize(
    ("other", "warning", "compared"),
    [
        ({**B, "id": "a"}, "another question or reference: 1", True),
        (row("z", "Other."), "no sample in common", False),
        (question("c")[0], "no metric in common", False),
    ],
    ids=["numbered rows of two files", "other samples", "other columns"],
)
def test_runs_of_other_data_are_compared_with_a_warning(
    scripted_run: ScriptedRun, other: dict[str, Any], warning: str, compared: bool
) -> None:
    comparison = scripted_run("new", [other], {}).compare(scripted_run("old", [A], {}))
    assert any(warning in words for words in comparison.warnings)
    assert any(change.scores for change in comparison.metrics.values()) == compared
