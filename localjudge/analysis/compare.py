"""Differences between two runs on their shared samples.

    A, the baseline   1.0  0.5   -   0.0
    B, the new run    1.0  1.0  0.5   -       differences 0 and +0.5:
                                              one tied, one improved, two missing

Samples and units are paired by `localjudge.analysis.pairing`. Verdicts of one sample are dependent,
so their interval is over samples or groups. Texts are held only for the samples that moved most.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from localjudge.analysis.compared_run import ComparedRun
from localjudge.analysis.corrected_change import BothLabels, CorrectedDifference
from localjudge.analysis.pairing import Pair, UnitChange, pair_samples, unit_changes
from localjudge.errors import InputError
from localjudge.metrics import catalog
from localjudge.run_directory.column_values import column_values, slice_order
from localjudge.run_directory.differences import Difference, differences, only_rounds
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.run_record import RunRecord, as_run
from localjudge.stats.interval import Floats, Interval
from localjudge.stats.paired import paired_difference, smallest_detectable_difference
from localjudge.types import JudgeCard, Record
from localjudge.words import numbered, option_name

MOVED_SAMPLES = 5
_BASELINE = "the baseline"
_NEW = "this run"

Obstacle = Literal["judges", "questions"]
"""Why scores of two runs are not comparable.

The judges are others, or the questions or references of paired samples are.
"""


class ScoreChanges(Record):
    """Scores of the same samples in both runs.

    `smallest_detectable` is the smallest true difference that these samples would detect in 80 % of
    cases.
    """

    before: float
    after: float
    difference: float
    ci95: tuple[float, float] | None
    method: str
    clusters: int
    improved: int
    worsened: int
    tied: int
    smallest_detectable: float


class SampleChange(Record):
    """A sample with another score, and its changed units."""

    sample_id: str
    baseline_id: str
    before: float
    after: float
    units: tuple[UnitChange, ...]


class VerdictChanges(Record):
    """Verdicts on the same text in both runs, and the numbers that changed to 1 and to 0.

    `difference` is the change in the share of 1. Its interval is None if scores stopped a run.
    """

    paired: int
    unpaired: int
    up: int
    down: int
    difference: float
    ci95: tuple[float, float] | None


class SliceChange(Record):
    """One metric on the samples of a slice with a score in both runs."""

    compared: int
    scores: ScoreChanges | None
    corrected: CorrectedDifference | None = None

    @property
    def headline(self) -> CorrectedDifference | None:
        """Corrected difference, if it has an interval."""
        if self.corrected and self.corrected.ci95:
            return self.corrected
        return None

    @property
    def interval(self) -> Interval | None:
        judge = self.judge_interval
        corrected = self.headline
        if judge is None or corrected is None:
            return judge
        if corrected.difference is None or corrected.ci95 is None:
            return judge
        low, high = corrected.ci95
        return judge._replace(
            mean=corrected.difference, low=low, high=high, clusters=corrected.clusters
        )

    @property
    def judge_interval(self) -> Interval | None:
        if self.scores is None:
            return None
        low, high = self.scores.ci95 or (-1.0, 1.0)
        return Interval(
            mean=self.scores.difference,
            low=low,
            high=high,
            method=self.scores.method,
            n=self.compared,
            clusters=self.scores.clusters,
        )


class MetricChange(SliceChange):
    """One metric in both runs. `scores` covers the `compared` samples.

    `unpaired` samples are in one run only. `unscored` samples are in both, but undefined or failed
    in at least one.
    """

    unpaired: int
    unscored: int
    failed_in_baseline: int
    allowed_in_baseline: int
    verdicts: VerdictChanges | None
    moved: tuple[SampleChange, ...]
    withheld: str | None = None
    """Why no scores are compared: more samples of a run failed than it allows."""


class SharedSamples(Record):
    """Number of pairs by matching key.

    In `other_question` pairs, the questions or references differ.
    """

    by_id: int
    by_content: int
    by_question: int
    same_content: int
    other_question: int
    only_baseline: int
    only_new: int

    @property
    def paired(self) -> int:
        return self.by_id + self.by_content + self.by_question

    @property
    def without_partner(self) -> str:
        baseline = f"{self.only_baseline:,} of {self.only_baseline + self.paired:,} samples"
        new = f"{self.only_new:,} of {self.only_new + self.paired:,}"
        return f"{baseline} of the baseline and {new} of this run have no partner"


class ComparedSlice(Record):
    """Samples of the new run with one value in the column, and their pairs.

    `other_question` as in SharedSamples.
    """

    value: str | None
    samples: int
    paired: int
    other_question: int
    metrics: dict[str, SliceChange]


class SlicedChanges(Record):
    """Changes by the values of a column of the new run, largest slice first."""

    column: str
    slices: tuple[ComparedSlice, ...]


class RunComparison(Record):
    """Shared samples, differences of the judges, and changes of each metric, also `by` a column."""

    schema_version: int = 1
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

    def judge_changes_for(self, metric: str) -> tuple[Difference, ...]:
        """Return the differences of the judges that can change a metric, except by rounding."""
        tasks = _list_tasks(metric)
        changes = []
        for change in self.judge_changes:
            if not only_rounds(change) and _concerns(change, metric, tasks):
                changes.append(change)
        return tuple(changes)

    def obstacles(self, metric: str, part: ComparedSlice | None = None) -> dict[Obstacle, str]:
        """Return why the scores are not comparable, by kind of reason. Intervals do not matter.

        Labels of both runs also correct for the difference of two judges, unless they judge other
        statements.
        """
        counts: SharedSamples | ComparedSlice = self.samples
        change: SliceChange = self.metrics[metric]
        if part is not None:
            counts = part
            change = part.metrics[metric]
        names = []
        for difference in self.judge_changes_for(metric):
            if change.headline is None or difference.ingredient.startswith(_STATEMENTS):
                names.append(excerpt(difference.ingredient))
        obstacles: dict[Obstacle, str] = {}
        if names:
            obstacles["judges"] = f"the judges differ ({', '.join(names)})"
        if counts.other_question:
            pairs = f"{counts.other_question:,} of {numbered(counts.paired, 'pair')}"
            obstacles["questions"] = f"another question or reference in {pairs}"
        return obstacles


_STATEMENTS = ("segmenter.", "metrics.")
"""Parts of a judge's identity that decide what is judged."""
_ONE_JUDGE = ("engine.", "judge.", "jury.")
"""Parts of a judge's identity that describe a single judge."""


