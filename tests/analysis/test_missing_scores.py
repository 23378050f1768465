"""Reasons of missing scores are grouped by their fixed part, counted, and answered."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import printed, printed_lines

from localjudge import Metric, Run, Sample, ScriptedEngine, evaluate
from localjudge.metrics import Steps, Undefined


class Gives:
    """A metric that gives the response as its reason."""

    name = "gives"
    version = 1
    required_fields = frozenset({"response"})

    def steps(self, sample: Sample, sentences: object) -> Steps:
        """Ask nothing."""
        yield from ()
        return Undefined(reason=sample.response or "")


def judge_texts(*texts: str, out: Path) -> Run:
    rows = [{"id": f"id {n}", "response": text} for n, text in enumerate(texts)]
    metric: Metric = Gives()
    return evaluate(rows, metrics=[metric], engine=ScriptedEngine({}), out=out)


def missing_scores(run: Run) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = json.loads(printed("show", run, "--json"))["missing_scores"]
    return groups


def test_numbers_quoted_texts_and_ids_do_not_distinguish_reasons(tmp_path: Path) -> None:
    """3 + 2 + 1 reasons. An apostrophe within a word quotes nothing."""
    texts = ["no room for 5 of 12.5", "no room for 1,000 of 7", "no room for 3 of 1"]
    texts += ["the judge's text 'it is' broke", "the judge's text \"it's\" broke"]
    run = judge_texts(*texts, "sample id 5: the judge's place, the user's", out=tmp_path / "run")
    assert [(group["count"], group["reason"]) for group in missing_scores(run)] == [
        (3, "no room for 5 of 12.5"),
        (2, "the judge's text 'it is' broke"),
        (1, "the judge's place, the user's"),
    ]


MAP = "fill it in, or name its column with --map {}=COLUMN"


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("there is no question", MAP.format("user_input")),
        ("user_input is null and response is null", MAP.format("user_input")),
        ("reference_contexts is null", MAP.format("reference_contexts")),
        ("the reference has no sentence", MAP.format("reference")),
        ("there is no response", MAP.format("response")),
        (
            "retrieved_contexts has ids and no texts",
            "store the texts, too, or name their column with --map retrieved_contexts=COLUMN",
        ),
        ("the contexts have no chunk", "check why the retriever found no text"),
        ("it broke: value is null", None),
        ("the contexts suffice: answered", None),
        ("12 tokens, and 8 fit (ask for a larger context with n_ctx)", None),
    ],
)
def test_a_reason_has_advice_where_there_is_something_to_do(
    tmp_path: Path, reason: str, advice: str | None
) -> None:
    run = judge_texts(reason, out=tmp_path / "run")
    [group] = missing_scores(run)
    assert group.get("advice") == advice
    words = f"gives: 1 undefined: {reason}{f' ({advice})' if advice else ''}"
    assert words in printed_lines("show", run, width=400)


def test_reasons_of_built_in_metrics_and_of_the_engine_have_advice(tmp_path: Path) -> None:
    row: dict[str, Any] = {
        "user_input": "Q?",
        "retrieved_contexts": ["Rain."],
        "reference": "Rain.",
        "response": "Rain [1].",
    }
    changes: list[dict[str, Any]] = [
        {"user_input": " "},
        {"retrieved_contexts": [" "]},
        {"reference": "."},
        {"response": "."},
    ]
    rows = [
        {**row, "id": str(n), **change}
        for n, change in enumerate([*changes, {"response": "Rain."}])
    ]
    names = [
        "context_relevancy_chunk",
        "context_precision",
        "faithfulness",
        "context_recall",
        "citation_validity",
    ]
    names += [
        "answer_correctness",
        "noise_sensitivity",
        "abstention",
        "matrix_recall",
        "context_relevancy",
    ]
    groups = missing_scores(
        evaluate(rows, metrics=names, engine=ScriptedEngine({}, default=1.0), out=tmp_path / "run"),
    )
    assert {group["metric"] for group in groups} == set(names)
    assert all(group["advice"] and group["status"] == "undefined" for group in groups), groups
