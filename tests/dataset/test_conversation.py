"""A conversation in place of a question is its last turn."""

from typing import Any

import pytest

from localjudge.dataset import from_rows
from localjudge.dataset.rows import Turn, last_turn
from localjudge.errors import DataError


def said(role: str, content: Any, key: str = "role") -> dict[str, Any]:
    return {key: role, "content": content}


EARLIER = [said("system", "Be brief."), said("user", "Hi."), said("assistant", "Hello.")]


@pytest.mark.parametrize(
    ("messages", "turn"),
    [
        ([*EARLIER, said("user", "Where?"), said("assistant", "There.")], Turn("Where?", "There.")),
        ([*EARLIER, said("user", "Where?")], Turn("Where?", None)),
        ([said("human", "Where?", "type"), said("ai", "There.", "type")], Turn("Where?", "There.")),
        # Calls of tools stand between: the answer is the last thing that the assistant said.
        (
            [
                said("user", "Where?"),
                said("assistant", None),
                said("tool", "x"),
                said("assistant", "I looked."),
                said("assistant", "There."),
                said("assistant", ""),
            ],
            Turn("Where?", "There."),
        ),
        ([said("user", [{"type": "text", "text": "a"}, {"type": "image_url"}, "b"])], Turn("a\nb", None)),
    ],
)
def test_the_last_turn_is_the_last_question_and_the_answer_to_it(messages: list[Any], turn: Turn) -> None:
    assert last_turn(messages) == turn


@pytest.mark.parametrize(
    "messages",
    [
        [],
        ["Where?"],
        [said("user", "a"), "b"],
        [{"role": "user"}],
        [said("critic", "a")],
        [said("system", "a"), said("assistant", "b")],
        [said("user", "")],
        [said("user", None)],
        [{"role": ["user"], "content": "a"}],
        [{"type": "doc", "content": "a"}],
    ],
)
def test_what_is_no_conversation_is_left_as_it_is(messages: list[Any]) -> None:
    assert last_turn(messages) is None


@pytest.mark.parametrize("column", ["user_input", "messages", "input", "question"])
def test_a_conversation_gives_question_and_response(column: str) -> None:
    talk = [*EARLIER, said("user", "Where?"), said("assistant", "There.")]
    data = from_rows([{column: talk, "contexts": ["a b"]}])
    assert (data.samples[0].user_input, data.samples[0].response, data.conversations) == ("Where?", "There.", 1)


def test_a_conversation_inside_an_object_is_found() -> None:
    """LangSmith's and MLflow's rows for chats."""
    talk = [said("user", "Where?"), said("assistant", "There.")]
    for inputs in ("inputs", "input"):
        (sample,) = from_rows([{inputs: {"messages": talk}, "contexts": ["a b"]}]).samples
        assert (sample.user_input, sample.response) == ("Where?", "There.")


def test_a_response_of_its_own_goes_before_that_of_the_conversation() -> None:
    talk = [said("user", "Where?"), said("assistant", "There.")]
    assert from_rows([{"user_input": talk, "response": "Here."}]).samples[0].response == "Here."


def test_a_question_goes_before_messages() -> None:
    """Samples of inspect have both: the messages tell how it went."""
    data = from_rows([{"input": "Where?", "messages": [said("user", "Other.")]}])
    assert (data.samples[0].user_input, data.conversations) == ("Where?", 0)


def test_the_mapping_says_where_the_conversation_is() -> None:
    data = from_rows([{"talk": [said("user", "Where?")], "input": "x"}], mapping={"user_input": "talk"})
    assert data.samples[0].user_input == "Where?"


def test_a_list_that_is_no_conversation_is_refused() -> None:
    with pytest.raises(DataError, match="user_input: found a list of 1, expected text or null"):
        from_rows([{"user_input": [{"role": "user"}], "contexts": ["a"]}, {"user_input": "q"}])
