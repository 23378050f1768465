"""What changed from one run to another, on the samples that both have.

    A, the baseline   1.0  0.5   -   0.0
    B, the new run    1.0  1.0  0.5   -       differences 0 and +0.5: one tied, one improved, two missing

Every difference is B - A: above 0, the new run is better. It rests on the samples that have a score in both, one by
one, so that how hard a sample is cancels. Where a metric has several verdicts per sample, these are not independent of
each other: the interval of their changes is then taken over samples, or over the groups that both runs name.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from localjudge.analysis.comparability import judge_changes, other_questions, warnings
from localjudge.analysis.pairing import Flags, Pairing, Places, pair_samples
from localjudge.analysis.sample_columns import SampleColumn, sample_columns
from localjudge.analysis.score_changes import ScoreChanges, score_changes
from localjudge.analysis.slice_changes import BothRuns, SlicedChanges, sliced_changes
from localjudge.analysis.unit_changes import UnitChange, labelled_in_both, unit_changes
from localjudge.record.manifest import Difference
from localjudge.record.result_rows import VerdictRow
from localjudge.record.results import Run, as_run
from localjudge.stats import Interval, PairedTally, mcnemar
from localjudge.types import JudgeCard, Record

COMPARISON_VERSION = 1
MOVED_SAMPLES = 5

_SPARE = 1000
_PAIRS_AT_ONCE = 1024


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
    ci95: tuple[float, float] | None
    mcnemar_p: float | None


class MetricChange(Record):
    """One metric in both runs: `scores` are those of the `compared` samples, None if there are none.

    `baseline_mean` and `run_mean` are those over all samples of a run, paired or not, None if none has a score.

    `unpaired` samples are in one run only; `unscored` ones are in both, and undefined or failed in one of them.
    `failed_in_baseline` counts all that failed there.
    """

    compared: int
    unpaired: int
    unscored: int
    failed_in_baseline: int
    baseline_mean: float | None
    run_mean: float | None
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
        low, high = found.ci95 or (-1.0, 1.0)
        return Interval(found.difference, low, high, found.method, self.compared, found.clusters, confidence=0.95)


class SharedSamples(Record):
    """How the samples of the two runs were paired. `other_question`: pairs that ask something else."""

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
    by: SlicedChanges | None = None
    """The same by the values of a column, if one was named."""


def compare(
    baseline: Run | str | Path, run: Run | str | Path, *, moved: int = MOVED_SAMPLES, by: str | None = None
) -> RunComparison:
    """Compare a run with a baseline; list at most `moved` samples of each metric that moved most.

    Each is a run or its directory. `by` names a column of the new run's data: each metric is then also compared by its
    values. Runs that share no sample or no metric give a comparison without differences, and a warning. Raises
    RunDirectoryError for a directory without a finished run, UsageError for a column that the new run does not hold, or
    that has no single values, or too many.
    """
    baseline, run = as_run(baseline), as_run(run)
    comparer = _Comparer(baseline, run, moved)
    judges = judge_changes(baseline, run)
    return RunComparison(
        baseline=str(baseline.directory),
        run=str(run.directory),
        baseline_signature=baseline.summary.signature,
        signature=run.summary.signature,
        baseline_judge=baseline.judge,
        judge=run.judge,
        samples=_shared(comparer.pairing),
        judge_changes=judges,
        warnings=tuple(warnings(baseline, run, comparer.pairing, comparer.groups, judges)),
        metrics={name: comparer.change(name) for name in comparer.metrics},
        by=None if by is None else comparer.by(by),
    )


class _Pairs(NamedTuple):
    """Some pairs with a score of one metric in both runs: where their samples stand, the scores, and a cluster each."""

    before: Places
    after: Places
    old: npt.NDArray[np.float64]
    new: npt.NDArray[np.float64]
    same_content: Flags
    clusters: Places


class _Scored(NamedTuple):
    """A pair whose score moved, and its units."""

    before_at: int
    after_at: int
    before: float
    after: float
    units: list[UnitChange]


class _Column:
    """Running numbers of one metric: a few of each verdict, and texts only of the `most` pairs that moved most.

    A cluster is a group of samples if they are `grouped`, or the one sample.
    """

    def __init__(self, most: int, *, grouped: bool) -> None:
        self._most = most
        self._grouped = grouped
        self._scores, self._verdicts = PairedTally(), PairedTally()
        self._units = 0
        self._one_each = True
        self._moved: list[_Scored] = []

    def __len__(self) -> int:
        return self._scores.before.n

    def add(self, pairs: _Pairs, units: Sequence[list[UnitChange]]) -> None:
        """The next pairs, and the units of each."""
        self._scores.add(pairs.old, pairs.new, pairs.clusters if self._grouped else None)
        labels = [labelled_in_both(changes) for changes in units]
        self._verdicts.add(
            [label.before for one in labels for label in one],
            [label.after for one in labels for label in one],
            np.repeat(pairs.clusters, [len(one) for one in labels]),
        )
        self._units += sum(map(len, units))
        self._one_each = self._one_each and all(len(one) <= 1 for one in units)
        columns = (column.tolist() for column in (pairs.before, pairs.after, pairs.old, pairs.new))
        self._moved += (one for one in map(_Scored, *columns, units) if one.before != one.after)
        if len(self._moved) > 2 * self._most + _SPARE:
            self._moved = self.moved()

    def scores(self) -> ScoreChanges:
        """The scores of the pairs, one at least."""
        return score_changes(self._scores)

    def verdicts(self) -> VerdictChanges | None:
        """Verdicts of the pairs; None for a metric that has none on the same text."""
        paired = self._verdicts.before.n
        if not paired:
            return None
        change = self._verdicts.difference()
        alone = not self._grouped and self._one_each
        return VerdictChanges(
            paired=paired,
            unpaired=self._units - paired,
            up=change.improved,
            down=change.worsened,
            difference=change.difference.mean,
            ci95=change.difference.limits,
            mcnemar_p=mcnemar(change.improved, change.worsened) if alone else None,
        )

    def moved(self) -> list[_Scored]:
        """The furthest first; among equals what became worse, then in the order of the new run."""
        order = sorted(self._moved, key=lambda one: (-abs(one.after - one.before), one.after > one.before))
        return order[: self._most]


class _Comparer:
    """Two runs in columns. What is long, the ids of samples and the verdicts, is read where it is needed."""

    def __init__(self, baseline: Run, run: Run, moved: int) -> None:
        self._baseline, self._run = baseline, run
        self._moved = moved
        self.metrics = [name for name in run.summary.metrics if name in baseline.summary.metrics]
        numbers: dict[str, int] = {}
        read = (sample_columns(one, self.metrics, numbers) for one in (baseline, run))
        (old, self._before), (new, self._after) = read
        self.groups = self._before.groups, self._after.groups
        self.pairing = pair_samples(old, new)
        self._both = BothRuns(self._before, self._after, self.pairing)
        self._clusters = self._both.clusters

    def change(self, metric: str) -> MetricChange:
        """One metric over all pairs."""
        both = _Column(self._moved, grouped=self._clusters is not None)
        for pairs in self._scored(metric):
            both.add(pairs, [*self._units(metric, pairs)])
        return MetricChange(
            compared=len(both),
            unpaired=len(self.pairing.only_before) + len(self.pairing.only_after),
            unscored=len(self.pairing.after) - len(both),
            failed_in_baseline=self._baseline.summary.metrics[metric].failed,
            baseline_mean=self._baseline.summary.metrics[metric].mean,
            run_mean=self._run.summary.metrics[metric].mean,
            scores=both.scores() if len(both) else None,
            verdicts=both.verdicts(),
            moved=self._named(both.moved()),
        )

    def by(self, column: str) -> SlicedChanges:
        """All metrics by the values of a column of the new run."""
        return sliced_changes(self._both, self.metrics, self._run, column)

    def _scored(self, metric: str) -> Iterator[_Pairs]:
        """The pairs that have a score in both runs, some at a time."""
        (old, in_old), (new, in_new) = self._before.scores[metric], self._after.scores[metric]
        scored = np.flatnonzero(in_old[self.pairing.before] & in_new[self.pairing.after])
        for start in range(0, len(scored), _PAIRS_AT_ONCE):
            some = scored[start : start + _PAIRS_AT_ONCE]
            before, after = self.pairing.before[some], self.pairing.after[some]
            clusters = after if self._clusters is None else self._clusters[after]
            yield _Pairs(before, after, old[before], new[after], self.pairing.same_content[some], clusters)

    def _units(self, metric: str, pairs: _Pairs) -> Iterator[list[UnitChange]]:
        """The units of each pair."""
        old = _verdicts(self._baseline, self._before.places[metric], pairs.before)
        new = _verdicts(self._run, self._after.places[metric], pairs.after)
        for before, after, same_content in zip(old, new, pairs.same_content.tolist(), strict=True):
            yield unit_changes(before, after, same_content=same_content)

    def _named(self, moved: Sequence[_Scored]) -> tuple[SampleChange, ...]:
        """With the ids of the samples, and the units that moved."""
        before = self._baseline.samples_at([one.before_at for one in moved])
        after = self._run.samples_at([one.after_at for one in moved])
        return tuple(
            SampleChange(
                sample_id=after[one.after_at].id,
                baseline_id=before[one.before_at].id,
                before=one.before,
                after=one.after,
                units=tuple(unit for unit in one.units if unit.before != unit.after),
            )
            for one in moved
        )


def _verdicts(run: Run, places: SampleColumn[np.int64], samples: Places) -> Iterator[tuple[VerdictRow, ...]]:
    """The verdicts on each of the samples."""
    for place, there in zip(places.numbers[samples].tolist(), places.there[samples].tolist(), strict=True):
        yield tuple(run.verdicts_at(place)) if there else ()


def _shared(pairing: Pairing) -> SharedSamples:
    return SharedSamples(
        by_id=pairing.by("id"),
        by_content=pairing.by("content"),
        by_question=pairing.by("question"),
        same_content=int(np.count_nonzero(pairing.same_content)),
        other_question=other_questions(pairing),
        only_baseline=len(pairing.only_before),
        only_new=len(pairing.only_after),
    )
