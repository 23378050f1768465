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
    SliceChange,
    SlicedChanges,
    VerdictChanges,
)
from localjudge.analysis.corrected_change import (
    correct_difference,
    correct_jointly,
    join_frames,
)
from localjudge.analysis.pairing import BASELINE, NEW, PairedRuns, Pairs
from localjudge.errors import InputError
from localjudge.labels.corrected_mean import NO_SHARE
from localjudge.labels.label_source import LabelSource, check_labels_allowed
from localjudge.labels.matched_labels import (
    MatchedLabels,
    match_joint_labels,
    match_labels_of_both,
)
from localjudge.labels.units import DifferenceFrame, UnitFrame, unit_frames
from localjudge.metrics import catalog
from localjudge.run_directory.comparison_directory import ComparisonDirectory
from localjudge.run_directory.differences import Difference, judge_differences, judges_differ
from localjudge.run_directory.files import describe_altered_labels
from localjudge.run_directory.label_rows import stored_labels
from localjudge.run_directory.run_record import RunRecord, as_run
from localjudge.run_directory.run_rows import column_values, slice_order
from localjudge.stats.interval import Floats
from localjudge.stats.paired import count_changes, paired_difference, smallest_detectable_difference
from localjudge.words import numbered, three_digits

MOVED_SAMPLES = 5


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
    both = PairedRuns(baseline, run)
    names = (baseline.summary.judge.name, run.summary.judge.name)
    judge_changes = judge_differences(baseline.manifest.judge, run.manifest.judge, names)
    warnings = [
        *_warn_of_samples(both),
        *_warn_of_judges_and_groups(both, judge_changes),
        *_warn_of_failures_and_labels(both),
    ]
    changes = _Changes(both)
    by_metric = {metric: changes.of_metric(metric, moved) for metric in both.metrics}
    slices = None
    if by is not None:
        slices = SlicedChanges(column=by, slices=tuple(changes.of_slices(by_metric, by)))
    directory = None
    if both.directory is not None:
        directory = str(both.directory.path)
    return RunComparison(
        directory=directory,
        baseline=str(baseline.directory),
        run=str(run.directory),
        baseline_signature=baseline.summary.signature,
        signature=run.summary.signature,
        baseline_judge=baseline.judge,
        judge=run.judge,
        samples=both.shared,
        judge_changes=tuple(judge_changes),
        warnings=tuple(warnings),
        metrics=by_metric,
        by=slices,
    )


def join_statements(comparison: ComparisonDirectory) -> LabelSource:
    """Return the statements of both runs of a comparison, to be labelled together.

    Raises RunDirectoryError if a run is not finished or its own labels are damaged, which a
    comparison reads as well, and InputError if scores stopped one.
    """
    baseline = as_run(comparison.baseline_path)
    run = as_run(comparison.run_path)
    for each in (baseline, run):
        check_labels_allowed(each)
        stored_labels(each.directory)
    frames = _joint_frames(PairedRuns(baseline, run))
    parts = (
        (baseline, {name: frame.before for name, frame in frames.items()}),
        (run, {name: frame.after for name, frame in frames.items()}),
    )
    return LabelSource(comparison.path, dict(frames), parts)


def _joint_frames(both: PairedRuns) -> dict[str, DifferenceFrame]:
    """Return the statements of both runs together, by metric."""
    frames_before = unit_frames(both.before.run)
    frames_after = unit_frames(both.after.run)
    frames: dict[str, DifferenceFrame] = {}
    for metric in sorted(frames_before.keys() & frames_after.keys()):
        clusters = both.clusters_by_sample(both.scored(metric, both.pairs))
        frames[metric] = join_frames(frames_before[metric], frames_after[metric], clusters)
    return frames


