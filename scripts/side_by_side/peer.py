"""One evaluator at work, in its own environment, as its documentation has it work with a local model.

    python peer.py WAY MODEL URL SECONDS     samples in, results out, a line of JSON each

Each way is a function that sets the evaluator up for the OpenAI-compatible server at the URL (ours: for the model's
file, or for that server) and returns what judges one sample: a score, and the texts and values of the verdicts that it
is made of, where they can be had. What it raises is what its user would see. Nothing but loopback can be reached.
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

QUESTION = "Tell me a few facts."
MODEL = "judge"
"""The server has one model, whatever it is called."""
GRADES = {"C": 1.0, "P": 0.5, "I": 0.0}
Sample = dict[str, Any]
Result = tuple[Any, Sequence[str], Sequence[Any]]
Judge = Callable[[Sample], Result]


def answer(sample: Sample) -> str:
    """The sentences as one text."""
    return " ".join(sample["sentences"])


def localjudge(judge: str) -> Judge:
    """In this process, or by the server."""
    from localjudge import Judge as OpenJudge
    from localjudge import evaluate

    opened = OpenJudge.open(judge, n_ctx=4096)

    def score(sample: Sample) -> Result:
        row = {"user_input": QUESTION, "response": answer(sample), "retrieved_contexts": sample["contexts"]}
        run = evaluate([row], judge=opened, metrics="faithfulness", out=False, progress=False)
        return run["faithfulness"].mean, [row.text for row in run.verdicts], [row.p_yes for row in run.verdicts]

    return score


def _with_verdicts(score: float, outputs: list[Any]) -> Result:
    """Those of the last step, which made the score, from its output: ragas does not give them out."""
    rows = [row for each in outputs[-1:] for _, listed in each for row in listed if not isinstance(row, str)]
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
        ask = llm.agenerate

        async def keep(*arguments: Any) -> Any:
            outputs.append(await ask(*arguments))
            return outputs[-1]

        llm.agenerate = keep
        texts = {"reference" if name == "ContextRecall" else "response": answer(sample)}
        metric = getattr(collections, name)(llm=llm)
        done = asyncio.run(metric.ascore(user_input=QUESTION, retrieved_contexts=sample["contexts"], **texts))
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
        prompt = metric.nli_statements_prompt if name == "Faithfulness" else metric.context_recall_prompt
        ask = prompt.generate_multiple

        async def keep(*arguments: Any, **named: Any) -> Any:
            outputs.extend(done := await ask(*arguments, **named))
            return done

        prompt.generate_multiple = keep
        texts = dict.fromkeys(("response", "reference"), answer(sample))
        rows = [{"user_input": QUESTION, "retrieved_contexts": sample["contexts"], **texts}]
        how = RunConfig(timeout=seconds, max_workers=1)
        done = evaluate(EvaluationDataset.from_list(rows), [metric], llm=llm, run_config=how, show_progress=False)
        return _with_verdicts(done.scores[0][metric.name], outputs)

    return score


def deepeval(url: str) -> Judge:
    """FaithfulnessMetric with DeepEval's own LocalModel; what the contexts do not mention is not supported."""
    from deepeval.metrics import FaithfulnessMetric
    from deepeval.models import LocalModel
    from deepeval.test_case import LLMTestCase

    def score(sample: Sample) -> Result:
        llm = LocalModel(model=MODEL, base_url=f"{url}/v1", api_key="none")
        metric = FaithfulnessMetric(model=llm, penalize_ambiguous_claims=True)
        case = LLMTestCase(input=QUESTION, actual_output=answer(sample), retrieval_context=sample["contexts"])
        metric.measure(case, _show_indicator=False)
        return metric.score, metric.claims, [str(each.verdict).lower() == "yes" for each in metric.verdicts]

    return score


def haystack(url: str) -> Judge:
    """FaithfulnessEvaluator with an OpenAIChatGenerator."""
    from haystack.components.evaluators import FaithfulnessEvaluator
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.utils import Secret

    how = {"response_format": {"type": "json_object"}, "seed": 42}
    token = Secret.from_token("none")
    llm = OpenAIChatGenerator(model=MODEL, api_base_url=f"{url}/v1", api_key=token, generation_kwargs=how)
    evaluator = FaithfulnessEvaluator(chat_generator=llm, progress_bar=False)

    def score(sample: Sample) -> Result:
        texts = {"contexts": [sample["contexts"]], "predicted_answers": [answer(sample)]}
        [done] = evaluator.run(questions=[QUESTION], **texts)["results"]
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
    grader = model_graded_qa(partial_credit=True, model=f"openai-api/local/{MODEL}")

    def score(sample: Sample) -> Result:
        @solver
        def answered() -> Any:
            async def solve(state: Any, _: Any) -> Any:
                state.output = ModelOutput.from_content("canned", answer(sample))
                return state

            return solve

        criterion = "\n".join(["Every statement is supported by these passages:", *sample["contexts"]])
        asked = Asked(input=QUESTION, target=criterion)
        task = Task(dataset=[asked], solver=answered(), scorer=grader)
        [log] = eval(task, model="mockllm/model", display="none", log_dir="logs")
        if log.error or not log.samples or not log.samples[0].scores:
            raise ValueError(log.error.message if log.error else "no score")
        [grade] = log.samples[0].scores.values()
        if grade.value not in GRADES:
            raise ValueError(grade.explanation)
        return GRADES[grade.value], [], []

    return score


WAYS: dict[str, Callable[[str, str, float], Judge]] = {
    "localjudge": lambda model, url, seconds: localjudge(model),
    "localjudge, by the server": lambda model, url, seconds: localjudge(url),
    "ragas faithfulness": lambda model, url, seconds: ragas("Faithfulness", url),
    "ragas faithfulness, classic": lambda model, url, seconds: ragas_classic("Faithfulness", url, seconds),
    "ragas context recall": lambda model, url, seconds: ragas("ContextRecall", url),
    "ragas context recall, classic": lambda model, url, seconds: ragas_classic("LLMContextRecall", url, seconds),
    "DeepEval faithfulness": lambda model, url, seconds: deepeval(url),
    "Haystack faithfulness": lambda model, url, seconds: haystack(url),
    "inspect model-graded": lambda model, url, seconds: inspect(url),
}


def stay_here(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse whatever is not on this machine."""
    host = {"socket.connect": lambda: arguments[1], "socket.getaddrinfo": lambda: arguments}.get(event, tuple)()
    if isinstance(host, tuple) and host and host[0] not in ("127.0.0.1", "::1", "localhost", None):
        raise ConnectionRefusedError(f"{host[0]} is not this machine")


def main(way: str, model: str, url: str, seconds: str) -> None:
    """Judge sample after sample, until there are no more."""
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is not a result
    sys.addaudithook(stay_here)
    judge = WAYS[way](model, url, float(seconds))
    print("{}", file=results, flush=True)  # ready
    for line in sys.stdin:
        started, shown = time.perf_counter(), ""
        try:
            score, texts, values = judge(json.loads(line))
        except Exception as error:  # noqa: BLE001 # it is what is measured
            cause = error.__cause__ or error
            score, texts, values, shown = None, [], [], " ".join(f"{type(cause).__name__}: {cause}".split())[:300]
        took, verdicts = time.perf_counter() - started, []
        with suppress(TypeError, ValueError):  # the score stands, whatever it was made of
            verdicts = [(str(text), float(value)) for text, value in zip(texts, values, strict=True)]
        if score is None or math.isnan(score):
            score, shown = None, shown or str(score)
        row = {"score": score, "shown": shown, "verdicts": verdicts, "seconds": took}
        print(json.dumps(row), file=results, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
