"""What keeps two runs from being compared like with like: said beside every comparison, never a reason to refuse it.

nothing in common      samples without a partner      other judges      other questions in a pair      other groups
failed samples

What changed from one run to another, on the samples that both have.

    A, the baseline   1.0  0.5   -   0.0
    B, the new run    1.0  1.0  0.5   -       differences 0 and +0.5: one tied, one improved, two missing

Every difference is B - A: above 0, the new run is better. It rests on the samples that have a score in both, one by
one, so that how hard a sample is cancels. Where a metric has several verdicts per sample, these are not independent of
each other: the interval of their changes is then taken over samples, or over the groups that both runs name.

Which samples of two runs are the same, so that their scores can be compared one by one.

    baseline   a  b  row-3f  row-90        a = a                 by id
    new run    a  x  row-7c  row-90        b = x                 by content: they say the same under other names
                                           row-3f = row-7c       by question: the only ones left that ask the same

A question is a `user_input` with its `reference`, and for what is left after that the `user_input` alone. It finds the
samples of data without an id column again whose contexts, responses or references have changed, also where one run has
ids and the other has none. Each sample has one partner at most, and no pair rests on its place in a file.

Of each sample four hashes of 16 bytes are held, and of each pair a few numbers: no text, no id and no object.

What a comparison has to know of a run, in columns: a number for each sample, in the order of the data.

    position       0     1     2
    group          0     0     1         if the run has groups
    score        0.5     -   1.0         of each metric that is compared
    verdicts at    0     -   912         where those of the metric on the sample begin in their file

The samples are read once, and so are the rows of scores and of verdicts.

Scores of the same samples in two runs: what changed in the mean, and how sure that is.

What changed between two runs by the values of a column: `localjudge compare A B --by department`.

    department   samples   context_recall A      B   B - A
    cardiology        41              0.712  0.790  +0.078
    oncology          12              0.430  0.301  -0.129

A pair of samples belongs to the slice that its sample has in the new run, whatever the baseline says: a baseline made
before columns were kept will do. Every slice is compared as two whole runs are, over its own pairs, or over the groups
that both runs name. An interval holds for one slice that was named before; of twenty, one is expected to miss.

Each metric by the values of a column of the data: `localjudge show RUN --by department`.

    cardiology   41 samples   context_recall 0.712 [0.601, 0.805]
    oncology     12 samples   context_recall 0.430 [0.218, 0.661]

Every slice is summarised as a run is, over its own samples: mean, 95 % interval (over groups, if the run has some),
counts. An interval holds for one slice that was named before; of twenty, one is expected to miss.

The judged units of one sample in two runs, laid side by side.

    baseline   "Paris is in France."  1      "It has 2 million inhabitants."  1
    new run    "Paris is in France."  0      "It rains."                      0

    changes    "Paris is in France."  1 -> 0      "It has ..."  1 -> none      "It rains."  none -> 0

Units are the same if their text is: a passage that moved to another rank is still that passage. The same text twice is
told apart by its order. Where a unit is held against one numbered context, that number only means the same context if
the whole sample is the same; the reference is the reference, the response the response, what it cites what it cites.
"""

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from localjudge.dataset.identity import Hashes, content_hash
from localjudge.dataset.problems import MISSING, lookup
from localjudge.errors import RunDirectoryError, UsageError
from localjudge.record.directory import BY_HAND, excerpt
from localjudge.record.files import MetricSummary, Totals
from localjudge.record.manifest import Difference, differences
from localjudge.record.result_rows import VerdictRow, evaluations_of
from localjudge.record.run import Run, as_run, unknown_sample
from localjudge.stats import Interval, PairedTally, mcnemar
from localjudge.types import JudgeCard, Label, Record, Sample

Ground = Literal["id", "content", "question"]
Places = npt.NDArray[np.int64]
"""Samples by their positions in the data of their run."""
Flags = npt.NDArray[np.bool_]

