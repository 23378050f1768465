"""What makes two samples the same: their content, not their place in a file.

    content_hash   sha256 of one sample without its id
    fingerprint    sha256 of the sorted hashes of all samples with their ids

so neither the order of the rows nor the format of the file moves either. Fields that are null and defaults count as
absent, so a field that is added to `Sample` later moves neither.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from localjudge.types import Sample

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def content_hash(sample: Sample) -> str:
    """Sha256 (hexadecimal) of all that the sample says, its id aside."""
    return hash_of(sample.model_dump(exclude={"id"}, exclude_defaults=True)).hex()


def sample_hash(sample: Sample) -> bytes:
    """Sha256 of all that the sample says, as `fingerprint_of` takes it."""
    return hash_of(sample.model_dump(exclude_defaults=True))


def fingerprint(samples: Iterable[Sample]) -> str:
    """Sha256 (hexadecimal) of the samples with their ids, whatever their order. 32 bytes of each are held."""
    return fingerprint_of(sorted(map(sample_hash, samples)))


def fingerprint_of(ordered: Iterable[bytes]) -> str:
    """The fingerprint of samples by what `hash_of` gives for each, in ascending order."""
    whole = hashlib.sha256(b"[")
    for position, digest in enumerate(ordered):
        whole.update(b'%s"%s"' % (b"," if position else b"", digest.hex().encode()))
    whole.update(b"]")
    return whole.hexdigest()


def canonical(fields: Mapping[str, Any]) -> str:
    """Fields of a sample (without nulls and defaults) as JSON that is the same for the same content."""
    return _ENCODER.encode(fields)


def hash_of(fields: Mapping[str, Any]) -> bytes:
    """Sha256 of what the fields say. An empty text says nothing: CSV cannot tell it from a null."""
    return hashlib.sha256(canonical({name: value for name, value in fields.items() if value != ""}).encode()).digest()


class Hashes:
    """Hashes of one length in bytes, without an object for each."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._bytes = bytearray()

    def __len__(self) -> int:
        return len(self._bytes) // self._size

    def __getitem__(self, position: int) -> bytes:
        return bytes(self._bytes[position * self._size : (position + 1) * self._size])

    def append(self, one: bytes) -> None:
        """Add a hash, of which as many bytes are kept as were agreed."""
        self._bytes += one[: self._size]

    def replace(self, position: int, one: bytes) -> None:
        """Put another hash in the place of one."""
        self._bytes[position * self._size : (position + 1) * self._size] = one[: self._size]

    def array(self) -> "npt.NDArray[np.bytes_]":
        """The hashes in their order, (n,). Nothing can be added while it is held: it is no copy."""
        import numpy as np

        # NumPy leaves the zero bytes at the end of a value out when it gives it, and knows them when it compares.
        return np.frombuffer(self._bytes, dtype=f"S{self._size}")

    def sorted(self) -> Iterator[bytes]:
        """The hashes in ascending order."""
        ordered = self._ordered().data.cast("B")
        return (bytes(ordered[start : start + self._size]) for start in range(0, len(ordered), self._size))

    def repeated(self) -> frozenset[bytes]:
        """Those that are there more than once."""
        return frozenset(one for one, other in pairwise(self.sorted()) if one == other)

    def finder(self) -> Callable[[bytes], bool]:
        """Tells whether a hash is there."""
        ordered = self._ordered()

        def has(one: bytes) -> bool:
            place = int(ordered.searchsorted(one[: self._size]))
            return place < len(ordered) and bool(ordered[place] == one[: self._size].rstrip(b"\0"))

        return has

    def _ordered(self) -> "npt.NDArray[np.bytes_]":
        import numpy as np

        return np.sort(self.array())
