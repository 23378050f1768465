"""What makes two samples the same: their content, not their place in a file.

    content_hash   sha256 of one sample without its id
    fingerprint    sha256 of the sorted hashes of all samples with their ids

so neither the order of the rows nor the format of the file moves either. Fields that are null and defaults count as
absent, so a field that is added to `Sample` later moves neither.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

from localjudge.types import Sample

_SHOWN = 12


def content_hash(sample: Sample) -> str:
    """Sha256 (hexadecimal) of all that the sample says, its id aside."""
    return _hash(_content(sample, exclude={"id"}))


def fingerprint(samples: Iterable[Sample]) -> str:
    """Sha256 (hexadecimal) of the samples with their ids, whatever their order."""
    return _hash(sorted(_hash(_content(sample)) for sample in samples))


def complete_ids(samples: Sequence[Sample], missing: Sequence[bool]) -> list[Sample]:
    """Give the samples that are `missing` an id one that is made of their content: `row-` and 12 digits of the hash.

    Moving a row does not change its id. Rows with the same content are told apart by `-2`, `-3`, ... in their order.
    """
    taken = {sample.id for sample, lacks_id in zip(samples, missing, strict=True) if not lacks_id}
    candidates: dict[str, Iterator[str]] = {}
    completed = []
    for sample, lacks_id in zip(samples, missing, strict=True):
        if not lacks_id:
            completed.append(sample)
            continue
        name = f"row-{content_hash(sample)[:_SHOWN]}"
        numbered = candidates.setdefault(name, _numbered(name))
        identifier = next(candidate for candidate in numbered if candidate not in taken)
        completed.append(sample.model_copy(update={"id": identifier}))
    return completed


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}-{number}" for number in count(2))


def _content(sample: Sample, exclude: set[str] | None = None) -> dict[str, Any]:
    """What the sample says. An empty text says nothing: CSV cannot tell it from a null."""
    fields = sample.model_dump(exclude=exclude, exclude_defaults=True)
    return {name: value for name, value in fields.items() if value != ""}


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
