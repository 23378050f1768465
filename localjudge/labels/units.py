"""The judged units of a run's means, and the texts that annotators see with them.

The frame of a metric is the verdicts in its mean. Labels are drawn from the frame and correct the
mean.

    sample   units     judged      weight in the mean
    a        3         1 1 0       1/3 * 1/2
    b        1         1           1   * 1/2

If every score is the share of 1 among its sample's verdicts (or of 0, if no is the good answer),
the mean is a weighted sum of verdicts, and labels of some verdicts can correct it. The key of a
unit is the hash of the question and all texts shown. Equal keys, in two metrics or two runs, are
one statement, which is labelled once.

The frame of two runs weights each statement by what it adds to the difference of the means:

    pair   A's statements   B's statements     weight of each in B - A, with two pairs
    1      s1 s2            s1 s2              s1, s2: 1/2 * (1/2 - 1/2) = 0
    2      t1 t2            t1 t3 t4           t1: 1/2 * (1/3 - 1/2) = -1/12, t2: -1/4, t3, t4: 1/6

A statement whose weights cancel needs no label: whatever a person says, the difference stays. One
drawing of the others, by these weights, is the plan for labels of a difference.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property, partial
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

import numpy as np

from localjudge.metrics import Metric, catalog
from localjudge.metrics.criterion import Criterion
from localjudge.metrics.metric import get_about
from localjudge.run_directory.result_rows import Evaluation, VerdictId, VerdictRow
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.run_rows import column_values, unknown_sample
from localjudge.stats.interval import Floats, Indices
from localjudge.types import CONTEXT_FIELDS, Sample, Scored, context_texts

ShareOf = Literal["ones", "zeros"]
_KEY_DIGITS = 32
_NO_WEIGHT = 1e-12
"""A smaller weight is the rounding of two equal ones."""


class _SampleUnits(NamedTuple):
    """Verdicts of one sample: keys, the judge's labels, probabilities of 1 (NaN without one)."""

    sample_id: str
    cluster: int
    keys: Sequence[str]
    labels: Sequence[int]
    p_yes: Sequence[float]


