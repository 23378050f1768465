"""The judge's figures on labelled data, by the NumPy model that llama.cpp is compared with."""

import re
from pathlib import Path

import numpy as np
import pytest
from lexical_judge import labelled, rules
from lexical_judge.committed import Inputs
from lexical_judge.labelled import Example
from lexical_judge.numpy_model import NumpyJudge

from localjudge.stats.agreement import roc_auc

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


def word_overlap(example: Example, task: str) -> float:
    """The baseline: the shared words, of the statement's words or of the question's words."""
    given, judged = (
        set(re.findall(r"\w+", text.lower())) for text in (example.given, example.judged)
    )
    looked_for, text = (judged, given) if task == "attribution" else (given, judged)
    return len(looked_for & text) / max(len(looked_for), 1)


@pytest.mark.parametrize(
    ("task", "least"), [("attribution", 0.745), ("relevance", 0.81), ("chunk", 0.73)]
)
def test_the_judge_ranks_better_than_word_overlap(
    task: str, least: float, known: Inputs, numpy_judge: NumpyJudge, labelled_data: Path
) -> None:
    examples = labelled.examples(labelled_data, task)
    labels = np.array([example.label for example in examples])
    logits = np.array(
        [
            numpy_judge.log_odds(rules.prompt(known.vocabulary, task, example))
            for example in examples
        ]
    )
    overlap = np.array([word_overlap(example, task) for example in examples])
    assert roc_auc(labels, logits) >= max(least, float(roc_auc(labels, overlap)))
