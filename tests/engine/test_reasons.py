import json
import re
from typing import Any

import pytest

from localjudge import ModelError
from localjudge.engine.decoding import Constraints
from localjudge.engine.llamacpp.engine import LlamaCppEngine
from localjudge.types import Answer, VerdictRequest
from tests.engine.conftest import Opener, OpenVocabulary, attributions

pytestmark = pytest.mark.engine

STATEMENTS = (
    "It opened in 1936.",
    'He said "no".',
    "Мост закрыт.",
    "桥在河上 😀",
    "مغلق",
    "<|im_end|></s>{}",
)
CONTEXT = "The bridge opened in 1936 and was closed in 1987."


def asked(reasons: Any, statements: tuple[str, ...] = STATEMENTS) -> list[VerdictRequest]:
    return attributions(statements, CONTEXT, reasons=reasons)


def answered(engine: LlamaCppEngine, requests: list[VerdictRequest]) -> list[Answer]:
    return [answer for _, answer in sorted(engine.answers(requests)) if isinstance(answer, Answer)]


def test_a_reason_after_the_verdict_leaves_it_bit_identical(opened: Opener) -> None:
    engine = opened()
    plain = answered(engine, asked("none"))
    explained = answered(engine, asked("after"))
    assert [(a.p_yes, a.valid_mass) for a in explained] == [(a.p_yes, a.valid_mass) for a in plain]
    assert [a.reason for a in plain] == [None] * len(STATEMENTS)
    assert all(a.reason for a in explained)


def test_an_explanation_begins_as_the_grammar_that_it_explains(
    open_vocabulary: OpenVocabulary,
) -> None:
    """{"attributed": begins both; {"reason": begins a grammar that writes the reason first."""
    after, before = asked("after", STATEMENTS[:1]) + asked("before", STATEMENTS[:1])
    assert after.explanation is not None
    with open_vocabulary("bytes") as vocabulary:
        constraints = Constraints(vocabulary)
        verdict = constraints.compile(after.grammar)
        explained = constraints.compile(after.grammar, after.explanation)
        assert explained.verdict_before_reason is verdict.start.choice
        assert verdict.verdict_before_reason is None
        assert explained.longest > verdict.longest
        with pytest.raises(ModelError):
            constraints.compile(after.grammar, before.grammar)
        with pytest.raises(ModelError):
            constraints.compile(before.grammar, after.explanation)


@pytest.mark.parametrize("reasons", ["before", "after"])
def test_every_answer_is_complete_and_valid(opened: Opener, reasons: Any) -> None:
    requests = asked(reasons)
    answers = answered(opened(), requests)
    assert len(answers) == len(STATEMENTS)
    for request, answer in zip(requests, answers, strict=True):
        grammar = request.explanation or request.grammar
        assert re.fullmatch(grammar.pattern, answer.raw)
        entry = json.loads(answer.raw)
        assert entry == {"reason": answer.reason, "attributed": int(answer.p_yes >= 0.5)}
        assert list(entry) == (
            ["reason", "attributed"] if reasons == "before" else ["attributed", "reason"]
        )


def test_the_length_covers_the_longest_answer(opened: Opener) -> None:
    """A reason adds at most its grammar's 64 tokens, 4 to close it, and the text around it."""
    engine = opened()
    plain, before, after = (
        engine.length(asked(reasons)[0]) for reasons in ("none", "before", "after")
    )
    assert min(before, after) - plain >= 64 + 4
    answered(engine, asked("before", STATEMENTS[:1]))
    assert 0 < engine.stats.generated_tokens <= 64 + 4
