"""Differences between two runs on their shared samples.

    A, the baseline   1.0  0.5   -   0.0
    B, the new run    1.0  1.0  0.5   -       differences 0 and +0.5: one tied, one improved, two missing

Samples pair by id, then by content, then by question (with its reference, then without) if it is
unique on each side. Within a pair, units with the same text are the same unit, repeated ones in
order. Verdicts of one sample are dependent, so their interval is over samples or groups. Memory
holds hashes and numbers for each sample, and texts only for the samples that moved most.
"""

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from localjudge.analysis.corrected_change import BothLabels, CorrectedDifference
from localjudge.dataset.samples import content_hash
from localjudge.errors import InputError
from localjudge.metrics import catalog
from localjudge.run_directory.column_values import column_values, slice_order
from localjudge.run_directory.differences import Difference, differences, only_rounds
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.result_rows import VerdictRow
from localjudge.run_directory.run_record import RunRecord, as_run, unknown_sample
from localjudge.stats.interval import Interval
from localjudge.stats.paired import paired_difference, smallest_detectable_difference
from localjudge.types import JudgeCard, Label, Record, Sample
from localjudge.words import numbered, option_name

MOVED_SAMPLES = 5

_BASELINE, _NEW = "the baseline", "this run"
Ground = Literal["id", "content", "question"]


class SampleKeys(NamedTuple):
    """Keys for pairing a sample, in order of priority."""

    id: str
    content: bytes
    question: bytes | None
    user_input: bytes | None
    reference: bytes | None
    """Not a key for pairing."""


class Pair(NamedTuple):
    """Positions of one sample in both runs, and the key that matched.

    `same_question`: neither the question nor the reference is another text.
    """

    before: int
    after: int
    ground: Ground
    same_content: bool
    same_question: bool


_PAIRED_BY: Mapping[str, Ground] = {
    "id": "id",
    "content": "content",
    "question": "question",
    "user_input": "question",
}
"""Keys for pairing in order of priority."""


def sample_keys(sample: Sample) -> SampleKeys:
    content = bytes.fromhex(content_hash(sample))
    question, reference = _one_line(sample.user_input), _one_line(sample.reference)
    return SampleKeys(
        sample.id, content, _hashed(question, reference), _hashed(question), _hashed(reference)
    )


def _one_line(text: str | None) -> str | None:
    return None if text is None else " ".join(text.split())


def _hashed(*texts: str | None) -> bytes | None:
    return hashlib.sha256(json.dumps(texts).encode()).digest() if any(texts) else None


def _asks_the_same(before: SampleKeys, after: SampleKeys) -> bool:
    """Return whether no text that both samples have is another one."""
    texts = [(before.user_input, after.user_input), (before.reference, after.reference)]
    return all(old == new for old, new in texts if old is not None and new is not None)


def pair_samples(before: Sequence[SampleKeys], after: Sequence[SampleKeys]) -> list[Pair]:
    partners: dict[int, tuple[int, Ground]] = {}
    left_before, left_after = list(range(len(before))), list(range(len(after)))
    for key, ground in _PAIRED_BY.items():
        others_by_value = _positions(before, left_before, key)
        for value, places in _positions(after, left_after, key).items():
            others = others_by_value.get(value, [])
            if ground != "question" or len(places) == len(others) == 1:
                partners.update(
                    (place, (other, ground)) for place, other in zip(places, others, strict=False)
                )
        taken = {other for other, _ in partners.values()}
        left_before = [position for position in left_before if position not in taken]
        left_after = [position for position in left_after if position not in partners]
    pairs = []
    for place, (other, ground) in sorted(partners.items()):
        old, new = before[other], after[place]
        pairs.append(
            Pair(other, place, ground, old.content == new.content, _asks_the_same(old, new))
        )
    return pairs


def _positions(
    samples: Sequence[SampleKeys], left: Iterable[int], key: str
) -> dict[Any, list[int]]:
    places = defaultdict(list)
    for position in left:
        if (value := getattr(samples[position], key)) is not None:
            places[value].append(position)
    return places


