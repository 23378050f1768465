"""Expected scores: the formula of each metric with probabilities in place of labels."""

import hashlib
import json
import re
import shutil
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from command_line import printed, printed_summary
from hypothesis import given
from hypothesis import strategies as st

import localjudge
from localjudge import Metric, Run, Sample, ScriptedEngine, evaluate
from localjudge.metrics import Context, Label, Scored, Task, Undefined, Verdict, catalog
from localjudge.run_directory.result_rows import Evaluation, VerdictRow, with_expected
from localjudge.text import Segmenter
from localjudge.types import Combination, VerdictRule
from tests.frozen.frozen_runs import unpack

sentences = Segmenter()

HALF = VerdictRule(0.5, 0.0)
TWO_BY_TWO = Sample(
    id="a",
    user_input="What is the weather?",
    response="It rains. It snows.",
    reference="It rains. It is cold.",
    retrieved_contexts=(Context(text="Rain [1]."), Context(text="Snow.")),
)


def evaluate_once(
    metric: Metric, values: list[float], rule: VerdictRule = HALF, sample: Sample = TWO_BY_TWO
) -> Evaluation:
    """Return the evaluation of a sample, with these probabilities in the order of asking."""
    steps = metric.steps(sample, sentences)
    rows: list[VerdictRow] = []
    threshold = rule.for_metric(metric.name).threshold
    rest = iter(values)
    tasks: list[Task] = []
    try:
        tasks = list(next(steps))
        while True:
            verdicts: list[Verdict] = []
            for task in tasks:
                value = next(rest)
                label: Label = 1 if value >= threshold else 0
                verdicts.append(Verdict(label=label, p_yes=value))
                rows.append(
                    VerdictRow.of(sample.id, metric.name, len(rows), task.unit, verdicts[-1])
                )
            tasks = list(steps.send(verdicts))
    except StopIteration as finished:
        evaluation = Evaluation(sample.id, metric.name, finished.value, tuple(rows))
    assert not list(rest), "more values than questions"
    return with_expected(evaluation, metric, rule)


def expect(metric: str, values: list[float], rule: VerdictRule = HALF) -> tuple[float, Any]:
    """Return the counted and the expected score."""
    outcome = evaluate_once(catalog.get(metric), values, rule).outcome
    assert isinstance(outcome, Scored)
    return outcome.value, outcome.expected


def test_the_expected_share_is_the_mean_of_the_probabilities() -> None:
    """(.9 + .2) / 2 = .55, and 1 of 2 is counted."""
    assert expect("faithfulness", [0.9, 0.2]) == (0.5, pytest.approx(0.55))
    assert expect("context_recall", [0.9, 0.2]) == (0.5, pytest.approx(0.55))


def test_expected_average_precision_weights_each_rank_by_its_probability() -> None:
    """(.4 x .4/1 + .8 x (.4 + .8)/2) / (.4 + .8) = (.16 + .48) / 1.2 = 8/15; counted 1/2."""
    assert expect("context_precision", [0.4, 0.8]) == (0.5, pytest.approx(8 / 15))


def test_expected_f1_is_computed_from_expected_counts() -> None:
    """Response .9 + .3 = 1.2 of 2, reference .6 + .2 = .8 of 2.

    2 x 1.2 x .8 / (1.2 x 2 + .8 x 2) = 1.92 / 4 = .48; counted 2 x 1 x 1 / (2 + 2) = .5.
    """
    values = [0.9, 0.3, 0.6, 0.2]
    assert expect("answer_correctness", values) == (0.5, pytest.approx(0.48))


def test_an_expected_matrix_takes_the_largest_probability_of_a_row_or_column() -> None:
    """Rows .9 .2 and .3 .4: recall and precision (.9 + .4) / 2, recall@1 (.9 + .3) / 2."""
    values = [0.9, 0.2, 0.3, 0.4]
    assert expect("matrix_recall", values) == (0.5, pytest.approx(0.65))
    assert expect("matrix_precision", values) == (0.5, pytest.approx(0.65))
    assert expect("matrix_recall@1", values) == (0.5, pytest.approx(0.6))


