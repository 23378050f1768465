"""Differences between two runs on their shared samples.

    A, the baseline   1.0  0.5   -   0.0
    B, the new run    1.0  1.0  0.5   -       differences 0 and +0.5:
                                              one tied, one improved, two missing

Samples and units are paired by `localjudge.analysis.pairing`. Verdicts of one sample are dependent,
so their interval is over samples or groups. Texts are held only for the samples that moved most.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from localjudge.analysis.comparison import (
    ComparedSlice,
    CorrectedDifference,
    MetricChange,
    RunComparison,
    SampleChange,
    ScoreChanges,
    SharedSamples,
    SliceChange,
    SlicedChanges,
    VerdictChanges,
    withholds_difference,
)
from localjudge.analysis.corrected_change import (
    Clusters,
    correct_difference,
    correct_jointly,
    join_frames,
)
from localjudge.analysis.pairing import (
    ComparedRun,
    Pairs,
    UnitChange,
    find_ground,
    is_same_question,
    pair_samples,
    unit_changes,
)
from localjudge.errors import InputError
from localjudge.labels.difference_frame import DifferenceFrame
from localjudge.labels.label_source import LabelSource, check_labels_allowed
from localjudge.labels.matched_labels import (
    MatchedLabels,
    match_joint_labels,
    match_labels_of_both,
)
from localjudge.labels.units import UnitFrame, first_verdicts, unit_frames
from localjudge.metrics import catalog
from localjudge.run_directory.comparison_directory import ComparisonDirectory
from localjudge.run_directory.differences import Difference, differences, judges_differ
from localjudge.run_directory.files import describe_altered_labels
from localjudge.run_directory.label_rows import stored_labels
from localjudge.run_directory.run_record import RunRecord, as_run
from localjudge.run_directory.run_rows import column_values, slice_order
from localjudge.stats.interval import Floats
from localjudge.stats.paired import count_changes, paired_difference, smallest_detectable_difference
from localjudge.words import numbered, option_name, three_digits

MOVED_SAMPLES = 5
_BASELINE = "the baseline"
_NEW = "this run"
_ONE_JUDGE = ("engine.", "judge.", "jury.")
"""Parts of a judge's identity that describe a single judge."""


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
        *_warn_of_judges_and_groups(both, judge_changes),
        *_warn_of_failures_and_labels(baseline, run),
    ]
    changes = {metric: both.metric_change(metric, moved) for metric in metrics}
    slices = None
    if by is not None:
        slices = SlicedChanges(column=by, slices=tuple(both.slices(changes, by)))
    path = None
    directory = ComparisonDirectory.of_runs(baseline.directory, run.directory)
    if directory is not None:
        path = str(directory.path)
    return RunComparison(
        directory=path,
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


def join_statements(comparison: ComparisonDirectory) -> LabelSource:
    """Return the statements of both runs of a comparison, to be labelled together.

    Raises RunDirectoryError if a run is not finished, and InputError if scores stopped one.
    """
    baseline = as_run(comparison.baseline_path)
    run = as_run(comparison.run_path)
    check_labels_allowed(baseline)
    check_labels_allowed(run)
    metrics = [name for name in run.summary.metrics if name in baseline.summary.metrics]
    both = _BothRuns(ComparedRun(baseline, metrics), ComparedRun(run, metrics))
    frames = both.joint_frames()
    parts = (
        (baseline, first_verdicts(frame.before for frame in frames.values())),
        (run, first_verdicts(frame.after for frame in frames.values())),
    )
    return LabelSource(comparison.path, dict(frames), parts)


def _compare_judges(baseline: RunRecord, run: RunRecord) -> list[Difference]:
    """Return what differs in the judges, except metrics that only one run has.

    Of a jury and one of its judges, these are the names, not every value.
    """
    before = baseline.manifest.judge
    after = run.manifest.judge
    unshared = baseline.summary.metrics.keys() ^ run.summary.metrics.keys()
    ignored = [f"metrics.{name}." for name in unshared]
    changes = []
    shared = [judge for judge in before.answering_judges if judge in after.answering_judges]
    fewest = min(len(before.answering_judges), len(after.answering_judges))
    if (before.jury or after.jury) and len(shared) >= fewest:  # one is a part of the other
        ignored += _ONE_JUDGE
        old_name = baseline.summary.judge.name
        new_name = run.summary.judge.name
        if old_name != new_name:
            changes.append(Difference(ingredient="judges", before=old_name, after=new_name))
    for change in differences(before, after):
        if not change.ingredient.startswith(tuple(ignored)):
            changes.append(change)
    return changes


class _BothRuns:
    """Two runs with the pairs of their samples."""

    def __init__(self, before: ComparedRun, after: ComparedRun) -> None:
        self.before = before
        self.after = after
        self.pairs = pair_samples(before.samples, after.samples)
        grounds: Counter[str] = Counter()
        same_content = 0
        for new, old in self.pairs.items():
            grounds[find_ground(self.before.samples[old], self.after.samples[new])] += 1
            same_content += self._have_same_content(new, old)
        self.shared = SharedSamples(
            by_id=grounds["id"],
            by_content=grounds["content"],
            by_question=grounds["question"],
            same_content=same_content,
            other_question=self._count_other_questions(self.pairs),
            only_baseline=len(self.before.samples) - len(self.pairs),
            only_new=len(self.after.samples) - len(self.pairs),
        )
        groups = self._groups()
        self._is_grouped = groups is not None
        numbers: dict[object, int] = {}
        self._clusters = [
            numbers.setdefault(group, len(numbers))
            for group in (groups or range(len(after.samples)))
        ]
        self._sampling = before.run.sampling.joined(after.run.sampling)
        self._labels = match_labels_of_both(before.run, after.run)

    @cached_property
    def _joint_labels(self) -> MatchedLabels | None:
        """The labels of both runs together, None if the directory of both has none."""
        directory = ComparisonDirectory.of_runs(self.before.run.directory, self.after.run.directory)
        if directory is None or not stored_labels(directory.path):
            return None
        is_stopped = self._sampling.optional_stopping
        frames: dict[str, UnitFrame] = dict(self.joint_frames())
        return match_joint_labels(directory.path, frames, is_stopped=is_stopped)

    def joint_frames(self) -> dict[str, DifferenceFrame]:
        """Return the statements of both runs together, by metric."""
        frames_before = unit_frames(self.before.run)
        frames_after = unit_frames(self.after.run)
        frames: dict[str, DifferenceFrame] = {}
        for metric in frames_before.keys() & frames_after.keys():
            clusters = self._pair_clusters(self._scored_pairs(metric, self.pairs))
            frames[metric] = join_frames(frames_before[metric], frames_after[metric], *clusters)
        return dict(sorted(frames.items()))

    def _have_same_content(self, new: int, old: int) -> bool:
        return self.after.samples[new].content == self.before.samples[old].content

    def _count_other_questions(self, pairs: Pairs) -> int:
        count = 0
        for new, old in pairs.items():
            count += not is_same_question(self.before.samples[old], self.after.samples[new])
        return count

    def _groups(self) -> Sequence[object] | None:
        """Return the group of each sample of the new run, or None if samples are independent."""
        groups_before = self.before.groups
        groups_after = self.after.groups
        if groups_after is not None and (
            groups_before is not None or self.after.run.sampling.by_groups
        ):
            return groups_after
        if groups_before is None or not self.before.run.sampling.by_groups:
            return None
        groups: list[object] = list(range(len(self.after.samples)))
        for new, old in self.pairs.items():
            groups[new] = groups_before[old]
        return groups

    def metric_change(self, metric: str, moved: int) -> MetricChange:
        pairs = self._scored_pairs(metric, self.pairs)
        corrected = self._corrected(metric, pairs)
        counted_by: Literal["judge", "rules"] = "rules"
        if catalog.is_judged(metric):
            counted_by = "judge"
        return MetricChange(
            counted_by=counted_by,
            compared=len(pairs),
            unpaired=self.shared.only_baseline + self.shared.only_new,
            unscored=len(self.pairs) - len(pairs),
            failed_in_baseline=self.before.run.summary.metrics[metric].failed,
            allowed_in_baseline=self.before.run.max_failed,
            scores=self._score_changes(self._counted(metric, pairs), pairs),
            expected=self._score_changes(self._expected(metric, pairs), pairs),
            verdicts=self._verdict_changes(metric, pairs),
            moved=tuple(self._moved_samples(metric, pairs, moved)),
            corrected=corrected,
            is_withheld=withholds_difference(corrected, corrected),
            is_equal=self._are_equal(metric, pairs),
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

    def _scored_pairs(self, metric: str, pairs: Pairs) -> Pairs:
        if self._withheld(metric):
            return {}
        before = self.before.scores[metric]
        after = self.after.scores[metric]
        scored = {}
        for new, old in pairs.items():
            if not (math.isnan(before[old]) or math.isnan(after[new])):
                scored[new] = old
        return scored

    def _counted(self, metric: str, pairs: Pairs) -> tuple[Floats, Floats]:
        """Return the scores (pairs,) in both runs."""
        before = self.before.scores[metric][list(pairs.values())]
        after = self.after.scores[metric][list(pairs)]
        return before, after

    def _expected(self, metric: str, pairs: Pairs) -> tuple[Floats, Floats]:
        """Return the expected scores (pairs,) in both runs."""
        before = self.before.expected[metric][list(pairs.values())]
        after = self.after.expected[metric][list(pairs)]
        return before, after

    def _are_equal(self, metric: str, pairs: Pairs) -> bool:
        """Return whether there are pairs, and all have the same texts and scores."""
        before, after = self._counted(metric, pairs)
        is_same = all(self._have_same_content(new, old) for new, old in pairs.items())
        return bool(pairs) and is_same and bool((before == after).all())

    def _score_changes(self, scores: tuple[Floats, Floats], pairs: Pairs) -> ScoreChanges | None:
        """Return the changes of scores (pairs,) in both runs."""
        if not pairs:
            return None
        before, after = scores
        clusters = None
        if self._is_grouped:
            clusters = [self._clusters[new] for new in pairs]
        difference = self._sampling.difference(before, after, clusters)
        improved, worsened, tied = count_changes(before, after)
        smallest_detectable = None
        if difference.ci95 is not None:
            smallest_detectable = smallest_detectable_difference(difference)
        return ScoreChanges(
            before=math.fsum(before) / len(before),
            after=math.fsum(after) / len(after),
            difference=difference.mean,
            ci95=difference.ci95,
            method=difference.method,
            clusters=difference.clusters,
            improved=improved,
            worsened=worsened,
            tied=tied,
            smallest_detectable=smallest_detectable,
        )

    def _verdict_changes(self, metric: str, pairs: Pairs) -> VerdictChanges | None:
        before: list[int] = []
        after: list[int] = []
        clusters: list[int] = []
        units = 0
        for new, old in pairs.items():
            for change in self._unit_changes(metric, new, old):
                units += 1
                if change.before is not None and change.after is not None:
                    before.append(change.before)
                    after.append(change.after)
                    clusters.append(self._clusters[new])
        if not before:
            return None
        difference = paired_difference(before, after, clusters=clusters)
        improved, worsened, _ = count_changes(before, after)
        limits = difference.ci95
        if self._sampling.optional_stopping:
            limits = None
        return VerdictChanges(
            paired=len(before),
            unpaired=units - len(before),
            up=improved,
            down=worsened,
            difference=difference.mean,
            ci95=limits,
        )

    def _unit_changes(self, metric: str, new: int, old: int) -> list[UnitChange]:
        return unit_changes(
            self.before.verdicts(metric, old),
            self.after.verdicts(metric, new),
            same_content=self._have_same_content(new, old),
        )

    def _moved_samples(self, metric: str, pairs: Pairs, most: int) -> Iterator[SampleChange]:
        """Yield the pairs with the largest changes of the score; of equal ones, losses first."""
        before, after = self._counted(metric, pairs)
        moves = (after - before).tolist()
        positions = list(pairs.items())
        order = list(range(len(pairs)))
        order.sort(key=lambda pair: (-abs(moves[pair]), moves[pair] > 0))
        for pair in order[:most]:
            if moves[pair] == 0:
                return
            new, old = positions[pair]
            units = self._unit_changes(metric, new, old)
            yield SampleChange(
                sample_id=self.after.samples[new].id,
                baseline_id=self.before.samples[old].id,
                before=float(before[pair]),
                after=float(after[pair]),
                units=tuple(unit for unit in units if unit.before != unit.after),
            )

    def _corrected(self, metric: str, pairs: Pairs) -> CorrectedDifference | None:
        """Return the difference corrected by labels."""
        if not pairs:
            return None
        clusters = self._pair_clusters(pairs)
        if self._joint_labels and metric in self._joint_labels.frames:
            whole = self._joint_labels.frames[metric]
            assert isinstance(whole, DifferenceFrame)
            frame = join_frames(whole.before, whole.after, *clusters)
            corrected = correct_jointly(frame, self._joint_labels, *clusters)
            if corrected is not None:
                return corrected
        return correct_difference(metric, self._labels, *clusters)

    def _pair_clusters(self, pairs: Pairs) -> tuple[Clusters, Clusters]:
        """Return the cluster of each sample of these pairs, from 0, in both runs."""
        numbers: dict[int, int] = {}
        clusters_before: dict[str, int] = {}
        clusters_after: dict[str, int] = {}
        for new, old in pairs.items():
            number = numbers.setdefault(self._clusters[new], len(numbers))
            clusters_before[self.before.samples[old].id] = number
            clusters_after[self.after.samples[new].id] = number
        return clusters_before, clusters_after

    def slices(self, changes: Mapping[str, MetricChange], column: str) -> list[ComparedSlice]:
        values = column_values(self.after.run, column)
        pairs_by_value: dict[str | None, Pairs] = {value: {} for value in values.values()}
        for new, old in self.pairs.items():
            value = values[self.after.samples[new].id]
            pairs_by_value[value][new] = old
        counts = Counter(values.values())
        slices = []
        for value, pairs in pairs_by_value.items():
            part = ComparedSlice(
                value=value,
                samples=counts[value],
                paired=len(pairs),
                other_question=self._count_other_questions(pairs),
                metrics={
                    metric: self._slice_change(metric, pairs, change.corrected)
                    for metric, change in changes.items()
                },
            )
            slices.append(part)
        return sorted(slices, key=lambda part: slice_order(part.samples, part.value))

    def _slice_change(
        self, metric: str, pairs: Pairs, whole: CorrectedDifference | None
    ) -> SliceChange:
        scored = self._scored_pairs(metric, pairs)
        corrected = self._corrected(metric, scored)
        return SliceChange(
            compared=len(scored),
            scores=self._score_changes(self._counted(metric, scored), scored),
            expected=self._score_changes(self._expected(metric, scored), scored),
            corrected=corrected,
            is_withheld=withholds_difference(corrected, whole),
            is_equal=self._are_equal(metric, scored),
        )


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
            shown = three_digits(mean)
        means.append(f"{metric} {shown}")
    return ", ".join(means)


def _warn_of_judges_and_groups(
    both: _BothRuns, judge_changes: Sequence[Difference]
) -> Iterator[str]:
    if judge_changes:
        words = judges_differ(change.ingredient for change in judge_changes)
        yield f"{words} and may cause the difference"
    if both.shared.other_question:
        number = f"{both.shared.other_question:,}"
        yield f"paired samples with another question or reference: {number}"
    groups_before = both.before.groups
    groups_after = both.after.groups
    if (groups_before is None) != (groups_after is None):
        yield "only one of the runs has groups of samples, so groups are ignored"
    elif groups_before and groups_after:
        regrouped = 0
        for new, old in both.pairs.items():
            regrouped += groups_before[old] != groups_after[new]
        if regrouped:
            samples = f"{numbered(regrouped, 'sample')} in another group in the baseline"
            yield f"{samples}; the groups of this run count"


def _warn_of_failures_and_labels(baseline: RunRecord, run: RunRecord) -> Iterator[str]:
    for name, each in ((_BASELINE, baseline), (_NEW, run)):
        for metric in each.summary.failed_beyond(0):
            failed = each.summary.metrics[metric].failed
            yield f"{name} has failed samples of {metric}: {failed:,}"
    directories = [baseline.directory, run.directory]
    comparison = ComparisonDirectory.of_runs(*directories)
    if comparison is not None:
        directories.append(comparison.path)
    for directory in directories:
        altered = describe_altered_labels(directory)
        if altered:
            yield f"{directory.name}/{altered}"
