"""Expected scores: what the judge knows in place of what it decides.

    verdicts ──labels──────────────> formula of the metric ──> score           2/3 = 0.667
       └──────probabilities of 1──> the same formula ───────> expected score   0.610

A sample without a score has no expected score. A verdict without a question keeps its label, such
as 0 without any context text. A jury always has a probability: the one after its judges are
combined. A score without verdicts, a rubric's, and one of another package that does not give it,
is also the expected score.

A calibration of a single judge moves its probabilities p by the odds of its threshold t, so that t
becomes one half: p (1 - t) / (p (1 - t) + (1 - p) t). A calibration of several judges needs no
move, because its weights and bias were fitted to labels. A threshold set by hand moves none.
"""

from collections.abc import Iterable
from math import fsum

from localjudge.metrics.criterion import Criterion
from localjudge.metrics.metric import BuiltIn, Metric
from localjudge.run_directory.result_rows import Evaluation, VerdictRow
from localjudge.types import Scored, Unit, VerdictRule


def with_expected(
    evaluation: Evaluation, units: Iterable[Unit], metric: Metric, rule: VerdictRule
) -> Evaluation:
    """Return the evaluation with the expected score of its verdicts about the units."""
    outcome = evaluation.outcome
    if not isinstance(outcome, Scored) or not isinstance(metric, BuiltIn | Criterion):
        return evaluation
    judged: list[Unit] = []
    probabilities: list[float] = []
    for unit, verdict in zip(units, evaluation.verdicts, strict=True):
        if verdict.label is not None:
            judged.append(unit)
            probabilities.append(_find_probability(verdict, metric.name, rule))
    if metric.formula is not None and judged:
        expected = metric.formula(judged, probabilities)
    elif isinstance(metric, BuiltIn) and judged and outcome.denominator:
        expected = fsum(probabilities) / outcome.denominator
    else:
        return evaluation
    return evaluation._replace(outcome=outcome.model_copy(update={"expected": expected}))


def _find_probability(verdict: VerdictRow, metric: str, rule: VerdictRule) -> float:
    """Return the probability of 1, moved by the calibration of a single judge."""
    p_yes = verdict.p_yes
    if p_yes is None:
        return float(verdict.label or 0)
    if metric not in rule.thresholds or metric in rule.combinations:
        return p_yes
    threshold = rule.thresholds[metric]
    for_one = p_yes * (1 - threshold)
    for_zero = (1 - p_yes) * threshold
    if not for_one + for_zero:
        return float(verdict.label or 0)
    return for_one / (for_one + for_zero)
