"""The unsigned part of a manifest: everything that cannot change a number.

It has the origin of judge and data, the settings, the processes that worked on the run, and the
machine.
"""

import os
import platform
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, FiniteFloat, NonNegativeInt, model_validator

from localjudge.metrics.criterion import Criterion, read_criteria
from localjudge.resources import criterion_files
from localjudge.run_directory.calibration import Calibration, read_calibrations, saved_calibrations
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.identity import DataIdentity, ManifestPart, package_versions
from localjudge.types import Record
from localjudge.words import Setting, numbered


class SettingsOfResults(Record):
    """Settings that are also used without a judge. Each field's docstring is its help."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    criteria: Annotated[
        tuple[Criterion, ...],
        Setting(
            "Scoring",
            metavar="FILE",
            flag="--criterion",
            path_role="read",
            bundled=criterion_files,
            read=read_criteria,
        ),
    ] = Field(default=(), strict=False)
    """Your own question as a metric: a file, or formal_register, names_its_source, refuses."""
    calibration: Annotated[
        tuple[Calibration, ...],
        Setting(
            "Scoring",
            metavar="NAME|FILE",
            path_role="read",
            bundled=saved_calibrations,
            read=read_calibrations,
        ),
    ] = Field(default=(), strict=False)
    """A calibration, by name or file: its threshold (and weights of several judges) are for the
    metrics that ask its question."""
    max_failed: Annotated[int | None, Setting()] = Field(default=None, ge=0)
    """Failed samples tolerated per metric before its mean is withheld. Default: 1 % of the samples.
    """
    cluster_by: Annotated[str | None, Setting("Data", metavar="COLUMN")] = Field(
        default=None, min_length=1
    )
    """Column that groups samples, such as a document: intervals are then over the groups."""
    limit: Annotated[int | None, Setting()] = Field(default=None, ge=1)
    """Use only the first N samples."""
    sample: Annotated[int | None, Setting("Data", everyday=True)] = Field(default=None, ge=1)
    """Use N samples drawn at random by id; a larger N includes the samples of a smaller N."""
    seed: Annotated[int, Setting()] = 0
    """Seed of the random draw."""
    shard: Annotated[str | None, Setting("Data", metavar="I/N")] = None
    """Use part I of N, by the ids of the samples: several processes judge one part each, and a run
    that reuses all parts is the whole run."""
    until: Annotated[tuple[str, ...], Setting("Evidence", metavar="GATE", stops=True)] = Field(
        default=(), strict=False
    )
    """Gates: judge samples in random order, and stop when each of them is decided."""


class StoredSettings(SettingsOfResults, ManifestPart, extra="allow", strict=True):
    """The settings of a run in its manifest."""


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


@dataclass(frozen=True)
class Origin:
    """Answers or labels of a run from before its last command.

    `count` of `total` are from the run or annotator `name`.
    """

    kind: Literal["reused", "stored", "labels"]
    count: int
    total: int
    name: str

    @property
    def is_notable(self) -> bool:
        """Whether this is more than some answers by an earlier command, such as a dry run."""
        return self.kind != "stored" or self.count >= self.total

    def __str__(self) -> str:
        if self.kind == "reused":
            return f"{self.count:,} of {self.total:,} answers were reused from {self.name}"
        if self.kind == "stored" and self.count > self.total:  # it goes on
            return f"{numbered(self.count, 'answer')} stored by earlier commands"
        if self.kind == "stored":
            return f"{self.count:,} of {self.total:,} answers were stored by earlier commands"
        return f"{numbered(self.count, 'label')} of {self.name} stored before the last command"


class Environment(ManifestPart):
    """Everything that cannot change a number: origin of judge and data, settings, processes.

    `skipped_places` are the places of the first skipped rows. `source_sha256` are the checksums of
    `sources` that are files, in their order. `shard_of` is the data of all shards, `drawn_from` the
    data of a stopped run. `evidence` has everything that affects the evidence of verdicts: finder,
    version and language. `columns_sha256` covers the columns of the data that are not fields;
    results can be sliced by them.
    """

    judge: str | None = None
    judges: tuple[str, ...] = Field(default=(), strict=False)
    sources: tuple[str, ...] = Field(default=(), strict=False)
    source_sha256: tuple[str, ...] = Field(default=(), strict=False)
    samples_read: NonNegativeInt
    skipped_rows: NonNegativeInt = 0
    skipped_places: tuple[str, ...] = Field(default=(), strict=False)
    mapping: dict[str, str] = Field(default_factory=dict)
    settings: StoredSettings
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

    @property
    def seconds_per_verdict(self) -> float | None:
        """The judge's seconds per verdict over all finished processes."""
        asked = sum(session.asked or 0 for session in self.sessions)
        efforts = [session.effort for session in self.sessions if session.effort]
        seconds = sum(effort.seconds_total or 0 for effort in efforts)
        if not asked or not seconds:
            return None
        return seconds / asked

    @property
    def origins(self) -> list[Origin]:
        """Sources of the answers and labels from before the last command."""
        origins: list[Origin] = []
        answers = self.answers or AnswersUsed(asked=0, reused={})
        reused = sum(answers.reused.values())
        total = answers.asked + reused
        for source, count in answers.reused.items():
            origins.append(Origin("reused", count, total, excerpt(source)))
        if self.sessions:
            last = self.sessions[-1]
            stored = last.answers_before - reused
            if last.asked is not None:  # the last command may have reused some itself
                stored = answers.asked - last.asked
            if stored > 0:
                origins.append(Origin("stored", stored, total, ""))
            for name, count in last.labels_before.items():
                origins.append(Origin("labels", count, count, excerpt(name)))
        return origins


def all_versions() -> dict[str, str]:
    """Return the versions of Python and the packages."""
    return {"python": platform.python_version(), **package_versions()}


def host() -> dict[str, Any]:
    return {
        **platform.uname()._asdict(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
    }
