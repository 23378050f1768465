import json
import random
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from command_line import printed_lines
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localjudge import Run
from localjudge.run_directory.label_rows import append_labels, stored_labels
from localjudge.stats.paired import paired_difference
from localjudge.words import signed
from tests.analysis.conftest import label, label_words, labels_of, remarks_on
from tests.analysis.labelled_runs import METRIC, make_run, truth
from tests.conftest import ScriptedRun

LABELS = "labels.jsonl"


def change(before: Run, after: Run) -> Any:
    return after.compare(before).metrics[METRIC]


def corrected(before: Run, after: Run) -> Any:
    found = change(before, after).corrected
    assert found is not None
    return found


def interval(before: Run, after: Run) -> tuple[float, float]:
    low, high = corrected(before, after).ci95
    return low, high


def other(number: int) -> str:
    return "All" if number % 3 else "Little"


def test_labels_of_all_statements_give_the_labelled_difference(scripted_run: ScriptedRun) -> None:
    """Human labels in A: 1 0, 1, 0 0, 1, mean (1/2 + 1 + 0 + 1) / 4 = .625; in B: 1 1, 1, 1 0, 1,
    mean (1 + 1 + 1/2 +
    1) / 4.

    The judge gives 1 to all of A and only to "A one." in B: means 1 and (1/2) / 4.
    """
    sentences = {
        "a": ["A one.", "A two."],
        "b": ["B one."],
        "c": ["C one.", "C two."],
        "d": ["D one."],
    }
    old, new = (
        [
            {"id": name, "reference": " ".join(texts), "retrieved_contexts": [context]}
            for name, texts in sentences.items()
        ]
        for context in ("Old.", "New.")
    )
    said_of_new = dict.fromkeys(["A two.", "B one.", "C one.", "C two.", "D one."], 0.1)
    before = label(
        scripted_run("a", old, {}), say=lambda text: text in ("A one.", "B one.", "D one.")
    )
    after = label(scripted_run("b", new, said_of_new), say=lambda text: text != "C two.")
    found = corrected(before, after)
    scores = change(before, after).scores
    assert [found.before, found.after, found.difference] == pytest.approx(
        [0.625, 0.875, 0.875 - 0.625]
    )
    assert (found.labels_before, found.labels_after, found.labels) == (6, 6, 12)
    assert scores is not None
    assert (scores.before, scores.after) == (1, 0.125)


def test_labels_of_nine_samples_decide_a_difference_only_if_all_statements_have_one(
    scripted_run: ScriptedRun,
) -> None:
    before, after = (
        make_run(scripted_run, name, samples=9, surer=0.1 * (name == "b")) for name in "ab"
    )
    for run in (before, after):
        label(run, n=10)
    both = change(before, after)
    mean = corrected(before, after)
    assert (mean.ci95, both.headline) == (None, None)
    gate = f"{METRIC}.delta>=-0.9"
    [decision] = after.check([gate], baseline=before).decisions
    assert (decision.outcome, decision.value, decision.corrected) == ("undecided", None, False)
    for run in (before, after):
        label(run)
    [decision] = after.check([gate], baseline=before).decisions
    mean = corrected(before, after)
    assert (mean.difference, decision.value, decision.corrected, mean.clusters) == (0, 0, True, 9)
    assert decision.ci95 == mean.ci95
    assert paired_difference([0.5] * 9, [0.5] * 9).ci95 == mean.ci95


def test_a_run_does_not_differ_from_itself(scripted_run: ScriptedRun) -> None:
    run = label(make_run(scripted_run, "a"), n=40)
    itself = corrected(run, run)
    assert (itself.difference, *interval(run, run)) == (0, 0, 0)
    assert remarks_on(run, run)[-1].startswith("no difference")
    assert itself.before == itself.after == labels_of(run).corrected[METRIC].mean