GROUNDS: tuple[Ground, ...] = get_args(Ground)
_BYTES = 16
_NOTHING = b""
"""NumPy's way to write a hash of zeros, which stands for a sample that asks nothing."""
_Hashed = npt.NDArray[np.bytes_]
_STEPS: tuple[tuple[str, Ground], ...] = (
    ("id", "id"),
    ("content", "content"),
    ("question", "question"),
    ("user_input", "question"),
)
"""The columns in the order in which they pair, and the ground that each is."""


class HashedSamples:
    """The samples of a run in the order of the data: what each is called, says and asks."""

    def __init__(self, samples: Iterable[Sample] = ()) -> None:
        self.ids = Hashes(_BYTES)
        self.contents = Hashes(_BYTES)
        self.questions = Hashes(_BYTES)
        self.user_inputs = Hashes(_BYTES)
        for sample in samples:
            self.append(sample)

    def __len__(self) -> int:
        return len(self.ids)

    def append(self, sample: Sample) -> None:
        """The next sample."""
        self.ids.append(hashlib.sha256(sample.id.encode()).digest())
        self.contents.append(bytes.fromhex(content_hash(sample)))
        self.questions.append(_hash(sample.user_input, sample.reference))
        self.user_inputs.append(_hash(sample.user_input))

    def columns(self) -> dict[str, _Hashed]:
        """The hashes that make two samples the same, each (n,)."""
        return {
            "id": self.ids.array(),
            "content": self.contents.array(),
            "question": self.questions.array(),
            "user_input": self.user_inputs.array(),
        }


class Pairing(NamedTuple):
    """The pairs in the order of the new run, a column for each fact of them, and the samples that one run alone has.

    `grounds` are places in GROUNDS.
    """

    before: Places
    after: Places
    grounds: npt.NDArray[np.int8]
    same_content: Flags
    same_question: Flags
    only_before: Places
    only_after: Places

    def by(self, ground: Ground) -> int:
        """How many pairs are the same sample on that ground."""
        return int(np.count_nonzero(self.grounds == GROUNDS.index(ground)))


def pair_samples(before: HashedSamples, after: HashedSamples) -> Pairing:
    """Pair by id; what is left by content; what is still left by question, where only one on each side asks it."""
    old, new = before.columns(), after.columns()
    left_before, left_after = np.ones(len(before), dtype=bool), np.ones(len(after), dtype=bool)
    partners = np.zeros(len(after), dtype=np.int64)
    grounds = np.zeros(len(after), dtype=np.int8)
    for column, ground in _STEPS:
        single = ground == "question"
        there, here = (np.flatnonzero(left) for left in (left_before, left_after))
        if single:
            there, here = there[old[column][there] != _NOTHING], here[new[column][here] != _NOTHING]
        first, second = _matches(old[column][there], new[column][here], single=single)
        partners[here[second]] = there[first]
        grounds[here[second]] = GROUNDS.index(ground)
        left_before[there[first]] = left_after[here[second]] = False
    paired = np.flatnonzero(~left_after)
    partners = partners[paired]
    return Pairing(
        before=partners,
        after=paired,
        grounds=grounds[paired],
        same_content=old["content"][partners] == new["content"][paired],
        same_question=old["question"][partners] == new["question"][paired],
        only_before=np.flatnonzero(left_before),
        only_after=np.flatnonzero(left_after),
    )


def _matches(there: _Hashed, here: _Hashed, *, single: bool) -> tuple[Places, Places]:
    """Places of equal hashes, the first with the first, the second with the second; or only where each is single."""
    if not single and np.array_equal(there, here):  # the usual case: the same samples in the same order
        every = np.arange(len(here))
        return every, every
    order_there, order_here = (np.argsort(hashes, kind="stable") for hashes in (there, here))
    there, here = there[order_there], here[order_here]
    start, own_start = np.searchsorted(there, here), np.searchsorted(here, here)
    count = np.searchsorted(there, here, side="right") - start
    rank = np.arange(len(here)) - own_start
    matched = rank < count
    if single:
        own_count = np.searchsorted(here, here, side="right") - own_start
        matched &= (count == 1) & (own_count == 1)
    return order_there[start[matched] + rank[matched]], order_here[matched]


