"""Makes the checks in their order; what fails ends what needs it, and nothing else."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import NamedTuple, Unpack

from localjudge.doctor import machine
from localjudge.doctor.extent import ADMISSION, Extent, Use
from localjudge.doctor.health_check import Diagnosis, HealthCheck, failed_with, worst_status
from localjudge.engine import hardware, opening
from localjudge.engine.protocol import is_inspectable
from localjudge.errors import OutOfResource, UsageError
from localjudge.model_registry import ModelFile
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
        yield from machine.processing(wanted.settings, model_is_here=not opening.is_server(wanted.judge))
        yield from _checks_of_the_judge(wanted)


def _checks_of_the_judge(wanted: _Wanted) -> Iterator[HealthCheck]:
    """From the file inwards, up to what cannot be opened."""
    from localjudge.doctor import model_checks
    from localjudge.doctor.interview import Interview

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
