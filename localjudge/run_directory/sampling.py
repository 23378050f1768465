"""How the samples of a run were chosen, which decides the kind of its intervals.

all of the data, the first N, a random N     ordinary intervals
stopped by scores                            confidence sequences, valid whenever scores stop a run
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from pydantic import Field

from localjudge.types import Record

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from localjudge.stats.interval import Interval


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

    def interval(self, values: "ArrayLike", clusters: Sequence[int] | None = None) -> "Interval":
        """Return the interval of the mean of `values` (n,) in [0, 1]."""
        from localjudge.stats.interval import mean_interval
        from localjudge.stats.sequence import sequence_interval

        if self.max_cluster_size is None:
            return mean_interval(values, clusters=clusters)
        return sequence_interval(values, clusters=clusters, largest=self.max_cluster_size)

    def difference(
        self, before: "ArrayLike", after: "ArrayLike", clusters: "ArrayLike | None"
    ) -> "Interval":
        """Return the interval of the mean difference of paired scores, after minus before."""
        from localjudge.stats.paired import paired_difference

        return paired_difference(
            before, after, clusters=clusters, max_cluster_size=self.max_cluster_size
        )

    def __str__(self) -> str:
        """`10 of 306 samples, drawn with seed 0`."""
        counts = f"{self.samples:,} of {self.whole:,} samples"
        if self.shard is not None:
            return f"{counts}, shard {self.shard}{self._shard_source()}"
        if self.sample is not None:
            return f"{counts}, drawn with seed {self.seed}"
        return f"the first {counts}"

    def _shard_source(self) -> str:
        """Return which part of the data was divided into shards."""
        if self.limit is not None:
            return f" of the first {self.limit:,}"
        if self.sample is not None:
            return f" of {self.sample:,} drawn with seed {self.seed}"
        return ""
