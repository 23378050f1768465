from collections.abc import Callable
from typing import Any

import pytest

import localjudge
from localjudge import InputError
from tests.integrations.example import EXAMPLE, SCORES

haystack: Any = pytest.importorskip("haystack")
pytestmark = pytest.mark.filterwarnings("ignore")  # theirs

INPUTS: dict[str, list[Any]] = {
    "questions": [row["user_input"] for row in EXAMPLE],
    "contexts": [row["retrieved_contexts"] for row in EXAMPLE],
    "predicted_answers": [row["response"] for row in EXAMPLE],
    "ground_truth_answers": [row["reference"] for row in EXAMPLE],
}
TRUSTED = ["localjudge.integrations.haystack"]
Evaluator = Callable[..., Any]


@pytest.fixture
def evaluator() -> Evaluator:
    from localjudge.integrations.haystack import LocaljudgeEvaluator

    return LocaljudgeEvaluator


def make_pipeline(component: Any) -> Any:
    pipeline = haystack.Pipeline()
    pipeline.add_component("localjudge", component)
    return pipeline


@pytest.mark.engine
def test_a_serialised_pipeline_gives_the_scores_of_the_example(evaluator: Evaluator) -> None:
    from haystack.evaluation import EvaluationRunResult

    written = make_pipeline(evaluator([*SCORES])).dumps()
    pipeline = haystack.Pipeline.loads(written, allowed_modules=TRUSTED)
    assert pipeline.dumps() == written
    outputs = pipeline.run({"localjudge": INPUTS})["localjudge"]
    report: Any = EvaluationRunResult("example", INPUTS, outputs)
    aggregated = report.aggregated_report()
    assert dict(zip(aggregated["metrics"], aggregated["score"], strict=True)) == pytest.approx(
        SCORES
    )
    assert report.detailed_report()["context_recall"] == [1, 0.5]
    pipeline.get_component("localjudge").close()


def test_results_are_the_rows_of_a_run(evaluator: Evaluator, judge: localjudge.Judge) -> None:
    outputs = make_pipeline(evaluator(["faithfulness"], judge=judge)).run({"localjudge": INPUTS})
    output = outputs["localjudge"]["faithfulness"]
    assert output["individual_scores"] == [1, pytest.approx(2 / 3)]
    assert output["score"] == pytest.approx((1 + 2 / 3) / 2)
    assert 0 < output["ci95"][0] < output["score"] < output["ci95"][1] < 1
    of_each = [0.9, pytest.approx((0.9 + 0.1 + 0.9) / 3)]
    assert [row["expected"] for row in output["results"]] == of_each
    assert output["expected"] == pytest.approx((0.9 + 1.9 / 3) / 2)
    assert 0 < output["expected_ci95"][0] < output["expected"] < output["expected_ci95"][1] < 1
    second = output["results"][1]
    assert {"status": "scored", "numerator": 2, "denominator": 3}.items() <= second.items()
    assert {"text": "It is blue.", "label": 0, "p_yes": 0.1}.items() <= second["verdicts"][
        1
    ].items()
    [evidence, *_] = second["verdicts"][0]["evidence"]
    assert evidence["text"] in EXAMPLE[1]["retrieved_contexts"][evidence["context"]]
    assert evidence["supports"] is True


def test_results_have_no_evidence_if_it_is_left_out(evaluator: Evaluator) -> None:
    engine = localjudge.ScriptedEngine({}, default=0.9)
    with localjudge.Judge.open(engine=engine, no_evidence=True) as judge:
        pipeline = make_pipeline(evaluator(["faithfulness"], judge=judge))
        output = pipeline.run({"localjudge": INPUTS})["localjudge"]["faithfulness"]
    assert [each["evidence"] for row in output["results"] for each in row["verdicts"]] == [[]] * 5


@pytest.mark.engine
def test_a_list_of_judges_gives_the_verdict_of_a_run_by_both(evaluator: Evaluator) -> None:
    row = {"response": "It is blue.", "retrieved_contexts": ["The river is blue."]}
    judges = ["lexical", "reader"]
    component = evaluator(["faithfulness"], judge=judges, threshold=0.4)
    outputs = component.run(
        predicted_answers=[row["response"]], contexts=[row["retrieved_contexts"]]
    )
    component.close()
    [verdict] = outputs["faithfulness"]["results"][0]["verdicts"]
    run = localjudge.evaluate(
        [row], judge=judges, metrics=["faithfulness"], threshold=0.4, out=False
    )
    [expected] = run.verdicts
    assert set(verdict["judges"]) == set(judges)
    assert (verdict["judges"], verdict["p_yes"], verdict["label"]) == (
        expected.judges,
        expected.p_yes,
        expected.label,
    )


@pytest.mark.engine
def test_the_same_judge_twice_is_refused(evaluator: Evaluator) -> None:
    with pytest.raises(InputError):
        evaluator(["faithfulness"], judge=["lexical", "lexical"]).warm_up()


