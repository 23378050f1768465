"""The commands: how they and their options are declared, what they take, and what they print.

    from localjudge.cli import command as cli

    @cli.command("doctor", "localjudge doctor --judge model.gguf")
    @cli.judge_option()
    @cli.settings("threads")
    @cli.json_option
    def doctor_command(judge: str | None, threads: int | None, as_json: bool) -> int: ...

What a command takes are the words that the user typed, and what the configuration file adds. A
setting has an option if its field names a section; other settings are set in the configuration
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
from click.core import ParameterSource
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from localjudge.analysis.comparison import Obstacle
from localjudge.config import CONFIG_FILE, Config, read_config
from localjudge.errors import InputError
from localjudge.judging.settings import SETTINGS, RunSettings, override
from localjudge.progress import Progress
from localjudge.report.terminal import progress_on, put
from localjudge.types import USES, Language
from localjudge.words import flag

_EVERYDAY = "Options"
_SECTIONS = ("Data", "Judge", "Scoring", "Evidence", "Output")
NO_CONFIG = "none"
"""Value of `--config` for no configuration file."""
STEP = object()
"""Object of a command's context within `localjudge start`, which names the next command itself."""


class Command(click.Command):
    """A command of `localjudge`.

        @command("label", "localjudge label runs/data", advanced={"seed": "Data"})

    `advanced` has the sections of options, by parameter name. Other options are listed before them.
    `rewrite` changes the typed words before they are parsed.
    """

    def __init__(
        self,
        *arguments: Any,
        example: str,
        advanced: Mapping[str, str],
        rewrite: Callable[[Sequence[str]], list[str]],
        **attributes: Any,
    ) -> None:
        super().__init__(*arguments, **attributes)
        self.advanced = advanced
        self._example = example
        self._rewrite = rewrite

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self._rewrite(args))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, list[tuple[str, str]]] = {_EVERYDAY: []}
        for section in _SECTIONS:
            rows[section] = []
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx)
            if row and isinstance(parameter, click.Option):
                section = self.advanced.get(str(parameter.name), _EVERYDAY)
                rows[section].append(row)
        for section, options in rows.items():
            title = section
            if section != _EVERYDAY:
                title = f"Advanced: {section.lower()}"
            if options:
                with formatter.section(title):
                    formatter.write_dl(options)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Example"):
            formatter.write(f"{' ' * formatter.current_indent}{self._example}\n")


def command(
    name: str,
    example: str,
    *,
    advanced: Mapping[str, str] | None = None,
    rewrite: Callable[[Sequence[str]], list[str]] = list,
) -> Callable[[Any], Any]:
    return click.command(
        name, cls=Command, example=example, advanced=advanced or {}, rewrite=rewrite
    )


def advanced_settings() -> dict[str, str]:
    """Return the sections of the settings that are not for every day."""
    sections: dict[str, str] = {}
    for name, setting in SETTINGS.items():
        if setting.group and not setting.everyday:
            sections[name] = setting.group
    return sections


def typed_arguments() -> dict[str, Any]:
    """Return the arguments of the current command that the user typed."""
    context = click.get_current_context()
    arguments: dict[str, Any] = {}
    for name, value in context.params.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            arguments[name] = value
    return arguments


def with_config(file: str | None, *keys: str) -> tuple[dict[str, Any], Config | None]:
    """Return the arguments in the configuration file together with the typed ones, and the file.

    With `keys`, only these are read from the configuration file. It is `file`, or the one in this
    folder unless `none` was typed.
    """
    typed = typed_arguments()
    path = file
    if file is None and Path(CONFIG_FILE).is_file():
        path = CONFIG_FILE
    if path is None or path == NO_CONFIG:
        return typed, None
    config = read_config(path, named=file is not None)
    arguments = dict(config.arguments)
    if keys:
        arguments = pick(arguments, keys)
    return override(arguments, typed), config


