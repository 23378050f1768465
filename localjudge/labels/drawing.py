"""Draw statements to label, and weight their labels by the chance of being drawn.

They are drawn in proportion to the expected gain for the corrected means of a run.

The size of a statement is the weight of its units in all metrics (root of the sum of squares),
times the judge's uncertainty (`localjudge.stats.corrected`):

    statement                     context_recall   faithfulness   unsure   size
    "It rises in Germany."               1/12           1/20        .49    .0476

Run, metrics and seed determine the order, and any number of statements from its start is a valid
sample. For slices by a column, the sizes are scaled to the same total in each slice, so that all
slices get about as many labels.
"""

import hashlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple, Self

import numpy as np

from localjudge.errors import InputError
from localjudge.labels.units import UnitFrame, first_verdicts
from localjudge.run_directory.label_rows import DrawnStatement
from localjudge.stats.corrected import (
    MIN_CLUSTERS,
    STRATA,
    JudgedUnits,
    draw,
    drawing_sizes,
    inclusion_probabilities,
    prediction_powered,
    strata_by_score,
)
from localjudge.stats.interval import Floats, Indices, Mean, mean_interval, share_interval
from localjudge.stats.repeated_looks import MIN_PLANNED_LABELS, Look, look_at
from localjudge.words import option_name

DISPUTED = "disputed"
"""Name of the drawing of disputed statements, which is not random."""
_STRATA = 10
_AND = " + "
_NAME_DIGITS = 8
_SEED_DIGITS = 18
_NAME = re.compile(
    rf"(?P<seed>[0-9]{{1,{_SEED_DIGITS}}}): (?P<metrics>.+) (?P<digest>[0-9a-f]{{{_NAME_DIGITS}}})"
    r'(?P<earlier> with more disagreements)?(?: by (?P<by>".*"))?'
)
"""The names of drawings; the ones with more disagreements are of earlier versions."""


class DrawingOptions(NamedTuple):
    """Which statements to draw.

    `sample` is their number, by default 50. `by` draws about as many from each slice by a column.
    `disputed` takes all statements with different labels, to settle them.
    """

    sample: int | None = None
    metrics: Sequence[str] | None = None
    seed: int | None = None
    by: str | None = None
    disputed: bool = False


