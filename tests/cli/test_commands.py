import json
from collections.abc import Callable
from pathlib import Path

import pytest

from localjudge import ScriptedEngine, evaluate
from localjudge.metrics import catalog
from tests.cli.conftest import Call


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = [
        {
            "id": "a",
            "user_input": "Q?",
            "retrieved_contexts": ["Rain."],
            "reference": "It rains. It is red.",
        },
        {"id": "b", "user_input": "Q?", "retrieved_contexts": ["Rain."], "reference": "It rains."},
    ]
    out = tmp_path_factory.mktemp("run")
    engine = ScriptedEngine({"It is red.": 0.1}, default=0.9)
    evaluate(rows, engine=engine, metrics=["context_recall", "context_relevancy"], out=out)
    return str(out)


def test_show_gives_table_and_worst_samples(directory: str, call: Call) -> None:
    code, printed, errors = call("show", directory)
    assert (code, errors) == (0, "")
    assert ["context_recall", "0.750"] in [line.split()[:2] for line in printed.splitlines()]
    assert ["1", "a", "0.500", "context_recall", "Q?"] in [
        line.split() for line in printed.splitlines()
    ]


def test_show_one_sample_with_its_prompts(directory: str, output: Callable[..., str]) -> None:
    printed = output("show", directory, "a", "--metrics", "context_recall", "--prompts")
    assert "context_recall 1/2 = 0.500" in printed
    assert "prompt 2 of 2" in printed
    assert "context_relevancy" not in printed


def test_prompts_are_of_one_sample_also_as_json(directory: str, call: Call) -> None:
    """Its reference has two sentences, so two prompts; relevancy asks about one context."""
    code, printed, errors = call("show", directory, "--prompts")
    assert (code, printed) == (1, "")
    assert "SAMPLE" in errors
    said = json.loads(call("show", directory, "a", "--prompts", "--json")[1])
    assert {metric: len(prompts) for metric, prompts in said["prompts"].items()} == {
        "context_recall": 2,
        "context_relevancy": 1,
    }
    assert all("It rains." in prompt for prompt in said["prompts"]["context_recall"][:1])
    assert "prompts" not in json.loads(call("show", directory, "a", "--json")[1])


def test_show_as_json(directory: str, output: Callable[..., str]) -> None:
    whole = json.loads(output("show", directory, "--json"))
    assert [row["sample_id"] for row in whole["worst"]] == ["a"]
    one = json.loads(output("show", directory, "a", "--json"))
    assert one["sample"]["reference"] == "It rains. It is red."
    assert [row["label"] for row in one["verdicts"]] == [1, 0, 1]


def test_reasons_of_missing_scores_are_in_every_view(
    tmp_path: Path, call: Call, output: Callable[..., str]
) -> None:
    """The question of one of two samples is blank: one metric is undefined for it, one is not."""
    row = {"user_input": "Q?", "retrieved_contexts": ["Rain."], "reference": "It rains."}
    rows = [{**row, "id": "a"}, {**row, "id": "b", "user_input": " "}]
    metrics = ["context_recall", "context_relevancy"]
    directory = str(tmp_path / "run")
    evaluate(rows, engine=ScriptedEngine({}, default=0.9), metrics=metrics, out=directory)
    advice = "fill it in, or name its column with --map user_input=COLUMN"
    line = f"context_relevancy: 1 undefined: there is no question ({advice})"
    assert line in " ".join(output("show", directory).split())
    assert "undefined: " not in output("show", directory, "--metrics", "context_recall")
    group = {"metric": "context_relevancy", "status": "undefined", "count": 1}
    group |= {"reason": "there is no question", "advice": advice}
    assert json.loads(output("show", directory, "--json"))["missing_scores"] == [group]
    assert (
        json.loads(output("show", directory, "--metrics", "context_recall", "--json"))[
            "missing_scores"
        ]
        == []
    )
    output("report", directory)
    first_screen = Path(directory, "report.html").read_text().partition('id="samples"')[0]
    assert f"<li><bdi>{line}</bdi></li>" in first_screen


def test_export_to_standard_output_and_to_a_file(directory: str, call: Call) -> None:
    code, printed, errors = call("export", directory, "--format", "jsonl")
    assert (code, errors) == (0, "")
    said = json.loads(
        call("export", directory, "--format", "jsonl", "--out", "out.jsonl", "--json")[1]
    )
    assert Path("out.jsonl").read_text() == printed
    assert said == {"file": "out.jsonl", "format": "jsonl", "bytes": len(printed.encode())}
    code, printed, errors = call("export", directory, "--format", "jsonl", "--json")
    assert (code, printed) == (1, "")
    assert "--out" in errors


def test_every_metric_is_listed_with_its_options(call: Call) -> None:
    code, printed, _ = call("run", "--list-metrics")
    assert all(f" {name}" in printed for name in catalog.names())
    assert "options   mode=f1|precision|recall" in printed
    printed = call("run", "--list-metrics", "--json")[1]
    metrics = {metric["name"]: metric for metric in json.loads(printed)}
    assert code == 0
    assert list(metrics) == list(catalog.names())
    assert metrics["context_recall"]["default_metrics"]
    assert not metrics["context_relevancy"]["default_metrics"]
    assert metrics["abstention"]["instructions"]
    assert metrics["abstention"]["options"] == {"mode": ["right", "over_refused", "made_up"]}
    assert metrics["refusal"]["lower_is_better"]
    assert metrics["context_recall"]["about"]["unit"] == "sentences of the reference"
    for metric in metrics.values():
        assert all({**metric["about"], "counted": "may be missing"}.values()), metric["name"]
