"""Open a judge: a model with its prompt profile and engine. Measure its scale.

A scale says how far apart the log odds of a judge are on the bundled labelled items
(`localjudge.run_directory.verdict_rule` says what it is for). It belongs to a judge and its
prompts, never to the data of a run. Bundled judges have theirs in the registry. Others are measured
once, and remembered in LOCALJUDGE_HOME/scales.
"""

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from localjudge import model_registry, resources
from localjudge.engine import gguf
from localjudge.engine.opening import find_model, open_engine
from localjudge.engine.protocol import Engine, EngineStats, answers_in_order, has_model_file
from localjudge.errors import InputError, LocaljudgeError, ModelError
from localjudge.judge import nearest
from localjudge.judge.probes import answer_probes, probes
from localjudge.judge.profile import ANSWER_SENTENCE, PromptProfile
from localjudge.judge.profile_choice import ChosenProfile
from localjudge.judge.wording import PromptWriter, Reasons
from localjudge.judging.settings import RunSettings
from localjudge.local_models import FoundModel, list_models
from localjudge.metrics import Metric
from localjudge.metrics.catalog import get_question, list_tasks
from localjudge.progress import Progress
from localjudge.run_directory.differences import format_differences
from localjudge.run_directory.directory import canonical_sha256
from localjudge.run_directory.identity import (
    UNPROVED,
    EngineIdentity,
    JudgeIdentity,
    PromptsIdentity,
    is_asked_as_registered,
)
from localjudge.run_directory.verdict_rule import KINDS, SMALLEST_SCALE, compute_scale
from localjudge.types import NO_MODEL, Answer, Attribution, ChatEnds, JudgeCard, ScaleKind, Task
from localjudge.words import numbered, option, roughly

BUNDLED_JUDGE = "bundled"
"""Registered name of the judge that comes with the package."""
JUDGE_VARIABLE = "LOCALJUDGE_JUDGE"
"""Environment variable with the judge of commands that name none."""
JudgeName = str | Path
"""A registered name, the path of a GGUF file, or a name from `localjudge models`."""
_PASSAGES = 8
"""Passages of twelve items: 64 statements and 32 items of relevance."""
_MIN_ANSWERS = 8
_TIMED = 2
"""Items after which the time of the others is known."""
_RELEVANCE = frozenset({"relevance_chunk", "relevance_sentence", "usefulness", ANSWER_SENTENCE})
_SPECIAL: Mapping[str, ScaleKind] = {ANSWER_SENTENCE: "answers", "relevance_chunk": "passages"}


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
    chosen = settings.profile_for(file.profile, gguf.read(file.path).metadata)
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


def other_judges() -> str:
    """Name the models on this machine that can judge.

    Reads file names and the beginnings of headers.
    """
    models: dict[Path, str] = {}
    with suppress(LocaljudgeError, OSError, ValueError):  # advice never ends a run
        for program in ("ollama", "hf", "lmstudio"):
            for model in list_models(program):
                if isinstance(model, FoundModel) and gguf.can_judge(model.path):
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
    prompts = make_prompts(profile, engine, settings.language, settings.reasons)
    card = identity.card(engine.name or identity.engine, PromptsIdentity(**prompts.identity()))
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


def make_prompts(
    profile: PromptProfile, engine: Engine, language: str, reasons: Reasons = "none"
) -> PromptWriter:
    """Return what writes the prompts for an engine, by whose identity its findings are kept.

    Raises ModelError if the chat template cannot be rendered.
    """
    how_read = None
    if profile.nearest is not None:
        how_read = nearest.identity(profile.nearest, language)
    chat: ChatEnds | None = None
    if profile.converses and has_model_file(engine):
        chat = engine.chat_without_ends
    elif profile.chat:
        chat = engine.chat_ends
    return PromptWriter(profile, chat, reasons=reasons, nearest=how_read)


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


def scale_kind(metric: Metric, judges: Iterable[SingleJudge]) -> ScaleKind:
    """Return which scale a metric's questions have.

    A metric that does not say what it asks counts as attribution. Some questions have a scale of
    their own if a judge has a special prompt for them.
    """
    special: set[str] = set()
    for judge in judges:
        special.update(judge.prompts.profile.special)
    tasks = list_tasks([metric])
    for task, kind in _SPECIAL.items():
        if tasks == {task} and task in special:
            return kind
    if tasks and tasks <= _RELEVANCE:
        return "relevance"
    return "attribution"


def find_scales(
    engine: Mapping[str, Any],
    prompts: PromptWriter,
    kind: ScaleKind,
    reopen: Callable[[], SingleJudge],
    progress: Progress,
) -> Mapping[ScaleKind, float]:
    """Return a judge's known scales, including this kind: registered, remembered, or measured now.

    `engine` is the identity of its engine. Raises InputError if it gives too few answers.
    """
    identity = PromptsIdentity(**prompts.identity())
    registered = model_registry.registered_as(str(engine.get("model_sha256")))
    if registered is not None and registered.profile is not None:
        has_scale = kind in registered.scales
        if has_scale and is_asked_as_registered(registered, identity):
            return registered.scales
    checksum = engine.get("model_sha256")
    file: Path | None = None
    if checksum:
        key = canonical_sha256({"model_sha256": checksum, "judge": identity.answering})
        file = resources.state_directory() / "scales" / f"{key}.json"
    scales = _read_scales(file)
    if kind not in scales:
        scales[kind] = _measure_scale(reopen(), kind, progress)
        if file is not None:
            resources.remember(file, json.dumps(scales, sort_keys=True))
    return scales


def _measure_scale(judge: SingleJudge, kind: ScaleKind, progress: Progress) -> float:
    """Ask a judge about the bundled items. Raises InputError if it gives too few answers."""
    tasks: list[Task] = []
    items = probes(_PASSAGES)
    if kind == "answers":
        items = answer_probes()
    for probe in items:
        task = probe.task
        is_asked = isinstance(task, Attribution) == (kind == "attribution")
        if kind == "passages" and task.unit.kind != "chunk":
            is_asked = False
        if is_asked and judge.prompts.has_words_for(task):
            tasks.append(task)
    count = numbered(len(tasks), "bundled item")
    progress.note(
        f"measuring the scale of {judge.card.name} on {count} of {kind}, once on this machine",
    )
    progress.expect(len(tasks))
    requests = judge.prompts.requests(tasks)
    first = requests[:_TIMED]
    others = requests[_TIMED:]
    started = monotonic()
    answers = answers_in_order(judge.engine, first, progress)
    if others:
        seconds = (monotonic() - started) / len(first) * len(others)
        progress.note(f"this takes {roughly(seconds)}")
        answers += answers_in_order(judge.engine, others, progress)
    probabilities = [answer.p_yes for answer in answers if isinstance(answer, Answer)]
    if len(probabilities) < _MIN_ANSWERS:
        problem = f"the judge {judge.card.name} answered {len(probabilities)} of {count} of {kind}"
        hint = "omit this judge, or register it with its scale (docs/judges.md)"
        raise InputError(f"{problem}, so it has no scale", hint=hint)
    return compute_scale(probabilities)


def _read_scales(file: Path | None) -> dict[ScaleKind, float]:
    """Return the remembered scales, without invalid ones."""
    if file is None:
        return {}
    try:
        values = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    scales: dict[ScaleKind, float] = {}
    if isinstance(values, dict):
        for kind in KINDS:
            scale = values.get(kind)
            if isinstance(scale, float) and SMALLEST_SCALE <= scale < math.inf:
                scales[kind] = scale
    return scales
