"""Verdicts on sentences that were held against one context each, as the matrix that they are.

          [0]      [1]
  1 0.981  0 0.120  The Eiffel Tower was built in 1889.
  0 0.031  0 0.094  Gustave Eiffel designed it.

A cell holds label and probability; the label alone if the terminal is too narrow for all probabilities. Sentences of
the response and of the reference are matrices of their own, below each other.
"""

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from localjudge.record.result_rows import VerdictRow
from localjudge.report.table_layout import BETWEEN, LabelledText, LabelledTexts
from localjudge.report.terminal import number, safe, safe_text

LABEL_STYLE = {0: "red", 1: "green", None: "yellow"}
_CELL_COLUMNS = len("1 0.981")
_Row = dict[int | str | None, VerdictRow]
"""The verdicts on one sentence by what it was held against."""


class SupportMatrix:
    """Sentences by what they were held against."""

    def __init__(self, verdicts: Sequence[VerdictRow]) -> None:
        self._by_source: dict[str, dict[int, _Row]] = {}
        for verdict in verdicts:
            rows = self._by_source.setdefault(verdict.source, {})
            rows.setdefault(verdict.index, {})[verdict.against] = verdict

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        for rows in self._by_source.values():
            columns = list(dict.fromkeys(against for row in rows.values() for against in row))
            whole = len(columns) * (_CELL_COLUMNS + BETWEEN) <= options.max_width
            headings = tuple(Text(_heading(against, whole=whole), style="dim") for against in columns)
            cells = [
                LabelledText(tuple(_cell(row.get(against), whole=whole) for against in columns), _sentence(row))
                for row in rows.values()
            ]
            yield LabelledTexts([LabelledText(headings, Text()), *cells])


def _heading(against: int | str | None, *, whole: bool) -> str:
    if against == "reference":
        return "ref." if whole else "r"
    return f"[{against}]" if whole else str(against)


def _cell(verdict: VerdictRow | None, *, whole: bool) -> Text:
    if verdict is None:
        return Text()
    label = "?" if verdict.label is None else str(verdict.label)
    probability = f" {number(verdict.p_yes)}" if whole and verdict.p_yes is not None else ""
    return Text(f"{label}{probability}", style=LABEL_STYLE[verdict.label])


def _sentence(row: _Row) -> Text:
    """The sentence, and what was said about it beside its verdicts."""
    text = safe_text(next(iter(row.values())).text)
    for against, verdict in row.items():
        window = f"window {verdict.window}" if verdict.window is not None else ""
        if remark := verdict.error or ", ".join(filter(None, (window, verdict.reason))):
            text.append(f"  ({_heading(against, whole=True)} {safe(remark)})", style="dim")
    return text
