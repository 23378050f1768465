"""`manifest.json`: what a run measured, with what, and a short signature.

    {
      "schema_version": 1,
      "signature": "judge:3f9a1c2e|data:77b0d4aa",
      "judge": {"engine": {...}, "metrics": {...}, "threshold": 0.5, ...},
      "data": {"sha256": "77b0d4aa...", "rows": 306},
      "environment": {"sources": [...], "settings": {...}, "sessions": [...], ...}
    }

`judge` and `data` can change a number, and are signed (`localjudge.run_directory.identity`); the
`environment` cannot: the origin of judge and data, the settings, the processes that worked on the
run, and the machine.

How the samples were chosen decides the kind of the intervals:

    all of the data, the first N, a random N     ordinary intervals
    stopped by scores                            confidence sequences, valid whenever scores stop
"""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, FiniteFloat, NonNegativeInt, model_validator

from localjudge.dataset.dataset import Shard
from localjudge.errors import InputError, RunDirectoryError
from localjudge.metrics import catalog
from localjudge.metrics.criterion import Criterion, read_criteria, rubrics
from localjudge.metrics.metric import Metric
from localjudge.resources import criterion_files
from localjudge.run_directory.differences import differences, format_differences, other_differences
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.identity import (
    DataIdentity,
    JudgeIdentity,
    ManifestPart,
    card_of_jury,
    package_versions,
    signature,
)
from localjudge.run_directory.measured_judges import (
    Calibration,
    read_calibrations,
    saved_calibrations,
)
from localjudge.types import JudgeCard, Record
from localjudge.words import Setting, numbered, option

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from localjudge.stats.interval import Mean


MANIFEST_VERSION = 1


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
    def seconds_per_question(self) -> float | None:
        """The judge's seconds per question over all finished processes."""
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


class Sampling(Record):
    """Number of samples of a run and of the `whole` data, and how they were chosen.

    `max_cluster_size`, only if scores stopped the run, is the size of the whole data's largest
    group (1 without groups).
    """

    samples: int = Field(default=0, ge=0)
    whole: int = Field(default=0, ge=0)
    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    shard: str | None = None
    max_cluster_size: int | None = None

    @classmethod
    def of(cls, settings: Record, samples: int, whole: int, max_cluster_size: int | None) -> Self:
        chosen = settings.model_dump(include={"limit", "sample", "seed", "shard"})
        return cls(samples=samples, whole=whole, max_cluster_size=max_cluster_size, **chosen)

    @property
    def is_part(self) -> bool:
        return self.samples != self.whole

    @property
    def optional_stopping(self) -> bool:
        return self.max_cluster_size is not None

    @property
    def by_groups(self) -> bool:
        return (self.max_cluster_size or 1) > 1

    def joined(self, other: "Sampling") -> "Sampling":
        """Return the sampling of samples paired across two runs."""
        sizes = filter(None, (self.max_cluster_size, other.max_cluster_size))
        return self.model_copy(update={"max_cluster_size": max(sizes, default=None)})

    def interval(self, values: "ArrayLike", clusters: Sequence[int] | None = None) -> "Mean":
        """Return the interval of the mean of `values` (n,) in [0, 1]."""
        from localjudge.stats.interval import mean_interval
        from localjudge.stats.repeated_looks import sequence_interval

        if self.max_cluster_size is None:
            return mean_interval(values, clusters=clusters)
        return sequence_interval(values, clusters=clusters, largest=self.max_cluster_size)

    def difference(
        self, before: "ArrayLike", after: "ArrayLike", clusters: "ArrayLike | None"
    ) -> "Mean":
        """Return the interval of the mean difference of paired scores, after minus before."""
        from localjudge.stats.paired import paired_difference

        return paired_difference(
            before, after, clusters=clusters, max_cluster_size=self.max_cluster_size
        )

    def __str__(self) -> str:
        """`10 of 306 samples, drawn with seed 0`."""
        counts = f"{self.samples:,} of {self.whole:,} samples"
        if self.shard is not None:
            if self.limit is not None:
                shard_source = f" of the first {self.limit:,}"
            elif self.sample is not None:
                shard_source = f" of {self.sample:,} drawn with seed {self.seed}"
            else:
                shard_source = ""
            return f"{counts}, shard {self.shard}{shard_source}"
        if self.sample is not None:
            return f"{counts}, drawn with seed {self.seed}"
        return f"the first {counts}"


class Manifest(Record):
    """The file `manifest.json`."""

    model_config = ConfigDict(extra="ignore")

    schema_version: int = MANIFEST_VERSION
    signature: str
    judge: JudgeIdentity
    data: DataIdentity
    environment: Environment

    @classmethod
    def of(cls, judge: JudgeIdentity, data: DataIdentity, environment: Mapping[str, Any]) -> Self:
        validated = Environment.model_validate(environment)
        return cls(signature=signature(judge, data), judge=judge, data=data, environment=validated)

    @property
    def card(self) -> JudgeCard:
        if self.judge.jury:
            return card_of_jury(self.judge.jury, self.environment.judge)
        engine = self.judge.engine
        name = engine.model or Path(self.environment.judge or engine.engine).stem
        return engine.card(name, self.judge.judge)

    @property
    def whole_data(self) -> DataIdentity:
        return self.environment.drawn_from or self.data

    @property
    def sampling(self) -> Sampling:
        return Sampling.of(
            self.environment.settings,
            self.data.rows,
            self.environment.samples_read,
            self.data.max_cluster_size,
        )

    @property
    def shard(self) -> Shard | None:
        """The shard. Raises InputError if invalid."""
        name = self.environment.settings.shard
        if name is None:
            return None
        return Shard.read(name)

    @property
    def criteria(self) -> dict[str, Criterion]:
        return {criterion.name: criterion for criterion in self.environment.settings.criteria}

    @property
    def rubrics(self) -> frozenset[str]:
        return rubrics(self.criteria.values())

    def metric(self, name: str) -> Metric:
        """Return a metric of the run. Raises InputError if it is not installed."""
        if name in self.criteria:
            return self.criteria[name]
        if not catalog.is_ours(name) and name not in catalog.names():
            hint = "install its package, or in Python pass its object: metrics=[...]"
            raise InputError(f"the metric {excerpt(name)} of the run is not installed", hint=hint)
        return catalog.get(name)

    @property
    def versions(self) -> dict[str, str]:
        """Versions of Python and packages in the last process that worked on the run."""
        sessions = self.environment.sessions
        if not sessions:
            return {}
        return sessions[-1].versions

    def with_environment(self, **more: Any) -> Self:
        return self.model_copy(update={"environment": self.environment.changed(**more)})

    def refuse_other_run(self, directory: Path, existing: "Manifest") -> None:
        """Raise RunDirectoryError unless the `existing` run can continue as this one.

        Updated packages do not prevent it, except packages of the engine.
        """
        changes = differences(existing.whole_data, self.whole_data)
        changes += other_differences(existing.judge, self.judge)
        if changes:
            signatures = f"{excerpt(existing.signature)}, not {self.signature}"
            raise RunDirectoryError(
                f"{directory} belongs to another run ({signatures}):{format_differences(changes)}",
                hint=f"name another directory with {option('out')}, or omit it",
            )


def all_versions() -> dict[str, str]:
    """Return the versions of Python and the packages."""
    return {"python": platform.python_version(), **package_versions()}


def host() -> dict[str, Any]:
    return {
        **platform.uname()._asdict(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
    }
