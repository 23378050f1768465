"""Draw statements to label, in proportion to the expected gain for the corrected means of a run.

The size of a statement is the weight of its units in all metrics (root of the sum of squares),
times the judge's uncertainty (`localjudge.stats.corrected`):

    statement                     context_recall   faithfulness   unsure   size
    "It rises in Germany."               1/12           1/20        .49    .0476

Run, metrics and seed determine the order, and any number of statements from its start is a valid
sample. For slices by a column, the sizes are scaled to the same total in each slice, so that all
slices get about as many labels. With more disagreements, the size of a statement on which the
judges of a jury disagree is doubled before that.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from localjudge.errors import InputError
from localjudge.labels.label_sheet import SheetRow
from localjudge.labels.units import (
    AnswerAround,
    Evidence,
    UnitFrame,
    UnitPlace,
    first_places,
    verdicts_at,
)
from localjudge.run_directory.run_record import RunRecord
from localjudge.stats.corrected import (
    MIN_CLUSTERS,
    Flags,
    draw,
    drawing_sizes,
    strata_by_score,
)
from localjudge.stats.interval import Floats, Indices
from localjudge.words import option_name

DISPUTED = "disputed"
"""Name of the drawing of disputed statements, which is not random."""
_STRATA = 10
_AND = " + "
_NAME_DIGITS = 8
_SEED_DIGITS = 18
_MORE_DISAGREEMENTS = " with more disagreements"
_NAME = re.compile(
    rf"(?P<seed>[0-9]{{1,{_SEED_DIGITS}}}): (?P<metrics>.+) [0-9a-f]{{{_NAME_DIGITS}}}"
    rf'(?P<more>{_MORE_DISAGREEMENTS})?(?: by (?P<by>".*"))?'
)


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
    frames: Mapping[str, UnitFrame],
    count: int,
    seed: int,
    by: str | None = None,
    *,
    more_disagreements: bool = False,
) -> Drawing:
    """Draw `count` statements, or all, from these frames; `by` a column, as many from each slice.

    `more_disagreements` doubles the size of the statements on which the judges of a jury disagree.
    Raises InputError for a count below 1, an invalid seed or an unsuitable column.
    """
    _check_drawing(count, seed)
    places = first_places(frames.values())
    numbers = {key: number for number, key in enumerate(places)}
    statements = _statements_in(frames.values(), numbers)
    divided = statements.divided if more_disagreements else None
    sizes = drawing_sizes(statements.weights, statements.p_yes, divided)
    strata = statements.kinds * _STRATA + strata_by_score(statements.p_yes, _STRATA)
    if by is not None:
        factors, slices = _slices(sizes, frames.values(), numbers, by)
        sizes = sizes * factors
        strata = slices * len(places) + np.unique(strata, return_inverse=True)[1]
    drawing = draw(sizes, strata, count, seed)
    shares = sizes / sizes.sum()
    keys = list(places)
    options = DrawingOptions(seed, list(frames), by, more_disagreements)
    return Drawing(
        name=_drawing_name(options, shares),
        frame=hash_frames(frames.values()),
        statements=[
            DrawnStatement(keys[number], places[keys[number]], float(shares[number]), turn)
            for number, turn in zip(drawing.taken.tolist(), drawing.turns.tolist(), strict=True)
        ],
    )


def _check_drawing(count: int, seed: int) -> None:
    if count < 1:
        raise InputError(f"{option_name('sample')} must be at least 1, got {count}")
    if not 0 <= seed < 10**_SEED_DIGITS:
        raise InputError(
            f"{option_name('seed')} must have at most {_SEED_DIGITS} digits and no sign, "
            f"got {seed!s:.40}"
        )


class _Statements(NamedTuple):
    """Properties of statements as arrays (statements,).

    `weights` are the roots of the sums of squared weights in all metrics, `kinds` the sets of these
    metrics as bits, `divided` whether the judges of a jury disagree.
    """

    weights: Floats
    p_yes: Floats
    kinds: Indices
    divided: Flags


def _statements_in(frames: Iterable[UnitFrame], numbers: Mapping[str, int]) -> _Statements:
    """Return the properties of the statements with these numbers."""
    count = len(numbers)
    squares = np.zeros(count)
    p_yes = np.zeros(count)
    kinds = np.zeros(count, dtype=np.intp)
    divided = np.zeros(count, dtype=np.bool_)
    for kind, frame in enumerate(frames):
        of_units = [numbers[key] for key, units in frame.by_key.items() for _ in units]
        units = [unit for units in frame.by_key.values() for unit in units]
        squares += np.bincount(of_units, frame.weights[units], count) ** 2
        p_yes[of_units] = frame.p_yes[units]  # a judge gives the same answer to the same question
        divided[of_units] = frame.divided[units]
        kinds[list(set(of_units))] += 1 << kind
    return _Statements(np.sqrt(squares), p_yes, kinds, divided)


class DrawingOptions(NamedTuple):
    """Options of a drawing, as in its name."""

    seed: int
    metrics: list[str]
    by: str | None
    more_disagreements: bool


def _drawing_name(options: DrawingOptions, shares: Floats) -> str:
    """Return the name of a drawing, which has its options and the hash of the shares."""
    # In single precision, because the last bits of the sum differ between machines.
    digest = hashlib.sha256(shares.astype("<f4").tobytes()).hexdigest()[:_NAME_DIGITS]
    name = f"{options.seed}: {_AND.join(options.metrics)} {digest}"
    if options.more_disagreements:
        name += _MORE_DISAGREEMENTS
    if options.by is not None:
        name += f" by {json.dumps(options.by)}"
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
    lines = sorted(f"{frame.metric} {key}" for frame in frames for key in frame.by_key)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def parse_metrics(drawing: str) -> list[str]:
    """Return the metrics in a drawing's name, or [] for an invalid name."""
    parts = _NAME.fullmatch(drawing)
    if parts is None:
        return []
    return parts["metrics"].split(_AND)


