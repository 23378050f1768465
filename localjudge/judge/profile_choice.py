"""Which prompt profile a model is asked by, and why.

1  the one that the user names
2  the one that its file is registered with
3  a bundled one that is made for it: patterns in the profile's own file, looked for in the model's metadata
4  the one for any model that follows instructions
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from localjudge.judge import prompts
from localjudge.judge.profile_folder import ProfileFolder
from localjudge.judge.prompts import PromptProfile
from localjudge.option_spelling import option_name


class ChosenProfile(NamedTuple):
    """A profile, and why it was chosen; "" where no other was in question."""

    profile: PromptProfile
    why: str


def read_profile(profile: object) -> object:
    """The folder of a profile of one's own, read; a name, and what is none, as it is."""
    if not isinstance(profile, str | Path) or str(profile) in prompts.bundled():
        return profile
    folder = Path(profile).expanduser()
    return ProfileFolder.read(folder.absolute()) if folder.is_dir() else str(profile)


def choose(named: str | ProfileFolder | None, registered: str | None, metadata: Mapping[str, str]) -> ChosenProfile:
    """The profile of a model: `named` by the user, `registered` with its checksum, or by what its file says of it.

    Raises UsageError for a name that no profile has.
    """
    if named is not None:
        return ChosenProfile(prompts.load(named), f"as {option_name('profile')} says")
    if registered is not None:
        return ChosenProfile(prompts.load(registered), "as it is registered")
    for name in prompts.bundled():
        profile = prompts.load(name)
        for row in profile.made_for:
            if all(re.search(pattern, metadata.get(key, ""), re.IGNORECASE) for key, pattern in row.items()):
                return ChosenProfile(profile, f"made for it, by its {' and '.join(row)}")
    return ChosenProfile(prompts.load(prompts.DEFAULT_PROFILE), "")