def _hash(*texts: str | None) -> bytes:
    """A hash of what the sample asks; zeros if it holds none of the texts."""
    if not any(texts):
        return bytes(_BYTES)
    return hashlib.sha256(json.dumps(texts).encode()).digest()


class ScoreChanges(Record):
    """Scores of the same samples in both runs: means, their difference with its interval, and what moved.

    `ci95` is None if all samples are in one group. `smallest_detectable` is the true difference that so many samples
    would show with a probability of 80 %.
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


def score_changes(pairs: PairedTally) -> ScoreChanges:
    """What changed over these pairs, one at least."""
    change = pairs.difference()
    return ScoreChanges(
        before=pairs.before.mean,
        after=pairs.after.mean,
        difference=change.difference.mean,
        ci95=change.difference.limits,
        method=change.difference.method,
        clusters=change.difference.clusters,
        improved=change.improved,
        worsened=change.worsened,
        tied=change.tied,
        smallest_detectable=change.smallest_detectable,
    )


MOST_SLICES = 1_000
_COLUMNS_SHOWN = 20


class Slice(Record):
    """The samples that have one value in the column; None: those that have none."""

    value: str | None
    samples: int
    metrics: dict[str, MetricSummary]


class Slices(Record):
    """A run by the values of a column, those with the most samples first."""

    schema_version: int = 1
    run: str
    column: str
    slices: tuple[Slice, ...]


def slices(run: Run, column: str) -> Slices:
    """The metrics of a run by the values of a column that is no field of ours; dots reach into objects.

    What grows with the data is an entry for each sample: its id and its value. Raises UsageError for a column that the
    run does not hold, whose values are not texts or numbers, or are too many.
    """
    value_of = column_values(run, column)
    totals: dict[str | None, Totals] = {}
    groups = run.cluster_of if run.manifest.data["clusters_sha256"] is not None else None
    rows = groupby(evaluations_of(run.iter_scores(), ()), key=lambda evaluation: evaluation.sample_id)
    for sample_id, evaluations in rows:
        if sample_id not in value_of:
            raise RunDirectoryError(
                f"{run.directory} has a score of {excerpt(sample_id)} and no such sample", hint=BY_HAND
            )
        value = value_of[sample_id]
        if value not in totals:
            totals[value] = Totals(run.summary.metrics, run.summary, groups)
        totals[value].add(evaluations)
    found = [Slice(value=value, samples=one.samples, metrics=one.metrics) for value, one in totals.items()]
    found.sort(key=lambda one: (-one.samples, one.value is None, one.value or ""))
    return Slices(run=str(run.directory), column=column, slices=tuple(found))


def column_values(run: Run, column: str) -> dict[str, str | None]:
    """For each sample id the value of the column as text, None where there is none.

    Raises UsageError for a column that the run does not hold, whose values are not single, or are too many.
    """
    return dict(iter_column(run, column))


def iter_column(run: Run, column: str) -> Iterator[tuple[str, str | None]]:
    """The same in the order of the data; a column that the run does not hold is only known at the end."""
    names: dict[str | None, str | None] = {}
    there = False
    for sample_id, extras in run.iter_extras():
        found = lookup(extras, column, MISSING)
        there = there or found is not MISSING
        value = _text(None if found is MISSING else found, column, sample_id)
        yield sample_id, names.setdefault(value, value)
        if len(names) > MOST_SLICES:
            raise UsageError(
                f"the column {excerpt(column)} has more than {MOST_SLICES:,} different values",
                hint="name one with fewer, such as a topic or a source",
            )
    if not there:
        raise UsageError(f"the run holds no column {excerpt(column)}", hint=_columns_in_words(run))


def _columns_in_words(run: Run) -> str:
    known = ", ".join(map(excerpt, _some_columns(run)))
    return f"its columns are {known}" if known else "it holds none beside those that are judged"


def _text(value: Any, column: str, sample_id: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return json.dumps(value)
    raise UsageError(
        f"the column {excerpt(column)} of the sample {excerpt(sample_id)} is not a text or a number",
        hint=f"a value inside an object is named with a dot: {excerpt(column)}.NAME",
    )


def _some_columns(run: Run) -> list[str]:
    """Names of the first columns."""
    return list(dict.fromkeys(_names(run)))[:_COLUMNS_SHOWN]


def _names(run: Run) -> Iterator[str]:
    seen: set[str] = set()
    for _, extras in run.iter_extras():
        new = [name for name in extras if name not in seen]
        seen.update(new)
        yield from new
        if len(seen) >= _COLUMNS_SHOWN:
            return


class UnitChange(Record):
    """One unit in both runs. None where a run did not judge it, or has no verdict."""

    text: str
    before: Label | None
    after: Label | None
    p_before: float | None
    p_after: float | None


class _Labelled(NamedTuple):
    before: Label
    after: Label


_Rows = dict[tuple[object, ...], VerdictRow]


def unit_changes(before: Sequence[VerdictRow], after: Sequence[VerdictRow], *, same_content: bool) -> list[UnitChange]:
    """Every unit of either run: those of the new run in their order, then those that only the baseline has."""
    old, new = _by_key(before, "before", same_content), _by_key(after, "after", same_content)
    return [_change(old.get(key), new.get(key)) for key in (*new, *(key for key in old if key not in new))]


def labelled_in_both(changes: Iterable[UnitChange]) -> list[_Labelled]:
    """Labels of the units that have one in both runs."""
    return [
        _Labelled(change.before, change.after)
        for change in changes
        if change.before is not None and change.after is not None
    ]


def _by_key(rows: Sequence[VerdictRow], side: str, same_content: bool) -> _Rows:
    found: _Rows = {}
    seen: Counter[tuple[object, ...]] = Counter()
    for row in rows:
        against = (row.against, side) if isinstance(row.against, int) and not same_content else row.against
        what = (row.unit, row.source, row.text, against)
        found[(*what, seen[what])] = row
        seen[what] += 1
    return found


def _change(old: VerdictRow | None, new: VerdictRow | None) -> UnitChange:
    some = new or old
    assert some is not None, "a unit is in one run at least"
    return UnitChange(
        text=some.text,
        before=old.label if old else None,
        after=new.label if new else None,
        p_before=old.p_yes if old else None,
        p_after=new.p_yes if new else None,
    )


Groups = npt.NDArray[np.int64] | None
"""The number of each sample's group, None if each stands alone. Equal names have equal numbers, in both runs."""
_Number = TypeVar("_Number", np.float64, np.int64)


