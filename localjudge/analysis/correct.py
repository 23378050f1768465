"""The means of a run, corrected for the judge's errors by people's labels of some of its verdicts.

    context_recall   the judge                 0.708   0.669 - 0.745
                     corrected                 0.641   0.580 - 0.702

A label belongs to this run if its sheet names the run's signature and the run has the labelled verdict, by its key,
with the same text. A label of another run may have been drawn otherwise, or be of another judge: it is refused unless
foreign labels are asked for. `localjudge.stats.corrected` says what the correction assumes.
"""

from collections.abc import Iterator, Mapping, Sequence
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
    """Lambda: how much weight the judge's verdicts get, from 0 (labels alone) to 1."""


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

    Raises DataError for a file that holds no labels of this run, and for labels of another run unless `foreign_labels`:
    then those of verdicts that this run has, too, count as its own, and the others are left out.
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
            f"{sum(map(len, foreign.values())):,} of {len(people):,} labels in {labels} are not of the run in "
            f"{run.directory}: {_listed(foreign)}",
            hint=f"label this run, or say {option('foreign_labels', True)} to see what they would make of it",
        )
    usable = {key: people[key] for key, row in verdicts.items() if same_text(row, people[key].text)}
    labelled = {key.metric for key in people}
    frames = unit_frames(run, [name for name in run.summary.metrics if inert(name) in labelled])
    metrics = {name: _corrected(run, name, frame, usable) for name, frame in frames.items()}
    used = sum(metric.labelled for metric in metrics.values())
    return CorrectedMeans(
        run=str(run.directory),
        signature=run.summary.signature,
        labels=str(labels),
        labels_sha256=file.sha256,
        unlabelled=file.unlabelled,
        foreign=bool(foreign),
        warnings=tuple(_warnings(file, sum(map(len, foreign.values())), used)),
        metrics=metrics,
    )


def _foreign(
    run: Run, verdicts: Mapping[VerdictKey, VerdictRow], people: Mapping[VerdictKey, LabelledVerdict]
) -> dict[str, list[str]]:
    """Why labels are of another run, each cause with their places."""
    places: dict[str, list[str]] = {}
    for key, label in people.items():
        signature = label.columns.get("run")
        if signature not in (None, "", run.summary.signature):
            cause = f"they are of {shown(str(signature))}"
        elif key not in verdicts:
            cause = "the run has no such verdict"
        elif not same_text(verdicts[key], label.text):
            cause = "the verdict has another text"
        else:
            continue
        places.setdefault(cause, []).append(label.place)
    return places


def _listed(places: Mapping[str, Sequence[str]]) -> str:
    """Each cause with the first of its places."""
    return "; ".join(
        f"{cause} ({', '.join(where[:_PLACES])}{', ...' if len(where) > _PLACES else ''})"
        for cause, where in places.items()
    )


def _warnings(file: HumanLabels, foreign: int, used: int) -> Iterator[str]:
    labelled = len(file.verdicts) - file.unlabelled
    if foreign:
        yield (
            f"WARNING: {foreign:,} of {labelled:,} labels are not of this run: the corrected means hold only "
            "if the judge errs here as it does there"
        )
        if labelled > used:
            yield f"WARNING: {labelled - used:,} labels are of verdicts that this run does not have, and were left out"
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
    powered = None if units is None or withheld else prediction_powered(units)
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
