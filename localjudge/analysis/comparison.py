"""What changed from one run to another, on the samples that both have.

    A, the baseline   1.0  0.5   -   0.0
    B, the new run    1.0  1.0  0.5   -       differences 0 and +0.5: one tied, one improved, two missing

Every difference is B - A: above 0, the new run is better. It rests on the samples that have a score in both, one by
one, so that how hard a sample is cancels. Where a metric has several verdicts per sample, these are not independent of
each other: the interval of their changes is then taken over samples, or over the groups that both runs name.
"""

import math
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from localjudge.analysis.comparability import judge_changes, other_questions, warnings
from localjudge.analysis.pairing import Pair, Pairing, pair_samples
from localjudge.analysis.unit_changes import UnitChange, labelled_in_both, unit_changes
from localjudge.record.manifest import Difference
from localjudge.record.results import Run, as_run
from localjudge.stats import Interval, mcnemar, paired_difference
from localjudge.types import JudgeCard, Record

COMPARISON_VERSION = 1
MOVED_SAMPLES = 5

_SPARE = 1000


class SampleChange(Record):
    """A sample whose score moved, under its id in the new run, and the units that moved it."""

    sample_id: str
    baseline_id: str
    before: float
    after: float
    units: tuple[UnitChange, ...]


class VerdictChanges(Record):
    """Verdicts on the same text in both runs, and how many flipped, up being from 0 to 1.

    `difference` is that of the shares of 1, with its interval. `mcnemar_p` is given where each sample has one verdict
    and stands alone; elsewhere the interval, over samples or groups, decides.
    """

    paired: int
    unpaired: int
    up: int
    down: int
    difference: float
    ci95: tuple[float, float]
    mcnemar_p: float | None


class ScoreChanges(Record):
    """Scores of the same samples in both runs: means, their difference with its interval, and what moved.

    `smallest_detectable` is the true difference that so many samples would show with a probability of 80 %.
    """

    before: float
    after: float
    difference: float
    ci95: tuple[float, float]
    method: str
    clusters: int
    improved: int
    worsened: int
    tied: int
    smallest_detectable: float


class MetricChange(Record):
    """One metric in both runs: `scores` are those of the `compared` samples, None if there are none.

    `unpaired` samples are in one run only; `unscored` ones are in both, and undefined or failed in one of them.
    `failed_in_baseline` counts all that failed there.
    """

    compared: int
    unpaired: int
    unscored: int
    failed_in_baseline: int
    scores: ScoreChanges | None
    verdicts: VerdictChanges | None
    moved: tuple[SampleChange, ...]

    @property
    def missing(self) -> int:
        """Samples of either run that have no difference."""
        return self.unpaired + self.unscored

    @property
    def interval(self) -> Interval | None:
        """The difference with all that is known of its interval; None where there is none."""
        if self.scores is None:
            return None
        found = self.scores
        return Interval(found.difference, *found.ci95, found.method, self.compared, found.clusters, confidence=0.95)


class SharedSamples(Record):
    """How the samples of the two runs were paired. `other_question`: pairs by id that do not ask the same."""

    by_id: int
    by_content: int
    by_question: int
    same_content: int
    other_question: int
    only_baseline: int
    only_new: int

    @property
    def paired(self) -> int:
        """All pairs."""
        return self.by_id + self.by_content + self.by_question


class RunComparison(Record):
    """Baseline and new run, what they share, what differs between their judges, and each metric of both."""

    schema_version: int = COMPARISON_VERSION
    baseline: str
    run: str
    baseline_signature: str
    signature: str
    baseline_judge: JudgeCard
    judge: JudgeCard
    samples: SharedSamples
    judge_changes: tuple[Difference, ...]
    warnings: tuple[str, ...]
    metrics: dict[str, MetricChange]


def compare(baseline: Run | str | Path, run: Run | str | Path, *, moved: int = MOVED_SAMPLES) -> RunComparison:
    """Compare a run with a baseline; list at most `moved` samples of each metric that moved most.

    Each is a run or its directory. Runs that share no sample or no metric give a comparison without differences, and a
    warning. Raises RunDirectoryError for a directory without a finished run.
    """
    baseline, run = as_run(baseline), as_run(run)
    before, after = ((sample for sample, _ in one.iter_scored_samples()) for one in (baseline, run))
    pairing = pair_samples(before, after)
    names = [name for name in run.summary.metrics if name in baseline.summary.metrics]
    comparer = _Comparer(baseline, run, pairing, moved)
    judges = judge_changes(baseline, run)
    return RunComparison(
        baseline=str(baseline.directory),
        run=str(run.directory),
        baseline_signature=baseline.summary.signature,
        signature=run.summary.signature,
        baseline_judge=baseline.judge,
        judge=run.judge,
        samples=_shared(pairing),
        judge_changes=judges,
        warnings=tuple(warnings(baseline, run, pairing.pairs, judges)),
        metrics={name: comparer.change(name) for name in names},
    )


class _Scored(NamedTuple):
    """A pair with a score in both runs, and its units."""

    pair: Pair
    before: float
    after: float
    units: list[UnitChange]


