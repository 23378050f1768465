"""What `verify` found last, in a file of the run: when that was, and whether the run is still as it was then.

    verification.json   {"result": "bit-identical", "when": "2026-11-22T09:14:03+00:00", "asked_again": 35, ...}

It names the checksum of the manifest, which has those of the result files, so that a run that was written again does
not count as verified. It also has the number of rows in the chain of labels and the sha256 of the last one, as of the
last successful verification: they tell whether rows were changed, removed or replaced since. Nothing signs this file:
somebody who writes labels and this file anew is not detected.
"""

import os
import platform
from pathlib import Path
from typing import Literal

from localjudge.record.directory import MANIFEST, read_object, validated
from localjudge.record.label_rows import START, LabelFile, now
from localjudge.record.run import file_sha256
from localjudge.resources import write_output
from localjudge.types import Record

Result = Literal["bit-identical", "same verdicts", "different"]
VERIFICATION = "verification.json"


class VerifiedLabels(Record):
    """How many rows of labels there were `when` they were verified, and the sha256 of the last one."""

    rows: int
    head: str
    when: str

    def begin(self, labels: LabelFile) -> bool:
        """Whether the labels begin with them."""
        return len(labels.rows) >= self.rows and (START, *labels.digests)[self.rows] == self.head


class LastVerification(Record):
    """The file `verification.json`: `asked_again` of the `stored` answers were asked for again on this `machine`."""

    schema_version: int = 1
    result: Result
    when: str
    asked_again: int
    stored: int
    machine: str
    manifest_sha256: str
    labels: VerifiedLabels | None = None

    def is_of(self, directory: Path) -> bool:
        """Whether the run in the directory is still the one that was verified."""
        return self.manifest_sha256 == file_sha256(directory / MANIFEST)


def keep_verification(
    directory: Path, result: Result, *, asked_again: int, stored: int, labels: VerifiedLabels | None = None
) -> None:
    """Write it. Raises InputError (OutOfResource where there is no room) if the directory cannot be written."""
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
    """What was found last; None if nobody has verified the run. Raises RunDirectoryError for another file."""
    path = directory / VERIFICATION
    return validated(LastVerification, read_object(path), str(path)) if os.path.lexists(path) else None