class UnitChange(Record):
    """One unit in both runs. Values are None without a verdict."""

    text: str
    before: Label | None
    after: Label | None
    p_before: float | None
    p_after: float | None


def unit_changes(
    before: Sequence[VerdictRow], after: Sequence[VerdictRow], *, same_content: bool
) -> list[UnitChange]:
    """Return all units: the new run's in order, then units only in the baseline."""

    def by_unit(rows: Sequence[VerdictRow], side: str) -> dict[tuple[object, ...], VerdictRow]:
        # The number of a context is comparable only if the whole sample is the same.
        units: dict[tuple[object, ...], VerdictRow] = {}
        seen: Counter[tuple[object, ...]] = Counter()
        for row in rows:
            against = (
                (row.against, side)
                if isinstance(row.against, int) and not same_content
                else row.against
            )
            unit = (row.unit, row.source, row.text, against)
            units[(*unit, seen[unit])] = row
            seen[unit] += 1
        return units

    old, new = by_unit(before, "before"), by_unit(after, "after")
    changes = []
    for unit, row in (new | old).items():
        was, now = (
            (side[unit].label, side[unit].p_yes) if unit in side else (None, None)
            for side in (old, new)
        )
        changes.append(
            UnitChange(text=row.text, before=was[0], after=now[0], p_before=was[1], p_after=now[1]),
        )
    return changes


class ComparedRun:
    """One side of a comparison: samples in data order, their scores and offsets of their verdicts."""

    def __init__(self, run: RunRecord, metrics: Iterable[str]) -> None:
        self.run = run
        self.samples = [sample_keys(sample) for sample in run.iter_samples()]
        self.groups = (
            None
            if run.cluster_of is None
            else [run.cluster_of.get(sample.id, "") for sample in self.samples]
        )
        positions = {sample.id: position for position, sample in enumerate(self.samples)}
        self.scores = {metric: np.full(len(positions), np.nan) for metric in metrics}
        """By metric, NaN if missing."""
        self._places = {metric: np.full(len(positions), -1, dtype=np.int64) for metric in metrics}
        for score in run.iter_scores():
            if score.sample_id not in positions:
                raise unknown_sample(run, score.sample_id)
            if score.metric in self.scores and score.score is not None:
                self.scores[score.metric][positions[score.sample_id]] = score.score
        for verdict, place in run.verdict_places():
            position = positions.get(verdict.sample_id)
            if (
                position is not None
                and verdict.metric in self._places
                and self._places[verdict.metric][position] < 0
            ):
                self._places[verdict.metric][position] = place

    def score(self, metric: str, position: int) -> float | None:
        value = self.scores[metric][position].item() if metric in self.scores else math.nan
        return None if math.isnan(value) else value

    def verdicts(self, metric: str, position: int) -> list[VerdictRow]:
        place = int(self._places[metric][position])
        return [] if place < 0 else list(self.run.verdicts_at(place))


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
        return self.corrected if self.corrected and self.corrected.ci95 else None

    @property
    def interval(self) -> Interval | None:
        judge, corrected = self.judge_interval, self.corrected
        if (
            judge is None
            or corrected is None
            or corrected.difference is None
            or corrected.ci95 is None
        ):
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
        method, clusters = self.scores.method, self.scores.clusters
        return Interval(self.scores.difference, low, high, method, self.compared, clusters)


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
    """Number of pairs by matching key. In `other_question` pairs, the questions or references differ."""

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
        return (
            f"{self.only_baseline:,} of {self.only_baseline + self.paired:,} samples of the baseline and "
            f"{self.only_new:,} of {self.only_new + self.paired:,} of this run have no partner"
        )


class ComparedSlice(Record):
    """Samples of the new run with one value in the column, and their pairs. `other_question` as in SharedSamples."""

    value: str | None
    samples: int
    paired: int
    other_question: int
    metrics: dict[str, SliceChange]


