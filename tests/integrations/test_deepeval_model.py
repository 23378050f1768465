"""DeepEval's own metrics, decided by our judge. No language model is used."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import localjudge
from localjudge import InputError
from tests.integrations import peers

peers.require("deepeval")
pytestmark = pytest.mark.filterwarnings("ignore")  # theirs

Opened = Callable[..., Any]


def asked(request: Any) -> str:
    return "".join(piece.text for node in request.path for piece in node)


@pytest.fixture
def opened() -> Iterator[Opened]:
    from localjudge.integrations.deepeval import LocaljudgeModel

    judges = []

    def open_model(script: Any, **how: Any) -> Any:
        judges.append(localjudge.Judge.open(engine=localjudge.ScriptedEngine(script, **how)))
        return LocaljudgeModel(judges[-1])

    yield open_model
    for judge in judges:
        judge.close()


def unasked() -> Any:
    from deepeval.models import DeepEvalBaseLLM

    class Unasked(DeepEvalBaseLLM):  # type: ignore[misc]
        def load_model(self) -> Any:
            return self

        def generate(self, *_: Any, **__: Any) -> str:
            raise AssertionError("the language model was asked")

        a_generate = generate

        def get_model_name(self) -> str:
            return "unasked"

    return Unasked()


@pytest.mark.engine
def test_the_lexical_judge_gives_its_own_recall_and_precision_in_hybrid_mode() -> None:
    """It supports 2/2 and 1/2 of the references, as in `context_recall`; the first is useful."""
    from deepeval.metrics import ContextualPrecisionMetric, ContextualRecallMetric

    from localjudge.integrations.deepeval import LocaljudgeModel

    how = {
        "eval_mode": "hybrid",
        "model": unasked(),
        "system_one_model": LocaljudgeModel(),
        "include_reason": False,
    }
    recall = ContextualRecallMetric(**how)
    precision = ContextualPrecisionMetric(**how)
    cases = peers.deepeval_cases()
    assert [recall.measure(case, _show_indicator=False) for case in cases] == [1, 0.5]
    assert [precision.measure(case, _show_indicator=False) for case in cases] == [1, 1]
    with pytest.raises(InputError, match="does not read instructions"):
        recall.system_one_model.decide({}, {"q": noul("Is it kind?")})


def noul(words: Any, **meanings: Any) -> Any:
    from deepeval.models.system_one import NoulQuestion

    return NoulQuestion(instructions=words, **meanings)


METRICS = [
    "ContextualRecall",
    "Faithfulness",
    "ContextualRelevancy",
    "ContextualPrecision",
    "AnswerRelevancy",
    "Bias",
]


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("async_mode", [True, False])
def test_deepeval_metrics_run_on_our_verdicts(name: str, async_mode: bool, opened: Opened) -> None:
    """P(yes) is .8 for each statement and for each level above the lowest: the mean is .8."""
    from deepeval import metrics

    model = opened({}, default=0.8)
    metric = getattr(metrics, f"{name}Metric")(
        eval_mode="system_one", system_one_model=model, async_mode=async_mode
    )
    assert metric.measure(peers.deepeval_cases()[0], _show_indicator=False) == pytest.approx(0.8)
    assert metric.reason.startswith("Decided by localjudge: scripted")
    assert metric.evaluation_cost == 0


def test_a_custom_metric_asks_about_its_named_fields(opened: Opened) -> None:
    """Yes or no gives .6, and three levels with P(>= 1) = .9 and P(>= 2) = .5 give .7.

    A choice gives .6 / (.6 + .2) = .75. The mean is (.6 + .7 + .75) / 3.
    """
    from deepeval.metrics import JevEval
    from deepeval.metrics.jev_eval.questions import Choice, Noul, Score
    from deepeval.test_case import SingleTurnParams

    prompts = []
    by_end = {"level 1": 0.9, "level 2": 0.5, "'yes'": 0.6, "'no'": 0.2}

    def script(request: Any) -> float:
        prompts.append(asked(request))
        question = prompts[-1].partition("\nText inside tags")[0].rpartition("\n")[2]
        return next((p_yes for end, p_yes in by_end.items() if end in question), 0.6)

    questions = [
        Noul("`actual_output` is polite."),
        Score("How polite is it?", levels=["rude", "neutral", "polite"]),
        Choice("Does it greet?", options={"yes": 1.0, "no": 0.0}),
    ]
    metric = JevEval(
        "Manners", [SingleTurnParams.ACTUAL_OUTPUT], questions, system_one_model=opened(script)
    )
    score = metric.measure(peers.deepeval_cases()[1], _show_indicator=False)
    assert score == pytest.approx((0.6 + 0.7 + 0.75) / 3)
    assert "<response>\nThe Danube rises" in prompts[0]
    assert "The question: Is this true? the response is polite." in prompts[0]
    assert all("<response>\nactual_output:\nThe Danube rises" in prompt for prompt in prompts[1:])
    assert len(prompts) == 1 + 2 + 2


def test_an_item_has_the_lowest_probability_of_its_sentences(opened: Opened) -> None:
    """Sentences of .9 and .2 give a claim .2. Other items use their question, without the list."""
    prompts = []

    def script(request: Any) -> float:
        prompts.append(asked(request))
        return 0.2 if "It is red." in localjudge.engine.scripted.unit_text(request) else 0.9

    model = opened(script)
    claim = noul({"claim": "It rains. It is red.", "question": "Is `claim` so?"})
    answers, cost = model.decide(
        {"retrieval_context": ["Rain."], "claims": ["It rains. It is red."]}, {"q": claim}
    )
    assert (answers.nouls["q"].probability, cost) == (0.2, 0)
    opinion = noul({"opinion": "Rain is bad.", "question": "Is `opinion` biased?"}, false="a fact")
    answers, _ = asyncio.run(
        model.a_decide({"opinions": ["Rain is bad.", "Sun is good."]}, {"q": opinion})
    )
    assert answers.nouls["q"].probability == 0.9
    assert "opinion:\nRain is bad." in prompts[-1]
    assert "Sun is good." not in prompts[-1]
    assert "The answer is no if: a fact" in prompts[-1]


def test_a_missing_answer_is_an_error_and_not_a_number(opened: Opened) -> None:
    from deepeval.errors import DeepEvalError
    from deepeval.metrics import FaithfulnessMetric
    from deepeval.models.system_one import ChoiceQuestion

    metric = FaithfulnessMetric(
        eval_mode="system_one",
        system_one_model=opened({}, default="out of words"),
        async_mode=False,
    )
    with pytest.raises(DeepEvalError, match="no verdict for 1 of 1 units: out of words"):
        metric.measure(peers.deepeval_cases()[0], _show_indicator=False)
    undecided = ChoiceQuestion(instructions="Which?", options={"a": None, "b": None})
    with pytest.raises(DeepEvalError, match="no option"):
        opened({}, default=0.0).decide({"input": "x"}, {"q": undecided})
