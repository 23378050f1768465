"""What people are shown about labels: a row to be labelled, a calibration, and means corrected by labels.

                                     at 0.5              held out
    balanced accuracy  0.684 [0.651, 0.716]  0.690 [0.657, 0.722]

    0             .5              1  mean p            share of 1   n       a reliability plot: `o` is the share of 1
       |--o---                        0.128  0.220 [0.137, 0.324]  82       between its limits, `|` the mean p

    metric                   mean  95 % interval  labels
    context_recall          0.708  0.669 - 0.745       -
      corrected             0.641  0.580 - 0.702     100

A sheet of labels may be a stranger's: what is not a text in it is left out.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from localjudge.analysis.correct import CorrectedMeans, CorrectedMetric
from localjudge.record.manifest import Calibration, Figure, ReliabilityFigure
from localjudge.report.tables import interval_cells
from localjudge.report.terminal import Table, View, number, safe_text
from localjudge.words import call

if TYPE_CHECKING:
    from localjudge.analysis.label_sheet import Labelling

KEYS = {"1": "yes", "0": "no", "s": "skip", "u": "undo", "q": "quit"}
_IN_WORDS = {
    "auc": "AUC",
    "auc_gain": "AUC gained by the weights",
    "brier": "Brier score",
    "f1": "F1",
    "cohen_kappa": "Cohen's kappa",
    "mcc": "MCC",
    "gain": "gain in balanced accuracy",
}
_COLUMNS = 31


def row_view(row: Mapping[str, Any], labelled: int, total: int) -> View:
    """The row of a sheet, after how many of all have a label: what is asked, by which texts, and about which."""
    keys = ", ".join(f"{key} {what}" for key, what in KEYS.items())
    progress = f"{labelled:,} of {total:,} labelled   {_text(row.get('metric'))}"
    contexts = row.get("contexts")
    texts = {"user_input": _text(row.get("user_input"))}
    texts |= {f"context {n}": _text(text) for n, text in enumerate(contexts if isinstance(contexts, list) else (), 1)}
    texts |= {name: _text(row.get(name)) for name in ("reference", "response")}
    about = [(Text(name, style="dim"), text) for name, text in texts.items() if text or name.startswith("context ")]
    return View(
        [
            Table(titles=[progress], notes=[_text(row.get("asks"))]),
            *([Table(rows=about)] if about else []),
            Table(titles=[f"> {_text(row.get('text'))}"]),
            Table(notes=[safe_text(keys, style="dim")]),
        ]
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def ended_view(labelling: "Labelling", directory: Path) -> Table:
    """How far somebody came, where it is, and what to do with it."""
    left = len(labelling) - labelling.labelled
    lines = [f"{left:,} are left: the same command goes on"] if left else []
    lines.append(f"then: {call('show', str(directory), 'labels', str(labelling.path))}")
    return Table(titles=[f"{labelling.labelled:,} of {len(labelling):,} labelled, in {labelling.path}"], notes=lines)


def calibration_view(calibration: Calibration) -> View:
    """All of it, for a terminal of 80 columns."""
    labels, rule = calibration.labels, calibration.combining_rule
    lines = [f"judge {calibration.card}"]
    if rule is not None:
        weights = ", ".join(f"{judge} {number(weight)}" for judge, weight in rule.weights.items())
        lines.append(f"log odds weighed: {weights}; intercept {number(rule.intercept)}; every figure is held out")
    lines.append(
        f"{labels.verdicts:,} verdicts labelled by people, {labels.positives:,} of them 1; "
        f"{labels.clusters:,} groups by {labels.clustered_by}"
    )
    sides, folds = (calibration.at_one_half, calibration.held_out), calibration.fold_thresholds
    decisions = [
        (_words(name), *(_figure(side.get(name)) for side in sides))
        for name in dict.fromkeys(name for side in sides for name in side)
    ]
    threshold = (
        f"threshold {number(calibration.threshold)}, chosen on all labels; held out: decided by the thresholds of "
        f"{len(folds)} folds, {number(min(folds))} to {number(max(folds))}, each chosen on the other groups"
    )
    notes = [*(f"{_words(name)}: {why}" for name, why in calibration.undefined.items()), *calibration.remarks]
    return View(
        [
            Table(titles=[f"calibration {calibration.name}: {calibration.question}"], notes=lines),
            Table(rows=[(_words(name), _figure(figure)) for name, figure in calibration.figures.items()]),
            Table(("", "at 0.5", "held out"), decisions, [threshold]),
            reliability_plot(calibration.reliability),
            *([Table(notes=notes)] if notes else []),
        ]
    )


def reliability_plot(bins: tuple[ReliabilityFigure, ...]) -> Table:
    """A row for each bin: its share of 1 as `o` between the limits of its interval, its mean probability as `|`."""
    rows = [(_bar(part), number(part.mean_p), _figure(part), f"{part.verdicts:,}") for part in bins]
    scale = f"0{'.5':^{_COLUMNS - 2}}1"
    return Table((scale, "mean p", "share of 1", "n"), rows, ["o share of 1, | mean p: alike if calibrated"])


def _bar(part: ReliabilityFigure) -> str:
    limits = part.ci95 or (part.share, part.share)
    low, high, share, mean = (round(value * (_COLUMNS - 1)) for value in (*limits, part.share, part.mean_p))
    cells = ["-" if low <= column <= high else " " for column in range(_COLUMNS)]
    cells[mean] = "|"
    cells[share] = "o"
    return "".join(cells).rstrip()


def _figure(figure: Figure | ReliabilityFigure | None) -> str:
    if figure is None:
        return ""
    value = number(figure.share if isinstance(figure, ReliabilityFigure) else figure.value)
    return f"{value} [{number(figure.ci95[0])}, {number(figure.ci95[1])}]" if figure.ci95 else value


def _words(name: str) -> str:
    """`held_out.f1` as `F1, held out`."""
    where, _, bare = name.rpartition(".")
    words = _IN_WORDS.get(bare, bare.replace("_", " "))
    return f"{words}, {where.replace('_', ' ')}" if where else words


def corrected_view(means: CorrectedMeans, *, metric: str | None = None) -> Table:
    """The judge's mean and the corrected one, of all labelled metrics or of one, and what has to be said of them."""
    rows: list[tuple[str, ...]] = []
    notes = [*means.warnings]
    for name, mean in means.metrics.items():
        if metric in (None, name):
            judged, corrected = (interval_cells(part.mean, part.ci95) for part in (mean.judged, mean.corrected))
            rows += [(name, *judged, "-"), ("  corrected", *corrected, f"{mean.labelled:,}")]
            notes += (f"{name}: {remark}" for remark in _remarks(mean))
    return Table(("metric", "mean", "95 % interval", "labels"), rows, [*notes, f"labels {means.labels}"])


def _remarks(mean: CorrectedMetric) -> Iterator[str]:
    yield f"{mean.labelled:,} of {mean.verdicts:,} verdicts labelled, of {mean.clusters:,} samples or groups"
    judged, interval = mean.judged.mean, mean.corrected.ci95
    if judged is not None and interval is not None and not interval[0] <= judged <= interval[1]:
        yield f"the judge's mean is too {'high' if judged > interval[1] else 'low'}, by these labels"
    if mean.corrected.remark:
        yield mean.corrected.remark
