"""Process of one evaluator, in its own environment.

    python peer.py WAY MODEL URL SECONDS     samples in, results out, one line of JSON each

Each way configures an evaluator for a local model as documented: for the OpenAI-compatible server
at the URL, and localjudge for the model file. It returns a function that judges one sample and
gives its score with the texts and values of the verdicts, if the evaluator has any. Errors appear
as users see them. Connections beyond loopback are refused.
"""

import asyncio
import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

MODEL = "judge"
"""The server has one model and ignores the name."""
GRADES = {"C": 1.0, "P": 0.5, "I": 0.0}
Sample = dict[str, Any]
Result = tuple[Any, Sequence[str], Sequence[Any]]
Judge = Callable[[Sample], Result]


def localjudge(model: str) -> Judge:
    """Faithfulness by the model's file."""
    from localjudge import Judge as OpenJudge
    from localjudge import evaluate

    opened = OpenJudge.open(model, n_ctx=4096)

    def score(sample: Sample) -> Result:
        row = {
            "user_input": sample["question"],
            "response": sample["answer"],
            "retrieved_contexts": sample["contexts"],
        }
        run = evaluate([row], judge=opened, metrics="faithfulness", out=False, progress=False)
        return (
            run["faithfulness"].mean,
            [row.text for row in run.verdicts],
            [row.p_yes for row in run.verdicts],
        )

    return score


def _keeping(ask: Any, outputs: list[Any]) -> Any:
    """Wrap a step of ragas to keep its outputs."""

    async def keep(*arguments: Any, **options: Any) -> Any:
        output = await ask(*arguments, **options)
        if isinstance(output, list):
            outputs.extend(output)
        else:
            outputs.append(output)
        return output

    return keep


def _with_verdicts(score: float, outputs: list[Any]) -> Result:
    """Add the verdicts from the last output, because ragas does not return them."""
    rows = []
    for output in outputs[-1:]:
        for _, listed in output:
            rows += [row for row in listed if not isinstance(row, str)]
    values = [row.verdict if hasattr(row, "verdict") else row.attributed for row in rows]
    return score, [row.statement for row in rows], values


def ragas(name: str, url: str) -> Judge:
    """A metric of ragas.metrics.collections."""
    from openai import AsyncOpenAI
    from ragas.llms import llm_factory
    from ragas.metrics import collections

    def score(sample: Sample) -> Result:
        outputs: list[Any] = []
        llm = llm_factory(MODEL, client=AsyncOpenAI(base_url=f"{url}/v1", api_key="none"))
        llm.agenerate = _keeping(llm.agenerate, outputs)
        texts = {"reference" if name == "ContextRecall" else "response": sample["answer"]}
        metric = getattr(collections, name)(llm=llm)
        done = asyncio.run(
            metric.ascore(
                user_input=sample["question"], retrieved_contexts=sample["contexts"], **texts
            )
        )
        return _with_verdicts(done.value, outputs)

    return score


def ragas_classic(name: str, url: str, seconds: float) -> Judge:
    """A metric of ragas.metrics, through `ragas.evaluate` and LangChain."""
    import ragas.metrics
    from langchain_openai import ChatOpenAI
    from ragas import EvaluationDataset, RunConfig, evaluate
    from ragas.llms import LangchainLLMWrapper

    llm = LangchainLLMWrapper(ChatOpenAI(model=MODEL, base_url=f"{url}/v1", api_key="none"))

    def score(sample: Sample) -> Result:
        outputs: list[Any] = []
        metric = getattr(ragas.metrics, name)()
        prompt = (
            metric.nli_statements_prompt if name == "Faithfulness" else metric.context_recall_prompt
        )
        prompt.generate_multiple = _keeping(prompt.generate_multiple, outputs)
        texts = dict.fromkeys(("response", "reference"), sample["answer"])
        rows = [
            {"user_input": sample["question"], "retrieved_contexts": sample["contexts"], **texts},
        ]
        how = RunConfig(timeout=seconds, max_workers=1)
        done = evaluate(
            EvaluationDataset.from_list(rows),
            [metric],
            llm=llm,
            run_config=how,
            show_progress=False,
        )
        return _with_verdicts(done.scores[0][metric.name], outputs)

    return score


def deepeval(url: str) -> Judge:
    """FaithfulnessMetric with DeepEval's LocalModel; by default it accepts unmentioned claims."""
    from deepeval.metrics import FaithfulnessMetric
    from deepeval.models import LocalModel
    from deepeval.test_case import LLMTestCase

    def score(sample: Sample) -> Result:
        llm = LocalModel(model=MODEL, base_url=f"{url}/v1", api_key="none")
        metric = FaithfulnessMetric(model=llm, penalize_ambiguous_claims=True)
        case = LLMTestCase(
            input=sample["question"],
            actual_output=sample["answer"],
            retrieval_context=sample["contexts"],
        )
        metric.measure(case, _show_indicator=False)
        return (
            metric.score,
            metric.claims,
            [str(each.verdict).lower() == "yes" for each in metric.verdicts],
        )

    return score


