"""`localjudge label`: collect human labels for a run in a sheet, in a page, or in the terminal."""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import click

from localjudge.analysis.compare import compare, join_statements
from localjudge.cli import command as cli
from localjudge.errors import InputError
from localjudge.labels.drawing import DrawingOptions
from localjudge.labels.label_source import LabelSource
from localjudge.labels.labelling import NO_DISPUTE, Labelling
from localjudge.labels.read_labels import UnnamedAnnotator, read_labels
from localjudge.report.comparison_views import comparison_view
from localjudge.report.conclusions import next_step_of_comparison
from localjudge.report.label_views import (
    EVIDENCE_KEY,
    closest_view,
    ended_view,
    keys_line,
    list_keys,
    read_view,
    row_view,
    write_labelling,
)
from localjudge.report.summary_views import summary_view
from localjudge.report.terminal import Table, put, show
from localjudge.run_directory.comparison_directory import ComparisonDirectory
from localjudge.run_directory.label_rows import LOGIN_NAME
from localjudge.run_directory.run_record import RunRecord
from localjudge.types import Language
from localjudge.words import call, numbered, option, option_name, printable

_END = "\x04"
_READING = {"directory", "read", "annotator", "as_json"}
"""Parameters that have an effect with `--read`."""
# Sequences of arrows, Home and similar keys (ECMA-48, 5.4), and of a key with Alt.
_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?")


_ANSWERS: dict[str, Literal[0, 1, "?"]] = {"1": 1, "0": 0, "?": "?"}


@contextmanager
def _terminal_keys() -> Iterator[Iterator[str]]:
    if sys.platform == "win32":
        import msvcrt

        yield iter(msvcrt.getwch, _END)
    else:
        import termios
        import tty

        descriptor = sys.stdin.fileno()
        attributes = termios.tcgetattr(descriptor)
        try:
            tty.setcbreak(descriptor, termios.TCSADRAIN)
            yield _pressed(descriptor)
        finally:
            termios.tcsetattr(descriptor, termios.TCSADRAIN, attributes)


def _pressed(descriptor: int) -> Iterator[str]:
    """Yield single-character keys.

    Skips keys such as arrows, because their sequences may contain digits.
    """
    while True:
        pressed = os.read(descriptor, 64).decode(errors="replace")
        if pressed in ("", _END):
            return
        yield from _ESCAPE_SEQUENCE.sub("", pressed)


@cli.command(
    "label",
    "localjudge label runs/data-3f9a1c2e",
    advanced={
        "seed": "Data",
        "by": "Data",
        "disputed": "Data",
        "show_evidence": "Output",
        "language": "Output",
    },
)
@cli.run_argument
@cli.count_option(
    "--sample",
    "Draw N statements over all metrics.  [default: 50]",
    least=1,
)
@click.option("--seed", type=int, metavar="N", help="Seed of the random draw.  [default: 0]")
@cli.metrics_option("Only these metrics.  [default: all that labels can correct]")
@click.option(
    "--by",
    metavar="COLUMN",
    help="Draw about as many from each slice by a column of the data.",
)
@click.option(
    "--disputed",
    is_flag=True,
    help="Only statements on which annotators differ, to settle them.",
)
@click.option(
    "--annotator",
    metavar="NAME",
    help="Name of the annotator.  [default: the one in a file, in the terminal your login name]",
)
@click.option(
    "--read",
    type=cli.PATH,
    multiple=True,
    metavar="FILE",
    help="Read labels from a sheet, a page's file or a RUN (may be repeated).",
)
@cli.out_option("Write a sheet: .csv or .jsonl.", metavar="FILE")
@click.option(
    "--page",
    type=cli.PATH,
    metavar="FILE",
    help="Write a page for labelling in a browser.",
)
@click.option(
    "--show-evidence",
    is_flag=True,
    help="Show the sentences closest to each statement at once, and mark the labels.",
)
@cli.language_option
@cli.json_option
def label_command(directory: Path, as_json: bool, **options: Any) -> None:
    """Label statements of RUN without the judge's verdicts: 1 for supported, 0 for unsupported.

    Labels correct the means. In the terminal, press 1, 0, ? if undecidable, e for the closest
    sentences, s to postpone, u to undo or q to quit. Each label is stored in RUN immediately, and
    the same command resumes.

    Another person can label a sheet (in its column human) or a page; --read imports the result, or
    labels of equal statements from another RUN.

    The RUN may also be a directory with two runs (localjudge run --against): its statements are
    drawn from both, by what each can change in their difference, without saying whose they are.

    Label the statements in order. The corrected interval is updated at 20, 30, 50, 100, 150 labels
    and so on; after a whole sheet or page, at its number of labels, then at twice as many, four
    times as many and so on.
    """
    typed = cli.typed_arguments()
    source = _open_source(directory)
    if typed.get("read"):
        _refuse_beside_read(typed)
        _read_sources(source, typed["read"], typed.get("annotator"), as_json)
        return
    files = _check_files(typed, as_json)
    labelling = Labelling(
        source,
        typed.get("annotator"),
        DrawingOptions(**cli.pick(typed, DrawingOptions._fields)),
        show_evidence=typed.get("show_evidence", False),
    )
    if labelling.disputed and not labelling.rows:
        if as_json:
            cli.print_json({"rows": 0})
        else:
            click.echo(NO_DISPUTE)
        return
    if not files and not sys.stdin.isatty():
        raise InputError(
            "there is no terminal to label in",
            hint="write a sheet with --out, or a page with --page",
        )
    for remark in labelling.remarks:
        click.echo(printable(remark), err=True)
    if files:
        _write_files(directory, labelling, files, options["language"], as_json)
    else:
        _label_in_terminal(labelling)


