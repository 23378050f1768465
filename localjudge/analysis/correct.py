"""The means of a run, corrected for the judge's errors by people's labels of some of its verdicts.

    context_recall   the judge                 0.708   0.669 - 0.745
                     corrected                 0.641   0.580 - 0.702

A label belongs to this run if its sheet names the run's signature and the run has the labelled verdict, by its key,
with the same text. A label of another run may have been drawn otherwise, or be of another judge: it is refused.
`localjudge.stats.corrected` says what the correction assumes.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from localjudge.analysis.labels import LabelledVerdict, UnitFrame, VerdictKey, labelled_rows, read_labels, unit_frames
from localjudge.errors import DataError
from localjudge.record.run import Run, as_run
from localjudge.stats.corrected import FEWEST_CLUSTERS, JudgedUnits, prediction_powered
from localjudge.types import Record
from localjudge.words import inert

NO_SHARE = "its scores are no shares of its verdicts, so that labels of some cannot correct them"
NO_LABELS = "none of its verdicts is labelled"
TOO_MANY_FAILED = "too many of its samples failed"
FEW = f"no interval: fewer than {FEWEST_CLUSTERS} samples (or groups of samples) have labels"


class CorrectedMean(Record):
    """A mean with its 95 % interval, None where there is none; `remark` says why."""

    mean: float | None
    ci95: tuple[float, float] | None
    remark: str | None = None


class CorrectedMetric(Record):
    """One metric: the judge's mean and the corrected one, by labels of `clusters` samples or groups of samples."""

    judged: CorrectedMean
    corrected: CorrectedMean
    verdicts: int
    labelled: int
    clusters: int
    power: float | None = None
    """Lambda: how much weight the judge's verdicts get, from 0 (labels alone) to 1."""


class CorrectedMeans(Record):
    """The means of a run, and what they are once labels have corrected them."""

    schema_version: int = 1
    run: str
    signature: str
    labels: str
    labels_sha256: str
    unlabelled: int
    warnings: tuple[str, ...]
    metrics: dict[str, CorrectedMetric]


def corrected_means(run: Run | str | Path, labels: str | Path) -> CorrectedMeans:
    """Correct the means of a run by a file of labels, such as `label_sheet` makes and people fill in.

    Raises DataError for a file that holds no labels of verdicts, and for labels of another run.
    """
    run = as_run(run)
    file = read_labels(labels)
    people = {row.key: row for row in file.verdicts if row.human is not None}
    if not people:
        raise DataError(
            f"{labels} holds no labels of verdicts yet",
            hint="a sheet of a run is made by: localjudge label RUN --out FILE; fill in its column human: 1 or 0",
        )
    own = labelled_rows(run, {key: row.text for key, row in people.items()})
    signatures = (None, "", run.summary.signature)
    others = [row for key, row in people.items() if key not in own or row.columns.get("run") not in signatures]
    if others:
        raise DataError(
            f"{len(others):,} of {len(people):,} labels in {labels} are not of the run in {run.directory}, "
            f"the first at {others[0].place}: another run, verdict or text",
            hint="label this run: localjudge label RUN --out FILE",
        )
    labelled = {key.metric for key in people}
    frames = unit_frames(run, [name for name in run.summary.metrics if inert(name) in labelled])
    left = f"{file.unlabelled:,} rows of the sheet have no label: the corrected means hold if these are no harder"
    return CorrectedMeans(
        run=str(run.directory),
        signature=run.summary.signature,
        labels=str(labels),
        labels_sha256=file.sha256,
        unlabelled=file.unlabelled,
        warnings=(f"{left} than the others",) if file.unlabelled else (),
        metrics={name: _corrected(run, name, frame, people) for name, frame in frames.items()},
    )


def _corrected(run: Run, name: str, frame: UnitFrame, people: Mapping[VerdictKey, LabelledVerdict]) -> CorrectedMetric:
    summary = run.summary.metrics[name]
    withheld = name in run.summary.failed_beyond(run.max_failed)
    judged = CorrectedMean(mean=None, ci95=None) if withheld else CorrectedMean(mean=summary.mean, ci95=summary.ci95)
    places = {frame.index(key): label for key, label in people.items() if key.metric == inert(name)}
    p_yes = frame.p_yes
    labels = {index: label for index, label in places.items() if index is not None and not np.isnan(p_yes[index])}
    powered = prediction_powered(_units(frame, labels)) if labels and frame.share_of and not withheld else None
    if powered is None:
        remark = TOO_MANY_FAILED if withheld else NO_SHARE if labels else NO_LABELS
        corrected = CorrectedMean(mean=None, ci95=None, remark=remark)
    else:
        corrected = CorrectedMean(mean=powered.mean, ci95=powered.limits, remark=None if powered.limits else FEW)
    return CorrectedMetric(
        judged=judged,
        corrected=corrected,
        verdicts=len(frame),
        labelled=len(labels),
        clusters=powered.clusters if powered else 0,
        power=powered.power if powered else None,
    )


def _units(frame: UnitFrame, labels: Mapping[int, LabelledVerdict]) -> JudgedUnits:
    size = len(frame)
    human, drawn = np.zeros(size), np.zeros(size)
    for position, row in labels.items():
        human[position] = row.human or 0
        drawn[position] = frame.weights[position] / row.inclusion_probability
    certain = np.isnan(frame.p_yes)
    human[certain], drawn[certain] = frame.judged[certain], frame.weights[certain]
    strata = np.zeros(size, dtype=np.intp)
    strata[~certain] = frame.strata(len(labels)) + int(certain.any())
    units = JudgedUnits(frame.judged, frame.weights, human, drawn, strata, frame.clusters, certain)
    if frame.share_of == "zeros":
        return units._replace(judged=1 - units.judged, human=1 - units.human)
    return units
