"""Opens a judge: a model, the profile that suits it, and the engine that runs it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from localjudge import model_registry
from localjudge.engine.llamacpp import chat_template as chat
from localjudge.engine.llamacpp.chat_template import ChatEnds
from localjudge.engine.protocol import Engine
from localjudge.judge import prompts
from localjudge.judge.judge import Judge, PromptJudge, require
from localjudge.judge.own_prompt import with_prompt
from localjudge.judge.prompts import PromptProfile
from localjudge.model_registry import ModelFile
from localjudge.run.settings import RunSettings

if TYPE_CHECKING:
    from localjudge.engine.llamacpp.engine import LlamaCppEngine

DEFAULT_JUDGE = "reference"
_DEFAULT_PROFILE = "instruct"
_SCRIPTED_PROFILE = "instruct"


class OpenJudge(NamedTuple):
    """A judge with its engine, and one line that says what it is.

    `source` is the registered name or the absolute path of its model, None for an engine that was brought along.
    """

    judge: Judge
    engine: Engine
    announcement: str
    source: str | None


@contextmanager
def opened(judge: str, engine: Engine | None, settings: RunSettings) -> Iterator[OpenJudge]:
    """The judge while it is used. An engine takes the place of its model, and is not closed afterwards."""
    if engine is not None:
        profile = prompts.load(_SCRIPTED_PROFILE)
        judging = PromptJudge(profile, reasons=settings.reasons, protocol=settings.protocol)
        yield OpenJudge(judging, engine, f"judge {engine.identity.get('engine')}", None)
        return
    ours = open_judge(judge, settings)
    with closing(ours.engine):
        yield ours


def open_judge(name_or_path: str, settings: RunSettings) -> OpenJudge:
    """Open a registered judge, or any GGUF file. Close its engine after use.

    Raises ModelError if the model cannot be found or used, UsageError for a prompt that is no wording of a task and for
    reasons or a protocol that the judge cannot be asked for.
    """
    from localjudge.engine.llamacpp.engine import LlamaCppEngine

    file = model_registry.find(name_or_path)
    profile = profile_for(file, settings)
    require(profile, settings.reasons, settings.protocol)
    engine = LlamaCppEngine(file, settings.engine, begin_of_text=profile.begin_of_text)
    ends = chat_around(profile, engine)
    note = f": {file.note}" if file.note else ""
    slow = "" if engine.forks else "; it cannot share prompts on this machine, so every verdict costs a whole prompt"
    announcement = f"judge {file.name}{note} (sha256 {file.sha256[:12]}, {profile.description}{slow})"
    source = name_or_path if name_or_path in model_registry.registered() else str(file.path)
    judge = PromptJudge(profile, ends, reasons=settings.reasons, protocol=settings.protocol)
    return OpenJudge(judge, engine, announcement, source)


def profile_for(file: ModelFile, settings: RunSettings) -> PromptProfile:
    """The model's prompt profile, with the user's own wordings in it. Raises UsageError for one that words no task."""
    profile = prompts.load(file.profile or _DEFAULT_PROFILE)
    for own in settings.prompts:
        profile = with_prompt(profile, Path(own))
    return profile


def chat_around(profile: PromptProfile, engine: "LlamaCppEngine") -> ChatEnds | None:
    """What the model's chat template puts around a prompt; None without a template, or for a profile that uses none.

    Raises ModelError if the template cannot be rendered.
    """
    if not profile.chat or not engine.chat_template:
        return None
    bos, eos = engine.special_texts
    return chat.chat_ends(engine.chat_template, bos=bos, eos=eos)