class _Column:
    """Running numbers of one metric: scores and labels of all pairs, texts only of the `most` that moved most."""

    def __init__(self, most: int, cluster_of: Mapping[str, str] | None) -> None:
        self._most = most
        self._cluster_of = cluster_of
        self._before, self._after = array("d"), array("d")
        self._old_labels, self._new_labels, self._pair_of_label = array("b"), array("b"), array("q")
        self._clusters: list[str] = []
        self._units = 0
        self._one_each = True
        self._moved: list[_Scored] = []

    def __len__(self) -> int:
        return len(self._before)

    def add(self, scored: _Scored) -> None:
        """The next pair."""
        for labels in labelled_in_both(scored.units):
            self._old_labels.append(labels.before)
            self._new_labels.append(labels.after)
            self._pair_of_label.append(len(self))
        self._before.append(scored.before)
        self._after.append(scored.after)
        if self._cluster_of is not None:
            self._clusters.append(self._cluster_of[scored.pair.after.id])
        self._units += len(scored.units)
        self._one_each = self._one_each and len(scored.units) <= 1
        if scored.before != scored.after:
            self._moved.append(scored)
            if len(self._moved) > 2 * self._most + _SPARE:
                self._moved = self._moved_most()

    def scores(self) -> ScoreChanges:
        """The scores of the pairs, one at least."""
        clusters = None if self._cluster_of is None else self._clusters
        change = paired_difference(self._before, self._after, clusters=clusters)
        return ScoreChanges(
            before=math.fsum(self._before) / len(self),
            after=math.fsum(self._after) / len(self),
            difference=change.difference.mean,
            ci95=(change.difference.low, change.difference.high),
            method=change.difference.method,
            clusters=change.difference.clusters,
            improved=change.improved,
            worsened=change.worsened,
            tied=change.tied,
            smallest_detectable=change.smallest_detectable,
        )

    def verdicts(self) -> VerdictChanges | None:
        """Verdicts of the pairs; None for a metric that has none on the same text."""
        if not self._old_labels:
            return None
        grouped = self._cluster_of is not None
        clusters = [self._clusters[pair] for pair in self._pair_of_label] if grouped else self._pair_of_label
        change = paired_difference(self._old_labels, self._new_labels, clusters=clusters)
        alone = not grouped and self._one_each
        return VerdictChanges(
            paired=len(self._old_labels),
            unpaired=self._units - len(self._old_labels),
            up=change.improved,
            down=change.worsened,
            difference=change.difference.mean,
            ci95=(change.difference.low, change.difference.high),
            mcnemar_p=mcnemar(change.improved, change.worsened) if alone else None,
        )

    def moved(self) -> tuple[SampleChange, ...]:
        """The furthest first; among equals what became worse, then in the order of the new run."""
        return tuple(
            SampleChange(
                sample_id=scored.pair.after.id,
                baseline_id=scored.pair.before.id,
                before=scored.before,
                after=scored.after,
                units=tuple(unit for unit in scored.units if unit.before != unit.after),
            )
            for scored in self._moved_most()
        )

    def _moved_most(self) -> list[_Scored]:
        order = sorted(self._moved, key=lambda one: (-abs(one.after - one.before), one.after > one.before))
        return order[: self._most]


class _Comparer:
    """The scores of both runs, by metric and sample, and where the verdicts of each stand in their file."""

    def __init__(self, baseline: Run, run: Run, pairing: Pairing, moved: int) -> None:
        self._baseline, self._run = baseline, run
        self._scores_before, self._scores_after = scores_by_metric(baseline), scores_by_metric(run)
        self._places_before, self._places_after = places_of_verdicts(baseline), places_of_verdicts(run)
        self._pairing = pairing
        self._moved = moved
        self._cluster_of = run.cluster_of if baseline.cluster_of is not None else None

    def change(self, metric: str) -> MetricChange:
        """One metric over all pairs."""
        both = _Column(self._moved, self._cluster_of)
        for pair in self._pairing.pairs:
            old = self._scores_before[metric].get(pair.before.id)
            new = self._scores_after[metric].get(pair.after.id)
            if old is not None and new is not None:
                both.add(_Scored(pair, old, new, self._units(metric, pair)))
        return MetricChange(
            compared=len(both),
            unpaired=len(self._pairing.only_before) + len(self._pairing.only_after),
            unscored=len(self._pairing.pairs) - len(both),
            failed_in_baseline=self._baseline.summary.metrics[metric].failed,
            scores=both.scores() if len(both) else None,
            verdicts=both.verdicts(),
            moved=both.moved(),
        )

    def _units(self, metric: str, pair: Pair) -> list[UnitChange]:
        before = self._places_before[metric].get(pair.before.id)
        after = self._places_after[metric].get(pair.after.id)
        return unit_changes(
            () if before is None else tuple(self._baseline.verdicts_at(before)),
            () if after is None else tuple(self._run.verdicts_at(after)),
            same_content=pair.same_content,
        )


def _shared(pairing: Pairing) -> SharedSamples:
    grounds = [pair.by for pair in pairing.pairs]
    return SharedSamples(
        by_id=grounds.count("id"),
        by_content=grounds.count("content"),
        by_question=grounds.count("question"),
        same_content=sum(pair.same_content for pair in pairing.pairs),
        other_question=other_questions(pairing.pairs),
        only_baseline=len(pairing.only_before),
        only_new=len(pairing.only_after),
    )


def scores_by_metric(run: Run) -> dict[str, dict[str, float]]:
    """The scores that there are, by metric, then by sample."""
    found: dict[str, dict[str, float]] = {metric: {} for metric in run.summary.metrics}
    for row in run.iter_scores():
        if row.score is not None:
            found.setdefault(row.metric, {})[row.sample_id] = row.score
    return found


def places_of_verdicts(run: Run) -> dict[str, dict[str, int]]:
    """By metric, then by sample: where its verdicts begin, for `Run.verdicts_at`."""
    found: dict[str, dict[str, int]] = {metric: {} for metric in run.summary.metrics}
    for row, place in run.verdict_places():
        found.setdefault(row.metric, {}).setdefault(row.sample_id, place)
    return found