def test_expected_noise_multiplies_error_support_and_relevance() -> None:
    """Sentences right with .2, .8; by chunk (.6, .5) and (.1, .9); chunks relevant max .7, .4.

    (1 - .2) x max(.6 x .7, .5 x .4) = .8 x .42 = .336; (1 - .8) x max(.07, .36) = .072; mean .204.
    Counted: the first sentence is wrong, and the relevant first chunk supports it: 1 of 2.
    """
    values = [0.2, 0.8, 0.6, 0.5, 0.1, 0.9, 0.7, 0.1, 0.3, 0.4]
    assert expect("noise_sensitivity", values) == (0.5, pytest.approx(0.204))


@pytest.mark.parametrize(
    ("metric", "counted", "expected"),
    [
        ("abstention", 1.0, 0.9 * 0.7 + 0.1 * 0.3),
        ("abstention(mode=over_refused)", 0.0, 0.3),
        ("refusal", 1.0, 0.9),
        ("context_sufficiency", 1.0, 0.9),
    ],
)
def test_a_yes_or_no_metric_expects_its_probability(
    metric: str, counted: float, expected: float
) -> None:
    """The contexts suffice with .9, the response refuses with .3."""
    values = [0.9, 0.3] if metric.startswith("abstention") else [0.9]
    assert expect(metric, values) == (counted, pytest.approx(expected))


def test_made_up_answers_expect_that_the_response_does_not_refuse() -> None:
    assert expect("abstention(mode=made_up)", [0.2, 0.3]) == (1.0, pytest.approx(0.7))
    outcome = evaluate_once(catalog.get("abstention(mode=made_up)"), [0.9, 0.3]).outcome
    assert isinstance(outcome, Undefined)


def test_citation_support_of_all_divides_by_all_sentences() -> None:
    """One of two sentences cites: .8 / 1, and .8 / 2 of all, where the other is asked as well."""
    sample = TWO_BY_TWO.model_copy(update={"response": "It rains [1]. It snows."})
    cited = evaluate_once(catalog.get("citation_support"), [0.8], HALF, sample).outcome
    assert isinstance(cited, Scored)
    assert cited.expected == pytest.approx(0.8)
    every = evaluate_once(catalog.get("citation_support(of=all)"), [0.8, 0.1], HALF, sample)
    assert isinstance(every.outcome, Scored)
    assert every.outcome.expected == pytest.approx(0.45)


def test_a_criterion_counts_its_good_answer_and_a_rubric_is_expected_already() -> None:
    no = localjudge.Criterion(name="rude", question="Is it rude?", of="sentence", good="no")
    outcome = evaluate_once(no, [0.1, 0.6]).outcome
    assert isinstance(outcome, Scored)
    assert outcome.value == 0.5
    assert outcome.expected == pytest.approx((0.9 + 0.4) / 2)
    levels = {level: f"level {level}" for level in range(1, 6)}
    rubric = localjudge.Criterion(name="style", question="How good?", levels=levels)
    outcome = evaluate_once(rubric, [0.6]).outcome
    assert isinstance(outcome, Scored)
    assert outcome.expected == outcome.value == pytest.approx(0.6)


def test_a_calibration_moves_the_probabilities_of_a_single_judge() -> None:
    """By the odds of .8: .8 -> .5, and .9 -> .9 x .2 / (.9 x .2 + .1 x .8) = .18 / .26 = 9/13."""
    rule = VerdictRule(0.5, 0.0, {"faithfulness": 0.8})
    counted, expected = expect("faithfulness", [0.8, 0.9], rule)
    assert (counted, expected) == (1.0, pytest.approx((0.5 + 9 / 13) / 2))
    assert expect("context_recall", [0.8, 0.9], rule)[1] == pytest.approx(0.85)


def test_a_threshold_by_hand_and_a_jury_of_fitted_weights_move_no_probability() -> None:
    by_hand = VerdictRule(0.8, 0.0)
    assert expect("faithfulness", [0.6, 0.9], by_hand) == (0.5, pytest.approx(0.75))
    weights = {"faithfulness": Combination({"a": 1.0})}
    jury = VerdictRule(0.5, 0.0, {"faithfulness": 0.8}, weights)
    assert expect("faithfulness", [0.6, 0.9], jury) == (0.5, pytest.approx(0.75))


