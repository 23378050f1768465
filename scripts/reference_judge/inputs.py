"""Derives the committed inputs: vocabulary.tsv from prose, scalars.json from positions and labelled examples.

prose ─> vocabulary ──> features of labelled examples ─> weights of the three rules
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
"""Drawn at random, one of the better of twelve draws for the margin of the bump."""
FEATURES = {
    "attribution": ("mean_missing", "mean_missing_pair", "missing_names", "worst_number"),
    "relevance": ("coverage",),
    "chunk": ("coverage",),
}


def without_rules() -> Scalars:
    """Scalars with the bump solved and no rule fitted."""
    previous = positions.solve(FREQUENCIES, distance=1, size=60.0)
    return Scalars(FREQUENCIES, previous, attribution={}, relevance={}, chunk={})


def fitted(vocabulary: Vocabulary, examples: dict[str, Sequence[Example]]) -> Scalars:
    """Scalars with the rules of all tasks fitted to labelled examples."""
    scalars = without_rules()
    judge = NumpyJudge(vocabulary, scalars)
    rules = {task: _rule(judge, vocabulary, task, found) for task, found in examples.items()}
    return scalars._replace(attribution=rules["attribution"], relevance=rules["relevance"], chunk=rules["chunk"])


def prompt(vocabulary: Vocabulary, task: str, example: Example) -> list[int]:
    """Token ids of a labelled example, asked as its task is."""
    if task == "attribution":
        return prompts.attribution(vocabulary, [example.given], example.judged)
    return prompts.relevance(vocabulary, example.beside, example.given, example.judged)


def _rule(judge: NumpyJudge, vocabulary: Vocabulary, task: str, examples: Sequence[Example]) -> dict[str, float]:
    weights = rule_fitting.fit(*_table(judge, vocabulary, task, examples), _signs(task))
    return {name: round(float(weight), 3) for name, weight in zip([*FEATURES[task], "constant"], weights, strict=True)}


def _table(
    judge: NumpyJudge, vocabulary: Vocabulary, task: str, examples: Sequence[Example]
) -> tuple[Floats, rule_fitting.Labels, rule_fitting.Groups]:
    found = [judge.features(prompt(vocabulary, task, example)) for example in examples]
    features = np.array([[row[name] for name in FEATURES[task]] for row in found])
    labels = np.array([example.label for example in examples])
    return features, labels, np.array([example.dataset for example in examples])


def _signs(task: str) -> list[int]:
    """What is missing speaks against a statement; what is covered speaks for a sentence."""
    return [-1 if task == "attribution" else 1] * len(FEATURES[task])
