"""Runs of judges on a set of rated answers, and the scores of each answer.

counted    share of verdicts 1, as in scores.jsonl
expected   the same formula with the probability of each verdict in place of 0 or 1
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import localjudge
from localjudge.run_directory.result_rows import VerdictRow

from .ratings import F_MEASURE, RatedSet


class Judged(NamedTuple):
    """Scores of the answers by one judge: metric to answer to score. Seconds are the judge's."""

    counted: Mapping[str, Mapping[str, float]]
    expected: Mapping[str, Mapping[str, float]]
    verdicts: int
    seconds: float


def write_data(rated: RatedSet, folder: Path) -> Path:
    """Write the answers as a data file for `localjudge run`. Returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{rated.name}.jsonl"
    lines = [json.dumps(sample, ensure_ascii=False) for sample in rated.samples]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def judge_answers(rated: RatedSet, judge: str, folder: Path, threads: int | None) -> Judged:
    """Judge the answers in FOLDER/SET-JUDGE, or read that run if it is complete."""
    title = Path(judge).name.removesuffix(".gguf")
    run = localjudge.evaluate(
        write_data(rated, folder),
        judge=judge,
        metrics=rated.metrics,
        out=folder / f"{rated.name}-{title}",
        threads=threads,
    )
    efforts = [session.effort for session in run.manifest.environment.sessions]
    asked = sum(session.asked or 0 for session in run.manifest.environment.sessions)
    seconds = sum(effort.seconds_total or 0 for effort in efforts if effort)
    counted: dict[str, dict[str, float]] = defaultdict(dict)
    for row in run.scores:
        if row.score is not None:
            counted[row.metric][row.sample_id] = row.score
    expected: dict[str, dict[str, float]] = defaultdict(dict)
    units = group_by_answer(run.verdicts)
    for metric, answer in units:
        if answer in counted[metric]:
            expected[metric][answer] = expected_score(metric, units[metric, answer])
    return Judged(counted, expected, asked, seconds)


def group_by_answer(
    verdicts: Sequence[VerdictRow],
) -> dict[tuple[str, str], list[VerdictRow]]:
    """Return the verdicts of each metric and answer."""
    groups: dict[tuple[str, str], list[VerdictRow]] = defaultdict(list)
    for verdict in verdicts:
        groups[verdict.metric, verdict.sample_id].append(verdict)
    return groups


def expected_score(metric: str, verdicts: Sequence[VerdictRow]) -> float:
    """Return the score with probabilities: a mean, or 2PR / (P + R) of two means.

    P is the mean over sentences of the response, R the one over sentences of the reference.
    """
    by_source: dict[str, list[float]] = defaultdict(list)
    for verdict in verdicts:
        probability = verdict.p_yes
        if probability is None:  # not asked, because the response has no sentence
            probability = float(verdict.label or 0)
        by_source[verdict.source].append(probability)
    if metric != F_MEASURE:
        return float(np.mean(next(iter(by_source.values()))))
    if not by_source["response"]:
        return 0.0
    precision = float(np.mean(by_source["response"]))
    recall = float(np.mean(by_source["reference"]))
    if precision + recall == 0:
        return 0.0
    return 2 * precision * recall / (precision + recall)
