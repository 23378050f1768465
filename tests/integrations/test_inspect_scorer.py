import gc
import math
from pathlib import Path
from typing import Any

import pytest

import localjudge
from tests.integrations import peers
from tests.integrations.example import EXAMPLE, SCORES

peers.require("inspect_ai")
pytestmark = pytest.mark.filterwarnings("ignore")  # theirs


@pytest.fixture
def log(tmp_path: Path) -> Any:
    from inspect_ai.log import read_eval_log

    return read_eval_log(str(peers.inspect_log(tmp_path)))


def scored_by(log: Any, metrics: list[str], **options: Any) -> Any:
    from inspect_ai import score

    from localjudge.integrations.inspect_ai import localjudge_scorer

    return score(log, localjudge_scorer(metrics, **options), display="none")


def means(log: Any) -> dict[str, float]:
    return {score.name: score.metrics["mean"].value for score in log.results.scores}


@pytest.mark.engine
def test_the_lexical_judge_gives_the_scores_of_the_example(log: Any) -> None:
    """The log names the scorer, so Inspect can score again by that name."""
    scored = scored_by(log, [*SCORES])
    assert means(scored) == pytest.approx(SCORES)
    [scorer] = scored.eval.scorers
    assert scorer.options["metrics"] == [*SCORES]


