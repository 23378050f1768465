r"""Answers in a profile's own words: what a model was trained to write, where that is not one of our JSON schemas.

    form = "<score> {verdict} </score>"        literal text, with the verdict's place
    labels = { yes = 0, no = 1 }               ->   <score> (yes|no) </score>

    form = "{reason}[RESULT] {verdict}"        a reason first: it ends where the text behind it begins
    reason_tokens = 300

    pattern = "(Yes|No)"                       or a regular expression

A label stands for a value in [0, 1], which makes an inverted answer ("yes, there is a risk") a matter of its file. A
reason cannot hold the first character of what follows it: that is how its end is told, and how it is closed when its
tokens are used up. Like a reason in JSON it is bounded twice, in characters by the expression and in tokens.
"""

import re
from typing import Self

from pydantic import Field, model_validator

from localjudge.types import Grammar, Record

_VERDICT, _REASON = "{verdict}", "{reason}"
_SPECIAL = re.compile(r"([\\.^$*+?{}\[\]|()])")
_CHARACTERS_PER_TOKEN = 4
"""Of a reason, at its longest: about that of English text in common vocabularies."""


class AnswerForm(Record):
    """The legal answers of a task, and what each verdict stands for."""

    labels: dict[str, int | float]
    form: str = _VERDICT
    pattern: str = ""
    reason_tokens: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _can_be_told_apart(self) -> Self:
        if not all(0 <= value <= 1 for value in self.labels.values()):
            raise ValueError("a label stands for a value from 0 to 1")
        if len({label[:1] for label in self.labels}) < len(self.labels) or len(set(self.labels.values())) <= 1:
            raise ValueError("labels must begin with different characters, and stand for two values or more")
        return self

    @model_validator(mode="after")
    def _has_its_places(self) -> Self:
        before, verdict, _ = self.form.partition(_VERDICT)
        if not verdict or self.form.count(_VERDICT) > 1:
            raise ValueError(f"the form of an answer shows {_VERDICT} once")
        if self.pattern:
            if self.form != _VERDICT or self.reason_tokens:
                raise ValueError("an answer has a form or a pattern, and only a form holds a reason")
            _compiled(self.pattern)
        if (self.form.count(_REASON) == 1) != bool(self.reason_tokens) or self.form.count(_REASON) > 1:
            raise ValueError(f"a form with {_REASON} has reason_tokens, and no other")
        if self.reason_tokens and not before.partition(_REASON)[2]:
            raise ValueError(f"a form shows {_REASON} before {_VERDICT}, with text between them")
        return self

    def grammar(self, name: str) -> Grammar:
        """The answers as a grammar of this name."""
        if not self.reason_tokens:
            return Grammar(name=name, pattern=self.pattern or self._expression(), labels=self.labels)
        return Grammar(
            name=name,
            pattern=self._expression(),
            labels=self.labels,
            reason_tokens=self.reason_tokens,
            reason_end=self._reason_end,
        )

    @property
    def _reason_end(self) -> str:
        return self.form.partition(_REASON)[2][0]

    def _expression(self) -> str:
        before, _, after = self.form.partition(_VERDICT)
        verdict = f"({'|'.join(map(_literal, self.labels))})"
        opening, has_reason, between = before.partition(_REASON)
        reason = ""
        if has_reason:
            most = self.reason_tokens * _CHARACTERS_PER_TOKEN
            reason = rf"(?P<reason>[^{_literal(self._reason_end)}\x00-\x1F\x7F-\x9F]{{1,{most}}})"
        return f"{_literal(opening)}{reason}{_literal(between)}{verdict}{_literal(after)}"


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"the pattern of an answer is no regular expression: {error}") from error


def _literal(text: str) -> str:
    """The text in an expression that both Python and llguidance read."""
    return _SPECIAL.sub(r"\\\1", text)