@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_extreme_thresholds_give_the_labels(threshold: float) -> None:
    """At 0 every verdict is 1; at 1 only the certain one."""
    rule = VerdictRule(0.5, 0.0, {"faithfulness": threshold})
    counted, expected = expect("faithfulness", [1.0, 0.5], rule)
    assert counted == expected == (1.0 if threshold == 0 else 0.5)


METRICS = [
    ("faithfulness", 2),
    ("context_precision", 2),
    ("context_precision(against=response)", 2),
    ("answer_correctness", 4),
    ("matrix_recall", 4),
    ("matrix_recall@1", 4),
    ("matrix_precision", 4),
    ("noise_sensitivity", 10),
    ("abstention", 2),
    ("citation_support(of=all)", 2),
]


@given(metric=st.sampled_from(METRICS), data=st.data())
def test_certain_verdicts_have_one_score_and_all_others_are_shares(
    metric: tuple[str, int], data: st.DataObject
) -> None:
    name, count = metric
    sample = TWO_BY_TWO.model_copy(update={"response": "It rains [1]. It snows [2]."})
    certain = data.draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=count, max_size=count))
    outcome = evaluate_once(catalog.get(name), certain, HALF, sample).outcome
    assert isinstance(outcome, Scored)
    assert outcome.expected == outcome.value
    shares = data.draw(st.lists(st.floats(0, 1), min_size=count, max_size=count))
    outcome = evaluate_once(catalog.get(name), shares, HALF, sample).outcome
    assert isinstance(outcome, Scored)
    assert 0 <= outcome.expected <= 1


ROWS: list[dict[str, Any]] = [
    {"id": "a", "retrieved_contexts": ["Rain."], "response": "It rains. It is red."},
    {"id": "b", "retrieved_contexts": [""], "response": "It snows."},
    {"id": "c", "retrieved_contexts": ["Rain."], "response": None},
]


def make_run(folder: Path, rows: list[dict[str, Any]] = ROWS, **options: Any) -> Run:
    engine = ScriptedEngine({"It rains.": 0.9}, default=0.2)
    return evaluate(rows, engine=engine, metrics=["faithfulness"], out=folder, **options)


