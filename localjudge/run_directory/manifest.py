"""`manifest.json`: what a run measured, with what, and a short signature.

    {
      "schema_version": 1,
      "signature": "judge:3f9a1c2e|data:77b0d4aa",
      "judge": {"engine": {...}, "metrics": {...}, "threshold": 0.5, ...},
      "data": {"sha256": "77b0d4aa...", "rows": 306},
      "environment": {"sources": [...], "settings": {...}, "sessions": [...], ...}
    }

`judge` and `data` can change a number, and are signed (`localjudge.run_directory.identity`); the
`environment` cannot (`localjudge.run_directory.environment`).

How the samples were chosen decides the kind of the intervals:

    all of the data, the first N, a random N     ordinary intervals
    stopped by scores                            confidence sequences, valid whenever scores stop
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import ConfigDict, Field

from localjudge.dataset.dataset import Shard
from localjudge.errors import InputError, RunDirectoryError
from localjudge.metrics import catalog
from localjudge.metrics.criterion import Criterion, rubrics
from localjudge.metrics.metric import Metric
from localjudge.run_directory.differences import differences, format_differences, other_differences
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.environment import Environment
from localjudge.run_directory.identity import (
    DataIdentity,
    JudgeIdentity,
    card_of_jury,
    signature,
)
from localjudge.types import JudgeCard, Record
from localjudge.words import option

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from localjudge.stats.interval import Mean


MANIFEST_VERSION = 1


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
