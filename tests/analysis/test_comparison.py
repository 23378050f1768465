"""What changed between two runs, on runs whose verdicts are written down beforehand."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from localjudge import InputError, Run, RunDirectoryError
from localjudge.analysis.compare import MetricChange, ScoreChanges, compare
from localjudge.stats import mcnemar, paired_difference, smallest_detectable_difference
from tests.conftest import ScriptedRun


def row(name: str, *sentences: str, **fields: Any) -> dict[str, Any]:
    """A sample whose reference has these sentences."""
    return {"id": name, "reference": " ".join(sentences), "retrieved_contexts": ["A context."], **fields}


A = row("a", "A one.", "A two.")
B = row("b", "B one.", "B two.")
C = row("c", "C one.", "C two.")
D = row("d", "D one.", "D two.")
BASELINE = {"A two.": 0.1, "C one.": 0.2, "C two.": 0.3}
"""Scores 1/2, 1, 0 and 1 for the samples a, b, c and d."""
NEW = {"C two.": 0.3, "B one.": 0.4}
"""Scores 1, 1/2, 1/2 and 1."""


def scores(change: MetricChange) -> ScoreChanges:
    """The scores of a metric that has some in common."""
    assert change.scores is not None
    return change.scores


@pytest.fixture
def changed(scripted_run: ScriptedRun) -> MetricChange:
    """Context recall of the same four samples with two scripts."""
    rows = [A, B, C, D]
    return compare(scripted_run("old", rows, BASELINE), scripted_run("new", rows, NEW)).metrics["context_recall"]


@pytest.mark.parametrize("wrong", [None, 3, {}])
def test_what_is_no_run_is_refused(scripted_run: ScriptedRun, wrong: Any) -> None:
    run = scripted_run("run", [A], {})
    with pytest.raises(InputError, match=r"a \w+ is not a run\n  hint: give a Run, or the directory of one"):
        compare(wrong, run)
    with pytest.raises(RunDirectoryError, match="holds no run"):
        compare(run, "nowhere")


def test_differences_are_new_minus_baseline_with_the_interval_of_the_pairs(changed: MetricChange) -> None:
    """+1/2, -1/2, +1/2, 0: mean 1/8; before (1/2 + 1 + 0 + 1) / 4, after (1 + 1/2 + 1/2 + 1) / 4."""
    change = scores(changed)
    assert (change.before, change.after, change.difference) == (0.625, 0.75, 0.125)
    assert (change.improved, change.worsened, change.tied, changed.compared) == (2, 1, 1, 4)
    expected = paired_difference([0.5, 1, 0, 1], [1, 0.5, 0.5, 1]).difference
    assert change.ci95 == (expected.low, expected.high)
    assert change.smallest_detectable == smallest_detectable_difference(expected)


def test_verdicts_that_flip_are_counted_and_judged_over_samples(changed: MetricChange) -> None:
    """Up: "A two.", "C one."; down: "B one."; eight verdicts on four samples, so no McNemar test."""
    assert changed.verdicts is not None
    assert (changed.verdicts.paired, changed.verdicts.up, changed.verdicts.down) == (8, 2, 1)
    expected = paired_difference([1, 0, 1, 1, 0, 0, 1, 1], [1, 1, 0, 1, 1, 0, 1, 1], clusters=list("aabbccdd"))
    assert changed.verdicts.difference == 0.125
    assert changed.verdicts.ci95 == (expected.difference.low, expected.difference.high)
    assert changed.verdicts.mcnemar_p is None


def test_one_verdict_per_sample_is_mcnemar_s_test(scripted_run: ScriptedRun) -> None:
    """Four go up, one goes down: 2 P(X <= 1), X ~ Binomial(5, 1/2) = 2 (1 + 5) / 32 = 0.375."""
    rows = [row(str(number), f"Sentence {number}.") for number in range(6)]
    old = scripted_run("old", rows, {f"Sentence {number}.": 0.0 for number in range(4)})
    new = scripted_run("new", rows, {"Sentence 5.": 0.0})
    verdicts = compare(old, new).metrics["context_recall"].verdicts
    assert verdicts is not None
    assert (verdicts.up, verdicts.down) == (4, 1)
    assert verdicts.mcnemar_p == mcnemar(4, 1) == pytest.approx(0.375)


def test_samples_that_share_a_document_are_compared_by_document(scripted_run: ScriptedRun) -> None:
    """One verdict per sample, but two samples per document: the interval decides, over two groups."""
    rows = [row(str(number), f"Sentence {number}.", document=number % 2) for number in range(4)]
    old = scripted_run("old", rows, {"Sentence 0.": 0.0, "Sentence 2.": 0.0}, cluster_by="document")
    new = scripted_run("new", rows, {"Sentence 1.": 0.0}, cluster_by="document")
    change = compare(old, new).metrics["context_recall"]
    expected = paired_difference([0, 1, 0, 1], [1, 0, 1, 1], clusters=[0, 1, 0, 1])
    assert scores(change).ci95 == (expected.difference.low, expected.difference.high)
    assert (scores(change).clusters, scores(change).method) == (2, "clustered skewness-adjusted t")
    assert change.verdicts is not None
    assert (change.verdicts.mcnemar_p, change.verdicts.ci95) == (None, scores(change).ci95)


@pytest.mark.parametrize(
    ("before", "clusters", "warning"),
    [
        ({}, 4, "one of the runs has groups of samples and the other has none: samples are taken one by one"),
        (
            {"cluster_by": "document"},
            2,
            "samples that are in another group in the baseline: 2; the groups of the new run are used",
        ),
    ],
)
def test_groups_that_differ_are_a_warning(
    scripted_run: ScriptedRun, before: dict[str, str], clusters: int, warning: str
) -> None:
    rows = [row(str(number), f"Sentence {number}.", document=number // 2, topic=number % 2) for number in range(4)]
    old, new = scripted_run("old", rows, {}, **before), scripted_run("new", rows, {}, cluster_by="topic")
    comparison = compare(old, new)
    assert comparison.warnings == (warning,)
    assert scores(comparison.metrics["context_recall"]).clusters == clusters


def test_the_samples_that_moved_most_come_first_with_the_sentences_that_moved(scripted_run: ScriptedRun) -> None:
    """Sample b moves by 1, a by 1/2; d does not move."""
    rows = [A, B, D]
    old = scripted_run("old", rows, {"A two.": 0.1, "B one.": 0.2, "B two.": 0.3})
    moved = compare(old, scripted_run("new", rows, {})).metrics["context_recall"].moved
    assert [(sample.sample_id, sample.before, sample.after) for sample in moved] == [("b", 0, 1), ("a", 0.5, 1)]
    assert [(unit.text, unit.before, unit.after, unit.p_before, unit.p_after) for unit in moved[1].units] == [
        ("A two.", 0, 1, 0.1, 1.0)
    ]


def test_among_equals_what_became_worse_comes_first(scripted_run: ScriptedRun) -> None:
    """Samples a and c gain 1/2, b loses 1/2; at most as many are listed as were asked for."""
    rows = [A, B, C, D]
    old, new = scripted_run("old", rows, BASELINE), scripted_run("new", rows, NEW)
    for most in (2, 5):
        moved = compare(old, new, moved=most).metrics["context_recall"].moved
        assert [sample.sample_id for sample in moved] == ["b", "a", "c"][:most]


def test_a_sentence_that_only_one_run_judged_is_listed_without_a_counterpart(scripted_run: ScriptedRun) -> None:
    """Another retriever found another passage."""

    def found(passage: str) -> list[dict[str, Any]]:
        return [{"id": "a", "user_input": "Why?", "retrieved_contexts": ["Both.", passage]}]

    old = scripted_run("old", found("Old."), {"Old.": 0.0}, metrics=["context_relevancy"])
    new = scripted_run("new", found("New."), {}, metrics=["context_relevancy"])
    change = compare(old, new).metrics["context_relevancy"]
    assert [(unit.text, unit.before, unit.after) for unit in change.moved[0].units] == [
        ("New.", None, 1),
        ("Old.", 0, None),
    ]
    assert change.verdicts is not None
    assert (change.verdicts.paired, change.verdicts.unpaired) == (1, 2)


def test_a_passage_at_another_rank_is_the_same_passage(scripted_run: ScriptedRun) -> None:
    def ranked(*passages: str) -> list[dict[str, Any]]:
        return [{"id": "a", "user_input": "Why?", "retrieved_contexts": list(passages)}]

    old = scripted_run("old", ranked("One.", "Two."), {"Two.": 0.0}, metrics=["context_relevancy"])
    new = scripted_run("new", ranked("Two.", "One."), {"Two.": 0.0}, metrics=["context_relevancy"])
    verdicts = compare(old, new).metrics["context_relevancy"].verdicts
    assert verdicts is not None
    assert (verdicts.paired, verdicts.unpaired, verdicts.up, verdicts.down) == (2, 0, 0, 0)


def test_a_context_s_number_means_nothing_once_the_contexts_differ(scripted_run: ScriptedRun) -> None:
    """In a matrix, a sentence is held against context 0; another run's context 0 is another passage."""

    def against(passage: str) -> list[dict[str, Any]]:
        return [{"id": "a", "reference": "One.", "retrieved_contexts": [passage]}]

    old = scripted_run("old", against("Old."), {}, metrics=["matrix_recall"])
    new = scripted_run("new", against("New."), {"One.": 0.0}, metrics=["matrix_recall"])
    assert compare(old, new).metrics["matrix_recall"].verdicts is None
    assert compare(old, old).metrics["matrix_recall"].verdicts is not None


