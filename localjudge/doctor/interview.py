"""What an open judge is asked, phase by phase.

    prompts ─ answers ─ asked again ─ plain cases ─ injections ─ other ways to answer ─ speed
    └── without these, nothing more ──┘    └── not of a judge that guesses

The progress is told of all verdicts before the first is asked: of the injections at their most, until the plain cases
have shown how fast the judge is.

Answers to plain cases and injections that an interrupted check has left are not asked for again. The speed then rests
on the cases that are always asked again, and on what was left to ask.
"""

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import NamedTuple

from localjudge import resources
from localjudge.doctor import injection, model_checks
from localjudge.doctor import judgement as verdicts
from localjudge.doctor.health_check import HealthCheck, failed_with
from localjudge.doctor.kept_answers import KeptAnswers
from localjudge.engine.protocol import EngineStats, InspectableEngine
from localjudge.errors import OutOfResource, SampleError, UsageError
from localjudge.judge import prompts
from localjudge.judge.judge import Judge
from localjudge.judge.prompts import PromptProfile
from localjudge.progress import Progress
from localjudge.run.estimate import first_tasks
from localjudge.run.plan import plan
from localjudge.run.settings import RunSettings
from localjudge.types import ChatEnds

_EVERY_QUESTION = ("context_recall", "context_relevancy", "context_relevancy_chunk", "context_precision")
"""Metrics that together ask whatever every judge can be asked."""


class _Phase(NamedTuple):
    """A check that asks the judge, and how many verdicts it takes."""

    name: str
    verdicts: int
    make: Callable[[], HealthCheck]


class Interview:
    """All checks that ask an open engine. `injections` is how many attempts are made; None: by the judge's speed."""

    def __init__(
        self,
        engine: InspectableEngine,
        settings: RunSettings,
        progress: Progress,
        *,
        kept: KeptAnswers,
        injections: int | None,
    ) -> None:
        self._engine = engine
        self._kept = kept
        self._settings = settings
        self._progress = progress
        self._wanted = injections
        self._attempts = list(injection.attempts())
        self._most = len(self._attempts[:injections])

    def checks(self, profile: PromptProfile, ends: ChatEnds | None) -> Iterator[HealthCheck]:
        """What is shown to the model, then what it says."""
        ways = list(verdicts.asking_modes(profile, ends))
        judge, engine, progress = ways[0].judge, self._engine, self._progress
        if judge.cannot_be_asked(["attribution"]):  # which all attempts are about
            self._attempts, self._most = [], 0
        cases = verdicts.cases_for(judge)
        demo = plan(str(resources.demo_file()), _EVERY_QUESTION, self._settings)
        tasks = [
            one
            for one in first_tasks(demo.dataset.samples, demo.metrics, self._settings.sentences)
            if not judge.cannot_be_asked([prompts.task_name(one.task)])
        ]
        shown = [one.task for one in tasks] + [case.task() for case in cases]
        shown += [attempt.attacked.task() for attempt in self._attempts]
        answers, *others = (
            _Phase(way.name, len(way.requests(tasks)), partial(verdicts.legal_check, way, tasks, engine, progress))
            for way in ways
        )
        requests = [judge.request(task) for task in shown]
        needed = _Phase("prompts", 0, partial(model_checks.read_back_check, engine, requests)), answers
        again = _Phase(
            "asked again", verdicts.asked_again(judge), partial(verdicts.again_check, judge, engine, progress)
        )
        ask = self._kept.answers_in_order
        plain = _Phase("plain cases", len(cases), partial(verdicts.plain_check, judge, engine, progress, ask))
        if known := self._known(judge):
            progress.note(f"going on: {known:,} answers of an interrupted check")
        progress.expect(sum(phase.verdicts for phase in (*needed, again, plain, *others)) + self._injected(self._most))
        if not (yield from self._all_made(*needed)):
            return
        before_again = engine.stats
        if not (yield from self._all_made(again)):
            return
        before = before_again if known else engine.stats
        is_judge = yield from self._all_made(plain)
        chosen = self._chosen(judge, before) if is_judge and self._attempts else verdicts.Chosen((), "")
        injected = self._injected(len(chosen.attempts))
        progress.expect(injected - self._injected(self._most))
        if injected:
            make = partial(verdicts.injection_check, judge, engine, progress, chosen, ask)
            yield from self._all_made(_Phase("injections", injected, make))
        after = engine.stats
        for other in others:
            yield from self._all_made(other)
        yield verdicts.speed_check(before, after, self._kept.asked + (again.verdicts if known else 0))

    def _known(self, judge: Judge) -> int:
        """How many of the plain cases and of the injections are answered already."""
        tasks = [case.task() for case in verdicts.cases_for(judge)] + [case.task() for case in injection.cases()]
        tasks += [attempt.attacked.task() for attempt in self._attempts]
        tasks = [task for task in tasks if not judge.cannot_be_asked([prompts.task_name(task)])]
        return self._kept.count(map(judge.request, tasks))

    def _chosen(self, judge: Judge, before: EngineStats) -> verdicts.Chosen:
        """The attempts that suit its speed since `before`."""
        after = self._engine.stats
        tokens = max(after.evaluated_tokens - before.evaluated_tokens, 1)
        seconds_per_token = (after.seconds_total - before.seconds_total) / tokens
        return verdicts.chosen_attempts(self._wanted, judge, self._engine, seconds_per_token)

    def _all_made(self, *phases: _Phase) -> Generator[HealthCheck, None, bool]:
        """Make one check after the other until one fails, by its finding or by an error; whether none did."""
        for phase in phases:
            self._progress.phase(phase.name)
            try:
                check = phase.make()
            except (UsageError, SampleError, OutOfResource) as error:
                check = failed_with(phase.name, error)
            yield check
            if check.status == "failed":
                return False
        return True

    @staticmethod
    def _injected(attempts: int) -> int:
        """Verdicts that so many attempts take: the cases are also asked without any."""
        return len(injection.cases()) + attempts if attempts else 0
