"""Derives the committed inputs: vocabulary.tsv from prose, scalars.json from positions and labelled examples.

prose ─> vocabulary ──> features of labelled examples ─> weights of the two rules
frequencies ─> bumps ─┘
"""

from collections.abc import Sequence

import numpy as np

from . import positions, prompts, rule_fitting
from .labelled import Example
from .layout import Floats
from .numpy_model import NumpyJudge
from .scalars import Scalars
from .vocabulary import Vocabulary

FREQUENCIES = (0.0885, 0.1028, 0.1275, 0.1285, 0.1372, 0.3049, 0.4888, 0.5115, 0.7079, 0.7619, 2.3128, 2.4879)
"""Drawn at random, the best of twelve draws for the margins of the bumps."""
ATTRIBUTION = ("mean_missing", "mean_missing_pair", "missing_names", "worst_number")
RELEVANCE = ("coverage",)


def without_rules() -> Scalars:
    """Scalars with the bump solved and no rule fitted."""
    previous = positions.solve(FREQUENCIES, distance=1, size=60.0)
    return Scalars(FREQUENCIES, previous, attribution={}, relevance={})


def fitted(vocabulary: Vocabulary, examples: dict[str, Sequence[Example]]) -> Scalars:
    """Scalars with the rules of both tasks fitted to labelled examples."""
    scalars = without_rules()
    judge = NumpyJudge(vocabulary, scalars)
    return scalars._replace(
        attribution=_rule(judge, vocabulary, examples["attribution"], ATTRIBUTION, -1),
        relevance=_rule(judge, vocabulary, examples["relevance"], RELEVANCE, 1),
    )


def feature_table(
    judge: NumpyJudge, vocabulary: Vocabulary, examples: Sequence[Example], features: Sequence[str]
) -> Floats:
    """Features of each example, shape (examples, features)."""
    task = prompts.relevance if "coverage" in features else _attribution
    found = [judge.features(task(vocabulary, example.given, example.judged)) for example in examples]
    return np.array([[row[name] for name in features] for row in found])


def _attribution(vocabulary: Vocabulary, context: str, statement: str) -> list[int]:
    return prompts.attribution(vocabulary, [context], statement)


def _rule(
    judge: NumpyJudge, vocabulary: Vocabulary, examples: Sequence[Example], features: Sequence[str], sign: int
) -> dict[str, float]:
    table = feature_table(judge, vocabulary, examples, features)
    labels = np.array([example.label for example in examples])
    weights = rule_fitting.fit(
        table, labels, np.array([example.dataset for example in examples]), [sign] * len(features)
    )
    return {name: round(float(weight), 3) for name, weight in zip([*features, "constant"], weights, strict=True)}
