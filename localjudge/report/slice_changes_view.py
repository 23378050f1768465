"""What changed by the values of a column, a table for each metric.

 context_recall by department
 department  compared      A      B   B - A     95 % interval
 cardiology     41/41  0.712  0.790  +0.078  +0.012 to +0.151
 oncology       10/12  0.430  0.301  -0.129  -0.344 to +0.102

`compared` are the samples with a score in both runs, of those that the new run has in the slice.
"""

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from localjudge.analysis.slice_changes import SlicedChanges
from localjudge.record.untrusted import shown
from localjudge.report.score_cells import SCORE_HEADINGS, score_cells
from localjudge.report.slices_view import EACH_ALONE, value_in_words
from localjudge.report.table_layout import NumberTable
from localjudge.report.terminal import safe_text


def by_column_view(found: SlicedChanges) -> RenderableType:
    """A table for each metric, and what their intervals do not say."""
    column = shown(found.column)
    parts: list[RenderableType] = []
    for metric in found.slices[0].metrics if found.slices else ():
        table = NumberTable("compared", *SCORE_HEADINGS, names=column)
        for one in found.slices:
            change = one.metrics[metric]
            compared = f"{change.compared:,}/{one.samples:,}"
            table.add(value_in_words(one.value), compared, *score_cells(change.scores))
        parts += [_line(f"{metric} by {column}"), table, Text()]
    return Group(*parts, _line(f"slices are those of B; {EACH_ALONE}"))


def _line(text: str) -> RenderableType:
    return Padding(safe_text(text), (0, 1), expand=False)
