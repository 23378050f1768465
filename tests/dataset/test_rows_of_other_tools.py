import json
from pathlib import Path
from typing import Any

import pandas
import pytest

from localjudge import DataError, Sample
from localjudge.dataset import load
from localjudge.metrics import Context

TWO = ["one text", "two texts"]
CONTENTS = [{"content": text} for text in TWO]
TEXTS = [{"text": text} for text in TWO]
RETRIEVED = (Context(text="one text"), Context(text="two texts"))
BASE = Sample(id="1", user_input="q", retrieved_contexts=RETRIEVED, reference="r", response="a")
FULL = BASE.model_copy(update={"reference_contexts": (Context(text="g"),)})
QUESTION = {"question": "q"}
RIGHT = {"expected_response": "r", "guidelines": ["Be kind."]}
ANSWER_OF_HAYSTACK: dict[str, Any] = {"data": "a", "query": "q", "documents": CONTENTS}
NODES = [{"node": {"text": "one text", "class_name": "TextNode"}}, {"node": {"text": "two texts"}}]


def only(row: dict[str, Any], **mapping: str) -> Sample:
    return load([{"id": "1", **row}], mapping=mapping).samples[0]


COLUMNS = {
    "ragas 0.2": "user_input retrieved_contexts reference response reference_contexts",
    "DeepEval": "input retrieval_context expected_output actual_output context",
    "continuous-eval": (
        "question retrieved_context ground_truth_answers answer ground_truth_context"
    ),
}
WITH_TRUTH: dict[str, dict[str, Any]] = {
    **{
        tool: dict(zip(names.split(), ("q", TWO, "r", "a", ["g"]), strict=True))
        for tool, names in COLUMNS.items()
    },
    "Haystack": {
        **{
            "questions": "q",
            "retrieved_documents": CONTENTS,
            "ground_truth_answers": "r",
            "predicted_answers": "a",
        },
        "ground_truth_documents": [{"content": "g"}],
    },
}
WITH_TRUTH["continuous-eval"]["ground_truth_answers"] = ["r"]
WITHOUT_TRUTH: dict[str, dict[str, Any]] = {
    "ragas 0.1": {"question": "q", "contexts": TWO, "ground_truth": "r", "answer": "a"},
    "older ragas": {"question": "q", "contexts": TWO, "ground_truths": ["r"], "answer": "a"},
    "RAGChecker": {"query": "q", "retrieved_context": TEXTS, "gt_answer": "r", "response": "a"},
    "promptfoo": {
        "vars": {"query": "q", "context": TWO, "expected": "r"},
        "response": {"output": "a"},
    },
    "autoevals": {"input": "q", "context": TWO, "expected": "r", "output": "a"},
    "Opik": {"input": "q", "context": TWO, "expected_output": "r", "output": "a"},
    "MLflow": {
        "inputs": QUESTION,
        "outputs": {"response": "a", "documents": TWO},
        "expectations": RIGHT,
    },
    "MLflow's texts": {
        "inputs": {"query": "q", "context": TWO},
        "outputs": "a",
        "expectations": RIGHT,
    },
    "LangSmith": {
        "inputs": QUESTION,
        "outputs": {"answer": "a", "documents": [{"page_content": text} for text in TWO]},
        "reference_outputs": {"answer": "r"},
    },
    "LangSmith's table": {
        **{
            "inputs.question": "q",
            "outputs.output": "a",
            "outputs.contexts": TWO,
            "reference.output": "r",
        },
        "feedback.correct": 1,
    },
    "Langfuse": {
        "input": QUESTION,
        "expectedOutput": "r",
        "output": {"answer": "a"},
        "metadata": {"contexts": TWO},
    },
    "RAGBench": {"question": "q", "documents": TWO, "response": "a", "ground_truth": "r"},
    "SQuAD": {
        "question": "q",
        "context": TWO,
        "prediction": "a",
        "answers": {"text": ["r", "r"], "answer_start": [1]},
    },
    "Haystack's GeneratedAnswer": {**ANSWER_OF_HAYSTACK, "reference": "r"},
    "a pipeline of Haystack": {
        "answer_builder": {"answers": [ANSWER_OF_HAYSTACK]},
        "reference": "r",
    },
    "LlamaIndex": {"query": "q", "response": "a", "reference": "r", "source_nodes": NODES},
    "LangChain's chain": {
        "query": "q",
        "result": "an answer",
        "source_documents": TWO,
        "reference": "r",
    },
    # `samples_df` of inspect_ai 0.3.285, written as Parquet.
    "inspect's table": {
        "input": "q",
        "metadata_contexts": '["one text", "two texts"]',
        "target": "r r",
        "output": "a",
    },
}


