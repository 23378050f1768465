"""Settings of a run as options of commands: type, default, bounds and help are those of the field, declared once.

threshold: float = Field(default=0.5, ge=0, le=1)      --threshold P   Probability from which on a verdict is 1.
                                                                       From 0 to 1.  [default: 0.5]
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from localjudge.engine.engine_settings import EngineSettings
from localjudge.option_spelling import flag
from localjudge.run.settings import RunSettings

_Command = TypeVar("_Command", bound=Callable[..., Any])
_SHOWN = {
    "abbreviations": "FILE",
    "cluster_by": "COLUMN",
    "context_separator": "TEXT",
    "mapping": "FIELD=COLUMN",
    "min_legal_mass": "P",
    "prompts": "FILE",
    "segmenter": "PIPELINE",
    "threshold": "P",
}
"""What stands for the value in a help text; N for whole numbers."""
_ALL = tuple(sorted(RunSettings.model_fields, key=lambda name: name in EngineSettings.model_fields))
"""Those of the engine last."""


def settings(*names: str) -> Callable[[_Command], _Command]:
    """Give a command an option for each of these settings, in their order; for all if none is named."""

    def decorate(command: _Command) -> _Command:
        for name in reversed(names or _ALL):
            command = click.option(*_declaration(name), **_attributes(name, RunSettings.model_fields[name]))(command)
        return command

    return decorate


def _declaration(name: str) -> tuple[str, str]:
    return flag(name), name


def _attributes(name: str, field: FieldInfo) -> dict[str, Any]:
    attributes: dict[str, Any] = {"help": _help(field), "metavar": _SHOWN.get(name)}
    kind = field.annotation
    if kind is bool:
        return {"help": attributes["help"], "is_flag": True}
    if get_origin(kind) is Literal:
        return {**attributes, "type": click.Choice(get_args(kind)), "default": field.default, "show_default": True}
    if name == "mapping":
        return {**attributes, "multiple": True, "callback": _pairs}
    if name == "prompts":
        return {**attributes, "multiple": True}
    simple = next(one for one in (int, float, str) if one in {kind, *get_args(kind)})
    if simple is int:
        attributes["metavar"] = "N"
    given = field.default if isinstance(field.default, int | float | str) else None
    return {**attributes, "type": simple, "default": given, "show_default": given is not None}


def _help(field: FieldInfo) -> str:
    """The field's own words, and its bounds."""
    at_least, at_most = (
        next((f"{getattr(one, side):g}" for one in field.metadata if hasattr(one, side)), None) for side in ("ge", "le")
    )
    bounds = {
        (True, True): f" From {at_least} to {at_most}.",
        (True, False): f" At least {at_least}.",
        (False, True): f" At most {at_most}.",
    }
    return f"{field.description}{bounds.get((at_least is not None, at_most is not None), '')}"


def _pairs(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> Mapping[str, str]:
    for pair in given:
        if not all(pair.partition("=")):
            raise click.BadParameter(f"{pair!r} is not FIELD=COLUMN, such as reference=gold_answer")
    mapping = dict(pair.split("=", 1) for pair in given)
    if len(mapping) < len(given):
        raise click.BadParameter("a field is mapped twice; contexts in several columns: retrieved_contexts=a,b")
    return mapping