def _list_tasks(metric: str) -> frozenset[str] | None:
    """Return the tasks of a built-in metric, or None if they are unknown."""
    built_in = catalog.ours(metric)
    if built_in is None:
        return None
    return catalog.list_tasks([built_in])


def _concerns(change: Difference, metric: str, tasks: frozenset[str] | None) -> bool:
    """Return whether a difference of the judges can change a metric with these tasks."""
    part, _, name = change.ingredient.partition(".")
    match part:
        case "metrics" | "thresholds":
            return name == metric or name.startswith(f"{metric}.")
        case "calibrations":  # they act through `thresholds`
            return False
        case "segmenter":
            return True
        case "judge" if name.startswith("special_tasks.") and tasks is not None:
            return name.split(".")[1] in tasks
    return tasks is None or bool(tasks)  # a metric without tasks asks no judge


def compare(
    baseline: RunRecord | str | Path,
    run: RunRecord | str | Path,
    *,
    moved: int = MOVED_SAMPLES,
    by: str | None = None,
) -> RunComparison:
    """Compare a run with a baseline.

    Lists at most `moved` samples of each metric, the largest changes first. Raises
    RunDirectoryError for a directory without a finished run, and InputError if the new run lacks
    the column `by`, or the column has lists, objects or too many values.
    """
    if moved < 0:
        raise InputError(
            f"moved must be at least 0, got {moved}",
            hint="omit it for 5 samples of each metric",
        )
    baseline = as_run(baseline)
    run = as_run(run)
    metrics = [name for name in run.summary.metrics if name in baseline.summary.metrics]
    both = _BothRuns(ComparedRun(baseline, metrics), ComparedRun(run, metrics))
    judge_changes = _compare_judges(baseline, run)
    warnings = [
        *_warn_of_samples(both, metrics),
        *_warn_of_judges(judge_changes),
        *_warn_of_pairs(both),
        *_warn_of_failures(both),
    ]
    changes = {metric: both.metric_change(metric, moved) for metric in metrics}
    slices = None
    if by is not None:
        slices = SlicedChanges(column=by, slices=tuple(both.slices(metrics, by)))
    return RunComparison(
        baseline=str(baseline.directory),
        run=str(run.directory),
        baseline_signature=baseline.summary.signature,
        signature=run.summary.signature,
        baseline_judge=baseline.judge,
        judge=run.judge,
        samples=both.shared,
        judge_changes=tuple(judge_changes),
        warnings=tuple(warnings),
        metrics=changes,
        by=slices,
    )


