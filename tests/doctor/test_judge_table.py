import random
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from human_labels import answer_all, draw

import localjudge
from localjudge import DataError, Run, ScriptedEngine
from localjudge.labels.judge_figures import label_savings
from localjudge.report.planning_views import calibrations_view
from localjudge.run_directory.label_rows import append_labels, stored_labels
from localjudge.stats.agreement import LabelledScores
from localjudge.stats.corrected import (
    JudgedUnits,
    inclusion_probabilities,
    labels_alone,
    prediction_powered,
    strata_by_score,
)
from tests.analysis.conftest import expect

LABELS = "labels.jsonl"
STRATA = 5

SAMPLES = 30
METRICS = ["faithfulness", "context_relevancy"]
TEXTS = [f"{word} {n}." for n in range(SAMPLES) for word in ("One", "Two", "Text")]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def human(text: str) -> int:
    """Label `One 7.` 1 unless 5 divides the number, and `Two 7.` 0."""
    word, number = text.rstrip(".").split()
    return int(word != "Two" and int(number) % 5 != 0)


def judged(out: str, noise: float, *, metrics: Any = METRICS, script: Any = None) -> Run:
    rows = [
        {
            "id": f"s{n}",
            "user_input": "Why?",
            "retrieved_contexts": [f"Text {n}."],
            "response": f"One {n}. Two {n}.",
        }
        for n in range(SAMPLES)
    ]
    chance = random.Random(1)
    p_yes = {
        text: (1 - noise) * (0.3 + 0.4 * human(text)) + noise * chance.uniform(0.1, 0.9)
        for text in TEXTS
    }
    engine = ScriptedEngine(p_yes | (script or {}))
    return localjudge.evaluate(rows, metrics=metrics, engine=engine, out=out)


def label(
    run: Run, count: int = 1_000, annotator: str = "ann", says: Any = human, **options: Any
) -> None:
    answer_all(draw(run, annotator, count, **options), says)


def measured(*runs: Run) -> list[Any]:
    return localjudge.calibrate([*runs])


def test_the_labels_of_a_run_measure_its_judge() -> None:
    """All 60 sentences of 30 samples are labelled; `One` sentences are 1, except six."""
    run = judged("run", 0.5)
    label(run, metrics=["faithfulness"])
    [calibration] = localjudge.calibrate(run)
    assert (calibration.name, calibration.question) == ("scripted-attribution", "attribution")
    labels = calibration.labels
    expect(labels, verdicts=60, positives=24, clusters=30, weighted=False)
    file = str(Path("run", LABELS))
    expect(labels, clustered_by="the same sample", file=file, shape="verdicts")
    pairs = [
        (row.p_yes or 0.0, human(row.text))
        for row in run.iter_verdicts()
        if row.metric == "faithfulness"
    ]
    ones, zeros = ([p for p, is_one in pairs if is_one == kind] for kind in (1, 0))
    above = sum((one > zero) + (one == zero) / 2 for one in ones for zero in zeros)
    assert calibration.figures["auc"].value == pytest.approx(above / (len(ones) * len(zeros)))
    assert not any("drawn" in remark for remark in calibration.remarks)


def test_each_question_has_a_calibration_also_for_one_run() -> None:
    run = judged("run", 0.5)
    with pytest.raises(DataError, match="no labelled statements"):
        localjudge.calibrate(run)
    label(run)
    with pytest.raises(DataError, match="of 2 questions: relevance_sentence, attribution"):
        localjudge.calibrate([run], name="both")
    assert not Path("home/calibrations/both.json").exists()
    for runs in (run, [run]):
        assert [entry.question for entry in localjudge.calibrate(runs)] == [
            "relevance_sentence",
            "attribution",
        ]
    [chosen] = localjudge.calibrate(run, metrics=["context_relevancy"])
    assert chosen.question == "relevance_sentence"


