"""The example as objects of other packages, made by their own constructors."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.example import EXAMPLE

os.environ |= {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_OFFLINE": "1",
    "RAGAS_DO_NOT_TRACK": "true",
}


def require(module: str) -> Any:
    return pytest.importorskip(
        module, reason="NOT CHECKED: needs the packages of the extra peers: CONTRIBUTING.md"
    )


def ragas_dataset() -> Any:
    from ragas import EvaluationDataset, SingleTurnSample

    return EvaluationDataset([SingleTurnSample(**row) for row in EXAMPLE])


def deepeval_cases() -> list[Any]:
    from deepeval.test_case import LLMTestCase

    return [
        LLMTestCase(
            input=row["user_input"],
            actual_output=row["response"],
            expected_output=row["reference"],
            retrieval_context=row["retrieved_contexts"],
        )
        for row in EXAMPLE
    ]


def deepeval_dataset() -> Any:
    from deepeval.dataset import EvaluationDataset

    data = EvaluationDataset()
    for case in deepeval_cases():
        data.add_test_case(case)
    return data


def haystack_documents(row: Mapping[str, Any]) -> list[Any]:
    from haystack import Document

    texts = row["retrieved_contexts"]
    return [
        Document(content=text, meta={"page": page}, score=0.5) for page, text in enumerate(texts)
    ]


def haystack_answers() -> list[Any]:
    """Return the example as Haystack answers, which have no reference."""
    from haystack import GeneratedAnswer

    return [
        GeneratedAnswer(
            data=row["response"],
            query=row["user_input"],
            documents=haystack_documents(row),
            meta={},
        )
        for row in EXAMPLE
    ]


def langchain_rows() -> list[dict[str, Any]]:
    from langchain_core.documents import Document

    return [
        {
            "input": row["user_input"],
            "context": [
                Document(page_content=text, metadata={"page": 1})
                for text in row["retrieved_contexts"]
            ],
            "answer": row["response"],
            "ground_truth": row["reference"],
        }
        for row in EXAMPLE
    ]


def llama_index_rows() -> list[dict[str, Any]]:
    from llama_index.core.base.response.schema import Response
    from llama_index.core.schema import NodeWithScore, TextNode

    rows = []
    for row in EXAMPLE:
        texts = enumerate(row["retrieved_contexts"])
        nodes = [
            NodeWithScore(
                node=TextNode(text=text, id_=f"n{place}", metadata={"page": place}), score=0.5
            )
            for place, text in texts
        ]
        response = Response(response=row["response"], source_nodes=nodes)
        rows.append({"query": row["user_input"], "reference": row["reference"], **vars(response)})
    return rows


def inspect_log(folder: Path, epochs: int = 1) -> Path:
    """Return an Inspect log of the example. Its solver gives the answers without a model."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput
    from inspect_ai.solver import Generate, Solver, TaskState, solver

    answers = {row["user_input"]: row["response"] for row in EXAMPLE}

    @solver  # type: ignore[untyped-decorator]
    def given() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            state.output = ModelOutput.from_content("mockllm/model", answers[state.input_text])
            return state

        return solve

    samples = [
        Sample(
            id=f"s{number}",
            input=row["user_input"],
            target=row["reference"],
            metadata={"contexts": row["retrieved_contexts"]},
        )
        for number, row in enumerate(EXAMPLE, 1)
    ]
    task = Task(dataset=MemoryDataset(samples), solver=given(), epochs=epochs)
    (log,) = eval(
        task,
        model="mockllm/model",
        log_dir=str(folder / "logs"),
        log_format="eval",
        display="none",
    )
    return Path(log.location)
