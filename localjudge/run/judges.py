"""Opens a judge: a model, the profile that suits it, and the engine that runs it."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from localjudge import model_registry
from localjudge.engine.protocol import Engine
from localjudge.engine.settings import EngineSettings
from localjudge.judge import chat, prompts
from localjudge.judge.judge import Judge, PromptJudge
from localjudge.judge.own_prompt import with_prompt

DEFAULT_JUDGE = "reference"
_DEFAULT_PROFILE = "instruct"


class OpenJudge(NamedTuple):
    """A judge with its engine, and one line that says what it is."""

    judge: Judge
    engine: Engine
    announcement: str


def open_judge(name_or_path: str, settings: EngineSettings, own_prompts: Sequence[Path] = ()) -> OpenJudge:
    """Open a registered judge, or any GGUF file, with wordings of one's own. Close its engine after use.

    Raises ModelError if the model cannot be found or used, UsageError for a prompt that is no wording of a task.
    """
    from localjudge.engine.llamacpp import LlamaCppEngine

    file = model_registry.find(name_or_path)
    profile = prompts.load(file.profile or _DEFAULT_PROFILE)
    for own in own_prompts:
        profile = with_prompt(profile, own)
    engine = LlamaCppEngine(file, settings, begin_of_text=profile.begin_of_text)
    bos, eos = engine.special_texts
    ends = chat.chat_ends(engine.chat_template, bos=bos, eos=eos) if profile.chat and engine.chat_template else None
    note = f": {file.note}" if file.note else ""
    announcement = f"judge {file.name}{note} (sha256 {file.sha256[:12]}, {profile.description})"
    return OpenJudge(PromptJudge(profile, ends), engine, announcement)
