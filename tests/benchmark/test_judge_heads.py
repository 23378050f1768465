"""Heads find a direction that was planted, on data sets that they were not fitted on; made labels are right."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from judge_heads import heads
from judge_heads.rows import Numbers, rows
from numpy.typing import NDArray

Way = Callable[[heads.Columns, heads.Columns, list[str]], heads.Decided]


def planted(count: int, datasets: list[str], seed: int) -> dict[str, NDArray[Any]]:
    """States of 32 numbers, the third of which is 2 higher where the label is 1: AUC = Phi(2 / sqrt 2) = 0.921."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, count)
    last = rng.normal(size=(count, 32))
    last[:, 2] += 2 * label
    group = np.array([f"{seed} {number}" for number in range(count)])
    return {"label": label, "last": last, "dataset": rng.choice(datasets, count), "group": group}


@pytest.mark.parametrize("way", [heads.ridge, heads.logistic])
def test_a_head_finds_what_was_planted_in_other_data_sets(way: Way) -> None:
    train, dev = planted(600, ["rte", "begin_tc", "expertqa"], 1), planted(400, ["begin_wow", "attributionbench"], 2)
    auc, gain, accuracy, error = heads.figures(dev, way(train, dev, ["last"]), np.zeros(400))
    assert float(auc.split()[0]) == pytest.approx(0.921, abs=0.03)
    assert float(gain.split()[0]) == pytest.approx(0.421, abs=0.03)
    assert float(accuracy.split()[0]) == pytest.approx(0.841, abs=0.04)  # Phi(1)
    assert float(error) < 0.1


def test_no_row_of_a_family_decides_its_own_data_set() -> None:
    """Where the one family with a signal is left out, nothing is found."""
    train, dev = planted(300, ["begin_tc"], 1), planted(200, ["begin_wow"], 2)
    noise = planted(300, ["rte"], 3)
    noise["last"] = np.random.default_rng(4).normal(size=(300, 32))
    both = {name: np.concatenate([train[name], noise[name]]) for name in train}
    auc = heads.figures(dev, heads.ridge(both, dev, ["last"]), np.zeros(200))[0]
    assert abs(float(auc.split()[0]) - 0.5) < 0.2
    assert heads.family("expertqa") == heads.family("attributionbench")


def test_made_labels_are_1_for_sentences_of_their_context_alone(tmp_path: Path) -> None:
    lines = [
        {
            "dataset": "lakes",
            "context": f"Lake Number {n} was measured by Anna in {1900 + n}. It is {n} metres deep at the bridge.",
            "statement": f"The lake is {n} metres deep.",
            "label": n % 2,
        }
        for n in range(10, 30)
    ]
    for split in ("train", "dev"):
        (tmp_path / f"attribution.{split}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "relevance.dev.jsonl").write_text("")
    questions = rows(tmp_path, Numbers(train=16, made=8, attribution=16))
    assert [sum(asked.split == split for asked in questions[:20]) for split in ("train", "made", "dev")] == [8, 4, 8]
    made = [asked.example for asked in questions if asked.split == "made"]
    assert {example.label for example in made} == {0, 1}
    assert all((example.judged in example.given) == bool(example.label) for example in made)
    assert len({asked.key for asked in questions}) == len(questions)
