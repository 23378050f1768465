"""`verification.json`: the result of the last `verify`."""

from pathlib import Path
from typing import Literal

from localjudge.run_directory.directory import MANIFEST, file_sha256
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
