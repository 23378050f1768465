"""Opens a judge: a model, the profile that suits it, and the engine that runs it. No other module names an engine.

The profile hangs on the model's checksum and on what its file says of itself, not on the name or the path that it was
called by, and not on who opened it; unless the user names one.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from localjudge import model_registry
from localjudge.engine.engine_settings import EngineSettings
from localjudge.engine.protocol import DescribedEngine, Engine, EngineBuild, InspectableEngine
from localjudge.errors import UsageError
from localjudge.judge.judge import Judge, require
from localjudge.judge.own_prompt import with_prompt
from localjudge.judge.profile_choice import ChosenProfile, choose
from localjudge.judge.prompts import PromptProfile
from localjudge.metrics import Metric
from localjudge.metrics.catalog import special_tasks_of, tasks_of
from localjudge.model_registry import ModelFile
from localjudge.option_spelling import option
from localjudge.record.answer_cache import open_cache
from localjudge.record.earlier_answers import EarlierAnswers, OtherRun
from localjudge.record.manifest import judge_part
from localjudge.record.results import Run
from localjudge.run.settings import RunSettings
from localjudge.types import ChatEnds, JudgeCard, VerdictRule

DEFAULT_JUDGE = "reference"
ENGINE_LIBRARIES = {"llama-cpp-python": "localjudge.engine.llamacpp.library", "llguidance": "llguidance"}
"""The packages that models run on, each with the module whose import loads it."""


class OpenJudge(NamedTuple):
    """A judge with its engine, who it is, and one line that says so.

    `source` is the registered name or the absolute path of its model, None for an engine that was brought along.
    """

    judge: Judge
    engine: Engine
    card: JudgeCard
    announcement: str
    source: str | None


@contextmanager
def opened(judge: str, engine: Engine | None, settings: RunSettings) -> Iterator[OpenJudge]:
    """The judge while it is used. An engine takes the place of its model, and is not closed afterwards.

    Raises as `open_judge` does, and as the engine's chat template does.
    """
    if engine is not None:
        yield judge_on(engine, settings)
        return
    ours = open_judge(judge, settings)
    with closing(ours.engine):
        yield ours


def judge_of(run: Run, *, needed: bool = True) -> str:
    """The judge that a run was made with, as its manifest names it.

    Raises UsageError if it does not say, unless an engine that is there makes the name needless.
    """
    named = run.manifest.environment.get("judge")
    if named is None and needed:
        raise UsageError(
            f"{run.directory} does not say which judge it was made with", hint=f"name it with {option('judge')}"
        )
    return str(named)


def open_judge(name_or_path: str, settings: RunSettings) -> OpenJudge:
    """Open a registered judge, or any GGUF file. Close its engine after use.

    Raises ModelError if the model cannot be found or used, UsageError for a prompt that is no wording of a task and for
    reasons or a protocol that the judge cannot be asked for.
    """
    file = model_registry.find(name_or_path)
    # What it cannot be asked is refused before gigabytes are loaded.
    profile = profile_for(file.profile, metadata_of(file, settings), settings).profile
    with ExitStack() as undo:
        opened = open_engine(file, settings.engine, begin_of_text=profile.begin_of_text)
        engine = undo.enter_context(closing(opened))
        ours = judge_on(engine, settings)
        undo.pop_all()
    source = name_or_path if name_or_path in model_registry.registered() else str(file.path)
    return ours._replace(source=source)


def open_engine(file: ModelFile, settings: EngineSettings, *, begin_of_text: bool | None = None) -> InspectableEngine:
    """The engine that runs model files. Close it after use. `begin_of_text` is that of the profile that it is asked by.

    Raises ModelError if it cannot run this one, OutOfResource if there is too little memory for it.
    """
    from localjudge.engine.llamacpp.engine import LlamaCppEngine

    return LlamaCppEngine(file, settings, begin_of_text=begin_of_text)


def engine_build() -> EngineBuild:
    """What models are run on. Raises ModelError if it cannot be loaded."""
    from localjudge.engine.llamacpp import library

    return library.build()


def judge_on(engine: Engine, settings: RunSettings) -> OpenJudge:
    """The judge that an open engine's model makes: in the profile that is its own, inside its own chat template.

    Raises UsageError for a prompt that is no wording of a task and for reasons or a protocol that the judge cannot be
    asked for, ModelError if the chat template cannot be rendered.
    """
    checksum = str(engine.identity.get("model_sha256"))
    registered = model_registry.registered_as(checksum)
    cautioned = model_registry.packaged_as(checksum) or registered
    metadata = engine.metadata if isinstance(engine, DescribedEngine) else {}
    profile, why = profile_for(registered.profile if registered else None, metadata, settings)
    ends = chat_around(profile, engine)
    card = card_of(engine, cautioned.caution if cautioned else "")
    note = f": {registered.note}" if registered and registered.note else ""
    advice = f"; name a real model with {option('judge')}" if card.caution else ""
    slow = "" if engine.forks else "; it cannot share prompts on this machine, so every verdict costs a whole prompt"
    sha256 = f"sha256 {card.sha256[:12]}, " if card.sha256 else ""
    reads = profile.description if profile.instructions else "reads no instructions"
    asked_by = f"profile {profile.name}, {why}: " if why and not (registered and registered.note) else ""
    announcement = f"judge {card.name}{note}{advice} ({sha256}{asked_by}{reads}{slow})"
    judge = Judge(profile, ends, reasons=settings.reasons, protocol=settings.protocol)
    return OpenJudge(judge, engine, card, announcement, None)


def judge_part_of(ours: OpenJudge, metrics: Sequence[Metric], settings: RunSettings) -> dict[str, Any]:
    """The judge's part of the signature of a run with these metrics and settings."""
    return judge_part(
        ours.engine.identity,
        ours.judge.identity_for(special_tasks_of(metrics)),
        settings.sentences.identity,
        metrics,
        VerdictRule(settings.threshold, settings.min_legal_mass),
    )


