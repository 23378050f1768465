"""What changed from one run to another, on the samples that both have.

    A, the baseline   1.0  0.5   -   0.0
    B, the new run    1.0  1.0  0.5   -       differences 0 and +0.5: one tied, one improved, two missing

Every difference is B - A: above 0, the new run is better. It rests on the samples that have a score in both, one by
one, so that how hard a sample is cancels. Where a metric has several verdicts per sample, these are not independent of
each other: the interval of their changes is then taken over samples, or over the groups that both runs name.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from localjudge.analysis.comparability import judge_changes, other_questions, warnings
from localjudge.analysis.pairing import Pair, Pairing, pair_samples
from localjudge.analysis.unit_changes import UnitChange, labelled_in_both, unit_changes
from localjudge.record.manifest import Difference
from localjudge.record.result_rows import ScoreRow, VerdictRow
from localjudge.record.results import Run, as_run
from localjudge.stats import mcnemar, paired_difference
from localjudge.types import JudgeCard, Record

SCHEMA_VERSION = 1
MOVED_SAMPLES = 5


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

    schema_version: int = SCHEMA_VERSION
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
    before, after = ([sample for sample, _ in one.iter_scored_samples()] for one in (baseline, run))
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
    """A pair with a score in both runs."""

    pair: Pair
    before: float
    after: float
    units: list[UnitChange]


class _Comparer:
    """The rows of both runs, by metric and sample."""

    def __init__(self, baseline: Run, run: Run, pairing: Pairing, moved: int) -> None:
        self._rows_before, self._rows_after = _scores(baseline), _scores(run)
        self._units_before, self._units_after = _units(baseline), _units(run)
        self._baseline = baseline
        self._pairing = pairing
        self._moved = moved
        self._cluster_of = run.cluster_of if baseline.cluster_of is not None else None

    def change(self, metric: str) -> MetricChange:
        """One metric over all pairs."""
        both = [scored for pair in self._pairing.pairs if (scored := self._scored(metric, pair))]
        return MetricChange(
            compared=len(both),
            unpaired=len(self._pairing.only_before) + len(self._pairing.only_after),
            unscored=len(self._pairing.pairs) - len(both),
            failed_in_baseline=self._baseline.summary.metrics[metric].failed,
            scores=self._scores(both) if both else None,
            verdicts=self._verdicts(both),
            moved=tuple(_moved_most(both, self._moved)),
        )

    def _scored(self, metric: str, pair: Pair) -> _Scored | None:
        old = self._rows_before.get((metric, pair.before.id))
        new = self._rows_after.get((metric, pair.after.id))
        if old is None or new is None or old.score is None or new.score is None:
            return None
        changes = unit_changes(
            self._units_before.get((metric, pair.before.id), ()),
            self._units_after.get((metric, pair.after.id), ()),
            same_content=pair.same_content,
        )
        return _Scored(pair, old.score, new.score, changes)

    def _clusters(self, both: Sequence[_Scored]) -> list[str] | None:
        if self._cluster_of is None:
            return None
        return [self._cluster_of[scored.pair.after.id] for scored in both]

    def _scores(self, both: Sequence[_Scored]) -> ScoreChanges:
        before, after = [scored.before for scored in both], [scored.after for scored in both]
        change = paired_difference(before, after, clusters=self._clusters(both))
        return ScoreChanges(
            before=math.fsum(before) / len(both),
            after=math.fsum(after) / len(both),
            difference=change.difference.mean,
            ci95=(change.difference.low, change.difference.high),
            method=change.difference.method,
            clusters=change.difference.clusters,
            improved=change.improved,
            worsened=change.worsened,
            tied=change.tied,
            smallest_detectable=change.smallest_detectable,
        )

    def _verdicts(self, both: Sequence[_Scored]) -> VerdictChanges | None:
        """Verdicts of the pairs; None for a metric that has none on the same text."""
        groups = self._clusters(both) or [scored.pair.after.id for scored in both]
        found = [
            (*labels, group)
            for group, scored in zip(groups, both, strict=True)
            for labels in labelled_in_both(scored.units)
        ]
        if not found:
            return None
        before, after, clusters = zip(*found, strict=True)
        change = paired_difference(before, after, clusters=clusters)
        alone = self._cluster_of is None and all(len(scored.units) <= 1 for scored in both)
        return VerdictChanges(
            paired=len(found),
            unpaired=sum(len(scored.units) for scored in both) - len(found),
            up=change.improved,
            down=change.worsened,
            difference=change.difference.mean,
            ci95=(change.difference.low, change.difference.high),
            mcnemar_p=mcnemar(change.improved, change.worsened) if alone else None,
        )


def _moved_most(both: Sequence[_Scored], count: int) -> list[SampleChange]:
    """The furthest first; among equals what became worse, then in the order of the new run."""
    moved = [scored for scored in both if scored.before != scored.after]
    moved.sort(key=lambda scored: (-abs(scored.after - scored.before), scored.after > scored.before))
    return [
        SampleChange(
            sample_id=scored.pair.after.id,
            baseline_id=scored.pair.before.id,
            before=scored.before,
            after=scored.after,
            units=tuple(unit for unit in scored.units if unit.before != unit.after),
        )
        for scored in moved[:count]
    ]


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


def _scores(run: Run) -> dict[tuple[str, str], ScoreRow]:
    return {(row.metric, row.sample_id): row for row in run.scores}


def _units(run: Run) -> Mapping[tuple[str, str], Sequence[VerdictRow]]:
    found: dict[tuple[str, str], list[VerdictRow]] = {}
    for row in run.verdicts:
        found.setdefault((row.metric, row.sample_id), []).append(row)
    return found