@pytest.mark.parametrize("tool", [*WITH_TRUTH, *WITHOUT_TRUTH])
def test_a_row_of_another_tool_is_the_same_sample(tool: str) -> None:
    own = {
        "LangChain's chain": {"response": "an answer"},
        "inspect's table": {"reference": "r r"},
    }.get(tool, {})
    if tool in WITH_TRUTH:
        assert only(WITH_TRUTH[tool]) == FULL
    else:
        assert only(WITHOUT_TRUTH[tool]) == BASE.model_copy(update=own)


@pytest.mark.parametrize(
    ("row", "field", "column"),
    [
        # LangSmith stores the reference in `outputs`, MLflow the response.
        ({"inputs": QUESTION, "outputs": {"answer": "a"}}, "response", None),
        (
            {"inputs": QUESTION, "outputs": {"answer": "a"}, "expectations": {}},
            "response",
            "outputs.answer",
        ),
        ({"query": "q", "data": "a", "documents": CONTENTS}, "response", "data"),
        ({"query": "q", "data": "a"}, "response", None),
        ({"query": "q", "result": "an answer"}, "response", "result"),
        ({"question": "q", "result": "failed"}, "response", None),
        ({"query": "q", "query_id": 7}, "id", "query_id"),
        ({"query": "q", "query_id": 7, "id": 8}, "id", "id"),
        ({"question": "q", "context": "c"}, "retrieved_contexts", "context"),
        (
            {"input": "q", "context": ["c"], "retrieval_context": "x"},
            "reference_contexts",
            "context",
        ),
        ({"input": "q", "context": ["c"], "expected_output": "x"}, "reference_contexts", "context"),
        (
            {"input": "q", "context": ["c"], "expected_output": "x", "output": "a"},
            "retrieved_contexts",
            "context",
        ),
        # Promptfoo writes {"response": {"output": "a"}}, others {"response": "a"}.
        ({"response": {"output": "a"}}, "response", "response.output"),
        ({"output": {"completion": "a", "model": "m"}}, "response", "output.completion"),
        # Many tools store the whole prompt with contexts under this name.
        ({"prompt": "Answer: q", "answer": "a"}, "user_input", None),
    ],
)
def test_the_meaning_of_a_column_depends_on_other_columns(
    row: dict[str, Any], field: str, column: str | None
) -> None:
    assert load([row]).mapping.get(field) == column


def test_the_shape_is_detected_for_the_whole_source() -> None:
    rows = [{"input": "q", "context": ["c"]}, {"input": "q", "expected_output": "x"}]
    assert load(rows).mapping["reference_contexts"] == "context"
    assert (
        load(rows, mapping={"reference": "expected_output"}).mapping["reference_contexts"]
        == "context"
    )