def pick(arguments: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the arguments with these names."""
    return {name: arguments[name] for name in names if name in arguments}


def names_next_step() -> bool:
    """Return whether the current command names the next one."""
    return click.get_current_context().obj is not STEP


@contextmanager
def progress_shown(*, quiet: bool) -> Iterator[Progress]:
    """Show progress on standard error, or only warnings if `quiet`."""
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


PATH = click.Path(path_type=Path)
# A comma that is not between the options of one metric.
_BETWEEN_METRICS = re.compile(r",(?![^()]*\))")
_Decorator = Callable[[Any], Any]


def settings(*names: str) -> _Decorator:
    """Add the options of these settings, or of all."""

    def decorate(command: Any) -> Any:
        for name in reversed(names or tuple(SETTINGS)):
            if SETTINGS[name].group:
                attributes = _setting_attributes(name, RunSettings.model_fields[name])
                command = click.option(flag(name), name, **attributes)(command)
        return command

    return decorate


def _setting_attributes(name: str, field: FieldInfo) -> dict[str, Any]:
    """Return the attributes of a setting's option."""
    attributes: dict[str, Any] = {
        "metavar": SETTINGS[name].metavar,
        **_type_attributes(field.annotation),
    }
    attributes["help"] = f"{field.description}{_describe_bounds(field)}"
    if "multiple" in attributes:
        attributes["help"] += " May be repeated."
    if "type" in attributes and isinstance(field.default, int | float | str):
        attributes["default"] = field.default
        attributes["show_default"] = True
    return attributes


def _type_attributes(kind: Any) -> dict[str, Any]:
    """Return how an option reads values of this type."""
    origin = get_origin(kind)
    attributes: dict[str, Any] = {"type": str}
    if kind is bool:
        attributes = {"is_flag": True}
    elif origin is Mapping:
        attributes = {"multiple": True, "callback": _read_mapping}
    elif origin is tuple:
        attributes = {"multiple": True}
    elif origin is Literal:
        attributes = {"type": click.Choice(get_args(kind))}
    elif int in (kind, *get_args(kind)):
        attributes = {"type": int, "metavar": "N"}
    elif float in (kind, *get_args(kind)):
        attributes = {"type": read_decimal}
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


def read_decimal(text: str) -> float:
    """Parse a number. Raises BadParameter for another text, with a hint for a decimal comma."""
    try:
        return float(text)
    except ValueError as error:
        problem = f"{text!r} is not a number"
        if "," in text:
            problem += f": use a decimal point, as in {text.replace(',', '.')}"
        raise click.BadParameter(problem) from error


def _read_mapping(
    _context: click.Context, _parameter: click.Parameter, pairs: tuple[str, ...]
) -> dict[str, str]:
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


def count_option(
    name: str, words: str, *, least: int = 0, default: int | None = None
) -> _Decorator:
    return click.option(
        name,
        type=click.IntRange(min=least),
        metavar="N",
        default=default,
        show_default=default is not None,
        help=words,
    )


def metrics_option(words: str) -> _Decorator:
    return click.option(
        "--metrics", multiple=True, callback=_read_metrics, metavar="A,B", help=words
    )


def _read_metrics(
    _context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> list[str] | None:
    """Return the different names of metrics, which commas separate."""
    if not texts:
        return None
    names = map(str.strip, _BETWEEN_METRICS.split(",".join(texts)))
    different = list(dict.fromkeys(filter(None, names)))
    if not different:
        raise click.BadParameter("no metric is named: omit the option for all metrics")
    return different


def judge_option(
    default: str = "bundled", *, together: bool = False, several: bool = False
) -> _Decorator:
    """Add the option `--judge`: one name, or several.

    Several judges make one verdict `together`; otherwise `several` make one verdict each.
    """
    words = "Registered name, GGUF file, or a name from localjudge models"
    callback: Callable[..., Any] | None = None
    if together:
        words += "; several make one verdict together (may be repeated)"
    elif several:
        words += " (may be repeated)"
    else:
        callback = _require_one_judge
    words += f".  [default: {default}]"
    return click.option(
        "--judge", multiple=True, metavar="NAME|PATH", callback=callback, help=words
    )


def _require_one_judge(
    _context: click.Context, _parameter: click.Parameter, judges: tuple[str, ...]
) -> str | None:
    if len(judges) > 1:
        raise InputError("--judge was given twice", hint="give one judge to this command")
    return next(iter(judges), None)


def _read_names(
    _context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> list[str]:
    """Return names, which commas separate."""
    names = map(str.strip, ",".join(texts).split(","))
    return list(filter(None, names))


def out_option(words: str, *, metavar: str = "DIR") -> _Decorator:
    return click.option("--out", type=PATH, metavar=metavar, help=words)


run_argument = click.argument("directory", metavar="RUN", type=PATH)
config_option = click.option(
    "--config",
    metavar="FILE",
    help=f"File with default settings, or {NO_CONFIG!r}.  [default: localjudge.toml, if present]",
)
require_option = click.option(
    "--require",
    "required",
    type=click.Choice(USES),
    help="Fail unless the judge is recommended for this use, by the limits of localjudge doctor.",
)
baseline_option = click.option(
    "--baseline", type=PATH, metavar="RUN", help="Compare with this earlier run."
)
against_option = click.option(
    "--against",
    metavar="COLUMN",
    help="Also judge the answers in this column, the baseline, and compare the response with them.",
)
gate_option = click.option(
    "--gate",
    "gates",
    multiple=True,
    metavar="GATE",
    help="A condition that must hold for the whole 95 % interval: 'context_recall>=0.8', or with "
    "--baseline 'context_recall.delta>=-0.02' (may be repeated). Exit code 3 if one fails.",
)
allow_different_option = click.option(
    "--allow-different",
    multiple=True,
    callback=_read_names,
    metavar=",".join(get_args(Obstacle)),
    help="Decide gates on a difference although judges, or questions of paired samples, differ.",
)
language_option = click.option(
    "--language",
    type=click.Choice(get_args(Language)),
    default="en",
    help="Language of a page, sheet or certificate.",
)
quiet_option = click.option("--quiet", is_flag=True, help="Print only warnings and the result.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
