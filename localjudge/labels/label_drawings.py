"""The drawings of stored labels: which statements they showed, and which of these have labels.

A label stores the name of its drawing and the frame, which is the hash of the statements that were
drawn from. Only a drawing from the statements of a run can correct its means.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from localjudge.labels.decisions import Decisions
from localjudge.labels.drawing import (
    Drawing,
    DrawnStatement,
    draw_again,
    hash_frames,
    parse_metrics,
)
from localjudge.labels.units import UnitFrame, UnitPlace
from localjudge.run_directory.label_rows import LabelRow

_NameAndFrame = tuple[str, str]


def drawn_statements(
    rows: Iterable[LabelRow],
) -> dict[_NameAndFrame, dict[str, DrawnStatement]]:
    """Return the statements of each drawing that have a row, by key."""
    drawn: dict[_NameAndFrame, dict[str, DrawnStatement]] = defaultdict(dict)
    for row in rows:
        if row.draw and row.frame and row.size_share and row.draw_index:
            place = UnitPlace(row.sample_id, row.metric, row.position)
            statement = DrawnStatement(row.key, place, row.size_share, row.draw_index)
            drawn[row.draw, row.frame][row.key] = statement
    return dict(drawn)


def labelled_drawings(
    decisions: Decisions, frames: Mapping[str, UnitFrame]
) -> dict[str, list[list[DrawnStatement]]]:
    """Return the labelled statements of each drawing of these frames.

    They are by metric and in drawing order. A metric uses only drawings that include it, because
    others could not reach all of its statements.
    """
    drawn = drawn_statements(decisions.rows)
    drawings: dict[str, list[list[DrawnStatement]]] = {metric: [] for metric in frames}
    drawing_of_answer: dict[tuple[str, str, str], _NameAndFrame] = {}
    for row in decisions.rows:
        if row.draw and row.frame and row.size_share and row.draw_index:
            answer = (row.key, row.annotator, row.when)
            drawing_of_answer.setdefault(answer, (row.draw, row.frame))
    begun = list(dict.fromkeys(drawing_of_answer.values()))
    for name, frame in begun:
        if not _is_drawn_from(frames, name, frame):
            continue
        statements = drawn[name, frame].values()
        labelled = [statement for statement in statements if statement.key in decisions.human]
        labelled.sort(key=lambda statement: (statement.draw_index, statement.key))
        for metric in parse_metrics(name):
            by_key = frames[metric].by_key
            drawings[metric].append([each for each in labelled if each.key in by_key])
    return drawings


def _is_drawn_from(frames: Mapping[str, UnitFrame], name: str, frame: str) -> bool:
    """Return whether the named drawing was made from the statements of these frames."""
    metrics = parse_metrics(name)
    if not metrics or not frames.keys() >= set(metrics):
        return False
    return frame == hash_frames(frames[metric] for metric in metrics)


def count_undrawn(rows: Iterable[LabelRow], frames: Mapping[str, UnitFrame]) -> int:
    """Return how many labels were drawn from another set of statements than these frames."""
    drawings = Counter[_NameAndFrame]()
    for row in rows:
        if row.draw:
            drawings[row.draw, row.frame or ""] += 1
    undrawn = 0
    for (name, frame), count in drawings.items():
        if not _is_drawn_from(frames, name, frame):
            undrawn += count
    return undrawn


def list_passed_over(frames: Mapping[str, UnitFrame], decisions: Decisions) -> set[str]:
    """Return the shown statements without a label, although later ones of their drawing have one.

    A drawing showed its statements up to the last one that was first labelled there: the second
    opinions of earlier versions showed only statements that had a label.
    """
    first_drawing: dict[str, tuple[str | None, str | None]] = {}
    for row in decisions.rows:
        first_drawing.setdefault(row.key, (row.draw, row.frame))
    shown: set[str] = set()
    for (name, frame), statements in drawn_statements(decisions.rows).items():
        last = 0
        for key, statement in statements.items():
            if first_drawing[key] == (name, frame) and key in decisions.human:
                last = max(last, statement.draw_index)
        if last:
            shown |= _list_shown(name, frame, frames, last)
    return shown - decisions.human.keys()


def _list_shown(name: str, frame: str, frames: Mapping[str, UnitFrame], last: int) -> set[str]:
    """Return the statements of a drawing up to a number, if these frames reproduce it."""
    drawing = draw_again(name, frames, last)
    if drawing is None or drawing.frame != frame:
        return set()
    return {statement.key for statement in drawing.statements if statement.draw_index <= last}


def carry_over(drawing: Drawing, draw_index: int, decisions: Decisions) -> list[LabelRow]:
    """Return rows that carry existing labels over to this drawing, before a statement of it."""
    labels: dict[str, LabelRow] = {}
    for row in decisions.rows:
        is_label = row.human in (0, 1) and not row.adjudicated
        if is_label and decisions.current_answer(row) == row.human:
            labels[row.key] = row
    stored = drawn_statements(decisions.rows).get((drawing.name, drawing.frame), {})
    rows = []
    for statement in drawing.statements:
        is_earlier = statement.draw_index < draw_index
        if is_earlier and statement.key not in stored and statement.key in labels:
            label = labels[statement.key]
            rows.append(label.model_copy(update=drawing.describe(statement)))
    return rows
