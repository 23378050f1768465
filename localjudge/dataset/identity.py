"""What makes two samples the same: their content, not their place in a file.

    content_hash   sha256 of one sample without its id
    fingerprint    sha256 of the sorted hashes of all samples with their ids

so neither the order of the rows nor the format of the file moves either. Fields that are null and defaults count as
absent, so a field that is added to `Sample` later moves neither.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from localjudge.types import Sample

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
