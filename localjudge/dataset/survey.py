"""What one reading of a source tells about its columns, before any row is checked; no row is kept.

Which column is which field depends on all rows: a column may first appear in the last one.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from localjudge.dataset.aliases import ALIASES, LOOSE_NAMES, columns_of, reads_like
from localjudge.dataset.dotted_names import by_first_part, first_part, has_value, reaches_inside
from localjudge.dataset.problems import Problem
from localjudge.dataset.rows import RawRow

_LOOSE = {name: field for field, names in LOOSE_NAMES.items() for name in names}


class Survey:
    """The columns of a source: `columns` all of them, `filled` those that hold something, each as they appear.

    `rows` counts all rows, `readable` those that could be read, `conversations` those of which
    the last turn is read. `mapping` is what the user said (ours -> theirs).
    """

    def __init__(self, rows: Iterable[RawRow | Problem], mapping: Mapping[str, str]) -> None:
        self.rows = 0
        self.readable = 0
        self.conversations = 0
        self.columns: dict[str, None] = {}
        self.filled: dict[str, None] = {}
        self._found: set[str] = set()
        known = {name for table in (ALIASES, LOOSE_NAMES) for names in table.values() for name in names}
        self._dotted = by_first_part(name for name in known | columns_of(mapping) if reaches_inside(name))
        self._loose = set(_LOOSE)
        self._loose_inside = by_first_part(name for name in _LOOSE if "." in name)
        self._reads: set[str] = set()
        for row in rows:
            self.rows += 1
            if isinstance(row, RawRow):
                self.readable += 1
                self.conversations += row.conversation
                self._add(row.values)

    def has(self, name: str) -> bool:
        """Whether any row has the column, or a value under a dotted name that is known or mapped."""
        return name in self.columns or name in self._found

    def reads_like(self, name: str) -> bool:
        """Whether any value of the column reads like its field, for the names that may also mean something else."""
        return name in self._reads

    def _add(self, values: Mapping[str, Any]) -> None:
        for name in values:
            if name not in self.filled:
                self.columns[name] = None
                if values[name] is not None and values[name] != "":
                    self.filled[name] = None
        for name in _reached(self._dotted, values):
            if has_value(values, name):
                self._found.add(name)
                self._dotted[first_part(name)].remove(name)
        for name in {*(self._loose & values.keys()), *_reached(self._loose_inside, values)}:
            if name in self._loose and reads_like(_LOOSE[name], [values], name):
                self._reads.add(name)
                self._loose.remove(name)


def _reached(names: Mapping[str, set[str]], values: Mapping[str, Any]) -> list[str]:
    """The names whose first part is an object or a list of the row."""
    firsts = [first for first in names.keys() & values.keys() if not isinstance(values[first], str)]
    return [name for first in firsts for name in names[first]]