def haystack(url: str) -> Judge:
    """FaithfulnessEvaluator with an OpenAIChatGenerator."""
    from haystack.components.evaluators import FaithfulnessEvaluator
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.utils import Secret

    how = {"response_format": {"type": "json_object"}, "seed": 42}
    token = Secret.from_token("none")
    llm = OpenAIChatGenerator(
        model=MODEL, api_base_url=f"{url}/v1", api_key=token, generation_kwargs=how
    )
    evaluator = FaithfulnessEvaluator(chat_generator=llm, progress_bar=False)

    def score(sample: Sample) -> Result:
        texts = {"contexts": [sample["contexts"]], "predicted_answers": [sample["answer"]]}
        [done] = evaluator.run(questions=[sample["question"]], **texts)["results"]
        return done["score"], done["statements"], done["statement_scores"]

    return score


def inspect(url: str) -> Judge:
    """`model_graded_qa` with partial credit: one grade for the whole answer."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample as Asked
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import model_graded_qa
    from inspect_ai.solver import solver

    os.environ |= {"LOCAL_BASE_URL": f"{url}/v1", "LOCAL_API_KEY": "none"}

    @solver
    def canned(answer: str) -> Any:
        async def solve(state: Any, _: Any) -> Any:
            state.output = ModelOutput.from_content("canned", answer)
            return state

        return solve

    grader = model_graded_qa(partial_credit=True, model=f"openai-api/local/{MODEL}")

    def score(sample: Sample) -> Result:
        criterion = "\n".join(
            ["Every statement is supported by these passages:", *sample["contexts"]]
        )
        asked = Asked(input=sample["question"], target=criterion)
        task = Task(dataset=[asked], solver=canned(sample["answer"]), scorer=grader)
        [log] = eval(task, model="mockllm/model", display="none", log_dir="logs")
        if log.error or not log.samples or not log.samples[0].scores:
            message = "no score"
            if log.error:
                message = log.error.message
            raise ValueError(message)
        [grade] = log.samples[0].scores.values()
        if grade.value not in GRADES:
            raise ValueError(grade.explanation)
        return GRADES[grade.value], [], []

    return score


WAYS: dict[str, Callable[[str, str, float], Judge]] = {
    "localjudge": lambda model, url, seconds: localjudge(model),
    "ragas faithfulness": lambda model, url, seconds: ragas("Faithfulness", url),
    "ragas faithfulness, classic": lambda model, url, seconds: ragas_classic(
        "Faithfulness", url, seconds
    ),
    "ragas context recall": lambda model, url, seconds: ragas("ContextRecall", url),
    "ragas context recall, classic": lambda model, url, seconds: ragas_classic(
        "LLMContextRecall", url, seconds
    ),
    "DeepEval faithfulness": lambda model, url, seconds: deepeval(url),
    "Haystack faithfulness": lambda model, url, seconds: haystack(url),
    "inspect model-graded": lambda model, url, seconds: inspect(url),
}


def stay_here(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse connections to other machines."""
    host = {"socket.connect": lambda: arguments[1], "socket.getaddrinfo": lambda: arguments}.get(
        event, tuple
    )()
    if isinstance(host, tuple) and host and host[0] not in ("127.0.0.1", "::1", "localhost", None):
        raise ConnectionRefusedError(f"{host[0]} is not this machine")


def main(way: str, model: str, url: str, seconds: str) -> None:
    """Judge samples until the input ends."""
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print, too
    sys.addaudithook(stay_here)
    judge = WAYS[way](model, url, float(seconds))
    print("{}", file=results, flush=True)  # ready
    for line in sys.stdin:
        started = time.perf_counter()
        message = ""
        try:
            score, texts, values = judge(json.loads(line))
        except Exception as error:  # noqa: BLE001 # errors are results here
            cause = error.__cause__ or error
            score = None
            texts = []
            values = []
            message = " ".join(f"{type(cause).__name__}: {cause}".split())[:300]
        took = time.perf_counter() - started
        verdicts = []
        with suppress(TypeError, ValueError):
            verdicts = [
                (str(text), float(value)) for text, value in zip(texts, values, strict=True)
            ]
        if score is None or math.isnan(score):
            message = message or str(score)
            score = None
        row = {"score": score, "message": message, "verdicts": verdicts, "seconds": took}
        print(json.dumps(row), file=results, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
