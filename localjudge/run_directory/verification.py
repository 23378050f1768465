"""Store and read the result of the last `verify` in `verification.json`."""

import os
import platform
from pathlib import Path
from typing import Literal

from localjudge.resources import write_output
from localjudge.run_directory.directory import MANIFEST, file_sha256, read_object, validated
from localjudge.run_directory.label_rows import now
from localjudge.types import Record

Result = Literal["bit-identical", "same verdicts", "different"]
VERIFICATION = "verification.json"


class VerifiedLabels(Record):
    """The labels at a verification: the rows, bytes (`size`) and sha256 of `labels.jsonl`.

    `drawings_sha256` is the sha256 of the settings of their drawings.
    """

    rows: int
    size: int
    sha256: str
    drawings_sha256: str
    when: str


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


def keep_verification(
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
    write_output(directory / VERIFICATION, [f"{verification.model_dump_json(indent=2)}\n".encode()])


def last_verification(directory: Path) -> LastVerification | None:
    path = directory / VERIFICATION
    return (
        validated(LastVerification, read_object(path), str(path)) if os.path.lexists(path) else None
    )
