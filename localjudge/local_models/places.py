"""Which programs keep models on this machine, where, and what a name stands for.

A program's environment variables are obeyed as it obeys them: what it would not look at is not looked at.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from localjudge.errors import ModelError
from localjudge.local_models import layouts
from localjudge.local_models.found_model import Found, FoundModel, SkippedFile
from localjudge.local_models.layouts import Layout
from localjudge.local_models.packages import installed_packages
from localjudge.suggestion import suggestion

_MAC_DATA = Path("Library", "Application Support")


class _Program(NamedTuple):
    """What it is called, where it keeps models (first come, first served), and how."""

    title: str
    folders: Callable[[], Iterator[Path]]
    layout: Layout


def models_of(program: str) -> Iterator[Found]:
    """The models that a program keeps, under names that tell them apart, and what was skipped."""
    names: set[str] = set()
    every = (found for folder in PROGRAMS[program].folders() for found in PROGRAMS[program].layout(program, folder))
    for found in every:
        if isinstance(found, FoundModel) and found.name in names:
            yield SkippedFile(str(found.path), f"another model called {found.source} comes first")
            continue
        if isinstance(found, FoundModel):
            names.add(found.name)
        yield found


def named(name: str) -> FoundModel | None:
    """The model that `PROGRAM:NAME` stands for; None if it does not begin with a program.

    Raises ModelError if the program keeps no such model, or several that go by this name.
    """
    program, colon, wanted = name.partition(":")
    if not colon or program not in PROGRAMS:
        return None
    here = list(models_of(program))
    models = [found for found in here if isinstance(found, FoundModel)]
    fitting = _going_by(wanted, models)
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = ", ".join(model.source for model in fitting)
        raise ModelError(f"{name} may be one of {len(fitting)} models", hint=f"name one of them: {names}")
    for found in here:
        if isinstance(found, SkippedFile) and found.where in (name, f"{name}:latest"):
            raise ModelError(f"{name} cannot be used: {found.reason}", hint="fetch it again with the program it is of")
    looked_in = ", ".join(map(str, PROGRAMS[program].folders()))
    raise ModelError(
        f"{PROGRAMS[program].title} has no model called {wanted!r} (looked in {looked_in})",
        hint=_what_there_is(program, wanted, models),
    )


def called_alike(name: str) -> list[str]:
    """What a judge is named by to take a model that some program calls so, one name for each."""
    return [
        model.source
        for program in PROGRAMS
        for model in _going_by(
            _without_program(name, program), [found for found in models_of(program) if isinstance(found, FoundModel)]
        )
    ]


def _going_by(wanted: str, models: list[FoundModel]) -> list[FoundModel]:
    """Those whose very name it is; else those that may be called so."""
    exact = [model for model in models if model.name == wanted]
    return exact or [model for model in models if wanted.casefold() in model.aliases]


def _without_program(name: str, program: str) -> str:
    """`ollama/qwen3:8b`, `hf.co/org/repo` are other ways to say which program is meant."""
    for start in (f"{program}/", "hf.co/", "huggingface.co/"):
        if name.casefold().startswith(start) and (program == "hf" or start == f"{program}/"):
            return name[len(start) :]
    return name


def _what_there_is(program: str, wanted: str, models: list[FoundModel]) -> str:
    if not models:
        return "`localjudge models` lists what there is"
    return suggestion(
        wanted, [model.name for model in models], f"its {len(models):,} models", show=lambda name: f"{program}:{name}"
    )


def _ollama() -> Iterator[Path]:
    if given := _given("OLLAMA_MODELS"):
        yield given
        return
    yield _home() / ".ollama" / "models"
    yield Path("/usr/share/ollama/.ollama/models")  # of the service that its Linux installer sets up


def _hugging_face() -> Iterator[Path]:
    given = _given("HF_HUB_CACHE") or _given("HUGGINGFACE_HUB_CACHE")
    home = _given("HF_HOME") or _cache() / "huggingface"
    yield given or home / "hub"


def _llamacpp() -> Iterator[Path]:
    if given := _given("LLAMA_CACHE"):
        yield given
        return
    yield _cache() / "llama.cpp"
    yield _home() / "Library" / "Caches" / "llama.cpp"


def _lm_studio() -> Iterator[Path]:
    """The folder chosen in its settings, and the one in its home, which a file in the user's home points to."""
    user = _home()
    pointed = _first_line(user / ".lmstudio-home-pointer")
    for home in [Path(pointed)] if pointed else [user / ".lmstudio", user / ".cache" / "lm-studio"]:
        chosen = _setting(home / "settings.json", "downloadsFolder")
        if chosen and Path(chosen) != home / "models":
            yield Path(chosen)
        yield home / "models"


def _gpt4all() -> Iterator[Path]:
    yield _data() / "nomic.ai" / "GPT4All"
    yield _home() / _MAC_DATA / "nomic.ai" / "GPT4All"
    yield _home() / ".cache" / "gpt4all"  # of its Python package


def _jan() -> Iterator[Path]:
    for home in (_data() / "Jan" / "data", _home() / _MAC_DATA / "Jan" / "data", _home() / "jan"):
        yield home / "llamacpp" / "models"
        yield home / "models"


def _installed() -> Iterator[Path]:
    yield from (Path(folder) for folder in dict.fromkeys(sys.path) if folder)


PROGRAMS = {
    "ollama": _Program("Ollama", _ollama, layouts.ollama_store),
    "hf": _Program("the cache of the Hugging Face hub", _hugging_face, layouts.hub_cache),
    "llamacpp": _Program("llama.cpp", _llamacpp, layouts.cache_of_llamacpp),
    "lmstudio": _Program("LM Studio", _lm_studio, layouts.tree),
    "gpt4all": _Program("GPT4All", _gpt4all, layouts.tree),
    "jan": _Program("Jan", _jan, layouts.tree),
    "package": _Program("Python's packages", _installed, installed_packages),
}
"""The programs by what stands before the colon."""


def _home() -> Path:
    return Path(os.path.expanduser("~"))


def _given(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(os.path.expanduser(value)) if value else None


def _cache() -> Path:
    return _given("XDG_CACHE_HOME") or _home() / ".cache"


def _data() -> Path:
    return _given("XDG_DATA_HOME") or _home() / ".local" / "share"


def _first_line(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _setting(file: Path, name: str) -> str | None:
    """A text in a program's settings; None if there is none."""
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    value = settings.get(name) if isinstance(settings, dict) else None
    return value if isinstance(value, str) and value else None
