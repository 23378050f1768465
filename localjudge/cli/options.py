"""What a run is held to once it is scored: a baseline, gates, and files for CI systems and people about both.

All that can be refused is refused before anything is judged.

The options of commands that show what labels make of a run's means.

The help of a command whose options are many: in groups, by what they are about, with an example at the end.

    Data:
      --map FIELD=COLUMN  Column of yours to take for ...
    Judge:
      --judge NAME|PATH   Registered name or GGUF file.

A command with few options lists them as one group. An option that no group names is listed last, under `Options`.

Settings of a run as options of commands: type, default, bounds and help are those of the field, declared once.

threshold: float = Field(default=0.5, ge=0, le=1)      --threshold P   Probability from which on a verdict is 1.
                                                                       From 0 to 1.  [default: 0.5]

A suite as the defaults of a command's options: what the command line names takes its place.

click looks up an option that was not given in the context's `default_map`. Settings of a run are taken as Python takes
them, since a suite may say more of them than can be typed.
"""

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from localjudge.errors import UsageError
from localjudge.metrics.catalog import ATTRIBUTION_LABELS, RELEVANCE_LABELS
from localjudge.record.manifest import Manifest
from localjudge.resources import write_output
from localjudge.run.settings import SETTINGS, RunSettings
from localjudge.words import flag, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from localjudge.analysis.check import Check, Undecided
    from localjudge.analysis.correct import CorrectedMeans
    from localjudge.record.run import Run
    from localjudge.suite import Suite

_Command = TypeVar("_Command", bound=Callable[..., Any])


SECTIONS = ("Data", "Judge", "Scoring", "Evidence", "Output")
_FEW = 10


