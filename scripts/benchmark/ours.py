"""The engine of this project, one sample at a time or all at once."""

from collections import defaultdict
from collections.abc import Sequence

from localjudge.engine.llamacpp.engine import LlamaCppEngine
from localjudge.judge.judge import PromptJudge
from localjudge.types import Answer, NoAnswer

from .cases import Case
from .cost import Cost


class Ours:
    """One engine and one way of wording."""

    def __init__(self, name: str, engine: LlamaCppEngine, judge: PromptJudge) -> None:
        self.name = name
        self.costs: defaultdict[str, Cost] = defaultdict(Cost)
        self.probabilities: list[float] = []
        self._engine = engine
        self._judge = judge

    def warm_up(self, case: Case) -> None:
        """Have the instructions evaluated; nothing is counted."""
        self.ask([case], "")
        self.costs.clear()
        self.probabilities.clear()

    def ask(self, cases: Sequence[Case], source: str) -> int:
        """Judge the cases together, and count what it cost to the source; how many tokens were evaluated."""
        cost = self.costs[source]
        requests = [request for case in cases for request in self._judge.requests(case.tasks)]
        before = self._engine.effort
        with cost.counting():
            answers = dict(self._engine.answers(requests))
        after = self._engine.effort
        evaluated = after.evaluated_tokens - before.evaluated_tokens
        cost.evaluated += evaluated
        cost.unique += after.unique_tokens - before.unique_tokens
        cost.generated += after.generated_tokens - before.generated_tokens
        cost.seconds_inside += after.seconds_inside - before.seconds_inside
        self.probabilities += [_probability(answer) for _, answer in sorted(answers.items())]
        return evaluated


def _probability(answer: Answer | NoAnswer) -> float:
    match answer:
        case Answer():
            return answer.p_yes
        case NoAnswer():
            raise RuntimeError(f"a statement got no answer: {answer.error}")
