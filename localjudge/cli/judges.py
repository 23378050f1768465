"""`localjudge cache`: whether answers are kept for later runs, and where.

`localjudge calibrate`: a judge held against people's labels. A thin layer over `localjudge.calibrate`.

`localjudge doctor`: whether a judge and a machine can be trusted with a run.

`localjudge metrics`: which metrics there are.

`localjudge models`: which models there are on this machine.

`localjudge segment`: where a text is cut into sentences.
"""

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from localjudge.cli.main import ExitCode, be_quiet
from localjudge.cli.options import GroupedCommand, metrics, settings
from localjudge.doctor.health_check import USES
from localjudge.errors import UsageError
from localjudge.run.settings import settings_with
from localjudge.words import printable

if TYPE_CHECKING:
    from localjudge.doctor.calibrate import CalibrationOptions
    from localjudge.types import Span


@click.command("cache", cls=GroupedCommand, example="localjudge cache on")
@click.argument("turn", required=False, metavar="[on|off]", type=click.Choice(["on", "off"]))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def cache_command(turn: str | None, as_json: bool) -> None:
    """Show, turn on or turn off the answer cache.

    With the cache on, every run takes the answers that it finds there and adds those that its judge gives. It is off
    until it is turned on, and `off` deletes it. Only you can open it; it holds answers, with the reasons that a model
    gave, and hashes of what was asked.
    """
    from localjudge.record import cache as answer_cache

    if turn == "on":
        answer_cache.turn_on()
    elif turn == "off":
        answer_cache.turn_off()
    state = answer_cache.state()
    if as_json:
        click.echo(state.model_dump_json(indent=2))
    elif state.on:
        click.echo(
            f"the cache is on: {state.answers:,} answers, {state.size / 2**20:.1f} MiB, in {printable(state.folder)}"
        )
    else:
        click.echo("the cache is off: `localjudge cache on` keeps answers for later runs")


@click.command("calibrate", cls=GroupedCommand, example="localjudge calibrate labels.jsonl --judge model.gguf")
@click.argument("labels", metavar="LABELS", type=click.Path())
@click.option(
    "--judge",
    metavar="NAME|PATH|URL",
    help="Registered name or GGUF file.  [default: reference]",
)
@click.option(
    "--weights",
    is_flag=True,
    help="Weigh the judges of a combined RUN by the labels, for localjudge combine --weights.",
)
@click.option("--run", type=click.Path(path_type=Path), metavar="RUN", help="The run whose verdicts are labelled.")
@metrics("all that are labelled. With --run: whose verdicts count.")
@click.option("--name", metavar="NAME", help="Saved under it. Default: <judge>-<question>.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Default: runs/<labels>-<hash>.")
@settings(*settings_with("calibration"))
@click.option(
    "--require",
    "required",
    type=click.Choice(USES),
    help="What the judge has to be fit for by these labels, by the limits that doctor has: exit code 3 if it is not.",
)
@click.option("--quiet", is_flag=True, help="No progress and no remarks: warnings and the result.")
@click.option("--json", "as_json", is_flag=True, help="Print the calibration as JSON.")
def calibrate_command(labels: str, quiet: bool, as_json: bool, required: str | None, **options: Any) -> int:
    """Hold a judge against labels of people: how good it is, and from which probability on a verdict should be 1.

    LABELS is JSONL, CSV or Parquet: context, statement and label, or question, sentences and relevant, about which the
    judge is asked; or verdicts of a run with a column human (1 or 0), with --run. The result is saved under a name, for
    localjudge run --calibration NAME. After an interruption the same command goes on.

    Exit code: 0 done; 3 done, and the judge is not fit for what is required; 1 nothing was measured; 4 interrupted.
    """
    from localjudge.doctor.calibrate import measured
    from localjudge.doctor.fitness import admission_by_labels
    from localjudge.record.manifest import calibration_file
    from localjudge.report.label_tables import calibration_view
    from localjudge.report.terminal import progress_on, put, show, terminal

    if quiet:
        be_quiet()
    judge, run, name = (options.pop(one) for one in ("judge", "run", "name"))
    given = cast("CalibrationOptions", _given(options))
    with closing(progress_on(sys.stderr, quiet=quiet)) as progress:
        found = measured(labels, given, judge=judge, run=run, name=name, progress=progress)
    if as_json:
        put(f"{found.model_dump_json(indent=2)}\n")
    else:
        show(calibration_view(found))
    if not quiet and not as_json:
        advice = f"use it: localjudge run ... --calibration {found.name}"
        if found.guesses:
            advice = "do not use it: this judge is not shown to be better than guessing"
        terminal(stderr=True).print(f"saved as {calibration_file(found.name)}; {advice}", soft_wrap=True)
    admission = admission_by_labels(found)
    if required is None or required in admission.uses:
        return ExitCode.DONE
    terminal(stderr=True).print(f"fit for {required} is required: {admission}", soft_wrap=True)
    return ExitCode.GATE_MISSED


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """What was given: what is left out is as it is by default."""
    from localjudge.run.settings import RunSettings

    fields = RunSettings.model_fields
    return {
        name: value for name, value in options.items() if value != (fields[name].default if name in fields else None)
    }


_ALL = "all"


