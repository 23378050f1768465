"""Draw statements to label, in proportion to the expected gain for the corrected means of a run.

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
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from localjudge.errors import InputError
from localjudge.labels.units import UnitFrame, UnitPlace, first_places
from localjudge.stats.corrected import MIN_CLUSTERS, draw, drawing_sizes, strata_by_score
from localjudge.stats.interval import Floats, Indices
from localjudge.words import option_name

DISPUTED = "disputed"
"""Name of the drawing of disputed statements, which is not random."""
_STRATA = 10
_AND = " + "
_NAME_DIGITS = 8
_SEED_DIGITS = 18
_NAME = re.compile(
    rf"(?P<seed>[0-9]{{1,{_SEED_DIGITS}}}): (?P<metrics>.+) [0-9a-f]{{{_NAME_DIGITS}}}"
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


class DrawnStatement(NamedTuple):
    """A drawn statement: key, first verdict, share of the total size, and number from 1."""

    key: str
    place: UnitPlace
    size_share: float
    draw_index: int


class Drawing(NamedTuple):
    """Statements in order.

    `name` encodes seed, metrics, sizes and column; `frame` is the hash of the statements.
    """

    name: str
    frame: str
    statements: list[DrawnStatement]

    def describe(self, statement: DrawnStatement) -> dict[str, Any]:
        if self.name == DISPUTED:  # such labels have no drawing
            return {"adjudicated": True}
        return {
            "draw": self.name,
            "frame": self.frame,
            "size_share": statement.size_share,
            "draw_index": statement.draw_index,
        }


def draw_statements(
    frames: Mapping[str, UnitFrame], count: int, seed: int, by: str | None = None
) -> Drawing:
    """Draw `count` statements, or all, from these frames; `by` a column, as many from each slice.

    Raises InputError for a count below 1, an invalid seed or an unsuitable column.
    """
    _check_drawing(count, seed)
    places = first_places(frames.values())
    keys = list(places)
    numbers = {key: number for number, key in enumerate(keys)}
    p_yes = _read_answers(frames.values(), numbers)
    sizes = drawing_sizes(_combine_weights(frames.values(), numbers), p_yes)
    strata = _list_kinds(frames.values(), numbers) * _STRATA + strata_by_score(p_yes, _STRATA)
    if by is not None:
        factors, slices = _slices(sizes, frames.values(), numbers, by)
        sizes = sizes * factors
        strata = slices * len(places) + np.unique(strata, return_inverse=True)[1]
    taken, turns = draw(sizes, strata, count, seed)
    shares = sizes / sizes.sum()
    statements = []
    for number, draw_index in zip(taken.tolist(), turns.tolist(), strict=True):
        key = keys[number]
        share = float(shares[number])
        statements.append(DrawnStatement(key, places[key], share, draw_index))
    name = _name_drawing(frames, seed, by, shares)
    return Drawing(name, hash_frames(frames.values()), statements)


def _check_drawing(count: int, seed: int) -> None:
    if count < 1:
        raise InputError(f"{option_name('sample')} must be at least 1, got {count}")
    if not 0 <= seed < 10**_SEED_DIGITS:
        raise InputError(
            f"{option_name('seed')} must have at most {_SEED_DIGITS} digits and no sign, "
            f"got {seed!s:.40}"
        )


def _combine_weights(frames: Iterable[UnitFrame], numbers: Mapping[str, int]) -> Floats:
    """Return the root of the sum of squared weights in all metrics (statements,)."""
    squares = np.zeros(len(numbers))
    for frame in frames:
        statements, units = _list_units(frame, numbers)
        squares += np.bincount(statements, frame.weights[units], len(numbers)) ** 2
    weights: Floats = np.sqrt(squares)
    return weights


def _read_answers(frames: Iterable[UnitFrame], numbers: Mapping[str, int]) -> Floats:
    """Return the probabilities (statements,)."""
    p_yes = np.zeros(len(numbers))
    for frame in frames:
        statements, units = _list_units(frame, numbers)
        p_yes[statements] = frame.p_yes[units]  # a judge gives equal answers to equal questions
    return p_yes


def _list_kinds(frames: Iterable[UnitFrame], numbers: Mapping[str, int]) -> Indices:
    """Return the set of metrics of each statement, as bits (statements,)."""
    kinds = np.zeros(len(numbers), dtype=np.intp)
    for bit, frame in enumerate(frames):
        kinds[[numbers[key] for key in frame.by_key]] += 1 << bit
    return kinds


def _list_units(frame: UnitFrame, numbers: Mapping[str, int]) -> tuple[list[int], list[int]]:
    """Return the statement and the index of each unit with a statement."""
    statements: list[int] = []
    units: list[int] = []
    for key, units_of_statement in frame.by_key.items():
        statements += [numbers[key]] * len(units_of_statement)
        units += units_of_statement
    return statements, units


def _name_drawing(metrics: Iterable[str], seed: int, by: str | None, shares: Floats) -> str:
    """Return the name of a drawing: its seed, metrics, hash of the shares, and column."""
    # In single precision, because the last bits of the sum differ between machines.
    digest = hashlib.sha256(shares.astype("<f4").tobytes()).hexdigest()[:_NAME_DIGITS]
    name = f"{seed}: {_AND.join(metrics)} {digest}"
    if by is not None:
        name += f" by {json.dumps(by)}"
    return name


def disputed_statements(frames: Mapping[str, UnitFrame], keys: Iterable[str]) -> Drawing:
    """Return the statements with these keys in the order of the run, in place of a drawing."""
    wanted = set(keys)
    statements = []
    for key, place in first_places(frames.values()).items():
        if key in wanted:
            statements.append(DrawnStatement(key, place, size_share=0.0, draw_index=0))
    return Drawing(DISPUTED, "", statements)


def _slices(
    sizes: Floats, frames: Iterable[UnitFrame], numbers: Mapping[str, int], by: str
) -> tuple[Floats, Indices]:
    """Return the factor of each statement's size, and its slice.

    A statement in two slices belongs to the smaller one. Slices with too few samples for an
    interval count as one slice.
    """
    factors = np.zeros(len(sizes))
    slices = np.zeros(len(sizes), dtype=np.intp)
    for number, statements in enumerate(_group_by_slice(frames, numbers, by)):
        indices = np.array(sorted(statements))
        factor = 1 / float(sizes[indices].sum())
        slices[indices] = np.where(factor > factors[indices], number, slices[indices])
        factors[indices] = np.maximum(factor, factors[indices])
    return factors, slices


def _group_by_slice(
    frames: Iterable[UnitFrame], numbers: Mapping[str, int], by: str
) -> list[set[int]]:
    """Return the statements of each large slice, then the ones that are in small slices only."""
    statements: dict[str | None, set[int]] = defaultdict(set)
    samples: dict[str | None, set[str]] = defaultdict(set)
    for frame in frames:
        value_of = frame.values_of(by)
        for key, units in frame.by_key.items():
            for unit in units:
                sample = frame.places[unit].sample_id
                statements[value_of[sample]].add(numbers[key])
                samples[value_of[sample]].add(sample)
    groups = []
    rest = set[int]().union(*statements.values())
    for value, names in samples.items():
        if len(names) >= MIN_CLUSTERS:
            groups.append(statements[value])
            rest -= statements[value]
    if rest:
        groups.append(rest)
    return groups


def hash_frames(frames: Iterable[UnitFrame]) -> str:
    """Return the hash of the metrics and their statements."""
    lines: list[str] = []
    for frame in frames:
        lines += [f"{frame.metric} {key}" for key in frame.by_key]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def parse_metrics(drawing: str) -> list[str]:
    """Return the metrics in a drawing's name, or [] for an invalid name."""
    parts = _NAME.fullmatch(drawing)
    if parts is None:
        return []
    return parts["metrics"].split(_AND)


def parse_options(name: str) -> DrawingOptions | None:
    """Return seed, metrics and column in the name of a drawing that can be repeated, or None."""
    parts = _NAME.fullmatch(name)
    if parts is None or parts["earlier"]:
        return None
    try:
        by = json.loads(parts["by"] or "null")
    except ValueError:
        return None
    return DrawingOptions(metrics=parts["metrics"].split(_AND), seed=int(parts["seed"]), by=by)


def draw_again(name: str, frames: Mapping[str, UnitFrame], count: int) -> Drawing | None:
    """Return the first statements of the named drawing, if these frames reproduce it."""
    if name == DISPUTED:
        return disputed_statements(frames, first_places(frames.values()))
    options = parse_options(name)
    if options is None:
        return None
    drawn_frames: dict[str, UnitFrame] = {}
    for metric in options.metrics or ():
        if metric in frames and frames[metric].by_key:
            drawn_frames[metric] = frames[metric]
    if not drawn_frames:
        return None
    try:
        drawing = draw_statements(drawn_frames, count, options.seed or 0, options.by)
    except InputError:  # no such column
        return None
    if drawing.name != name:
        return None
    return drawing