def test_equal_references_are_one() -> None:
    """SQuAD has one answer per annotator."""
    assert only({"question": "q", "answers": {"text": ["r", "r", "r"]}}).reference == "r"
    with pytest.raises(DataError, match=r"answers\.text: found 2 reference answers, expected one"):
        only({"question": "q", "answers": {"text": ["r", "s"]}})


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
        (
            [
                said("user", "Where?"),
                said("tool", "x"),
                *map(answer, (None, "I looked.", "There.", "")),
            ],
            TURN,
        ),
        (
            [said("user", [{"type": "text", "text": "a"}, {"type": "image_url"}, "b"])],
            ("a\nb", None),
        ),
        # A refusal of OpenAI's API stands in place of the content.
        ([said("user", "Where?"), {"role": "assistant", "refusal": "There."}], TURN),
        ([said("user", "Where?"), {**answer(None), "refusal": "There."}], TURN),
        ([said("user", "Where?"), answer([{"type": "refusal", "refusal": "There."}])], TURN),
        (
            [
                said("user", "Where?"),
                {"role": "assistant", "tool_calls": [{"id": "1"}]},
                said("tool", "x"),
                answer("There."),
            ],
            TURN,
        ),
    ],
)
def test_the_last_question_and_its_answer_are_the_turn(
    messages: list[Any], turn: tuple[str, str | None]
) -> None:
    (sample,) = load([{"user_input": messages}]).samples
    assert (sample.user_input, sample.response) == turn


def test_other_values_are_not_taken_for_conversations() -> None:
    for messages in (
        [],
        ["Where?"],
        [said("user", "a"), "b"],
        [{"role": "user"}],
        [said("critic", "a")],
    ):
        with pytest.raises(DataError, match=r"user_input: found an? (empty )?list"):
            load([{"user_input": messages, "contexts": ["a"]}])
    for message in (
        said("system", "a"),
        said("user", ""),
        said("user", None),
        said("doc", "a", "type"),
    ):
        with pytest.raises(DataError, match="user_input: found a list of 2"):
            load([{"user_input": [message, said("assistant", "b")], "contexts": ["a"]}])


TALK = [*EARLIER, said("user", "Where?"), said("assistant", "There.")]


@pytest.mark.parametrize(
    ("row", "mapping", "turn"),
    [
        *(
            ({column: TALK}, {}, ("Where?", "There.", 1))
            for column in ("user_input", "messages", "input", "question")
        ),
        # LangSmith's and MLflow's rows for chats.
        ({"inputs": {"messages": TALK}}, {}, ("Where?", "There.", 1)),
        ({"input": {"messages": TALK}}, {}, ("Where?", "There.", 1)),
        ({"user_input": TALK, "response": "Here."}, {}, ("Where?", "Here.", 1)),
        # Samples of inspect have both; the messages are the full conversation.
        ({"input": "Why?", "messages": TALK}, {}, ("Why?", None, 0)),
        ({"talk": TALK, "input": "x"}, {"user_input": "talk"}, ("Where?", "There.", 1)),
    ],
)
def test_a_conversation_fills_missing_fields(
    row: Any, mapping: dict[str, str], turn: tuple[Any, ...]
) -> None:
    data = load([{**row, "contexts": ["a b"]}], mapping=mapping)
    assert (data.samples[0].user_input, data.samples[0].response, data.conversations) == turn


PRINTED = {
    "JSON": json.dumps(TALK),
    "Python": str(TALK),
    "object in JSON": json.dumps({"messages": TALK}),
    "object in Python": str({"messages": TALK}),
    "printed twice": json.dumps(json.dumps(TALK)),
    "LangChain's keys": str([said("human", "Where?", "type"), said("ai", "There.", "type")]),
}


@pytest.mark.parametrize("form", PRINTED)
@pytest.mark.parametrize("column", ["messages", "input", "question"])
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_printed_conversation_is_read_like_the_list(
    tmp_path: Path, form: str, column: str, ending: str
) -> None:
    frame = pandas.DataFrame([{column: PRINTED[form], "contexts": "It is there."}])
    path = tmp_path / f"a.{ending}"
    if ending == "csv":
        frame.to_csv(path, index=False)
    elif ending == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_parquet(path)
    data = load(path)
    sample = data.samples[0]
    assert (sample.user_input, sample.response, data.conversations) == ("Where?", "There.", 1)


