import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from localjudge.engine.decoding import (
    Choice,
    ConstrainedAnswer,
    Constraints,
    greedy,
    nearest_label,
    read_verdict,
)
from localjudge.judge.profile import load_grammar
from localjudge.metrics import SampleError
from tests.engine.conftest import Opener, OpenVocabulary

pytestmark = pytest.mark.engine

LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
SCORES = st.floats(-1e4, 1e4, width=32)
LOGITS = arrays.arrays(
    np.float32, 6, elements=st.floats(width=32, allow_nan=True, allow_infinity=True)
)
LABELS = Choice(
    np.array([True, True, True, False, False, False]),
    {0: np.array([0], dtype=np.intp), 1: np.array([1, 2])},
)


def choice(*labels: float) -> Choice:
    """Create a choice of labels; the nth label is token n, and one more token is invalid."""
    legal = np.array([True] * len(labels) + [False])
    return Choice(legal, {label: np.array([token]) for token, label in enumerate(labels)})


def logits(*scores: float) -> NDArray[np.float32]:
    return np.array(scores, dtype=np.float32)


def test_the_lowest_id_wins_a_tie() -> None:
    """Tokens 1 and 3 tie; 2 is likelier, but invalid."""
    legal = np.array([True, True, False, True])
    assert greedy(legal, np.array([0, 5, 9, 5], dtype=np.float32)) == 1


def test_a_verdict_is_a_softmax_over_its_labels() -> None:
    """Label 1 has 2e, label 0 has 1, invalid e^2: p = 2e / (2e + 1), mass = (2e + 1) / all."""
    two = Choice(np.array([True, True, True, False]), {0: np.array([0]), 1: np.array([1, 2])})
    p_yes, valid_mass = read_verdict(two, logits(0, 1, 1, 2))
    e = np.e
    expected = (2 * e / (2 * e + 1), (2 * e + 1) / (2 * e + 1 + e**2))
    assert (p_yes, valid_mass) == pytest.approx(expected, abs=1e-12)
    assert nearest_label(p_yes, two.labels) == 1


@given(no=SCORES, yes=SCORES, other=SCORES)
def test_the_mean_of_two_labels_is_the_probability_of_yes(
    no: float, yes: float, other: float
) -> None:
    """1 / (1 + exp(no - yes)), bit for bit, so that earlier runs verify. Label 1 from a half."""
    p_yes, _ = read_verdict(choice(0, 1), logits(no, yes, other))
    assert p_yes == float(1 / (1 + np.exp(np.clip(np.float64(no) - np.float64(yes), -700, 700))))
    assert nearest_label(p_yes, (0, 1)) == int(p_yes >= 0.5)


def test_the_value_of_levels_is_their_mean() -> None:
    """Shares .1, .2, .4, .2, .1 of the valid half: .05 + .2 + .15 + .1 = .5, level 3."""
    shares = [0.1, 0.2, 0.4, 0.2, 0.1]
    p_yes, valid_mass = read_verdict(choice(*LEVELS), logits(*map(math.log, shares), 0.0))
    assert (p_yes, valid_mass) == pytest.approx((0.5, 0.5), abs=1e-6)
    assert nearest_label(p_yes, LEVELS) == 0.5
    torn, _ = read_verdict(choice(*LEVELS), logits(-99, -99, 0.0, math.log(3), -99, -99))
    assert torn == pytest.approx(0.25 * 0.5 + 0.75 * 0.75, abs=1e-6)
    assert nearest_label(torn, LEVELS) == 0.75


@given(st.tuples(*[SCORES] * 6))
def test_the_mean_of_levels_is_in_0_to_1_and_the_nearest_level_is_written(
    scores: tuple[float, ...],
) -> None:
    p_yes, _ = read_verdict(choice(*LEVELS), logits(*scores))
    assert 0 <= p_yes <= 1
    label = nearest_label(p_yes, LEVELS)
    assert abs(label - p_yes) == min(abs(level - p_yes) for level in LEVELS)


@pytest.mark.parametrize(("level", "text"), list(enumerate("12345")))
def test_a_certain_level_is_written_as_its_digit(
    open_vocabulary: OpenVocabulary, level: int, text: str
) -> None:
    with open_vocabulary("bytes") as vocabulary:
        constraints = Constraints(vocabulary)
        grammar = constraints.compile(load_grammar("level"))
        answer = ConstrainedAnswer(constraints, grammar)
        scores = np.full(vocabulary.size, -50, np.float32)
        scores[vocabulary.user(text)] = 50
        answer.take(scores)
    written = answer.answer()
    assert answer.finished
    assert written.raw == f'{{"level":{text}}}'
    assert written.p_yes == pytest.approx(LEVELS[level])


@settings(max_examples=300)
@given(logits=LOGITS)
def test_a_verdict_is_a_number_or_an_error(logits: NDArray[np.float32]) -> None:
    """For logits of any 32 bits. The written label matches the probability, also near 0.5."""
    try:
        p_yes, valid_mass = read_verdict(LABELS, logits)
    except SampleError:
        assert not np.isfinite(logits).all()
        return
    assert 0 <= p_yes <= 1
    assert 0 <= valid_mass <= 1 + 1e-9
    assert nearest_label(p_yes, LABELS.labels) == int(p_yes >= 0.5)


@settings(max_examples=300)
@given(logits=LOGITS)
def test_a_token_of_a_reason_is_valid_and_finite_or_an_error(logits: NDArray[np.float32]) -> None:
    try:
        token = greedy(LABELS.valid, logits)
    except SampleError:
        assert not np.isfinite(logits).all()
        return
    assert LABELS.valid[token]
    assert logits[token] == logits[LABELS.valid].max()


def test_a_character_may_span_tokens(opened: Opener) -> None:
    """Logits spell the bytes of "é" and then close the reason."""
    engine = opened()
    vocabulary = engine.vocabulary
    constraints = Constraints(vocabulary)
    grammar = constraints.compile(load_grammar("reason_attributed"))
    written = ConstrainedAnswer(constraints, grammar)
    for wanted in (b"\xc3", b"\xa9", b'"', b"1"):
        logits = np.zeros(vocabulary.size, dtype=np.float32)
        logits[vocabulary.pieces.index(wanted)] = 9
        written.take(logits)
    assert written.finished
    assert written.answer().raw == '{"reason":"é","attributed":1}'
    assert written.free_tokens == 3