class SlicedChanges(Record):
    """Changes by the values of a column of the new run, largest slice first."""

    column: str
    slices: tuple[ComparedSlice, ...]


Obstacle = Literal["judges", "questions"]
"""Why scores of two runs are not comparable: other judges, or other questions or references of paired samples."""


_STATEMENTS = ("segmenter.", "metrics.")
_OF_JUDGES = ("engine.", "judge.", "jury.")
"""Parts of a judge's identity that decide what is judged."""


def _tasks_of(metric: str) -> frozenset[str] | None:
    """Return the tasks of a built-in metric, or None if they are unknown."""
    built_in = catalog.ours(metric)
    return None if built_in is None else catalog.list_tasks([built_in])


def _concerns(change: Difference, metric: str, tasks: frozenset[str] | None) -> bool:
    """Return whether a difference of the judges can change the scores of a metric with these tasks."""
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
        """Return the differences of the judges that can change a metric's scores, except by rounding."""
        tasks = _tasks_of(metric)
        changes = [change for change in self.judge_changes if not only_rounds(change)]
        return tuple(change for change in changes if _concerns(change, metric, tasks))

    def obstacles(self, metric: str, part: ComparedSlice | None = None) -> dict[Obstacle, str]:
        """Return why the runs' scores are not comparable, whatever their intervals, by kind of reason.

        Labels of both runs also correct for the difference of two judges, unless they judge other
        statements.
        """
        counts = self.samples if part is None else part
        change = self.metrics[metric] if part is None else part.metrics[metric]
        obstacles: dict[Obstacle, str] = {}
        changes = self.judge_changes_for(metric)
        if change.headline:
            changes = tuple(each for each in changes if each.ingredient.startswith(_STATEMENTS))
        if changes:
            names = ", ".join(excerpt(change.ingredient) for change in changes)
            obstacles["judges"] = f"the judges differ ({names})"
        if counts.other_question:
            of_pairs = f"{counts.other_question:,} of {numbered(counts.paired, 'pair')}"
            obstacles["questions"] = f"another question or reference in {of_pairs}"
        return obstacles


def compare(
    baseline: RunRecord | str | Path,
    run: RunRecord | str | Path,
    *,
    moved: int = MOVED_SAMPLES,
    by: str | None = None,
) -> RunComparison:
    """Compare a run with a baseline and list at most `moved` samples of each metric, the largest changes first.

    Raises RunDirectoryError for a directory without a finished run, and InputError if the new run
    lacks the column `by`, or the column has lists, objects or too many values.
    """
    if moved < 0:
        raise InputError(
            f"moved must be at least 0, got {moved}",
            hint="omit it for 5 samples of each metric",
        )
    baseline, run = as_run(baseline), as_run(run)
    metrics = [name for name in run.summary.metrics if name in baseline.summary.metrics]
    both = _BothRuns(ComparedRun(baseline, metrics), ComparedRun(run, metrics))
    unshared = tuple(
        f"metrics.{name}." for name in baseline.summary.metrics.keys() ^ run.summary.metrics.keys()
    )
    changes = _judge_changes(baseline, run)
    judges = tuple(change for change in changes if not change.ingredient.startswith(unshared))
    return RunComparison(
        baseline=str(baseline.directory),
        run=str(run.directory),
        baseline_signature=baseline.summary.signature,
        signature=run.summary.signature,
        baseline_judge=baseline.judge,
        judge=run.judge,
        samples=both.shared,
        judge_changes=judges,
        warnings=tuple(both.warnings(metrics, judges)),
        metrics={metric: both.metric_change(metric, moved) for metric in metrics},
        by=None if by is None else SlicedChanges(column=by, slices=tuple(both.slices(metrics, by))),
    )


