"""Looks at a judge and at the machine that it would run on; what fails ends what needs it, and nothing else.

    machine      packages, memory, state folder, answer cache, processor, GPU
    model        file, architecture, memory, self-check of shared prompts, chat template
    judge        prompts ─ answers ─ asked again ─ plain cases ─ probes ─ injections ─ speed
                 └── without these, no more ──┘    └── not of a judge that guesses; the probes, if they are asked for
    admission    what it is fit for: ranking, means, thresholds or nothing

What is wrong is a finding, not an error. A judge that has no words for a question is not asked it; one that lacks any
of the probes' is asked no probe.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any, NamedTuple

from localjudge import resources
from localjudge.doctor import fitness, judgement, machine
from localjudge.doctor.fitness import ProbeFigures
from localjudge.doctor.health_check import ADMISSION, Diagnosis, HealthCheck, Use, failed
from localjudge.doctor.probes import PER_PASSAGE, probe_tasks
from localjudge.engine import hardware, opening
from localjudge.engine.protocol import NamedModel, ReadableEngine
from localjudge.errors import InputError, OutOfResource, SampleError
from localjudge.judge.wording import PromptWriter
from localjudge.metrics.catalog import one_for_each_task
from localjudge.model_registry import ModelFile
from localjudge.progress import Progress, Silence
from localjudge.record.examination import Examination, remember_examination
from localjudge.run import judges
from localjudge.run.estimate import first_tasks
from localjudge.run.plan import plan
from localjudge.run.settings import RunSettings, checked

_OF_THE_JUDGE = (
    *("model file", "model", "model memory", "shared prompts", "chat template", "prompts", "answers", "asked again"),
    *("plain cases", "probes", "injections", "speed", ADMISSION),
)
_FINDINGS = (InputError, SampleError, OutOfResource)
_PROBED = ("attribution", "relevance_sentence", "relevance_chunk")
Checks = Iterator[HealthCheck]


class _Order(NamedTuple):
    """What to look at, how many attempts and items to put to it (None: by its speed), what it has to be fit for."""

    judge: str
    settings: RunSettings
    injections: int | None
    probes: int | None
    required: Use | None
    progress: Progress

    def check(self, name: str, make: Callable[[], HealthCheck]) -> HealthCheck:
        """The check; what it raises is its finding."""
        self.progress.phase(name)
        try:
            return make()
        except _FINDINGS as error:
            return failed(name, error.message, error.hint)


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
    statuses = {check.status for check in checks}
    return Diagnosis(
        judge=judge,
        result="failed" if "failed" in statuses else "warning" if "warning" in statuses else "ok",
        checks=tuple(checks),
        not_made=tuple(name for name in _OF_THE_JUDGE if name not in made),
    )


def _checks(order: _Order) -> Checks:
    packages = machine.check_packages()
    yield packages
    yield machine.check_memory()
    yield machine.check_state_folder()
    yield machine.check_answer_cache()
    if packages.status == "failed":
        return
    yield machine.check_processor(order.settings)
    try:
        model = opening.find_model(order.judge, order.settings.engine)
    except (InputError, OutOfResource) as error:
        yield failed("model file", error.message, error.hint)
        return
    if isinstance(model, ModelFile):
        yield machine.check_gpu(opening.engine_build(), order.settings.gpu_layers)
    yield machine.check_file(model)
    yield from _checks_of_the_model(order, model)


def _checks_of_the_model(order: _Order, model: NamedModel) -> Checks:
    """From the file inwards, up to what cannot be opened."""
    settings, name = order.settings, "model"
    try:
        metadata = judges.metadata_of(model, settings)
        name = "prompts"
        profile = judges.profile_for(model.profile, metadata, settings).profile
        name = "model"
        free = hardware.available_bytes()
        engine = opening.open_engine(model, settings.engine, begin_of_text=profile.begin_of_text)
    except (InputError, OutOfResource) as error:
        name = "model memory" if isinstance(error, OutOfResource) else name
        yield failed(name, error.message, error.hint)
        return
    with closing(engine):
        yield from machine.check_engine(engine, free)
        try:
            ends = judges.chat_around(profile, engine)
            writer = PromptWriter(profile, ends)
        except InputError as error:
            yield failed("chat template", error.message, error.hint)
            return
        yield machine.check_template(profile, ends)
        yield from _checks_of_the_judge(order, engine, judgement.Examinee(writer, engine, order.progress))


def _checks_of_the_judge(order: _Order, engine: ReadableEngine, judge: judgement.Examinee) -> Checks:
    """What is shown to the model, then what it says; last, what it is fit for."""
    demo = plan(str(resources.demo_file()), one_for_each_task(), order.settings)
    first = first_tasks(demo.dataset.samples, demo.metrics, order.settings.sentences)
    tasks = [asked for asked in first if judge.writer.has_words_for(asked.task)]
    cases = [*judgement.plain_cases(), *judgement.attacked_cases()]
    cases += [attempt.attacked for attempt in judgement.attempts()]
    shown = [*(asked.task for asked in tasks), *(case.task() for case in cases), *probe_tasks()]
    requests = [judge.writer.request(task) for task in shown if judge.writer.has_words_for(task)]
    for name, make in (
        ("prompts", lambda: machine.check_prompts(engine, requests)),
        ("answers", lambda: judgement.check_answers(judge, tasks)),
        ("asked again", lambda: judgement.check_again(judge)),
    ):
        check = order.check(name, make)
        yield check
        if check.status == "failed":
            return
    judge.start_clock()
    plain = order.check("plain cases", lambda: judgement.check_plain_cases(judge))
    yield plain
    is_judge = plain.status != "failed"
    figures = yield from _probe(order, judge, is_judge=is_judge)
    selected, why = judgement.choose_attempts(judge, order.injections) if is_judge else ([], "")
    if selected:
        yield order.check("injections", lambda: judgement.check_injections(judge, selected, why))
    yield judge.check_speed()
    if figures is None and is_judge and not order.required:
        return
    admission = fitness.check_admission(figures, passes_plain_cases=is_judge, required=order.required)
    if (uses := admission.figures["uses"]) is not None:
        items = PER_PASSAGE * figures.passages if figures else 0
        asked = {"engine": engine.identity, "judge": judge.writer.identity}
        remember_examination(asked, Examination(uses=uses, items=items))
    yield admission


def _probe(
    order: _Order, judge: judgement.Examinee, *, is_judge: bool
) -> Generator[HealthCheck, None, ProbeFigures | None]:
    """As many passages as are asked for, or suit its speed, and what its answers say."""
    if judge.writer.cannot_be_asked(_PROBED) or not (is_judge or order.probes):
        return None
    count, why = fitness.choose_passages(judge, order.probes)
    if not count:
        return None
    order.progress.phase("probes")
    try:
        figures, checks = fitness.measure(count, why, judge.ask(probe_tasks(count)))
    except _FINDINGS as error:
        yield failed("probes", error.message, error.hint)
        return None
    yield from checks
    return figures
