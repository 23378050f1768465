"""The unsigned part of a manifest: everything that cannot change a number.

It has the origin of judge and data, the settings that are used without a judge, the processes that
worked on the run, and the machine.
"""

import os
import platform
from typing import Any, Self

from pydantic import Field, FiniteFloat, NonNegativeInt, model_validator

from localjudge.metrics.criterion import Criterion
from localjudge.run_directory.calibration import Calibration
from localjudge.run_directory.identity import DataIdentity, package_versions
from localjudge.run_directory.manifest_part import ManifestPart


class KeptSettings(ManifestPart):
    """Settings of a run that are used without a judge."""

    max_failed: NonNegativeInt | None = None
    cluster_by: str | None = None
    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    shard: str | None = None
    until: tuple[str, ...] = Field(default=(), strict=False)
    criteria: tuple[Criterion, ...] = Field(default=(), strict=False)
    calibration: tuple[Calibration, ...] = Field(default=(), strict=False)


class Effort(ManifestPart):
    """Resources used by a process."""

    seconds_total: FiniteFloat | None = Field(default=None, ge=0)


class Session(ManifestPart):
    """A process that worked on a run, with the answers and labels (by annotator) at its start.

    `reused_versions` are the versions of each run with reused answers.
    """

    started: str = ""
    versions: dict[str, str] = Field(default_factory=dict)
    reused_versions: dict[str, dict[str, str]] = Field(default_factory=dict)
    answers_before: NonNegativeInt = 0
    labels_before: dict[str, NonNegativeInt] = Field(default_factory=dict)
    finished: str | None = None
    asked: NonNegativeInt | None = None
    effort: Effort | None = None


class IndexLevel(ManifestPart):
    """Level of a pandas index."""

    column: str
    name: str | None
    dtype: str


class AnswersUsed(ManifestPart):
    """Number of requested answers, and of reused answers by source."""

    asked: int
    reused: dict[str, int]


class Environment(ManifestPart):
    """Everything that cannot change a number: origin of judge and data, settings, processes.

    `shard_of` is the data of all shards, `drawn_from` the data of a stopped run. `evidence` has
    everything that affects the evidence of verdicts: finder, version and language.
    `columns_sha256` covers the columns of the data that are not fields; results can be sliced by
    them.
    """

    judge: str | None = None
    judges: tuple[str, ...] = Field(default=(), strict=False)
    sources: tuple[str, ...] = Field(default=(), strict=False)
    samples_read: NonNegativeInt
    skipped_rows: NonNegativeInt = 0
    mapping: dict[str, str] = Field(default_factory=dict)
    settings: KeptSettings
    shard_of: DataIdentity | None = None
    index: tuple[IndexLevel, ...] = Field(default=(), strict=False)
    stopped: str | None = None
    drawn_from: DataIdentity | None = None
    host: dict[str, Any] = Field(default_factory=dict)
    sessions: tuple[Session, ...] = Field(strict=False)
    answers: AnswersUsed | None = None
    evidence: dict[str, str | int] | None = None
    columns_sha256: str | None = None
    files: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _require_whole_of_shard(self) -> Self:
        if self.settings.shard is not None and self.shard_of is None:
            raise ValueError("shard_of is missing, so the data of this shard is unknown")
        return self


def all_versions() -> dict[str, str]:
    """Return the versions of Python and the packages."""
    return {"python": platform.python_version(), **package_versions()}


def host() -> dict[str, Any]:
    return {
        **platform.uname()._asdict(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
    }
