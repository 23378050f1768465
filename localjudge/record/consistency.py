"""Whether the files of a run are those that it left, and of one run: by checksums, so that no row has to be looked at.

    manifest.json    signature = sha256 of its parts; criteria and calibrations by their checksums
         │           environment.files: sha256 of each of the others
    summary.json     signature, thresholds, metrics, number of samples and judge are those of the manifest
    scores.jsonl
    verdicts.jsonl

Someone who changes a file together with its checksum is not noticed here: `verify` asks the judge again, and works the
files out from the stored data and answers.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from localjudge.errors import RunDirectoryError
from localjudge.record.calibration import other_calibrations
from localjudge.record.judge_card import in_the_judge
from localjudge.record.kept_criteria import other_criteria
from localjudge.record.manifest import Manifest, signature
from localjudge.record.result_files import ROW_FILES, SUMMARY
from localjudge.record.summary import Summary
from localjudge.record.untrusted import open_regular, shown

_VERIFY = "`localjudge verify` says what in the files the stored answers do not give"


def check_files(directory: Path, summary: Summary, manifest: Manifest) -> None:
    """Raise RunDirectoryError, naming the first difference, if the files are not what the run left."""
    for problem in _differences(summary, manifest):
        raise RunDirectoryError(f"the files in {directory} are not of one run: {problem}", hint=_VERIFY)
    files = manifest.environment.get("files", {})
    for name in (SUMMARY, *ROW_FILES):
        if file_sha256(directory / name) != files.get(name):
            raise RunDirectoryError(
                f"{directory / name} was changed: its sha256 is not the one in manifest.json", hint=_VERIFY
            )


def file_sha256(path: Path) -> str:
    """Sha256 (hexadecimal) of a regular file. Raises RunDirectoryError if it cannot be read."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _differences(summary: Summary, manifest: Manifest) -> Iterator[str]:
    parts = {
        "signature": (summary.signature, manifest.signature),
        "threshold": (summary.threshold, manifest.judge["threshold"]),
        "thresholds": (summary.thresholds, manifest.judge.get("thresholds", {})),
        "number of samples": (summary.samples, manifest.data["rows"]),
        "metrics": (sorted(summary.metrics), sorted(manifest.judge["metrics"])),
    }
    for name, (in_summary, in_manifest) in parts.items():
        if in_summary != in_manifest:
            yield f"{name}: {shown(in_summary)} in summary.json, {shown(in_manifest)} in manifest.json"
    if manifest.signature != signature(manifest.judge, manifest.data):
        yield "the signature in manifest.json is not that of its parts"
    yield from other_criteria(manifest)
    yield from other_calibrations(manifest)
    yield from in_the_judge(summary.judge, manifest)
