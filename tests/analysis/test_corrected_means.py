"""Means of a run, corrected by labels of it; and labels that are not of it."""

import csv
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localjudge import Criterion, DataError, Run
from localjudge.analysis.correct import FEW, NO_SHARE, corrected_means
from localjudge.analysis.label_sheet import label_sheet
from tests.analysis.conftest import human, human_of, p_yes

JudgedRun = Callable[..., Run]
Rows = list[dict[str, Any]]


def written(path: Path, rows: Rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def sheet(run: Run, path: Path, **given: Any) -> Rows:
    """The rows of a new sheet."""
    if path.exists():
        path.unlink()
    return [json.loads(line) for line in label_sheet(run, path, **given).read_text().splitlines()]


def labelled(run: Run, path: Path, say: Callable[[str], int] = human_of, **given: Any) -> Path:
    """A sheet that people have filled in."""
    return written(path, [{**row, "human": say(row["text"])} for row in sheet(run, path, **given)])


def truth(samples: int) -> float:
    """Mean over samples of the share of their sentences that people say 1 of."""
    shares = [[human(number, place) for place in range(1 + number % 3)] for number in range(samples)]
    return sum(sum(share) / len(share) for share in shares) / samples


def test_labels_of_all_verdicts_give_what_people_say(judged_run: JudgedRun, tmp_path: Path) -> None:
    found = corrected_means(judged_run(), labelled(judged_run("run"), tmp_path / "l.jsonl", n=1_000))
    one = found.metrics["context_recall"]
    assert one.corrected.mean == pytest.approx(truth(40))
    assert one.judged.mean != pytest.approx(truth(40), abs=0.02)
    assert (one.verdicts, one.labelled, one.clusters) == (79, 79, 40)


def test_labels_that_agree_with_the_judge_leave_its_mean(judged_run: JudgedRun, tmp_path: Path) -> None:
    run = judged_run()
    said = {verdict.text: verdict.label for verdict in run.verdicts}
    one = corrected_means(run, labelled(run, tmp_path / "l.jsonl", lambda text: said[text] or 0, n=40)).metrics[
        "context_recall"
    ]
    assert one.judged.mean == run["context_recall"].mean
    assert one.corrected.mean == pytest.approx(one.judged.mean)
    assert one.power == 1


def test_labels_of_some_verdicts_come_nearer_to_the_truth_with_an_interval(
    judged_run: JudgedRun, tmp_path: Path
) -> None:
    run = judged_run(samples=400)
    found = corrected_means(run, labelled(run, tmp_path / "l.csv.jsonl", n=200)).metrics["context_recall"]
    corrected = found.corrected
    assert corrected.mean is not None
    assert corrected.ci95 is not None
    assert abs(corrected.mean - truth(400)) < abs((found.judged.mean or 0) - truth(400))
    assert corrected.ci95[0] < truth(400) < corrected.ci95[1]


def test_a_csv_that_was_filled_in_by_hand_is_taken(judged_run: JudgedRun, tmp_path: Path) -> None:
    run = judged_run()
    path = label_sheet(run, tmp_path / "l.csv", n=1_000)
    with path.open(newline="") as file:
        rows = [{**row, "human": human_of(row["text"])} for row in csv.DictReader(file)]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], delimiter=";")
        writer.writeheader()
        writer.writerows(rows)
    assert corrected_means(run, path).metrics["context_recall"].corrected.mean == pytest.approx(truth(40))


def test_groups_of_samples_count_as_one(
    judged_run: JudgedRun, tmp_path: Path, scripted_run: Callable[..., Run]
) -> None:
    """Forty samples of five groups are five draws, of which no interval can be told."""
    rows = [
        {"id": f"s{n}", "group": n % 5, "reference": f"Fact 0 of sample {n} is so.", "retrieved_contexts": ["x"]}
        for n in range(40)
    ]
    run = scripted_run(
        "grouped", rows, {f"Fact 0 of sample {n} is so.": p_yes(n, 0) for n in range(40)}, cluster_by="group"
    )
    one = corrected_means(run, labelled(run, tmp_path / "l.jsonl", n=30)).metrics["context_recall"]
    assert (one.clusters, one.corrected.ci95, one.corrected.remark) == (5, None, FEW)


def test_what_was_labelled_in_part_says_how_much_is_missing(judged_run: JudgedRun, tmp_path: Path) -> None:
    run = judged_run()
    rows = sheet(run, tmp_path / "l.jsonl", n=40)
    path = written(tmp_path / "l.jsonl", [{**row, "human": human_of(row["text"])} for row in rows[:30]] + rows[30:])
    found = corrected_means(run, path)
    assert (found.unlabelled, found.metrics["context_recall"].labelled) == (10, 30)
    assert "10 rows of the sheet have no label" in found.warnings[0]


def test_a_mean_that_is_no_share_of_verdicts_is_left_as_it_is(judged_run: JudgedRun, tmp_path: Path) -> None:
    run = judged_run(metrics=["answer_correctness"])
    path = labelled(run, tmp_path / "l.jsonl", lambda _: 1, n=20)
    one = corrected_means(run, path).metrics["answer_correctness"]
    assert (one.corrected.mean, one.corrected.remark) == (None, NO_SHARE)


def test_where_no_is_the_good_answer_a_label_of_0_counts(scripted_run: Callable[..., Run], tmp_path: Path) -> None:
    """Judged 1 (bad) are 4 of 20: mean .8. All are labelled, and people say 1 of two: 18 of 20 are good."""
    rude = Criterion(name="rude", question="Is it rude?", good="no")
    rows = [{"id": f"s{n}", "response": f"Fact 0 of sample {n} is so.", "retrieved_contexts": ["x"]} for n in range(20)]
    script = {f"Fact 0 of sample {n} is so.": 0.9 if n < 4 else 0.1 for n in range(20)}
    run = scripted_run("rude", rows, script, metrics=["faithfulness", rude])
    path = labelled(run, tmp_path / "l.jsonl", lambda text: int(int(text.split()[4]) < 2), n=99, metrics=["rude"])
    one = corrected_means(run, path).metrics["rude"]
    assert one.judged.mean == pytest.approx(0.8)
    assert one.corrected.mean == pytest.approx(0.9)


