"""Write and read the files of a run.

    manifest.json       first, and again at the end with the checksums of the other files
    NAME.part           rows of scores, verdicts and evidence, as samples are judged
    so-far.json         the bytes of each part file up to the last complete sample
    summary.json        last: a run with it is finished
    verification.json   by `verify`, after that

Every function that reads raises RunDirectoryError for invalid content.

The checksums in manifest.json show that files are unchanged and belong together. Only `verify`
detects a file that was changed together with its checksum.
"""

import hashlib
import json
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import NonNegativeInt

from localjudge import model_registry
from localjudge.errors import ChangedFile, RunDirectoryError
from localjudge.resources import write_output
from localjudge.run_directory.directory import (
    MANIFEST,
    PartFile,
    excerpt,
    file_sha256,
    now,
    read_object,
    remove_file,
    validated,
    write_file,
)
from localjudge.run_directory.identity import signature
from localjudge.run_directory.label_rows import LABELS, hash_first_labels
from localjudge.run_directory.manifest import MANIFEST_VERSION, Manifest
from localjudge.run_directory.result_rows import (
    EVIDENCE,
    SCORES,
    VERDICTS,
    Evaluation,
    EvidenceRow,
    json_line,
    row_files,
    score_rows,
)
from localjudge.run_directory.summary import SUMMARY, SUMMARY_VERSION, Summary
from localjudge.types import Record
from localjudge.words import numbered

_VERIFY = "to find the changed parts: localjudge verify"

Result = Literal["bit-identical", "same verdicts", "different"]
VERIFICATION = "verification.json"
_SO_FAR = "so-far.json"
_Object = TypeVar("_Object", Manifest, Summary)


class VerifiedLabels(Record):
    """The labels at a verification: the rows, bytes (`size`) and sha256 of `labels.jsonl`.

    `drawings_sha256` is the sha256 of the settings of their drawings. `first` is the time of the
    first verification that is known, from which on some rows are known to be unchanged.
    """

    rows: int
    size: int
    sha256: str
    drawings_sha256: str
    when: str
    first: str | None = None


class LastVerification(Record):
    """`verification.json`: `asked_again` of the `stored` answers were repeated on `machine`.

    The checksum of the manifest, which contains the checksums of the result files, identifies the
    run.
    """

    schema_version: int = 1
    result: Result
    when: str
    asked_again: int
    stored: int
    machine: str
    manifest_sha256: str
    labels: VerifiedLabels | None = None

    def is_about(self, directory: Path) -> bool:
        return self.manifest_sha256 == file_sha256(directory / MANIFEST)


class RowsSoFar(Record):
    """The file `so-far.json`."""

    sizes: dict[str, NonNegativeInt]


class ResultFiles:
    """Writes the row files as results arrive, and the summary at the end.

    Without evidence, a file of evidence that is already there is removed.
    """

    def __init__(self, directory: Path, *, with_evidence: bool) -> None:
        self._directory = directory
        remove_file(directory / _SO_FAR)
        names = row_files(with_evidence=with_evidence)
        self._parts = {name: PartFile(directory / name) for name in names}

    def add(
        self, evaluations: Sequence[Evaluation], evidence: Iterable[EvidenceRow] | None
    ) -> None:
        for name, lines in row_lines(evaluations, evidence).items():
            self._parts[name].write(lines)
        so_far = RowsSoFar(sizes={name: part.size for name, part in self._parts.items()})
        write_file(self._directory / _SO_FAR, so_far.model_dump_json(), durable=False)

    def finish(self, summary: Summary, manifest: Manifest) -> Manifest:
        """Replace the previous files, the summary last.

        Returns the manifest with their checksums.
        """
        text = object_text(summary.model_dump(mode="json"))
        files = {name: part.sha256.hexdigest() for name, part in self._parts.items()}
        files[SUMMARY] = hashlib.sha256(text.encode()).hexdigest()
        manifest = manifest.with_environment(files=files)
        for part in self._parts.values():
            part.finish()
        if EVIDENCE not in self._parts:
            remove_file(self._directory / EVIDENCE)
        write_manifest(self._directory, manifest)
        write_file(self._directory / SUMMARY, text)
        remove_file(self._directory / _SO_FAR)
        return manifest

    def close(self) -> None:
        """Close all parts, also if one cannot be closed because the disk is full."""
        with ExitStack() as stack:
            for part in self._parts.values():
                stack.callback(part.close)


def rows_so_far(directory: Path) -> RowsSoFar | None:
    file = directory / _SO_FAR
    if not os.path.lexists(file):
        return None
    return validated(RowsSoFar, read_object(file), str(file))


def write_manifest(directory: Path, manifest: Manifest) -> None:
    write_file(directory / MANIFEST, object_text(manifest.model_dump(mode="json")))


def row_lines(
    evaluations: Sequence[Evaluation],
    evidence: Iterable[EvidenceRow] | None,
    *,
    with_expected: bool = True,
) -> dict[str, list[str]]:
    """Return the lines of each row file.

    `evidence` is None for a run without. Only runs of earlier versions are without `expected`.
    """
    lines: dict[str, list[str]] = {SCORES: [], VERDICTS: []}
    for score in score_rows(evaluations):
        values = dict(vars(score))
        if not with_expected:
            del values["expected"]
        lines[SCORES].append(json_line(values))
    for evaluation in evaluations:
        lines[VERDICTS] += [json_line(verdict.values) for verdict in evaluation.verdicts]
    if evidence is not None:
        lines[EVIDENCE] = [json_line(vars(row)) for row in evidence]
    return lines


