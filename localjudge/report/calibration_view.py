"""A calibration as a person reads it: figures with their intervals, the threshold, and a reliability plot.

                                 at 0.5              held out
balanced accuracy  0.684 [0.651, 0.716]  0.690 [0.657, 0.722]
...
0             .5              1  mean p            share of 1   n
   |--o---                        0.128  0.220 [0.137, 0.324]  82
"""

from rich.console import Group, RenderableType
from rich.text import Text

from localjudge.record.calibration import Calibration, Figure, ReliabilityFigure
from localjudge.report.table_layout import Table, line
from localjudge.report.terminal import number

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