class DrawingName(NamedTuple):
    """What determines a drawing. `str` is its name, which a label stores.

    `digest` is the hash of the sizes. The drawings with more disagreements are of earlier versions
    (`is_earlier`) and cannot be repeated.
    """

    seed: int
    metrics: tuple[str, ...]
    digest: str
    by: str | None = None
    is_earlier: bool = False

    def __str__(self) -> str:
        name = f"{self.seed}: {_AND.join(self.metrics)} {self.digest}"
        if self.by is not None:
            name += f" by {json.dumps(self.by)}"
        return name

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Return the parts of a name, or None for an invalid one."""
        parts = _NAME.fullmatch(name)
        if parts is None:
            return None
        try:
            by = json.loads(parts["by"] or "null")
        except ValueError:
            return None
        metrics = tuple(parts["metrics"].split(_AND))
        is_earlier = parts["earlier"] is not None
        return cls(int(parts["seed"]), metrics, parts["digest"], by, is_earlier)


class Drawing(NamedTuple):
    """Statements in order.

    `name` is a `DrawingName`; `frame` is the hash of the statements.
    """

    name: str
    frame: str
    statements: list[DrawnStatement]


def draw_statements(
    frames: Mapping[str, UnitFrame], count: int, seed: int, by: str | None = None
) -> Drawing:
    """Draw `count` statements, or all, from these frames; `by` a column, as many from each slice.

    Raises InputError for a count below 1, an invalid seed or an unsuitable column.
    """
    _check_drawing(count, seed)
    verdict_ids = first_verdicts(frames.values())
    keys = list(verdict_ids)
    numbers = {key: number for number, key in enumerate(keys)}
    weights, p_yes, kinds = _describe_statements(frames.values(), numbers)
    sizes = drawing_sizes(weights, p_yes)
    strata = kinds * _STRATA + strata_by_score(p_yes, _STRATA)
    if by is not None:
        factors, slices = _slices(sizes, frames.values(), numbers, by)
        sizes = sizes * factors
        strata = slices * len(keys) + np.unique(strata, return_inverse=True)[1]
    taken, turns = draw(sizes, strata, count, seed)
    shares = sizes / sizes.sum()
    # In single precision, because the last bits of the sum differ between machines.
    digest = hashlib.sha256(shares.astype("<f4").tobytes()).hexdigest()[:_NAME_DIGITS]
    name = str(DrawingName(seed, tuple(frames), digest, by))
    drawing = Drawing(name, hash_frames(frames.values()), [])
    for number, draw_index in zip(taken.tolist(), turns.tolist(), strict=True):
        key = keys[number]
        statement = DrawnStatement(
            key=key,
            **verdict_ids[key]._asdict(),
            draw=drawing.name,
            frame=drawing.frame,
            size_share=float(shares[number]),
            draw_index=draw_index,
        )
        drawing.statements.append(statement)
    return drawing


def _check_drawing(count: int, seed: int) -> None:
    if count < 1:
        raise InputError(f"{option_name('sample')} must be at least 1, got {count}")
    if not 0 <= seed < 10**_SEED_DIGITS:
        raise InputError(
            f"{option_name('seed')} must have at most {_SEED_DIGITS} digits and no sign, "
            f"got {seed!s:.40}"
        )


def _describe_statements(
    frames: Iterable[UnitFrame], numbers: Mapping[str, int]
) -> tuple[Floats, Floats, Indices]:
    """Return the weights, the probabilities and the metrics of the statements (statements,).

    A weight is the root of the sum of squared weights in all metrics. Metrics are bits.
    """
    squares = np.zeros(len(numbers))
    p_yes = np.zeros(len(numbers))
    kinds = np.zeros(len(numbers), dtype=np.intp)
    for bit, frame in enumerate(frames):
        statements: list[int] = []
        units: list[int] = []
        for key, units_of_statement in frame.by_key.items():
            statements += [numbers[key]] * len(units_of_statement)
            units += units_of_statement
        squares += np.bincount(statements, frame.weights[units], len(numbers)) ** 2
        p_yes[statements] = frame.p_yes[units]  # a judge gives equal answers to equal questions
        kinds[[numbers[key] for key in frame.by_key]] += 1 << bit
    weights: Floats = np.sqrt(squares)
    return weights, p_yes, kinds


def draw_disputed(frames: Mapping[str, UnitFrame], keys: Iterable[str]) -> Drawing:
    """Return the statements with these keys in the order of the run, in place of a drawing."""
    wanted = set(keys)
    statements = []
    for key, verdict_id in first_verdicts(frames.values()).items():
        if key in wanted:
            verdict = verdict_id._asdict()
            statements.append(DrawnStatement(key=key, **verdict, adjudicated=True))
    return Drawing(DISPUTED, "", statements)


def _slices(
    sizes: Floats, frames: Iterable[UnitFrame], numbers: Mapping[str, int], by: str
) -> tuple[Floats, Indices]:
    """Return the factor of each statement's size, and its slice.

    A statement in two slices belongs to the smaller one. Slices with too few samples for an
    interval count as one slice, the last one.
    """
    statements: dict[str | None, set[int]] = defaultdict(set)
    samples: dict[str | None, set[str]] = defaultdict(set)
    for frame in frames:
        value_of = frame.values_of(by)
        for key, units in frame.by_key.items():
            for unit in units:
                sample = frame.verdict_ids[unit].sample_id
                statements[value_of[sample]].add(numbers[key])
                samples[value_of[sample]].add(sample)
    large = [value for value, names in samples.items() if len(names) >= MIN_CLUSTERS]
    groups = [statements[value] for value in large]
    groups.append(set().union(*statements.values()).difference(*groups))
    factors = np.zeros(len(sizes))
    slices = np.zeros(len(sizes), dtype=np.intp)
    for number, group in enumerate(filter(None, groups)):
        indices = np.array(sorted(group))
        factor = 1 / float(sizes[indices].sum())
        slices[indices] = np.where(factor > factors[indices], number, slices[indices])
        factors[indices] = np.maximum(factor, factors[indices])
    return factors, slices


def hash_frames(frames: Iterable[UnitFrame]) -> str:
    """Return the hash of the metrics and their statements."""
    lines: list[str] = []
    for frame in frames:
        lines += [f"{frame.metric} {key}" for key in frame.by_key]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def drawn_metrics(name: str, frame: str, frames: Mapping[str, UnitFrame]) -> tuple[str, ...]:
    """Return the metrics of the named drawing if it was made from these frames, () otherwise."""
    drawing = DrawingName.parse(name)
    if drawing is None or not frames.keys() >= set(drawing.metrics):
        return ()
    if frame != hash_frames(frames[metric] for metric in drawing.metrics):
        return ()
    return drawing.metrics


def draw_again(name: str, frames: Mapping[str, UnitFrame], count: int) -> Drawing | None:
    """Return the first statements of the named drawing, if these frames reproduce it."""
    if name == DISPUTED:
        return draw_disputed(frames, first_verdicts(frames.values()))
    drawing = DrawingName.parse(name)
    if drawing is None or drawing.is_earlier:
        return None
    drawn_frames: dict[str, UnitFrame] = {}
    for metric in drawing.metrics:
        if metric in frames and frames[metric].by_key:
            drawn_frames[metric] = frames[metric]
    if not drawn_frames:
        return None
    try:
        again = draw_statements(drawn_frames, count, drawing.seed, drawing.by)
    except InputError:  # no such column
        return None
    if again.name != name:
        return None
    return again


def sampling_weights(
    drawings: Iterable[Iterable[DrawnStatement]], most: float = math.inf
) -> dict[str, float]:
    """Return the weights of the first `most` labelled statements, relative to shares in the mean.

    It is the sum of (share of labels) / (inclusion probability) over the drawings that reached the
    statement.
    """
    keys: set[str] = set()
    reached: list[list[DrawnStatement]] = []
    for drawing in drawings:
        reached.append([])
        for drawn in drawing:
            if len(keys) >= most:
                break
            keys.add(drawn.key)
            reached[-1].append(drawn)
    count = sum(len(statements) for statements in reached)
    weights: dict[str, float] = defaultdict(float)
    for statements in reached:
        if not statements:
            continue
        shares = np.array([drawn.size_share for drawn in statements])
        probabilities = inclusion_probabilities(shares, statements[-1].turn).tolist()
        for drawn, probability in zip(statements, probabilities, strict=True):
            weights[drawn.key] += len(statements) / count / probability
    return dict(weights)


class LabelledUnits(NamedTuple):
    """Units of a metric with labels. Of the `labelled` statements, `counted` count at this look.

    `is_complete`: every statement has a label that counts. `planned` statements were to be read
    first, none without a plan.
    """

    frame: UnitFrame
    units: JudgedUnits
    counted: Set[str]
    labelled: Set[str]
    look: Look
    is_complete: bool
    planned: Set[str]

    @property
    def is_planned(self) -> bool:
        """Whether the number of labels that count was planned."""
        return bool(self.planned) and self.look.labels == len(self.planned)

    def estimate(self) -> Mean:
        """Return the mean of the labels if every statement has one, else the corrected mean."""
        if self.is_complete:
            confidence = self.look.confidence
            assert confidence  # the look at all labels has an interval
            labels = self.units.human
            if self.frame.is_pooled:
                ones = labels.astype(np.int64)
                clusters = np.unique(self.units.clusters, return_inverse=True)[1].reshape(-1)
                mean = share_interval(ones, np.ones_like(ones), clusters, confidence)
            else:
                shares = self.frame.means_of_samples(labels)
                groups = self.frame.clusters_of_samples
                is_grouped = len(np.unique(groups)) < len(groups)
                mean = mean_interval(
                    shares, clusters=groups if is_grouped else None, confidence=confidence
                )
            return mean._replace(basis="labels", ppi_lambda=0.0)
        return prediction_powered(self.units, self.look.confidence)


def label_units(
    frame: UnitFrame,
    human: Mapping[str, float],
    drawings: Iterable[Iterable[DrawnStatement]],
    planned_sets: Iterable[Set[str]] = (),
    most: int | None = None,
) -> LabelledUnits:
    """Return the units of a metric with the labels that count, for at most `most` statements.

    `human` is one annotator's label of each statement, and `planned_sets` are the statements of
    first readings that were complete. The number of labels determines the look, and only the labels
    that count there are weighted.
    """
    keys = frame.by_key.keys() & human.keys()
    drawings = _select_labels(drawings, keys)
    labelled: set[str] = set()
    for drawing in drawings:
        labelled.update(drawn.key for drawn in drawing)
    # Labels that were all drawn are cut off at `most`; others have no order.
    is_cut_off = most is not None and most < len(keys) and labelled == keys
    is_complete = len(keys) == len(frame.by_key) and not is_cut_off
    if is_complete:
        labelled = keys
    planned = _find_planned(frame, planned_sets, labelled)
    number = len(labelled)
    if most is not None:
        number = min(number, most)
    look = look_at(number, len(frame.by_key), len(planned) or None)
    if is_complete:
        weights = dict.fromkeys(keys, 1.0)
    elif look.labels == len(labelled):
        weights = sampling_weights(drawings)  # also of drawings that only repeat statements
    elif planned and look.labels == len(planned):
        weights = sampling_weights(_select_labels(drawings, planned), look.labels)
    else:
        weights = sampling_weights(drawings, look.labels)
    return LabelledUnits(
        frame=frame,
        units=_judged_units(frame, human, weights),
        counted=weights.keys(),
        labelled=labelled,
        look=look,
        is_complete=is_complete,
        planned=planned,
    )


def _find_planned(
    frame: UnitFrame, planned_sets: Iterable[Set[str]], labelled: Set[str]
) -> Set[str]:
    """Return the largest plan for the labelled statements, or none if it is too small."""
    largest: Set[str] = frozenset()
    for statements in planned_sets:
        planned = statements & frame.by_key.keys()
        is_usable = len(planned) >= MIN_PLANNED_LABELS and planned <= labelled
        if is_usable and len(planned) > len(largest):
            largest = planned
    return largest


def _select_labels(
    drawings: Iterable[Iterable[DrawnStatement]], keys: Set[str]
) -> list[list[DrawnStatement]]:
    """Return the labels of these statements in each drawing."""
    selected = []
    for drawing in drawings:
        selected.append([drawn for drawn in drawing if drawn.key in keys])
    return selected


def _judged_units(
    frame: UnitFrame, human: Mapping[str, float], sampling_weight: Mapping[str, float]
) -> JudgedUnits:
    """Return the units of a metric, with labels of the statements that have a sampling weight."""
    labels = np.zeros(len(frame.judged))
    drawn = np.zeros(len(frame.judged))
    for key, weight in sampling_weight.items():
        indices = frame.by_key[key]
        labels[indices] = human[key]
        # A statement has one label even if several samples share it. Its first unit represents all.
        drawn[indices[0]] = frame.weights[indices].sum() * weight
    certain = np.isnan(frame.p_yes)
    labels[certain] = frame.judged[certain]
    drawn[certain] = frame.weights[certain]
    strata = np.zeros(len(labels), dtype=np.intp)
    if not certain.all():
        scores = frame.p_yes[~certain]
        count = max(1, min(STRATA, len(sampling_weight)))
        strata[~certain] = strata_by_score(scores, count) + int(certain.any())
    units = JudgedUnits(frame.judged, frame.weights, labels, drawn, strata, frame.clusters, certain)
    if frame.share_of == "zeros":
        return units._replace(judged=1 - units.judged, human=1 - units.human)
    return units
