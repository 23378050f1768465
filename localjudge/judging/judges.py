"""Open a judge: a model with its prompt profile and engine."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from localjudge import model_registry
from localjudge.engine.opening import can_judge, find_model, model_metadata, open_engine
from localjudge.engine.protocol import Engine, EngineStats, has_model_file
from localjudge.errors import InputError, LocaljudgeError
from localjudge.evidence import nearest
from localjudge.judge.profile import PromptProfile
from localjudge.judge.profile_choice import ChosenProfile
from localjudge.judge.wording import PromptWriter
from localjudge.judging.settings import RunSettings
from localjudge.local_models import FoundModel, list_models
from localjudge.metrics import Metric
from localjudge.metrics.catalog import get_question, list_special_tasks
from localjudge.progress import Progress
from localjudge.run_directory.calibration import Calibration
from localjudge.run_directory.differences import format_differences, format_updates
from localjudge.run_directory.identity import (
    UNPROVED,
    EngineIdentity,
    JudgeIdentity,
    PromptsIdentity,
)
from localjudge.run_directory.reuse import AnswerMemory, EarlierAnswers, OtherRun
from localjudge.types import NO_MODEL, ChatEnds, JudgeCard
from localjudge.words import numbered, option

BUNDLED_JUDGE = "bundled"
"""Registered name of the judge that comes with the package."""
JUDGE_VARIABLE = "LOCALJUDGE_JUDGE"
"""Environment variable with the judge of commands that name none."""
JudgeName = str | Path
"""A registered name, the path of a GGUF file, or a name from `localjudge models`."""


@dataclass(eq=False)
class LoadedJudge:
    """A judge with its model in memory.

    `source` is the name or absolute path of its model. `memory` has answers of earlier runs.
    """

    prompts: PromptWriter
    engine: Engine
    card: JudgeCard
    announcement: str
    source: str | None = None
    memory: AnswerMemory | None = None

    @property
    def members(self) -> Sequence["LoadedJudge"]:
        """The judge itself, as a jury has several."""
        return (self,)

    @property
    def memory_bytes(self) -> int:
        """Estimated memory of the model and its context."""
        return self.engine.memory_bytes

    @property
    def stats(self) -> EngineStats:
        """Work so far."""
        return self.engine.stats

    @property
    def origin(self) -> dict[str, object]:
        """Where the model came from, for the environment of a run."""
        return {"judge": self.source}

    def open(self, _place: int) -> "LoadedJudge":
        """Return the judge, as a jury opens one of several."""
        return self

    def identify(
        self, metrics: Sequence[Metric], settings: RunSettings, _progress: Progress
    ) -> JudgeIdentity:
        """Return its part of the signature."""
        return JudgeIdentity.of(
            self.engine.identity,
            self.prompts.identity_for(list_special_tasks(metrics)),
            settings.sentences.identity,
            metrics,
            settings.rule_for(metrics),
            settings.calibration_checksums,
        )


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
    """Open a judge, by default `default_judge`, and close it at the end.

    A loaded judge gets the prompts of these settings and stays open, as does an `engine`, which
    replaces the model. Raises ModelError if the model cannot be found or used, InputError for an
    invalid judge.
    """
    if isinstance(judge, LoadedJudge):
        loaded = wrap_engine(judge.engine, settings)
        loaded.source = judge.source
        loaded.memory = judge.memory
        yield loaded
        return
    if engine is not None:
        yield wrap_engine(engine, settings)
        return
    if not isinstance(judge, str | Path | None):
        raise no_judge(judge, "a judge must be a name or a path")
    file = find_model(str(judge or default_single_judge()))
    # An unusable profile is refused before gigabytes are loaded.
    chosen = settings.profile_for(file.profile, model_metadata(file))
    profile, _ = chosen
    opened = open_engine(
        file,
        settings.engine,
        begin_of_text=profile.begin_of_text,
        progress=progress,
    )
    with closing(opened):
        loaded = wrap_engine(opened, settings, chosen)
        loaded.source = file.source
        if judge is None:
            loaded.announcement = _join_lines(loaded.announcement, other_judges())
        yield loaded


def no_judge(value: object, problem: str) -> InputError:
    example = option("judge", "model.gguf")
    hint = f"use {example}; only localjudge.evaluate accepts an open judge"
    return InputError(f"{problem}, got {value!r:.80}", hint=hint)


def _join_lines(*lines: str) -> str:
    return "\n".join(filter(None, lines))


def other_judges() -> str:
    """Name the models on this machine that can judge.

    Reads file names and the beginnings of headers.
    """
    models: dict[Path, str] = {}
    with suppress(LocaljudgeError, OSError, ValueError):  # advice never ends a run
        for program in ("ollama", "hf", "lmstudio"):
            for model in list_models(program):
                if isinstance(model, FoundModel) and can_judge(model.path):
                    models.setdefault(model.path.resolve(), model.source)
    if not models:
        return ""
    example = option("judge", next(iter(models.values())))
    return f"{numbered(len(models), 'model')} on this machine can judge, for example {example}"


def wrap_engine(
    engine: Engine, settings: RunSettings, chosen: ChosenProfile | None = None
) -> LoadedJudge:
    """Wrap an open engine as a judge, with the `chosen` profile or the one for its model.

    Raises ModelError if the chat template cannot be rendered.
    """
    identity = EngineIdentity(**engine.identity)
    registered = model_registry.registered_as(str(identity.model_sha256))
    if chosen is None:
        chosen = _choose_profile(engine, settings, registered)
    profile, _ = chosen
    chat = find_chat_ends(profile, engine)
    how_read = None
    if profile.head is not None and profile.head.letters is not None:
        how_read = nearest.identity(profile.head.letters, settings.language)
    prompts = PromptWriter(profile, chat, reasons=settings.reasons, nearest=how_read)
    card = identity.card(engine.name or identity.engine, PromptsIdentity(**prompts.identity))
    note = ""
    if registered is not None:
        note = registered.note
    if identity.engine == NO_MODEL:
        announcement = "no metric asks a question, so no judge is opened"
    else:
        announcement = _announce(card, note, chosen, engine, is_unproved=identity.is_unproved)
    return LoadedJudge(prompts, engine, card, announcement)


def _choose_profile(
    engine: Engine, settings: RunSettings, registered: model_registry.RegisteredModel | None
) -> ChosenProfile:
    name = None
    if registered is not None:
        name = registered.profile
    metadata: Mapping[str, str] = {}
    if has_model_file(engine):
        metadata = engine.metadata
    return settings.profile_for(name, metadata)


def find_chat_ends(profile: PromptProfile, engine: Engine) -> ChatEnds | None:
    """Return the text of the chat template around a prompt, or None without a chat."""
    if profile.converses and has_model_file(engine):
        return engine.chat_without_ends
    if profile.chat:
        return engine.chat_ends
    return None


def _announce(
    card: JudgeCard, note: str, chosen: ChosenProfile, engine: Engine, *, is_unproved: bool
) -> str:
    """Return the line about a judge: its name, checksum, profile and limits."""
    profile, why = chosen
    name = card.name
    facts: list[str] = []
    if card.sha256:
        facts.append(f"sha256 {card.sha256[:12]}")
    elif is_unproved:
        facts.append(UNPROVED)
    if note:
        name = f"{name}: {note}"
    elif why:
        facts.append(f"profile {profile.name}, {why}: {profile.description}")
    else:
        facts.append(profile.description)
    if not engine.shares_prefixes:
        facts.append("it cannot share prompts on this machine, so a verdict reads a whole prompt")
    return f"judge {name} ({'; '.join(facts)})"


def announce_calibrations(
    judge: JudgeIdentity, metrics: Sequence[Metric], settings: RunSettings, progress: Progress
) -> None:
    """Report the calibrations.

    Raises InputError for a calibration of another judge or question.
    """
    for calibration in settings.calibration:
        question = calibration.question
        decided = [metric for metric in metrics if get_question(metric.name) == question]
        if not decided:
            raise _unused_calibration(calibration)
        measured = judge.measured(decided[0])
        different, rounding = calibration.differences_of_judge(measured)
        if different:
            message = (
                f"the calibration {calibration.name} was made with another judge:"
                f"{format_differences(different)}"
            )
            hint = "calibrate this judge: localjudge calibrate LABELS --judge NAME|PATH"
            raise InputError(message, hint=hint)
        names = ", ".join(metric.name for metric in decided)
        line = f"calibration {calibration.name}: threshold {calibration.threshold:.3g} for {names}"
        if rounding:
            line += f"; made with different rounding:{format_differences(rounding)}"
        progress.note(line)


def _unused_calibration(calibration: Calibration) -> InputError:
    omit = option("calibration", calibration.name)
    return InputError(
        f"the calibration {calibration.name} is for {calibration.question}, "
        "which no metric of this run asks",
        hint=f"omit {omit}, or calibrate for a question of this run",
    )


def earlier_answers(
    memory: AnswerMemory | None,
    judge: JudgeIdentity,
    settings: RunSettings,
    progress: Progress,
) -> list[EarlierAnswers]:
    """Return the sources of earlier answers: runs to reuse, and the memory of an open judge.

    Reports runs that were made with other versions.
    """
    sources: list[EarlierAnswers] = []
    for name in settings.reuse:
        run = OtherRun(Path(name), judge)
        if run.updates:
            versions = format_updates(run.updates)
            progress.note(f"{run.name} was made with other versions ({versions})")
        sources.append(run)
    if memory is not None:
        sources.append(memory)
    return sources
