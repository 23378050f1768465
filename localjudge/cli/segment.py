"""`localjudge segment`: where a text is cut into sentences."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from localjudge.cli.option_groups import GroupedCommand
from localjudge.cli.options import settings
from localjudge.errors import UsageError

if TYPE_CHECKING:
    from localjudge.types import Span


@click.command("segment", cls=GroupedCommand, example="localjudge segment report.txt --language de")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@settings("language", "segmenter", "abbreviations")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines: start, end, text.")
def command(file: Path, language: str, segmenter: str | None, abbreviations: str | None, as_json: bool) -> None:
    """Show the sentences of FILE (UTF-8 text; - for standard input) with their offsets in code points."""
    from localjudge.text import Segmenter
    from localjudge.text.language_fit import misfit
    from localjudge.text.own_abbreviations import read_abbreviations

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

    from localjudge.report.table_layout import Table
    from localjudge.report.terminal import show

    offsets = [f"{span.start}-{span.end}" for span in spans]
    width = max(map(len, offsets), default=0)
    if spans:
        labels = (Text(f"{offset:>{width}}", style="dim") for offset in offsets)
        show(Table((), [(label, span.text) for label, span in zip(labels, spans, strict=True)]))
