"""Open a judge: a model with its prompt profile and engine."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from localjudge import model_registry
from localjudge.engine.opening import can_judge, find_model, model_metadata, open_engine
from localjudge.engine.protocol import DescribedEngine, Engine
from localjudge.errors import InputError, LocaljudgeError
from localjudge.judge.profile import ChosenProfile, PromptProfile
from localjudge.judge.wording import PromptWriter
from localjudge.judging.settings import RunSettings
from localjudge.local_models import FoundModel, list_models
from localjudge.metrics import Metric
from localjudge.metrics.catalog import get_question, list_special_tasks
from localjudge.progress import Progress
from localjudge.run_directory.differences import format_differences, format_updates
from localjudge.run_directory.manifest import UNPROVED, EngineIdentity, JudgeIdentity
from localjudge.run_directory.reuse import EarlierAnswers, OtherRun
from localjudge.types import ChatEnds, JudgeCard
from localjudge.words import numbered, option

BUNDLED_JUDGE = "bundled"
"""Registered name of the judge that comes with the package."""
JUDGE_VARIABLE = "LOCALJUDGE_JUDGE"
"""Environment variable with the judge of commands that name none."""
JudgeName = str | Path
"""A registered name, the path of a GGUF file, or a name from `localjudge models`."""


class LoadedJudge(NamedTuple):
    """A judge with its engine. `source` is the name or absolute path of its model."""

    prompts: PromptWriter
    engine: Engine
    card: JudgeCard
    announcement: str
    source: str | None = None
    memory: EarlierAnswers | None = None

    @property
    def memory_bytes(self) -> int:
        """Estimated memory of the model and its context."""
        return self.engine.memory_bytes


def default_judge() -> str:
    """Return the judge or jury if none is named: LOCALJUDGE_JUDGE, else the bundled one."""
    return os.environ.get(JUDGE_VARIABLE) or BUNDLED_JUDGE


def default_single_judge() -> str:
    """Return the default judge, or the first judge of the default jury."""
    return model_registry.expand_jury(default_judge())[0]


@contextmanager
def use_judge(
    judge: JudgeName | LoadedJudge | None,
    engine: Engine | None,
    settings: RunSettings,
    progress: Progress | None = None,
) -> Iterator[LoadedJudge]:
    """Open a judge, by default `default_judge`, and close it at the end. A given engine replaces the model.

    Raises ModelError if the model cannot be found or used, InputError for an invalid judge.
    """
    chosen, source, memory = None, None, None
    with ExitStack() as stack:
        if isinstance(judge, LoadedJudge):
            engine, source, memory = judge.engine, judge.source, judge.memory
        elif engine is None:
            if not isinstance(judge, str | Path | None):
                hint = f"use {option('judge', 'model.gguf')}; only localjudge.evaluate accepts an open judge"
                raise InputError(f"a judge must be a name or a path, got {judge!r:.80}", hint=hint)
            file = find_model(str(judge or default_single_judge()))
            source = file.source
            # An unusable profile is refused before gigabytes are loaded.
            chosen = settings.profile_for(file.profile, model_metadata(file))
            begin_of_text = chosen.profile.begin_of_text
            engine = open_engine(
                file, settings.engine, begin_of_text=begin_of_text, progress=progress
            )
            stack.callback(engine.close)
        opened = wrap_engine(engine, settings, chosen)._replace(source=source, memory=memory)
        if judge is None and source and (others := other_judges()):
            opened = opened._replace(announcement=f"{opened.announcement}\n{others}")
        yield opened


def other_judges() -> str:
    """Name the models on this machine that can judge, from file names and the beginnings of headers."""
    models: dict[Path, str] = {}
    with suppress(LocaljudgeError, OSError, ValueError):  # advice never ends a run
        for program in ("ollama", "hf", "lmstudio"):
            for model in list_models(program):
                if isinstance(model, FoundModel) and can_judge(model.path):
                    models.setdefault(model.path.resolve(), model.source)
    example = option("judge", next(iter(models.values()), ""))
    return (
        f"{numbered(len(models), 'model')} on this machine can judge, for example {example}"
        if models
        else ""
    )


def wrap_engine(
    engine: Engine, settings: RunSettings, chosen: ChosenProfile | None = None
) -> LoadedJudge:
    """Wrap an open engine as a judge, with the `chosen` profile or the one for its model.

    Raises ModelError if the chat template cannot be rendered.
    """
    identity = EngineIdentity(**engine.identity)
    registered = model_registry.registered_as(str(identity.model_sha256))
    metadata = engine.metadata if isinstance(engine, DescribedEngine) else {}
    profile, why = chosen or settings.profile_for(
        registered.profile if registered else None, metadata
    )
    judge = PromptWriter(profile, chat_around(profile, engine), reasons=settings.reasons)
    card = identity.card(engine.name or identity.engine)
    note = f": {registered.note}" if registered and registered.note else ""
    advice = (
        f"; name a larger model with {option('judge')}"
        if card.caution and not identity.is_unproved
        else ""
    )
    sha256 = (
        f"sha256 {card.sha256[:12]}, "
        if card.sha256
        else f"{UNPROVED}, "
        if identity.is_unproved
        else ""
    )
    asked_by = f"profile {profile.name}, {why}: " if why and not note else ""
    reads = profile.description if profile.instructions else "follows no instructions"
    costly = "; it cannot share prompts on this machine, so every verdict evaluates a whole prompt"
    slow = "" if engine.shares_prefixes else costly
    announcement = f"judge {card.name}{note}{advice} ({sha256}{asked_by}{reads}{slow})"
    return LoadedJudge(judge, engine, card, announcement)


def identity_of(
    judge: LoadedJudge, metrics: Sequence[Metric], settings: RunSettings
) -> JudgeIdentity:
    rule, words = (
        settings.rule_for(metrics),
        judge.prompts.identity_for(list_special_tasks(metrics)),
    )
    engine, sentences = judge.engine.identity, settings.sentences.identity
    calibrations = {
        calibration.question: calibration.sha256 for calibration in settings.calibration
    }
    return JudgeIdentity.of(engine, words, sentences, metrics, rule, calibrations)


def announce_calibrations(
    part: JudgeIdentity, metrics: Sequence[Metric], settings: RunSettings, progress: Progress
) -> None:
    """Report the calibrations. Raises InputError for a calibration of another judge or question."""
    for calibration in settings.calibration:
        decided = [
            metric for metric in metrics if get_question(metric.name) == calibration.question
        ]
        if not decided:
            of_question = f"the calibration {calibration.name} is for {calibration.question}"
            hint = f"omit {option('calibration', calibration.name)}, or calibrate for a question of this run"
            raise InputError(f"{of_question}, which no metric of this run asks", hint=hint)
        different, rounding = calibration.differences_of_judge(part.measured(decided[0]))
        if different:
            message = f"the calibration {calibration.name} was made with another judge:{format_differences(different)}"
            raise InputError(
                message,
                hint="calibrate this judge: localjudge calibrate LABELS --judge NAME|PATH",
            )
        names = ", ".join(metric.name for metric in decided)
        elsewhere = (
            f"; made with different rounding:{format_differences(rounding)}" if rounding else ""
        )
        progress.note(
            f"calibration {calibration.name}: threshold {calibration.threshold:.3g} for {names}{elsewhere}",
        )


def earlier_answers(
    memory: EarlierAnswers | None,
    part: JudgeIdentity,
    settings: RunSettings,
    progress: Progress,
) -> list[EarlierAnswers]:
    """Return the sources of earlier answers: runs to reuse, and the open judge's memory. Reports other versions."""
    runs = [OtherRun(Path(name), part) for name in settings.reuse]
    for run in runs:
        if run.updates:
            progress.note(
                f"{run.name} was made with other versions ({format_updates(run.updates)})"
            )
    return [*runs, memory] if memory else [*runs]


def chat_around(profile: PromptProfile, engine: Engine) -> ChatEnds | None:
    if profile.converses and isinstance(engine, DescribedEngine):
        return engine.chat_without_ends
    return engine.chat_ends if profile.chat else None
