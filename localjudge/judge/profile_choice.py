"""Choose the prompt profile of a model: named by the user, registered, or made for its metadata."""

import re
from collections.abc import Mapping

from localjudge.errors import InputError
from localjudge.judge.profile import ProfileFolder, PromptProfile, bundled, load_profile
from localjudge.types import OUTPUTS_KEY, VOCABULARY_KEY
from localjudge.words import option, option_name

DEFAULT_PROFILE = "instruct"
ChosenProfile = tuple[PromptProfile, str]
"""A profile, and why it was chosen ("" if there was no choice)."""


def choose(
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
        for other in map(load_profile, bundled()):
            matching = [row for row in other.made_for if _matches(metadata, row)]
            if matching:
                profile = other
                why = f"made for it, by its {' and '.join(matching[0])}"
                break
    if metadata:
        _require_fit(profile, metadata)
    return profile, why


def _matches(metadata: Mapping[str, str], patterns: Mapping[str, re.Pattern[str]]) -> bool:
    def matches_key(key: str) -> bool:
        pattern = patterns[key].pattern
        return re.search(pattern, metadata.get(key, ""), re.IGNORECASE) is not None

    return all(map(matches_key, patterns))


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
