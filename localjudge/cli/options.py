"""Shared options of commands: help sections, settings of a run, and config values as defaults.

A setting has an option if its field names a section; other settings are set in the configuration
file.
"""

import json
import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from localjudge.analysis.comparison import Obstacle
from localjudge.config import CONFIG_FILE, Config, read_config
from localjudge.errors import InputError
from localjudge.judging.settings import SETTINGS, RunSettings
from localjudge.progress import Progress
from localjudge.report.terminal import progress_on, put
from localjudge.types import USES, Language
from localjudge.words import flag

PATH = click.Path(path_type=Path)
SECTIONS = ("Data", "Judge", "Scoring", "Evidence", "Output")
_FEW = 10
_NO_CONFIG = "none"
# A comma that is not between the options of one metric.
_BETWEEN_METRICS = re.compile(r",(?![^()]*\))")
_Decorator = Callable[[Any], Any]


class GroupedOption(click.Option):
    """An option in a section of its command's help, or among the everyday options before them."""

    def __init__(
        self,
        *arguments: Any,
        group: str,
        everyday: bool = False,
        **attributes: Any,
    ) -> None:
        super().__init__(*arguments, **attributes)
        self.group = group
        self.everyday = everyday


class GroupedCommand(click.Command):
    """A command with an example at the end of its help.

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
            corrected = str(value).replace(",", ".")
            problem = f"{value!r} is not a number: use a decimal point, as in {corrected}"
            self.fail(problem, param, ctx)
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
    """Add the options of these settings, or of all; settings without a section have none."""

    def decorate(command: Any) -> Any:
        for name in reversed(names or tuple(SETTINGS)):
            setting = SETTINGS[name]
            if setting.group:
                attributes = _attributes(name, RunSettings.model_fields[name])
                add = option(
                    setting.group,
                    flag(name),
                    name,
                    everyday=setting.everyday,
                    **attributes,
                )
                command = add(command)
        return command

    return decorate


def _attributes(name: str, field: FieldInfo) -> dict[str, Any]:
    """Return the attributes of a setting's option, by the type of its field."""
    kind = field.annotation
    origin = get_origin(kind)
    attributes: dict[str, Any] = {
        "help": f"{field.description}{_describe_bounds(field)}",
        "metavar": SETTINGS[name].metavar,
    }
    if kind is bool:
        return {**attributes, "is_flag": True}
    if origin is Mapping:
        return {**attributes, "multiple": True, "callback": _read_mapping}
    if origin is tuple:
        return {**attributes, "multiple": True}
    if origin is Literal:
        attributes["type"] = click.Choice(get_args(kind))
    elif int in (kind, *get_args(kind)):
        attributes["type"] = int
        attributes["metavar"] = "N"
    elif float in (kind, *get_args(kind)):
        attributes["type"] = _Decimal()
    else:
        attributes["type"] = str
    has_default = isinstance(field.default, int | float | str)
    if has_default:
        attributes["default"] = field.default
    attributes["show_default"] = has_default
    return attributes


def _describe_bounds(field: FieldInfo) -> str:
    """Return the range of a number as a sentence, or ""."""
    bounds: dict[str, float] = {}
    for constraint in field.metadata:
        for side in ("ge", "le"):
            if hasattr(constraint, side):
                bounds[side] = getattr(constraint, side)
    if "ge" not in bounds:
        return ""
    if "le" not in bounds:
        return f" At least {bounds['ge']:g}."
    return f" From {bounds['ge']:g} to {bounds['le']:g}."


def _read_mapping(
    _context: click.Context,
    _parameter: click.Parameter,
    pairs: tuple[str, ...],
) -> Mapping[str, str]:
    return parse_mapping(pairs)


def parse_mapping(pairs: Sequence[str]) -> dict[str, str]:
    """Parse texts such as `reference=gold_answer`. Raises BadParameter for others."""
    mapping: dict[str, str] = {}
    for pair in pairs:
        field, equals, column = pair.partition("=")
        if not (field and equals and column):
            problem = f"{pair!r} is not FIELD=COLUMN, such as reference=gold_answer"
            raise click.BadParameter(problem)
        if field in mapping:
            hint = "for contexts in several columns, write retrieved_contexts=a,b"
            raise click.BadParameter(f"a field is mapped twice; {hint}")
        mapping[field] = column
    return mapping


def metrics(words: str) -> _Decorator:
    how = {"multiple": True, "callback": _read_metrics, "metavar": "A,B", "help": words}
    return option("Scoring", "--metrics", everyday=True, **how)


def _read_metrics(
    _context: click.Context,
    _parameter: click.Parameter,
    texts: tuple[str, ...],
) -> list[str] | None:
    if not texts:
        return None
    return parse_metrics(",".join(texts))


def parse_metrics(text: str) -> list[str]:
    """Return the different names of metrics in a text, which commas separate."""
    names = map(str.strip, _BETWEEN_METRICS.split(text))
    return list(dict.fromkeys(filter(None, names)))


