"""Means of a run, corrected by labels of it; and labels that are not of it."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localjudge import Criterion, DataError, Run
from localjudge.analysis.label_sheet import draw_rows, label_sheet
from localjudge.analysis.labels import FEW, NO_SHARE, CorrectedMetric, corrected_means
from tests.analysis.conftest import JudgedRun, human, human_of, p_yes, written

METRIC = "context_recall"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "l.jsonl"


def labelled(run: Run, path: Path, label: Callable[[str], int] = human_of, n: int = 1_000, metrics: Any = None) -> Path:
    """A sheet that people have filled in; of all verdicts if they are not more than that."""
    return written(path, *({**row, "human": label(row["text"])} for row in draw_rows(run, n, metrics, 0)))


def corrected(run: Run, path: Path, metric: str = METRIC) -> CorrectedMetric:
    return corrected_means(run, path).metrics[metric]


def truth(samples: int) -> float:
    """Mean over samples of the share of their sentences that people say 1 of."""
    shares = [[human(number, place) for place in range(1 + number % 3)] for number in range(samples)]
    return sum(sum(share) / len(share) for share in shares) / samples


def test_labels_of_all_verdicts_give_what_people_say(judged_run: JudgedRun, path: Path) -> None:
    run = judged_run()
    mean = corrected(run, labelled(run, path))
    assert mean.corrected.mean == pytest.approx(truth(40))
    assert run[METRIC].mean == mean.judged.mean != pytest.approx(truth(40), abs=0.02)
    assert (mean.verdicts, mean.labelled, mean.clusters) == (79, 79, 40)


def test_labels_of_some_verdicts_come_nearer_to_the_truth_with_an_interval(judged_run: JudgedRun, path: Path) -> None:
    run = judged_run(samples=400)
    mean = corrected(run, labelled(run, path, n=200))
    assert mean.corrected.mean is not None
    assert mean.corrected.ci95 is not None
    assert abs(mean.corrected.mean - truth(400)) < abs((mean.judged.mean or 0) - truth(400))
    assert mean.corrected.ci95[0] < truth(400) < mean.corrected.ci95[1]


def test_a_csv_that_was_filled_in_by_hand_is_taken(judged_run: JudgedRun, path: Path) -> None:
    """With semicolons and decimal commas, as a spreadsheet of many countries saves it."""
    run = judged_run()
    sheet = label_sheet(run, path.with_suffix(".csv"), n=20)
    with sheet.open(newline="") as file:
        rows = [{**row, "human": str(human_of(row["text"]))} for row in csv.DictReader(file)]
    for row in rows:
        row["inclusion_probability"] = row["inclusion_probability"].replace(".", ",")
    with sheet.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], delimiter=";")
        writer.writeheader()
        writer.writerows(rows)
    assert corrected_means(run, sheet).metrics == corrected_means(run, labelled(run, path, n=20)).metrics


def test_groups_of_samples_count_as_one(scripted_run: Callable[..., Run], path: Path) -> None:
    """Forty samples of five groups are five draws, of which no interval can be told."""
    texts = [f"Fact 0 of sample {n} is so." for n in range(40)]
    rows = [
        {"id": f"s{n}", "group": n % 5, "reference": text, "retrieved_contexts": ["x"]} for n, text in enumerate(texts)
    ]
    run = scripted_run("run", rows, {text: p_yes(n, 0) for n, text in enumerate(texts)}, cluster_by="group")
    mean = corrected(run, labelled(run, path, n=30))
    assert (mean.clusters, mean.corrected.ci95, mean.corrected.remark) == (5, None, FEW)


def test_what_was_labelled_in_part_says_how_much_is_missing(judged_run: JudgedRun, path: Path) -> None:
    run = judged_run()
    rows = [json.loads(line) for line in labelled(run, path, n=40).read_text().splitlines()]
    means = corrected_means(run, written(path, *rows[:30], *({**row, "human": None} for row in rows[30:])))
    assert (means.unlabelled, means.metrics[METRIC].labelled) == (10, 30)
    assert "10 rows of the sheet have no label" in means.warnings[0]


def test_a_mean_that_is_not_a_share_of_verdicts_is_left_as_it_is(judged_run: JudgedRun, path: Path) -> None:
    run = judged_run(metrics=["answer_correctness"])
    mean = corrected(run, labelled(run, path, lambda _: 1, 20), "answer_correctness").corrected
    assert (mean.mean, mean.remark) == (None, NO_SHARE)


def test_where_no_is_the_good_answer_a_label_of_0_counts(scripted_run: Callable[..., Run], path: Path) -> None:
    """Judged 1 (bad) are 4 of 20: mean .8. All are labelled, and people say 1 of two: 18 of 20 are good."""
    rude = Criterion(name="rude", question="Is it rude?", good="no")
    rows = [{"id": f"s{n}", "response": f"Fact 0 of sample {n} is so.", "retrieved_contexts": ["x"]} for n in range(20)]
    script = {f"Fact 0 of sample {n} is so.": 0.9 if n < 4 else 0.1 for n in range(20)}
    run = scripted_run("rude", rows, script, metrics=["faithfulness", rude])
    sheet = labelled(run, path, lambda text: int(int(text.split()[4]) < 2), metrics=["rude"])
    mean = corrected(run, sheet, "rude")
    assert mean.judged.mean == pytest.approx(0.8)
    assert mean.corrected.mean == pytest.approx(0.9)


def test_samples_without_any_text_need_no_label(scripted_run: Callable[..., Run], path: Path) -> None:
    """Ten of thirty samples retrieved nothing and score 0 for sure; all others are judged 1, and people agree."""
    rows = [
        {"id": f"s{n}", "reference": f"Fact 0 of sample {n} is so.", "retrieved_contexts": ["x"] if n < 20 else []}
        for n in range(30)
    ]
    run = scripted_run("some", rows, {}, metrics=[METRIC])
    mean = corrected(run, labelled(run, path, lambda _: 1))
    assert (mean.labelled, mean.clusters) == (20, 20)
    assert mean.corrected.mean == pytest.approx(20 / 30)


@pytest.mark.parametrize(
    "change",
    [
        {"run": "judge:00000000|data:00000000"},
        {"text": "Fact 9 of sample 9 is so."},
        {"sample_id": "s999"},
        {"position": 99},
        {"metric": "faithfulness"},
        {"sample_id": "\x1b[2J"},
    ],
)
def test_a_label_that_is_not_of_the_run_is_refused(judged_run: JudgedRun, path: Path, change: dict[str, Any]) -> None:
    run = judged_run()
    first, *rows = map(json.loads, labelled(run, path, n=20).read_text().splitlines())
    written(path, {**first, **change}, *rows)
    with pytest.raises(DataError, match=r"1 of 20 labels in .* are not of the run .*, the first at \S+:1") as refused:
        corrected_means(run, path)
    assert "\n" not in refused.value.message
    # Another threshold is another judge.
    with pytest.raises(DataError, match="20 of 20 labels"):
        corrected_means(run, labelled(judged_run("other", threshold=0.7), path, n=20))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "no rows"),
        ('{"context": "a", "statement": "b", "label": 1}\n', "no labels of verdicts"),
        (
            '{"sample_id": "s1", "metric": "m", "position": 0, "text": "a", "human": null}\n',
            "no labels of verdicts yet",
        ),
        ('{"sample_id": "s1", "human": 1}\n', "cannot be used"),
        ("not a table", "cannot be used"),
    ],
)
def test_a_file_that_holds_no_labels_of_verdicts_is_refused(
    judged_run: JudgedRun, path: Path, content: str, problem: str
) -> None:
    path.write_text(content)
    with pytest.raises(DataError, match=problem):
        corrected_means(judged_run(samples=3), path)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_whatever_people_say_the_numbers_are_shares(judged_run: JudgedRun, path: Path, data: st.DataObject) -> None:
    samples = data.draw(st.integers(1, 15))
    run = judged_run(f"run of {samples}", samples=samples)
    sheet = labelled(run, path, lambda _: data.draw(st.integers(0, 1)), data.draw(st.integers(1, 30)))
    for metric in corrected_means(run, sheet).metrics.values():
        mean = metric.corrected
        assert mean.mean is None or 0 <= mean.mean <= 1
        assert mean.ci95 is None or 0 <= mean.ci95[0] <= mean.ci95[1] <= 1
        assert mean.remark is not None or mean.ci95 is not None
