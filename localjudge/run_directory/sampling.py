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
    from localjudge.stats.paired import PairedDifference


class Sampling(Record):
    """Number of samples of a run and of the `whole` data, and how they were chosen.

    `max_cluster_size`, only if scores stopped the run, is the size of the whole data's largest group (1
    without groups).
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
        chosen = {
            name: getattr(settings, name) for name in cls.model_fields if hasattr(settings, name)
        }
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
        draws = [each.max_cluster_size for each in (self, other) if each.max_cluster_size]
        return self.model_copy(update={"max_cluster_size": max(draws, default=None)})

    def interval(self, values: "ArrayLike", clusters: Sequence[int] | None = None) -> "Interval":
        """Return the interval of the mean of `values` (n,) in [0, 1]."""
        from localjudge.stats.interval import mean_interval
        from localjudge.stats.sequence import sequence_interval

        if self.max_cluster_size is None:
            return mean_interval(values, clusters=clusters)
        return sequence_interval(values, clusters=clusters, largest=self.max_cluster_size)

    def difference(
        self, before: "ArrayLike", after: "ArrayLike", clusters: "ArrayLike | None"
    ) -> "PairedDifference":
        from localjudge.stats.paired import paired_difference

        return paired_difference(
            before, after, clusters=clusters, max_cluster_size=self.max_cluster_size
        )

    def __str__(self) -> str:
        """`10 of 306 samples, drawn with seed 0`."""
        of = f"{self.samples:,} of {self.whole:,} samples"
        if self.shard is None:
            return (
                f"the first {of}" if self.sample is None else f"{of}, drawn with seed {self.seed}"
            )
        chosen = (
            f" of {self.sample:,} drawn with seed {self.seed}" if self.sample is not None else ""
        )
        return f"{of}, shard {self.shard}{f' of the first {self.limit:,}' if self.limit is not None else chosen}"