def _judge_changes(baseline: RunRecord, run: RunRecord) -> list[Difference]:
    """Return what differs in the judges. Of a jury and one of its judges, these are the names, not every value."""
    before, after = baseline.manifest.judge, run.manifest.judge
    changes = differences(before, after)
    if not (before.jury or after.jury):
        return changes
    shared = [part for part in before.answering_judges if part in after.answering_judges]
    fewest = min(len(before.answering_judges), len(after.answering_judges))
    if len(shared) < fewest:
        return changes
    kept = [change for change in changes if not change.ingredient.startswith(_OF_JUDGES)]
    names = [summary.judge.name for summary in (baseline.summary, run.summary)]
    if names[0] != names[1]:
        kept.insert(0, Difference(ingredient="judges", before=names[0], after=names[1]))
    return kept


class _BothRuns:
    def __init__(self, before: ComparedRun, after: ComparedRun) -> None:
        self.before, self.after = before, after
        self.pairs = pair_samples(before.samples, after.samples)
        grounds = Counter(pair.ground for pair in self.pairs)
        self.shared = SharedSamples(
            **{f"by_{ground}": grounds[ground] for ground in get_args(Ground)},
            same_content=sum(pair.same_content for pair in self.pairs),
            other_question=sum(not pair.same_question for pair in self.pairs),
            only_baseline=len(before.samples) - len(self.pairs),
            only_new=len(after.samples) - len(self.pairs),
        )
        groups = self._groups()
        self._grouped = groups is not None
        names: dict[object, int] = {}
        self._clusters = [
            names.setdefault(group, len(names)) for group in groups or range(len(after.samples))
        ]
        self._sampling = before.run.sampling.joined(after.run.sampling)
        self._labels = BothLabels(before.run, after.run)

    def _groups(self) -> Sequence[object] | None:
        old, new = self.before.groups, self.after.groups
        if new is not None and (old is not None or self.after.run.sampling.by_groups):
            return new
        if old is None or not self.before.run.sampling.by_groups:
            return None
        group_of = {pair.after: old[pair.before] for pair in self.pairs}
        return [group_of.get(position, position) for position in range(len(self.after.samples))]

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
        for which, side in ((_BASELINE, self.before), (_NEW, self.after)):
            failed = side.run.summary.metrics[metric].failed
            if failed > side.run.max_failed:
                allowed = f"more than allowed ({option_name('max_failed')} {side.run.max_failed:,})"
                return f"no difference: {numbered(failed, 'sample')} of {which} failed, {allowed}"
        return None

    def _corrected(self, metric: str, pairs: Sequence[Pair]) -> CorrectedDifference | None:
        numbers, old, new = dict[int, int](), dict[str, int](), dict[str, int]()
        for pair in pairs:
            number = numbers.setdefault(self._clusters[pair.after], len(numbers))
            old[self.before.samples[pair.before].id] = new[self.after.samples[pair.after].id] = (
                number
            )
        return self._labels.difference(metric, old, new) if pairs else None

    def _scored_pairs(self, metric: str, pairs: Iterable[Pair]) -> list[Pair]:
        if self._withheld(metric):
            return []
        old, new = self.before.scores[metric], self.after.scores[metric]
        return [
            pair
            for pair in pairs
            if not (math.isnan(old[pair.before]) or math.isnan(new[pair.after]))
        ]

    def _score_changes(self, metric: str, pairs: Sequence[Pair]) -> ScoreChanges | None:
        if not pairs:
            return None
        before = self.before.scores[metric][[pair.before for pair in pairs]]
        after = self.after.scores[metric][[pair.after for pair in pairs]]
        clusters = [self._clusters[pair.after] for pair in pairs] if self._grouped else None
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

    def _unit_changes(self, metric: str, pair: Pair) -> list[UnitChange]:
        old, new = (
            self.before.verdicts(metric, pair.before),
            self.after.verdicts(metric, pair.after),
        )
        return unit_changes(old, new, same_content=pair.same_content)

    def _verdict_changes(self, metric: str, pairs: Iterable[Pair]) -> VerdictChanges | None:
        labels, units = list[tuple[int, int, int]](), 0
        for pair in pairs:
            changes, cluster = self._unit_changes(metric, pair), self._clusters[pair.after]
            units += len(changes)
            both = ((change.before, change.after) for change in changes)
            labels += [
                (old, new, cluster) for old, new in both if old is not None and new is not None
            ]
        if not labels:
            return None
        before, after, clusters = zip(*labels, strict=True)
        shares = paired_difference(before, after, clusters=clusters)
        return VerdictChanges(
            paired=len(before),
            unpaired=units - len(before),
            up=shares.improved,
            down=shares.worsened,
            difference=shares.difference.mean,
            ci95=None if self._sampling.optional_stopping else shares.difference.limits,
        )

    def _moved_samples(
        self, metric: str, pairs: Iterable[Pair], most: int
    ) -> Iterator[SampleChange]:
        old, new = self.before.scores[metric], self.after.scores[metric]
        scores = [(float(old[pair.before]), float(new[pair.after]), pair) for pair in pairs]
        moved = [change for change in scores if change[0] != change[1]]
        moved.sort(key=lambda change: (-abs(change[1] - change[0]), change[1] > change[0]))
        for before, after, pair in moved[:most]:
            yield SampleChange(
                sample_id=self.after.samples[pair.after].id,
                baseline_id=self.before.samples[pair.before].id,
                before=before,
                after=after,
                units=tuple(
                    unit for unit in self._unit_changes(metric, pair) if unit.before != unit.after
                ),
            )

    def warnings(self, metrics: Sequence[str], judges: Sequence[Difference]) -> Iterator[str]:
        shared, before, after = self.shared, self.before, self.after
        if not shared.paired:
            yield "the runs have no sample in common, by id, content or question: add an id column to both data files"
        elif shared.only_baseline or shared.only_new:
            means = [
                {name: side.run.summary.metrics[name].mean for name in metrics}
                for side in (before, after)
            ]
            before_all, after_all = (
                ", ".join(
                    f"{name} {'-' if mean is None else f'{mean:.3f}'}"
                    for name, mean in of_run.items()
                )
                for of_run in means
            )
            yield (
                f"{shared.without_partner}; means are of the {shared.paired:,} pairs; "
                f"means of the whole baseline: {before_all}; of this whole run: {after_all}"
            )
        if not metrics:
            yield "the runs have no metric in common"
        if judges:
            names = ", ".join(change.ingredient for change in judges)
            yield f"the judges differ ({names}) and may cause the difference"
        if shared.other_question:
            yield f"paired samples with another question or reference: {shared.other_question:,}"
        if (before.groups is None) != (after.groups is None):
            yield "only one of the runs has groups of samples, so groups are ignored"
        elif before.groups and after.groups:
            regrouped = sum(
                before.groups[pair.before] != after.groups[pair.after] for pair in self.pairs
            )
            if regrouped:
                yield f"{numbered(regrouped, 'sample')} in another group in the baseline; the groups of this run count"
        yield from (
            f"{which} has failed samples of {metric}: {side.run.summary.metrics[metric].failed:,}"
            for which, side in ((_BASELINE, before), (_NEW, after))
            for metric in side.run.summary.failed_beyond(0)
        )

    def slices(self, metrics: Sequence[str], column: str) -> list[ComparedSlice]:
        value_of = column_values(self.after.run, column)
        pairs_of: dict[str | None, list[Pair]] = {value: [] for value in value_of.values()}
        for pair in self.pairs:
            pairs_of[value_of[self.after.samples[pair.after].id]].append(pair)
        counts = Counter(value_of.values())
        parts = []
        for value, pairs in pairs_of.items():
            changes = {}
            for metric in metrics:
                scored = self._scored_pairs(metric, pairs)
                scores, corrected = (
                    self._score_changes(metric, scored),
                    self._corrected(metric, scored),
                )
                changes[metric] = SliceChange(
                    compared=len(scored), scores=scores, corrected=corrected
                )
            others = sum(not pair.same_question for pair in pairs)
            part = ComparedSlice(
                value=value,
                samples=counts[value],
                paired=len(pairs),
                other_question=others,
                metrics=changes,
            )
            parts.append(part)
        return sorted(parts, key=lambda part: slice_order(part.samples, part.value))