def test_a_run_has_expected_scores_in_each_of_its_files(tmp_path: Path) -> None:
    """(.9 + .2) / 2 = .55; 0 without context text; mean .275."""
    run = make_run(tmp_path / "run")
    lines = (run.directory / "scores.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["expected"] for row in rows] == [pytest.approx(0.55), 0, None]
    stored = json.loads((run.directory / "summary.json").read_text(encoding="utf-8"))
    summary = stored["metrics"]["faithfulness"]
    assert (summary["mean"], summary["expected"]) == (0.25, pytest.approx(0.275))
    low, high = summary["expected_ci95"]
    assert 0 <= low < 0.275 < high <= 1
    assert run["faithfulness"].expected == pytest.approx(0.275)
    shown = [printed("show", run, row) for row in ("1", "2")]
    assert "faithfulness 1/2 = 0.500, expected 0.550\n" in shown[0]
    assert "faithfulness 0/1 = 0.000 (no context text)\n" in shown[1]
    frame = run.to_pandas("scores")
    assert list(frame["expected"][:2]) == [pytest.approx(0.55), 0]
    samples = run.to_pandas("samples")
    assert list(samples["faithfulness_expected"][:2]) == [pytest.approx(0.55), 0]


@pytest.mark.parametrize(
    ("p_yes", "threshold", "warns"),
    [(0.55, 0.5, True), (0.45, 0.5, True), (0.9, 0.5, False), (0.75, 0.8, False)],
)
def test_a_run_warns_of_probabilities_near_one_half(
    p_yes: float, threshold: float, warns: bool, tmp_path: Path
) -> None:
    """All within .1 of one half. Those near a threshold of .8 are not."""
    rows = [{"id": "a", "retrieved_contexts": ["Rain."], "response": "It rains. It is red."}]
    engine = ScriptedEngine({}, default=p_yes)
    metric = "faithfulness"
    run = evaluate(rows, engine=engine, metrics=[metric], threshold=threshold, out=tmp_path / "run")
    summary = printed_summary(run)
    assert (
        bool(re.search("warning: .*half.* expected scores|expected scores.* half", summary))
        == warns
    )


@pytest.mark.engine
@pytest.mark.parametrize("judge", ["reader", "bundled"])
def test_expected_scores_of_a_model_are_means_of_its_stored_probabilities(
    judge: str, tmp_path: Path
) -> None:
    """By hand from verdicts.jsonl, of a GGUF file, and of a jury after it is combined."""
    contexts = ["The Danube rises in the Black Forest and flows into the Black Sea."]
    answers = ["It rises in the Black Forest. It flows through Spain.", "It ends in the Black Sea."]
    data = []
    for number, answer in enumerate(answers):
        question = {"user_input": "Where does the Danube rise?", "retrieved_contexts": contexts}
        data.append({"id": str(number), "response": answer, **question})
    run = evaluate(data, judge=judge, metrics=["faithfulness"], out=tmp_path / "run")
    probabilities: dict[str, list[float]] = {}
    for line in (run.directory / "verdicts.jsonl").read_text(encoding="utf-8").splitlines():
        verdict = json.loads(line)
        probabilities.setdefault(verdict["sample_id"], []).append(verdict["p_yes"])
    assert [len(each) for each in probabilities.values()] == [2, 1]
    means = [fmean(each) for each in probabilities.values()]
    lines = (run.directory / "scores.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["expected"] for row in rows] == pytest.approx(means)
    assert run["faithfulness"].expected == pytest.approx(fmean(means))
    assert all(row["expected"] != row["score"] for row in rows)
    assert run.verify().result == "bit-identical"


def test_order_and_earlier_answers_change_no_expected_score(tmp_path: Path) -> None:
    scores = {row.sample_id: row.expected for row in make_run(tmp_path / "run").scores}
    other = make_run(tmp_path / "other", ROWS[::-1], reuse=str(tmp_path / "run"))
    assert {row.sample_id: row.expected for row in other.scores} == scores


def without_expected(directory: Path) -> None:
    """Change the files of a run to those of an earlier version."""
    scores = directory / "scores.jsonl"
    lines: list[str] = []
    for line in scores.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        del row["expected"]
        lines.append(json.dumps(row) + "\n")
    scores.write_text("".join(lines), encoding="utf-8")
    summary = directory / "summary.json"
    values = json.loads(summary.read_text(encoding="utf-8"))
    for metric in values["metrics"].values():
        del metric["expected"], metric["expected_ci95"]
    summary.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    manifest = directory / "manifest.json"
    content = json.loads(manifest.read_text(encoding="utf-8"))
    for file in (scores, summary):
        content["environment"]["files"][file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
    manifest.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def test_a_run_of_an_earlier_version_opens_with_expected_scores(tmp_path: Path) -> None:
    new = make_run(tmp_path / "run")
    shutil.copytree(new.directory, tmp_path / "old")
    without_expected(tmp_path / "old")
    old = Run.open(tmp_path / "old")
    assert not old.has_expected
    assert old.scores == new.scores
    assert old.summary == new.summary
    engine = ScriptedEngine({"It rains.": 0.9}, default=0.2)
    assert old.verify(engine=engine).result == "bit-identical"


@pytest.mark.parametrize("name", ["single", "criterion", "calibrated"])
def test_frozen_runs_open_with_expected_scores(name: str, tmp_path: Path) -> None:
    run = Run.open(unpack(name, tmp_path))
    assert not run.has_expected
    for row in run.scores:
        assert (row.score is None) == (row.expected is None)
    assert any(row.expected != row.score for row in run.scores)
    for summary in run.values():
        assert summary.expected is not None
        assert summary.expected_ci95 is not None