class SampleColumn(NamedTuple, Generic[_Number]):
    """A number of each sample that has one, by its position; `there` says which have."""

    numbers: npt.NDArray[_Number]
    there: npt.NDArray[np.bool_]

    def at(self, position: int) -> Any:
        """The number of one sample; None if it has none."""
        return self.numbers[position].item() if self.there[position] else None


class SampleColumns(NamedTuple):
    """A run in columns."""

    groups: Groups
    scores: dict[str, SampleColumn[np.float64]]
    places: dict[str, SampleColumn[np.int64]]


def sample_columns(run: Run, metrics: Sequence[str], numbers: dict[str, int]) -> tuple[HashedSamples, SampleColumns]:
    """The samples, and the columns of these metrics.

    `numbers` are those of the groups by their names; new names are added.

    Raises RunDirectoryError for a file that localjudge does not write, and for a score of no sample.
    """
    samples = HashedSamples()
    positions: dict[str, int] = {}
    groups = array("q")
    clusters = run.cluster_of
    for position, sample in enumerate(run.iter_samples()):
        samples.append(sample)
        positions[sample.id] = position
        if clusters is not None:
            groups.append(numbers.setdefault(clusters.get(sample.id, ""), len(numbers)))
    return samples, SampleColumns(
        groups=None if clusters is None else np.asarray(groups),
        scores=_scores(run, positions, metrics),
        places=_places(run, positions, metrics),
    )