def test_the_reference_is_the_same_whatever_was_retrieved(scripted_run: ScriptedRun) -> None:
    """The verdict on "Two." against the reference is paired, those against context 0 of other contexts are not."""

    def against(passage: str) -> list[dict[str, Any]]:
        return [{"id": "a", "reference": "One.", "response": "Two.", "retrieved_contexts": [passage]}]

    old = scripted_run("old", against("Old."), {"One.": 0.0}, metrics=["noise_sensitivity"])
    new = scripted_run("new", against("New."), {"One.": 0.0, "Two.": 0.0}, metrics=["noise_sensitivity"])
    verdicts = compare(old, new).metrics["noise_sensitivity"].verdicts
    assert verdicts is not None
    assert (verdicts.paired, verdicts.unpaired, verdicts.down) == (1, 4, 1)


def test_samples_without_a_difference_are_missing(scripted_run: ScriptedRun) -> None:
    """Sample a is in the baseline alone, d in the new run alone; c is undefined in one, b failed in the other."""
    nothing = {**C, "reference": ""}
    old = scripted_run("old", [A, B, C, row("e", "E.")], {"B one.": "broken"})
    new = scripted_run("new", [B, nothing, D, row("e", "E.")], {})
    found = compare(old, new)
    change = found.metrics["context_recall"]
    assert (change.compared, change.unpaired, change.unscored, change.missing) == (1, 2, 2, 4)
    assert (found.samples.only_baseline, found.samples.only_new, found.samples.by_id) == (1, 1, 3)
    assert any("the baseline has failed samples of context_recall: 1" in one for one in found.warnings)