class UnitFrame:
    """Verdicts of one metric on the scored samples, in the order of the run."""

    def __init__(
        self,
        metric: str,
        values_of: Callable[[str], Mapping[str, str | None]],
        *,
        pooled: bool = False,
    ) -> None:
        """`values_of` returns a column's values by sample.

        The mean of a `pooled` frame is the share of all units.
        """
        self.metric = metric
        self.values_of = values_of
        self.is_pooled = pooled
        self._samples: list[_SampleUnits] = []
        self._shares: set[ShareOf] = {"ones", "zeros"}

    def add(self, evaluation: Evaluation, cluster: int, keys: Sequence[str]) -> None:
        """Add the verdicts of a scored sample."""
        if not isinstance(evaluation.outcome, Scored):
            return
        labels: list[int] = []
        p_yes: list[float] = []
        for verdict in evaluation.verdicts:
            if verdict.label is None:
                labels.clear()  # without all of its verdicts, a sample counts with none
                break
            labels.append(verdict.label)
            p_yes.append(np.nan if verdict.p_yes is None else verdict.p_yes)
        score = (evaluation.outcome.numerator, evaluation.outcome.denominator)
        if score != (sum(labels), len(labels)):
            self._shares.discard("ones")
        if score != (len(labels) - sum(labels), len(labels)):
            self._shares.discard("zeros")
        if labels:
            sample = _SampleUnits(evaluation.sample_id, cluster, keys, labels, p_yes)
            self._samples.append(sample)

    def among(self, clusters: Mapping[str, int]) -> "UnitFrame":
        """Return the part with these samples, in the given clusters."""
        part = self._empty()
        for sample in self._samples:
            if sample.sample_id in clusters:
                part._samples.append(sample._replace(cluster=clusters[sample.sample_id]))
        return part

    def by_value(self, value_of: Mapping[str, str | None]) -> dict[str | None, "UnitFrame"]:
        """Return the part of each slice, with its clusters numbered from 0."""
        numbers: dict[str | None, dict[int, int]] = defaultdict(dict)
        clusters: dict[str | None, dict[str, int]] = defaultdict(dict)
        for sample in self._samples:
            value = value_of[sample.sample_id]
            number = numbers[value].setdefault(sample.cluster, len(numbers[value]))
            clusters[value][sample.sample_id] = number
        return {
            value: self.among(clusters_of_slice) for value, clusters_of_slice in clusters.items()
        }

    def pooled(self) -> "UnitFrame":
        frame = self._empty(pooled=True)
        frame._samples = self._samples
        return frame

    def _empty(self, *, pooled: bool = False) -> "UnitFrame":
        frame = UnitFrame(self.metric, self.values_of, pooled=pooled)
        frame._shares = self._shares
        return frame

    @cached_property
    def share_of(self) -> ShareOf | None:
        """Verdicts counted by the scores, None if the scores are not shares."""
        if not self._samples:
            return None
        if "ones" in self._shares:
            return "ones"
        if "zeros" in self._shares:
            return "zeros"
        return None

    @cached_property
    def verdict_ids(self) -> list[VerdictId]:
        """The verdict of each unit (units,)."""
        verdict_ids = []
        for sample in self._samples:
            for position in range(len(sample.keys)):
                verdict_ids.append(VerdictId(sample.sample_id, self.metric, position))
        return verdict_ids

    @cached_property
    def judged(self) -> Floats:
        """The judge's labels (units,)."""
        labels: list[int] = []
        for sample in self._samples:
            labels += sample.labels
        return np.array(labels, dtype=np.float64)

    @cached_property
    def p_yes(self) -> Floats:
        """Probabilities of 1 (units,), NaN for a label without a judge."""
        probabilities: list[float] = []
        for sample in self._samples:
            probabilities += sample.p_yes
        return np.array(probabilities, dtype=np.float64)

    @cached_property
    def weights(self) -> Floats:
        """Weights of the units (units,) in the mean of the metric, with sum 1."""
        if self.is_pooled:
            return np.full(len(self.judged), 1 / max(1, len(self.judged)))
        return np.repeat(1 / (self._sizes * float(len(self._sizes))), self._sizes)

    @cached_property
    def clusters(self) -> Indices:
        """Cluster numbers of the units (units,), equal in all frames of a run."""
        return np.repeat(self.clusters_of_samples, self._sizes)

    @cached_property
    def clusters_of_samples(self) -> Indices:
        """Cluster numbers of the samples (samples,)."""
        return np.array([sample.cluster for sample in self._samples], dtype=np.intp)

    def means_of_samples(self, values: Floats) -> Floats:
        """Return the mean of the values (units,) in each sample, with shape (samples,)."""
        starts = np.cumsum(self._sizes) - self._sizes
        sums: Floats = np.add.reduceat(values, starts)
        return sums / self._sizes

    def share_of_samples(self, values: Floats) -> dict[str, float]:
        """Return the mean of the values (units,) by sample."""
        names = [sample.sample_id for sample in self._samples]
        return dict(zip(names, self.means_of_samples(values).tolist(), strict=True))

    @cached_property
    def by_key(self) -> dict[str, list[int]]:
        """The indices of the units with a probability, by the key of their statement."""
        keys: list[str] = []
        for sample in self._samples:
            keys += sample.keys
        indices: dict[str, list[int]] = {}
        for index in np.flatnonzero(~np.isnan(self.p_yes)).tolist():
            indices.setdefault(keys[index], []).append(index)
        return indices

    @cached_property
    def _sizes(self) -> Indices:
        return np.array([len(sample.labels) for sample in self._samples], dtype=np.intp)