def object_text(values: Mapping[str, Any]) -> str:
    """Return the text of a file that is one JSON object."""
    return json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_manifest(directory: Path) -> Manifest | None:
    """Return the manifest in a directory, or None without one. Raises RunDirectoryError."""
    file = directory / MANIFEST
    if not os.path.lexists(file):
        return None
    return _read_object(file, Manifest, MANIFEST_VERSION)


def read_summary(directory: Path) -> Summary:
    return _read_object(directory / SUMMARY, Summary, SUMMARY_VERSION)


def _read_object(file: Path, kind: type[_Object], schema_version: int) -> _Object:
    content = read_object(file)
    if content.get("schema_version") != schema_version:
        version = excerpt(content.get("schema_version"))
        raise RunDirectoryError(
            f"{file} has schema version {version}, expected {schema_version}",
            hint="read it with the version of localjudge that wrote it",
        )
    return validated(kind, content, str(file))


def write_verification(
    directory: Path,
    result: Result,
    *,
    asked_again: int,
    stored: int,
    labels: VerifiedLabels | None = None,
) -> None:
    verification = LastVerification(
        result=result,
        when=now(),
        labels=labels,
        asked_again=asked_again,
        stored=stored,
        machine=f"{platform.system()} {platform.machine()}",
        manifest_sha256=file_sha256(directory / MANIFEST),
    )
    _write_verification(directory, verification)


def write_verified_labels(directory: Path, labels: VerifiedLabels) -> None:
    """Write that the labels in the directory of two runs were verified."""
    _write_verification(directory, labels)


def _write_verification(directory: Path, verified: Record) -> None:
    write_output(directory / VERIFICATION, [f"{verified.model_dump_json(indent=2)}\n".encode()])


def last_verification(directory: Path) -> LastVerification | None:
    """Return the result of the last `verify`, or None without one. Raises RunDirectoryError."""
    path = directory / VERIFICATION
    if not os.path.lexists(path):
        return None
    return validated(LastVerification, read_object(path), str(path))


def are_altered(directory: Path, verified: VerifiedLabels) -> bool:
    """Return whether the label file does not begin with the rows that were verified.

    Raises RunDirectoryError for a file that cannot be read.
    """
    if not verified.rows:
        return False
    if not os.path.lexists(directory / LABELS):
        return True
    return hash_first_labels(directory, verified.size) != verified.sha256


def verified_labels(directory: Path) -> VerifiedLabels | None:
    """Return the labels that were verified last, None if there was no verification.

    The directory is one of a run, or of two runs with labels of both, whose file has only these.
    Raises RunDirectoryError for a file that is damaged.
    """
    path = directory / VERIFICATION
    if not os.path.lexists(path):
        return None
    content = read_object(path)
    if "sha256" in content:
        return validated(VerifiedLabels, content, str(path))
    return validated(LastVerification, content, str(path)).labels


def describe_altered_labels(directory: Path) -> str | None:
    """Say that `labels.jsonl` does not begin with the rows that were verified last, else None.

    The directory is one of a run, or of two runs with labels of both. A verification that cannot
    be read says nothing here; `verify` reports it.
    """
    try:
        verified = verified_labels(directory)
        if verified is None or not are_altered(directory, verified):
            return None
    except RunDirectoryError:
        return None
    rows = numbered(verified.rows, "row")
    return f"{LABELS} was altered: it differs from the {rows} verified on {verified.when}"


def check_files(directory: Path, summary: Summary, manifest: Manifest) -> None:
    """Raise RunDirectoryError unless the files of a finished run are unchanged and fit together."""
    for name, value, in_manifest in _list_stated_twice(summary, manifest):
        if value != in_manifest:
            problem = f"{name}: {excerpt(value)}, but {excerpt(in_manifest)} in manifest.json"
            raise RunDirectoryError(
                f"the files in {directory} do not belong to one run: {problem}",
                hint=_VERIFY,
            )
    for name in (SUMMARY, *row_files(with_evidence=manifest.environment.evidence is not None)):
        file = directory / name
        if file_sha256(file) != manifest.environment.files.get(name):
            raise ChangedFile(file, _VERIFY)


def _list_stated_twice(
    summary: Summary, manifest: Manifest
) -> Iterator[tuple[str, object, object]]:
    """Yield what the summary, or another part of the manifest, states as the manifest does."""
    judge = manifest.judge
    yield "signature", summary.signature, manifest.signature
    yield "threshold", summary.threshold, judge.threshold
    yield "thresholds", summary.thresholds, judge.thresholds
    yield "number of samples", summary.samples, manifest.data.rows
    yield "metrics", sorted(summary.metrics), sorted(judge.metrics)
    yield "sha256 of the judge", summary.judge.sha256, judge.engine.model_sha256
    if not summary.judge.caution:
        caution = manifest.card.caution
        if not judge.jury and model_registry.packaged_as(str(summary.judge.sha256)) is None:
            caution = None
        yield "caution about the judge", summary.judge.caution, caution
    checksums: dict[str, str] = {}
    for name, metric in judge.metrics.items():
        if metric.criterion_sha256:
            checksums[name] = metric.criterion_sha256
    criteria = {name: criterion.sha256 for name, criterion in manifest.criteria.items()}
    yield "criteria", criteria, checksums
    calibrations = manifest.environment.settings.calibration
    yield "calibrations", {each.question: each.sha256 for each in calibrations}, judge.calibrations
    yield "signature of its parts", signature(judge, manifest.data), manifest.signature
