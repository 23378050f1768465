"""Answers in a profile's own words: which texts are legal, what each stands for, and which forms cannot be."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from localjudge.judge.profile import AnswerForm

PUNCTUATION = r"<>{}[]()|.*+?^$\"' /:-"


@given(before=st.text(PUNCTUATION, max_size=6), after=st.text(PUNCTUATION, max_size=6))
def test_a_form_is_literal_but_for_its_verdict(before: str, after: str) -> None:
    """Whatever stands around the verdict is itself, and no part of an expression."""
    made = AnswerForm(form="<score> {verdict} </score>", labels={"yes": 0, "no": 1}).grammar("attribution")
    assert (made.pattern, made.labels) == ("<score> (yes|no) </score>", {"yes": 0, "no": 1})
    assert (made.reason_tokens, made.json_schema) == (0, None)
    if "{verdict}" in before + after:
        return
    made = AnswerForm(form=f"{before}{{verdict}}{after}", labels={"Yes": 1, "No": 0}).grammar("x")
    assert re.fullmatch(made.pattern, f"{before}Yes{after}")
    assert not re.fullmatch(made.pattern, f"{before}Yes{after}.")
    assert not re.fullmatch(made.pattern, f"{before}Maybe{after}")


def test_a_reason_comes_first_and_ends_where_the_text_behind_it_begins() -> None:
    """At most 2 tokens, so 8 characters: none of them the bracket that ends it, none a line break."""
    made = AnswerForm(form="{reason}[RESULT] {verdict}", labels={"1": 0, "5": 1}, reason_tokens=2).grammar("rubric")
    assert (made.reason_tokens, made.reason_end) == (2, "[")
    assert re.fullmatch(made.pattern, "so good [RESULT] 5")
    for illegal in ("so gooood [RESULT] 5", "a [b] [RESULT] 5", "a\n[RESULT] 5", "[RESULT] 5", "good [RESULT] 3"):
        assert not re.fullmatch(made.pattern, illegal), illegal


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"labels": {"Yes": 1, "No": 2}}, "from 0 to 1"),
        ({"labels": {"relevant": 1, "relevant in part": 0.5}}, "different characters"),
        ({"labels": {"Yes": 1}}, "two values"),
        ({"labels": {"Yes": 1, "No": 1}}, "two values"),
        ({"labels": {"": 1, "No": 0}, "form": "x"}, "shows {verdict} once"),
        ({"labels": {"Yes": 1, "No": 0}, "form": "{verdict} {verdict}"}, "shows {verdict} once"),
        ({"labels": {"Yes": 1, "No": 0}, "form": "{reason} {verdict}"}, "with reason_tokens"),
        ({"labels": {"Yes": 1, "No": 0}, "reason_tokens": 5}, "with reason_tokens"),
        ({"labels": {"Yes": 1, "No": 0}, "form": "{reason}{verdict}", "reason_tokens": 5}, "with text behind it"),
        ({"labels": {"Yes": 1, "No": 0}, "form": "{verdict} {reason}", "reason_tokens": 5}, "once, and last"),
    ],
)
def test_a_form_that_could_not_be_read_back_is_refused(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(complaint)):
        AnswerForm(**fields)