def test_labels_that_are_all_1_in_both_runs_do_not_prove_equality(
    scripted_run: ScriptedRun,
) -> None:
    """With 50 labels of 1 each, a share of errors of about 3/50 may be unseen in either run."""
    a = make_run(scripted_run, "a", samples=80)
    b = make_run(scripted_run, "b", other, samples=80)
    for run in (a, b):
        label(run, lambda _: 1, n=50)
    low, high = interval(a, b)
    assert corrected(a, b).difference == 0
    assert -0.1 < low < -0.05 < 0.05 < high < 0.1
    [decision] = b.check([f"{METRIC}.delta>=-0.001"], baseline=a).decisions
    assert decision.outcome == "undecided"


def test_exchanging_the_runs_negates_the_interval(scripted_run: ScriptedRun) -> None:
    """Both runs use the last look that both have reached: 30 labels."""
    a = label(make_run(scripted_run, "a"), n=50)
    b = label(make_run(scripted_run, "b", other, surer=0.1), n=30)
    there = corrected(a, b)
    back = corrected(b, a)
    assert there.difference == pytest.approx(-(back.difference or 0), abs=1e-12)
    assert interval(a, b) == pytest.approx(
        tuple(-limit for limit in interval(b, a)[::-1]), abs=1e-12
    )
    assert (there.labels_before, there.labels_after, there.labels) == (30, 30, back.labels)


@pytest.fixture
def labelled_pair(scripted_run: ScriptedRun) -> tuple[Run, Run]:
    before = make_run(scripted_run, "before", samples=30)
    after = make_run(scripted_run, "after", other, samples=30)
    return label(before, n=25), label(after, n=25)


