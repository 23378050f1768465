"""Judges with scripted answers and speeds, for the tests of `doctor`."""

from collections.abc import Callable, Sequence

from localjudge import ScriptedEngine
from localjudge.doctor.examinee import Examinee, plain_cases
from localjudge.engine.protocol import EngineStats
from localjudge.judge.profile_choice import load_profile
from localjudge.judge.wording import PromptWriter
from localjudge.progress import Progress
from localjudge.types import VerdictRequest

WRITER = PromptWriter(load_profile("instruct"))
RIGHT_ANSWERS = {str(case.statement): float(case.answer) for case in plain_cases()}
"""The answers to the plain cases by statement."""


class TimedEngine(ScriptedEngine):
    """Engine of 100 tokens per request, with `stats` and `shares_prefixes` set by the test."""

    now = EngineStats()

    @property
    def stats(self) -> EngineStats:
        """As set by the test."""
        return self.now

    def distinct_tokens(self, requests: Sequence[VerdictRequest]) -> int:
        """Count all tokens, without sharing."""
        return 100 * len(requests)


def examinee(
    script: Callable[[VerdictRequest], float | str] | dict[str, float],
    default: float | str = 0.1,
) -> Examinee:
    return Examinee(WRITER, ScriptedEngine(script, default=default), Progress())


def examinee_at_speed(seconds_each: float) -> Examinee:
    engine = TimedEngine({}, default=0.1)
    judge = Examinee(WRITER, engine, Progress())
    engine.now = EngineStats(evaluated_tokens=100, seconds_total=seconds_each)
    return judge


def users_text(request: VerdictRequest) -> str:
    pieces = []
    for node in request.path:
        pieces += [piece.text for piece in node if not piece.trusted]
    return "\n".join(pieces)
