"""Makes the checks in their order; what fails ends what needs it, and nothing else."""

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Unpack

from localjudge import model_registry, resources
from localjudge.engine import memory, model_check
from localjudge.errors import SampleError, UsageError
from localjudge.judge.chat import ChatEnds
from localjudge.judge.prompts import PromptProfile
from localjudge.run import injection, judges
from localjudge.run.doctor import machine
from localjudge.run.doctor.check import Check, Diagnosis, failed_with, ok, warning
from localjudge.run.doctor.plain_cases import plain_cases
from localjudge.run.doctor.sockets import network_watched
from localjudge.run.estimate import first_tasks
from localjudge.run.plan import plan
from localjudge.run.progress import Progress, Silence
from localjudge.run.settings import Options, RunSettings, checked
from localjudge.text import Segmenter

if TYPE_CHECKING:
    from localjudge.engine.llamacpp import LlamaCppEngine


_OF_THE_JUDGE = (
    "model file",
    "model",
    "model memory",
    "shared prompts",
    "chat template",
    "prompts",
    "answers",
    "plain cases",
    "asked again",
    "injections",
    "speed",
)


class _Wanted(NamedTuple):
    judge: str
    settings: RunSettings
    injections: bool
    progress: Progress


def examine(
    judge: str = judges.DEFAULT_JUDGE,
    *,
    injections: bool = True,
    progress: Progress | None = None,
    **options: Unpack[Options],
) -> Diagnosis:
    """Look at a judge and at the machine that it would run on. `injections=False` leaves out the longest check.

    What is wrong with either is a failed check, not an error. Raises UsageError for options that cannot be.
    """
    wanted = _Wanted(judge, checked(options), injections, progress or Silence())
    with network_watched() as reached:
        try:
            checks = list(_checks(wanted))
        finally:
            wanted.progress.close()
    made = {check.name for check in checks}
    return Diagnosis(
        judge=judge,
        checks=(*checks, _network_check(reached)),
        not_made=tuple(name for name in _OF_THE_JUDGE if name not in made),
    )


def _checks(wanted: _Wanted) -> Iterator[Check]:
    packages = machine.packages()
    yield packages
    yield from machine.surroundings()
    if packages.status != "failed":
        yield from machine.processing(wanted.settings)
        yield from _checks_of_the_judge(wanted)


def _checks_of_the_judge(wanted: _Wanted) -> Iterator[Check]:
    """From the file inwards, up to what cannot be opened."""
    from localjudge.engine.llamacpp import LlamaCppEngine
    from localjudge.run.doctor import model

    name = "model file"
    try:
        file = model_registry.find(wanted.judge)
        yield model.file_check(file)
        name = "model"
        header = model_check.check(file.path)
        profile = judges.profile_for(file, wanted.settings)
        free = memory.available_bytes()
        engine = LlamaCppEngine(file, wanted.settings.engine, begin_of_text=profile.begin_of_text)
    except UsageError as error:
        yield failed_with(name, error)
        return
    with closing(engine):
        yield model.model_check(header, engine)
        yield model.memory_check(engine, free)
        yield model.fork_check(engine)
        try:
            ends = judges.chat_around(profile, engine)
        except UsageError as error:
            yield failed_with("chat template", error)
            return
        yield model.template_check(profile, ends)
        yield from _checks_of_verdicts(wanted, engine, profile, ends)


def _checks_of_verdicts(
    wanted: _Wanted, engine: "LlamaCppEngine", profile: PromptProfile, ends: ChatEnds | None
) -> Iterator[Check]:
    """Each by itself: where one fails, the next is made all the same."""
    from localjudge.run.doctor import model, verdicts

    settings, progress = wanted.settings, wanted.progress
    tasks = first_tasks(
        plan(str(resources.demo_file()), None, settings), Segmenter(settings.language, settings.segmenter)
    )
    ways = list(verdicts.manners(profile, ends))
    judge = ways[0].judge
    shown = [one.task for one in tasks] + [case.task() for case in plain_cases()]
    shown += [attempt.attacked.task() for attempt in injection.attempts()]
    yield from _made("prompts", lambda: model.read_back_check(engine, [judge.request(task) for task in shown]))
    for way in ways:
        yield from _made(way.name, partial(verdicts.legal_check, way, tasks, engine, progress))
    before, asked = engine.effort, len(plain_cases())
    yield from _made("plain cases", lambda: verdicts.plain_check(judge, engine, progress))
    if wanted.injections:
        asked += len(injection.cases()) + len(list(injection.attempts()))
        yield from _made("injections", lambda: verdicts.injection_check(judge, engine, progress))
    yield verdicts.speed_check(before, engine.effort, asked)
    yield from _made("asked again", lambda: verdicts.again_check(judge, engine, progress))


def _made(name: str, check: Callable[[], Check]) -> Iterator[Check]:
    """The check, or the error that it ended with."""
    try:
        yield check()
    except (UsageError, SampleError) as error:
        yield failed_with(name, error)


def _network_check(reached: list[str]) -> Check:
    if reached:
        found = f"Python code of this process made {len(reached)} attempts: {', '.join(dict.fromkeys(reached))}"
        return warning(
            "network", found, "find out which installed package does this; localjudge does not", made=reached
        )
    found = "no internet socket and no look-up by Python code of this process (compiled code was not watched)"
    return ok("network", found, made=reached)
