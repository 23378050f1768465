"""The figures that wordings and judges are chosen by: which items are asked, what is kept, what a difference is."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from judge_trials import asking, figures, items

from localjudge import ScriptedEngine
from localjudge.stats import Interval


def data(folder: Path) -> Path:
    """Sixty statements of two data sets, and ten questions of six sentences."""
    attribution = [
        {
            "id": f"a{number}",
            "dataset": "one" if number % 3 else "two",
            "context": f"Context {number // 2}.",
            "statement": f"Statement {number}.",
            "label": number % 2,
            "question": None,
        }
        for number in range(60)
    ]
    relevance = [
        {
            "id": f"q{number}",
            "dataset": "one",
            "question": f"Question {number}?",
            "sentences": [f"Sentence {place}." for place in range(6)],
            "relevant": [int(place == 1) for place in range(6)],
        }
        for number in range(10)
    ]
    for name, rows in (("attribution", attribution), ("relevance", relevance)):
        (folder / f"{name}.dev.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return folder


def test_fewer_items_are_the_first_of_more(tmp_path: Path) -> None:
    """Whoever asks about more has asked about these, so answers are kept and figures can be compared."""
    folder = data(tmp_path)
    for task in ("attribution", "relevance_sentence"):
        more = items.choose(folder, task, 48)
        fewer = items.choose(folder, task, 12)
        assert [item.id for item in fewer] == [item.id for item in more][: len(fewer)]


def test_any_first_part_has_the_labels_and_data_sets_in_their_shares(tmp_path: Path) -> None:
    """Of 60 statements, half are 1 and a third are of data set two: so are the first 24, within one item a stratum."""
    chosen = items.choose(data(tmp_path), "attribution", 24)
    assert sum(item.label for item in chosen) == pytest.approx(12, abs=1)
    assert sum(item.source == "two" for item in chosen) == pytest.approx(8, abs=1)


def test_sentences_of_a_question_are_asked_together(tmp_path: Path) -> None:
    """They share their passages, which are then read once: questions are whole."""
    chosen = items.choose(data(tmp_path), "relevance_sentence", 8)
    assert len(chosen) == 12
    assert len({item.cluster for item in chosen}) == 2


def answered(p_yes: Sequence[float], labels: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Rows as they are kept, each a cluster of its own."""
    rows = enumerate(zip(p_yes, labels, strict=True))
    return {f"{i}": {"id": f"{i}", "cluster": f"c{i}", "label": label, "p_yes": p} for i, (p, label) in rows}


def table(*columns: figures.Answers, half: int | None = None) -> figures.Table:
    made = figures.make_table(columns, half)
    assert made
    return made


def test_a_gain_is_the_difference_of_the_areas() -> None:
    """Scores .1 .4 .35 .8 of labels 0 0 1 1 have an AUC of 3 of 4 pairs; .1 .2 .3 .4 of 4 of 4: the gain is 1/4."""
    labels = [0, 0, 1, 1]
    before, after = answered([0.1, 0.4, 0.35, 0.8], labels), answered([0.1, 0.2, 0.3, 0.4], labels)
    assert figures.cells(table(before))[1].startswith(".750 [")
    gained = figures.auc_gained(table(before, after))
    assert gained.mean == 0.25
    assert gained.low <= 0.25 <= gained.high


def test_a_gain_over_nothing_is_nothing() -> None:
    """The same answers twice, of two judges: every resample has the difference 0."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 40).tolist()
    first, second = (answered(rng.random(40).tolist(), labels) for _ in range(2))
    gained = figures.auc_gained(table(first, first, second, second))
    assert (gained.low, gained.mean, gained.high) == (0, 0, 0)


def test_only_items_that_all_have_answered_and_of_both_labels_are_compared() -> None:
    """A question without an answer counts for no one."""
    first, second = answered([0.1, 0.2, 0.3], [0, 1, 1]), answered([0.1, 0.2, 0.3], [0, 1, 1])
    second["1"]["p_yes"] = None
    assert len(table(first, second).labels) == 2
    second["0"]["p_yes"] = None
    assert figures.make_table([first, second]) is None


def test_halves_are_of_whole_clusters_and_never_meet() -> None:
    """What is chosen on one half is reported on the other."""
    rows = answered([0.5] * 60, [0, 1] * 30)
    first, second = (table(rows, half=half) for half in (0, 1))
    assert not set(first.clusters) & set(second.clusters)
    assert len(first.labels) + len(second.labels) == 60


def test_called_too_often_is_the_share_of_calls_less_that_of_ones() -> None:
    """Three calls of four where two are 1: a quarter too often."""
    assert figures.cells(table(answered([0.9, 0.8, 0.7, 0.1], [1, 0, 1, 0])))[3].startswith("+.250 [")


def test_what_is_answered_is_not_asked_again(tmp_path: Path) -> None:
    """Also after a kill that cut the last line off."""
    chosen = items.choose(data(tmp_path), "attribution", 10)
    trial = asking.Trial("attribution", asking.TODAY, None, chosen)
    first = ScriptedEngine({}, default=0.75)
    asking.OpenModel(first, "m", tmp_path).answer(trial)
    kept = tmp_path / asking.ANSWERS
    kept.write_bytes(kept.read_bytes()[:-9])
    second = ScriptedEngine({}, default=0.75)
    asking.OpenModel(second, "m", tmp_path).answer(trial)
    assert (len(first.asked), len(second.asked)) == (10, 1)
    assert len({row["id"] for row in asking.read_rows(kept)}) == 10


def test_a_question_without_an_answer_is_kept_as_that(tmp_path: Path) -> None:
    """It is no figure, and not asked for ever."""
    chosen = items.choose(data(tmp_path), "attribution", 4)
    trial = asking.Trial("attribution", asking.TODAY, None, chosen)
    engine = ScriptedEngine({chosen[0].task.unit.span.text: "it does not fit"}, default=0.75)
    asking.OpenModel(engine, "m", tmp_path).answer(trial)
    rows = asking.read_rows(tmp_path / asking.ANSWERS)
    assert [row["p_yes"] for row in rows] == [None, 0.75, 0.75, 0.75]


def test_figures_lose_no_digit_before_the_point() -> None:
    """A zero alone goes; the one of ten stays."""
    interval = Interval(-0.5, -10.25, 10.626, "bootstrap", 9, 9, 0.95)
    assert figures.short(interval) == "-.500 [-10.250, 10.626]"
    assert figures.short(interval, "+") == "-.500 [-10.250, +10.626]"