def _write_files(
    directory: Path,
    labelling: Labelling,
    files: Mapping[str, Path],
    language: Language,
    as_json: bool,
) -> None:
    """Write a sheet, a page or both, and print how to read the labels."""
    count = 0
    for name, file in files.items():
        count = write_labelling(file, labelling, language=language, as_page=name == "page")
    if as_json:
        keys = {"out": "file", "page": "page"}
        values = {keys[name]: str(file) for name, file in files.items()}
        cli.print_json({**values, "rows": count})
        return
    names = " and ".join(printable(str(file)) for file in files.values())
    line = f"{numbered(count, 'statement')} to label in {names}"
    if cli.names_next_step():
        then = printable(call("label", str(directory), read="FILE"))
        line = f"{line}; then: {then}"
    click.echo(line)


def _open_source(directory: Path) -> LabelSource:
    """Return the statements of a run, or of the two runs of a comparison."""
    comparison = ComparisonDirectory.find(directory)
    if comparison is None:
        return LabelSource.of_run(RunRecord.open(directory))
    return join_statements(comparison)


def _corrected_views(source: LabelSource, *, advice: bool = True) -> list[Table]:
    """Return the means that the labels correct, or the difference."""
    runs = [run for run, _ in source.runs]
    if not source.is_joint:
        return [summary_view(runs[0], advice=advice)]
    if not advice:
        return []  # localjudge start shows the difference at its end
    comparison = compare(*runs, moved=0)
    step = next_step_of_comparison(comparison)
    return [*comparison_view(comparison), Table(notes=[f"next: {step}"])]


def _check_files(typed: dict[str, Any], as_json: bool) -> dict[str, Path]:
    """Return the files to write. Raises InputError for options without their file."""
    files: dict[str, Path] = cli.pick(typed, ("out", "page"))
    if not files and as_json:
        raise InputError(
            "labelling in the terminal prints no JSON",
            hint="add --out or --page, or omit --json",
        )
    if "language" in typed and not files:
        raise InputError(
            "--language is the language of a sheet or page",
            hint="add --out or --page, or omit it",
        )
    return files


def _refuse_beside_read(typed: Mapping[str, Any]) -> None:
    """Raise InputError for an option that reading labels does not use."""
    others = typed.keys() - _READING
    if others:
        hint = f"omit {option_name(min(others))}, or draw statements by another command"
        raise InputError("--read stores labels and draws no statements", hint=hint)


def _read_sources(
    source: LabelSource,
    sources: tuple[Path, ...],
    annotator: str | None,
    as_json: bool,
) -> None:
    names = list(dict.fromkeys(map(str, sources)))
    try:
        labels_read = read_labels(source, names, annotator)
    except UnnamedAnnotator as error:
        if not sys.stdin.isatty():
            raise
        click.echo(printable(str(error)), err=True)
        annotator = click.prompt("name of the annotator", err=True)
        labels_read = read_labels(source, names, annotator)
    labels_by_source = dict(zip(names, labels_read, strict=True))
    if as_json:
        cli.print_json({name: labels._asdict() for name, labels in labels_by_source.items()})
    else:
        show(read_view(labels_by_source), *_corrected_views(source, advice=cli.names_next_step()))


def _label_in_terminal(labelling: Labelling) -> None:
    if labelling.annotator.endswith(LOGIN_NAME):
        name = option("annotator", "NAME")
        click.echo(printable(f"labels by {labelling.annotator}; to give a name: {name}"), err=True)
    keys = list_keys(has_evidence=labelling.source.has_evidence and not labelling.show_evidence)
    try:
        with _terminal_keys() as pressed:
            while labelling.rows:
                show(*row_view(labelling.rows[0], labelling.labelled, labelling.total, keys))
                if labelling.show_evidence:
                    show(closest_view(labelling.open_evidence()))
                while (key := next(pressed, "q")) not in keys or key == EVIDENCE_KEY:
                    if key in keys:
                        show(closest_view(labelling.open_evidence()))
                    else:
                        put(f" {keys_line(keys)}\n")
                put(f" {key} {keys[key]}\n")
                if key == "q":
                    break
                if key == "s":
                    labelling.skip()
                elif key != "u":
                    labelling.answer(_ANSWERS[key])
                elif not labelling.undo():
                    put(" there is nothing to undo\n")
    finally:
        labelling.remember_opened()
    show(ended_view(labelling), *_corrected_views(labelling.source))
