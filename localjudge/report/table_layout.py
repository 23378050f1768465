"""Rows that fit terminals of 60 columns and more with every word and every number whole.

wide      context_recall  0.583  0.090 - 0.960       2          0       0

narrow    context_recall
             0.583  0.090 - 0.960       2          0       0

What stands beside each other where there is room stands below each other where there is none.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from localjudge.report.terminal import safe_text

BETWEEN = 2
"""Empty columns between one cell and the next."""
_INDENT = 3
_LEAST_TEXT_COLUMNS = 24
"""A text gets at least so many columns beside its labels: most words of most languages are shorter."""


class NumberTable:
    """A row of numbers for each name, under their headings."""

    def __init__(self, *headings: str, names: str = "metric") -> None:
        self._names = names
        self._headings = headings
        self._rows: list[tuple[str, tuple[str, ...]]] = []

    def add(self, name: str, *cells: str) -> None:
        """One more row: as many cells as there are headings."""
        self._rows.append((name, cells))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        columns = zip(self._headings, *(cells for _, cells in self._rows), strict=True)
        widths = [max(map(cell_len, column)) for column in columns]
        names = [safe_text(name) for name, _ in self._rows]
        name_width = max(map(cell_len, (self._names, *(name.plain for name in names))))
        numbers_width = sum(BETWEEN + width for width in widths)
        rule = "-" if options.ascii_only else "─"
        if 1 + name_width + numbers_width + 1 <= options.max_width:
            yield Text(f" {self._names:<{name_width}}{_right(self._headings, widths)}", style="bold", no_wrap=True)
            yield Text(f" {rule * (name_width + numbers_width)}", no_wrap=True)
            for name, (_, cells) in zip(names, self._rows, strict=True):
                padded = Text(" ").append_text(name).append(" " * (name_width - cell_len(name.plain)))
                yield padded.append(_right(cells, widths))
        else:
            yield Text(f" {self._names}", style="bold")
            yield Text(f"{' ' * _INDENT}{_right(self._headings, widths)}", style="bold")
            yield Text(f" {rule * min(_INDENT + numbers_width - 1, options.max_width - 1)}", no_wrap=True)
            for name, (_, cells) in zip(names, self._rows, strict=True):
                yield Padding(name, (0, 1))
                yield Text(f"{' ' * _INDENT}{_right(cells, widths)}")


class LabelledText(NamedTuple):
    """A text, and the short labels that stand before it."""

    labels: tuple[Text, ...]
    text: Text


class LabelledTexts:
    """Texts beside their labels, or below them where too little room is left beside."""

    def __init__(self, rows: Sequence[LabelledText]) -> None:
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        columns = zip(*(row.labels for row in self._rows), strict=True)
        widths = [max(cell_len(label.plain) for label in column) for column in columns]
        left = options.max_width - 2 - sum(BETWEEN + width for width in widths)
        yield from self._beside(len(widths)) if left >= _LEAST_TEXT_COLUMNS else self._below(widths)

    def _beside(self, labels: int) -> Iterator[RenderableType]:
        grid = Table.grid(padding=(0, BETWEEN, 0, 0))
        for _ in range(labels):
            grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        for row in self._rows:
            grid.add_row(*row.labels, row.text)
        yield Padding(grid, (0, 1), expand=False)

    def _below(self, widths: Sequence[int]) -> Iterator[RenderableType]:
        for row in self._rows:
            labels = (
                label.copy().append(" " * (width - cell_len(label.plain)))
                for label, width in zip(row.labels, widths, strict=True)
            )
            yield Padding(Text(" " * BETWEEN, overflow="fold").join(labels), (0, 1))
            if row.text.plain:
                yield Padding(row.text, (0, 1, 0, _INDENT + 1))


def _right(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The cells in columns, each at the right end of its own."""
    return "".join(" " * (BETWEEN + width - cell_len(cell)) + cell for cell, width in zip(cells, widths, strict=True))
