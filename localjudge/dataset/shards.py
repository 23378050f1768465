"""Shards of a data set: each sample belongs to the shard that its id decides."""

import hashlib
import re
from typing import NamedTuple, Self

from localjudge.errors import InputError
from localjudge.words import option_name

_FORM = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


class Shard(NamedTuple):
    """Shard `number` (from 1) of `of` shards."""

    number: int
    of: int

    @classmethod
    def read(cls, text: str) -> Self:
        match = _FORM.fullmatch(text)
        if match:
            number, count = map(int, match.groups())
            if 1 <= number <= count:
                return cls(number, count)
        raise InputError(
            f"{option_name('shard')} must be I/N with I from 1 to N, got {text!r:.80}",
            hint="the second of four shards is 2/4",
        )

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def shard_number(sample_id: str, count: int) -> int:
    """Return the shard (from 1) of a sample, of `count` shards."""
    return int.from_bytes(id_digest(f"shard|{sample_id}")) % count + 1


def id_digest(text: str) -> bytes:
    """Return the sha256 of a text with ids, which may contain lone surrogates."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
