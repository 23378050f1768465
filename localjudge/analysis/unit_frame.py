"""The verdicts that make up the mean of a metric, as arrays: what is drawn from to be labelled, and what is corrected.

    sample   units     judged      weight in the mean
    a        3         1 1 0       1/3 * 1/2
    b        1         1           1   * 1/2

Counted are the verdicts of samples that were scored. Is every score a share of its sample's verdicts, of those that are
1 or (a criterion whose good answer is no) of those that are 0, the mean is a sum over verdicts, and can be corrected by
labels of some. Average precision, F1 and scores that rest on a table of verdicts are none.
"""

from array import array
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from localjudge.analysis.human_labels import VerdictKey
from localjudge.dataset.spreadsheet import inert
from localjudge.record.evaluation import Evaluation, JudgedUnit
from localjudge.record.result_rows import evaluations_of
from localjudge.record.results import Run
from localjudge.stats.drawing import STRATA, strata_by_score
from localjudge.stats.resampling import Floats, Indices
from localjudge.types import Scored, Verdict

ShareOf = Literal["ones", "zeros"]


class UnitPlace(NamedTuple):
    """Where a unit stands in its frame (None if it counts in no mean), and its text."""

    position: int | None
    text: str


class UnitFrame:
    """The counted verdicts of one metric, in the order of the run."""

    def __init__(self) -> None:
        self._judged = array("b")
        self._p_yes = array("d")
        self._sizes = array("i")
        self._clusters = array("i")
        self._all_ones = self._all_zeros = True
        self.places: dict[VerdictKey, UnitPlace] = {}
        """Of the units that were looked for, by their keys as `comparable` gives them."""

    def add(self, evaluation: Evaluation, cluster: int, wanted: Collection[VerdictKey]) -> None:
        """Count the verdicts of one more sample, of this cluster."""
        units = counted_units(evaluation)
        if units and wanted:
            self._look_for(evaluation, wanted, len(self._judged))
        elif wanted:
            self._look_for(evaluation, wanted, None)
        labels = [unit.verdict.label for unit in units if isinstance(unit.verdict, Verdict)]
        if isinstance(evaluation.outcome, Scored):
            found = evaluation.outcome.numerator, evaluation.outcome.denominator
            self._all_ones &= found == (sum(labels), len(labels))
            self._all_zeros &= found == (len(labels) - sum(labels), len(labels))
        if units:
            self._judged.extend(labels)
            self._p_yes.extend(_p_yes(unit) for unit in units)
            self._sizes.append(len(units))
            self._clusters.append(cluster)

    def __len__(self) -> int:
        return len(self._judged)

    @property
    def share_of(self) -> ShareOf | None:
        """Which verdicts its scores are shares of; None where they are something else."""
        if not len(self):
            return None
        return "ones" if self._all_ones else "zeros" if self._all_zeros else None

    @property
    def judged(self) -> Floats:
        """Labels of the judge (units,)."""
        return np.array(self._judged, dtype=np.float64)

    @property
    def p_yes(self) -> Floats:
        """Probabilities of 1 (units,), NaN where a label follows without a judge."""
        return np.array(self._p_yes, dtype=np.float64)

    def strata(self, labels: int) -> Indices:
        """Stratum of each verdict of a judge (judged units,), from which so many labels are drawn, or were."""
        p_yes = self.p_yes
        return strata_by_score(p_yes[~np.isnan(p_yes)], min(STRATA, labels))

    @property
    def weights(self) -> Floats:
        """Shares of the units (units,) in the mean of the metric, 1 in all."""
        sizes = np.array(self._sizes, dtype=np.float64)
        return np.repeat(1 / (sizes * len(sizes)), self._sizes)

    @property
    def clusters(self) -> Indices:
        """Number of each unit's cluster (units,): its sample, or the group of that."""
        numbers = np.array(self._clusters, dtype=np.intp)
        return np.repeat(np.unique(numbers, return_inverse=True)[1], self._sizes)

    def _look_for(self, evaluation: Evaluation, wanted: Collection[VerdictKey], first: int | None) -> None:
        for number, judged in enumerate(evaluation.units):
            key = comparable(unit_key(evaluation, judged))
            if key in wanted:
                self.places[key] = UnitPlace(None if first is None else first + number, judged.unit.span.text)


def unit_frames(run: Run, metrics: Sequence[str], wanted: Collection[VerdictKey] = ()) -> dict[str, UnitFrame]:
    """The frame of each of the metrics, with the places of the units whose keys, `comparable`, are wanted."""
    found = {name: UnitFrame() for name in metrics}
    for number, evaluation in clustered_evaluations(run):
        if evaluation.metric in found:
            found[evaluation.metric].add(evaluation, number, wanted)
    return found


def clustered_evaluations(run: Run) -> Iterator[tuple[int, Evaluation]]:
    """Every evaluation of the run with the number of its sample's cluster."""
    group_of = run.cluster_of if run.manifest.data["clusters_sha256"] is not None else None
    numbers: dict[str, int] = {}
    for evaluation in evaluations_of(run.iter_scores(), run.iter_verdicts()):
        sample_id = evaluation.sample_id
        yield numbers.setdefault(sample_id if group_of is None else group_of[sample_id], len(numbers)), evaluation


def counted_units(evaluation: Evaluation) -> Sequence[JudgedUnit]:
    """The units that count in the mean: all of a sample that was scored, none of another."""
    judged = all(isinstance(unit.verdict, Verdict) for unit in evaluation.units)
    return evaluation.units if judged and isinstance(evaluation.outcome, Scored) else ()


def unit_key(evaluation: Evaluation, judged: JudgedUnit) -> VerdictKey:
    """The key of the unit's verdict."""
    unit = judged.unit
    return VerdictKey(
        sample_id=evaluation.sample_id,
        metric=evaluation.metric,
        unit=unit.kind,
        source=unit.source,
        source_index=unit.source_index,
        index=unit.index,
        against=unit.against,
    )


def comparable(key: VerdictKey) -> VerdictKey:
    """The key as it comes back from a spreadsheet."""
    return replace(key, sample_id=inert(key.sample_id), metric=inert(key.metric))


def _p_yes(judged: JudgedUnit) -> float:
    verdict = judged.verdict
    return verdict.p_yes if isinstance(verdict, Verdict) and verdict.p_yes is not None else float("nan")
