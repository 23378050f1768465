"""What an open judge is asked, phase by phase.

    prompts ─ answers ─ asked again ─ plain cases ─ probes ─ injections ─ other ways to answer ─ speed ─ admission
    └── without these, nothing more ──┘    └── not of a judge that guesses; the probes are, if they are asked for

The progress is told of all verdicts before the first is asked: of the probes and the injections at their most, until
the plain cases have shown how fast the judge is.

Answers to plain cases, probes and injections that an interrupted check has left are not asked for again. The speed then
rests on the cases that are always asked again, and on what was left to ask.
"""

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import NamedTuple

from localjudge import resources
from localjudge.doctor import injection, model_checks
from localjudge.doctor import judgement as verdicts
from localjudge.doctor.extent import Extent
from localjudge.doctor.health_check import HealthCheck, failed_with
from localjudge.doctor.kept_answers import KeptAnswers
from localjudge.doctor.probe_checks import admission_check, not_fit_check, probe_checks, probes_check, undecided_check
from localjudge.doctor.probe_figures import ProbeFigures, probe_figures
from localjudge.doctor.probing import (
    NO_PROBES,
    ProbeAnswers,
    ProbeChoice,
    at_most_probes,
    chosen_probes,
    probe_answers,
)
from localjudge.engine.protocol import EngineStats, ReadableEngine
from localjudge.errors import OutOfResource, SampleError, UsageError
from localjudge.judge.prompt_writer import PromptWriter
from localjudge.judge.prompts import PromptProfile
from localjudge.progress import Progress
from localjudge.record.examination import Examination, remember_examination
from localjudge.run.estimate import first_tasks
from localjudge.run.plan import plan
from localjudge.run.settings import RunSettings
from localjudge.types import ChatEnds, Task

_EVERY_QUESTION = ("context_recall", "context_relevancy", "context_relevancy_chunk", "context_precision")
"""Metrics that together ask whatever every judge can be asked."""


_PROBED = ("attribution", "relevance_sentence", "relevance_chunk")


class _Phase(NamedTuple):
    """A check that asks the judge, and how many verdicts it takes."""

    name: str
    verdicts: int
    make: Callable[[], HealthCheck]


class Interview:
    """All checks that ask an open engine."""

    def __init__(
        self,
        engine: ReadableEngine,
        settings: RunSettings,
        progress: Progress,
        *,
        kept: KeptAnswers,
        extent: Extent,
    ) -> None:
        self._engine = engine
        self._kept = kept
        self._settings = settings
        self._progress = progress
        self._extent = extent
        self._attempts = list(injection.attempts())
        self._most = len(self._attempts[: extent.injections])
        self._probes_askable = True
        self._probed: tuple[ProbeAnswers, ProbeFigures] | None = None

    def checks(self, profile: PromptProfile, ends: ChatEnds | None) -> Iterator[HealthCheck]:
        """What is shown to the model, then what it says; last, what it is fit for.

        A judge that has no words for a question is not asked it; one that lacks any of the probes' is asked no probe.
        """
        ways = list(verdicts.asking_modes(profile, ends))
        judge, engine, progress = ways[0].judge, self._engine, self._progress
        self._attempts = [one for one in self._attempts if judge.has_words_for(one.attacked.task())]
        self._most = len(self._attempts[: self._extent.injections])
        self._probes_askable = not judge.cannot_be_asked(_PROBED)
        cases = verdicts.cases_for(judge)
        demo = plan(str(resources.demo_file()), _EVERY_QUESTION, self._settings)
        tasks = [
            one
            for one in first_tasks(demo.dataset.samples, demo.metrics, self._settings.sentences)
            if judge.has_words_for(one.task)
        ]
        answers, *others = (
            _Phase(way.name, len(way.requests(tasks)), partial(verdicts.legal_check, way, tasks, engine, progress))
            for way in ways
        )
        requests = [judge.request(task) for task in ([one.task for one in tasks] + self._always_the_same(judge))]
        needed = _Phase("prompts", 0, partial(model_checks.read_back_check, engine, requests)), answers
        again = _Phase(
            "asked again", verdicts.asked_again(judge), partial(verdicts.again_check, judge, engine, progress)
        )
        ask = self._kept.answers_in_order
        plain = _Phase("plain cases", len(cases), partial(verdicts.plain_check, judge, engine, progress, ask))
        if known := self._kept.count(map(judge.request, self._always_the_same(judge))):
            progress.note(f"going on: {known:,} answers of an interrupted check")
        at_most = at_most_probes(self._extent.probes) if self._probes_askable else NO_PROBES
        progress.expect(
            sum(phase.verdicts for phase in (*needed, again, plain, *others))
            + len(at_most.tasks)
            + self._injected(self._most)
        )
        if not (yield from self._all_made(*needed)):
            return
        before_again = engine.stats
        if not (yield from self._all_made(again)):
            return
        before = before_again if known else engine.stats
        is_judge = yield from self._all_made(plain)
        wants_probes = self._probes_askable and (is_judge or self._extent.probes)
        probes = self._chosen_probes(judge, before) if wants_probes else NO_PROBES
        progress.expect(len(probes.tasks) - len(at_most.tasks))
        if probes.passages:
            yield from self._probe_checks(judge, probes)
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
        yield from self._admission(judge, is_judge)

    def _admission(self, judge: PromptWriter, is_judge: bool) -> Iterator[HealthCheck]:
        """What the judge is fit for, which is remembered if it was decided."""
        items = 0
        if self._probed:
            items = len(self._probed[0].items)
            check = admission_check(*self._probed, passes_plain_cases=is_judge, required=self._extent.required)
        elif not is_judge:
            check = not_fit_check()
        elif self._extent.required:
            check = undecided_check()
        else:
            return
        if (uses := check.figures["uses"]) is not None:
            asked = {"engine": self._engine.identity, "judge": judge.identity}
            remember_examination(asked, Examination(uses=uses, items=items))
        yield check

    def _always_the_same(self, judge: PromptWriter) -> list[Task]:
        """What any judge is asked by this check, whatever the data: all that may be kept."""
        tasks: list[Task] = [case.task() for case in verdicts.cases_for(judge)]
        tasks += [case.task() for case in injection.cases()]
        tasks += [attempt.attacked.task() for attempt in self._attempts]
        tasks += at_most_probes(None).tasks
        return [task for task in tasks if judge.has_words_for(task)]

    def _probe_checks(self, judge: PromptWriter, choice: ProbeChoice) -> Iterator[HealthCheck]:
        """One phase that asks, and the lines that its answers make."""

        def ask_all() -> HealthCheck:
            answers = probe_answers(judge, self._engine, self._progress, choice, self._kept.answers_in_order)
            self._probed = answers, probe_figures(answers)
            return probes_check(*self._probed)

        yield from self._all_made(_Phase("probes", len(choice.tasks), ask_all))
        if self._probed:
            yield from probe_checks(self._probed[1])

    def _chosen_probes(self, judge: PromptWriter, before: EngineStats) -> ProbeChoice:
        """The passages that suit its speed since `before`."""
        return chosen_probes(self._extent.probes, judge, self._engine, self._seconds_per_token(before))

    def _chosen(self, judge: PromptWriter, before: EngineStats) -> verdicts.Chosen:
        """The attempts that suit its speed since `before`."""
        return verdicts.chosen_attempts(self._extent.injections, judge, self._engine, self._seconds_per_token(before))

    def _seconds_per_token(self, before: EngineStats) -> float:
        after = self._engine.stats
        tokens = max(after.evaluated_tokens - before.evaluated_tokens, 1)
        return (after.seconds_total - before.seconds_total) / tokens

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