class GroupedOption(click.Option):
    """An option that stands in a section of its command's help."""

    def __init__(self, *arguments: Any, group: str = "Output", **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.group = group


def grouped(section: str, *names: str, **attributes: Any) -> Callable[[_Command], _Command]:
    """Give a command an option, in a section of its help."""
    return click.option(*names, cls=GroupedOption, group=section, **attributes)


def gate_options(command: _Command) -> _Command:
    """Give a command the options `--baseline`, `--gate` and `--undecided`."""
    for decorate in reversed(_GATE_OPTIONS):
        command = decorate(command)
    return command


_GATE_OPTIONS = (
    grouped(
        "Evidence",
        "--baseline",
        type=click.Path(path_type=Path),
        metavar="RUN",
        help="Also compare with this earlier run.",
    ),
    grouped(
        "Evidence",
        "--gate",
        "gates",
        multiple=True,
        metavar="GATE",
        help="Promise, decided on the 95 % interval: context_recall>=0.8, or, with --baseline, "
        "context_recall.delta>=-0.02 (may be repeated). Exit code 3 if one is missed.",
    ),
    grouped(
        "Evidence",
        "--undecided",
        type=click.Choice(["pass", "fail"]),
        default="fail",
        show_default=True,
        help="What a gate counts as when there are too few samples to decide it.",
    ),
)


class Checks:
    """The baseline and the gates of a run to come. Raises UsageError for a gate that could not be decided."""

    def __init__(
        self,
        gates: Sequence[str],
        *,
        baseline: Path | None,
        undecided: "Undecided",
        junit: Path | None = None,
        markdown: Path | None = None,
        with_texts: bool = False,
    ) -> None:
        from localjudge.analysis.check import parse_gate, refuse_without_baseline
        from localjudge.record.run import Run

        self._gates = [parse_gate(gate) for gate in gates]
        self._baseline = Run.open(baseline) if baseline else None
        self._undecided = undecided
        self._junit, self._markdown, self._with_texts = junit, markdown, with_texts
        refuse_without_baseline(self._gates, self._baseline)
        if with_texts and not markdown:
            raise UsageError("--with-texts is for --markdown", hint="add --markdown FILE, or omit --with-texts")
        if junit and not gates:
            raise UsageError(
                "--junit writes the outcome of gates, and there are none", hint="add --gate, or leave out --junit"
            )

    def refuse_unknown(self, metrics: Collection[str]) -> None:
        """Raise UsageError for a gate about a metric that is not going to be computed."""
        from localjudge.analysis.check import refuse_unknown

        refuse_unknown(self._gates, metrics)
        if self._baseline is not None and not self._baseline.summary.metrics.keys() & set(metrics):
            it_has = ", ".join(self._baseline.summary.metrics)
            raise UsageError(
                f"the baseline {self._baseline.directory} has no metric in common with this run",
                hint=f"it has {it_has}; name one of them with --metrics, or another baseline",
            )

    def begin(self) -> None:
        """Write files that cannot be taken for those of an earlier run."""
        from localjudge.report.ci import unfinished, unfinished_markdown

        _write(self._junit, unfinished(self._gates))
        _write(self._markdown, unfinished_markdown())

    def check(self, run: "Run") -> "Check":
        """Compare and decide; the files are written anew."""
        from localjudge.analysis.check import check
        from localjudge.report.ci import finished, run_markdown

        found = check(
            run, gates=[str(gate) for gate in self._gates], baseline=self._baseline, undecided=self._undecided
        )
        properties = {"run": str(run.directory), "judge": str(run.judge), "signature": run.summary.signature}
        _write(self._junit, finished(found.decisions, properties))
        _write(self._markdown, run_markdown(run, found, with_texts=self._with_texts))
        return found

    def report(
        self, run: "Run", found: "Check", out: Path | None = None, corrected: "CorrectedMeans | None" = None
    ) -> Path:
        """Write the run as a page, with what was found: into its directory, if no file is named."""
        from localjudge.report.html_page import write_checked_report

        return write_checked_report(run, found, self._baseline, out, corrected)


def _write(file: Path | None, content: str) -> None:
    if file is not None:
        write_output(file, [content.encode()])


def values(found: "Check") -> dict[str, Any]:
    """For JSON: `comparison` and `gates`, where they were asked for."""
    given: dict[str, Any] = {}
    if found.comparison:
        given["comparison"] = found.comparison.model_dump(mode="json")
    if found.decisions:
        given["gates"] = [decision.model_dump(mode="json") for decision in found.decisions]
    return given


def views(found: "Check", report: Path | None = None) -> "list[RenderableType]":
    """For people: the same, and where the report is."""
    from rich.padding import Padding

    from localjudge.report.tables import comparison_view, gates_view
    from localjudge.report.terminal import safe_text

    shown: list[RenderableType] = [comparison_view(found.comparison)] if found.comparison else []
    shown += [gates_view(found.decisions)] if found.decisions else []
    return [*shown, Padding(safe_text(f"report {report}"), (0, 1), expand=False)] if report else shown


def label_options(command: _Command) -> _Command:
    """Give a command the options `--labels` and `--foreign-labels`."""
    for decorate in reversed(_LABEL_OPTIONS):
        command = decorate(command)
    return command


_LABEL_OPTIONS = (
    click.option(
        "--labels",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Also correct each mean by the labels of people in this file: localjudge label.",
    ),
    click.option(
        "--foreign-labels", is_flag=True, help="With --labels: take labels of another run, too, under a warning."
    ),
)


class GroupedCommand(click.Command):
    """A command whose help lists its options in groups, then an example."""

    def __init__(self, *arguments: Any, example: str, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self._example = example

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each group that the command has options of; one for all if they are few."""
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


# A comma that is not between the options of one metric.
_BETWEEN_METRICS = re.compile(r",(?![^()]*\))")


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
        for name in reversed(names or list(SETTINGS)):
            attributes = _attributes(name, RunSettings.model_fields[name])
            if default is not None and not attributes.get("multiple"):
                attributes |= {"default": None, "show_default": default}
            command = grouped(SETTINGS[name].group, flag(name), name, **attributes)(command)
        return command

    return decorate


def metrics(default: str) -> Callable[[_Command], _Command]:
    """Give a command the option `--metrics`, several names in one text or in several; the default is words."""
    words = f"Default: {default}"
    return grouped("Scoring", "--metrics", multiple=True, callback=_names, metavar="A,B", help=words)


def _names(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> list[str] | None:
    names = [name.strip() for value in given for name in _BETWEEN_METRICS.split(value)]
    return [name for name in names if name] if given else None


def _attributes(name: str, field: FieldInfo) -> dict[str, Any]:
    attributes: dict[str, Any] = {"help": _help(field), "metavar": SETTINGS[name].metavar}
    kind = field.annotation
    if kind is bool:
        return {"help": attributes["help"], "is_flag": True}
    if get_origin(kind) is Literal:
        return {**attributes, "type": click.Choice(get_args(kind)), "default": field.default, "show_default": True}
    if get_origin(kind) is Mapping:
        return {**attributes, "multiple": True, "callback": _pairs}
    if get_origin(kind) is tuple and SETTINGS[name].names != "words":
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


_LEFT_OUT = "localjudge.no_suite"
_CALLED = {"report": "as_page"}
"""Keys of a suite whose option has another name in the command."""


def suite_options(command: _Command) -> _Command:
    """Give a command the options `--suite` and `--no-suite`; it gets the suite that was read, or None, as `suite`."""
    for decorate in reversed(_SUITE_OPTIONS):
        command = decorate(command)
    return command


def _leave_out(context: click.Context, _parameter: click.Parameter, given: bool) -> None:
    """Options that are given are looked at in their order, before those that are not."""
    if given and context.params.get("suite"):
        raise _contradiction()
    context.meta[_LEFT_OUT] = given


def _take(context: click.Context, _parameter: click.Parameter, given: Path | None) -> "Suite | None":
    from localjudge.suite import read_suite, suite_here

    left_out = context.meta.get(_LEFT_OUT, False) or context.params.get("demo", False)
    if left_out and given:
        raise _contradiction()
    file = given or (None if left_out else suite_here())
    if file is None:
        return None
    suite = read_suite(file, found=given is None)
    settings = suite.settings
    context.default_map = {_CALLED.get(key, key): one for key, one in suite.arguments.items() if key not in settings}
    return suite


def settings_given(options: Mapping[str, Any], suite: "Suite | None") -> dict[str, Any]:
    """The settings that the command line names, and those of the suite in the place of all others.

    A threshold that is typed takes the place of the suite's calibration, and a calibration that of its threshold.
    """
    context = click.get_current_context()
    typed = {
        name: value
        for name, value in options.items()
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    }
    said = suite.settings if suite else {}
    for one, other in (("threshold", "calibration"), ("calibration", "threshold")):
        if one in typed:
            said.pop(other, None)
    return {**said, **typed}


def _contradiction() -> UsageError:
    return UsageError("--suite cannot be given beside --no-suite or --demo", hint="leave one of them out")


_SUITE_OPTIONS = (
    grouped(
        "Data",
        "--no-suite",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_leave_out,
        help="Take nothing from localjudge.toml.",
    ),
    grouped(
        "Data",
        "--suite",
        is_eager=True,
        callback=_take,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Take what is not named here from this file (docs/comparing.md). Default: localjudge.toml, if it is here.",
    ),
)


_SERVER = re.compile("https?://|unix:", re.IGNORECASE)
_LONGEST = 2_000


def resume_command(directory: Path, manifest: Manifest) -> str | None:
    """The command that goes on with a run, put together from its manifest, on one line that a shell reads.

    The manifest may be a stranger's, and the command is advice: it names no address, and nothing that is written but
    the directory. None for a run that Python code began, with rows or an engine of its own; for one with a setting that
    has no option, or of which the manifest holds the words and not the file; for one that asks about labels of people,
    whose judge is a server, or that no line can hold.
    """
    environment, metrics = manifest.environment, manifest.judge["metrics"]
    judge, sources = environment.get("judge"), environment.get("sources")
    if not judge or _SERVER.match(judge) or not sources or sources == ["rows"]:
        return None
    if metrics.keys() & {ATTRIBUTION_LABELS, RELEVANCE_LABELS}:
        return None
    words = ["localjudge", "run", "--judge", judge, "--metrics", ",".join(metrics), "--out", str(directory)]
    defaults = RunSettings().model_dump(mode="json")
    for name, value in environment["settings"].items():
        if value in (None, False, [], {}) or value == defaults.get(name):
            continue
        if name not in defaults or (typed := _typed(name, value)) is None:
            return None
        words += typed
    line = shlex.join([*words, "--", *("-" if source == "stdin" else source for source in sources)])
    return line if line == printable(line) and len(line) <= _LONGEST else None


def _typed(name: str, value: Any) -> list[str] | None:
    """A setting as it is typed; None for one that cannot be."""
    setting, pairs = SETTINGS[name], get_origin(RunSettings.model_fields[name].annotation) is Mapping
    if not setting.group or setting.names == "words" or isinstance(value, Mapping) != pairs:
        return None
    if value is True:
        return [flag(name)]
    if pairs:
        value = [f"{key}={item}" for key, item in value.items()]
    values = value if isinstance(value, list) else [value]
    return (
        None
        if any(isinstance(item, Mapping) for item in values)
        else [word for item in values for word in (flag(name), str(item))]
    )
