"""The engine of this project, one sample at a time or all at once."""

from collections import defaultdict
from collections.abc import Sequence

from localjudge.engine.llamacpp.engine import LlamaCppEngine
from localjudge.judge.prompt_writer import PromptWriter
from localjudge.types import NoAnswer

from .cases import Case
from .cost import Cost


class Ours:
    """One engine and one way of wording."""

    def __init__(self, name: str, engine: LlamaCppEngine, judge: PromptWriter) -> None:
        self.name = name
        self.costs: defaultdict[str, Cost] = defaultdict(Cost)
        self._engine = engine
        self._judge = judge

    def warm_up(self, case: Case) -> None:
        """Have the instructions evaluated; nothing is counted."""
        self.ask([case], "")
        self.costs.clear()

    def ask(self, cases: Sequence[Case], source: str) -> int:
        """Judge the cases together, and count what it cost to the source; how many tokens were evaluated."""
        cost = self.costs[source]
        requests = [request for case in cases for request in self._judge.requests(case.tasks)]
        before = self._engine.stats
        with cost.counting():
            answers = [answer for _, answer in self._engine.answers(requests)]
        after = self._engine.stats
        evaluated = after.evaluated_tokens - before.evaluated_tokens
        cost.evaluated += evaluated
        cost.unique += after.unique_tokens - before.unique_tokens
        cost.generated += after.generated_tokens - before.generated_tokens
        cost.seconds_inside += after.seconds_inside - before.seconds_inside
        unanswered = [answer.error for answer in answers if isinstance(answer, NoAnswer)]
        if unanswered:
            raise RuntimeError(f"a statement got no answer: {unanswered[0]}")
        return evaluated