@settings(
    max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(shuffle=st.randoms(use_true_random=False))
def test_the_order_of_labels_does_not_matter(
    labelled_pair: tuple[Run, Run], shuffle: random.Random
) -> None:
    expected = corrected(*labelled_pair)
    for run in labelled_pair:
        rows = stored_labels(run.directory)
        shuffle.shuffle(rows)
        (run.directory / LABELS).unlink()
        append_labels(run.directory, rows)
    assert corrected(*labelled_pair) == expected


def test_runs_of_the_same_data_share_labels(scripted_run: ScriptedRun) -> None:
    before = label(make_run(scripted_run, "a"), n=50)
    after = make_run(scripted_run, "b", threshold=0.7)
    both = change(before, after)
    found = corrected(before, after)
    assert (found.labels_before, found.labels_after, found.labels) == (50, 50, 50)
    assert both.scores is not None
    assert both.scores.ci95 is not None
    assert both.scores.ci95[1] < 0  # counted: the other threshold moves no probability
    low, high = interval(before, after)
    assert low < 0 < high
    remarks = remarks_on(before, after)
    assert [line for line in remarks if "better" in line or "worse" in line] == []


def test_labels_of_all_shared_statements_separate_judge_error_from_change(
    scripted_run: ScriptedRun,
) -> None:
    before = label(make_run(scripted_run, "a"))
    after = make_run(scripted_run, "b", threshold=0.7)
    assert corrected(before, after).difference == pytest.approx(0, abs=1e-12)
    assert corrected(before, after).after == pytest.approx(truth(60))


def test_labels_not_drawn_for_the_other_run_are_reported_and_ignored(
    scripted_run: ScriptedRun,
) -> None:
    before = label(make_run(scripted_run, "a"), n=50)
    after = make_run(scripted_run, "b", other)
    both = change(before, after)
    labelled = [row for row in stored_labels(before.directory) if int(row.sample_id[1:]) % 3]
    assert (both.headline, both.quoted) == (None, both.by_judge)
    remark = remarks_on(before, after)[0]
    assert re.findall(r"\d+", remark)[:2] == [str(len(labelled)), "50"]
    backwards = change(after, before).corrected
    assert backwards is not None
    assert "statements of the baseline" in (backwards.remark or "")


def test_labels_of_other_statements_correct_nothing_and_say_so(scripted_run: ScriptedRun) -> None:
    before = label(make_run(scripted_run, "a"), n=50)
    after = make_run(scripted_run, "b", lambda _: "Nothing")
    remark = corrected(before, after).remark
    assert remark is not None
    assert str(after.directory) in remark
    assert str(before.directory) not in remark


def test_samples_of_a_document_count_as_one(scripted_run: ScriptedRun) -> None:
    """60 samples of 15 documents. If one run has no groups, each sample counts."""
    grouped = [label(make_run(scripted_run, name, cluster_by="document"), n=60) for name in "ab"]
    alone = label(make_run(scripted_run, "c"), n=60)
    assert corrected(grouped[0], grouped[1]).clusters <= 15
    assert corrected(alone, grouped[1]).clusters > 15


def test_only_pairs_with_two_scores_count(scripted_run: ScriptedRun) -> None:
    before = label(make_run(scripted_run, "a"))
    after = label(make_run(scripted_run, "b", samples=40))
    both = corrected(before, after)
    assert both.before == pytest.approx(truth(40))
    assert both.after == pytest.approx(truth(40))
    assert both.statements == both.labels == sum(1 + number % 3 for number in range(40))


def test_the_corrected_difference_is_printed_above_the_judge_s(scripted_run: ScriptedRun) -> None:
    """Human labels show a loss in every third sample; the judge sees none."""
    before = label(make_run(scripted_run, "a"))
    after = label(
        make_run(scripted_run, "b", other),
        say=lambda text: int(text.split()[4]) % 3 > 0 and label_words(text) > 0,
    )
    printed = printed_lines("compare", before, after, width=200)
    lines = [line.split() for line in printed]
    first = next(place for place, line in enumerate(lines) if line[:1] == [METRIC])
    found = corrected(before, after)
    assert lines[first][3] == f"{found.difference:+.3f}"
    assert lines[first + 1][:2] == ["judge", "only"]
    assert lines[first + 1][4] == "0.000"
    assert lines[first + 2] == []
    remarks = [line.partition(": ")[2] for line in printed if line.startswith(f"{METRIC}: ")]
    assert re.findall(r"\d+", remarks[0]) == ["120", "120"]
    assert remarks[1].startswith("B is worse")
    values = json.loads(after.compare(before).model_dump_json())["metrics"][METRIC]
    assert values["scores"]["difference"] == 0
    assert values["corrected"]["difference"] == found.difference


def test_the_newer_label_counts_in_both_directions(scripted_run: ScriptedRun) -> None:
    """In a difference. The mean of a run is corrected by the labels of this run only."""
    monday, tuesday = (make_run(scripted_run, name) for name in ("monday", "tuesday"))
    label(monday)
    rows = stored_labels(monday.directory)
    opposite = [row.model_copy(update={"human": 1 - int(row.human == 1)}) for row in rows]
    later = (datetime.now(UTC) + timedelta(seconds=20)).isoformat()
    append_labels(tuesday.directory, [row.model_copy(update={"when": later}) for row in opposite])
    wanted = 1 - truth(60)
    means = {monday.directory: truth(60), tuesday.directory: wanted}
    for before, after in ((monday, tuesday), (tuesday, monday)):
        found = corrected(before, after)
        assert [found.before, found.after] == pytest.approx([wanted, wanted])
        labels = before.check(baseline=after).labels
        assert labels is not None
        assert labels.corrected[METRIC].mean == pytest.approx(means[before.directory])


def test_the_page_has_the_corrected_difference_and_its_gate(scripted_run: ScriptedRun) -> None:
    before = label(make_run(scripted_run, "a"), n=50)
    after = make_run(scripted_run, "b", threshold=0.7)
    text = after.report(baseline=before, gates=[f"{METRIC}.delta>=-0.2"]).read_text()
    both = change(before, after)
    assert both.scores is not None
    assert both.quoted.mean is not None
    assert f">{signed(both.quoted.mean)}<" in text
    assert f">{signed(both.scores.difference)}<" not in text
    assert re.search("50 labels for the baseline .*50 labels for this run", text)
