"""Looks at a judge and at the machine that it would run on; what fails ends what needs it, and nothing else.

    machine      packages, memory, state folder, processor, GPU
    model        file, architecture, memory, self-check of shared prompts, chat template
    judge        prompts ─ answers ─ asked again ─ plain cases ─ probes ─ injections ─ other ways to answer ─ speed
                 └── without these, no more ──┘    └── not of a judge that guesses; the probes, if they are asked for
    admission    what it is fit for: ranking, means, thresholds or nothing

What is wrong is a finding, not an error. A judge that has no words for a question is not asked it; one that lacks any
of the probes' is asked no probe.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

from localjudge import resources
from localjudge.doctor import fitness, judgement, machine
from localjudge.doctor.fitness import ProbeFigures
from localjudge.doctor.health_check import ADMISSION, Diagnosis, HealthCheck, Use, failed_with, worst_status
from localjudge.doctor.probes import PER_PASSAGE, probe_tasks
from localjudge.engine import hardware, opening
from localjudge.engine.protocol import NamedModel, ReadableEngine
from localjudge.errors import InputError, OutOfResource, SampleError
from localjudge.judge.profile import PromptProfile
from localjudge.metrics.catalog import one_for_each_task
from localjudge.model_registry import ModelFile
from localjudge.progress import Progress, Silence
from localjudge.record.manifest import Examination, remember_examination
from localjudge.run import judges
from localjudge.run.estimate import first_tasks
from localjudge.run.loop import TaskRef
from localjudge.run.plan import plan
from localjudge.run.settings import RunSettings, checked
from localjudge.types import ChatEnds, Task, VerdictRequest

_OF_THE_JUDGE = (
    *("model file", "model", "model memory", "shared prompts", "chat template", "prompts", "answers", "asked again"),
    *("plain cases", "probes", "injections", "speed", ADMISSION),
)
_FINDINGS = (InputError, SampleError, OutOfResource)
_PROBED = ("attribution", "relevance_sentence", "relevance_chunk")


class _Order(NamedTuple):
    """What to look at, how many attempts and items to put to it (None: by its speed), what it has to be fit for."""

    judge: str
    settings: RunSettings
    injections: int | None
    probes: int | None
    required: Use | None
    progress: Progress


def examine(
    judge: str = judges.DEFAULT_JUDGE,
    *,
    injections: int | None = None,
    probes: int | None = None,
    required: Use | None = None,
    progress: Progress | None = None,
    on_check: Callable[[HealthCheck], object] | None = None,
    **options: Any,
) -> Diagnosis:
    """Look at a judge and at the machine that it would run on.

    `injections` is how many attempts to talk it into a verdict are made: none if 0; if None, as many as take about two
    minutes. `probes` is how many labelled items are asked, in whole passages of twelve, up to all: none if 0; if None,
    as many as take about five minutes, and none of a judge that fails the plain cases. Below `required` the admission,
    which is the last check, is failed. `on_check` is called with each finding when it is there. What is wrong with the
    judge or with the machine is a failed check, not an error. Raises InputError for options that cannot be.
    """
    order = _Order(judge, checked(options), injections, probes, required, progress or Silence())
    checks: list[HealthCheck] = []
    try:
        for check in _checks(order):
            order.progress.pause()
            checks.append(check)
            if on_check is not None:
                on_check(check)
    finally:
        order.progress.close()
    made = {check.name for check in checks}
    return Diagnosis(
        judge=judge,
        result=worst_status(checks),
        checks=tuple(checks),
        not_made=tuple(name for name in _OF_THE_JUDGE if name not in made),
    )


def _checks(order: _Order) -> Iterator[HealthCheck]:
    packages = machine.packages()
    yield packages
    yield machine.free_memory()
    yield machine.state_folder()
    yield machine.answer_cache()
    if packages.status == "failed":
        return
    yield machine.processor(order.settings)
    try:
        model = opening.find_model(order.judge, order.settings.engine)
    except (InputError, OutOfResource) as error:
        yield failed_with("model file", error)
        return
    if isinstance(model, ModelFile):
        yield machine.gpu_check(opening.engine_build(), order.settings.gpu_layers)
    yield machine.file_check(model)
    yield from _checks_of_the_model(order, model)


def _checks_of_the_model(order: _Order, model: NamedModel) -> Iterator[HealthCheck]:
    """From the file inwards, up to what cannot be opened."""
    settings, name = order.settings, "model"
    try:
        metadata = judges.metadata_of(model, settings)
        name = "prompts"
        profile = judges.profile_for(model.profile, metadata, settings).profile
        name = "model"
        free = hardware.available_bytes()
        engine = opening.open_engine(model, settings.engine, begin_of_text=profile.begin_of_text)
    except InputError as error:
        yield failed_with(name, error)
        return
    except OutOfResource as error:
        yield failed_with("model memory", error)
        return
    with closing(engine):
        yield from machine.engine_checks(engine, free)
        try:
            ends = judges.chat_around(profile, engine)
        except InputError as error:
            yield failed_with("chat template", error)
            return
        yield machine.template_check(profile, ends)
        yield from Interview(order, engine, profile, ends).checks()


class Interview:
    """All checks that ask an open engine."""

    def __init__(self, order: _Order, engine: ReadableEngine, profile: PromptProfile, ends: ChatEnds | None) -> None:
        self._order = order
        self._engine = engine
        (_, self._writer), *_ = self._modes = list(judgement.asking_modes(profile, ends))
        self._judge = judgement.Examinee(self._writer, engine, order.progress)

    def checks(self) -> Iterator[HealthCheck]:
        """What is shown to the model, then what it says; last, what it is fit for."""
        judge, settings = self._judge, self._order.settings
        demo = plan(str(resources.demo_file()), one_for_each_task(), settings)
        first = first_tasks(demo.dataset.samples, demo.metrics, settings.sentences)
        tasks = [asked for asked in first if self._writer.has_words_for(asked.task)]
        (mode, writer), *others = self._modes
        for name, make in (
            ("prompts", lambda: machine.read_back_check(self._engine, self._all_requests(tasks))),
            (mode.name, lambda: judgement.answers_check(mode, judge, mode.requests(writer, tasks))),
            ("asked again", lambda: judgement.again_check(judge)),
        ):
            check = self._made(name, make)
            yield check
            if check.status == "failed":
                return
        judge.start_clock()
        plain = self._made("plain cases", lambda: judgement.plain_check(judge))
        yield plain
        is_judge = plain.status != "failed"
        figures = yield from self._probe_checks(is_judge=is_judge)
        selected, why = judgement.choose_attempts(judge, self._order.injections) if is_judge else ([], "")
        if selected:
            yield self._made("injections", lambda: judgement.injection_check(judge, selected, why))
        speed = judge.speed_check()
        for mode, writer in others:
            yield self._made(mode.name, partial(judgement.answers_check, mode, judge, mode.requests(writer, tasks)))
        yield speed
        yield from self._admission(figures, is_judge=is_judge)

    def _all_requests(self, tasks: list[TaskRef]) -> list[VerdictRequest]:
        """What the judge may be shown by this examination."""
        cases = [*judgement.plain_cases(), *judgement.attacked_cases()]
        cases += [attempt.attacked for attempt in judgement.attempts()]
        bundled: list[Task] = [*(case.task() for case in cases), *probe_tasks()]
        bundled = [task for task in bundled if self._writer.has_words_for(task)]
        return [self._writer.request(task) for task in (*(asked.task for asked in tasks), *bundled)]

    def _made(self, name: str, make: Callable[[], HealthCheck]) -> HealthCheck:
        """The check; what it raises is its finding."""
        self._order.progress.phase(name)
        try:
            return make()
        except _FINDINGS as error:
            return failed_with(name, error)

    def _probe_checks(self, *, is_judge: bool) -> Generator[HealthCheck, None, ProbeFigures | None]:
        """As many passages as are asked for, or suit its speed, and what its answers say."""
        if self._writer.cannot_be_asked(_PROBED) or not (is_judge or self._order.probes):
            return None
        choice = fitness.choose_passages(self._judge, self._order.probes)
        if not choice.first:
            return None
        self._order.progress.phase("probes")
        try:
            figures, checks = fitness.measure(choice, self._judge.ask(probe_tasks(choice.first)))
        except _FINDINGS as error:
            yield failed_with("probes", error)
            return None
        yield from checks
        return figures

    def _admission(self, figures: ProbeFigures | None, *, is_judge: bool) -> Iterator[HealthCheck]:
        """What the judge is fit for, which is remembered if it was decided."""
        check = fitness.admission_check(figures, passes_plain_cases=is_judge, required=self._order.required)
        if check is None:
            return
        if (uses := check.figures["uses"]) is not None:
            items = PER_PASSAGE * figures.passages if figures else 0
            asked = {"engine": self._engine.identity, "judge": self._writer.identity}
            remember_examination(asked, Examination(uses=uses, items=items))
        yield check
