"""A verdict to be labelled, as the terminal shows it: what is asked, what it is held against, and the text.

 12 of 100 labelled   context_recall
 sentence of the reference: can it be attributed to the retrieved contexts?

 user_input  Where does the Danube rise?
 context 1   The Danube rises in the Black Forest.

 > The Danube rises in the Black Forest in Germany.

 1 yes, 0 no, s skip, u undo, q quit

The sheet may be a stranger's: what is no text in it is not shown.

A calibration as a person reads it: figures with their intervals, the threshold, and a reliability plot.

                                 at 0.5              held out
balanced accuracy  0.684 [0.651, 0.716]  0.690 [0.657, 0.722]
...
0             .5              1  mean p            share of 1   n
   |--o---                        0.128  0.220 [0.137, 0.324]  82

The means of a run beside what labels make of them.

metric                   mean  95 % interval  labels
context_recall          0.708  0.669 - 0.745       -
  corrected             0.641  0.580 - 0.702     100
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from localjudge.analysis.correct import CorrectedMeans, CorrectedMetric
from localjudge.record.manifest import Calibration, Figure, ReliabilityFigure
from localjudge.report.tables import interval_cells
from localjudge.report.terminal import Table, line, number
from localjudge.words import call

if TYPE_CHECKING:
    from localjudge.analysis.label_sheet import Labelling

KEYS = {"1": "yes", "0": "no", "s": "skip", "u": "undo", "q": "quit"}


def row_view(row: Mapping[str, Any], labelled: int, total: int) -> RenderableType:
    """The row, after how many of all have a label."""
    keys = ", ".join(f"{key} {what}" for key, what in KEYS.items())
    about = list(_about(row))
    where: list[RenderableType] = [Table((), about), Text()] if about else []
    return Group(
        line(f"{labelled:,} of {total:,} labelled   {_text(row, 'metric')}", "bold"),
        line(_text(row, "asks")),
        Text(),
        *where,
        line(f"> {_text(row, 'text')}", "bold"),
        Text(),
        line(keys, "dim"),
    )


def ended_view(labelling: "Labelling", directory: Path) -> RenderableType:
    """How far somebody came, where it is, and what to do with it."""
    left = len(labelling) - labelling.labelled
    then = f"then: {call('show', str(directory), 'labels', str(labelling.path))}"
    return Group(
        line(f"{labelling.labelled:,} of {len(labelling):,} labelled, in {labelling.path}", "bold"),
        *([line(f"{left:,} are left: the same command goes on")] if left else []),
        line(then),
    )


def _about(row: Mapping[str, Any]) -> Iterator[tuple[Text, str]]:
    """What the text is to be judged by."""
    contexts = row.get("contexts")
    texts = {"user_input": _text(row, "user_input")}
    for position, context in enumerate(contexts if isinstance(contexts, list) else (), start=1):
        texts[f"context {position}"] = context if isinstance(context, str) else ""
    texts |= {name: _text(row, name) for name in ("reference", "response")}
    return ((Text(name, style="dim"), text) for name, text in texts.items() if text or name.startswith("context "))


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""


_IN_WORDS = {
    "auc": "AUC",
    "auc_gain": "AUC gained by the weights",
    "brier": "Brier score",
    "f1": "F1",
    "cohen_kappa": "Cohen's kappa",
    "mcc": "MCC",
}
_COLUMNS = 31


def calibration_view(calibration: Calibration) -> RenderableType:
    """All of it, for a terminal of 80 columns."""
    labels = calibration.labels
    folds = calibration.fold_thresholds
    head = (
        f"calibration {calibration.name}: {calibration.question}",
        f"judge {calibration.card}",
        *_weights(calibration),
        f"{labels.verdicts:,} verdicts labelled by people, {labels.positives:,} of them 1; "
        f"{labels.clusters:,} groups by {labels.clustered_by}",
    )
    threshold = (
        f"threshold {number(calibration.threshold)}, chosen on all labels; held out: decided by the thresholds of "
        f"{len(folds)} folds, {number(min(folds))} to {number(max(folds))}, each chosen on the other groups"
    )
    undefined = [f"{_words(name)}: {why}" for name, why in calibration.undefined.items()]
    notes = [*undefined, *calibration.remarks]
    figures = [(_words(name), _figure(figure)) for name, figure in calibration.figures.items()]
    parts: list[RenderableType] = [*map(line, head), Text(), Table((), figures), Text(), _decisions(calibration)]
    parts += [Text(), line(threshold), Text(), _plot(calibration.reliability)]
    return Group(*parts, *([Text()] if notes else []), *map(line, notes))


def _weights(calibration: Calibration) -> list[str]:
    rule = calibration.combining_rule
    if rule is None:
        return []
    weights = ", ".join(f"{judge} {number(weight)}" for judge, weight in rule.weights.items())
    return [f"log odds weighed: {weights}; intercept {number(rule.intercept)}; every figure is held out"]


def _decisions(calibration: Calibration) -> Table:
    sides = (calibration.at_one_half, calibration.held_out)
    rows = [
        ("gain in balanced accuracy" if name == "gain" else _words(name), *(_figure(side.get(name)) for side in sides))
        for name in dict.fromkeys([*calibration.at_one_half, *calibration.held_out])
    ]
    return Table(("", "at 0.5", "held out"), rows)


def _plot(bins: tuple[ReliabilityFigure, ...]) -> Table:
    """A row for each bin: its share of 1 as `o` between the limits of its interval, its mean probability as `|`."""
    rows = [
        (
            _bar(part),
            number(part.mean_p),
            _figure(Figure(value=part.share, ci95=part.ci95)) if part.ci95 else number(part.share),
            f"{part.verdicts:,}",
        )
        for part in bins
    ]
    scale = f"0{'.5':^{_COLUMNS - 2}}1"
    return Table((scale, "mean p", "share of 1", "n"), rows, ["o share of 1, | mean p: alike if calibrated"])


def _bar(one: ReliabilityFigure) -> str:
    limits = one.ci95 or (one.share, one.share)
    low, high, share, mean = (round(value * (_COLUMNS - 1)) for value in (*limits, one.share, one.mean_p))
    cells = ["-" if low <= column <= high else " " for column in range(_COLUMNS)]
    cells[mean] = "|"
    cells[share] = "o"
    return "".join(cells).rstrip()


def _figure(figure: Figure | None) -> str:
    if figure is None:
        return ""
    return f"{number(figure.value)} [{number(figure.ci95[0])}, {number(figure.ci95[1])}]"


def _words(name: str) -> str:
    """`held_out.f1` as `F1, held out`."""
    where, _, bare = name.rpartition(".")
    words = _IN_WORDS.get(bare, bare.replace("_", " "))
    return f"{words}, {where.replace('_', ' ')}" if where else words


def corrected_view(found: CorrectedMeans, *, metric: str | None = None) -> Table:
    """Table and remarks, of all labelled metrics or of one."""
    rows = [row for name, one in found.metrics.items() if metric in (None, name) for row in corrected_rows(name, one)]
    notes = [*found.warnings, *corrected_remarks(found, metric), f"labels {found.labels}"]
    return Table(("metric", "mean", "95 % interval", "labels"), rows, notes)


def corrected_rows(name: str, one: CorrectedMetric) -> Iterator[tuple[str, str, str, str]]:
    """The judge's mean and the corrected one: what it is called, mean, interval, labels."""
    yield name, *interval_cells(one.judged), "-"
    yield "  corrected", *interval_cells(one.corrected), f"{one.labelled:,}"


def corrected_remarks(found: CorrectedMeans, metric: str | None = None) -> Iterator[str]:
    """What has to be said beside the numbers, a line each."""
    for name, one in found.metrics.items():
        if metric not in (None, name):
            continue
        yield f"{name}: {one.labelled:,} of {one.verdicts:,} verdicts labelled, of {one.clusters:,} samples or groups"
        judged, interval = one.judged.mean, one.corrected.ci95
        if judged is not None and interval is not None and not interval[0] <= judged <= interval[1]:
            yield f"{name}: the judge's mean is too {'high' if judged > interval[1] else 'low'}, by these labels"
        if one.corrected.remark:
            yield f"{name}: {one.corrected.remark}"
