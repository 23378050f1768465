"""How the verdicts of several judges on one unit become one probability.

    judge       p_yes    log odds
    A           0.90      2.20
    B           0.40     -0.41         mean 0.90      -> p_yes 0.71

Log odds are averaged and not probabilities, so that a judge that is sure counts for more than one that is not. A
probability nearer to 0 or 1 than `clip` counts as that near and no more. Sources: C. Genest and J. V. Zidek (1986),
Combining probability distributions, Statistical Science 1, 114-135 (the logarithmic opinion pool); V. A. Satopää et al.
(2014), Combining multiple probability predictions using a simple logit model, International Journal of Forecasting 30.

Weights may take the place of the mean, such as those of `localjudge.stats.agreement`, from labels:

    log odds = intercept + weight of A x log odds of A + weight of B x log odds of B
"""

import math
from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from localjudge.types import Record


class CombiningRule(Record):
    """The mean of the judges' log odds, or their weighted sum; `weights` are by the beginnings of models' checksums."""

    rule: Literal["mean log odds", "weighted log odds"] = "mean log odds"
    clip: float = Field(default=1e-6, gt=0, lt=0.5)
    weights: dict[str, float] = Field(default_factory=dict)
    intercept: float = Field(default=0.0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _weighs_as_it_says(self) -> Self:
        if (self.rule == "weighted log odds") != bool(self.weights) or (self.intercept and not self.weights):
            raise ValueError("weights and an intercept are those of weighted log odds, which has at least one weight")
        if not all(map(math.isfinite, self.weights.values())):
            raise ValueError("a weight is a finite number")
        return self

    @classmethod
    def weighted(cls, weights: Mapping[str, float], intercept: float) -> Self:
        """The weighted sum, with a weight for each judge's id."""
        return cls(rule="weighted log odds", weights=dict(weights), intercept=intercept)

    def combined(self, probabilities: Mapping[str, float]) -> float:
        """The probability of 1 from each judge's, at least one, by their ids. KeyError for a judge without a weight."""
        odds = {judge: log_odds(probability, self.clip) for judge, probability in probabilities.items()}
        if self.weights:
            total = math.fsum([self.intercept, *(self.weights[judge] * value for judge, value in odds.items())])
        else:
            total = math.fsum(odds.values()) / len(odds)
        if total >= 0:  # the form that cannot overflow
            return 1 / (1 + math.exp(-total))
        least = math.exp(max(total, -700.0))
        return least / (1 + least)


MEAN_LOG_ODDS = CombiningRule()


def log_odds(probability: float, clip: float) -> float:
    """log(p / (1 - p)), of a probability that is not nearer to 0 or 1 than `clip`."""
    clipped = min(max(probability, clip), 1 - clip)
    return math.log(clipped) - math.log1p(-clipped)
