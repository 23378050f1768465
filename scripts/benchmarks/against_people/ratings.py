"""Ratings by people, read from clones of two repositories, with the scores published beside them.

    mt-rag-benchmark   three people rate how faithful an answer is, 1 to 4; an answer is one row
    RAGChecker         two people say which answer of a pair is more correct, complete, better, -2
                       to 2; a judgement is one row, with the second answer minus the first

Sources: IBM/mt-rag-benchmark and amazon-science/RAGChecker, both Apache-2.0.
"""

import json
import random
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from localjudge.stats.interval import Floats

MT_RAG = "mt-rag"
RAGCHECKER = "ragchecker"
F_MEASURE = "answer_correctness"
PRECISION = "answer_correctness(mode=precision)"
RECALL = "answer_correctness(mode=recall)"
_SEED = 0
_MT_RAG_FILE = (
    "mt-rag-benchmark/mtrag-human/evaluations/reference_subset_with_human_evaluations.json"
)
_RAGCHECKER_FOLDER = "RAGChecker/data/meta_evaluation"
_PUBLISHED = {
    "RAGAS faithfulness, hosted GPT": ("rl_f", "composite"),
    "BERT K-precision": ("Bert-KPrec", "system"),
}
"""Metric and annotator of each score in MT-RAG's file."""
_Json = dict[str, Any]


class Rating(NamedTuple):
    """What people say about an answer, or about an answer minus the one it is compared with."""

    value: float
    answer: str
    compared_with: str | None
    question: str


class Aspect(NamedTuple):
    """One question to people, the metrics beside it, and published scores by answer.

    The first metric asks the same as people were asked.
    """

    name: str
    metrics: Sequence[str]
    ratings: Sequence[Rating]
    published: Mapping[str, Mapping[str, float]]

    @property
    def can_be_labelled(self) -> bool:
        """Do people rate each answer by itself?"""
        return all(rating.compared_with is None for rating in self.ratings)


class RatedSet(NamedTuple):
    """Answers as samples, with the system of each, and their ratings."""

    name: str
    title: str
    samples: Sequence[_Json]
    aspects: Sequence[Aspect]

    @property
    def metrics(self) -> list[str]:
        """All metrics beside the ratings."""
        return sorted({metric for aspect in self.aspects for metric in aspect.metrics})

    @property
    def systems(self) -> dict[str, str]:
        """The system that wrote each answer."""
        return {sample["id"]: sample["system"] for sample in self.samples}

    def part(self, questions: int) -> "RatedSet":
        """Return the answers to so many questions, drawn at random; all of them for 0."""
        names = sorted({rating.question for rating in self.aspects[0].ratings})
        if not 0 < questions < len(names):
            return self
        chosen = set(random.Random(_SEED).sample(names, questions))
        aspects: list[Aspect] = []
        for aspect in self.aspects:
            ratings = [rating for rating in aspect.ratings if rating.question in chosen]
            aspects.append(aspect._replace(ratings=ratings))
        return self._replace(
            name=f"{self.name}-{questions}",
            title=f"{self.title}, {questions} questions",
            samples=[sample for sample in self.samples if sample["question_id"] in chosen],
            aspects=aspects,
        )

    def without(self, answers: Collection[str]) -> "RatedSet":
        """Return the set without the ratings of these answers. Its samples stay."""
        aspects: list[Aspect] = []
        for aspect in self.aspects:
            ratings = [rating for rating in aspect.ratings if rating.answer not in answers]
            aspects.append(aspect._replace(ratings=ratings))
        return self._replace(aspects=aspects)


def align(ratings: Sequence[Rating], scores: Mapping[str, float]) -> Floats:
    """Return the score that belongs to each rating (n,); NaN where an answer has none."""
    values: list[float] = []
    for rating in ratings:
        value = scores.get(rating.answer, np.nan)
        if rating.compared_with is not None:
            value -= scores.get(rating.compared_with, np.nan)
        values.append(value)
    return np.array(values)


def read_mt_rag(folder: Path) -> RatedSet:
    """Read the answers with passages, with the mean rating of each by three people."""
    content = json.loads((folder / _MT_RAG_FILE).read_bytes())
    texts = {document["document_id"]: document["text"] for document in content["documents"]}
    tasks = {task["task_id"]: task for task in content["tasks"]}
    samples: list[_Json] = []
    ratings: list[Rating] = []
    published: dict[str, dict[str, float]] = {name: {} for name in _PUBLISHED}
    for entry in content["evaluations"]:
        task = tasks[entry["task_id"]]
        if not task["contexts"]:
            continue
        answer = f"{entry['task_id']}/{entry['model_id']}"
        people = entry["annotations"]["faithfulness"].values()
        mean = float(np.mean([float(each["value"]) for each in people]))
        ratings.append(Rating(mean, answer, None, entry["task_id"]))
        samples.append(
            {
                "id": answer,
                "user_input": task["input"][-1]["text"],
                "retrieved_contexts": [texts[each["document_id"]] for each in task["contexts"]],
                "response": entry["model_response"],
                "system": entry["model_id"],
                "question_id": entry["task_id"],
                "faithfulness_by_people": round(mean, 4),
            }
        )
        for name, (metric, annotator) in _PUBLISHED.items():
            published[name][answer] = entry["annotations"][metric][annotator]["value"]
    aspect = Aspect("faithful", ["faithfulness"], ratings, published)
    return RatedSet(MT_RAG, "MT-RAG", samples, [aspect])


def read_ragchecker(folder: Path) -> RatedSet:
    """Read the pairs of answers, with two judgements of each by three questions."""
    labelled = json.loads((folder / _RAGCHECKER_FOLDER / "human_labeled_data.json").read_bytes())
    scored = json.loads((folder / _RAGCHECKER_FOLDER / "baseline_ragchecker.json").read_bytes())
    samples: list[_Json] = []
    for pair in scored:
        for side in (1, 2):
            model = pair[f"model{side}"]
            samples.append(
                {
                    "id": _answer(pair, side),
                    "user_input": pair["query"],
                    "response": model["response"],
                    "reference": pair["gt_answer"],
                    "system": model["model_name"],
                    "question_id": str(pair["instance_id"]),
                }
            )
    aspects: list[Aspect] = []
    for name, label, metrics in (
        ("correct", "correctness_label", (PRECISION, F_MEASURE)),
        ("complete", "completeness_label", (RECALL, F_MEASURE)),
        ("overall", "overall_label", (F_MEASURE, PRECISION, RECALL)),
    ):
        published: dict[str, float] = {}
        for pair in scored:
            for side in (1, 2):
                published[_answer(pair, side)] = pair[f"model{side}"]["ragchecker"][label]
        ratings = [
            Rating(float(pair[label]), _answer(pair, 2), _answer(pair, 1), str(pair["instance_id"]))
            for pair in labelled
        ]
        aspects.append(Aspect(name, metrics, ratings, {"RAGChecker, Llama 3 70B": published}))
    return RatedSet(RAGCHECKER, "RAGChecker", samples, aspects)


def _answer(pair: _Json, side: int) -> str:
    return f"{pair['instance_id']}/{side}"