def _compare_judges(baseline: RunRecord, run: RunRecord) -> list[Difference]:
    """Return what differs in the judges, except metrics that only one run has.

    Of a jury and one of its judges, these are the names, not every value.
    """
    before = baseline.manifest.judge
    after = run.manifest.judge
    unshared = baseline.summary.metrics.keys() ^ run.summary.metrics.keys()
    ignored = [f"metrics.{name}." for name in unshared]
    changes = []
    if (before.jury or after.jury) and _is_part_of_other(
        before.answering_judges, after.answering_judges
    ):
        ignored += _ONE_JUDGE
        old_name = baseline.summary.judge.name
        new_name = run.summary.judge.name
        if old_name != new_name:
            changes.append(Difference(ingredient="judges", before=old_name, after=new_name))
    for change in differences(before, after):
        if not change.ingredient.startswith(tuple(ignored)):
            changes.append(change)
    return changes


def _is_part_of_other(before: Sequence[object], after: Sequence[object]) -> bool:
    """Return whether all judges of one run are judges of the other."""
    shared = [judge for judge in before if judge in after]
    return len(shared) >= min(len(before), len(after))


class _BothRuns:
    """Two runs with the pairs of their samples."""

    def __init__(self, before: ComparedRun, after: ComparedRun) -> None:
        self.before = before
        self.after = after
        self.pairs = pair_samples(before.samples, after.samples)
        self.shared = self._count_pairs()
        groups = self._groups()
        self._is_grouped = groups is not None
        self._clusters = _number_groups(groups or range(len(after.samples)))
        self._sampling = before.run.sampling.joined(after.run.sampling)
        self._labels = BothLabels(before.run, after.run)

    def _count_pairs(self) -> SharedSamples:
        grounds = Counter(pair.ground for pair in self.pairs)
        return SharedSamples(
            by_id=grounds["id"],
            by_content=grounds["content"],
            by_question=grounds["question"],
            same_content=sum(pair.same_content for pair in self.pairs),
            other_question=_count_other_questions(self.pairs),
            only_baseline=len(self.before.samples) - len(self.pairs),
            only_new=len(self.after.samples) - len(self.pairs),
        )

    def _groups(self) -> Sequence[object] | None:
        """Return the group of each sample of the new run, or None if samples are independent."""
        old = self.before.groups
        new = self.after.groups
        if new is not None and (old is not None or self.after.run.sampling.by_groups):
            return new
        if old is None or not self.before.run.sampling.by_groups:
            return None
        groups: list[object] = list(range(len(self.after.samples)))
        for pair in self.pairs:
            groups[pair.after] = old[pair.before]
        return groups

    def metric_change(self, metric: str, moved: int) -> MetricChange:
        pairs = self._scored_pairs(metric, self.pairs)
        return MetricChange(
            compared=len(pairs),
            unpaired=self.shared.only_baseline + self.shared.only_new,
            unscored=len(self.pairs) - len(pairs),
            failed_in_baseline=self.before.run.summary.metrics[metric].failed,
            allowed_in_baseline=self.before.run.max_failed,
            scores=self._score_changes(metric, pairs),
            verdicts=self._verdict_changes(metric, pairs),
            moved=tuple(self._moved_samples(metric, pairs, moved)),
            corrected=self._corrected(metric, pairs),
            withheld=self._withheld(metric),
        )

    def _withheld(self, metric: str) -> str | None:
        """Return why no scores are compared, if more samples of a run failed than it allows."""
        for name, run in ((_BASELINE, self.before.run), (_NEW, self.after.run)):
            failed = run.summary.metrics[metric].failed
            if failed > run.max_failed:
                allowed = f"more than allowed ({option_name('max_failed')} {run.max_failed:,})"
                return f"no difference: {numbered(failed, 'sample')} of {name} failed, {allowed}"
        return None

    def _scored_pairs(self, metric: str, pairs: Iterable[Pair]) -> list[Pair]:
        if self._withheld(metric):
            return []
        old = self.before.scores[metric]
        new = self.after.scores[metric]
        scored = []
        for pair in pairs:
            if not (math.isnan(old[pair.before]) or math.isnan(new[pair.after])):
                scored.append(pair)
        return scored

    def _scores_of_pairs(self, metric: str, pairs: Sequence[Pair]) -> tuple[Floats, Floats]:
        """Return the scores (pairs,) in both runs."""
        before = self.before.scores[metric][[pair.before for pair in pairs]]
        after = self.after.scores[metric][[pair.after for pair in pairs]]
        return before, after

    def _score_changes(self, metric: str, pairs: Sequence[Pair]) -> ScoreChanges | None:
        if not pairs:
            return None
        before, after = self._scores_of_pairs(metric, pairs)
        clusters = None
        if self._is_grouped:
            clusters = [self._clusters[pair.after] for pair in pairs]
        change = self._sampling.difference(before, after, clusters)
        return ScoreChanges(
            before=math.fsum(before) / len(before),
            after=math.fsum(after) / len(after),
            difference=change.difference.mean,
            ci95=change.difference.limits,
            method=change.difference.method,
            clusters=change.difference.clusters,
            improved=change.improved,
            worsened=change.worsened,
            tied=change.tied,
            smallest_detectable=smallest_detectable_difference(change.difference),
        )

    def _verdict_changes(self, metric: str, pairs: Iterable[Pair]) -> VerdictChanges | None:
        before: list[int] = []
        after: list[int] = []
        clusters: list[int] = []
        units = 0
        for pair in pairs:
            for change in self._unit_changes(metric, pair):
                units += 1
                if change.before is not None and change.after is not None:
                    before.append(change.before)
                    after.append(change.after)
                    clusters.append(self._clusters[pair.after])
        if not before:
            return None
        shares = paired_difference(before, after, clusters=clusters)
        limits = shares.difference.limits
        if self._sampling.optional_stopping:
            limits = None
        return VerdictChanges(
            paired=len(before),
            unpaired=units - len(before),
            up=shares.improved,
            down=shares.worsened,
            difference=shares.difference.mean,
            ci95=limits,
        )

    def _unit_changes(self, metric: str, pair: Pair) -> list[UnitChange]:
        old = self.before.verdicts(metric, pair.before)
        new = self.after.verdicts(metric, pair.after)
        return unit_changes(old, new, same_content=pair.same_content)

    def _moved_samples(
        self, metric: str, pairs: Sequence[Pair], most: int
    ) -> Iterator[SampleChange]:
        """Yield the pairs with the largest changes of the score; of equal ones, losses first."""
        before, after = self._scores_of_pairs(metric, pairs)
        moves = (after - before).tolist()
        places = list(range(len(pairs)))
        places.sort(key=lambda place: (-abs(moves[place]), moves[place] > 0))
        for place in places[:most]:
            if moves[place] == 0:
                return
            pair = pairs[place]
            units = self._unit_changes(metric, pair)
            yield SampleChange(
                sample_id=self.after.samples[pair.after].id,
                baseline_id=self.before.samples[pair.before].id,
                before=float(before[place]),
                after=float(after[place]),
                units=tuple(unit for unit in units if unit.before != unit.after),
            )

    def _corrected(self, metric: str, pairs: Sequence[Pair]) -> CorrectedDifference | None:
        """Return the difference corrected by labels."""
        if not pairs:
            return None
        numbers: dict[int, int] = {}
        clusters_before: dict[str, int] = {}
        clusters_after: dict[str, int] = {}
        for pair in pairs:
            number = numbers.setdefault(self._clusters[pair.after], len(numbers))
            clusters_before[self.before.samples[pair.before].id] = number
            clusters_after[self.after.samples[pair.after].id] = number
        return self._labels.difference(metric, clusters_before, clusters_after)

    def slices(self, metrics: Sequence[str], column: str) -> list[ComparedSlice]:
        values = column_values(self.after.run, column)
        pairs_by_value: dict[str | None, list[Pair]] = {value: [] for value in values.values()}
        for pair in self.pairs:
            value = values[self.after.samples[pair.after].id]
            pairs_by_value[value].append(pair)
        counts = Counter(values.values())
        slices = []
        for value, pairs in pairs_by_value.items():
            part = ComparedSlice(
                value=value,
                samples=counts[value],
                paired=len(pairs),
                other_question=_count_other_questions(pairs),
                metrics={metric: self._slice_change(metric, pairs) for metric in metrics},
            )
            slices.append(part)
        return sorted(slices, key=lambda part: slice_order(part.samples, part.value))

    def _slice_change(self, metric: str, pairs: Sequence[Pair]) -> SliceChange:
        scored = self._scored_pairs(metric, pairs)
        return SliceChange(
            compared=len(scored),
            scores=self._score_changes(metric, scored),
            corrected=self._corrected(metric, scored),
        )


