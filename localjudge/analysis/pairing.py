"""Pair the samples of two runs, and the units of a pair.

Samples pair by id, then by content, then by question (with its reference, then without) if it is
unique on each side. Within a pair, units with the same text are the same unit, repeated ones in
order.

A `ComparedRun` is one side of a comparison, without the texts: memory holds hashes and numbers for
each sample; verdicts are read at their offset in the file. `PairedRuns` are both sides.
"""

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from localjudge.dataset.samples import content_hash
from localjudge.run_directory.comparison_directory import ComparisonDirectory
from localjudge.run_directory.result_rows import VERDICT_ROWS, VERDICTS, VerdictRow
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.run_rows import unknown_sample
from localjudge.stats.interval import Floats, Indices
from localjudge.types import Label, Record, Sample
from localjudge.words import numbered, option_name

_NO_OFFSET = -1
Ground = Literal["id", "content", "question"]
Pairs = dict[int, int]
"""Position of a sample in the baseline by its position in the new run."""
Clusters = tuple[Mapping[str, int], Mapping[str, int]]
"""Numbers of clusters by sample, from 0, in both runs: the samples of a pair are in one cluster."""
BASELINE = "the baseline"
NEW = "this run"


class SampleKeys(NamedTuple):
    """Keys for pairing a sample, in order of priority."""

    id: str
    content: bytes
    question: bytes | None
    user_input: bytes | None
    reference: bytes | None
    """Not a key for pairing."""


_KEYS = ("id", "content", "question", "user_input")
"""Keys for pairing in order of priority."""
_ALSO_REPEATED = ("id", "content")
"""Samples with one of these keys in common pair in order. By others, only unique samples pair."""


def sample_keys(sample: Sample) -> SampleKeys:
    question = _collapse_spaces(sample.user_input)
    reference = _collapse_spaces(sample.reference)
    return SampleKeys(
        id=sample.id,
        content=bytes.fromhex(content_hash(sample)),
        question=_hash_question(question, reference),
        user_input=_hash_question(question),
        reference=_hash_question(reference),
    )


def _collapse_spaces(text: str | None) -> str | None:
    if text is None:
        return None
    return " ".join(text.split())


def _hash_question(*texts: str | None) -> bytes | None:
    if not any(texts):
        return None
    return hashlib.sha256(json.dumps(texts).encode()).digest()


def pair_samples(before: Sequence[SampleKeys], after: Sequence[SampleKeys]) -> Pairs:
    """Return the pairs in the order of `after`."""
    partners: Pairs = {}
    unpaired_before = list(range(len(before)))
    unpaired_after = list(range(len(after)))
    for key in _KEYS:
        old_positions = _group_by_key(before, unpaired_before, key)
        new_positions = _group_by_key(after, unpaired_after, key)
        for value, positions in new_positions.items():
            others = old_positions.get(value, [])
            is_unique = len(positions) == len(others) == 1
            if is_unique or key in _ALSO_REPEATED:
                partners.update(zip(positions, others, strict=False))
        taken = set(partners.values())
        unpaired_before = [position for position in unpaired_before if position not in taken]
        unpaired_after = [position for position in unpaired_after if position not in partners]
    return dict(sorted(partners.items()))


def _group_by_key(
    samples: Sequence[SampleKeys], positions: Iterable[int], key: str
) -> dict[Any, list[int]]:
    groups = defaultdict(list)
    for position in positions:
        value = getattr(samples[position], key)
        if value is not None:
            groups[value].append(position)
    return groups


def find_ground(before: SampleKeys, after: SampleKeys) -> Ground:
    """Return the key that paired two samples: the first one that they have in common."""
    if before.id == after.id:
        return "id"
    if before.content == after.content:
        return "content"
    return "question"


def is_same_question(before: SampleKeys, after: SampleKeys) -> bool:
    """Return whether no text that both samples have is another one."""
    for old, new in (
        (before.user_input, after.user_input),
        (before.reference, after.reference),
    ):
        if old is not None and new is not None and old != new:
            return False
    return True


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


class UnitChange(Record):
    """One unit in both runs. Values are None without a verdict."""

    text: str
    before: Label | None
    after: Label | None
    p_before: float | None
    p_after: float | None


_UnitKey = tuple[object, ...]