class _Changes:
    """The changes between two runs, by the judges and by the labels of both."""

    def __init__(self, both: PairedRuns) -> None:
        self._both = both
        self._sampling = both.before.run.sampling.joined(both.after.run.sampling)
        self._labels = match_labels_of_both(both.before.run, both.after.run)

    @cached_property
    def _joint_labels(self) -> MatchedLabels | None:
        """The labels of both runs together, None if the directory of both has none."""
        directory = self._both.directory
        if directory is None or not stored_labels(directory.path):
            return None
        is_stopped = self._sampling.optional_stopping
        frames: dict[str, UnitFrame] = dict(_joint_frames(self._both))
        return match_joint_labels(directory.path, frames, is_stopped=is_stopped)

    def of_metric(self, metric: str, moved: int) -> MetricChange:
        pairs = self._both.scored(metric, self._both.pairs)
        change = self._of_pairs(metric, pairs)
        counted_by: Literal["judge", "rules"] = "rules"
        if catalog.is_judged(metric):
            counted_by = "judge"
        shared = self._both.shared
        before = self._both.before.run
        return MetricChange(
            **vars(change),
            counted_by=counted_by,
            unpaired=shared.only_baseline + shared.only_new,
            unscored=len(self._both.pairs) - len(pairs),
            failed_in_baseline=before.summary.metrics[metric].failed,
            allowed_in_baseline=before.max_failed,
            verdicts=self._verdict_changes(metric, pairs),
            moved=tuple(self._moved_samples(metric, pairs, moved)),
            withheld=self._both.withheld(metric),
        )

    def of_slices(self, changes: Mapping[str, MetricChange], column: str) -> list[ComparedSlice]:
        """Return the changes in each slice by a column. `changes` are those of the whole runs."""
        values = column_values(self._both.after.run, column)
        pairs_by_value: dict[str | None, Pairs] = {value: {} for value in values.values()}
        for new, old in self._both.pairs.items():
            value = values[self._both.after.samples[new].id]
            pairs_by_value[value][new] = old
        counts = Counter(values.values())
        slices = []
        for value, pairs in pairs_by_value.items():
            metrics: dict[str, SliceChange] = {}
            for metric, change in changes.items():
                scored = self._both.scored(metric, pairs)
                metrics[metric] = self._of_pairs(metric, scored, change.corrected)
            part = ComparedSlice(
                value=value,
                samples=counts[value],
                paired=len(pairs),
                other_question=self._both.count_other_questions(pairs),
                metrics=metrics,
            )
            slices.append(part)
        return sorted(slices, key=lambda part: slice_order(part.samples, part.value))

    def _of_pairs(
        self, metric: str, scored: Pairs, whole: CorrectedDifference | None = None
    ) -> SliceChange:
        """Return the change on these pairs. `whole` is the difference of the runs, for a slice."""
        corrected = self._corrected(metric, scored)
        return SliceChange(
            compared=len(scored),
            scores=self._score_changes(self._both.counted(metric, scored), scored),
            expected=self._score_changes(self._both.expected(metric, scored), scored),
            corrected=corrected,
            is_withheld=_withholds_difference(corrected, whole or corrected),
            is_equal=self._both.are_equal(metric, scored),
        )

    def _score_changes(self, scores: tuple[Floats, Floats], pairs: Pairs) -> ScoreChanges | None:
        """Return the changes of scores (pairs,) in both runs."""
        if not pairs:
            return None
        before, after = scores
        clusters = None
        if self._both.is_grouped:
            clusters = self._both.clusters_of(pairs)
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
        for (new, old), cluster in zip(pairs.items(), self._both.clusters_of(pairs), strict=True):
            for change in self._both.unit_changes(metric, new, old):
                units += 1
                if change.before is not None and change.after is not None:
                    before.append(change.before)
                    after.append(change.after)
                    clusters.append(cluster)
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

    def _moved_samples(self, metric: str, pairs: Pairs, most: int) -> Iterator[SampleChange]:
        """Yield the pairs with the largest changes of the score; of equal ones, losses first."""
        before, after = self._both.counted(metric, pairs)
        moves = (after - before).tolist()
        positions = list(pairs.items())
        order = list(range(len(pairs)))
        order.sort(key=lambda pair: (-abs(moves[pair]), moves[pair] > 0))
        for pair in order[:most]:
            if moves[pair] == 0:
                return
            new, old = positions[pair]
            units = self._both.unit_changes(metric, new, old)
            yield SampleChange(
                sample_id=self._both.after.samples[new].id,
                baseline_id=self._both.before.samples[old].id,
                before=float(before[pair]),
                after=float(after[pair]),
                units=tuple(unit for unit in units if unit.before != unit.after),
            )

    def _corrected(self, metric: str, pairs: Pairs) -> CorrectedDifference | None:
        """Return the difference corrected by labels."""
        if not pairs:
            return None
        clusters = self._both.clusters_by_sample(pairs)
        if self._joint_labels and metric in self._joint_labels.frames:
            whole = self._joint_labels.frames[metric]
            assert isinstance(whole, DifferenceFrame)
            frame = join_frames(whole.before, whole.after, clusters)
            corrected = correct_jointly(frame, self._joint_labels, clusters)
            if corrected is not None:
                return corrected
        return correct_difference(metric, self._labels, clusters)


def _withholds_difference(
    corrected: CorrectedDifference | None, whole: CorrectedDifference | None
) -> bool:
    """Return whether labels without an interval keep the judges' difference from being quoted.

    `corrected` is the difference of a slice, and `whole` the one of the runs.
    """
    if whole is None or (corrected and corrected.ci95):
        return False
    if whole.contradiction:
        return True
    remark = whole.remark
    if corrected:
        remark = corrected.remark
    return remark != NO_SHARE and whole.is_labelled


def _warn_of_samples(both: PairedRuns) -> Iterator[str]:
    shared = both.shared
    if not shared.paired:
        yield (
            "the runs have no sample in common, by id, content or question: "
            "add an id column to both data files"
        )
    elif shared.only_baseline or shared.only_new:
        yield (
            f"{shared.without_partner}; means are of the {shared.paired:,} pairs; "
            f"means of the whole baseline: {_list_means(both.before.run, both.metrics)}; "
            f"of this whole run: {_list_means(both.after.run, both.metrics)}"
        )
    if not both.metrics:
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
    both: PairedRuns, judge_changes: Sequence[Difference]
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


def _warn_of_failures_and_labels(both: PairedRuns) -> Iterator[str]:
    runs = {BASELINE: both.before.run, NEW: both.after.run}
    for name, each in runs.items():
        for metric in each.summary.failed_beyond(0):
            failed = each.summary.metrics[metric].failed
            yield f"{name} has failed samples of {metric}: {failed:,}"
    directories = [run.directory for run in runs.values()]
    if both.directory is not None:
        directories.append(both.directory.path)
    for directory in directories:
        altered = describe_altered_labels(directory)
        if altered:
            yield f"{directory.name}/{altered}"
