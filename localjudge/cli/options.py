"""Settings of a run as options of commands: type, default, bounds and help are those of the field, declared once.

threshold: float = Field(default=0.5, ge=0, le=1)      --threshold P   Probability from which on a verdict is 1.
                                                                       From 0 to 1.  [default: 0.5]
"""

import re
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
    "allow_host": "HOST",
    "calibration": "NAME|FILE",
    "cluster_by": "COLUMN",
    "context_separator": "TEXT",
    "criteria": "FILE",
    "mapping": "FIELD=COLUMN",
    "min_legal_mass": "P",
    "profile": "NAME|FOLDER",
    "prompts": "FILE",
    "ray": "ADDRESS",
    "reuse": "RUN",
    "rows": "PATH",
    "segmenter": "PIPELINE",
    "shard": "I/N",
    "threshold": "P",
}
"""What stands for the value in a help text; N for whole numbers."""
# A comma that is not between the options of one metric.
_BETWEEN_METRICS = re.compile(r",(?![^()]*\))")
_REPEATED = {"allow_host", "calibration", "criteria", "prompts", "reuse"}
_ALL = tuple(sorted(RunSettings.model_fields, key=lambda name: name in EngineSettings.model_fields))
"""Those of the engine last."""


def _number(value: str) -> float:
    """A number with a decimal point. One with a comma or in per cent is refused with its right spelling."""
    try:
        return float(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a number{_right_spelling(value)}") from error


def _right_spelling(value: str) -> str:
    digits = value.removesuffix("%").replace(",", ".")
    try:
        number = float(digits) / (100 if value.endswith("%") else 1)
    except ValueError:
        return ""
    return f": write {number:g}"


def settings(*names: str, default: str | None = None) -> Callable[[_Command], _Command]:
    """Give a command an option for each of these settings, in their order; for all if none is named.

    With a `default` in words, an option that is not given is None, or no value at all where it may be repeated.
    """

    def decorate(command: _Command) -> _Command:
        for name in reversed(names or _ALL):
            attributes = _attributes(name, RunSettings.model_fields[name])
            if default is not None and name not in _REPEATED:
                attributes |= {"default": None, "show_default": default}
            command = click.option(*_declaration(name), **attributes)(command)
        return command

    return decorate


def metrics(default: str) -> Callable[[_Command], _Command]:
    """Give a command the option `--metrics`, several names in one text or in several; the default is words."""
    return click.option("--metrics", multiple=True, callback=_names, metavar="A,B", help=f"Default: {default}")


def _names(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> list[str] | None:
    names = [name.strip() for value in given for name in _BETWEEN_METRICS.split(value)]
    return [name for name in names if name] if given else None


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
    if name in _REPEATED:
        return {**attributes, "multiple": True}
    simple = next(one for one in (int, float, str) if one in {kind, *get_args(kind)})
    if simple is int:
        attributes["metavar"] = "N"
    given = field.default if isinstance(field.default, int | float | str) else None
    return {
        **attributes,
        "type": _number if simple is float else simple,
        "default": given,
        "show_default": given is not None,
    }


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
