"""Compare the manifests of two runs, value by value."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.identity import JudgeIdentity
from localjudge.types import Record

_SHOWN = 5
_JUDGES = "judges"
_ONE_JUDGE = ("engine.", "judge.", "jury.")
"""Parts of a judge's identity that describe a single judge."""
_COMBINATIONS = "combinations."
"""Who judges together, and with which weights for each metric."""
_METRIC = re.compile(r"metrics\.(.+)\.version")
_DATA = {"sha256": "the data differ", "clusters_sha256": "the groups of the samples differ"}
_ENGINE_ROUNDING = (
    "llama_cpp|llama_cpp_python|llguidance|system|self_check|gpu_layers|n_ubatch|flash_attention"
)
_ROUNDING = re.compile(
    rf"versions\..*|segmenter\.version|(?:jury\..+\.)?engine\.(?:{_ENGINE_ROUNDING})"
)
_NEAREST = re.compile(r"(?P<nearest>.*nearest\.)(?P<name>\w+)")
_UPDATE = re.compile(r"segmenter\.(version|rules)|metrics\..+\.version")


class Difference(Record):
    """One value that differs between two manifests, None if missing."""

    ingredient: str
    before: Any
    after: Any


def differences(
    before: Mapping[str, Any] | BaseModel, after: Mapping[str, Any] | BaseModel
) -> list[Difference]:
    """Return the values that differ, named by path: `engine.n_ctx`."""
    old = _flatten(before)
    new = _flatten(after)
    changes = []
    for name in sorted(old.keys() | new.keys()):
        change = Difference(ingredient=name, before=old.get(name), after=new.get(name))
        if change.before != change.after:
            changes.append(change)
    return [change for change in changes if not _follows_from_letters(change, changes)]


def _follows_from_letters(change: Difference, changes: Sequence[Difference]) -> bool:
    """Return whether only one side reads what is nearest, which the number of letters says."""
    found = _NEAREST.fullmatch(change.ingredient)
    if found is None or found["name"] == "letters":
        return False
    letters = f"{found['nearest']}letters"
    of_letters = [other for other in changes if other.ingredient == letters]
    return any(None in (other.before, other.after) for other in of_letters)


def only_rounds(change: Difference) -> bool:
    return _ROUNDING.fullmatch(change.ingredient) is not None


def is_update(change: Difference) -> bool:
    """Return whether an updated package explains the change. Stored answers remain valid."""
    if change.ingredient.startswith("versions."):
        return True
    is_on_both_sides = change.before is not None and change.after is not None
    return is_on_both_sides and _UPDATE.fullmatch(change.ingredient) is not None


def updates(
    before: Mapping[str, Any] | BaseModel, after: Mapping[str, Any] | BaseModel
) -> list[Difference]:
    """Return the differences that updated packages explain."""
    return [change for change in differences(before, after) if is_update(change)]


def other_differences(
    before: Mapping[str, Any] | BaseModel, after: Mapping[str, Any] | BaseModel
) -> list[Difference]:
    """Return the differences that no updated package explains."""
    return [change for change in differences(before, after) if not is_update(change)]


def judge_differences(
    before: JudgeIdentity, after: JudgeIdentity, names: tuple[str, str]
) -> list[Difference]:
    """Return what differs in the judges of two runs, except metrics that only one run has.

    `names` are those of the judges. Of a jury and one of its judges, the names differ, not every
    value.
    """
    unshared = before.metrics.keys() ^ after.metrics.keys()
    ignored = [f"metrics.{name}." for name in unshared]
    changes = []
    shared = [judge for judge in before.answering_judges if judge in after.answering_judges]
    fewest = min(len(before.answering_judges), len(after.answering_judges))
    if (before.jury or after.jury) and len(shared) >= fewest:  # one is a part of the other
        ignored += _ONE_JUDGE
        old_name, new_name = names
        if old_name != new_name:
            changes.append(Difference(ingredient=_JUDGES, before=old_name, after=new_name))
    for change in differences(before, after):
        if not change.ingredient.startswith(tuple(ignored)):
            changes.append(change)
    return changes


def judges_differ(ingredients: Iterable[str]) -> str:
    """Return `the judges differ (engine.n_ctx, weights)`.

    Other judges have other weights, so neither is named for them.
    """
    ingredients = list(ingredients)
    names: dict[str, None] = {}
    for ingredient in ingredients:
        if not ingredient.startswith(_COMBINATIONS):
            names[excerpt(ingredient)] = None
        elif _JUDGES not in ingredients:
            names["weights"] = None
    names.pop(_JUDGES, None)
    if not names:
        return "the judges differ"
    return f"the judges differ ({', '.join(names)})"


def format_updates(changes: Sequence[Difference]) -> str:
    """Format updates on one line: `numpy 2.3.1 there, 2.4.6 here; spacy ... there, ... here`."""
    parts = []
    for change in changes:
        name = excerpt(change.ingredient.removeprefix("versions."))
        parts.append(f"{name} {excerpt(change.before)} there, {excerpt(change.after)} here")
    return "; ".join(parts)


def format_differences(changes: Sequence[Difference]) -> str:
    """Format the first differences, one per line, and the number of others."""
    lines: dict[str, None] = {}
    for change in changes:
        metric = _METRIC.fullmatch(change.ingredient)
        data_change = _DATA.get(change.ingredient.removeprefix("data."))
        if metric and change.after is None:
            line = f"that run has {excerpt(metric[1])}, this one does not"
        elif metric and change.before is None:
            line = f"this run has {excerpt(metric[1])}, that one does not"
        elif data_change is not None:
            line = data_change
        else:
            values = f"{excerpt(change.before)} there, {excerpt(change.after)} here"
            line = f"{excerpt(change.ingredient)}: {values}"
        lines[line] = None
    shown = list(lines)[:_SHOWN]
    if len(lines) > _SHOWN:
        shown.append(f"and {len(lines) - _SHOWN} more")
    return "".join(f"\n  {line}" for line in shown)


def _flatten(part: Mapping[str, Any] | BaseModel, prefix: str = "") -> dict[str, Any]:
    """Return the values of nested objects by path."""
    if isinstance(part, BaseModel):
        part = part.model_dump(mode="json")
    flat: dict[str, Any] = {}
    for name, value in part.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{path}.")
        else:
            flat[path] = value
    return flat