def unit_changes(
    before: Sequence[VerdictRow], after: Sequence[VerdictRow], *, same_content: bool
) -> list[UnitChange]:
    """Return all units: the new run's in order, then units only in the baseline."""
    old = _index_units(before, "before", same_content=same_content)
    new = _index_units(after, "after", same_content=same_content)
    changes = []
    for unit, row in (new | old).items():
        label_before, p_before = _read_verdict(old.get(unit))
        label_after, p_after = _read_verdict(new.get(unit))
        change = UnitChange(
            text=row.text,
            before=label_before,
            after=label_after,
            p_before=p_before,
            p_after=p_after,
        )
        changes.append(change)
    return changes


def _read_verdict(row: VerdictRow | None) -> tuple[Label | None, float | None]:
    """Return the label and the probability of 1."""
    if row is None:
        return None, None
    return row.label, row.p_yes


def _index_units(
    rows: Sequence[VerdictRow], side: str, *, same_content: bool
) -> dict[_UnitKey, VerdictRow]:
    units: dict[_UnitKey, VerdictRow] = {}
    repetitions: Counter[_UnitKey] = Counter()
    for row in rows:
        against: object = row.against
        if isinstance(row.against, int) and not same_content:
            # The number of a context is comparable only if the whole sample is the same.
            against = (row.against, side)
        unit = (row.unit, row.source, row.text, against)
        units[*unit, repetitions[unit]] = row
        repetitions[unit] += 1
    return units


class ComparedRun:
    """Samples of a run in data order, their scores and offsets of their verdicts."""

    def __init__(self, run: RunRecord, metrics: Iterable[str]) -> None:
        self.run = run
        self.samples = [sample_keys(sample) for sample in run.iter_samples()]
        self.groups: list[str] | None = None
        if run.cluster_of is not None:
            self.groups = [run.cluster_of.get(sample.id, "") for sample in self.samples]
        self.scores: dict[str, Floats] = {}
        """By metric, NaN if missing."""
        self.expected: dict[str, Floats] = {}
        """Expected scores by metric, NaN if missing."""
        self._offsets: dict[str, Indices] = {}
        for metric in metrics:
            self.scores[metric] = np.full(len(self.samples), np.nan)
            self.expected[metric] = np.full(len(self.samples), np.nan)
            self._offsets[metric] = np.full(len(self.samples), _NO_OFFSET)
        positions = {sample.id: position for position, sample in enumerate(self.samples)}
        for score in self.run.iter_scores():
            if score.sample_id not in positions:
                raise unknown_sample(self.run, score.sample_id)
            if score.metric in self.scores and score.score is not None:
                self.scores[score.metric][positions[score.sample_id]] = score.score
                self.expected[score.metric][positions[score.sample_id]] = score.expected
        for offset, verdict in self.run.iter_rows(VERDICTS, VERDICT_ROWS):
            position = positions.get(verdict.sample_id)
            offsets = self._offsets.get(verdict.metric)
            if position is not None and offsets is not None and offsets[position] == _NO_OFFSET:
                offsets[position] = offset

    def score(self, metric: str, position: int) -> float | None:
        """Return a sample's score, or None without one."""
        return _number_at(self.scores.get(metric), position)

    def expected_score(self, metric: str, position: int) -> float | None:
        """Return a sample's expected score, or None without one."""
        return _number_at(self.expected.get(metric), position)

    def verdicts(self, metric: str, position: int) -> list[VerdictRow]:
        offset = int(self._offsets[metric][position])
        verdicts: list[VerdictRow] = []
        if offset == _NO_OFFSET:
            return verdicts
        sample = self.samples[position]
        for _, row in self.run.iter_rows(VERDICTS, VERDICT_ROWS, offset):
            if (row.sample_id, row.metric) != (sample.id, metric):
                break
            verdicts.append(row)
        return verdicts


def _number_at(values: Floats | None, position: int) -> float | None:
    if values is None or math.isnan(values[position]):
        return None
    return float(values[position])


