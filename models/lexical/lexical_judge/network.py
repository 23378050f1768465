"""The network: a transformer of three layers with written weights, without training.

    layer 0   where am I?        which part of the prompt, which task, which word before me
    layer 1   am I matched?      alone, with the word before; am I the first of my kind;
                                 how often am I in the contexts?
    layer 2   what is missing?   means over the words and over the names, the worst number,
                                 the question's coverage

    attention   softmax(query . key / sqrt(HEAD_WIDTH)) weighs the values of all tokens so far
    product     silu(20 gate) / 20 * linear,  which for a gate of 0 or 1 is gate * linear

A prompt has these parts, in this order: contexts, question, "B" (the judged statement, sentence or
chunk), answer. A statement is compared with the contexts, a sentence or chunk with the question.
For a sentence, words that are everywhere in the contexts count less. A head that looks for a match
also sees a marker. Its logit is the threshold that a match must pass.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from .committed import HEAD_WIDTH, PAIRS, Bump, Floats, Scalars
from .layout import FACT, IDENTITY, LOG_SPAN, NOTE, OUTPUT, PREVIOUS, PREVIOUS_CODE, WIDTH

FREQUENCY_BASE = 10000.0
_STILL = 1e30
Linear = Mapping[int, float]
"""A linear function of a vector: coefficient by dimension."""
STEEPNESS = 20.0
PRODUCTS = 64
HEADS = 4
_KEY_SHARE = 16.0
BLOCKED = -200.0
CODE_SCALE = 1.5
"""Brings 28 values of ±1/8 to a vector of length 0.99."""
MATCH_GAIN = 40.0
MATCH_THRESHOLD = 0.75
PAIR_GAIN = 40.0
PAIR_THRESHOLD = 1.6
WORST_GAIN = 60.0
ASSUMED_NAMES = 0.3
REPEAT_LIMIT = 0.62
REPEAT_SLOPE = 12.0
REPEATED = -30.0
COVERED = -4.0
"""Gives words covered by B little weight, so that their share of the attention is nearly linear."""
SAME_WORD = 63 / 64
"""A word's match with itself: 63 times 1/8 squared."""
DIGIT = 24.0
CLOSE = 60.0
END = 90.0


