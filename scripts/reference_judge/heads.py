"""The three layers of the judge: what each head and each product is for.

    layer 0   where am I?        which part of the prompt, which task, which word before me
    layer 1   am I matched?      alone, with the word before; am I the first of my kind; how often am I in the contexts?
    layer 2   what is missing?   means over the words and over the names, the worst number, the question's coverage

The parts stand in this order: contexts, question, "B" (what is judged: statement, sentence or chunk), answer. A
statement is held against the contexts. A sentence or chunk is held against the question; for a sentence the contexts
tell which of its words are everywhere in them and distinguish nothing.
A head that looks for a match has a marker to fall back on: its logit is the threshold that a match must pass.
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
COVERED = -4.0
"""Makes what B covers light beside the question, so that its share of the attention is nearly linear in it."""
SAME_WORD = 63 / 64
"""A word's match with itself: 63 times 1/8 squared."""


def layers(scalars: Scalars) -> list[Layer]:
    """The whole network between embedding and output."""
    orient = Layer([_part_of_prompt(), _question(), _context(), _previous_word(scalars)], _clear_markers())
    match = Layer([_matched_word(), _matched_pair(), _share_of_b(), _repeated()], _what_is_missing())
    weigh = Layer([_means(), _names(), _worst_number(), _coverage()], read_out(scalars))
    return [orient, match, weigh]


def _part_of_prompt() -> Head:
    """The marker that comes last in the order of the parts says which part this is."""
    parts = ("is_context", "is_question", "is_b_marker", "is_answer_marker")
    head = Head().prefer({FACT[marker]: 20.0 * place for place, marker in enumerate(parts, start=1)})
    for marker, note in zip(parts, ("in_context", "in_question", "in_b", "in_answer"), strict=True):
        head.bring({FACT[marker]: 1.0}, NOTE[note])
    return head


def _question() -> Head:
    """Whether there is a question, and so the task is relevance."""
    return Head().prefer({FACT["is_question"]: 20.0}).bring({FACT["is_question"]: 1.0}, NOTE["asks_relevance"])


def _context() -> Head:
    return Head().prefer({FACT["is_context"]: 20.0}).bring({FACT["is_context"]: 1.0}, NOTE["has_context"])


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
    """Bars all tokens outside the contexts, and gives their markers the logit that a match must pass."""
    return {NOTE["in_context"]: -BLOCKED, FACT["one"]: BLOCKED, FACT["is_context"]: threshold}


def _matched_word() -> Head:
    return _matcher(Head().match(IDENTITY, IDENTITY, MATCH_GAIN), MATCH_GAIN * MATCH_THRESHOLD, "matched")


def _matched_pair() -> Head:
    head = Head().match(IDENTITY, IDENTITY, PAIR_GAIN).match(PREVIOUS, PREVIOUS, PAIR_GAIN)
    return _matcher(head, PAIR_GAIN * PAIR_THRESHOLD, "matched_pair")


def _matcher(head: Head, threshold: float, note: str) -> Head:
    return head.prefer(_only_in_contexts(threshold)).bring({FACT["is_word"]: 1.0}, NOTE[note])


def _share_of_b() -> Head:
    """Of all places in the question and B that hold this word, the share that stands in B so far."""
    parts = {NOTE["in_question"]: -BLOCKED, NOTE["in_b"]: -BLOCKED, FACT["one"]: BLOCKED}
    return Head().match(IDENTITY, IDENTITY, MATCH_GAIN).prefer(parts).bring({NOTE["in_b"]: 1.0}, NOTE["share_of_b"])


def _repeated() -> Head:
    """Share n / (n + 1) for a word that stands n times in the contexts: the question's marker counts as one more."""
    places = {
        NOTE["in_context"]: -BLOCKED,
        FACT["one"]: BLOCKED,
        FACT["is_question"]: -BLOCKED + MATCH_GAIN * SAME_WORD,
    }
    return (
        Head().match(IDENTITY, IDENTITY, MATCH_GAIN).prefer(places).bring({NOTE["in_context"]: 1.0}, NOTE["repeated"])
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
    """Share of the names that are missing. B's marker stands for a little more that is there: one name counts less."""
    marker = LOG_SPAN + math.log(ASSUMED_NAMES)
    preference = _only_in_b({FACT["log_name_weight"]: LOG_SPAN, FACT["is_b_marker"]: marker})
    return Head().prefer(preference).bring({FACT["is_word"]: 1.0, NOTE["matched"]: -1.0}, NOTE["missing_names"])


def _worst_number() -> Head:
    """The largest weight of a missing number."""
    note = NOTE["missing_number_weight"]
    return Head().prefer(_only_in_b({note: WORST_GAIN})).bring({note: 1.0}, NOTE["worst_number"])


def _coverage() -> Head:
    """Weight of the question's words in B, each counted once and by 1 / (1 + n), against that of all its words."""
    preference = {
        FACT["log_question_weight"]: LOG_SPAN,
        NOTE["in_question"]: -BLOCKED + REPEATED,
        NOTE["in_b"]: -BLOCKED + REPEATED + COVERED,
        NOTE["first"]: -REPEATED,
        FACT["one"]: BLOCKED,
    }
    return Head().prefer(preference).bring({NOTE["distinctive"]: math.exp(-COVERED)}, NOTE["coverage"])
