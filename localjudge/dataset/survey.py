"""What one reading of a source tells about its columns, before any row is checked; no row is kept.

Which column is which field depends on all rows: a column may first appear in the last one.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from localjudge.dataset.aliases import ALIASES, LOOSE_NAMES, columns_of, has_value, reads_like
from localjudge.dataset.problems import Problem
from localjudge.dataset.rows import RawRow

_LOOSE = [(field, name) for field, names in LOOSE_NAMES.items() for name in names]


class Survey:
    """The columns of a source: `columns` all of them, `filled` those that hold something, each as they appear.

    `rows` counts all rows, `readable` those that could be read. `mapping` is what the user said (ours -> theirs).
    """

    def __init__(self, rows: Iterable[RawRow | Problem], mapping: Mapping[str, str]) -> None:
        self.rows = 0
        self.readable = 0
        self.columns: dict[str, None] = {}
        self.filled: dict[str, None] = {}
        self._found: set[str] = set()
        known = {name for names in ALIASES.values() for name in names} | columns_of(mapping)
        self._dotted = {name for name in known if "." in name}
        self._reads: set[tuple[str, str]] = set()
        for row in rows:
            self.rows += 1
            if isinstance(row, RawRow):
                self.readable += 1
                self._add(row.values)

    def has(self, name: str) -> bool:
        """Whether any row has the column, or a value under a dotted name that is known or mapped."""
        return name in self.columns or name in self._found

    def reads_like(self, field: str, name: str) -> bool:
        """Whether any value of the column reads like the field, for the names that may also mean something else."""
        return (field, name) in self._reads

    def _add(self, values: Mapping[str, Any]) -> None:
        for name in values:
            if name not in self.filled:
                self.columns[name] = None
                if values[name] is not None and values[name] != "":
                    self.filled[name] = None
        for name in [name for name in self._dotted if has_value(values, name)]:
            self._found.add(name)
            self._dotted.remove(name)
        for field, name in _LOOSE:
            if name in values and (field, name) not in self._reads and reads_like(field, [values], name):
                self._reads.add((field, name))
