"""Where a sample stands in the data, by its id, without a string or an object for each: 16 bytes of a hash.

A file of results names the samples in the order of the data, so the sample that is asked for is nearly always the one
that was asked for last, or the one after it. Only elsewhere is it searched for.
"""

import hashlib
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from localjudge.dataset.identity import Hashes

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_BYTES = 16


class Positions:
    """Positions of ids in the order in which they were added."""

    def __init__(self) -> None:
        self.hashes = Hashes(_BYTES)

    def __len__(self) -> int:
        return len(self.hashes)

    def append(self, sample_id: str) -> None:
        """The id of the next sample; none is added after the first was looked for."""
        self.hashes.append(_hash(sample_id))

    def finder(self) -> Callable[[str], int | None]:
        """Tells the position of an id, None of one that is not there; quickly if asked in the order of the data."""
        last_id: str | None = None
        last = -1

        def find(sample_id: str) -> int | None:
            nonlocal last_id, last
            if sample_id != last_id:
                one = _hash(sample_id)
                found = last + 1 if self.hashes[last + 1] == one else self._searched(one)
                if found is None:
                    return None
                last_id, last = sample_id, found
            return last

        return find

    def _searched(self, one: bytes) -> int | None:
        place = int(self.hashes.array().searchsorted(one, sorter=self._order))
        if place == len(self):
            return None
        found = int(self._order[place])
        return found if self.hashes[found] == one else None

    @cached_property
    def _order(self) -> "npt.NDArray[np.intp]":
        return self.hashes.array().argsort(kind="stable")


def _hash(sample_id: str) -> bytes:
    return hashlib.blake2b(sample_id.encode(), digest_size=_BYTES).digest()