class PairedRuns:
    """Two runs with their common metrics, the pairs of their samples, and the cluster of each."""

    def __init__(self, before: RunRecord, after: RunRecord) -> None:
        self.metrics = [name for name in after.summary.metrics if name in before.summary.metrics]
        self.before = ComparedRun(before, self.metrics)
        self.after = ComparedRun(after, self.metrics)
        self.pairs = pair_samples(self.before.samples, self.after.samples)
        groups = self._groups()
        self.is_grouped = groups is not None
        numbers: dict[object, int] = {}
        self._clusters: list[int] = []
        for group in groups or range(len(self.after.samples)):
            self._clusters.append(numbers.setdefault(group, len(numbers)))

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

    @cached_property
    def directory(self) -> ComparisonDirectory | None:
        """The directory of both runs, None unless they judge two columns of the same data."""
        return ComparisonDirectory.of_runs(self.before.run.directory, self.after.run.directory)

    @cached_property
    def shared(self) -> SharedSamples:
        grounds: Counter[str] = Counter()
        same_content = 0
        for new, old in self.pairs.items():
            grounds[find_ground(self.before.samples[old], self.after.samples[new])] += 1
            same_content += self.have_same_content(new, old)
        return SharedSamples(
            by_id=grounds["id"],
            by_content=grounds["content"],
            by_question=grounds["question"],
            same_content=same_content,
            other_question=self.count_other_questions(self.pairs),
            only_baseline=len(self.before.samples) - len(self.pairs),
            only_new=len(self.after.samples) - len(self.pairs),
        )

    def have_same_content(self, new: int, old: int) -> bool:
        return self.after.samples[new].content == self.before.samples[old].content

    def count_other_questions(self, pairs: Pairs) -> int:
        count = 0
        for new, old in pairs.items():
            count += not is_same_question(self.before.samples[old], self.after.samples[new])
        return count

    def clusters_of(self, pairs: Pairs) -> list[int]:
        """Return the cluster of each of these pairs, by numbers that all pairs share."""
        return [self._clusters[new] for new in pairs]

    def clusters_by_sample(self, pairs: Pairs) -> Clusters:
        """Return the cluster of each sample of these pairs, from 0, in both runs."""
        numbers: dict[int, int] = {}
        clusters_before: dict[str, int] = {}
        clusters_after: dict[str, int] = {}
        for new, old in pairs.items():
            number = numbers.setdefault(self._clusters[new], len(numbers))
            clusters_before[self.before.samples[old].id] = number
            clusters_after[self.after.samples[new].id] = number
        return clusters_before, clusters_after

    def withheld(self, metric: str) -> str | None:
        """Return why no scores are compared, if more samples of a run failed than it allows."""
        for name, run in ((BASELINE, self.before.run), (NEW, self.after.run)):
            failed = run.summary.metrics[metric].failed
            if failed > run.max_failed:
                allowed = f"more than allowed ({option_name('max_failed')} {run.max_failed:,})"
                return f"no difference: {numbered(failed, 'sample')} of {name} failed, {allowed}"
        return None

    def scored(self, metric: str, pairs: Pairs) -> Pairs:
        """Return the pairs with a score in both runs, none if the scores are withheld."""
        if self.withheld(metric):
            return {}
        before = self.before.scores[metric]
        after = self.after.scores[metric]
        scored = {}
        for new, old in pairs.items():
            if not (math.isnan(before[old]) or math.isnan(after[new])):
                scored[new] = old
        return scored

    def counted(self, metric: str, pairs: Pairs) -> tuple[Floats, Floats]:
        """Return the scores (pairs,) in both runs."""
        before = self.before.scores[metric][list(pairs.values())]
        after = self.after.scores[metric][list(pairs)]
        return before, after

    def expected(self, metric: str, pairs: Pairs) -> tuple[Floats, Floats]:
        """Return the expected scores (pairs,) in both runs."""
        before = self.before.expected[metric][list(pairs.values())]
        after = self.after.expected[metric][list(pairs)]
        return before, after

    def are_equal(self, metric: str, pairs: Pairs) -> bool:
        """Return whether there are pairs, and all have the same texts and scores."""
        before, after = self.counted(metric, pairs)
        is_same = all(self.have_same_content(new, old) for new, old in pairs.items())
        return bool(pairs) and is_same and bool((before == after).all())

    def unit_changes(self, metric: str, new: int, old: int) -> list[UnitChange]:
        return unit_changes(
            self.before.verdicts(metric, old),
            self.after.verdicts(metric, new),
            same_content=self.have_same_content(new, old),
        )