def test_samples_without_a_partner_are_said_with_the_means_of_all(scripted_run: ScriptedRun) -> None:
    """B and c are paired, at 1/2 and 1; all of A: (0 + 1/2 + 1) / 3 = .5, all of B: (1/2 + 1 + 1 + 1) / 4 = .875."""
    script = {"A one.": 0.0, "A two.": 0.0, "B one.": 0.0}
    old = scripted_run("old", [A, B, C], script)
    found = compare(old, scripted_run("new", [B, C, D, row("e", "E.")], script))
    change = found.metrics["context_recall"]
    assert found.warnings == (
        "1 of 3 samples of A and 2 of 4 of B have no partner; means are of the 2 pairs; "
        "all of A: context_recall 0.500; all of B: context_recall 0.875",
    )
    assert (scores(change).before, change.baseline_mean, change.run_mean) == (0.75, 0.5, 0.875)


def test_a_metric_without_a_common_score_has_no_difference(scripted_run: ScriptedRun) -> None:
    old = scripted_run("old", [A], {"A one.": "broken"})
    change = compare(old, scripted_run("new", [A], {})).metrics["context_recall"]
    assert (change.compared, change.scores, change.verdicts, change.missing) == (0, None, None, 1)


def test_a_run_does_not_differ_from_itself(scripted_run: ScriptedRun) -> None:
    """And still says what it could not have seen: with 2 samples, hardly anything."""
    run = scripted_run("run", [A, B], BASELINE)
    found = compare(run, run)
    change = found.metrics["context_recall"]
    assert (scores(change).difference, scores(change).tied, change.moved, found.warnings) == (0.0, 2, (), ())
    assert scores(change).smallest_detectable > 0.5


def test_another_judge_is_named_in_a_warning(scripted_run: ScriptedRun) -> None:
    rows = [A]
    found = compare(scripted_run("old", rows, {}), scripted_run("new", rows, {}, threshold=0.75))
    assert [(change.ingredient, change.before, change.after) for change in found.judge_changes] == [
        ("threshold", 0.5, 0.75)
    ]
    assert any("the judges differ (threshold)" in warning for warning in found.warnings)


def test_a_metric_that_only_one_run_has_makes_no_other_judge(scripted_run: ScriptedRun) -> None:
    rows = [{**A, "user_input": "Why?"}]
    old = scripted_run("old", rows, {}, metrics=["context_recall"])
    new = scripted_run("new", rows, {}, metrics=["context_recall", "context_precision"])
    found = compare(old, new)
    assert (found.judge_changes, found.warnings, list(found.metrics)) == ((), (), ["context_recall"])


def test_ids_that_stand_for_other_questions_are_said(scripted_run: ScriptedRun) -> None:
    """Numbered rows of two different files."""
    found = compare(scripted_run("old", [A], {}), scripted_run("new", [{**B, "id": "a"}], {}))
    assert found.samples.other_question == 1
    assert any("paired samples with another question or reference: 1" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"id": "z", "reference": "Other.", "retrieved_contexts": ["c"]}, "no sample in common"),
        ({"id": "a", "user_input": "Why?", "retrieved_contexts": ["c"]}, "no metric in common"),
    ],
)
def test_runs_that_share_nothing_have_no_difference_and_say_so(
    scripted_run: ScriptedRun, other: Mapping[str, Any], said: str
) -> None:
    found = compare(scripted_run("old", [A], {}), scripted_run("new", [other], {}))
    assert any(said in warning for warning in found.warnings)
    assert not any(change.scores for change in found.metrics.values())


def test_runs_are_compared_from_their_directories(scripted_run: ScriptedRun, tmp_path: Path) -> None:
    """All that is needed was written."""
    fresh = compare(scripted_run("old", [A, C], BASELINE), scripted_run("new", [A, C], NEW))
    assert compare(Run.open(tmp_path / "old"), Run.open(tmp_path / "new")) == fresh