def _scores(run: Run, positions: dict[str, int], metrics: Sequence[str]) -> dict[str, SampleColumn[np.float64]]:
    columns = {metric: _empty(len(positions), np.float64) for metric in metrics}
    for row in run.iter_scores():
        position = positions.get(row.sample_id)
        if position is None:
            raise unknown_sample(run, row.sample_id)
        if row.metric in columns and row.score is not None:
            column = columns[row.metric]
            column.numbers[position], column.there[position] = row.score, True
    return columns


def _places(run: Run, positions: dict[str, int], metrics: Sequence[str]) -> dict[str, SampleColumn[np.int64]]:
    columns = {metric: _empty(len(positions), np.int64) for metric in metrics}
    for row, place in run.verdict_places():
        position = positions.get(row.sample_id) if row.metric in columns else None
        if position is not None and not columns[row.metric].there[position]:
            column = columns[row.metric]
            column.numbers[position], column.there[position] = place, True
    return columns


def _empty(samples: int, kind: type[_Number]) -> SampleColumn[_Number]:
    return SampleColumn(np.zeros(samples, dtype=kind), np.zeros(samples, dtype=np.bool_))


def judge_changes(baseline: Run, run: Run) -> tuple[Difference, ...]:
    """What differs between the judges, metrics aside that only one of the runs has.

    Of a combined run and one of other judges, who they are, as `judges`: all else of them differs, too.
    """
    one_sided = baseline.summary.metrics.keys() ^ run.summary.metrics.keys()
    aside = tuple(f"metrics.{name}." for name in one_sided)
    before, after = baseline.manifest.judge, run.manifest.judge
    if _combined_judges(before) != _combined_judges(after):
        before, after = _by_their_names(baseline), _by_their_names(run)
    found = differences(before, after)
    return tuple(change for change in found if not change.ingredient.startswith(aside))


def _combined_judges(judge: Mapping[str, Any]) -> set[str]:
    return set(judge.get("combined", {}).get("judges", ()))


def _by_their_names(run: Run) -> dict[str, Any]:
    """The part of the judge with its names in place of all that is of one judge."""
    rest = {name: value for name, value in run.manifest.judge.items() if name not in ("engine", "judge", "combined")}
    return {**rest, "judges": str(run.summary.judge)}


def other_questions(pairing: Pairing) -> int:
    """How many pairs do not ask the same, or should not have found the same."""
    return int(np.count_nonzero(~pairing.same_question))


def warnings(
    baseline: Run, run: Run, pairing: Pairing, groups: tuple[Groups, Groups], judges: Sequence[Difference]
) -> Iterator[str]:
    """One sentence for each reason for caution. `groups` are those of the baseline and those of the new run."""
    if not len(pairing.after):
        yield "the runs have no sample in common, by id, content or question: give the rows of both an id column"
    if not baseline.summary.metrics.keys() & run.summary.metrics.keys():
        yield "the runs have no metric in common"
    yield from _unpaired_warnings(baseline, run, pairing)
    if judges:
        names = ", ".join(change.ingredient for change in judges)
        yield f"the judges differ ({names}): a difference may be theirs, not that of what they judged"
    if others := other_questions(pairing):
        yield f"paired samples with another question or reference: {others:,}"
    yield from _group_warnings(*groups, pairing)
    yield from _failure_warnings("the baseline", baseline)
    yield from _failure_warnings("the new run", run)


def _unpaired_warnings(baseline: Run, run: Run, pairing: Pairing) -> Iterator[str]:
    pairs = len(pairing.after)
    if pairs and (len(pairing.only_before) or len(pairing.only_after)):
        yield (
            f"{no_partner(len(pairing.only_before), len(pairing.only_after), pairs)}; "
            f"means are of the {pairs:,} pairs; "
            f"{_means_of_all('A', baseline, run)}; {_means_of_all('B', run, baseline)}"
        )


def no_partner(only_before: int, only_after: int, pairs: int) -> str:
    """How many samples of each run are in no pair, of how many."""
    return (
        f"{only_before:,} of {only_before + pairs:,} samples of A and {only_after:,} of {only_after + pairs:,} of B "
        "have no partner"
    )


