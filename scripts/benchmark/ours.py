"""localjudge's own way: the judge as a run opens it, all statements of a sample in one call."""

import re
from typing import Any

from localjudge.run.judges import OpenJudge, open_judge
from localjudge.run.settings import RunSettings
from localjudge.types import Grammar, NoAnswer

from .cases import CONTEXTS, Case, case, warm_up
from .order import Order, Wording, Work


class Ours:
    """One forward pass for each verdict, forked from what the statements share."""

    def __init__(self, order: Order) -> None:
        self._ours = _opened(order)
        self._case = order.case
        self._judge(warm_up())

    def ask(self) -> Work:
        """Judge the sample."""
        before = self._ours.engine.stats
        verdicts = self._judge(self._case)
        after = self._ours.engine.stats
        return Work(verdicts, after.evaluated_tokens - before.evaluated_tokens, 0)

    def close(self) -> None:
        """Free the model."""
        self._ours.engine.close()

    def _judge(self, asked: Case) -> int:
        answers = [answer for _, answer in self._ours.engine.answers(self._ours.judge.requests(asked.tasks))]
        failed = [answer.error for answer in answers if isinstance(answer, NoAnswer)]
        if failed:
            raise ValueError(f"a statement got no answer: {failed[0]}")
        return len(answers)


def wordings(order: Order, samples: int) -> dict[str, Any]:
    """How every case is worded, and on what settings the model runs here: what the other ways are told."""
    ours = _opened(order)
    cases = {f"{context}/{place}": case(place, context) for context in CONTEXTS for place in range(samples)}
    request = ours.judge.request(warm_up().tasks[0])
    identity = ours.engine.identity
    found = {
        "n_ctx": ours.engine.capacity,
        "gpu_layers": int(identity.get("gpu_layers", 0)),
        "system": str(identity.get("system", "")),
        "warm_up": _worded(ours, warm_up()).prompts,
        "answers": legal_answers(request.grammar),
        "cases": {name: _worded(ours, asked)._asdict() for name, asked in cases.items()},
    }
    ours.engine.close()
    return found


def legal_answers(grammar: Grammar) -> list[str]:
    """Every answer that the grammar allows, if only its labels differ; none if it holds a reason."""
    labels = "|".join(grammar.labels)
    written = [re.sub(r"\\(.)", r"\1", grammar.pattern.replace(f"({labels})", label)) for label in grammar.labels]
    written = [text[1:-1] if text.startswith("(") else text for text in written]
    return written if all(re.fullmatch(grammar.pattern, text) for text in written) else []


def _opened(order: Order) -> OpenJudge:
    return open_judge(order.judge, RunSettings(threads=order.threads, n_ctx=order.n_ctx))


def _worded(ours: OpenJudge, asked: Case) -> Wording:
    requests = ours.judge.requests(asked.tasks)
    prompts = ["".join(piece.text for node in request.path for piece in node) for request in requests]
    return Wording(prompts, max(ours.engine.length(request) for request in requests))
