"""Check that the files of a run are unchanged and belong together.

Their checksums are in manifest.json. Only `verify` detects a file that was changed together with
its checksum.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from localjudge import model_registry
from localjudge.errors import RunDirectoryError
from localjudge.run_directory.directory import excerpt, file_sha256
from localjudge.run_directory.identity import signature
from localjudge.run_directory.manifest import Manifest
from localjudge.run_directory.summary import SUMMARY, Summary

_VERIFY = "to find the changed parts: localjudge verify"


def check_files(
    directory: Path, summary: Summary, manifest: Manifest, row_files: Iterable[str]
) -> None:
    """Raise RunDirectoryError unless the files of a finished run are unchanged and fit together."""
    comparisons = chain(_compare_summary(summary, manifest), _compare_manifest(manifest))
    for name, value, in_manifest in comparisons:
        if value != in_manifest:
            problem = f"{name}: {excerpt(value)}, but {excerpt(in_manifest)} in manifest.json"
            raise RunDirectoryError(
                f"the files in {directory} do not belong to one run: {problem}",
                hint=_VERIFY,
            )
    for name in (SUMMARY, *row_files):
        file = directory / name
        if file_sha256(file) != manifest.environment.files.get(name):
            problem = "was changed: its sha256 differs from manifest.json"
            raise RunDirectoryError(f"{file} {problem}", hint=_VERIFY)


def _compare_summary(summary: Summary, manifest: Manifest) -> Iterator[tuple[str, object, object]]:
    """Yield what summary and manifest both state, with both values."""
    judge = manifest.judge
    yield "signature", summary.signature, manifest.signature
    yield "threshold", summary.threshold, judge.threshold
    yield "thresholds", summary.thresholds, judge.thresholds
    yield "number of samples", summary.samples, manifest.data.rows
    yield "metrics", sorted(summary.metrics), sorted(judge.metrics)
    yield "sha256 of the judge", summary.judge.sha256, judge.engine.model_sha256
    if not summary.judge.caution:
        caution = _expected_caution(summary, manifest)
        yield "caution about the judge", summary.judge.caution, caution


def _compare_manifest(manifest: Manifest) -> Iterator[tuple[str, object, object]]:
    """Yield the parts of a manifest with the checksums that it states for them."""
    sums = {}
    for name, metric in manifest.judge.metrics.items():
        if metric.criterion_sha256:
            sums[name] = metric.criterion_sha256
    criteria = {name: criterion.sha256 for name, criterion in manifest.criteria.items()}
    yield "criteria", criteria, sums
    calibrations = {}
    for calibration in manifest.environment.settings.calibration:
        calibrations[calibration.question] = calibration.sha256
    yield "calibrations", calibrations, manifest.judge.calibrations
    parts = signature(manifest.judge, manifest.data)
    yield "signature of its parts", parts, manifest.signature


def _expected_caution(summary: Summary, manifest: Manifest) -> str | None:
    if manifest.judge.jury:
        return manifest.card.caution
    if model_registry.packaged_as(str(summary.judge.sha256)) is None:
        return None
    return manifest.card.caution
