"""Turns what was found into the answer's next token.

    after anything in the answer   "0" and "1" at DIGIT, apart by the verdict's logit z
    after the digit                "}"
    after "}"                      the end token

z is a linear function of the means, maxima and coverage; P(label 1) = sigmoid(z). The digits share DIGIT, which is far
above the 0 of every other token, so that nearly all of the probability is on legal answers.
"""

from .circuit import Products
from .layout import FACT, NOTE, OUTPUT
from .scalars import Scalars

DIGIT, CLOSE, END = 24.0, 60.0, 90.0


def read_out(scalars: Scalars) -> Products:
    """The last layer's products: the rule of the task at hand, then the order of the answer."""
    answers = NOTE["in_answer"]
    asks, beside = NOTE["asks_relevance"], NOTE["has_context"]
    products = Products()
    products.add({answers: 1.0, asks: -1.0}, _rule(scalars.attribution), OUTPUT["verdict"], 0.5)
    sentence, chunk = (
        {answers: 1.0, asks: 1.0, beside: 1.0, -1: -2.0},
        {answers: 1.0, asks: 1.0, beside: -1.0, -1: -1.0},
    )
    products.add(sentence, _rule(scalars.relevance), OUTPUT["verdict"], 0.5)
    products.add(chunk, _rule(scalars.chunk), OUTPUT["verdict"], 0.5)
    for gate, target, size in (
        ({answers: 1.0}, "digit", DIGIT),
        ({answers: 1.0, FACT["is_digit"]: 1.0, -1: -1.0}, "close", CLOSE),
        ({answers: 1.0, FACT["is_close"]: 1.0, -1: -1.0}, "end", END),
    ):
        products.add(gate, {-1: 1.0}, OUTPUT[target], size)
    return products


def _rule(weights: dict[str, float]) -> dict[int, float]:
    return {-1 if name == "constant" else NOTE[name]: weight for name, weight in weights.items()}