def test_judges_share_the_labels_of_all_runs_and_the_best_comes_first() -> None:
    good = judged("good", 0.2)
    poor = judged("poor", 0.5)
    deaf = judged("deaf", 1.0)
    label(poor, 40, metrics=["faithfulness"])
    tables = [measured(*runs) for runs in ((deaf, poor, good), (good, poor, deaf))]
    for table in tables:
        assert [entry.run for entry in table] == [
            run.manifest.signature for run in (good, poor, deaf)
        ]
        assert {entry.labels for entry in table} == {table[0].labels}
        assert (table[0].labels.verdicts, table[0].labels.weighted) == (40, True)
        files = [Path(f"home/calibrations/{entry.name}.json") for entry in table]
        assert [file.is_file() for file in files] == [True, True, False]
    for first, second in zip(*tables, strict=True):
        expect(first, figures=second.figures, held_out=second.held_out, savings=second.savings)
    for entry, run in zip(tables[0], (good, poor, deaf), strict=True):
        corrected = run.check(baseline=poor).labels
        assert corrected is not None
        mean = corrected.corrected["faithfulness"]
        assert entry.savings is not None
        assert (entry.savings.labels, entry.savings.of) == (mean.labels_saved, mean.labels)
    assert [entry.guesses for entry in tables[0]] == [False, False, True]


def test_drawn_labels_are_weighted_by_inverse_probability() -> None:
    """Bias at .5 is the weighted share of verdict 1 minus the weighted share of label 1."""
    sure = judged("run", 0.5, metrics=["faithfulness"])
    label(sure, 25)
    [entry] = measured(sure)
    rows = stored_labels(sure.directory)
    turns = max(row.draw_index or 0 for row in rows)
    weights = 1 / inclusion_probabilities(np.array([row.size_share or 0.0 for row in rows]), turns)
    p_yes = {row.text: row.p_yes or 0.0 for row in sure.iter_verdicts()}
    decided = np.array([p_yes[row.text] >= 0.5 for row in rows])
    ones = np.array([row.human == 1 for row in rows])
    assert len(set(weights.round(6).tolist())) > 5
    expected = (weights[decided].sum() - weights[ones].sum()) / weights.sum()
    assert entry.at_one_half["bias"].value == pytest.approx(expected)


def test_labels_without_a_drawing_count_once_and_contradictory_labels_do_not_count() -> None:
    run = judged("run", 0.5, metrics=["faithfulness"])
    label(run, 30)
    nothing: dict[str, None] = dict.fromkeys(("draw", "frame", "size_share", "draw_index"))
    rows = [row.model_copy(update=nothing) for row in stored_labels(run.directory)]
    (run.directory / LABELS).unlink()
    divided = [
        row.model_copy(update={"annotator": "bob", "human": 1 - cast("int", row.human)})
        for row in rows[:2]
    ]
    unsure = [row.model_copy(update={"annotator": "bob", "human": "?"}) for row in rows[2:3]]
    append_labels(run.directory, [*rows, *divided, *unsure])
    [entry] = measured(run)
    assert (entry.labels.verdicts, entry.labels.unlabelled, entry.labels.weighted) == (28, 2, False)
    assert any(remark.startswith("28 of 28 labels") for remark in entry.remarks)
    assert entry.savings is not None
    assert entry.savings.of == 50, "no corrected mean"


def test_a_statement_on_which_one_judge_failed_is_excluded_for_all() -> None:
    whole = judged("whole", 0.3)
    broken = judged("broken", 0.5, script={"One 3.": "it does not fit"})
    label(whole, metrics=["faithfulness"])
    for entry in measured(whole, broken):
        # Two sentences of the sample that failed.
        assert (entry.labels.verdicts, entry.labels.failed) == (58, 2)
        assert any(
            remark.startswith("excluded: 2 labelled statements ") for remark in entry.remarks
        )