@pytest.mark.parametrize(
    "text",
    [
        "[HumanMessage(content='Where?'), AIMessage(content='There.')]",
        str([said("critic", "Where?"), said("assistant", "There.")]),
        json.dumps([{"from": "human", "value": "Where?"}, {"from": "gpt", "value": "There."}]),
        json.dumps(TALK)[:-5],
        "<|im_start|>user\nWhere?<|im_end|>\n<|im_start|>assistant\nThere.<|im_end|>",
        str([{"type": "human", "data": {"content": "Where?"}}, {"type": "ai", "data": {}}]),
        str([said("system", "Be brief.")]),
        "Human: Where?\nAI: There.",
        "**User:** Where?\n**Assistant:** There.",
        "messages=[HumanMessage(content='Where?'), AIMessage(content='There.')]",
        "[content='Where?' type='human', content='There.' type='ai']",
        json.dumps([["Where?", "There."]]),
        str([("Why?", "So."), ("Where?", None)]),
        "User: Where?\n\nAssistant: There.\nUser: Why?\nAssistant: So.",
        "<s>[INST] Where? [/INST] There. </s>",
        "<start_of_turn>user\nWhere?<end_of_turn>\n<start_of_turn>model\nThere.<end_of_turn>",
        "<|user|>\nWhere?<|end|>\n<|assistant|>\nThere.<|end|>",
        "### Human: Where?\n### Assistant: There.",
        "A chat with an assistant.\nUser: where is it\nAssistant: There.",
        "User: Where is it? Assistant: There.",
        "Customer: Where is it?\nAgent: There.",
        "Nutzer: Wo ist es?\nAssistent: Dort.",
        "Kundin: Wo ist es?\nMitarbeiter: Dort.",
        "**Utilisateur :** Où est-ce ?\n**Assistant :** Là.",
        "Usuario: ¿Dónde está?\nAsistente: Allí.",
        "Пользователь: Где это?\nАссистент: Там.",
        "用户：在哪里？\n助手：在那里。",
        "ユーザー：どこですか？\nアシスタント：そこです。",
        "المستخدم: أين هو؟\nالمساعد: هناك.",
        "کاربر: کجاست؟\nدستیار: آنجا.",
        "उपयोगकर्ता: यह कहाँ है?\nसहायक: वहाँ।",
    ],
)
def test_a_printed_conversation_that_cannot_be_read_is_refused(text: str) -> None:
    """As a question, it would contain the answer."""
    for column in ("messages", "question"):
        with pytest.raises(DataError, match=rf"{column}: .*conversation"):
            load([{column: text, "answer": "There.", "contexts": ["It is there."]}])


@pytest.mark.parametrize("form", [answer("There."), [answer("There.")], TALK])
@pytest.mark.parametrize("column", ["output", "completion", "expected_output"])
def test_an_answer_that_is_a_message_is_read(tmp_path: Path, form: Any, column: str) -> None:
    """Langfuse keeps the output as a message; TRL the completion as a list of messages."""
    path = tmp_path / "a.csv"
    for printed in (json.dumps(form), str(form)):
        pandas.DataFrame([{"input": "Where?", column: printed}]).to_csv(path, index=False)
        for data in (load(path), load([{"input": "Where?", column: form}])):
            sample = data.samples[0]
            assert (sample.reference or sample.response) == "There."


def test_an_answer_that_mentions_a_message_is_text() -> None:
    for text in ('{"role": "assistant"}', '{"role": "editor", "content": "x"}', '[{"a": 1}]'):
        assert load([{"question": "q", "answer": text}]).samples[0].response == text


