"""Shared options of commands: help sections, settings of a run, and suite values as defaults.

A setting has an option if its field names a section; other settings are set in the suite file.
"""

import json
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from rich.console import RenderableType

from localjudge.analysis.compare import Obstacle
from localjudge.errors import InputError
from localjudge.progress import Progress
from localjudge.report.terminal import progress_on, put, show
from localjudge.run.settings import SETTINGS, RunSettings
from localjudge.suite import SUITE, read_suite
from localjudge.types import USES, Language
from localjudge.words import flag

PATH = click.Path(path_type=Path)
SECTIONS = ("Data", "Judge", "Scoring", "Evidence", "Output")
_FEW = 10
_NO_SUITE = "none"
# A comma that is not between the options of one metric.
_BETWEEN_METRICS = re.compile(r",(?![^()]*\))")
_Decorator = Callable[[Any], Any]


class GroupedOption(click.Option):
    """An option in a section of its command's help, or among the everyday options before all sections."""

    def __init__(self, *arguments: Any, group: str, everyday: bool = False, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.group = group
        self.everyday = everyday


class GroupedCommand(click.Command):
    """A command whose help ends with an example.

    With many options, everyday options come first, and the others follow in sections.
    """

    def __init__(self, *arguments: Any, example: str, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self._example = example

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        are_few = len(options) <= _FEW
        rows_by_section: dict[str, list[tuple[str, str]]] = {"Options": []}
        for section in SECTIONS:
            rows_by_section[f"Advanced: {section.lower()}"] = []
        for option in options:
            row = option.get_help_record(ctx)
            section = "Options"
            if isinstance(option, GroupedOption) and not (are_few or option.everyday):
                section = f"Advanced: {option.group.lower()}"
            if row:
                rows_by_section[section].append(row)
        for section, rows in rows_by_section.items():
            if rows:
                with formatter.section(section):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Example"):
            formatter.write(f"{' ' * formatter.current_indent}{self._example}\n")


class _Decimal(click.types.FloatParamType):
    """A number, with a hint about a decimal comma."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if "," in str(value):
            self.fail(
                f"{value!r} is not a number: use a decimal point, as in {str(value).replace(',', '.')}", param, ctx
            )
        return super().convert(value, param, ctx)


def command(name: str, example: str, kind: type[GroupedCommand] = GroupedCommand) -> _Decorator:
    return click.command(name, cls=kind, example=example)


def option(section: str, *names: str, **attributes: Any) -> _Decorator:
    return click.option(*names, cls=GroupedOption, group=section, **attributes)


def count_option(
    section: str,
    name: str,
    words: str,
    *,
    least: int = 0,
    default: int | None = None,
    everyday: bool = False,
) -> _Decorator:
    return option(
        section,
        name,
        type=click.IntRange(min=least),
        metavar="N",
        default=default,
        show_default=default is not None,
        help=words,
        everyday=everyday,
    )


def settings(*names: str) -> _Decorator:

    def decorate(command: Any) -> Any:
        for name in reversed(names or tuple(SETTINGS)):
            setting = SETTINGS[name]
            if setting.group:
                attributes = _attributes(name, RunSettings.model_fields[name])
                add = option(setting.group, flag(name), name, everyday=setting.everyday, **attributes)
                command = add(command)
        return command

    return decorate


def _attributes(name: str, field: FieldInfo) -> dict[str, Any]:
    low, high = (
        next((getattr(bound, side) for bound in field.metadata if hasattr(bound, side)), None) for side in ("ge", "le")
    )
    bounds = "" if low is None else f" At least {low:g}." if high is None else f" From {low:g} to {high:g}."
    kind, origin, default = field.annotation, get_origin(field.annotation), field.default
    attributes: dict[str, Any] = {"help": f"{field.description}{bounds}", "metavar": SETTINGS[name].metavar}
    if kind is bool:
        return attributes | {"is_flag": True}
    if origin is Literal:
        return attributes | {"type": click.Choice(get_args(kind)), "default": default, "show_default": True}
    if origin in (Mapping, tuple):
        return attributes | {"multiple": True, "callback": _read_mapping if origin is Mapping else None}
    simple = next(type_ for type_ in (int, float, str) if type_ in {kind, *get_args(kind)})
    if simple is int:
        attributes["metavar"] = "N"
    has_default = isinstance(default, int | float | str)
    attributes |= {"default": default if has_default else None, "show_default": has_default}
    return attributes | {"type": _Decimal() if simple is float else simple}


def _read_mapping(_context: click.Context, _parameter: click.Parameter, pairs: tuple[str, ...]) -> Mapping[str, str]:
    return mapping_of(pairs)


def mapping_of(pairs: Sequence[str]) -> dict[str, str]:
    for pair in pairs:
        if not all(pair.partition("=")):
            raise click.BadParameter(f"{pair!r} is not FIELD=COLUMN, such as reference=gold_answer")
    mapping = dict(pair.split("=", 1) for pair in pairs)
    if len(mapping) < len(pairs):
        raise click.BadParameter(
            "a field is mapped twice; for contexts in several columns, write retrieved_contexts=a,b"
        )
    return mapping


def metrics(words: str) -> _Decorator:
    how = {"multiple": True, "callback": _read_metrics, "metavar": "A,B", "help": words}
    return option("Scoring", "--metrics", everyday=True, **how)


def _read_metrics(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> list[str] | None:
    return metric_names(",".join(texts)) if texts else None


def metric_names(text: str) -> list[str]:
    return [name for name in dict.fromkeys(map(str.strip, _BETWEEN_METRICS.split(text))) if name]


def _read_names(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> list[str]:
    return [name.strip() for name in ",".join(texts).split(",") if name.strip()]


def judge_option(default: str = "lexical", *, together: bool = False, several: bool = False) -> _Decorator:
    """Add the option `--judge`: a name; `together` or `several`, a tuple of one verdict or of several."""
    words = "Registered name, GGUF file, or a name from localjudge models"
    if together:
        words += "; several make one verdict together (may be repeated)"
    elif several:
        words += " (may be repeated)"
    words += f".  [default: {default}]"
    callback = None if several or together else _one_judge
    how = {"multiple": True, "callback": callback, "metavar": "NAME|PATH", "help": words}
    return option("Judge", "--judge", everyday=True, **how)


def _one_judge(_context: click.Context, _parameter: click.Parameter, judges: tuple[str, ...]) -> str | None:
    if len(judges) > 1:
        raise InputError("--judge was given twice", hint="give one judge to this command")
    return judges[0] if judges else None


def out_option(words: str, *, metavar: str = "DIR", required: bool = False) -> _Decorator:
    how = {"type": PATH, "metavar": metavar, "help": words, "required": required}
    return option("Output", "--out", everyday=True, **how)


_quiet = "Print only warnings and the result."
quiet_option = option("Output", "--quiet", is_flag=True, everyday=True, help=_quiet)
json_option = option("Output", "--json", "as_json", is_flag=True, everyday=True, help="Print JSON.")
_language = "Language of a page, sheet or certificate."
language_option = option("Output", "--language", type=click.Choice(get_args(Language)), default="en", help=_language)
run_argument = click.argument("directory", metavar="RUN", type=PATH)
_use = "Fail unless the judge is recommended for this use, by the limits of localjudge doctor."
require_option = option("Judge", "--require", "required", type=click.Choice(USES), help=_use)
_gate = (
    "A condition that must hold for the whole 95 % interval: 'context_recall>=0.8', or with --baseline "
    "'context_recall.delta>=-0.02' (may be repeated). Exit code 3 if one fails."
)
_baseline = "Compare with this earlier run."
baseline_option = option("Evidence", "--baseline", type=PATH, metavar="RUN", everyday=True, help=_baseline)
gate_option = option("Evidence", "--gate", "gates", multiple=True, metavar="GATE", everyday=True, help=_gate)
_allow = "Decide gates on a difference although the judges, or the questions of paired samples, differ."
allow_different_option = option(
    "Evidence",
    "--allow-different",
    multiple=True,
    callback=_read_names,
    metavar=",".join(get_args(Obstacle)),
    help=_allow,
)
_suite = f"File with default settings, or {_NO_SUITE!r}.  [default: localjudge.toml, if present]"
suite_option = option("Data", "--suite", metavar="FILE", help=_suite)


STEP = object()
"""Object of a command's context within `localjudge start`, which names the next command itself."""


def names_next_step() -> bool:
    return click.get_current_context().obj is not STEP


def typed_arguments() -> dict[str, Any]:
    context = click.get_current_context()
    typed = click.core.ParameterSource.COMMANDLINE
    return {name: value for name, value in context.params.items() if context.get_parameter_source(name) is typed}


def with_suite(file: str | None, *keys: str) -> tuple[dict[str, Any], Any]:
    """Return the suite's arguments (only `keys`, if given) with the typed ones, and the suite or None.

    The suite is `file`, or the one in this folder unless `none` was typed. A typed threshold replaces the suite's
    calibration, and a typed calibration its threshold.
    """
    typed = typed_arguments()
    path = None if file == _NO_SUITE else file or (SUITE if Path(SUITE).is_file() else None)
    if path is None:
        return typed, None
    suite = read_suite(path, named=file is not None)
    arguments = {key: value for key, value in suite.arguments.items() if not keys or key in keys}
    for name, other in (("threshold", "calibration"), ("calibration", "threshold")):
        if name in typed:
            arguments.pop(other, None)
    return {**arguments, **typed}, suite


def settings_in(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name in SETTINGS}


@contextmanager
def progress_shown(*, quiet: bool) -> Iterator[Progress]:
    if quiet:
        logging.getLogger("localjudge").setLevel(logging.WARNING)
    with closing(progress_on(sys.stderr, quiet=quiet)) as progress:
        yield progress


def print_result(
    as_json: bool, values: BaseModel | Callable[[], Any], view: Callable[[], list[RenderableType] | RenderableType]
) -> None:
    if as_json:
        text = values.model_dump_json(indent=2) if isinstance(values, BaseModel) else json.dumps(values(), indent=2)
        put(f"{text}\n")
    else:
        views = view()
        show(*views if isinstance(views, list) else [views])
