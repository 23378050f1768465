"""Check that the files of a run are unchanged and belong together.

Their checksums are in manifest.json. Only `verify` detects a file that was changed together with
its checksum.
"""

from typing import TYPE_CHECKING

from localjudge import model_registry
from localjudge.errors import RunDirectoryError
from localjudge.run_directory.directory import excerpt, file_sha256
from localjudge.run_directory.identity import signature
from localjudge.run_directory.summary import SUMMARY

if TYPE_CHECKING:
    from localjudge.run_directory.run_record import RunRecord

_VERIFY = "to find the changed parts: localjudge verify"


def check_files(run: "RunRecord") -> None:
    """Raise RunDirectoryError unless the files of a finished run are unchanged and fit together."""
    _check_summary(run)
    _check_manifest(run)
    for name in (SUMMARY, *run.row_files):
        file = run.directory / name
        if file_sha256(file) != run.manifest.environment.files.get(name):
            problem = "was changed: its sha256 differs from manifest.json"
            raise RunDirectoryError(f"{file} {problem}", hint=_VERIFY)


def _check_summary(run: "RunRecord") -> None:
    """Raise RunDirectoryError if summary and manifest are of different runs."""
    summary = run.summary
    judge = run.manifest.judge
    caution = summary.judge.caution
    _require_equal(run, "signature", summary.signature, run.manifest.signature)
    _require_equal(run, "threshold", summary.threshold, judge.threshold)
    _require_equal(run, "thresholds", summary.thresholds, judge.thresholds)
    _require_equal(run, "number of samples", summary.samples, run.manifest.data.rows)
    _require_equal(run, "metrics", sorted(summary.metrics), sorted(judge.metrics))
    sha256 = judge.engine.model_sha256
    _require_equal(run, "sha256 of the judge", summary.judge.sha256, sha256)
    if not caution:
        _require_equal(run, "caution about the judge", caution, _expected_caution(run))


def _check_manifest(run: "RunRecord") -> None:
    """Raise RunDirectoryError if the manifest contradicts its checksums."""
    manifest = run.manifest
    sums = {}
    for name, metric in manifest.judge.metrics.items():
        if metric.criterion_sha256:
            sums[name] = metric.criterion_sha256
    criteria = {name: criterion.sha256 for name, criterion in manifest.criteria.items()}
    _require_equal(run, "criteria", criteria, sums)
    calibrations = {}
    for calibration in manifest.environment.settings.calibration:
        calibrations[calibration.question] = calibration.sha256
    _require_equal(run, "calibrations", calibrations, manifest.judge.calibrations)
    parts = signature(manifest.judge, manifest.data)
    _require_equal(run, "signature of its parts", parts, manifest.signature)


def _require_equal(run: "RunRecord", name: str, value: object, in_manifest: object) -> None:
    if value != in_manifest:
        problem = f"{name}: {excerpt(value)}, but {excerpt(in_manifest)} in manifest.json"
        raise RunDirectoryError(
            f"the files in {run.directory} do not belong to one run: {problem}",
            hint=_VERIFY,
        )


def _expected_caution(run: "RunRecord") -> str | None:
    if run.manifest.judge.jury:
        return run.manifest.card.caution
    packaged = model_registry.packaged_as(str(run.summary.judge.sha256))
    if packaged is None:
        return None
    return packaged.caution or None
