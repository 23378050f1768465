"""Options as commands share them: sections of a help, settings of a run, a suite in the place of what is not typed.

    threshold: Annotated[float, Setting("Scoring", metavar="P")] = Field(default=0.5, ge=0, le=1)
        Scoring:
          --threshold P   The decision threshold. From 0 to 1.  [default: 0.5]

    localjudge.toml < what is typed          -> `arguments`, one mapping, from which a command takes what it needs

A setting has an option if its field names a section; all others are set in the suite file. What is typed takes the
place of what the suite says, key by key.
"""

import logging
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from localjudge.doctor.health_check import USES
from localjudge.errors import InputError
from localjudge.metrics.catalog import ATTRIBUTION_LABELS, RELEVANCE_LABELS
from localjudge.record.manifest import Manifest
from localjudge.run.settings import SETTINGS, RunSettings
from localjudge.words import flag, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from localjudge.progress import Progress

PATH = click.Path(path_type=Path)
SECTIONS = ("Data", "Judge", "Scoring", "Evidence", "Output")
_FEW = 10
_LONGEST = 2_000
_NO_SUITE = "none"
# A comma that is not between the options of one metric.
_BETWEEN_METRICS = re.compile(r",(?![^()]*\))")
_SERVER = re.compile("https?://", re.IGNORECASE)
_Command = TypeVar("_Command", bound=Callable[..., Any])
_Decorator = Callable[[_Command], _Command]


