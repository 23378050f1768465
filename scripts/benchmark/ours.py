"""The engine of this project, one sample at a time or all at once."""

from collections.abc import Sequence

from localjudge.engine.llamacpp import LlamaCppEngine
from localjudge.judge.judge import PromptJudge
from localjudge.types import Answer, NoAnswer

from .cases import Case
from .cost import Cost


class Ours:
    """One engine and one way of wording."""

    def __init__(self, name: str, engine: LlamaCppEngine, judge: PromptJudge) -> None:
        self._engine = engine
        self._judge = judge
        self._start(name)

    def _start(self, name: str) -> None:
        self.cost = Cost(name)
        self.seconds_inside = 0.0
        self.unique = 0
        self.probabilities: list[float] = []

    def warm_up(self, case: Case) -> None:
        """Have the instructions evaluated; nothing is counted."""
        self.ask([case])
        self._start(self.cost.name)

    def ask(self, cases: Sequence[Case]) -> int:
        """Judge the cases together; how many tokens were evaluated."""
        requests = [request for case in cases for request in self._judge.requests(case.tasks)]
        before = self._engine.effort
        with self.cost.counting():
            answers = dict(self._engine.answers(requests))
        after = self._engine.effort
        evaluated = after.evaluated_tokens - before.evaluated_tokens
        self.cost.evaluated += evaluated
        self.cost.generated += after.generated_tokens - before.generated_tokens
        self.unique += after.unique_tokens - before.unique_tokens
        self.seconds_inside += after.seconds_inside - before.seconds_inside
        for _, answer in sorted(answers.items()):
            self.probabilities.append(_probability(answer))
        return evaluated


def _probability(answer: Answer | NoAnswer) -> float:
    match answer:
        case Answer():
            return answer.p_yes
        case NoAnswer():
            raise RuntimeError(f"a statement got no answer: {answer.error}")
