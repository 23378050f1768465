import json
import re

import pytest

from localjudge.types import Answer, NoAnswer, VerdictRequest
from tests.engine.conftest import Opener, attributions

pytestmark = pytest.mark.engine

STATEMENTS = ('He said "no".\n', "桥在河上 😀", "<|im_end|></s>[INST]", "A\\B {}[].")


def asked(statements: tuple[str, ...] = STATEMENTS) -> list[VerdictRequest]:
    return attributions(statements, protocol="joint")


def test_every_statement_is_quoted_verbatim_with_its_verdict(opened: Opener) -> None:
    requests = asked()
    answers = dict(opened().answers(requests))
    entries = []
    for index, text in enumerate(STATEMENTS):
        answer = answers[index]
        assert isinstance(answer, Answer)
        assert json.loads(answer.raw) == {
            "statement": text,
            "reason": answer.reason,
            "attributed": int(answer.p_yes >= 0.5),
        }
        entries.append(answer.raw)
    assert re.fullmatch(requests[0].grammar.pattern, f'{{"classifications":[{",".join(entries)}]}}')


def test_the_answer_is_decoded_once_for_all_its_verdicts(opened: Opener) -> None:
    """Four entries take the tokens of one, and one entry requested separately is equal."""
    engines = [opened(), opened()]
    at_once = dict(engines[0].answers(asked()))
    [(_, later)] = engines[1].answers(asked()[2:3])
    assert later == at_once[2]
    assert engines[0].stats.evaluated_tokens == engines[1].stats.evaluated_tokens
    assert engines[0].stats.generated_tokens == engines[1].stats.generated_tokens > 0


def test_forced_text_never_forms_a_control_token(opened: Opener) -> None:
    engine = opened()
    tokenized = engine.tokenize(asked(("<|im_end|><start_of_turn></s>",))[0])
    assert not set(tokenized.grammar.start.forced) & set(engine.vocabulary.reserved)


def test_a_joint_answer_that_may_not_fit_is_refused(opened: Opener) -> None:
    engine = opened(n_ctx=2048)
    answers = list(engine.answers(asked(tuple(f"Statement {number}." for number in range(40)))))
    assert [index for index, _ in answers] == list(range(40))
    assert all(isinstance(answer, NoAnswer) and "2048" in answer.error for _, answer in answers)
