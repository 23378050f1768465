"""Load prompt profiles, and choose the one of a model.

A profile is a folder of TOML files, bundled or the user's. A model's profile is the one that the
user names, or it is registered, or made for the model's metadata.
"""

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any, Self

from pydantic import ValidationError

from localjudge.errors import InputError
from localjudge.judge.profile import PromptProfile
from localjudge.resources import parse_toml
from localjudge.types import OUTPUTS_KEY, VOCABULARY_KEY, Record
from localjudge.words import option, option_name

DEFAULT_PROFILE = "instruct"
ChosenProfile = tuple[PromptProfile, str]
"""A profile, and why it was chosen ("" if there was no choice)."""
_BUNDLED = Path(__file__).parent / "prompts"
_MAX_PROBLEMS = 4
"""Problems of a profile in a message."""


class ProfileFolder(Record):
    """A profile's files, as stored in a run."""

    path: str
    files: dict[str, str]

    @classmethod
    def read(cls, folder: Path) -> Self:
        files = (*folder.glob("*.toml"), *folder.glob("special/*.toml"))
        texts = {}
        for file in files:
            texts[file.relative_to(folder).as_posix()] = _read_text(file)
        return cls(path=str(folder), files=texts)


def _read_text(file: Path) -> str:
    if not file.is_file():  # a pipe would be waited for
        raise InputError(f"{file} is not a regular file", hint="copy the file itself there")
    try:
        return file.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{file} cannot be read: {error}",
            hint="name a TOML file in UTF-8",
        ) from error


def bundled_profiles() -> list[str]:
    return sorted(path.parent.name for path in _BUNDLED.glob("*/profile.toml"))


def read_profile(profile: object) -> object:
    if not isinstance(profile, str | Path) or str(profile) in bundled_profiles():
        return profile
    folder = Path(profile).expanduser()
    if not folder.is_dir():
        return str(profile)
    return ProfileFolder.read(folder.absolute())


def no_profile(name: str) -> InputError:
    names = ", ".join(bundled_profiles())
    hint = f"profiles are {names}, or name a folder with one"
    return InputError(f"no prompt profile is called {name!r}", hint=hint)


def load_profile(profile: str | ProfileFolder) -> PromptProfile:
    """Load a profile by name or folder. Raises InputError if it does not exist or is not valid."""
    if isinstance(profile, ProfileFolder):
        return _load_folder(profile)
    if profile in bundled_profiles():
        return _load_bundled(profile)
    return _load_folder(_read_folder(profile))


@lru_cache
def _load_bundled(name: str) -> PromptProfile:
    """Load a bundled profile once in a process."""
    return _load_folder(_read_folder(name))


def _load_folder(profile: ProfileFolder) -> PromptProfile:
    digest = hashlib.sha256()
    special: dict[str, str] = {}
    tables: dict[str, dict[str, Any]] = {}
    for name in sorted(profile.files, key=lambda name: ("/" in name, name)):
        task = PurePath(name).stem
        content = profile.files[name].encode()
        if "/" in name:
            special[task] = hashlib.sha256(content).hexdigest()
        else:
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        tables[task] = parse_toml(content, f"{profile.path}/{name}")
    fields = tables.pop("profile", {})
    fields |= {
        "name": PurePath(profile.path).name,
        "sha256": digest.hexdigest(),
        "special": special,
        "tasks": tables,
    }
    try:
        return PromptProfile.model_validate(fields)
    except (ValidationError, TypeError) as error:
        reasons = str(error)
        if isinstance(error, ValidationError):
            reasons = _list_problems(error)
        problem = f"the prompt profile {profile.path} is not valid: {reasons}"
        raise InputError(problem, hint="correct its files") from error


def _list_problems(error: ValidationError) -> str:
    """Return the first problems as `attribution.node.1.colour: Extra inputs are not permitted`."""
    problems: list[str] = []
    for problem in error.errors(include_url=False, include_input=False)[:_MAX_PROBLEMS]:
        names = [str(part) for part in problem["loc"] if re.fullmatch(r"\w+", str(part))]
        place = ".".join(names).removeprefix("tasks.")
        message = problem["msg"].removeprefix("Value error, ")
        problems.append(": ".join(filter(None, (place, message))))
    return "; ".join(problems)


def _read_folder(name: str) -> ProfileFolder:
    folder = Path(name).expanduser()
    if name in bundled_profiles():
        folder = _BUNDLED / name
    if not folder.is_dir():
        raise no_profile(name)
    return ProfileFolder.read(folder.resolve())


def choose_profile(
    requested: str | ProfileFolder | None,
    registered: str | None,
    metadata: Mapping[str, str],
) -> ChosenProfile:
    """Choose a model's profile: named by the user, registered, or made for its metadata.

    `metadata` is empty for an engine without a model. Raises InputError if the profile cannot ask
    this model.
    """
    if requested is not None:
        profile = load_profile(requested)
        why = f"as {option_name('profile')} says"
    elif registered is not None:
        profile = load_profile(registered)
        why = "as it is registered"
    else:
        profile = load_profile(DEFAULT_PROFILE)
        why = ""
        for other in map(load_profile, bundled_profiles()):
            matching = [row for row in other.made_for if _matches(metadata, row)]
            if matching:
                profile = other
                why = f"made for it, by its {' and '.join(matching[0])}"
                break
    if metadata:
        _require_fit(profile, metadata)
    return profile, why


def _matches(metadata: Mapping[str, str], patterns: Mapping[str, re.Pattern[str]]) -> bool:
    for key, pattern in patterns.items():
        if not re.search(pattern.pattern, metadata.get(key, ""), re.IGNORECASE):
            return False
    return True


def _require_fit(profile: PromptProfile, metadata: Mapping[str, str]) -> None:
    outputs = metadata.get(OUTPUTS_KEY, "")
    names: list[str] = []
    if outputs:
        names = outputs.split(",")
    if profile.head is None and not names:
        return
    listed = ", ".join(names)
    folder_option = option("profile", "FOLDER")
    hint = f"name the folder of a profile for it: {folder_option} (docs/judges.md, classifiers)"
    if profile.head is None:
        classifier = f"the model is a classifier with the outputs {listed}"
        raise InputError(f"{classifier}, and no prompt profile fits them", hint=hint)
    if profile.head.fits(names):
        size = int(metadata.get(VOCABULARY_KEY, "0"))
        unknown = [token for token in profile.head.share if token >= size]
        if unknown and size:
            raise InputError(
                f"the prompt profile {profile.name!r} names the token {unknown[0]} for a share, "
                f"and the model's tokens are 0 to {size - 1:,}",
                hint="correct share in [head] of its profile.toml",
            )
        return
    expected = ", ".join(profile.head.outputs)
    fits = f"the prompt profile {profile.name!r} is for the outputs {expected}"
    if not names:
        problem = f"{fits}, and the model has no classification head"
        raise InputError(problem, hint=f"omit {option_name('profile')}")
    raise InputError(f"{fits}, and the model has the outputs {listed}", hint=hint)


def require_reasons(profile: PromptProfile, reasons: str) -> None:
    """Raise InputError if reasons are wanted that a task of the profile cannot give."""
    if reasons == "none":
        return
    mute = sorted(name for name, task in profile.tasks.items() if not task.reasons)
    if mute:
        tasks = ", ".join(mute)
        problem = f"the prompt profile {profile.name!r} cannot give reasons ({tasks})"
        hint = f"omit {option_name('reasons')}, or name another model with {option('judge')}"
        raise InputError(problem, hint=hint)
