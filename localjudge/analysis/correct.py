"""What the means of a run really are: corrected for the judge's errors by the labels of people on some of its verdicts.

    context_recall   the judge                 0.708   0.669 - 0.745
                     corrected                 0.641   0.580 - 0.702

Labels belong to this run: their sheet names its signature, and every labelled row is found in it, by its key, with the
text that it had. A label of another run may have been drawn otherwise, or judged by another judge; it is refused unless
somebody asks for it. `localjudge.stats.corrected` says what the correction assumes.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from localjudge.analysis.labels import (
    HumanLabels,
    LabelledVerdict,
    UnitFrame,
    VerdictKey,
    labelled_rows,
    read_labels,
    same_text,
    unit_frames,
)
from localjudge.dataset.problems import shown
from localjudge.errors import DataError
from localjudge.record.result_rows import VerdictRow
from localjudge.record.run import Run, as_run
from localjudge.stats.corrected import FEWEST_CLUSTERS, JudgedUnits, labelled_clusters, prediction_powered
from localjudge.types import Record
from localjudge.words import inert, option

NO_SHARE = "its scores are no shares of its verdicts, so that labels of some cannot correct them"
NO_LABELS = "none of its verdicts is labelled"
TOO_MANY_FAILED = "too many of its samples failed"
_PLACES = 3
FEW = f"no interval: fewer than {FEWEST_CLUSTERS} samples (or groups of samples) have labels"


class CorrectedMean(Record):
    """A mean with its 95 % interval, None where there is none; `remark` says why."""

    mean: float | None
    ci95: tuple[float, float] | None
    remark: str | None = None


class CorrectedMetric(Record):
    """One metric: the judge's mean and the corrected one."""

    judged: CorrectedMean
    corrected: CorrectedMean
    verdicts: int
    labelled: int
    clusters: int
    """Samples, or groups of samples, that have a label."""
    power: float | None = None
    """Lambda: how much the judge is worth, beside the labels alone."""


class CorrectedMeans(Record):
    """The means of a run beside what they are once labels have corrected them."""

    schema_version: int = 1
    run: str
    signature: str
    labels: str
    labels_sha256: str
    unlabelled: int
    foreign: bool
    warnings: tuple[str, ...]
    metrics: dict[str, CorrectedMetric]


def corrected_means(run: Run | str | Path, labels: str | Path, *, foreign_labels: bool = False) -> CorrectedMeans:
    """Correct the means of a run by a file of labels, such as `label_sheet` makes and people fill in.

    Raises DataError for a file that holds no labels of this run, and for labels of another run unless `foreign_labels`
    are asked for: then the verdicts that are found in the run count as its own, and the others are left out.
    """
    run = as_run(run)
    file = read_labels(labels)
    if file.shape != "verdicts":
        raise DataError(
            f"{labels} holds no labels of verdicts",
            hint="a sheet of a run is made by: localjudge label RUN --out FILE",
        )
    people = {row.key: row for row in file.verdicts if row.human is not None}
    if not people:
        raise DataError(f"{labels} holds no label yet", hint="fill in the column human: 1 or 0")
    verdicts = labelled_rows(run, people.keys())
    foreign = _foreign(run, verdicts, people)
    if foreign and not foreign_labels:
        raise DataError(
            f"{len(foreign):,} of {len(people):,} labels in {labels} are not of the run in {run.directory}: "
            f"{_by_cause(foreign)}",
            hint=f"label this run, or say {option('foreign_labels', True)} to see what they would make of it",
        )
    usable = {key: people[key] for key, row in verdicts.items() if same_text(row, people[key].text)}
    named = {key.metric for key in people}
    frames = unit_frames(run, [name for name in run.summary.metrics if inert(name) in named])
    metrics = {name: _corrected(run, name, frame, usable) for name, frame in frames.items()}
    return CorrectedMeans(
        run=str(run.directory),
        signature=run.summary.signature,
        labels=str(labels),
        labels_sha256=file.sha256,
        unlabelled=file.unlabelled,
        foreign=bool(foreign),
        warnings=tuple(_warnings(file, len(foreign), sum(metric.labelled for metric in metrics.values()))),
        metrics=metrics,
    )


def _foreign(
    run: Run, verdicts: Mapping[VerdictKey, VerdictRow], people: Mapping[VerdictKey, LabelledVerdict]
) -> dict[str, str]:
    """Places of the labels of another run with what says so."""
    foreign: dict[str, str] = {}
    for key, label in people.items():
        signature = label.columns.get("run")
        if key not in verdicts:
            foreign[label.place] = "the run has no such verdict"
        elif not same_text(verdicts[key], label.text):
            foreign[label.place] = "the verdict has another text"
        if signature not in (None, "", run.summary.signature):
            foreign[label.place] = f"they are of {shown(str(signature))}"
    return foreign


def _by_cause(others: Mapping[str, str]) -> str:
    """Each cause with the first of its places."""
    places: dict[str, list[str]] = {}
    for place, cause in others.items():
        places.setdefault(cause, []).append(place)
    return "; ".join(
        f"{cause} ({', '.join(where[:_PLACES])}{', ...' if len(where) > _PLACES else ''})"
        for cause, where in places.items()
    )


def _warnings(file: HumanLabels, others: int, taken: int) -> Iterator[str]:
    labelled = len(file.verdicts) - file.unlabelled
    if others:
        yield (
            f"WARNING: {others:,} of {labelled:,} labels are not of this run: the corrected means hold only "
            "if the judge errs here as it does there"
        )
        if labelled > taken:
            yield f"WARNING: {labelled - taken:,} labels are of verdicts that this run does not have, and were left out"
    if file.unlabelled:
        yield (
            f"{file.unlabelled:,} rows of the sheet have no label: the corrected means hold if these are no harder "
            "than the others"
        )


def _corrected(run: Run, name: str, frame: UnitFrame, usable: Mapping[VerdictKey, LabelledVerdict]) -> CorrectedMetric:
    summary = run.summary.metrics[name]
    withheld = name in run.summary.failed_beyond(run.max_failed)
    judged = CorrectedMean(mean=None, ci95=None) if withheld else CorrectedMean(mean=summary.mean, ci95=summary.ci95)
    places = {frame.index(key): label for key, label in usable.items() if key.metric == inert(name)}
    p_yes = frame.p_yes
    labels = {index: label for index, label in places.items() if index is not None and not np.isnan(p_yes[index])}
    units = _units(frame, labels) if frame.share_of and labels else None
    remark = TOO_MANY_FAILED if withheld else NO_SHARE if labels else NO_LABELS
    powered = None if units is None or withheld else prediction_powered(units)
    corrected = CorrectedMean(mean=None, ci95=None, remark=remark)
    if powered is not None:
        corrected = CorrectedMean(mean=powered.mean, ci95=powered.limits, remark=None if powered.limits else FEW)
    return CorrectedMetric(
        judged=judged,
        corrected=corrected,
        verdicts=len(frame),
        labelled=len(labels),
        clusters=0 if units is None else labelled_clusters(units),
        power=None if powered is None else powered.power,
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