class ItemCount(click.ParamType[int]):
    """A number of items, or `all`."""

    name = "items"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; for `all`, one that is never reached."""
        if value == _ALL:
            return sys.maxsize
        try:
            return click.IntRange(min=0).convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"expected a number from 0 on, or {_ALL}: got {value!r}", param, ctx)


@click.command("doctor", cls=GroupedCommand, example="localjudge doctor --judge model.gguf")
@click.option(
    "--judge",
    default="reference",
    show_default=True,
    metavar="NAME|PATH|URL",
    help="Registered name, GGUF file, a name that localjudge models lists, or the address of a server on this machine.",
)
@settings(*settings_with("doctor"))
@click.option(
    "--injections",
    type=click.IntRange(min=0),
    metavar="N",
    help="Attempts to talk the judge into a verdict; 0 for none. Default: as many as take about two minutes.",
)
@click.option(
    "--probes",
    type=ItemCount(),
    metavar="N|all",
    help="Labelled items that measure it, in passages of 12; 0 for none. Default: as many as take about five minutes.",
)
@click.option(
    "--require",
    "required",
    type=click.Choice(USES),
    help="What the judge has to be fit for: exit code 1 if it is not.",
)
@click.option("--quiet", is_flag=True, help="No progress and no remarks: warnings and the result.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor_command(judge: str, quiet: bool, as_json: bool, **options: Any) -> int:
    """Check a judge and this machine: does it load, answer, resist injections, and what is it fit for?

    None of your data is read. Each finding is printed as soon as it is made; the last says whether the judge is fit for
    ranking, for means, for thresholds or for nothing, by labelled items that are bundled. A judge that does no better
    than guessing on obvious cases has failed, and so has one that is often talked into a verdict by its material.

    Exit code: 0 all ok, or warnings; 1 something failed; 4 interrupted.
    """
    from localjudge.doctor.examine import examine
    from localjudge.doctor.health_check import HealthCheck
    from localjudge.report.checks import check_view, conclusion_view
    from localjudge.report.terminal import progress_on, put, show

    def show_check(check: HealthCheck) -> None:
        if not as_json:
            show(check_view(check))

    if quiet:
        be_quiet()
    found = examine(judge, progress=progress_on(sys.stderr, quiet=quiet), on_check=show_check, **options)
    if as_json:
        put(f"{found.model_dump_json(indent=2)}\n")
    else:
        show(conclusion_view(found))
    return ExitCode.NOTHING_JUDGED if found.result == "failed" else ExitCode.DONE


@click.command("metrics", cls=GroupedCommand, example="localjudge metrics")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def metrics_command(as_json: bool) -> None:
    """List all metrics: what each asks, the columns that it needs, its verdicts for a sample, and its source."""
    from localjudge.metrics.catalog import described
    from localjudge.report.checks import metric_list
    from localjudge.report.terminal import put, show

    metrics = described()
    if as_json:
        listed = [{**one._asdict(), "about": one.about._asdict()} for one in metrics]
        put(f"{json.dumps(listed, indent=2)}\n")
    else:
        show(metric_list(metrics))


@click.command("models", cls=GroupedCommand, example="localjudge models ~/models")
@click.argument("folders", nargs=-1, metavar="[FOLDER]...")
@click.option("--verbose", is_flag=True, help="Also what cannot judge or was skipped, and why.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def models_command(folders: tuple[str, ...], verbose: bool, as_json: bool) -> None:
    """List the models on this machine: registered ones, those that other programs keep, and those in each FOLDER.

    Ollama, LM Studio, the caches of Hugging Face and llama.cpp, GPT4All, Jan and installed Python packages are looked
    through, where their own environment variables say. A name is what --judge takes. Only headers of files are read,
    and no network is used: that a model is listed does not say that it judges well. That is asked of localjudge doctor.
    """
    from localjudge.doctor.inventory import inventory
    from localjudge.report.checks import model_list
    from localjudge.report.terminal import put

    found = inventory(folders)
    if as_json:
        put(f"{found.model_dump_json(indent=2)}\n")
    else:
        put(model_list(found, verbose=verbose))


@click.command("segment", cls=GroupedCommand, example="localjudge segment report.txt --language de")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@settings("language", "segmenter", "abbreviations")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines: start, end, text.")
def segment_command(file: Path, language: str, segmenter: str | None, abbreviations: str | None, as_json: bool) -> None:
    """Show the sentences of FILE (UTF-8 text; - for standard input) with their offsets in code points."""
    from localjudge.text import Segmenter
    from localjudge.text.languages import misfit, read_abbreviations

    own = read_abbreviations(abbreviations) if abbreviations else ()
    text = _text(file)
    spans = Segmenter(language, segmenter, own)(text)
    finding = None if segmenter else misfit([text], language)
    if finding:
        click.echo(finding, err=True)
    if as_json:
        for span in spans:
            click.echo(json.dumps(span.model_dump()))
    else:
        _show(spans)


def _text(file: Path) -> str:
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return content.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", hint="name a text file") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8 (byte {error.start})", hint="convert it first") from error


def _show(spans: "list[Span]") -> None:
    from rich.text import Text

    from localjudge.report.terminal import Table, show

    offsets = [f"{span.start}-{span.end}" for span in spans]
    width = max(map(len, offsets), default=0)
    if spans:
        labels = (Text(f"{offset:>{width}}", style="dim") for offset in offsets)
        show(Table((), [(label, span.text) for label, span in zip(labels, spans, strict=True)]))
