"""Makes the checks in their order; what fails ends what needs it, and nothing else."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import NamedTuple, Unpack

from localjudge import model_registry
from localjudge.doctor import machine
from localjudge.doctor.health_check import Diagnosis, HealthCheck, failed_with, worst_status
from localjudge.doctor.sockets import network_check, network_watched
from localjudge.engine import hardware
from localjudge.errors import OutOfResource, UsageError
from localjudge.progress import Progress, Silence
from localjudge.run import judges
from localjudge.run.settings import Options, RunSettings, checked

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


def examine(
    judge: str = judges.DEFAULT_JUDGE,
    *,
    injections: int | None = None,
    progress: Progress | None = None,
    on_check: Callable[[HealthCheck], object] | None = None,
    **options: Unpack[Options],
) -> Diagnosis:
    """Look at a judge and at the machine that it would run on.

    `injections` is how many attempts to talk it into a verdict are made: none if 0; if None, as many as take about two
    minutes. `on_check` is called with each finding when it is there. What is wrong with the judge or with the machine
    is a failed check, not an error. What a check that was interrupted has asked is not asked again. Raises UsageError
    for options that cannot be.
    """
    wanted = _Wanted(judge, checked(options), injections, progress or Silence())
    checks: list[HealthCheck] = []

    def add(check: HealthCheck) -> None:
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
        result=worst_status(checks),
        checks=tuple(checks),
        not_made=tuple(name for name in _OF_THE_JUDGE if name not in made),
    )


def _checks(wanted: _Wanted) -> Iterator[HealthCheck]:
    packages = machine.packages()
    yield packages
    yield from machine.surroundings()
    if packages.status != "failed":
        yield from machine.processing(wanted.settings)
        yield from _checks_of_the_judge(wanted)


def _checks_of_the_judge(wanted: _Wanted) -> Iterator[HealthCheck]:
    """From the file inwards, up to what cannot be opened."""
    from localjudge.doctor import model_checks
    from localjudge.doctor.interview import Interview
    from localjudge.doctor.kept_answers import KeptAnswers

    name = "model file"
    try:
        file = model_registry.find(wanted.judge)
        yield model_checks.file_check(file)
        name = "model"
        metadata = judges.metadata_of(file, wanted.settings)
        name = "prompts"
        profile = judges.profile_for(file.profile, metadata, wanted.settings).profile
        name = "model"
        free = hardware.available_bytes()
        engine = judges.open_engine(file, wanted.settings.engine, begin_of_text=profile.begin_of_text)
    except UsageError as error:
        yield failed_with(name, error)
        return
    except OutOfResource as error:
        yield failed_with("model memory", error)
        return
    with closing(engine):
        yield model_checks.model_check(engine)
        yield model_checks.memory_check(engine, free)
        yield model_checks.fork_check(engine)
        try:
            ends = judges.chat_around(profile, engine)
        except UsageError as error:
            yield failed_with("chat template", error)
            return
        yield model_checks.template_check(profile, ends)
        kept = KeptAnswers(engine)
        interview = Interview(engine, wanted.settings, wanted.progress, kept=kept, injections=wanted.injections)
        yield from interview.checks(profile, ends)
        kept.forget()