def test_outputs_of_other_components_are_inputs(
    evaluator: Evaluator, judge: localjudge.Judge
) -> None:
    outputs = {"found": list[list[haystack.Document]], "answers": list[str]}

    @haystack.component
    class Retrieved:
        @haystack.component.output_types(**outputs)  # type: ignore[untyped-decorator]
        def run(self) -> dict[str, Any]:
            documents = [haystack.Document(content="It rains.", id="a")]
            return {"found": [documents], "answers": ["It rains. It is blue."]}

    metrics = ["faithfulness", "document_recall_multi_hit(compare_by=id)"]
    pipeline = make_pipeline(evaluator(metrics, judge=judge))
    pipeline.add_component("retrieved", Retrieved())
    pipeline.connect("retrieved.found", "localjudge.contexts")
    pipeline.connect("retrieved.answers", "localjudge.predicted_answers")
    truths = [
        haystack.Document(content="It rained.", id="a"),
        haystack.Document(content="It snows.", id="b"),
    ]
    outputs = pipeline.run({"localjudge": {"ground_truth_documents": [truths]}})["localjudge"]
    assert {name: output["score"] for name, output in outputs.items()} == {
        metrics[0]: 0.5,
        metrics[1]: 0.5,
    }


def test_only_inputs_that_a_metric_needs_are_mandatory(
    evaluator: Evaluator, judge: localjudge.Judge
) -> None:
    inputs = make_pipeline(evaluator(["faithfulness"], judge=judge)).inputs()["localjudge"]
    assert {name for name, socket in inputs.items() if socket["is_mandatory"]} == {
        "contexts",
        "predicted_answers",
    }
    assert set(inputs) == {*INPUTS, "ground_truth_documents"}


@pytest.mark.parametrize(
    ("answer", "counts", "score"),
    [("", {"undefined": 1}, "1.0"), ("It fails.", {"failed": 1}, "nan")],
)
def test_a_sample_without_a_score_is_not_a_number(
    evaluator: Evaluator,
    judge: localjudge.Judge,
    answer: str,
    counts: dict[str, int],
    score: str,
) -> None:
    from haystack.evaluation import EvaluationRunResult

    inputs: dict[str, list[Any]] = {
        "contexts": [["Rain."]] * 2,
        "predicted_answers": ["It rains.", answer],
    }
    outputs = evaluator(["faithfulness"], judge=judge).run(**inputs)
    output = outputs["faithfulness"]
    assert counts.items() <= output.items()
    assert (str(output["individual_scores"]), str(output["score"])) == ("[1.0, nan]", score)
    assert (str(output["expected"]) == "nan") == (score == "nan")
    second = output["results"][1]
    assert [verdict["error"] for verdict in second["verdicts"]] == ["out of words"] * counts.get(
        "failed", 0
    )
    result: Any = EvaluationRunResult("today", inputs, outputs)
    assert str(result.detailed_report()["faithfulness"]) == "[1.0, nan]"
    assert str(result.aggregated_report()["score"]) == f"[{score}]"


def test_options_are_written_as_values(evaluator: Evaluator, tmp_path: Any) -> None:
    """A criterion is written out in full, so the file is complete; its metric is an output."""
    kind = localjudge.Criterion(name="kind", question="Is it kind?", of="sentence")
    component = evaluator(["faithfulness", kind], judge=tmp_path / "model.gguf", threshold=0.7)
    assert component.to_dict()["init_parameters"] == {
        "metrics": ["faithfulness", {"name": "kind", "question": "Is it kind?", "of": "sentence"}],
        "judge": str(tmp_path / "model.gguf"),
        "threshold": 0.7,
    }
    again = haystack.default_from_dict(type(component), component.to_dict())
    assert again.to_dict() == component.to_dict()
    assert set(make_pipeline(again).outputs()["localjudge"]) == {"faithfulness", "kind"}


def test_mistakes_are_refused(evaluator: Evaluator, judge: localjudge.Judge) -> None:
    with pytest.raises(InputError, match="faithfulnes"):
        evaluator(["faithfulnes"])
    with pytest.raises(InputError, match="limit"):
        evaluator(["faithfulness"], limit=3)
    with pytest.raises(InputError, match="threshold"):
        evaluator(["faithfulness"], judge=judge, threshold=0.7)
    with pytest.raises(InputError):
        make_pipeline(evaluator(["faithfulness"], judge=judge)).dumps()
    with pytest.raises(InputError, match="contexts 1, predicted_answers 2"):
        evaluator(["faithfulness"], judge=judge).run(
            contexts=[["Rain."]], predicted_answers=["a", "b"]
        )


def test_closing_the_pipeline_leaves_a_passed_judge_open(
    evaluator: Evaluator, judge: localjudge.Judge
) -> None:
    component = evaluator(["faithfulness"], judge=judge)
    for call in (component.warm_up, component.warm_up, component.close, component.close):
        call()
    row = {"retrieved_contexts": ["Rain."], "response": "It rains."}
    assert judge.evaluate([row], ["faithfulness"]).scores[0].score == 1
