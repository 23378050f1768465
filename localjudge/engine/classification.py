"""Read answers from the outputs of a classification head.

    request    "<s>{share}" (ours)   "Paris ..." (user's)   "</s>" (ours)   ...
    tokens     0 190                 2123 ...               2               ...
    outputs    2.71 = z              p_yes = sigmoid(scale x z + bias)
    answer     {"attributed":1}      the grammar's text for the label nearest to p_yes

The model writes nothing, so all of its probability is on valid answers.
"""

import math
from collections.abc import Collection, Sequence
from functools import cache

import llguidance
import numpy as np
from numpy.typing import NDArray

from localjudge.engine.tokens import Vocabulary
from localjudge.errors import ModelError, SampleError
from localjudge.types import Answer, ClassifierReading, Grammar, VerdictRequest

_LARGEST_EXPONENT = 700.0
_ONE_HALF = 0.5


def require_reading(request: VerdictRequest, outputs: Sequence[str]) -> ClassifierReading:
    """Return how a request reads a head with these outputs.

    Raises ModelError for a request for another kind of model.
    """
    if request.reading is None or request.explanation is not None:
        raise ModelError(
            "this model gives probabilities of classes and writes no text",
            hint="use a prompt profile for its outputs",
        )
    if len(request.reading.outputs) != len(outputs):
        names = ", ".join(outputs)
        expected = ", ".join(request.reading.outputs)
        raise ModelError(
            f"the model's outputs are {names}, and the prompt profile expects {expected}",
            hint="use a prompt profile for its outputs",
        )
    return request.reading


def share_step(
    vocabulary: Vocabulary, first: Sequence[int], others: Collection[int], steps: int
) -> int:
    """Return the step of a share, from 0: of the first text's tokens, in the other texts.

    Tokens are weighted by their information.
    """
    total = 0.0
    covered = 0.0
    for token in first:
        information = max(0.0, -vocabulary.score(token))
        total += information
        if token in others:
            covered += information
    if not total:
        return 0
    share = covered / total
    return min(steps - 1, math.floor(steps * share))


def answer_from(
    outputs: NDArray[np.float32], reading: ClassifierReading, grammar: Grammar
) -> Answer:
    """Read the answer from the head's outputs. Raises SampleError if they are not finite."""
    scores = outputs.astype(np.float64)
    if not np.isfinite(scores).all():
        raise SampleError(
            "the model gave outputs that are not numbers: its file or the build is damaged"
        )
    z = float(scores[0])
    if len(reading.outputs) > 1:
        is_yes = np.array([name in reading.yes for name in reading.outputs])
        z = _log_sum_exp(scores[is_yes]) - _log_sum_exp(scores[~is_yes])
    exponent = min(max(reading.scale * z + reading.bias, -_LARGEST_EXPONENT), _LARGEST_EXPONENT)
    p_yes = 1 / (1 + math.exp(-exponent))
    no, yes = answer_texts(grammar)
    text = no
    if p_yes >= _ONE_HALF:
        text = yes
    return Answer(p_yes=p_yes, valid_mass=1.0, raw=text)


def _log_sum_exp(scores: NDArray[np.float64]) -> float:
    peak = float(scores.max())
    return peak + math.log(float(np.exp(scores - peak).sum()))


@cache
def answer_texts(grammar: Grammar) -> tuple[str, str]:
    """Return the grammar's only texts with the values 0 and 1.

    Raises ModelError if it has other answers.
    """
    texts = {value: _text_with(literal, grammar) for literal, value in grammar.labels.items()}
    if set(texts) != {0, 1}:
        raise ModelError(
            "a model with a classification head answers yes or no, "
            f"and the grammar {grammar.name!r} has other answers",
        )
    return texts[0], texts[1]


def _text_with(literal: str, grammar: Grammar) -> str:
    tokenizer = llguidance.LLTokenizer("byte")
    matcher = llguidance.LLMatcher(
        tokenizer, llguidance.LLMatcher.grammar_from_regex(grammar.pattern)
    )
    text = matcher.compute_ff_bytes() + literal.encode()
    can_follow = matcher.consume_tokens(tokenizer.tokenize_bytes(text))
    if can_follow:
        rest = matcher.compute_ff_bytes()
        text += rest
        matcher.consume_tokens(tokenizer.tokenize_bytes(rest))
    if not (can_follow and matcher.is_accepting()):
        raise ModelError(f"an answer of the grammar {grammar.name!r} contains more than yes or no")
    return text.decode()
