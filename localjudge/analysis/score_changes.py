"""Scores of the same samples in two runs: what changed in the mean, and how sure that is."""

from localjudge.stats import PairedTally
from localjudge.types import Record


class ScoreChanges(Record):
    """Scores of the same samples in both runs: means, their difference with its interval, and what moved.

    `ci95` is None if all samples are in one group. `smallest_detectable` is the true difference that so many samples
    would show with a probability of 80 %.
    """

    before: float
    after: float
    difference: float
    ci95: tuple[float, float] | None
    method: str
    clusters: int
    improved: int
    worsened: int
    tied: int
    smallest_detectable: float


def score_changes(pairs: PairedTally) -> ScoreChanges:
    """What changed over these pairs, one at least."""
    change = pairs.difference()
    return ScoreChanges(
        before=pairs.before.mean,
        after=pairs.after.mean,
        difference=change.difference.mean,
        ci95=change.difference.limits,
        method=change.difference.method,
        clusters=change.difference.clusters,
        improved=change.improved,
        worsened=change.worsened,
        tied=change.tied,
        smallest_detectable=change.smallest_detectable,
    )
