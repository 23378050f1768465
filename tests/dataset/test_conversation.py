from typing import Any

import pytest

from localjudge.dataset import load
from localjudge.dataset.rows import last_turn
from localjudge.errors import DataError


def said(role: str, content: Any, key: str = "role") -> dict[str, Any]:
    return {key: role, "content": content}


def answer(content: Any) -> dict[str, Any]:
    return said("assistant", content)


TURN = ("Where?", "There.")
EARLIER = [said("system", "Be brief."), said("user", "Hi."), said("assistant", "Hello.")]


@pytest.mark.parametrize(
    ("messages", "turn"),
    [
        ([*EARLIER, said("user", "Where?"), answer("There.")], TURN),
        ([*EARLIER, said("user", "Where?")], ("Where?", None)),
        ([said("human", "Where?", "type"), said("ai", "There.", "type")], TURN),
        # With tool calls in between, the answer is the assistant's last message.
        ([said("user", "Where?"), said("tool", "x"), *map(answer, (None, "I looked.", "There.", ""))], TURN),
        ([said("user", [{"type": "text", "text": "a"}, {"type": "image_url"}, "b"])], ("a\nb", None)),
    ],
)
def test_the_last_question_and_its_answer_are_the_turn(messages: list[Any], turn: tuple[str, str | None]) -> None:
    assert last_turn(messages) == turn


def test_other_values_are_not_taken_for_conversations() -> None:
    for messages in ([], ["Where?"], [said("user", "a"), "b"], [{"role": "user"}], [said("critic", "a")]):
        assert last_turn(messages) is None
    for message in (said("system", "a"), said("user", ""), said("user", None), said("doc", "a", "type")):
        assert last_turn([message, said("assistant", "b")]) is None
    with pytest.raises(DataError, match="user_input: found a list of 1, expected text or null"):
        load([{"user_input": [{"role": "user"}], "contexts": ["a"]}, {"user_input": "q"}])


TALK = [*EARLIER, said("user", "Where?"), said("assistant", "There.")]


@pytest.mark.parametrize(
    ("row", "mapping", "turn"),
    [
        *(({column: TALK}, {}, ("Where?", "There.", 1)) for column in ("user_input", "messages", "input", "question")),
        # LangSmith's and MLflow's rows for chats.
        ({"inputs": {"messages": TALK}}, {}, ("Where?", "There.", 1)),
        ({"input": {"messages": TALK}}, {}, ("Where?", "There.", 1)),
        ({"user_input": TALK, "response": "Here."}, {}, ("Where?", "Here.", 1)),
        # Samples of inspect have both; the messages are the full conversation.
        ({"input": "Why?", "messages": TALK}, {}, ("Why?", None, 0)),
        ({"talk": TALK, "input": "x"}, {"user_input": "talk"}, ("Where?", "There.", 1)),
    ],
)
def test_a_conversation_fills_missing_fields(row: Any, mapping: dict[str, str], turn: tuple[Any, ...]) -> None:
    data = load([{**row, "contexts": ["a b"]}], mapping=mapping)
    assert (data.samples[0].user_input, data.samples[0].response, data.conversations) == turn
