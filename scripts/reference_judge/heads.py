"""The three layers of the judge: what each head and each product is for.

    layer 0   where am I?        which part of the prompt, which task, which word before me
    layer 1   am I matched?      alone, with the word before; am I the first of my kind?
    layer 2   what is missing?   means over the words and over the names, the worst number, the question's coverage

"A" is what is given (contexts or question), "B" is what is judged (statement or sentence), "answer" is what follows.
A head that looks for a match has the marker of A to fall back on: its logit is the threshold that a match must pass.
"""

import math

from .circuit import Head, Layer, Linear, Products
from .layout import FACT, IDENTITY, LOG_SPAN, NOTE, PREVIOUS, PREVIOUS_CODE
from .readout import read_out
from .scalars import Scalars

BLOCKED = -200.0
CODE_SCALE = 1.5
"""Brings 28 values of ±1/8 to a vector of length 0.99."""
MATCH_GAIN, MATCH_THRESHOLD = 40.0, 0.75
PAIR_GAIN, PAIR_THRESHOLD = 40.0, 1.6
WORST_GAIN = 60.0
ASSUMED_NAMES = 0.3
REPEAT_LIMIT, REPEAT_SLOPE = 0.62, 12.0
REPEATED = -30.0


def layers(scalars: Scalars) -> list[Layer]:
    """The whole network between embedding and output."""
    orient = Layer([_part_of_prompt(), _task(), _previous_word(scalars)], _clear_markers())
    match = Layer([_matched_word(), _matched_pair(), _share_of_b()], _what_is_missing())
    weigh = Layer([_means(), _names(), _worst_number(), _coverage()], read_out(scalars))
    return [orient, match, weigh]


def _part_of_prompt() -> Head:
    """The latest kind of marker seen says which part this is: the answer's outweighs B's, and B's outweighs A's."""
    return (
        Head()
        .prefer({FACT["is_a_marker"]: 20.0, FACT["is_b_marker"]: 40.0, FACT["is_answer_marker"]: 60.0})
        .bring({FACT["is_a_marker"]: 1.0}, NOTE["in_a"])
        .bring({FACT["is_b_marker"]: 1.0}, NOTE["in_b"])
        .bring({FACT["is_answer_marker"]: 1.0}, NOTE["in_answer"])
    )


def _task() -> Head:
    """The marker of A tells a question from a context."""
    return Head().prefer({FACT["is_a_marker"]: 20.0}).bring({FACT["is_question"]: 1.0}, NOTE["asks_relevance"])


def _previous_word(scalars: Scalars) -> Head:
    head = Head().near(scalars.previous)
    for source, target in zip(PREVIOUS_CODE, PREVIOUS, strict=True):
        head.bring({source: CODE_SCALE}, target)
    return head


def _clear_markers() -> Products:
    """Take the word before off the markers, so that no match can mistake a marker for a word."""
    marker = dict.fromkeys((FACT["is_a_marker"], FACT["is_b_marker"], FACT["is_answer_marker"]), 1.0)
    products = Products()
    for dimension in PREVIOUS:
        products.add(marker, {dimension: -1.0}, dimension)
    return products


def _only_in_a(threshold: float) -> Linear:
    """Bars all tokens outside A, and gives A's marker the logit that a match must pass."""
    return {NOTE["in_a"]: -BLOCKED, FACT["one"]: BLOCKED, FACT["is_a_marker"]: threshold}


def _matched_word() -> Head:
    return _matcher(Head().match(IDENTITY, IDENTITY, MATCH_GAIN), MATCH_GAIN * MATCH_THRESHOLD, "matched")


def _matched_pair() -> Head:
    head = Head().match(IDENTITY, IDENTITY, PAIR_GAIN).match(PREVIOUS, PREVIOUS, PAIR_GAIN)
    return _matcher(head, PAIR_GAIN * PAIR_THRESHOLD, "matched_pair")


def _matcher(head: Head, threshold: float, note: str) -> Head:
    return head.prefer(_only_in_a(threshold)).bring({FACT["is_word"]: 1.0}, NOTE[note])


def _share_of_b() -> Head:
    """Of all places in A and B that hold this word, the share that stands in B so far."""
    parts = {NOTE["in_a"]: -BLOCKED, NOTE["in_b"]: -BLOCKED, FACT["one"]: BLOCKED}
    return Head().match(IDENTITY, IDENTITY, MATCH_GAIN).prefer(parts).bring({NOTE["in_b"]: 1.0}, NOTE["share_of_b"])


def _what_is_missing() -> Products:
    missing = {NOTE["matched"]: -1.0, -1: 1.0}
    products = Products()
    products.add(missing, {FACT["number_weight"]: 1.0}, NOTE["missing_number_weight"])
    ramp = {NOTE["share_of_b"]: -REPEAT_SLOPE, -1: REPEAT_SLOPE * REPEAT_LIMIT}
    products.add(ramp, {-1: 1.0}, NOTE["first"])
    return products.add({**ramp, -1: ramp[-1] - 1.0}, {-1: -1.0}, NOTE["first"])


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
    """Share of the names that are missing. B's marker stands for a little more that is there: one name counts less."""
    marker = LOG_SPAN + math.log(ASSUMED_NAMES)
    preference = _only_in_b({FACT["log_name_weight"]: LOG_SPAN, FACT["is_b_marker"]: marker})
    return Head().prefer(preference).bring({FACT["is_word"]: 1.0, NOTE["matched"]: -1.0}, NOTE["missing_names"])


def _worst_number() -> Head:
    """The largest weight of a missing number."""
    note = NOTE["missing_number_weight"]
    return Head().prefer(_only_in_b({note: WORST_GAIN})).bring({note: 1.0}, NOTE["worst_number"])


def _coverage() -> Head:
    """Weight of the matched words of B, each counted once, against that and the weight of all words of A."""
    preference = {
        FACT["log_question_weight"]: LOG_SPAN,
        NOTE["in_a"]: -BLOCKED + REPEATED,
        NOTE["in_b"]: -BLOCKED + REPEATED,
        NOTE["first"]: -REPEATED,
        FACT["one"]: BLOCKED,
    }
    return Head().prefer(preference).bring({NOTE["in_b"]: 1.0}, NOTE["coverage"])
