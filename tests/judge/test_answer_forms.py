import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from localjudge.judge.profile import AnswerForm

PUNCTUATION = r"<>{}[]()|.*+?^$\"' /:-"


@given(before=st.text(PUNCTUATION, max_size=6), after=st.text(PUNCTUATION, max_size=6))
def test_text_around_the_verdict_is_literal(before: str, after: str) -> None:
    made = AnswerForm(form="<score> {verdict} </score>", labels={"yes": 0, "no": 1}).grammar(
        "attribution"
    )
    assert (made.pattern, made.labels) == ("<score> (yes|no) </score>", {"yes": 0, "no": 1})
    assert made.reason_tokens == 0
    if "{verdict}" in before + after:
        return
    made = AnswerForm(form=f"{before}{{verdict}}{after}", labels={"Yes": 1, "No": 0}).grammar("x")
    assert re.fullmatch(made.pattern, f"{before}Yes{after}")
    assert not re.fullmatch(made.pattern, f"{before}Yes{after}.")
    assert not re.fullmatch(made.pattern, f"{before}Maybe{after}")


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"labels": {"Yes": 1, "No": 2}}, "from 0 to 1"),
        ({"labels": {"relevant": 1, "relevant in part": 0.5}}, "different characters"),
        ({"labels": {"Yes": 1}}, "two values"),
        ({"labels": {"Yes": 1, "No": 1}}, "two values"),
        ({"labels": {"": 1, "No": 0}}, "a label must have a character"),
        ({"labels": {"Yes": 1, "No": 0}, "form": "x"}, "must contain {verdict} once"),
        (
            {"labels": {"Yes": 1, "No": 0}, "form": "{verdict} {verdict}"},
            "must contain {verdict} once",
        ),
    ],
)
def test_an_ambiguous_answer_form_is_refused(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(complaint)):
        AnswerForm(**fields)
