"""Ask a judge under examination, and measure its speed and whether it repeats its answers."""

from collections.abc import Sequence

from localjudge.doctor.check_result import CheckResult, warn_if
from localjudge.engine.protocol import Engine
from localjudge.judge.wording import PromptWriter
from localjudge.judging.questions import answers_in_order
from localjudge.progress import Progress
from localjudge.types import Answer, NoAnswer, Task, VerdictRequest

THRESHOLD = 0.5
"""Smallest probability of a verdict 1."""
ENOUGH_MASS = 0.5
"""Probability of valid answers below which verdicts are noise."""


class Examinee:
    """A judge under examination, with a clock."""

    def __init__(self, writer: PromptWriter, engine: Engine, progress: Progress) -> None:
        self.writer = writer
        self._engine = engine
        self._progress = progress
        self.answers: dict[Task, Answer] = {}
        """Answers to everything asked by `ask`."""
        self.start_clock()

    def start_clock(self) -> None:
        self._verdicts = 0
        self._start = self._engine.stats

    def write_requests(self, tasks: Sequence[Task]) -> list[VerdictRequest]:
        return [self.writer.request(task) for task in tasks]

    def answer(self, requests: Sequence[VerdictRequest]) -> list[Answer | NoAnswer]:
        """Return the answers in the order of the requests."""
        self._progress.expect(len(requests))
        answers = answers_in_order(self._engine, requests, self._progress)
        self._verdicts += len(requests)
        return answers

    def ask(self, tasks: Sequence[Task]) -> dict[Task, Answer]:
        """Return the answers by task, without the tasks that have none."""
        answers = self.answer(self.write_requests(tasks))
        answered = {}
        for task, answer in zip(tasks, answers, strict=True):
            if isinstance(answer, Answer):
                answered[task] = answer
        self.answers |= answered
        return answered

    def fit_in_time(self, tasks: Sequence[Task], items: int, seconds: float) -> tuple[int, str]:
        """Return how many items fit into the time, and why not all ("" if all do).

        `tasks` are the questions about all items, at the speed since the clock was started.
        """
        work = self._engine.stats.since(self._start)
        seconds_per_token = work.seconds_total / max(work.evaluated_tokens, 1)
        tokens = self._engine.distinct_tokens(self.write_requests(tasks))
        needed = seconds_per_token * tokens
        if needed <= seconds:
            return items, ""
        reason = f"as all would take this judge about {needed / 60:.0f} minutes"
        return int(items * seconds / needed), reason

    def check_speed(self) -> CheckResult:
        work = self._engine.stats.since(self._start)
        tokens_per_second = work.evaluated_tokens / max(work.seconds_inside, 1e-9)
        seconds_per_verdict = work.seconds_total / max(self._verdicts, 1)
        finding = (
            f"{tokens_per_second:,.0f} prompt tokens per second; "
            f"{seconds_per_verdict:.2g} s per short answer"
        )
        shares_prefixes = self._engine.shares_prefixes
        if not shares_prefixes:
            finding += ", each with its whole prompt, because this build cannot share prompts"
        return warn_if(
            not shares_prefixes,
            "speed",
            f"{finding} (for your data: localjudge run --dry-run)",
            "slow but correct; another build of llama-cpp-python may help",
            tokens_per_second=tokens_per_second,
            seconds_per_verdict=seconds_per_verdict,
            verdicts=self._verdicts,
            shares_prefixes=shares_prefixes,
        )


def check_repeatability(judge: Examinee, tasks: Sequence[Task]) -> CheckResult:
    """Compare the answers to the tasks alone with those among others, in reverse order."""
    requests = judge.write_requests(tasks)
    together = judge.answer(requests[::-1])[::-1]
    identical = 0
    for request, answer in zip(requests, together, strict=True):
        identical += judge.answer([request]) == [answer]
    asked = len(requests)
    return warn_if(
        identical < asked,
        "repeatability",
        f"{identical} of {asked} answers are bit-identical, asked alone and among others",
        "the order of the data changes numbers slightly: omit gpu_layers, or report this build",
        asked=asked,
        identical=identical,
    )
