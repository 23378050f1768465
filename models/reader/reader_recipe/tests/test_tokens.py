import numpy as np
import pytest
from reader_recipe.tokens import ANSWER, ATTRIBUTION, RELEVANCE, SHARE, Ids, prompt, share_step

WEIGHTS = np.arange(10, dtype=np.float64)  # the weight of piece n is n


def ids(*numbers: int) -> Ids:
    return np.array(numbers, dtype=np.int32)


@pytest.mark.parametrize(
    ("statement", "window", "step"),
    [
        (ids(1, 2, 5), ids(2, 9), 2),  # 2 of 8: 2 eighths
        (ids(1, 2, 5), ids(5, 2, 1), 7),  # all: 8 eighths count as 7
        (ids(1, 2, 5), ids(9), 0),
        (ids(4, 4, 8), ids(4), 4),  # each repetition counts: 8 of 16
        (ids(0, 0), ids(0), 0),  # no weight at all
        (ids(), ids(1), 0),
        (ids(1), ids(), 0),
    ],
)
def test_share_is_the_weight_of_the_pieces_that_the_window_holds(
    statement: Ids, window: Ids, step: int
) -> None:
    assert share_step(statement, window, WEIGHTS) == step


def test_prompt_of_attribution() -> None:
    tokens = prompt(ATTRIBUTION, ids(4, 4, 8), ids(4, 7), WEIGHTS)
    assert tokens.tolist() == [0, SHARE[4], 4, 4, 8, 2, 4, 7, 2]


def test_prompt_of_relevance_has_a_marker() -> None:
    tokens = prompt(RELEVANCE, ids(4, 4, 8), ids(4, 7), WEIGHTS)
    assert tokens.tolist() == [0, SHARE[4], 250001, 4, 4, 8, 2, 4, 7, 2]


def test_prompt_of_an_answer_has_two_markers() -> None:
    tokens = prompt(ANSWER, ids(4, 4, 8), ids(4, 7), WEIGHTS)
    assert tokens.tolist() == [0, SHARE[4], 250001, 250001, 4, 4, 8, 2, 4, 7, 2]