def _means_of_all(which: str, run: Run, other: Run) -> str:
    """The means of the metrics that both runs have, over all samples of one."""
    means = {name: metric.mean for name, metric in run.summary.metrics.items() if name in other.summary.metrics}
    shown = (f"{name} {'-' if mean is None else f'{mean:.3f}'}" for name, mean in means.items())
    return f"all of {which}: {', '.join(shown)}"


def _group_warnings(before: Groups, after: Groups, pairing: Pairing) -> Iterator[str]:
    if (before is None) != (after is None):
        yield "one of the runs has groups of samples and the other has none: samples are taken one by one"
    if before is None or after is None:
        return
    if regrouped := int(np.count_nonzero(before[pairing.before] != after[pairing.after])):
        yield f"samples that are in another group in the baseline: {regrouped:,}; the groups of the new run are used"


def _failure_warnings(which: str, run: Run) -> Iterator[str]:
    for metric in run.summary.failed_beyond(0):
        yield f"{which} has failed samples of {metric}: {run.summary.metrics[metric].failed:,}"


class SliceChange(Record):
    """One metric on the samples of a slice that have a score in both runs; `scores` is None if none has."""

    compared: int
    scores: ScoreChanges | None


class ComparedSlice(Record):
    """The samples of the new run that have one value in the column (None: those that have none), and those in pairs."""

    value: str | None
    samples: int
    paired: int
    metrics: dict[str, SliceChange]


class SlicedChanges(Record):
    """Two runs by the values of a column in the new one, those with the most samples first."""

    column: str
    slices: tuple[ComparedSlice, ...]


class ColumnValues(NamedTuple):
    """The values of a column, and of each sample, in the order of the data, the number of its own: (n,)."""

    values: list[str | None]
    numbers: npt.NDArray[np.int64]


class BothRuns(NamedTuple):
    """Baseline and new run in columns, and the pairs of their samples."""

    before: SampleColumns
    after: SampleColumns
    pairing: Pairing

    @property
    def clusters(self) -> Places | None:
        """The group of each sample of the new run, if both runs have groups."""
        return None if self.before.groups is None else self.after.groups


def sliced_changes(both: BothRuns, metrics: list[str], run: Run, column: str) -> SlicedChanges:
    """These metrics of both runs by the values of a column of the new one. Raises UsageError as `slices` does."""
    found = values_by_position(run, column)
    samples = np.bincount(found.numbers, minlength=len(found.values)).tolist()
    of_pair = found.numbers[both.pairing.after]
    order = np.argsort(of_pair, kind="stable")
    ends = np.searchsorted(of_pair[order], np.arange(len(found.values)), side="right")
    parts = np.split(order, ends[:-1])
    compared = [
        ComparedSlice(
            value=value,
            samples=count,
            paired=len(pairs),
            metrics={name: _slice_change(both, name, pairs) for name in metrics},
        )
        for value, count, pairs in zip(found.values, samples, parts, strict=True)
    ]
    compared.sort(key=lambda one: (-one.samples, one.value is None, one.value or ""))
    return SlicedChanges(column=column, slices=tuple(compared))


def values_by_position(run: Run, column: str) -> ColumnValues:
    """The values of a column. Raises UsageError for one that the run does not hold, or whose values are no slices."""
    known: dict[str | None, int] = {}
    numbers = [known.setdefault(value, len(known)) for _, value in iter_column(run, column)]
    return ColumnValues([*known], np.asarray(numbers, dtype=np.int64))


def _slice_change(both: BothRuns, metric: str, pairs: Places) -> SliceChange:
    """One metric on some of the pairs, by their places among them."""
    before, after = both.pairing.before[pairs], both.pairing.after[pairs]
    (old, in_old), (new, in_new) = both.before.scores[metric], both.after.scores[metric]
    scored = in_old[before] & in_new[after]
    before, after = before[scored], after[scored]
    if not len(after):
        return SliceChange(compared=0, scores=None)
    tally = PairedTally()
    tally.add(old[before], new[after], None if both.clusters is None else both.clusters[after])
    return SliceChange(compared=len(after), scores=score_changes(tally))


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
