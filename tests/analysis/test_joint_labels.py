"""Labels of two runs together: one drawing of what can change their difference."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import printed_lines, refused
from human_labels import answer_all, draw, fill_sheet

import localjudge
from localjudge import InputError, Run, RunPair
from localjudge.analysis.compare import join_statements
from localjudge.analysis.comparison import count_labels_to_decide
from localjudge.labels.labelling import Labelling, labels_to_detect
from localjudge.run_directory.comparison_directory import ComparisonDirectory
from localjudge.run_directory.label_rows import append_labels, stored_labels
from localjudge.stats.interval import Mean
from tests.analysis.conftest import remarks_on, written
from tests.conftest import OneJudge

LABELS = "labels.jsonl"

METRIC = "faithfulness"
_Answers = list[list[str]]


@pytest.fixture
def compared(tmp_path: Path) -> Callable[..., ComparisonDirectory]:
    """Make a comparison of these answers, each a list of sentences; the judge says .8 to all."""

    def make(
        old: _Answers, new: _Answers, p_yes: dict[str, float] | None = None
    ) -> ComparisonDirectory:
        comparison = ComparisonDirectory.create(tmp_path / "cmp", "answer_a", "answer_b")
        for path, answers in ((comparison.baseline_path, old), (comparison.run_path, new)):
            rows = []
            for number, sentences in enumerate(answers):
                rows.append(
                    {
                        "id": f"s{number}",
                        "user_input": f"What of {number}?",
                        "retrieved_contexts": [f"All about {number}."],
                        "response": " ".join(sentences),
                    }
                )
            engine = OneJudge({}, default=0.8)
            localjudge.evaluate(rows, metrics=[METRIC], engine=engine, out=path)
        return comparison

    return make


def joint_frame(comparison: ComparisonDirectory) -> Any:
    return join_statements(comparison).frames[METRIC]


def change(comparison: ComparisonDirectory) -> Any:
    found = RunPair.open(comparison.path).comparison.metrics[METRIC].corrected
    assert found is not None
    return found


def claim(comparison: ComparisonDirectory) -> str:
    lines = printed_lines("compare", comparison.baseline_path, comparison.run_path, width=1_000)
    return next(line for line in lines if METRIC in line)


def label_joint(
    comparison: ComparisonDirectory, say: Callable[[str], Any], n: int = 1_000, **how: Any
) -> Labelling:
    return answer_all(draw(join_statements(comparison), "ann", n, **how), say)


def is_right(text: str) -> int:
    return int("wrong" not in text)


def read_sheet_of(comparison: ComparisonDirectory, count: int) -> int:
    """Label the statements of a sheet, which is a plan, and return how many labels were read."""
    filled = fill_sheet(draw(join_statements(comparison), "ann", count), is_right)
    sheet = written(comparison.path / "sheet.jsonl", *filled)
    return RunPair.open(comparison.path).read_labels(sheet).new


def two_systems(pairs: int) -> tuple[_Answers, _Answers]:
    """Return answers in which every second pair differs: B replaces one right statement by a wrong
    one, or adds one.
    """
    old = [[f"Fact {pair} is one.", f"Fact {pair} is two."] for pair in range(pairs)]
    new = []
    for pair, sentences in enumerate(old):
        if pair % 4 == 1:
            new.append([sentences[0], f"Fact {pair} is wrong."])
        elif pair % 4 == 3:
            new.append([*sentences, f"Fact {pair} is also wrong."])
        else:
            new.append(sentences)
    return old, new


def test_the_weights_of_a_difference_by_hand(compared: Callable[..., ComparisonDirectory]) -> None:
    """Pair 1: s1 s2 in both, nothing changes. Pair 2: t1 t2, then t1 t3 t4: t1 has 1/2 (1/3 - 1/2)
    = -1/12, t2 -1/4, t3 and t4 1/6.
    """
    old = [["One is s1.", "One is s2."], ["Two is t1.", "Two is t2."]]
    new = [["One is s1.", "One is s2."], ["Two is t1.", "Two is t3.", "Two is t4."]]
    source = join_statements(compared(old, new))
    frame: Any = source.frames[METRIC]
    texts = {key: verdict.text for key, verdict in source.verdicts(frame.by_key).items()}
    changes = {texts[key]: frame.changes[units[0]] for key, units in frame.by_key.items()}
    assert changes == pytest.approx(
        {"Two is t1.": -1 / 12, "Two is t2.": -1 / 4, "Two is t3.": 1 / 6, "Two is t4.": 1 / 6}
    )
    assert frame.statements == 6


def test_numbers_of_statements_are_explained_where_they_are_shown(
    compared: Callable[..., ComparisonDirectory],
) -> None:
    """A has 40 * 2 statements, B 10 more, and 20 are in B only. Ten pairs differ in 2 statements,
    and ten in 3, because the answers have other lengths; the other 100 - 50 cancel.
    """
    comparison = compared(*two_systems(40))
    label_joint(comparison, is_right, 10)
    assert change(comparison).remark == "the difference needs 20 labels, got 10"
    labelling = label_joint(comparison, is_right, 30)
    [line] = [remark for remark in labelling.remarks if "never asked" in remark]
    assert re.findall("[0-9]+", line) == ["170", "100", "50", "50"]
    remarks = remarks_on(comparison.baseline_path, comparison.run_path, METRIC)
    assert re.findall("[0-9]+", remarks[0]) == ["30", "50", "50"]
    assert "(-)" in remarks[1]
    assert "never asked" in remarks[1]


def test_labels_of_all_that_differs_give_the_difference_of_people(
    compared: Callable[..., ComparisonDirectory],
) -> None:
    """Of 40 pairs, ten have 1/2 and ten 2/3 in B, all have 1 in A: -(10 * 1/2 + 10 * 1/3) / 40."""
    comparison = compared(*two_systems(40))
    # In ten pairs two statements differ in weight, in ten others all three do.
    assert len(joint_frame(comparison).by_key) == 10 * 2 + 10 * 3
    labelling = label_joint(comparison, is_right)
    assert labelling.total == 50
    assert not any("Fact 0 " in row.text for row in stored_labels(comparison.path))
    found = change(comparison)
    assert found.difference == pytest.approx(-(10 / 2 + 10 / 3) / 40)
    low, high = found.ci95
    assert low < -(10 / 2 + 10 / 3) / 40 < high < 0
    assert (found.is_joint, found.labels, found.statements) == (True, 50, 50)
    assert (found.before, found.after) == (None, None)


def test_some_labels_of_both_runs_decide_the_difference(
    compared: Callable[..., ComparisonDirectory],
) -> None:
    comparison = compared(*two_systems(120))
    label_joint(comparison, is_right, n=40)
    found = change(comparison)
    truth = -(30 / 2 + 30 / 3) / 120
    assert found.ci95[0] < truth < found.ci95[1] < 0
    assert found.labels < found.labelled + 1 <= 41
    moved = RunPair.open(comparison.path).comparison.metrics[METRIC]
    assert moved.quoted.basis == "labels"


def test_the_sheet_does_not_say_whose_a_statement_is_and_is_read_back(
    compared: Callable[..., ComparisonDirectory],
) -> None:
    comparison = compared(*two_systems(60))
    rows = draw(join_statements(comparison), count=30).rows
    assert all("answer_" not in json.dumps(row, default=str) for row in rows)
    assert read_sheet_of(comparison, 30) == 30
    found = change(comparison)
    assert (found.labels, found.look) == (30, 30)  # a plan: all count, with an ordinary interval
    for run in (comparison.baseline_path, comparison.run_path):
        assert stored_labels(run) == []


def test_equal_answers_need_no_label(compared: Callable[..., ComparisonDirectory]) -> None:
    old, _ = two_systems(12)
    comparison = compared(old, old)
    with pytest.raises(InputError, match="no statement"):
        draw(join_statements(comparison))


def test_labels_of_two_runs_elsewhere_are_not_joint(
    compared: Callable[..., ComparisonDirectory], tmp_path: Path
) -> None:
    """A run copied out of its comparison does not take the labels of the difference along."""
    comparison = compared(*two_systems(40))
    label_joint(comparison, is_right)
    elsewhere = tmp_path / "elsewhere"
    comparison.run_path.rename(elsewhere)
    assert Run.open(elsewhere).compare(comparison.baseline_path).metrics[METRIC].corrected is None


def test_fewer_labels_show_a_larger_difference(
    compared: Callable[..., ComparisonDirectory],
) -> None:
    frame = joint_frame(compared(*two_systems(120)))
    needed = [labels_to_detect(frame, difference) for difference in (0.05, 0.1, 0.2)]
    assert needed[-1] == 20  # the fewest that have an interval
    known = [number or 1_000 for number in needed]
    assert known == sorted(known, reverse=True)


def test_annotators_who_disagree_widen_the_interval(
    compared: Callable[..., ComparisonDirectory],
) -> None:
    comparison = compared(*two_systems(120))
    label_joint(comparison, is_right)
    alone = change(comparison)
    rows = stored_labels(comparison.path)
    others = []
    for number, row in enumerate(rows):
        human = is_right(row.text)
        if number % 20 == 0:
            human = 1 - human
        others.append(row.model_copy(update={"annotator": "bob", "human": human}))
    append_labels(comparison.path, others)
    together = change(comparison)
    assert together.ci95[0] <= alone.ci95[0]
    assert alone.ci95[1] < together.ci95[1]


def test_a_run_of_two_is_a_run(compared: Callable[..., ComparisonDirectory]) -> None:
    """Labels of the difference do not touch the means of either run."""
    comparison = compared(*two_systems(40))
    before = Run.open(comparison.run_path).labels
    label_joint(comparison, is_right)
    assert Run.open(comparison.run_path).labels == before


def test_a_gate_on_the_difference_is_decided_by_the_joint_labels(
    compared: Callable[..., ComparisonDirectory],
) -> None:
    """The judge sees no difference; people see one of about -.21, so that a gate at -.1 fails."""
    comparison = compared(*two_systems(120))
    runs: dict[str, Any] = {"baseline": comparison.baseline_path}
    gates = [f"{METRIC}.delta>=-0.1"]
    [by_judge] = Run.open(comparison.run_path).check(gates, **runs).decisions
    assert (by_judge.outcome, by_judge.corrected) == ("pass", False)
    label_joint(comparison, is_right, n=40)
    [by_labels] = Run.open(comparison.run_path).check(gates, **runs).decisions
    assert (by_labels.outcome, by_labels.corrected) == ("fail", True)


def test_verify_notices_a_forged_label_of_the_difference(
    compared: Callable[..., ComparisonDirectory],
) -> None:
    comparison = compared(*two_systems(40))
    label_joint(comparison, is_right)
    pair = RunPair.open(comparison.path)
    engine = OneJudge({}, default=0.8)
    assert pair.verify(engine=engine)
    assert pair.verify(engine=engine)
    file = comparison.path / LABELS
    forged = file.read_text(encoding="utf-8").replace('"human": 0', '"human": 1')
    file.write_text(forged, encoding="utf-8")
    verification = pair.verify(engine=engine)
    assert not verification
    assert len(verification.labels.problems) == 1


def test_means_by_joint_labels_exist_where_every_statement_can_be_drawn(
    compared: Callable[..., ComparisonDirectory],
) -> None:
    """A and B share no sentence. By labels, A has 9 of 10 statements right, B 7 of 10; the judge
    says .8 to all.
    """
    old = [[f"Old {n} is {'wrong' if n % 10 == 0 else 'it'}."] for n in range(120)]
    new = [[f"New {n} is {'wrong' if n % 10 in (1, 2, 3) else 'it'}."] for n in range(120)]
    comparison = compared(old, new)
    label_joint(comparison, is_right, n=80)
    found = change(comparison)
    assert found.uncounted == 0
    assert found.before == pytest.approx(0.9, abs=0.09)
    assert found.after == pytest.approx(0.7, abs=0.09)
    assert found.difference == pytest.approx((found.after or 0) - (found.before or 0))
    label_joint(comparison, is_right)
    found = change(comparison)
    assert found.before == pytest.approx(0.9)
    assert found.after == pytest.approx(0.7)


def test_a_statement_that_counts_the_same_in_both_leaves_no_means(
    compared: Callable[..., ComparisonDirectory],
) -> None:
    """Not drawn: two statements of each of 20 equal pairs, and the first one of the ten pairs that
    replace the second.
    """
    comparison = compared(*two_systems(40))
    label_joint(comparison, is_right)
    found = change(comparison)
    assert found.uncounted == joint_frame(comparison).uncounted == 20 * 2 + 10
    assert (found.before, found.after) == (None, None)


def test_the_labels_that_would_decide_are_a_look_or_all(
    compared: Callable[..., ComparisonDirectory],
) -> None:
    """20 labels were planned, so the next looks are at 40, 80 and 160 labels. Of 240 statements,
    A has 8 of 10 right and B 7 of 10.
    """
    old = [[f"Old {n} is {'wrong' if n % 10 < 2 else 'it'}."] for n in range(120)]
    new = [[f"New {n} is {'wrong' if n % 10 in (3, 5, 7) else 'it'}."] for n in range(120)]
    comparison = compared(old, new)
    read_sheet_of(comparison, 20)
    metric = RunPair.open(comparison.path).comparison.metrics[METRIC]
    found: Any = metric.corrected
    assert (found.planned, found.labels) == (20, 20)
    # If all had labels: var(d) / n, where 0.8 x 0.2 + 0.7 x 0.3 = 0.37 is the variance of a pair.
    expected = 1.96 * (0.37 / 120) ** 0.5
    assert found.half_width_of_all == pytest.approx(expected, rel=0.35)
    assert labels_at(metric, 0.13) == 240  # no earlier look decides, with a wider interval each
    assert labels_at(metric, 0.02) is None
    assert labels_at(metric, 0.34) == 40


def labels_at(change: Any, difference: float) -> int | None:
    """Return the labels that would decide an interval of the same width around this difference."""
    assert isinstance(change.quoted, Mean)
    assert change.corrected is not None
    mean = change.quoted._replace(mean=difference, ci95=(difference - 0.35, difference + 0.35))
    return count_labels_to_decide(0, mean, mean, change.corrected)


def test_labels_between_two_looks_wait_and_the_missing_ones_reach_the_next(
    compared: Callable[..., ComparisonDirectory],
) -> None:
    """20 labels were planned and 10 more were given, so the next look is at 40 labels."""
    old = [[f"Old {n} is {'wrong' if n % 10 < 2 else 'it'}."] for n in range(120)]
    new = [[f"New {n} is {'wrong' if n % 10 in (3, 5) else 'it'}."] for n in range(120)]
    comparison = compared(old, new)
    read_sheet_of(comparison, 20)
    assert change(comparison).waiting is None
    label_joint(comparison, is_right, n=30)
    metric = RunPair.open(comparison.path).comparison.metrics[METRIC]
    found: Any = metric.corrected
    assert (found.labels, found.labelled, found.next_look) == (20, 30, 40)
    assert "10 more labels" in found.waiting
    assert "40" in found.waiting
    [missing] = re.findall(r"about (\d+) more labels would decide", claim(comparison))
    assert int(missing) in (10, 50, 130, 210)  # up to 40, 80, 160 or all labels


@pytest.mark.parametrize("side", ["baseline_path", "run_path"])
@pytest.mark.parametrize("damage", ['{"broken": 1}', "nonsense", "[]"])
def test_damaged_labels_of_a_run_are_refused_before_labelling_as_in_a_comparison(
    compared: Callable[..., ComparisonDirectory], side: str, damage: str
) -> None:
    """Labels were once drawn and given, and the comparison with them was refused."""
    comparison = compared([["One is so."]] * 3, [["Two is so."]] * 3)
    path = getattr(comparison, side) / LABELS
    path.write_text(f"{damage}\n")
    sheet = comparison.path.parent / "sheet.csv"
    message = refused("compare", comparison.baseline_path, comparison.run_path)
    assert f"{path}:1" in message
    assert refused("label", comparison.path, "--out", sheet) == message
    assert not sheet.exists()