def drawing_options(name: str) -> DrawingOptions | None:
    """Return the options in a drawing's name, or None for an invalid name."""
    parts = _NAME.fullmatch(name)
    if parts is None:
        return None
    try:
        by = json.loads(parts["by"] or "null")
    except ValueError:
        return None
    metrics = parts["metrics"].split(_AND)
    return DrawingOptions(int(parts["seed"]), metrics, by, parts["more"] is not None)


def draw_again(name: str, frames: Mapping[str, UnitFrame], count: int) -> Drawing | None:
    """Return the first statements of the named drawing, if these frames reproduce it."""
    if name == DISPUTED:
        return disputed_statements(frames, first_places(frames.values()))
    options = drawing_options(name)
    if options is None:
        return None
    of_drawing = {of: frames[of] for of in options.metrics if of in frames and frames[of].by_key}
    if not of_drawing:
        return None
    try:
        drawing = draw_statements(
            of_drawing,
            count,
            options.seed,
            options.by,
            more_disagreements=options.more_disagreements,
        )
    except InputError:  # no such column
        return None
    if drawing.name != name:
        return None
    return drawing


def sheet_rows(
    run: RunRecord, drawing: Drawing, statements: Sequence[DrawnStatement]
) -> list[SheetRow]:
    verdicts = verdicts_at(run, {statement.place: statement.key for statement in statements})
    asked = {verdict.sample_id for verdict in verdicts.values()}
    samples = {sample.id: sample for sample in run.iter_samples() if sample.id in asked}
    evidence = Evidence(run)
    return [
        {
            "label_id": key,
            "draw": drawing.name,
            **place._asdict(),
            **evidence.shown(samples[place.sample_id], verdicts[key]),
            "text": verdicts[key].text,
            "source_text": AnswerAround.of(samples[place.sample_id], verdicts[key]),
            "human": None,
            "annotator": None,
        }
        for key, place, *_ in statements
    ]