@contextmanager
def earlier_answers(
    ours: OpenJudge, metrics: Sequence[Metric], settings: RunSettings
) -> Iterator[list[EarlierAnswers]]:
    """What this judge has answered before, while it is used: in the runs to reuse, then in the cache if it is on.

    No answer of an engine that was brought along outlives its run unasked: how well its identity names it is not
    known. Raises as `OtherRun` and `open_cache` do.
    """
    judge = judge_part_of(ours, metrics, settings)
    with ExitStack() as stack:
        found: list[EarlierAnswers] = [
            stack.enter_context(closing(OtherRun(Path(name), judge))) for name in settings.reuse
        ]
        if ours.source and (cache := open_cache(judge)):
            found.append(stack.enter_context(closing(cache)))
        yield found


def refuse_unaskable(judge: OpenJudge, metrics: Sequence[Metric]) -> None:
    """Raise UsageError for a metric whose questions the judge has no words for, before anything is asked."""
    unaskable = [metric.name for metric in metrics if judge.judge.cannot_be_asked(tasks_of([metric]))]
    if unaskable:
        names = ", ".join(unaskable)
        raise UsageError(
            f"the judge {judge.card.name} cannot be asked what {names} asks: {judge.judge.why_not_asked}",
            hint=f"name a model that can with {option('judge')}, or leave out {names}",
        )


def card_of(engine: Engine, caution: str) -> JudgeCard:
    """Who judges, as every result says it."""
    identity = engine.identity
    return JudgeCard(
        name=engine.name or str(identity["engine"]),
        sha256=identity.get("model_sha256"),
        size=identity.get("model_size"),
        quantisation=identity.get("quantisation"),
        caution=caution or None,
    )


def metadata_of(file: ModelFile, settings: RunSettings) -> Mapping[str, str]:
    """What the model's file says of who it is, before it is loaded; nothing where its profile is known without.

    Raises ModelError for a file that is no model, or is damaged.
    """
    from localjudge.engine.llamacpp import gguf_header
    from localjudge.engine.llamacpp.model import WHO_IT_IS

    if settings.profile is not None or file.profile is not None:
        return {}
    header = gguf_header.read(file.path)
    return {key: header.text(key) for key in WHO_IT_IS}


def profile_for(registered: str | None, metadata: Mapping[str, str], settings: RunSettings) -> ChosenProfile:
    """The profile that the user names, that the model is registered with, or that is made for what it says of itself.

    With the user's own wordings in it. Raises UsageError for a profile that there is not, a wording that words no task
    or that the judge cannot read, and for reasons or a protocol that the profile cannot ask for.
    """
    chosen = choose(settings.profile, registered, metadata)
    profile = chosen.profile
    for own in settings.prompts:
        profile = with_prompt(profile, Path(own))
    require(profile, settings.reasons, settings.protocol)
    return chosen._replace(profile=profile)


def chat_around(profile: PromptProfile, engine: Engine) -> ChatEnds | None:
    """What the model's chat template puts around a prompt; None without a template, or for a profile that uses none.

    Raises ModelError if the template cannot be rendered.
    """
    if profile.converses and isinstance(engine, DescribedEngine):
        return engine.chat_without_ends
    return engine.chat_ends if profile.chat else None