def _count_other_questions(pairs: Iterable[Pair]) -> int:
    return sum(not pair.same_question for pair in pairs)


def _number_groups(groups: Iterable[object]) -> list[int]:
    """Return the number of each group, from 0 in the order of first appearance."""
    numbers: dict[object, int] = {}
    return [numbers.setdefault(group, len(numbers)) for group in groups]


def _warn_of_samples(both: _BothRuns, metrics: Sequence[str]) -> Iterator[str]:
    shared = both.shared
    if not shared.paired:
        yield (
            "the runs have no sample in common, by id, content or question: "
            "add an id column to both data files"
        )
    elif shared.only_baseline or shared.only_new:
        yield (
            f"{shared.without_partner}; means are of the {shared.paired:,} pairs; "
            f"means of the whole baseline: {_list_means(both.before.run, metrics)}; "
            f"of this whole run: {_list_means(both.after.run, metrics)}"
        )
    if not metrics:
        yield "the runs have no metric in common"


def _list_means(run: RunRecord, metrics: Iterable[str]) -> str:
    means = []
    for metric in metrics:
        mean = run.summary.metrics[metric].mean
        shown = "-"
        if mean is not None:
            shown = f"{mean:.3f}"
        means.append(f"{metric} {shown}")
    return ", ".join(means)


def _warn_of_judges(changes: Sequence[Difference]) -> Iterator[str]:
    if changes:
        names = ", ".join(change.ingredient for change in changes)
        yield f"the judges differ ({names}) and may cause the difference"


def _warn_of_pairs(both: _BothRuns) -> Iterator[str]:
    if both.shared.other_question:
        number = f"{both.shared.other_question:,}"
        yield f"paired samples with another question or reference: {number}"
    old = both.before.groups
    new = both.after.groups
    if (old is None) != (new is None):
        yield "only one of the runs has groups of samples, so groups are ignored"
    elif old and new:
        regrouped = sum(old[pair.before] != new[pair.after] for pair in both.pairs)
        if regrouped:
            samples = f"{numbered(regrouped, 'sample')} in another group in the baseline"
            yield f"{samples}; the groups of this run count"


def _warn_of_failures(both: _BothRuns) -> Iterator[str]:
    for name, run in ((_BASELINE, both.before.run), (_NEW, both.after.run)):
        for metric in run.summary.failed_beyond(0):
            failed = run.summary.metrics[metric].failed
            yield f"{name} has failed samples of {metric}: {failed:,}"
