import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch computes the logits, and is not installed")

import evaluate
from reader_recipe.tokens import ANSWER, ATTRIBUTION

QUESTION = "How many?"
ANSWERS = [
    evaluate.Item(ANSWER, "short", "1", QUESTION, ("Two.",), 1),
    evaluate.Item(ANSWER, "no", "1", QUESTION, ("None.",), 1),
    evaluate.Item(ANSWER, "vague", "1", QUESTION, ("Some.",), 0),
    evaluate.Item(ANSWER, "refusal", "1", QUESTION, ("I cannot say.",), 0),
    evaluate.Item(ANSWER, "short", "2", "Who?", ("Ann.",), 1),
]


def statements(count: int) -> list[evaluate.Item]:
    return [
        evaluate.Item(
            ATTRIBUTION, f"set {n % 2}", str(n // 4), "It rains.", ("It rains.",), n // 2 % 2
        )
        for n in range(count)
    ]


def test_good_and_poor_sentences_are_compared_within_their_question() -> None:
    """Of 4 pairs of the first question, 2 are above and 1 is equal; the second has no poor one."""
    assert evaluate.good_above_poor(ANSWERS, np.array([3.0, 1.0, 1.0, 2.0, 0.0])) == (0.5, 0.25)


def test_a_kind_of_one_label_is_compared_with_the_rows_of_the_other() -> None:
    aucs = evaluate.part_aucs(ANSWERS, np.array([3.0, 1.0, 1.5, 2.0, 4.0]))
    assert aucs["short"] == 1.0
    assert aucs["no"] == 0.0
    assert aucs["vague"] == pytest.approx(2 / 3)


def test_the_gain_over_itself_is_0_and_over_the_opposite_1() -> None:
    items = statements(40)
    right = np.array([float(item.label) for item in items])
    assert evaluate.gain([(items, right, right)]) == (0.0, 0.0, 0.0)
    assert evaluate.gain([(items, right, -right)]).value == 1.0
