"""The judged units of one sample in two runs, laid side by side.

    baseline   "Paris is in France."  1      "It has 2 million inhabitants."  1
    new run    "Paris is in France."  0      "It rains."                      0

    changes    "Paris is in France."  1 -> 0      "It has ..."  1 -> none      "It rains."  none -> 0

Units are the same if their text is: a passage that moved to another rank is still that passage. The same text twice is
told apart by its order. Where a unit is held against one numbered context, that number only means the same context if
the whole sample is the same; the reference is the reference, the response the response, what it cites what it cites.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from localjudge.record.result_rows import VerdictRow
from localjudge.types import Label, Record


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