def _read_names(
    _context: click.Context,
    _parameter: click.Parameter,
    texts: tuple[str, ...],
) -> list[str]:
    names = map(str.strip, ",".join(texts).split(","))
    return list(filter(None, names))


def judge_option(
    default: str = "bundled",
    *,
    together: bool = False,
    several: bool = False,
) -> _Decorator:
    """Add the option `--judge`: one name, or several.

    Several judges make one verdict `together`; otherwise `several` make one verdict each.
    """
    words = "Registered name, GGUF file, or a name from localjudge models"
    if together:
        words += "; several make one verdict together (may be repeated)"
    elif several:
        words += " (may be repeated)"
    words += f".  [default: {default}]"
    how: dict[str, Any] = {"multiple": True, "metavar": "NAME|PATH", "help": words}
    if not several and not together:
        how["callback"] = _one_judge
    return option("Judge", "--judge", everyday=True, **how)


def _one_judge(
    _context: click.Context,
    _parameter: click.Parameter,
    judges: tuple[str, ...],
) -> str | None:
    if len(judges) > 1:
        raise InputError("--judge was given twice", hint="give one judge to this command")
    return next(iter(judges), None)


def out_option(words: str, *, metavar: str = "DIR", required: bool = False) -> _Decorator:
    how = {"type": PATH, "metavar": metavar, "help": words, "required": required}
    return option("Output", "--out", everyday=True, **how)


_quiet = "Print only warnings and the result."
quiet_option = option("Output", "--quiet", is_flag=True, everyday=True, help=_quiet)
json_option = option("Output", "--json", "as_json", is_flag=True, everyday=True, help="Print JSON.")
_language = "Language of a page, sheet or certificate."
language_option = option(
    "Output",
    "--language",
    type=click.Choice(get_args(Language)),
    default="en",
    help=_language,
)
run_argument = click.argument("directory", metavar="RUN", type=PATH)
_use = "Fail unless the judge is recommended for this use, by the limits of localjudge doctor."
require_option = option("Judge", "--require", "required", type=click.Choice(USES), help=_use)
_gate = (
    "A condition that must hold for the whole 95 % interval: 'context_recall>=0.8', or with "
    "--baseline 'context_recall.delta>=-0.02' (may be repeated). Exit code 3 if one fails."
)
_baseline = "Compare with this earlier run."
baseline_option = option(
    "Evidence",
    "--baseline",
    type=PATH,
    metavar="RUN",
    everyday=True,
    help=_baseline,
)
gate_option = option(
    "Evidence",
    "--gate",
    "gates",
    multiple=True,
    metavar="GATE",
    everyday=True,
    help=_gate,
)
_allow = "Decide gates on a difference although judges, or questions of paired samples, differ."
allow_different_option = option(
    "Evidence",
    "--allow-different",
    multiple=True,
    callback=_read_names,
    metavar=",".join(get_args(Obstacle)),
    help=_allow,
)
_config = f"File with default settings, or {_NO_CONFIG!r}.  [default: localjudge.toml, if present]"
config_option = option("Data", "--config", metavar="FILE", help=_config)


STEP = object()
"""Object of a command's context within `localjudge start`, which names the next command itself."""


def names_next_step() -> bool:
    return click.get_current_context().obj is not STEP


def typed_arguments() -> dict[str, Any]:
    """Return the arguments of the current command that the user typed."""
    context = click.get_current_context()
    typed = click.core.ParameterSource.COMMANDLINE
    arguments: dict[str, Any] = {}
    for name, value in context.params.items():
        if context.get_parameter_source(name) is typed:
            arguments[name] = value
    return arguments


def with_config(file: str | None, *keys: str) -> tuple[dict[str, Any], Config | None]:
    """Return the arguments in the configuration file together with the typed ones, and the file.

    Only `keys` are returned, if there are any. The configuration file is `file`, or the one in
    this folder unless `none` was typed. A typed threshold replaces the configuration file's
    calibration, and a typed calibration its threshold.
    """
    typed = typed_arguments()
    path = file
    if file is None and Path(CONFIG_FILE).is_file():
        path = CONFIG_FILE
    if path is None or path == _NO_CONFIG:
        return typed, None
    config = read_config(path, named=file is not None)
    arguments = dict(config.arguments)
    if keys:
        arguments = pick(arguments, keys)
    if "threshold" in typed:
        arguments.pop("calibration", None)
    if "calibration" in typed:
        arguments.pop("threshold", None)
    return {**arguments, **typed}, config


def pick(arguments: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the arguments with these names."""
    return {name: arguments[name] for name in names if name in arguments}


def pick_settings(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return pick(arguments, SETTINGS)


@contextmanager
def progress_shown(*, quiet: bool) -> Iterator[Progress]:
    if quiet:
        logging.getLogger("localjudge").setLevel(logging.WARNING)
    with closing(progress_on(sys.stderr, quiet=quiet)) as progress:
        yield progress


def print_json(values: object) -> None:
    """Print a record or plain values as JSON."""
    if isinstance(values, BaseModel):
        put(f"{values.model_dump_json(indent=2)}\n")
        return
    put(f"{json.dumps(values, indent=2)}\n")