def test_a_constant_judge_has_a_row_without_figures() -> None:
    """Also as the only judge, or constant in all groups but one.

    Labels of one value are an error.
    """
    good = judged("good", 0.2)
    same = judged("same", 0.0, script={t: 0.7 for t in TEXTS})
    but_one = judged("but-one", 0.0, script={t: 0.1 if t == "One 0." else 0.7 for t in TEXTS})
    label(good, metrics=["faithfulness"])
    [best, *others] = measured(same, good, but_one)
    assert best.run == good.manifest.signature
    assert best.figures == measured(good)[0].figures
    rows = calibrations_view([best, *others])[0].rows
    assert [[str(cell) for cell in row[1:4]] for row in rows[1:]] == [["-"] * 3] * 2
    append_labels(same.directory, stored_labels(good.directory))
    [alone] = localjudge.calibrate(same, name="alone")
    expect(alone, figures={}, held_out={}, threshold=0.5, fit_for=(), guesses=True)
    assert "better than guessing" in str(calibrations_view([alone])[-1].notes[-1])
    (good.directory / LABELS).unlink()
    label(good, metrics=["faithfulness"], says=lambda _text: 1)
    with pytest.raises(DataError, match="if all labels"):
        measured(good, but_one)


def test_the_time_per_verdict_is_shown_and_does_not_change_the_calibration() -> None:
    run = judged("run", 0.2)
    label(run, metrics=["faithfulness"])
    [entry] = measured(run)
    entry, timed = (
        entry.model_copy(update={"seconds_per_verdict": seconds}) for seconds in (None, 2.46)
    )
    assert timed.sha256 == entry.sha256
    rows = [
        table.rows
        for table in (calibrations_view([timed])[-1], calibrations_view([timed, entry])[0])
    ]
    assert [[row[4] for row in of_table] for of_table in rows] == [["2.5"], ["2.5", "-"]]


def test_labels_saved_by_hand() -> None:
    """Labels 0 0 1 1 in strata of one score: errors 0 + 1/2, spread 4/4 + 1/2, times 3/2: half is
    left, 50 saved.
    """
    assert label_savings(LabelledScores([0, 0, 1, 1], [0.1, 0.1, 0.9, 0.9])).labels == 50
    assert label_savings(LabelledScores([0, 1, 0, 1], [0.1, 0.1, 0.9, 0.9])).labels == 0
    # Five strata of two; the judge's label separates .45 and .6: (1/2) / (10/4 + 1/2) * 9/4 = 3/8.
    scores = [0.1, 0.2, 0.3, 0.4, 0.45, 0.6, 0.7, 0.75, 0.8, 0.9]
    assert label_savings(LabelledScores([0] * 5 + [1] * 5, scores)).labels == round(
        50 * (8 / 3 - 1)
    )


@pytest.mark.parametrize("noise", [0.25, 0.4])
def test_labels_saved_match_the_widths_of_corrected_intervals(noise: float) -> None:
    """400 of 20,000 statements are labelled, in twelve repetitions."""
    generator = np.random.Generator(np.random.PCG64(5))
    size = 20_000
    truth = generator.random(size) < 0.6
    p_yes = np.clip(0.25 + 0.5 * truth + noise * generator.standard_normal(size), 0.01, 0.99)
    share = np.full(size, 1 / size)
    strata = strata_by_score(p_yes, STRATA)
    certain = np.zeros(size, dtype=bool)
    by_widths = []
    by_labels = []
    for _ in range(12):
        labelled = generator.permutation(size)[:400]
        drawn = np.zeros(size)
        drawn[labelled] = 1 / 400
        units = JudgedUnits(
            (p_yes >= 0.5).astype(float),
            share,
            truth.astype(float),
            drawn,
            strata,
            np.arange(size),
            certain,
        )
        widths = [
            np.ptp(powered.ci95 or ())
            for powered in (prediction_powered(units), labels_alone(units))
        ]
        by_widths.append(50 * ((widths[1] / widths[0]) ** 2 - 1))
        by_labels.append(label_savings(LabelledScores(truth[labelled], p_yes[labelled])).labels)
    assert np.mean(by_labels) == pytest.approx(np.mean(by_widths), rel=0.1)
