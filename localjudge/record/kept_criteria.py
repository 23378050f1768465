"""The criteria that a manifest keeps, so that a run can be gone on with and verified without their files.

manifest.json   environment.settings.criteria      every word
                judge.metrics.NAME                 the checksum of them, in the signature
"""

from collections.abc import Iterator

from localjudge.errors import RunDirectoryError, UsageError
from localjudge.metrics.criterion import Criterion, rubrics
from localjudge.record.manifest import Manifest
from localjudge.record.untrusted import BY_HAND, shown


def kept_criteria(manifest: Manifest) -> dict[str, Criterion]:
    """The criteria by their names. Raises RunDirectoryError for what is none: no file is read that it may name."""
    kept = manifest.environment["settings"].get("criteria", [])
    if not isinstance(kept, list) or not all(isinstance(one, dict) for one in kept):
        raise RunDirectoryError("manifest.json cannot be read: criteria is not a list of them", hint=BY_HAND)
    try:
        criteria = [Criterion.model_validate(words, context="manifest.json: a criterion") for words in kept]
    except UsageError as error:
        raise RunDirectoryError(shown(error.message), hint=BY_HAND) from error
    return {criterion.name: criterion for criterion in criteria}


def kept_rubrics(manifest: Manifest) -> frozenset[str]:
    """Names of the run's metrics whose verdicts are levels. Raises RunDirectoryError as `kept_criteria` does."""
    return rubrics(kept_criteria(manifest).values())


def other_criteria(manifest: Manifest) -> Iterator[str]:
    """One line for each criterion that the run's metrics name and whose words are not kept, or are others."""
    kept = kept_criteria(manifest)
    for name, definition in manifest.judge["metrics"].items():
        sha256 = definition.get("criterion_sha256") if isinstance(definition, dict) else None
        if sha256 is not None and (name not in kept or kept[name].sha256 != sha256):
            yield f"criterion {shown(name)}: its words in manifest.json are not those of its checksum there"