class GroupedOption(click.Option):
    """An option that stands in a section of its command's help."""

    def __init__(self, *arguments: Any, group: str, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.group = group


class GroupedCommand(click.Command):
    """A command whose help lists its options in sections, or in one if they are few; then an example."""

    def __init__(self, *arguments: Any, example: str, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self._example = example

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each group that the command has options of."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Option) and (record := parameter.get_help_record(ctx)):
                sections.setdefault(getattr(parameter, "group", "Output"), []).append(record)
        if sum(map(len, sections.values())) <= _FEW:
            sections = {"Options": [record for records in sections.values() for record in records]}
        for section in sorted(sections, key=(*SECTIONS, "Options").index):
            with formatter.section(section):
                formatter.write_dl(sections[section])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example, each command on a line of its own that can be copied."""
        with formatter.section("Example"):
            for line in self._example.splitlines():
                formatter.write(f"{' ' * formatter.current_indent}{line}\n")


def grouped(section: str, *names: str, **attributes: Any) -> _Decorator[Any]:
    """Give a command an option, in a section of its help."""
    return click.option(*names, cls=GroupedOption, group=section, **attributes)


def count_option(section: str, name: str, words: str, *, least: int = 0, default: int | None = None) -> _Decorator[Any]:
    """Give a command an option whose value is a number of things."""
    kind = click.IntRange(min=least)
    return grouped(section, name, type=kind, metavar="N", default=default, show_default=default is not None, help=words)


def stacked(*decorators: _Decorator[Any]) -> _Decorator[Any]:
    """Several options as one decorator, in their order."""

    def decorate(command: Any) -> Any:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def settings(*names: str) -> _Decorator[Any]:
    """Give a command an option for each of these settings that has one; for all if none is named."""
    return stacked(
        *(
            grouped(SETTINGS[name].group, flag(name), name, **_attributes(name, RunSettings.model_fields[name]))
            for name in names or SETTINGS
            if SETTINGS[name].group
        )
    )


def _attributes(name: str, field: FieldInfo) -> dict[str, Any]:
    """An option's type, default, bounds and words, as the field declares them."""
    low, high = (
        next((f"{getattr(bound, side):g}" for bound in field.metadata if hasattr(bound, side)), "")
        for side in ("ge", "le")
    )
    bounds = f" From {low} to {high}." if low and high else f" At least {low}." if low else ""
    attributes: dict[str, Any] = {"help": f"{field.description}{bounds}", "metavar": SETTINGS[name].metavar}
    kind = field.annotation
    if kind is bool:
        return {"help": attributes["help"], "is_flag": True}
    if get_origin(kind) is Literal:
        return {**attributes, "type": click.Choice(get_args(kind)), "default": field.default, "show_default": True}
    if get_origin(kind) is Mapping:
        return {**attributes, "multiple": True, "callback": _pairs}
    if get_origin(kind) is tuple:
        return {**attributes, "multiple": True}
    simple = next(type_ for type_ in (int, float, str) if type_ in {kind, *get_args(kind)})
    if simple is int:
        attributes["metavar"] = "N"
    default = field.default if isinstance(field.default, int | float | str) else None
    return {**attributes, "type": simple, "default": default, "show_default": default is not None}


def _pairs(_context: click.Context, _parameter: click.Parameter, pairs: tuple[str, ...]) -> Mapping[str, str]:
    for pair in pairs:
        if not all(pair.partition("=")):
            raise click.BadParameter(f"{pair!r} is not FIELD=COLUMN, such as reference=gold_answer")
    mapping = dict(pair.split("=", 1) for pair in pairs)
    if len(mapping) < len(pairs):
        raise click.BadParameter("a field is mapped twice; contexts in several columns: retrieved_contexts=a,b")
    return mapping


def metrics(words: str) -> _Decorator[Any]:
    """Give a command the option `--metrics`, several names in one text or in several."""
    return grouped("Scoring", "--metrics", multiple=True, callback=_names, metavar="A,B", help=words)


def _names(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> list[str] | None:
    names = [name.strip() for text in texts for name in _BETWEEN_METRICS.split(text)]
    return [name for name in dict.fromkeys(names) if name] if texts else None


def judge_option(default: str = "reference") -> _Decorator[Any]:
    """Give a command the option `--judge`."""
    words = f"Registered name, GGUF file, a name from localjudge models, or a server's address.  [default: {default}]"
    return grouped("Judge", "--judge", multiple=True, callback=_one_judge, metavar="NAME|PATH|URL", help=words)


def _one_judge(_context: click.Context, _parameter: click.Parameter, judges: tuple[str, ...]) -> str | None:
    if len(judges) > 1:
        raise InputError("--judge was given twice", hint="run each judge, then: localjudge combine A B --out DIR")
    return judges[0] if judges else None


def out_option(words: str, *, metavar: str = "DIR", required: bool = False) -> _Decorator[Any]:
    """Give a command the option `--out`."""
    return grouped("Output", "--out", type=PATH, metavar=metavar, help=words, required=required)


quiet_option = grouped("Output", "--quiet", is_flag=True, help="Print only warnings and the result.")
json_option = grouped("Output", "--json", "as_json", is_flag=True, help="Print JSON.")
run_argument = click.argument("directory", metavar="RUN", type=PATH)
require_option = grouped(
    "Judge",
    "--require",
    "required",
    type=click.Choice(USES),
    help="Fail unless the judge is fit for this, by the limits of localjudge doctor.",
)
label_options = grouped(
    "Evidence",
    "--labels",
    type=PATH,
    metavar="FILE",
    help="Correct each mean by human labels: see localjudge label.",
)
gate_options = stacked(
    grouped("Evidence", "--baseline", type=PATH, metavar="RUN", help="Compare with this earlier run."),
    grouped(
        "Evidence",
        "--gate",
        "gates",
        multiple=True,
        metavar="GATE",
        help="A condition that must hold for the whole 95 % interval: 'context_recall>=0.8', or with --baseline "
        "'context_recall.delta>=-0.02' (may be repeated). Exit code 3 if one fails.",
    ),
)
suite_option = grouped(
    "Data",
    "--suite",
    metavar="FILE",
    help=f"Settings that are not typed; {_NO_SUITE} for none.  [default: localjudge.toml, if it is here]",
)


def typed_arguments() -> dict[str, Any]:
    """What the command line names, and nothing that is left to its default."""
    context = click.get_current_context()
    typed = click.core.ParameterSource.COMMANDLINE
    return {name: value for name, value in context.params.items() if context.get_parameter_source(name) is typed}


def with_suite(file: str | None, *keys: str) -> tuple[dict[str, Any], Any]:
    """What is typed, with what a suite says in the place of the rest (of these keys, if any are named); the suite.

    The suite is `file`, or the one of this folder; None if there is none, or `none` was typed. A threshold that is
    typed takes the place of the suite's calibration, and a calibration that of its threshold.
    """
    from localjudge.suite import SUITE, read_suite

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
    """The settings of a run among the arguments of a command."""
    return {name: value for name, value in arguments.items() if name in SETTINGS}


@contextmanager
def progress_shown(*, quiet: bool) -> Iterator["Progress"]:
    """What goes on, on standard error; if quiet, only warnings and errors."""
    from localjudge.report.terminal import progress_on

    if quiet:
        logging.getLogger("localjudge").setLevel(logging.WARNING)
    with closing(progress_on(sys.stderr, quiet=quiet)) as progress:
        yield progress


def print_result(
    as_json: bool, values: BaseModel | Callable[[], Any], view: "Callable[[], list[RenderableType] | RenderableType]"
) -> None:
    """Print a result on standard output: its values as JSON, or its views."""
    import json

    from localjudge.report.terminal import put, show

    if as_json and isinstance(values, BaseModel):
        put(f"{values.model_dump_json(indent=2)}\n")
    elif as_json and not isinstance(values, BaseModel):
        put(f"{json.dumps(values(), indent=2)}\n")
    else:
        views = view()
        show(*views if isinstance(views, list) else [views])


def resume_command(directory: Path, manifest: Manifest) -> str | None:
    """The command that goes on with a run, put together from its manifest, on one line that a shell reads.

    The manifest may be a stranger's, and the command is advice: it names no address, and nothing that is written but
    the directory. None for a run that Python code began, with rows or an engine of its own; for one with a setting that
    has no option, or of which the manifest holds the words and not the file; for one that asks about labels of people,
    whose judge is a server, or that no line can hold.
    """
    environment, names = manifest.environment, manifest.judge["metrics"]
    judge, sources = environment.get("judge"), environment.get("sources")
    if not judge or _SERVER.match(judge) or not sources or sources == ["rows"]:
        return None
    if names.keys() & {ATTRIBUTION_LABELS, RELEVANCE_LABELS}:
        return None
    words = ["localjudge", "run", "--judge", judge, "--metrics", ",".join(names), "--out", str(directory)]
    defaults = RunSettings().model_dump(mode="json")
    for name, value in environment["settings"].items():
        if value in (None, False, [], {}) or value == defaults.get(name):
            continue
        if name not in defaults or (option := _typed_option(name, value)) is None:
            return None
        words += option
    line = shlex.join([*words, "--", *("-" if source == "stdin" else source for source in sources)])
    return line if line == printable(line) and len(line) <= _LONGEST else None


def _typed_option(name: str, value: Any) -> list[str] | None:
    """A setting as it is typed; None for one that cannot be."""
    pairs = get_origin(RunSettings.model_fields[name].annotation) is Mapping
    if not SETTINGS[name].group or isinstance(value, Mapping) != pairs:
        return None
    if value is True:
        return [flag(name)]
    if pairs:
        value = [f"{key}={item}" for key, item in value.items()]
    values = value if isinstance(value, list) else [value]
    if any(isinstance(item, Mapping) for item in values):
        return None
    return [word for item in values for word in (flag(name), str(item))]