def test_samples_without_any_text_need_no_label(scripted_run: Callable[..., Run], tmp_path: Path) -> None:
    """Ten of thirty samples retrieved nothing and score 0 for sure; all others are judged 1, and people agree."""
    rows = [
        {"id": f"s{n}", "reference": f"Fact 0 of sample {n} is so.", "retrieved_contexts": ["x"] if n < 20 else []}
        for n in range(30)
    ]
    run = scripted_run("some", rows, {}, metrics=["context_recall"])
    path = labelled(run, tmp_path / "l.jsonl", lambda _: 1, n=99)
    one = corrected_means(run, path).metrics["context_recall"]
    assert (one.labelled, one.clusters) == (20, 20)
    assert one.corrected.mean == pytest.approx(20 / 30)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"run": "judge:00000000|data:00000000"}, "they are of judge:00000000|data:00000000 ("),
        ({"text": "Fact 9 of sample 9 is so."}, "the verdict has another text ("),
        ({"sample_id": "s999"}, "the run has no such verdict ("),
        ({"position": 99}, "the run has no such verdict ("),
        ({"metric": "faithfulness"}, "the run has no such verdict ("),
        ({"sample_id": "\x1b[2J"}, "the run has no such verdict ("),
    ],
)
def test_a_label_that_is_not_of_the_run_is_refused(
    judged_run: JudgedRun, tmp_path: Path, change: Mapping[str, Any], said: str
) -> None:
    run = judged_run()
    path = labelled(run, tmp_path / "l.jsonl", n=20)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    written(path, [{**rows[0], **change}, *rows[1:]])
    with pytest.raises(DataError, match=r"1 of 20 labels in .* are not of the run") as refused:
        corrected_means(run, path)
    assert said in refused.value.message
    assert "\n" not in refused.value.message
    assert "foreign_labels=True" in str(refused.value)


def test_labels_of_another_judge_on_the_same_data_are_taken_when_they_are_asked_for(
    judged_run: JudgedRun, tmp_path: Path
) -> None:
    """Another threshold is another judge: its sheet is found here verdict by verdict."""
    run, other = judged_run(), judged_run("other", threshold=0.7)
    path = labelled(other, tmp_path / "l.jsonl", n=1_000)
    places = r"\(\S+:1, \S+:2, \S+:3, \.\.\.\)$"
    with pytest.raises(DataError, match="79 of 79 labels") as refused:
        corrected_means(run, path)
    assert re.search(places, refused.value.message)
    found = corrected_means(run, path, foreign_labels=True)
    assert found.foreign
    assert found.warnings[0].startswith("WARNING: 79 of 79 labels are not of this run")
    assert found.metrics["context_recall"].corrected.mean == pytest.approx(truth(40))


def test_foreign_labels_of_verdicts_that_the_run_does_not_have_are_left_out_and_counted(
    judged_run: JudgedRun, tmp_path: Path
) -> None:
    run, other = judged_run(samples=20), judged_run("other", samples=40)
    found = corrected_means(run, labelled(other, tmp_path / "l.jsonl", n=1_000), foreign_labels=True)
    assert found.metrics["context_recall"].labelled == 39
    assert any("40 labels are of verdicts that this run does not have" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no rows"),
        ('{"context": "a", "statement": "b", "label": 1}\n', "no labels of verdicts"),
        ('{"sample_id": "s1", "human": 1}\n', "cannot be used"),
        ("not a table", "cannot be used"),
    ],
)
def test_a_file_that_holds_no_labels_of_verdicts_is_refused(
    judged_run: JudgedRun, tmp_path: Path, content: str, said: str
) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text(content)
    with pytest.raises(DataError, match=said):
        corrected_means(judged_run(samples=3), path)


def test_a_sheet_that_nobody_filled_in_says_so(judged_run: JudgedRun, tmp_path: Path) -> None:
    run = judged_run(samples=3)
    with pytest.raises(DataError, match="holds no label yet"):
        corrected_means(run, label_sheet(run, tmp_path / "l.jsonl"))


def test_a_spreadsheet_s_decimal_comma_is_a_decimal_point(judged_run: JudgedRun, tmp_path: Path) -> None:
    run = judged_run()
    path = labelled(run, tmp_path / "l.jsonl", n=20)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    comma = tmp_path / "l.csv"
    with comma.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0], delimiter=";")
        writer.writeheader()
        writer.writerows(
            {**row, "inclusion_probability": str(row["inclusion_probability"]).replace(".", ",")} for row in rows
        )
    assert corrected_means(run, comma).metrics == corrected_means(run, path).metrics


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_whatever_people_say_the_numbers_are_shares(judged_run: JudgedRun, tmp_path: Path, data: st.DataObject) -> None:
    samples = data.draw(st.integers(1, 15))
    run = judged_run(f"run of {samples}", samples=samples)
    count = data.draw(st.integers(1, 30))
    path = labelled(run, tmp_path / "l.jsonl", lambda _: data.draw(st.integers(0, 1)), n=count)
    for one in corrected_means(run, path).metrics.values():
        mean = one.corrected
        assert mean.mean is None or 0 <= mean.mean <= 1
        assert mean.ci95 is None or 0 <= mean.ci95[0] <= mean.ci95[1] <= 1
        assert mean.remark is not None or mean.ci95 is not None
