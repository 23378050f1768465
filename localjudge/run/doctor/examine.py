"""Makes the checks in their order; what fails ends what needs it, and nothing else.

The progress is told of all verdicts before the first is asked: the injections at their most, until the plain cases have
shown how fast the judge is.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Unpack

from localjudge import model_registry, resources
from localjudge.engine import memory, model_check
from localjudge.engine.protocol import Effort
from localjudge.errors import OutOfResource, SampleError, UsageError
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
    "asked again",
    "plain cases",
    "injections",
    "speed",
)


class _Wanted(NamedTuple):
    judge: str
    settings: RunSettings
    injections: int | None
    progress: Progress


class _Phase(NamedTuple):
    """A check that asks the judge, and how many verdicts it takes."""

    name: str
    verdicts: int
    make: Callable[[], Check]


def examine(
    judge: str = judges.DEFAULT_JUDGE,
    *,
    injections: int | None = None,
    progress: Progress | None = None,
    on_check: Callable[[Check], object] | None = None,
    **options: Unpack[Options],
) -> Diagnosis:
    """Look at a judge and at the machine that it would run on.

    `injections` is how many attempts to talk it into a verdict are made: none if 0; if None, as many as take about two
    minutes. `on_check` is called with each finding when it is there. What is wrong with the judge or with the machine
    is a failed check, not an error. Raises UsageError for options that cannot be.
    """
    wanted = _Wanted(judge, checked(options), injections, progress or Silence())
    checks: list[Check] = []

    def add(check: Check) -> None:
        wanted.progress.pause()
        checks.append(check)
        if on_check is not None:
            on_check(check)

    with network_watched() as seen:
        try:
            for check in _checks(wanted):
                add(check)
        finally:
            wanted.progress.close()
    add(network_check(seen))
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
    except OutOfResource as error:
        yield failed_with("model memory", error)
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
    tasks = first_tasks(demo, Segmenter(settings.language, settings.segmenter))
    ways = list(verdicts.manners(profile, ends))
    judge = ways[0].judge
    attempts = list(injection.attempts())
    most = len(attempts[: wanted.injections])
    shown = [one.task for one in tasks] + [case.task() for case in plain_cases()]
    shown += [attempt.attacked.task() for attempt in attempts]
    phases = [
        _Phase("prompts", 0, lambda: model.read_back_check(engine, [judge.request(task) for task in shown])),
        *(
            _Phase(way.name, len(way.requests(tasks)), partial(verdicts.legal_check, way, tasks, engine, progress))
            for way in ways
        ),
        _Phase("asked again", 2 * len(verdicts.asked_twice()), lambda: verdicts.again_check(judge, engine, progress)),
    ]
    plain = _Phase("plain cases", len(plain_cases()), lambda: verdicts.plain_check(judge, engine, progress))
    injected = len(injection.cases()) + most if most else 0
    progress.expect(sum(phase.verdicts for phase in (*phases, plain)) + injected)
    usable = yield from _in_turn(phases, progress)
    if not usable:
        return
    before = engine.effort
    usable = yield from _in_turn([plain], progress)
    asked = plain.verdicts
    if usable and most:
        chosen = verdicts.chosen_attempts(wanted.injections, judge, engine, _seconds_per_token(before, engine.effort))
        progress.expect(len(chosen.attempts) - most)
        asked += len(injection.cases()) + len(chosen.attempts)
        check = partial(verdicts.injection_check, judge, engine, progress, chosen)
        yield from _in_turn([_Phase("injections", asked - plain.verdicts, check)], progress)
    yield verdicts.speed_check(before, engine.effort, asked)


def _seconds_per_token(before: Effort, after: Effort) -> float:
    return (after.seconds_total - before.seconds_total) / max(after.evaluated_tokens - before.evaluated_tokens, 1)


def _in_turn(phases: Iterable[_Phase], progress: Progress) -> Generator[Check, None, bool]:
    """Make one check after the other until one fails, by its finding or by an error; whether none did."""
    for phase in phases:
        progress.phase(phase.name)
        try:
            check = phase.make()
        except (UsageError, SampleError, OutOfResource) as error:
            check = failed_with(phase.name, error)
        yield check
        if check.status == "failed":
            return False
    return True
