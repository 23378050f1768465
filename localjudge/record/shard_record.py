"""What the manifest of a shard says: which one it is, and of which data.

    settings.shard    2/4
    shard_of          sha256 and number of samples of the data that all four make

A shard is a run like any other: it is signed by its own samples, shown, verified and gone on with by itself.
"""

from pydantic import Field

from localjudge.dataset.part import Shard
from localjudge.errors import RunDirectoryError, UsageError
from localjudge.record.manifest import Manifest
from localjudge.record.untrusted import BY_HAND, shown, validated
from localjudge.types import Record


class ShardedData(Record):
    """The data that all shards make, by its fingerprint and its number of samples."""

    sha256: str
    rows: int = Field(ge=0)


def shard_of(manifest: Manifest) -> ShardedData:
    """What a shard is one of. Raises RunDirectoryError if its manifest does not say."""
    return validated(ShardedData, manifest.environment.get("shard_of"), "manifest.json: shard_of")


def shard_in(manifest: Manifest) -> Shard | None:
    """Which shard a run is; None if it is none. Raises RunDirectoryError if its manifest names one that cannot be."""
    named = manifest.environment["settings"].get("shard")
    if named is None:
        return None
    try:
        return Shard.read(str(named))
    except UsageError as error:
        raise RunDirectoryError(f"manifest.json: {shown(named)} is no shard", hint=BY_HAND) from error
