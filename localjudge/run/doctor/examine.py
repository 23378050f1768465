"""Makes the checks in their order; what fails ends what needs it, and nothing else."""

from collections.abc import Callable, Generator, Iterator, Mapping
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
from localjudge.run.doctor.check import Check, Diagnosis, failed_with, gravest
from localjudge.run.doctor.plain_cases import plain_cases
from localjudge.run.doctor.sockets import network_check, network_watched
from localjudge.run.estimate import first_tasks
from localjudge.run.plan import plan
from localjudge.run.progress import Progress, Silence
from localjudge.run.settings import Options, RunSettings, checked

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
    "asked again",
    "plain cases",
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
    with network_watched() as seen:
        try:
            checks = list(_checks(wanted))
        finally:
            wanted.progress.close()
    checks.append(network_check(seen))
    made = {check.name for check in checks}
    return Diagnosis(
        judge=judge,
        result=gravest(checks),
        checks=tuple(checks),
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
        name = "prompts"
        profile = judges.profile_for(file, wanted.settings)
        name = "model"
        header = model_check.check(file.path)
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
    """What is shown to the model, then what it says."""
    from localjudge.run.doctor import model, verdicts

    settings, progress = wanted.settings, wanted.progress
    demo = plan(str(resources.demo_file()), None, settings)
    tasks = first_tasks(demo, settings.sentences)
    ways = list(verdicts.manners(profile, ends))
    judge = ways[0].judge
    shown = [one.task for one in tasks] + [case.task() for case in plain_cases()]
    shown += [attempt.attacked.task() for attempt in injection.attempts()]
    usable = yield from _in_turn(
        {
            "prompts": lambda: model.read_back_check(engine, [judge.request(task) for task in shown]),
            **{way.name: partial(verdicts.legal_check, way, tasks, engine, progress) for way in ways},
            "asked again": lambda: verdicts.again_check(judge, engine, progress),
        }
    )
    if not usable:
        return
    before, asked = engine.effort, len(plain_cases())
    yield verdicts.plain_check(judge, engine, progress)
    if wanted.injections:
        asked += len(injection.cases()) + len(list(injection.attempts()))
        yield verdicts.injection_check(judge, engine, progress)
    yield verdicts.speed_check(before, engine.effort, asked)


def _in_turn(checks: Mapping[str, Callable[[], Check]]) -> Generator[Check, None, bool]:
    """Make one after the other until one fails, by its finding or by an error; whether none did."""
    for name, make in checks.items():
        try:
            check = make()
        except (UsageError, SampleError) as error:
            check = failed_with(name, error)
        yield check
        if check.status == "failed":
            return False
    return True
