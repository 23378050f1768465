"""How well two people agree, and what they do not agree about.

                value  95 % interval
raw agreement   0.870  0.790 - 0.927
Cohen's kappa   0.712  0.561 - 0.844

100 verdicts of 62 samples: 52 both 1, 35 both 0, 8 only A, 5 only B
A B
1 0  danube  The Danube rises in the Black Forest.
"""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from localjudge.analysis.annotator_agreement import Agreement, AnnotatorAgreement
from localjudge.report.table_layout import Table
from localjudge.report.terminal import number

_NOTHING = "-"


def agreement_view(found: AnnotatorAgreement) -> RenderableType:
    """Both numbers, the counts, and every verdict that was labelled differently."""
    rows = [("raw", *_cells(found.raw)), ("Cohen's kappa", *_cells(found.kappa))]
    parts: list[RenderableType] = [Table(("agreement", "value", "95 % interval"), rows, list(_remarks(found)))]
    if found.disagreements:
        labelled = [
            (str(one.first), str(one.second), one.sample_id, one.metric, one.text) for one in found.disagreements
        ]
        parts += [Text(), Table((), [("A", "B"), *labelled])]
    return Group(*parts)


def _cells(agreement: Agreement | None) -> tuple[str, str]:
    if agreement is None:
        return _NOTHING, _NOTHING
    interval = " - ".join(map(number, agreement.ci95)) if agreement.ci95 else _NOTHING
    return number(agreement.value), interval


def _remarks(found: AnnotatorAgreement) -> Iterator[str]:
    both = found.both
    yield (
        f"{found.rows:,} verdicts of {found.samples:,} samples: {both['1 1']:,} both 1, {both['0 0']:,} both 0, "
        f"{both['1 0']:,} 1 in A alone, {both['0 1']:,} 1 in B alone"
    )
    if found.only_one:
        yield f"{found.only_one:,} verdicts have a label in one of the files only, and are left out"
    if found.kappa is None:
        yield "kappa has no value: both give all verdicts the same one label"
    elif found.kappa.ci95 is None:
        yield "kappa has no interval: there are labels of fewer than 10 samples"
    yield f"A {found.first}"
    yield f"B {found.second}"