@pytest.mark.engine
def test_the_judge_that_a_scorer_opened_is_closed_with_it(
    log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[localjudge.Judge] = []
    open_judge = localjudge.Judge.open

    def recorded(name: str, **options: Any) -> localjudge.Judge:
        opened.append(open_judge(name, **options))
        return opened[-1]

    monkeypatch.setattr(localjudge.Judge, "open", recorded)
    scored_by(log, ["faithfulness"])
    gc.collect()
    with pytest.raises(localjudge.InputError, match="closed"):
        opened[0].evaluate(EXAMPLE, ["faithfulness"], out=False)
    with open_judge("lexical") as open_model:
        scored_by(log, ["faithfulness"], judge=open_model)
        gc.collect()
        assert open_model.evaluate(EXAMPLE, ["faithfulness"], out=False)


def test_a_task_is_scored_while_it_runs(judge: localjudge.Judge, tmp_path: Path) -> None:
    """The solver puts contexts under another name; two epochs; faithfulness 2/2 and 2/3."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.log import read_eval_log
    from inspect_ai.model import ModelOutput
    from inspect_ai.solver import Generate, Solver, TaskState, solver

    from localjudge.integrations.inspect_ai import localjudge_scorer

    rows = {row["user_input"]: row for row in EXAMPLE}

    @solver  # type: ignore[untyped-decorator]
    def answered() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            row = rows[state.input_text]
            state.metadata["passages"] = row["retrieved_contexts"]
            state.output = ModelOutput.from_content("mockllm/model", row["response"])
            return state

        return solve

    samples = [Sample(input=row["user_input"], target=row["reference"]) for row in EXAMPLE]
    scorer = localjudge_scorer(["context_recall", "faithfulness"], judge=judge, contexts="passages")
    task = Task(dataset=MemoryDataset(samples), solver=answered(), scorer=scorer, epochs=2)
    [log] = eval(task, model="mockllm/model", log_dir=str(tmp_path), display="none")
    assert log.status == "success"
    assert means(log) == pytest.approx({"context_recall": 0.75, "faithfulness": 5 / 6})
    [score] = read_eval_log(log.location).samples[1].scores.values()
    assert score.explanation == (
        "context_recall: 1/2 = 0.500, expected 0.550\n  0 0.200 It flows through ten countries.\n"
        "faithfulness: 2/3 = 0.667, expected 0.633\n  0 0.100 It is blue."
    )
    expected = {"context_recall": (0.9 + 0.2) / 2, "faithfulness": (0.9 + 0.1 + 0.9) / 3}
    assert score.metadata["expected"] == pytest.approx(expected)
    verdicts = score.metadata["verdicts"]
    assert [verdict["label"] for verdict in verdicts] == [1, 0, 1, 0, 1]
    contexts = EXAMPLE[1]["retrieved_contexts"]
    for verdict in verdicts:
        for row in verdict["evidence"]:
            assert contexts[row["context"]][row["start"] : row["end"]] == row["text"]
    assert verdicts[0]["evidence"][0]["supports"] is True


def test_samples_without_a_score_are_unscored_with_a_reason(
    judge: localjudge.Judge, log: Any
) -> None:
    from inspect_ai.model import ModelOutput

    for sample, answer in zip(log.samples, ["", "It fails."], strict=True):
        sample.output = ModelOutput.from_content("mockllm/model", answer)
    scored = scored_by(log, ["context_recall", "faithfulness"], judge=judge)
    [first, second] = [next(iter(sample.scores.values())) for sample in scored.samples]
    assert first.value["context_recall"] == 1
    assert math.isnan(first.value["faithfulness"])
    assert "faithfulness: undefined: " in first.explanation
    assert (
        "faithfulness: failed: no verdict for 1 of 1 units: out of words\n  out of words It fails."
        in second.explanation
    )
    assert [score.unscored_samples for score in scored.results.scores] == [0, 2]
    assert str(means(scored)) == "{'context_recall': 0.75, 'faithfulness': nan}"


def test_explanations_show_yes_answers_where_lower_is_better(log: Any) -> None:
    script = {EXAMPLE[0]["response"]: 0.9, "The tower is made of wrought iron.": 0.9}
    with localjudge.Judge.open(engine=localjudge.ScriptedEngine(script, default=0.1)) as judge:
        scored = scored_by(log, ["refusal"], judge=judge)
    lines = [
        next(iter(sample.scores.values())).explanation.splitlines() for sample in scored.samples
    ]
    assert lines[0][1].startswith("  1 0.900 The tower is made of wrought iron.")
    assert len(lines[1]) == 1


def test_scorer_and_log_reader_agree_on_a_conversation(log: Any, tmp_path: Path) -> None:
    from inspect_ai.log import write_eval_log
    from inspect_ai.model import ChatMessageUser, ContentText

    path = str(tmp_path / "several.json")
    question = [ContentText(text="Where does"), ContentText(text="it rise?")]
    asked: list[str] = []

    def script(request: Any) -> float:
        asked.append("".join(piece.text for node in request.path for piece in node))
        return 0.9

    with localjudge.Judge.open(engine=localjudge.ScriptedEngine(script)) as reading:
        for sample in log.samples:
            sample.input = [ChatMessageUser(content=question)]
            sample.target = ["It is so.", "It is so."]
        write_eval_log(log, path)
        scores = [row.score for row in reading.evaluate(path, ["context_recall"], out=False).scores]
        scored = scored_by(log, ["context_recall"], judge=reading)
    assert [
        one.value["context_recall"] for sample in scored.samples for one in sample.scores.values()
    ] == scores
    assert all("Where does\nit rise?" in prompt for prompt in asked)


def test_a_sample_that_cannot_be_judged_is_nan_with_its_reason(
    judge: localjudge.Judge, log: Any
) -> None:
    from inspect_ai.model import ModelOutput

    [first, second] = log.samples
    first.target = ["Paris is the capital", "The capital is called Paris"]
    del second.metadata["contexts"]
    third = second.model_copy(update={"id": "third", "metadata": {"contexts": 3}}, deep=True)
    third.output = ModelOutput.from_content("mockllm/model", "It is so.")
    log.samples.append(third)
    scored = scored_by(log, ["context_recall", "faithfulness"], judge=judge)
    assert scored.status == "success"
    scores = [next(iter(sample.scores.values())) for sample in scored.samples]
    assert [math.isnan(score.value["context_recall"]) for score in scores] == [True, True, True]
    assert [math.isnan(score.value["faithfulness"]) for score in scores] == [False, True, True]
    reasons = (
        "no reference: the sample has 2 different targets",
        "no contexts: the metadata",
        "found a number (3)",
    )
    for score, reason in zip(scores, reasons, strict=True):
        assert reason in score.explanation
