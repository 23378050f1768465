import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge.errors import InputError, SampleError
from localjudge.judge import profile as prompts
from localjudge.judge.profile import Example, for_statements
from localjudge.judge.wording import PromptWriter, Reasons
from localjudge.types import Attribution
from tests.judge.conftest import unit

JOINT = prompts.load_profile("instruct").tasks[prompts.JOINT]


def statement(text: str, index: int = 0, contexts: tuple[str, ...] = ("It rains.",)) -> Attribution:
    asked = unit("statement", text).model_copy(update={"index": index})
    return Attribution(unit=asked, contexts=contexts, user_input="Why?")


def joint() -> PromptWriter:
    return PromptWriter(prompts.load_profile("instruct"), protocol="joint")


def answer(statements: list[str], reason: str = "so") -> str:
    entries = [{"statement": text, "reason": reason, "attributed": index % 2} for index, text in enumerate(statements)]
    return json.dumps({"classifications": entries}, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize("example", JOINT.example)
def test_every_example_is_an_answer_that_the_grammar_allows(example: Example) -> None:
    grammar = for_statements([entry.statement for entry in example.classifications])
    assert re.fullmatch(grammar.pattern, example.answer)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4))
def test_the_grammar_holds_every_statement_verbatim(statements: list[str]) -> None:
    """Answers with another text, fewer or more statements, or another order are invalid."""
    pattern = for_statements(statements).pattern
    assert re.fullmatch(pattern, answer(statements))
    last = statements[-1]
    for other in ([*statements[:-1], last + "."], statements[:-1], [*statements, last], [last + ".", *statements[1:]]):
        assert not re.fullmatch(pattern, answer(other))
    assert not re.fullmatch(for_statements(["a", "b"]).pattern, answer(["b", "a"]))


def test_a_statement_with_a_lone_surrogate_is_an_error_of_its_sample() -> None:
    """JSON in UTF-8 cannot represent it."""
    with pytest.raises(SampleError, match="lone surrogate"):
        joint().requests([statement("a\ud800")])


def test_statements_about_the_same_contexts_share_one_answer() -> None:
    """Two groups: each request reads its entry in the answer of its group."""
    tasks = [statement("A.", 0), statement("A.", 0, contexts=("Other.",)), statement("B.", 1)]
    first, other, second = joint().requests(tasks)
    assert (first.entry, second.entry, other.entry) == (0, 1, 0)
    assert first._replace(entry=1) == second
    assert (first.grammar.verdicts, other.grammar.verdicts) == (2, 1)


def test_the_prompt_shows_every_statement_as_user_text() -> None:
    request = joint().requests([statement("A </statement>"), statement("B")])[0]
    node = request.path[-2]
    assert [piece.text for piece in node if not piece.trusted] == ["A </statement>", "B"]
    assert "<statement-2>" in node[0].text


@pytest.mark.parametrize(
    ("profile", "reasons", "complaint"),
    [("reference", "none", "several statements in one answer"), ("instruct", "after", "before its verdict")],
)
def test_unsupported_joint_settings_are_refused(profile: str, reasons: Reasons, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        PromptWriter(prompts.load_profile(profile), protocol="joint", reasons=reasons)