def test_the_hint_for_a_printed_conversation_reads_its_first_text() -> None:
    talk = [{"from": "human", "value": "Where is it?"}, {"from": "gpt", "value": "There."}]
    row = {"question": json.dumps(talk), "answer": "There."}
    with pytest.raises(DataError, match=r"question\.0\.value"):
        load([row])
    data = load([row], mapping={"user_input": "question.0.value"})
    assert data.samples[0].user_input == "Where is it?"
    pairs = {"question": json.dumps([["Where is it?", "There."]]), "answer": "There."}
    with pytest.raises(DataError, match=r"question\.0\.0"):
        load([pairs])
    parts = {"question": json.dumps([{"role": "user", "parts": [{"text": "Where is it?"}]}])}
    with pytest.raises(DataError, match=r"question\.0\.parts\.0\.text"):
        load([parts])


@pytest.mark.parametrize(
    "question",
    [
        '["a", "b"]: what is this?',
        '{"price": 5}',
        "[1, 2, 3]",
        "What is the role: user or admin?",
        "(Message in a bottle) Who sang it?",
        "User: who may read it?",
        "Human: a word of Latin origin?\nWhat is its stem?",
        "Client: Acme Corporation\nAgent: Ann Smith\nWhen does the contract end?",
        "Which model: A or B? Agent 7 asked.",
        "User: write a poem.\nAssistant:",
        "What do <|user|> and <|assistant|> mean?",
        '["a", "b"]',
        "[[1, 2], [3, 4]]",
    ],
)
def test_a_question_with_other_colons_or_brackets_is_text(question: str) -> None:
    data = load([{"question": question, "contexts": ["a b"]}])
    assert (data.samples[0].user_input, data.conversations) == (question, 0)


@pytest.mark.parametrize(
    "line", ["User: why?\n", "User: ", "?\n", "Why? \n Bot:", "User:\n" + " " * 50]
)
def test_a_long_text_is_searched_for_a_dialogue_once(line: str) -> None:
    (sample,) = load([{"question": line * 100_000}]).samples
    assert sample.user_input == line * 100_000


def test_a_node_of_a_newer_llama_index_is_read() -> None:
    resource = {"embeddings": None, "text": "a b", "path": None}
    document = {"id_": "d1", "metadata": {"page": 1}, "text_resource": resource}
    for value in (
        document,
        {**document, "class_name": "Document"},
        {"node": document, "score": 0.5},
        {"id": "d1", "metadata": {"page": 1}, "text_resource": resource},
        {"node": {**document, "class_name": "Node"}, "score": 0.5, "class_name": "NodeWithScore"},
    ):
        sample = load([{"question": "q", "contexts": [value]}]).samples[0]
        (context,) = sample.retrieved_contexts or ()
        assert (context.text, context.id, context.meta) == ("a b", "d1", {"page": 1})


@pytest.mark.parametrize("column", ["source_nodes", "documents", "retrieved_contexts"])
def test_nodes_of_llama_index_are_found_by_the_name_of_their_column(column: str) -> None:
    node = {"node": {"text_resource": {"text": "a b"}}, "score": 0.3}
    (context,) = load([{"question": "q", column: [node]}]).samples[0].retrieved_contexts or ()
    assert context.text == "a b"


@pytest.mark.parametrize(
    ("response", "path"),
    [
        (["There."], "response.0"),
        ([{"message": {"role": "assistant", "content": "There."}}], "response.0.message.content"),
        ([{"type": "output_text", "text": "There."}], "response.0.text"),
    ],
)
def test_one_row_whose_response_is_a_list_is_refused_for_its_response(
    tmp_path: Path, response: list[Any], path: str
) -> None:
    """The hint names the first text of the list."""
    file = tmp_path / "a.jsonl"
    row = {"question": "Where?", "contexts": ["a", "b"], "response": response}
    for text in (json.dumps(row), json.dumps([row])):
        file.write_text(text)
        with pytest.raises(DataError, match=r"response: found a list of 1.*mapping") as caught:
            load(file)
        assert repr(path) in str(caught.value)
        assert load(file, mapping={"response": path}).samples[0].response == "There."


def test_one_row_whose_question_is_a_list_is_refused_for_its_question(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"question": ["Where?"], "answer": "There."}))
    with pytest.raises(DataError, match="question: found a list of 1"):
        load(path)
