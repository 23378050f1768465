"""The group of each sample (`--cluster-by`): of an id 16 bytes of its hash are held, and 4 of its group's number.

id   s0  s1  s2  s3          group     0: france   1: spain
of    0   0   1   0
"""

import hashlib
import json
from array import array
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Protocol

from localjudge.dataset.positions import Positions


class GroupOf(Protocol):
    """Gives the name of a sample's group by the sample's id; a dictionary does, too."""

    def __getitem__(self, sample_id: str, /) -> str: ...

    def get(self, sample_id: str, default: str, /) -> str:
        """The same, and the default of a sample that has no group."""
        ...


class Clusters:
    """Groups of samples, by the ids of the samples."""

    def __init__(self) -> None:
        self._ids = Positions()
        self._numbers = array("i")
        self._number_of: dict[str, int] = {}
        self._names: list[str] = []

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, sample_id: str, /) -> str:
        position = self._position_of(sample_id)
        if position is None:
            raise KeyError(sample_id)
        return self._names[self._numbers[position]]

    def __contains__(self, sample_id: str, /) -> bool:
        return self._position_of(sample_id) is not None

    def get(self, sample_id: str, default: str, /) -> str:
        """The name of the sample's group; the default if it has none."""
        position = self._position_of(sample_id)
        return default if position is None else self._names[self._numbers[position]]

    def add(self, sample_id: str, group: str) -> None:
        """The group of one more sample."""
        number = self._number_of.setdefault(group, len(self._names))
        if number == len(self._names):
            self._names.append(group)
        self._ids.append(sample_id)
        self._numbers.append(number)

    @cached_property
    def _position_of(self) -> Callable[[str], int | None]:
        return self._ids.finder()


def clusters_sha256(sample_ids: Iterable[str], group_of: GroupOf) -> str:
    """Sha256 (hexadecimal) of the groups of these samples, whatever their order.

    It is the `canonical_sha256` of a dictionary of groups by ids, without the dictionary and without its text.
    """
    whole = hashlib.sha256(b"{")
    for place, sample_id in enumerate(sorted(sample_ids)):
        entry = f"{json.dumps(sample_id)}:{json.dumps(group_of[sample_id])}"
        whole.update(f",{entry}".encode() if place else entry.encode())
    whole.update(b"}")
    return whole.hexdigest()
