"""Makes the checks in their order; what fails ends what needs it, and nothing else.

What an open judge is asked, phase by phase.

    prompts ─ answers ─ asked again ─ plain cases ─ probes ─ injections ─ other ways to answer ─ speed ─ admission
    └── without these, nothing more ──┘    └── not of a judge that guesses; the probes are, if they are asked for

The progress is told of all verdicts before the first is asked: of the probes and the injections at their most, until
the plain cases have shown how fast the judge is.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from typing import NamedTuple, Unpack

from localjudge import resources
from localjudge.doctor import judgement as injection
from localjudge.doctor import judgement as verdicts
from localjudge.doctor import machine
from localjudge.doctor import machine as model_checks
from localjudge.doctor.health_check import ADMISSION, Diagnosis, Extent, HealthCheck, Use, failed_with, worst_status
from localjudge.doctor.probes import (
    NO_PROBES,
    ProbeAnswers,
    ProbeFigures,
    admission_check,
    at_most_probes,
    chosen_probes,
    not_fit_check,
    probe_answers,
    probe_checks,
    probe_figures,
    probes_check,
    undecided_check,
)
from localjudge.engine import hardware, opening
from localjudge.engine.protocol import EngineStats, ReadableEngine, is_inspectable
from localjudge.errors import OutOfResource, SampleError, UsageError
from localjudge.judge.profile import PromptProfile
from localjudge.model_registry import ModelFile
from localjudge.progress import Progress, Silence
from localjudge.record.examination import Examination, remember_examination
from localjudge.run import judges
from localjudge.run.estimate import first_tasks
from localjudge.run.plan import plan
from localjudge.run.settings import Options, RunSettings, checked
from localjudge.types import ChatEnds, Task

_OF_THE_JUDGE = (
    "model file",
    "model",
    "model memory",
    "shared prompts",
    "chat template",
    "prompts",
    "answers",
    "asked again",
    "plain cases",
    "probes",
    "injections",
    "speed",
    ADMISSION,
)


class _Wanted(NamedTuple):
    judge: str
    settings: RunSettings
    extent: Extent
    progress: Progress


def examine(
    judge: str = judges.DEFAULT_JUDGE,
    *,
    injections: int | None = None,
    probes: int | None = None,
    required: Use | None = None,
    progress: Progress | None = None,
    on_check: Callable[[HealthCheck], object] | None = None,
    **options: Unpack[Options],
) -> Diagnosis:
    """Look at a judge and at the machine that it would run on.

    `injections` is how many attempts to talk it into a verdict are made: none if 0; if None, as many as take about two
    minutes. `probes` is how many labelled items are asked, in whole passages of twelve, up to all: none if 0; if None,
    as many as take about five minutes, and none of a judge that fails the plain cases. Below `required` the admission,
    which is the last check, is failed. `on_check` is called with each finding when it is there. What is wrong with the
    judge or with the machine is a failed check, not an error. Raises UsageError for options that cannot be.
    """
    extent = Extent(injections, probes, required)
    wanted = _Wanted(judge, checked(options), extent, progress or Silence())
    checks: list[HealthCheck] = []

    def add(check: HealthCheck) -> None:
        wanted.progress.pause()
        checks.append(check)
        if on_check is not None:
            on_check(check)

    try:
        for check in _checks(wanted):
            add(check)
    finally:
        wanted.progress.close()
    made = {check.name for check in checks}
    return Diagnosis(
        judge=judge,
        result=worst_status(checks),
        checks=tuple(checks),
        not_made=tuple(name for name in _OF_THE_JUDGE if name not in made),
    )


def _checks(wanted: _Wanted) -> Iterator[HealthCheck]:
    packages = machine.packages()
    yield packages
    yield from machine.surroundings()
    if packages.status != "failed":
        yield from machine.processing(wanted.settings, model_is_here=opening.evaluates_here(wanted.judge))
        yield from _checks_of_the_judge(wanted)


def _checks_of_the_judge(wanted: _Wanted) -> Iterator[HealthCheck]:
    """From the file inwards, up to what cannot be opened."""
    from localjudge.doctor import machine as model_checks

    name = "model file"
    try:
        model = opening.find_model(wanted.judge, wanted.settings.engine)
        yield model_checks.file_check(model) if isinstance(model, ModelFile) else model_checks.served_check(model)
        name = "model"
        metadata = judges.metadata_of(model, wanted.settings)
        name = "prompts"
        profile = judges.profile_for(model.profile, metadata, wanted.settings).profile
        name = "model"
        free = hardware.available_bytes()
        engine = opening.open_engine(model, wanted.settings.engine, begin_of_text=profile.begin_of_text)
    except UsageError as error:
        yield failed_with(name, error)
        return
    except OutOfResource as error:
        yield failed_with("model memory", error)
        return
    with closing(engine):
        if is_inspectable(engine):
            yield model_checks.model_check(engine)
            yield model_checks.memory_check(engine, free)
            yield model_checks.fork_check(engine)
        else:
            yield from model_checks.checks_of_server(engine)
        try:
            ends = judges.chat_around(profile, engine)
        except UsageError as error:
            yield failed_with("chat template", error)
            return
        yield model_checks.template_check(profile, ends)
        interview = Interview(
            engine, profile, ends, settings=wanted.settings, progress=wanted.progress, extent=wanted.extent
        )
        yield from interview.checks()


_EVERY_QUESTION = ("context_recall", "context_relevancy", "context_relevancy_chunk", "context_precision")
"""Metrics that together ask whatever every judge can be asked."""
_PROBED = ("attribution", "relevance_sentence", "relevance_chunk")


class _Phase(NamedTuple):
    """A check that asks the judge, and how many verdicts it takes."""

    name: str
    verdicts: int
    make: Callable[[], HealthCheck]


class Interview:
    """All checks that ask an open engine.

    A judge that has no words for a question is not asked it; one that lacks any of the probes' is asked no probe.
    """

    def __init__(
        self,
        engine: ReadableEngine,
        profile: PromptProfile,
        ends: ChatEnds | None,
        *,
        settings: RunSettings,
        progress: Progress,
        extent: Extent,
    ) -> None:
        self._engine = engine
        self._progress = progress
        self._extent = extent
        self._ways = list(verdicts.asking_modes(profile, ends))
        self._judge = judge = self._ways[0].judge
        demo = plan(str(resources.demo_file()), _EVERY_QUESTION, settings)
        tasks = first_tasks(demo.dataset.samples, demo.metrics, settings.sentences)
        self._tasks = [asked for asked in tasks if judge.has_words_for(asked.task)]
        self._attempts = [attempt for attempt in injection.attempts() if judge.has_words_for(attempt.attacked.task())]
        self._can_probe = not judge.cannot_be_asked(_PROBED)
        self._probed: tuple[ProbeAnswers, ProbeFigures] | None = None
        self._asked = 0

    def checks(self) -> Iterator[HealthCheck]:
        """What is shown to the model, then what it says; last, what it is fit for."""
        judge, engine, progress = self._judge, self._engine, self._progress
        answers, *others = map(self._way_phase, self._ways)
        needed = [
            _Phase(
                "prompts", 0, partial(model_checks.read_back_check, engine, list(map(judge.request, self._shown())))
            ),
            answers,
            _Phase("asked again", verdicts.asked_again(judge), partial(verdicts.again_check, judge, engine, progress)),
        ]
        cases = len(verdicts.cases_for(judge))
        plain = _Phase("plain cases", cases, partial(verdicts.plain_check, judge, engine, progress))
        most_probes = at_most_probes(self._extent.probes) if self._can_probe else NO_PROBES
        most_injected = _injected(len(self._attempts[: self._extent.injections]))
        known = sum(phase.verdicts for phase in (*needed, plain, *others))
        progress.expect(known + len(most_probes.tasks) + most_injected)
        if not (yield from self._all_made(*needed)):
            return
        before, asked = engine.stats, self._asked
        is_judge = yield from self._all_made(plain)
        yield from self._probe_checks(before, len(most_probes.tasks), is_judge=is_judge)
        yield from self._injection_checks(before, most_injected, is_judge=is_judge)
        after, asked = engine.stats, self._asked - asked
        for other in others:
            yield from self._all_made(other)
        yield verdicts.speed_check(before, after, asked)
        yield from self._admission(is_judge)

    def _way_phase(self, way: verdicts.AskingMode) -> _Phase:
        make = partial(verdicts.legal_check, way, self._tasks, self._engine, self._progress)
        return _Phase(way.name, len(way.requests(self._tasks)), make)

    def _shown(self) -> list[Task]:
        """What the judge may be shown by this check."""
        tasks: list[Task] = [asked.task for asked in self._tasks]
        always: list[Task] = [case.task() for case in verdicts.cases_for(self._judge)]
        always += [case.task() for case in injection.cases()]
        always += [attempt.attacked.task() for attempt in self._attempts]
        always += at_most_probes(None).tasks
        return tasks + [task for task in always if self._judge.has_words_for(task)]

    def _probe_checks(self, before: EngineStats, most: int, *, is_judge: bool) -> Iterator[HealthCheck]:
        """One phase that asks as many passages as suit its speed since `before`, and what its answers say."""
        wanted, judge, choice = self._extent.probes, self._judge, NO_PROBES
        if self._can_probe and (is_judge or wanted):
            choice = chosen_probes(wanted, judge, self._engine, self._seconds_per_token(before))
        self._progress.expect(len(choice.tasks) - most)

        def ask_all() -> HealthCheck:
            answers = probe_answers(judge, self._engine, self._progress, choice)
            self._probed = answers, probe_figures(answers)
            return probes_check(*self._probed)

        if choice.passages:
            yield from self._all_made(_Phase("probes", len(choice.tasks), ask_all))
        if self._probed:
            yield from probe_checks(self._probed[1])

    def _injection_checks(self, before: EngineStats, most: int, *, is_judge: bool) -> Iterator[HealthCheck]:
        """The attempts that suit its speed since `before`."""
        judge, engine, chosen = self._judge, self._engine, verdicts.Chosen((), "")
        if is_judge and self._attempts:
            speed = self._seconds_per_token(before)
            chosen = verdicts.chosen_attempts(self._extent.injections, judge, engine, speed)
        injected = _injected(len(chosen.attempts))
        self._progress.expect(injected - most)
        if injected:
            make = partial(verdicts.injection_check, judge, engine, self._progress, chosen)
            yield from self._all_made(_Phase("injections", injected, make))

    def _admission(self, is_judge: bool) -> Iterator[HealthCheck]:
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
            asked = {"engine": self._engine.identity, "judge": self._judge.identity}
            remember_examination(asked, Examination(uses=uses, items=items))
        yield check

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
            else:
                self._asked += phase.verdicts
            yield check
            if check.status == "failed":
                return False
        return True


def _injected(attempts: int) -> int:
    """Verdicts that so many attempts take: the cases are also asked without any."""
    return len(injection.cases()) + attempts if attempts else 0