def frequency_factors(frequencies: Sequence[float]) -> NDArray[np.float32]:
    """Return the divisors of each pair's frequency in llama.cpp, shape (HEAD_WIDTH / 2,).

    Factors of 1e30 stop all pairs after the first `PAIRS`: their dimensions have no position.
    """
    pairs = np.arange(HEAD_WIDTH // 2)
    factors = np.full(len(pairs), _STILL)
    factors[:PAIRS] = FREQUENCY_BASE ** (-2.0 * pairs[:PAIRS] / HEAD_WIDTH) / np.array(frequencies)
    return factors.astype(np.float32)


class Head:
    """One attention head: what it looks for, where, and what it brings."""

    def __init__(self) -> None:
        self.query = np.zeros((HEAD_WIDTH, WIDTH))
        self.query_bias = np.zeros(HEAD_WIDTH)
        self.key = np.zeros((HEAD_WIDTH, WIDTH))
        self.value = np.zeros((HEAD_WIDTH, WIDTH))
        self.output = np.zeros((WIDTH, HEAD_WIDTH))
        self._still = 2 * PAIRS
        self._values = 0

    def near(self, bump: Bump) -> "Head":
        """Add the bump's logit at the distance between the two tokens."""
        root = math.sqrt(HEAD_WIDTH)
        for pair, (cosine, sine) in enumerate(zip(bump.cosine, bump.sine, strict=True)):
            share = max(math.hypot(cosine, sine) ** 0.5, 1e-3)
            self.query_bias[2 * pair] = root * cosine / share
            self.query_bias[2 * pair + 1] = -root * sine / share
            self.key[2 * pair, FACT["one"]] = share
        return self

    def match(self, here: Sequence[int], there: Sequence[int], gain: float) -> "Head":
        """Add gain times the dot product of dimensions of the query's token with the key's."""
        for mine, theirs in zip(here, there, strict=True):
            self.query[self._still, mine] = gain * math.sqrt(HEAD_WIDTH)
            self.key[self._still, theirs] = 1.0
            self._still += 1
        return self

    def prefer(self, linear: Linear) -> "Head":
        """Add a linear function of the key's token, for every query."""
        self.query_bias[self._still] = _KEY_SHARE * math.sqrt(HEAD_WIDTH)
        for dimension, coefficient in linear.items():
            self.key[self._still, dimension] = coefficient / _KEY_SHARE
        self._still += 1
        return self

    def bring(self, linear: Linear, to: int) -> "Head":
        """Add the attended tokens' mean of a linear function to dimension `to`."""
        for dimension, coefficient in linear.items():
            self.value[self._values, dimension] = coefficient
        self.output[to, self._values] = 1.0
        self._values += 1
        return self


class Products:
    """The feed-forward part of a layer: at most PRODUCTS gated products."""

    def __init__(self) -> None:
        self.gate = np.zeros((PRODUCTS, WIDTH))
        self.gate_bias = np.zeros(PRODUCTS)
        self.up = np.zeros((PRODUCTS, WIDTH))
        self.up_bias = np.zeros(PRODUCTS)
        self.down = np.zeros((WIDTH, PRODUCTS))
        self._used = 0

    def add(self, gate: Linear, times: Linear, to: int, gain: float = 1.0) -> "Products":
        """Add gain * soft_step(gate) * times to dimension `to`.

        Key -1 of a linear function is its constant.
        """
        self._fill(self.gate, self.gate_bias, gate, STEEPNESS)
        self._fill(self.up, self.up_bias, times, 1.0)
        self.down[to, self._used] = gain / STEEPNESS
        self._used += 1
        return self

    def _fill(self, matrix: Floats, bias: Floats, linear: Linear, gain: float) -> None:
        for dimension, coefficient in linear.items():
            if dimension == -1:
                bias[self._used] = gain * coefficient
            else:
                matrix[self._used, dimension] = gain * coefficient


class Layer:
    """HEADS attention heads that read one vector, then products that read the result."""

    def __init__(self, heads: Sequence[Head], products: Products) -> None:
        self.heads = [*heads, *(Head() for _ in range(HEADS - len(heads)))]
        self.products = products

    def tensors(self) -> dict[str, Floats]:
        """Weights by llama.cpp's names, without the block's; each matrix has one row per output."""
        return {
            "attn_q.weight": np.concatenate([head.query for head in self.heads]),
            "attn_q.bias": np.concatenate([head.query_bias for head in self.heads]),
            "attn_k.weight": np.concatenate([head.key for head in self.heads]),
            "attn_v.weight": np.concatenate([head.value for head in self.heads]),
            "attn_output.weight": np.concatenate([head.output for head in self.heads], axis=1),
            "ffn_gate.weight": self.products.gate,
            "ffn_gate.bias": self.products.gate_bias,
            "ffn_up.weight": self.products.up,
            "ffn_up.bias": self.products.up_bias,
            "ffn_down.weight": self.products.down,
        }


def layers(scalars: Scalars) -> list[Layer]:
    """The whole network between embedding and output."""
    orient = Layer(
        [_part_of_prompt(), _question(), _context(), _previous_word(scalars)], _clear_markers()
    )
    match = Layer(
        [_matched_word(), _matched_pair(), _share_of_b(), _repeated()], _what_is_missing()
    )
    weigh = Layer([_means(), _names(), _worst_number(), _coverage()], read_out(scalars))
    return [orient, match, weigh]


def _part_of_prompt() -> Head:
    """The marker that comes last in the order of the parts says which part this is."""
    parts = ("is_context", "is_question", "is_b_marker", "is_answer_marker")
    head = Head().prefer(
        {FACT[marker]: 20.0 * place for place, marker in enumerate(parts, start=1)}
    )
    for marker, note in zip(parts, ("in_context", "in_question", "in_b", "in_answer"), strict=True):
        head.bring({FACT[marker]: 1.0}, NOTE[note])
    return head


def _question() -> Head:
    """Whether there is a question, and so the task is relevance."""
    return (
        Head()
        .prefer({FACT["is_question"]: 20.0})
        .bring({FACT["is_question"]: 1.0}, NOTE["asks_relevance"])
    )


def _context() -> Head:
    return (
        Head()
        .prefer({FACT["is_context"]: 20.0})
        .bring({FACT["is_context"]: 1.0}, NOTE["has_context"])
    )


def _previous_word(scalars: Scalars) -> Head:
    head = Head().near(scalars.previous)
    for source, target in zip(PREVIOUS_CODE, PREVIOUS, strict=True):
        head.bring({source: CODE_SCALE}, target)
    return head


def _clear_markers() -> Products:
    """Take the word before off the markers, so that no match can mistake a marker for a word."""
    markers = ("is_context", "is_question", "is_b_marker", "is_answer_marker")
    marker = dict.fromkeys((FACT[name] for name in markers), 1.0)
    products = Products()
    for dimension in PREVIOUS:
        products.add(marker, {dimension: -1.0}, dimension)
    return products


def _only_in_contexts(threshold: float) -> Linear:
    """Exclude tokens outside the contexts; their markers have the logit that a match must pass."""
    return {NOTE["in_context"]: -BLOCKED, FACT["one"]: BLOCKED, FACT["is_context"]: threshold}


def _matched_word() -> Head:
    return _matcher(
        Head().match(IDENTITY, IDENTITY, MATCH_GAIN), MATCH_GAIN * MATCH_THRESHOLD, "matched"
    )


def _matched_pair() -> Head:
    head = Head().match(IDENTITY, IDENTITY, PAIR_GAIN).match(PREVIOUS, PREVIOUS, PAIR_GAIN)
    return _matcher(head, PAIR_GAIN * PAIR_THRESHOLD, "matched_pair")


def _matcher(head: Head, threshold: float, note: str) -> Head:
    return head.prefer(_only_in_contexts(threshold)).bring({FACT["is_word"]: 1.0}, NOTE[note])


def _share_of_b() -> Head:
    """Return the part in B so far of all occurrences of this word in the question and B."""
    parts = {NOTE["in_question"]: -BLOCKED, NOTE["in_b"]: -BLOCKED, FACT["one"]: BLOCKED}
    return (
        Head()
        .match(IDENTITY, IDENTITY, MATCH_GAIN)
        .prefer(parts)
        .bring({NOTE["in_b"]: 1.0}, NOTE["share_of_b"])
    )


def _repeated() -> Head:
    """Share n / (n + 1) for a word n times in the contexts: the question's marker is one more."""
    places = {
        NOTE["in_context"]: -BLOCKED,
        FACT["one"]: BLOCKED,
        FACT["is_question"]: -BLOCKED + MATCH_GAIN * SAME_WORD,
    }
    return (
        Head()
        .match(IDENTITY, IDENTITY, MATCH_GAIN)
        .prefer(places)
        .bring({NOTE["in_context"]: 1.0}, NOTE["repeated"])
    )


def _what_is_missing() -> Products:
    missing = {NOTE["matched"]: -1.0, -1: 1.0}
    products = Products()
    products.add(missing, {FACT["number_weight"]: 1.0}, NOTE["missing_number_weight"])
    ramp = {NOTE["share_of_b"]: -REPEAT_SLOPE, -1: REPEAT_SLOPE * REPEAT_LIMIT}
    products.add(ramp, {-1: 1.0}, NOTE["first"])
    products.add({**ramp, -1: ramp[-1] - 1.0}, {-1: -1.0}, NOTE["first"])
    return products.add({NOTE["in_b"]: 1.0}, {NOTE["repeated"]: -1.0, -1: 1.0}, NOTE["distinctive"])


def _only_in_b(preference: Linear) -> Linear:
    return {NOTE["in_b"]: -BLOCKED, FACT["one"]: BLOCKED, **preference}


def _means() -> Head:
    """Means over the statement, each word counted by its weight."""
    return (
        Head()
        .prefer(_only_in_b({FACT["log_weight"]: LOG_SPAN}))
        .bring({FACT["one"]: 1.0, NOTE["matched"]: -1.0}, NOTE["mean_missing"])
        .bring({FACT["one"]: 1.0, NOTE["matched_pair"]: -1.0}, NOTE["mean_missing_pair"])
    )


def _names() -> Head:
    """Share of the names that are missing.

    B's marker adds a small part that is never missing, so a single name counts less.
    """
    marker = LOG_SPAN + math.log(ASSUMED_NAMES)
    preference = _only_in_b({FACT["log_name_weight"]: LOG_SPAN, FACT["is_b_marker"]: marker})
    return (
        Head()
        .prefer(preference)
        .bring({FACT["is_word"]: 1.0, NOTE["matched"]: -1.0}, NOTE["missing_names"])
    )


def _worst_number() -> Head:
    """The largest weight of a missing number."""
    note = NOTE["missing_number_weight"]
    return Head().prefer(_only_in_b({note: WORST_GAIN})).bring({note: 1.0}, NOTE["worst_number"])


def _coverage() -> Head:
    """Weight of the question's words in B, each once and by 1 / (1 + n), over the weight of all."""
    preference = {
        FACT["log_question_weight"]: LOG_SPAN,
        NOTE["in_question"]: -BLOCKED + REPEATED,
        NOTE["in_b"]: -BLOCKED + REPEATED + COVERED,
        NOTE["first"]: -REPEATED,
        FACT["one"]: BLOCKED,
    }
    return (
        Head().prefer(preference).bring({NOTE["distinctive"]: math.exp(-COVERED)}, NOTE["coverage"])
    )


def read_out(scalars: Scalars) -> Products:
    """The last layer's products: the rule of the task at hand, then the order of the answer.

        after anything in the answer   "0" and "1" at DIGIT, apart by the verdict's logit z
        after the digit                "}"
        after "}"                      the end token

    z is a linear function of the means, maxima and coverage; P(label 1) = sigmoid(z). The digits
    share DIGIT, which is far above the 0 of every other token, so that nearly all of the
    probability is on valid answers.
    """
    answers = NOTE["in_answer"]
    asks = NOTE["asks_relevance"]
    beside = NOTE["has_context"]
    products = Products()
    products.add({answers: 1.0, asks: -1.0}, _rule(scalars.attribution), OUTPUT["verdict"], 0.5)
    sentence = {answers: 1.0, asks: 1.0, beside: 1.0, -1: -2.0}
    chunk = {answers: 1.0, asks: 1.0, beside: -1.0, -1: -1.0}
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
