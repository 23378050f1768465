"""Compare the manifests of two runs, value by value."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from localjudge.run_directory.directory import excerpt
from localjudge.types import Record

_SHOWN = 5
_METRIC = re.compile(r"metrics\.(.+)\.version")
_DATA = {"sha256": "the data differ", "clusters_sha256": "the groups of the samples differ"}
_ROUNDING = re.compile(
    r"(versions\..*|segmenter\.version|(?:jury\..+\.)?engine\.(llama_cpp|llama_cpp_python|llguidance|system|self_check|gpu_layers|n_ubatch|flash_attention))",
)

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
    old, new = _leaves(before), _leaves(after)
    return [
        Difference(ingredient=name, before=old.get(name), after=new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


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


def format_updates(changes: Sequence[Difference]) -> str:
    """Format updates on one line: `numpy 2.3.1 there, 2.4.6 here; spacy 3.8.7 there, 3.8.18 here`."""
    parts = []
    for change in changes:
        name = excerpt(change.ingredient.removeprefix("versions."))
        parts.append(f"{name} {excerpt(change.before)} there, {excerpt(change.after)} here")
    return "; ".join(parts)


def format_differences(changes: Sequence[Difference]) -> str:
    """Format the first differences, one per line, and the number of others."""
    lines = list(dict.fromkeys(map(_in_words, changes)))
    more = len(lines) - _SHOWN
    return "".join(f"\n  {line}" for line in lines[:_SHOWN]) + (
        f"\n  and {more} more" if more > 0 else ""
    )


def _in_words(change: Difference) -> str:
    metric = _METRIC.fullmatch(change.ingredient)
    if metric and None in (change.before, change.after):
        has, lacks = ("that run", "this one") if change.after is None else ("this run", "that one")
        return f"{has} has {excerpt(metric[1])}, {lacks} does not"
    if words := _DATA.get(change.ingredient.removeprefix("data.")):
        return words
    return f"{excerpt(change.ingredient)}: {excerpt(change.before)} there, {excerpt(change.after)} here"


def _leaves(part: Mapping[str, Any] | BaseModel, prefix: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for name, value in (
        part if isinstance(part, Mapping) else part.model_dump(mode="json")
    ).items():
        leaves |= (
            _leaves(value, f"{prefix}{name}.")
            if isinstance(value, Mapping)
            else {f"{prefix}{name}": value}
        )
    return leaves
