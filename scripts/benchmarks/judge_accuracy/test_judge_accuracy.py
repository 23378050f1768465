"""Tests of the table of judges: the choice of rows, the figures, and runs that resume."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import localjudge
from judge_accuracy.asking import probabilities
from judge_accuracy.figures import Labels
from judge_accuracy.questions import OneSentence, WholeStatement
from judge_accuracy.rows import LabelledRow, read_sentences, read_statements, take_turns
from judge_accuracy.table import markdown
from localjudge.errors import LocaljudgeError

FOLDER = Path(__file__).resolve().parents[1]


def labelled(
    label: int, dataset: str = "a", cluster: str = "", *, is_long: bool = False
) -> LabelledRow:
    return LabelledRow({"id": cluster}, label, dataset, cluster, is_long)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """48 statements of two data sets, a third supported, and 24 questions of two sentences."""
    statements = [
        {
            "dataset": ("lakes", "towers")[place % 2],
            "context": f"Number {place} is {place + 20} metres high.",
            "statement": f"Number {place} is {place + 20 + place % 3} metres high.",
            "label": int(place % 3 == 0),
        }
        for place in range(48)
    ]
    questions = [
        {
            "dataset": "lakes",
            "question": f"How deep is lake {place}?",
            "sentences": [f"Lake {place} is 9 metres deep.", "Boats are for hire."],
            "relevant": [1, 0],
        }
        for place in range(24)
    ]
    for name, rows in (("attribution", statements), ("relevance", questions)):
        lines = "\n".join(json.dumps(row) for row in rows)
        (tmp_path / f"{name}.dev.jsonl").write_text(lines)
    return tmp_path


@given(
    groups=st.lists(st.integers(0, 3), max_size=30),
    count=st.integers(1, 30),
)
def test_groups_take_turns_and_fewer_entries_are_the_first_of_more(
    groups: list[int], count: int
) -> None:
    """While every group has entries left, no group is ahead of another by more than one."""
    entries = list(enumerate(groups))
    chosen = take_turns(entries, count, lambda entry: entry[1])
    assert chosen == take_turns(entries, count + 1, lambda entry: entry[1])[:count]
    assert len(set(chosen)) == len(chosen) == min(count, len(entries))
    sizes = Counter(groups)
    counts = Counter(group for _, group in chosen)
    for group, size in sizes.items():
        assert counts[group] in {size, max(counts.values()), max(counts.values()) - 1}


def test_rows_have_about_as_many_of_each_data_set_and_label(data: Path) -> None:
    rows = read_statements(data, 8, 0)
    assert Counter((row.dataset, row.label) for row in rows) == {
        ("lakes", 0): 2,
        ("lakes", 1): 2,
        ("towers", 0): 2,
        ("towers", 1): 2,
    }
    assert len(read_statements(data, 0, 0)) == 48
    assert not read_statements(data, 0, 10)


def test_a_row_may_have_several_contexts(tmp_path: Path) -> None:
    row = {"dataset": "lakes", "contexts": ["a" * 8, "b" * 7], "statement": "S.", "label": 1}
    (tmp_path / "five.jsonl").write_text(json.dumps(row), encoding="utf-8")
    [statement] = read_statements(tmp_path, 0, 15, "five.jsonl")
    assert statement.sample["retrieved_contexts"] == row["contexts"]
    assert not read_statements(tmp_path, 0, 14, "five.jsonl")


def test_of_a_question_one_relevant_and_one_other_sentence_are_judged(data: Path) -> None:
    rows = read_sentences(data, 3, 0)
    assert [row.label for row in rows] == [1, 0] * 3
    assert len({row.cluster for row in rows}) == 3
    assert rows[0].sample["response"] in rows[0].sample["retrieved_contexts"][0]
    assert len(read_sentences(data, 0, 0)) == 48


def test_the_auc_is_the_share_of_pairs_in_the_right_order() -> None:
    """Positive .9 and .4, negative .1 and .6: three of four pairs, and all four with .7 for .4."""
    rows = [labelled(1 - place % 2, cluster=str(place // 2)) for place in range(40)]
    worse = np.tile([0.9, 0.1, 0.4, 0.6], 10)
    better = np.tile([0.9, 0.1, 0.7, 0.6], 10)
    labels = Labels(rows)
    assert labels.auc(worse).value == pytest.approx(0.75)
    assert labels.auc(better) == (1, 1, 1)
    gain = labels.gain(better, worse)
    assert gain.value == pytest.approx(0.25)
    assert 0 < gain.low < gain.value < gain.high < 1
    assert labels.gain(worse, worse) == (0, 0, 0)


def test_rows_of_a_cluster_are_drawn_together() -> None:
    """Forty rows of two contexts are hardly more certain than two rows."""
    rng = np.random.default_rng(1)
    scores = rng.random(40)
    apart = [labelled(place % 2, cluster=str(place)) for place in range(40)]
    together = [labelled(place % 2, cluster=str(place < 20)) for place in range(40)]
    scores[20:] = np.where(np.arange(20) % 2, 0.9, 0.1)
    wide = Labels(together).auc(scores)
    narrow = Labels(apart).auc(scores)
    assert wide.high - wide.low > narrow.high - narrow.low


def test_the_table_compares_judges_together_with_each_of_them() -> None:
    rows = [labelled(1 - place % 2, cluster=str(place), is_long=place < 2) for place in range(40)]
    scores = {
        "lexical": np.tile([0.9, 0.1, 0.4, 0.6], 10),
        "big/model.gguf": np.tile([0.9, 0.1, 0.7, 0.6], 10),
        "lexical+big/model.gguf": np.tile([0.9, 0.1, 0.7, 0.6], 10),
    }
    lines = markdown("attribution", Labels(rows), scores).splitlines()
    assert lines[0] == "|attribution|lexical|model|lexical + model|"
    assert lines[3].startswith("|gain over lexical||+0.250 [")
    assert lines[4] == "|gain over model|||+0.000 [0.000, 0.000]|"
    assert lines[6] == "|longer (2)|1.000|1.000|1.000|"


@pytest.mark.engine
def test_judges_together_reuse_what_one_of_them_has_answered(data: Path, tmp_path: Path) -> None:
    rows = read_statements(data, 4, 0)
    metric = WholeStatement()
    alone = probabilities("lexical", rows, metric, tmp_path / "out", 1)
    probabilities("lexical+reader", rows, metric, tmp_path / "out", 1)
    jury = localjudge.Run.open(tmp_path / "out" / "lexical+reader")
    by_id = {verdict.sample_id: verdict.judges or {} for verdict in jury.verdicts}
    assert [by_id[row.sample["id"]]["lexical"] for row in rows] == alone.tolist()
    sessions = jury.manifest.environment.sessions
    assert [session.asked for session in sessions] == [4]


@pytest.mark.engine
def test_a_row_without_a_verdict_is_an_error(tmp_path: Path) -> None:
    sample = {"id": "1", "response": "word " * 20_000, "retrieved_contexts": ["It rains."]}
    row = LabelledRow(sample, 1, "a", "1", is_long=False)
    with pytest.raises(LocaljudgeError):
        probabilities("reader", [row], WholeStatement(), tmp_path, 1)


@pytest.mark.engine
def test_a_judge_that_does_not_answer_a_question_has_no_column(data: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(FOLDER / "judge-accuracy"), "--data", str(data)]
    command += ["--judge", "lexical", "--judge", "reader", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1
    assert "reader" in done.stderr
    heads = [line for line in done.stdout.splitlines() if line.startswith(("|attr", "|rel"))]
    assert heads == ["|attribution|lexical|reader|", "|relevance of a sentence|lexical|"]


@pytest.mark.engine
def test_sentences_are_judged_beside_their_passages(data: Path, tmp_path: Path) -> None:
    rows = read_sentences(data, 2, 0)
    scores = probabilities("lexical", rows, OneSentence(), tmp_path, 1)
    assert scores[0] > scores[1]
    assert scores[2] > scores[3]


@pytest.mark.engine
def test_speed_is_stated_for_each_judge_as_verdicts_a_second(tmp_path: Path) -> None:
    rows = [
        {
            "id": str(place),
            "user_input": "How deep?",
            "retrieved_contexts": [f"The lake is {place} metres deep."],
            "reference": f"It is {place} metres deep. It is wide." if place else "",
        }
        for place in range(8)
    ]
    (tmp_path / "rag_clapnq.dev.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    command = [sys.executable, str(FOLDER / "judge-speed"), "--data", str(tmp_path)]
    command += ["--judge", "lexical", "--judge", "lexical", "--samples", "5"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    line = done.stdout.splitlines()[-1]
    assert re.fullmatch(r"\|lexical\|10\|\d\.\d{3}\|\d+\.\d\d\|1\.0\|", line), done.stdout