class DifferenceFrame(UnitFrame):
    """Verdicts of one metric on paired samples in two runs: the baseline's, then the new run's.

    Both frames have the samples of the same pairs, with the same clusters. The first verdict on a
    statement has the weight of all of them, because the statement has one label.
    """

    def __init__(self, before: UnitFrame, after: UnitFrame) -> None:
        super().__init__(after.metric, after.values_of)
        self.before = before
        self.after = after
        self._samples = [*before._samples, *after._samples]
        self._shares = before._shares & after._shares

    @cached_property
    def _statements(self) -> dict[str, list[int]]:
        """The indices of all units by the key of their statement, also of those without weight."""
        indices = {key: list(units) for key, units in self.before.by_key.items()}
        offset = len(self.before.weights)
        for key, units in self.after.by_key.items():
            indices.setdefault(key, []).extend(offset + unit for unit in units)
        return indices

    @cached_property
    def changes(self) -> Floats:
        """What each unit (units,) adds to the new mean minus the old one, if it counts 1."""
        changes = np.concatenate([-self.before.weights, self.after.weights])
        sums = np.where(np.isnan(self.p_yes), changes, 0.0)  # known without a label
        for units in self._statements.values():
            change = changes[units].sum()
            if abs(change) > _NO_WEIGHT:
                sums[units[0]] = change
        return sums

    @cached_property
    def weights(self) -> Floats:
        """The changes without their signs (units,)."""
        return np.abs(self.changes)

    @cached_property
    def signs(self) -> Floats:
        """1 for units that add to the difference, -1 for those that take from it (units,)."""
        return np.where(self.changes < 0, -1.0, 1.0)

    @cached_property
    def shares(self) -> Floats:
        """Shares of the units (units,) that sum to those of their clusters in the means."""
        return np.concatenate([np.zeros(len(self.before.weights)), self.after.weights])

    @cached_property
    def by_key(self) -> dict[str, list[int]]:
        """The index of the unit of each statement that changes the difference, by its key."""
        indices: dict[str, list[int]] = {}
        for key, units in self._statements.items():
            if self.weights[units[0]]:
                indices[key] = units[:1]
        return indices

    @property
    def statements(self) -> int:
        """The number of different statements in the two runs, with those that cancel."""
        return len(self._statements)

    @property
    def uncounted(self) -> int:
        """The number of statements that count the same in both runs, and are never drawn."""
        return self.statements - len(self.by_key)

    def weights_of_runs(self) -> tuple[Floats, Floats]:
        """Return what each unit (units,) adds to the mean of each run, if it counts 1.

        The first unit of a statement has the weight of all of them.
        """
        before = np.concatenate([self.before.weights, np.zeros(len(self.after.weights))])
        after = self.shares.copy()
        for weights in (before, after):
            for units in self._statements.values():
                total = weights[units].sum()
                weights[units] = 0.0
                weights[units[0]] = total
        return before, after

    def shares_of_samples(self, values: Floats) -> tuple[dict[str, float], dict[str, float]]:
        """Return the mean of values (units,) by sample, in each run.

        Each unit has the value of its statement's first unit.
        """
        by_statement = values.copy()
        for units in self._statements.values():
            by_statement[units] = values[units[0]]
        old = len(self.before.weights)
        before = self.before.share_of_samples(by_statement[:old])
        after = self.after.share_of_samples(by_statement[old:])
        return before, after

    def variance_of_clusters(self, values: Floats) -> float:
        """Return the sum of (d - share D)^2 over the clusters, for values of the units (units,).

        d and D are the differences in a cluster and in the means.
        """
        parts = self.changes * values
        of_clusters = np.bincount(self.clusters, parts - parts.sum() * self.shares)
        return float((of_clusters**2).sum())


