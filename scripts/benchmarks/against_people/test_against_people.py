"""Tests of the comparison with people: reading, scores, correlations, t, and labels."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from against_people.figures import correlate, linear_correlation, paired_t, rank_correlation, ranks
from against_people.judging import expected_score
from against_people.labels_needed import ALONE, measure_orderings
from against_people.picture import draw_orderings
from against_people.ratings import Aspect, Rating, align, read_mt_rag, read_ragchecker
from localjudge.run_directory.result_rows import VerdictRow

SCRIPT = Path(__file__).resolve().parents[1] / "against-people"
MT_RAG = "mt-rag-benchmark/mtrag-human/evaluations/reference_subset_with_human_evaluations.json"
RAGCHECKER = "RAGChecker/data/meta_evaluation"


def rating(value: float, answer: str, question: str = "q", other: str | None = None) -> Rating:
    return Rating(value, answer, other, question)


def verdict(source: Any, p_yes: float | None, label: int | None = 0) -> VerdictRow:
    return VerdictRow(
        sample_id="a",
        metric="answer_correctness",
        unit="sentence",
        index=0,
        source=source,
        source_index=None,
        start=0,
        end=1,
        text="x",
        p_yes=p_yes,
        label=label,  # type: ignore[arg-type]  # 0 or 1
        reason=None,
        window=None,
        error=None,
    )


@pytest.fixture
def clones(tmp_path: Path) -> Path:
    """Four questions answered by two systems; the first pair of RAGChecker has two judgements."""
    tasks: list[dict[str, Any]] = []
    evaluations: list[dict[str, Any]] = []
    documents: list[dict[str, Any]] = []
    for place in range(4):
        documents.append({"document_id": f"d{place}", "text": f"Lake {place} is deep."})
        first_turn = {"speaker": "user", "text": "Hello"}
        question = {"speaker": "user", "text": f"How is lake {place}?"}
        contexts = [{"document_id": f"d{place}"}]
        tasks.append(
            {"task_id": f"t{place}", "input": [first_turn, question], "contexts": contexts}
        )
        for system, value in (("good", 4), ("poor", 1)):
            people = {str(each): {"value": str(value)} for each in range(3)}
            answer = f"Lake {place} is deep." if system == "good" else "Boats are red."
            annotations = {
                "faithfulness": people,
                "rl_f": {"composite": {"value": value / 4}},
                "Bert-KPrec": {"system": {"value": 0.5}},
            }
            evaluations.append(
                {
                    "task_id": f"t{place}",
                    "model_id": system,
                    "model_response": answer,
                    "annotations": annotations,
                }
            )
    tasks.append({"task_id": "chat", "input": [question], "contexts": []})
    evaluations.append({**evaluations[0], "task_id": "chat"})
    content = {"documents": documents, "tasks": tasks, "evaluations": evaluations}
    path = tmp_path / MT_RAG
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))
    labels = {"correctness_label": 1, "completeness_label": 0, "overall_label": 2}
    pair = {
        "instance_id": 0,
        "query": "How is the lake?",
        "gt_answer": "The lake is deep.",
        "model1": {"model_name": "poor", "response": "Red."},
        "model2": {"model_name": "good", "response": "Deep."},
    }
    scored = {**pair}
    for side, score in (("model1", 0.2), ("model2", 0.9)):
        scored[side] = {**pair[side], "ragchecker": dict.fromkeys(labels, score)}  # type: ignore[dict-item]
    folder = tmp_path / RAGCHECKER
    folder.mkdir(parents=True)
    (folder / "human_labeled_data.json").write_text(json.dumps([{**pair, **labels}] * 2))
    (folder / "baseline_ragchecker.json").write_text(json.dumps([scored]))
    return tmp_path


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    """5 5 7 has the ranks 1.5 1.5 3; with the first 5 twice, there are four values: 2 2 4."""
    values = np.array([5.0, 5.0, 7.0])
    assert ranks(values, np.ones(3)).tolist() == [1.5, 1.5, 3]
    assert ranks(values, np.array([2.0, 1.0, 1.0])).tolist() == [2, 2, 4]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=4, max_size=30))
def test_correlations_equal_those_of_scipy(pairs: list[tuple[int, int]]) -> None:
    first, second = np.array(pairs, dtype=np.float64).T
    if len(set(first)) < 2 or len(set(second)) < 2:
        return
    once = np.ones(len(pairs))
    rank = rank_correlation(first, second, once)
    assert rank == pytest.approx(stats.spearmanr(first, second).statistic)
    linear = linear_correlation(first, second, once)
    assert linear == pytest.approx(stats.pearsonr(first, second).statistic)


@given(st.lists(st.integers(0, 3), min_size=6, max_size=6))
def test_a_weight_of_two_equals_a_row_that_is_there_twice(times: list[int]) -> None:
    first = np.array([1.0, 2, 2, 4, 5, 9])
    second = np.array([3.0, 1, 4, 1, 5, 2])
    repeated = np.repeat(np.arange(6), times)
    if len(set(first[repeated])) < 2 or len(set(second[repeated])) < 2:
        return
    weights = np.array(times, dtype=np.float64)
    expected = stats.spearmanr(first[repeated], second[repeated]).statistic
    assert rank_correlation(first, second, weights) == pytest.approx(expected)


def test_an_interval_draws_the_ratings_of_a_question_together() -> None:
    """Eight ratings of each of ten questions are less certain than eighty questions."""
    rng = np.random.default_rng(0)
    scores = np.repeat(rng.random(10), 8) + rng.random(80) / 10
    people = np.repeat(rng.random(10), 8)
    together = [rating(value, "a", str(place // 8)) for place, value in enumerate(people)]
    apart = [rating(value, "a", str(place)) for place, value in enumerate(people)]
    wide = correlate(together, scores, scores).linear
    narrow = correlate(apart, scores, scores).linear
    assert wide.value == narrow.value
    assert wide.high - wide.low > narrow.high - narrow.low


def test_answers_without_a_score_are_left_out_and_counted() -> None:
    ratings = [rating(float(place), str(place), str(place)) for place in range(12)]
    scores = align(ratings, {str(place): place / 11 for place in range(11)})
    found = correlate(ratings, scores, scores)
    assert found.ratings == 11
    assert found.rank_gain == found.linear_gain == (0, 0, 0)


def test_t_is_the_mean_difference_by_its_standard_error() -> None:
    """Differences .1 and .3: mean .2, standard error .1, so t is 2."""
    ratings = [rating(0, f"{system}{place}", str(place)) for place in (0, 1) for system in "ab"]
    scores = np.array([0.5, 0.4, 0.6, 0.3])
    systems = {each.answer: each.answer[0] for each in ratings}
    assert paired_t(ratings, scores, systems)["a", "b"] == pytest.approx(2)


def test_t_of_pairs_takes_the_mean_of_two_judgements() -> None:
    """Differences of b and a: 2 and 0 on one question, 3 and 3 on the other; t of a - b is -2."""
    ratings = [
        rating(value, f"b{place}", str(place), f"a{place}")
        for place, value in ((0, 2.0), (0, 0.0), (1, 3.0), (1, 3.0))
    ]
    people = np.array([each.value for each in ratings])
    systems = {f"{system}{place}": system for system in "ab" for place in (0, 1)}
    assert paired_t(ratings, people, systems)["a", "b"] == pytest.approx(-2)


def test_an_expected_f_measure_has_probabilities_in_both_halves() -> None:
    """P = (.9 + .7) / 2 = .8, R = .4: 2 x .8 x .4 / 1.2 = .5333."""
    verdicts = [verdict("response", 0.9), verdict("response", 0.7), verdict("reference", 0.4)]
    assert expected_score("answer_correctness", verdicts) == pytest.approx(0.64 / 1.2)


def test_an_expected_share_is_the_mean_of_the_probabilities() -> None:
    verdicts = [verdict("response", 0.9), verdict("response", 0.2)]
    assert expected_score("faithfulness", verdicts) == pytest.approx(0.55)


def test_an_answer_without_a_sentence_is_expected_to_earn_nothing() -> None:
    verdicts = [verdict("reference", None)]
    assert expected_score("answer_correctness", verdicts) == 0
    assert expected_score("answer_correctness(mode=recall)", verdicts) == 0


def test_mt_rag_has_answers_with_passages_and_the_last_question(clones: Path) -> None:
    rated = read_mt_rag(clones)
    assert len(rated.samples) == 8
    assert rated.samples[2]["user_input"] == "How is lake 1?"
    assert rated.samples[2]["retrieved_contexts"] == ["Lake 1 is deep."]
    aspect = rated.aspects[0]
    assert [each.value for each in aspect.ratings[:2]] == [4, 1]
    scores = align(aspect.ratings, aspect.published["RAGAS faithfulness, hosted GPT"])
    assert scores[:2].tolist() == [1, 0.25]


def test_a_pair_is_the_second_answer_minus_the_first(clones: Path) -> None:
    overall = read_ragchecker(clones).aspects[2]
    assert overall.metrics[0] == "answer_correctness"
    assert [each.value for each in overall.ratings] == [2, 2]
    scores = align(overall.ratings, overall.published["RAGChecker, Llama 3 70B"])
    assert scores == pytest.approx([0.7, 0.7])


def test_a_part_has_whole_questions(clones: Path) -> None:
    part = read_mt_rag(clones).part(3)
    assert len({sample["question_id"] for sample in part.samples}) == 3
    assert len(part.samples) == len(part.aspects[0].ratings) == 6
    assert part.name == "mt-rag-3"


def test_answers_without_a_rating_stay_samples(clones: Path) -> None:
    """So the run of all answers is read, and only some of them are compared."""
    rated = read_mt_rag(clones)
    rest = rated.without([rated.samples[0]["id"], "", "another"])
    assert rest.samples == rated.samples
    assert [each.ratings for each in rest.aspects] == [each.ratings[1:] for each in rated.aspects]


def test_right_scores_find_the_best_system_with_fewer_labels() -> None:
    """Systems with 70 and 50 % of 100 answers rated 4; one score equals the labels."""
    ratings: list[Rating] = []
    for system, good in (("a", 50), ("b", 70)):
        for place in range(100):
            value = 4.0 if place < good else 2.0
            ratings.append(rating(value, f"{system}{place}", str(place)))
    systems = {each.answer: each.answer[0] for each in ratings}
    right = {each.answer: float(each.value == 4) for each in ratings}
    orderings = measure_orderings(ratings, {"right": right}, systems, drawings=40)
    found = {(each.scored_by, each.labels): each for each in orderings}
    assert found["right", 10].best_first == 1
    assert found[ALONE, 10].best_first < 1
    assert found[ALONE, 100].best_first == 1
    assert found["right", 50].width < found[ALONE, 50].width


def test_equal_means_are_ordered_by_chance() -> None:
    """One answer of 100 tells the systems apart, so 10 labels hardly ever do."""
    ratings = [
        rating(4.0, f"{system}{place}", str(place)) for system in "ab" for place in range(99)
    ]
    ratings += [rating(1.0, "a99", "99"), rating(4.0, "b99", "99")]
    systems = {each.answer: each.answer[0] for each in ratings}
    orderings = measure_orderings(ratings, {}, systems)
    assert 0.35 < orderings[0].best_first < 0.75


def test_the_picture_has_a_line_and_a_name_for_each_score(tmp_path: Path) -> None:
    ratings = [rating(4.0 - place % 2, str(place), str(place)) for place in range(40)]
    systems = {str(place): "ab"[place % 2] for place in range(40)}
    scores = {"<one>": {str(place): 0.5 for place in range(40)}}
    draw_orderings(measure_orderings(ratings, scores, systems, drawings=5), tmp_path / "a.svg")
    picture = (tmp_path / "a.svg").read_text()
    assert picture.count("<polyline") == 2
    assert "&lt;one&gt;</text>" in picture
    assert f"{ALONE}</text>" in picture


@pytest.mark.engine
def test_the_script_reads_a_run_that_was_made_from_the_written_file(
    clones: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    script = [sys.executable, str(SCRIPT), "--data", str(clones), "--set", "mt-rag"]
    script += ["--out", str(out)]
    written = subprocess.run([*script, "--write"], capture_output=True, text=True, check=True)
    assert written.stdout.strip() == str(out / "mt-rag.jsonl")
    command = [sys.executable, "-m", "localjudge", "run", str(out / "mt-rag.jsonl")]
    command += ["--metrics", "faithfulness", "--judge", "lexical"]
    subprocess.run([*command, "--out", str(out / "mt-rag-lexical"), "--quiet"], check=True)
    done = subprocess.run(
        [*script, "--judge", "lexical"], capture_output=True, text=True, check=True, timeout=300
    )
    lines = [line for line in done.stdout.splitlines() if "|lexical, expected|" in line]
    assert lines[0].startswith("|faithful|faithfulness|lexical, expected|0.")
    assert "|8|" in lines[0]
    sessions = json.loads((out / "mt-rag-lexical" / "manifest.json").read_text())["environment"]
    assert sum(session["asked"] for session in sessions["sessions"]) == 8


def published(aspect: Aspect, name: str) -> tuple[float, float]:
    """Return rank and linear correlation of a published score."""
    scores = align(aspect.ratings, aspect.published[name])
    found = correlate(aspect.ratings, scores, scores)
    return found.rank.value, found.linear.value


def test_published_scores_are_reproduced() -> None:
    """Figures by SciPy on the same files."""
    folder = os.environ.get("LOCALJUDGE_TEST_DATA")
    if not folder or not (Path(folder) / "people").is_dir():
        pytest.skip("needs labelled data: set LOCALJUDGE_TEST_DATA to the folder")
    people = Path(folder) / "people"
    faithful = read_mt_rag(people).aspects[0]
    assert len(faithful.ratings) == 450
    assert published(faithful, "RAGAS faithfulness, hosted GPT")[0] == pytest.approx(
        0.589, abs=5e-4
    )
    assert published(faithful, "BERT K-precision")[0] == pytest.approx(0.570, abs=5e-4)
    aspects = read_ragchecker(people).aspects
    linear = [published(aspect, "RAGChecker, Llama 3 70B")[1] for aspect in aspects]
    assert linear == pytest.approx([0.497, 0.607, 0.619], abs=5e-4)
