"""Open a judge: a model with its prompt profile and engine."""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localjudge import model_registry
from localjudge.engine.opening import can_judge, find_model, model_metadata, open_engine
from localjudge.engine.protocol import Engine, EngineStats, has_model_file
from localjudge.errors import InputError, LocaljudgeError, ModelError
from localjudge.evidence import nearest
from localjudge.judge.profile import PromptProfile
from localjudge.judge.profile_choice import ChosenProfile
from localjudge.judge.wording import PromptWriter
from localjudge.judging.settings import RunSettings
from localjudge.local_models import FoundModel, list_models
from localjudge.metrics import Metric
from localjudge.metrics.catalog import get_question
from localjudge.progress import Progress
from localjudge.run_directory.differences import format_differences
from localjudge.run_directory.identity import (
    UNPROVED,
    EngineIdentity,
    JudgeIdentity,
    PromptsIdentity,
)
from localjudge.types import NO_MODEL, ChatEnds, JudgeCard
from localjudge.words import numbered, option

BUNDLED_JUDGE = "bundled"
"""Registered name of the judge that comes with the package."""
JUDGE_VARIABLE = "LOCALJUDGE_JUDGE"
"""Environment variable with the judge of commands that name none."""
JudgeName = str | Path
"""A registered name, the path of a GGUF file, or a name from `localjudge models`."""


@dataclass(eq=False)
class SingleJudge:
    """A model with its prompts. The model may be closed and opened again.

    `identity` and `memory_bytes` are the engine's. `source` is the name or absolute path of the
    model. `undo` closes the model.
    """

    opened: Engine | None
    identity: Mapping[str, Any]
    memory_bytes: int
    prompts: PromptWriter
    card: JudgeCard
    announcement: str
    name: str
    source: str | None = None
    undo: ExitStack = field(default_factory=ExitStack)
    _finished_work: EngineStats = field(default_factory=EngineStats)

    @property
    def engine(self) -> Engine:
        """The engine of the open model."""
        if self.opened is None:
            raise RuntimeError(f"the model of {self.name} is closed")
        return self.opened

    @property
    def stats(self) -> EngineStats:
        """Work so far."""
        if self.opened is None:
            return self._finished_work
        return self._finished_work.plus(self.opened.stats)

    def open(self, settings: RunSettings, progress: Progress | None) -> None:
        """Open the model again. Raises ModelError if it has changed."""
        again = open_judge(str(self.source), settings, progress)
        self.opened = again.opened
        self.undo = again.undo
        if again.identity != self.identity:
            problem = f"the judge {self.name} has changed while it was used"
            raise ModelError(problem, hint="run the command again")

    def close(self) -> None:
        """Close the model."""
        self._finished_work = self.stats
        self.opened = None
        self.undo.close()


def default_judge() -> str:
    """Return the judge or jury if none is named: LOCALJUDGE_JUDGE, else the bundled one."""
    return os.environ.get(JUDGE_VARIABLE) or BUNDLED_JUDGE


def open_judge(judge: str, settings: RunSettings, progress: Progress | None = None) -> SingleJudge:
    """Open a judge by its name or path. Raises ModelError if the model is missing or unusable."""
    file = find_model(judge)
    # An unusable profile is refused before gigabytes are loaded.
    chosen = settings.profile_for(file.profile, model_metadata(file))
    profile, _ = chosen
    with ExitStack() as undo:
        engine = open_engine(
            file,
            settings.engine,
            begin_of_text=profile.begin_of_text,
            progress=progress,
        )
        undo.callback(engine.close)
        opened = wrap_engine(engine, settings, chosen)
        opened.source = file.source
        opened.undo = undo.pop_all()
    return opened


def no_judge(value: object, problem: str) -> InputError:
    example = option("judge", "model.gguf")
    hint = f"use {example}; only localjudge.evaluate accepts an open judge"
    return InputError(f"{problem}, got {value!r:.80}", hint=hint)


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
) -> SingleJudge:
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
    return SingleJudge(
        opened=engine,
        identity=engine.identity,
        memory_bytes=engine.memory_bytes,
        prompts=prompts,
        card=card,
        announcement=announcement,
        name=card.name,
    )


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
            omit = option("calibration", calibration.name)
            raise InputError(
                f"the calibration {calibration.name} is for {calibration.question}, "
                "which no metric of this run asks",
                hint=f"omit {omit}, or calibrate for a question of this run",
            )
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