def unit_frames(run: RunRecord) -> dict[str, UnitFrame]:
    """Return the frame of each metric, without rubrics.

    Raises RunDirectoryError if samples and scores do not match.
    """
    # Frames are cached by run, so they must not keep the run itself alive.
    same_directory = RunRecord(run.directory, run.summary, run.manifest, run.so_far)
    values_of = cache(partial(column_values, same_directory))
    frames: dict[str, UnitFrame] = {}
    for name in run.summary.metrics:
        if name not in run.manifest.rubrics:
            frames[name] = UnitFrame(name, values_of)
    cluster_of = run.cluster_of
    numbers: dict[str, int] = {}
    metrics_by_name = run.installed_metrics
    for sample, evaluations in zip_longest(run.iter_samples(), run.iter_evaluations()):
        if not evaluations:
            raise unknown_sample(run, sample.id)
        if sample is None or evaluations[0].sample_id != sample.id:
            raise unknown_sample(run, evaluations[0].sample_id)
        cluster = sample.id
        if cluster_of is not None:
            cluster = cluster_of[sample.id]
        number = numbers.setdefault(cluster, len(numbers))
        for evaluation in evaluations:
            if evaluation.metric in frames:
                rows = evaluation.verdicts
                keys = [statement_key(metrics_by_name, sample, row) for row in rows]
                frames[evaluation.metric].add(evaluation, number, keys)
    return frames


def first_verdicts(frames: Iterable[UnitFrame]) -> dict[str, VerdictId]:
    """Return the first verdict on each statement, by its key."""
    verdict_ids: dict[str, VerdictId] = {}
    for frame in frames:
        for key, units in frame.by_key.items():
            verdict_ids.setdefault(key, frame.verdict_ids[units[0]])
    return verdict_ids


def statement_keys(frames: Iterable[UnitFrame]) -> set[str]:
    """Return the keys of all statements."""
    keys: set[str] = set()
    for frame in frames:
        keys.update(frame.by_key)
    return keys


def shown_texts(
    metrics: Mapping[str, Metric], sample: Sample, verdict: VerdictRow
) -> dict[str, Any]:
    """Return what annotators see with a unit, None if unused: asks, user_input, contexts, ...

    `context_ids` are the ids of the contexts, for a statement that may cite them by id.
    """
    metric = metrics.get(verdict.metric)
    needed = _needed_fields(metric, verdict)
    contexts = None
    if not needed.isdisjoint(CONTEXT_FIELDS):
        contexts = list(context_texts(sample.retrieved_contexts))
        if isinstance(verdict.against, int):
            contexts = contexts[verdict.against : verdict.against + 1]
    shown: dict[str, Any] = {
        "asks": get_about(metric).question or None,
        "user_input": sample.user_input,
        "contexts": contexts,
        "reference": None,
        "response": None,
        "context_ids": None,
    }
    if "reference" in needed:
        shown["reference"] = sample.reference
    if "response" in needed:
        shown["response"] = sample.response
    if verdict.against == "cited":
        ids = [context.id for context in sample.retrieved_contexts or ()]
        shown["context_ids"] = None
        if any(ids):
            shown["context_ids"] = ids
    return shown


def _needed_fields(metric: Metric | None, verdict: VerdictRow) -> set[str]:
    """Return the fields of the sample that an annotator must see."""
    if verdict.against == "cited" or isinstance(verdict.against, int):
        return {"retrieved_contexts"}
    if verdict.against in {"reference", "response"} and verdict.unit == "statement":
        return {str(verdict.against)}
    needed = {"retrieved_contexts", "reference", "response"}
    if metric is not None:
        needed = set(metric.required_fields)
    if verdict.unit in {"chunk", "question", "response", "statement"}:
        needed.discard(verdict.source)
    return needed


def statement_key(metrics: Mapping[str, Metric], sample: Sample, verdict: VerdictRow) -> str:
    """Return the hash of the question and all texts shown: 32 hexadecimal digits.

    It does not depend on the metric's name. Whether the cited contexts support a statement also
    depends on what it cites, so its place in its answer belongs to the question.
    """
    shown = shown_texts(metrics, sample, verdict)
    metric = metrics.get(verdict.metric)
    if isinstance(metric, Criterion):
        shown["asks"] = metric.question
    else:
        shown["asks"] = catalog.get_question(verdict.metric)
    context_ids = shown.pop("context_ids")
    asked = [*shown.values(), verdict.text]
    if verdict.against == "cited":
        asked += [getattr(sample, verdict.source), verdict.start, context_ids]
    texts = json.dumps(asked)
    return hashlib.sha256(texts.encode()).hexdigest()[:_KEY_DIGITS]
