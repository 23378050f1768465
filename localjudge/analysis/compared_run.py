"""One side of a comparison: what is known about each sample without holding its texts.

Memory holds hashes and numbers for each sample; verdicts are read at their place in the file.
"""

import math
from collections.abc import Iterable

import numpy as np

from localjudge.analysis.pairing import sample_keys
from localjudge.run_directory.result_rows import VerdictRow
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.run_rows import (
    iter_verdict_places,
    read_verdicts_at,
    unknown_sample,
)
from localjudge.stats.interval import Floats, Indices

_NO_PLACE = -1


class ComparedRun:
    """Samples of a run in data order, their scores and offsets of their verdicts."""

    def __init__(self, run: RunRecord, metrics: Iterable[str]) -> None:
        self.run = run
        self.samples = [sample_keys(sample) for sample in run.iter_samples()]
        self.groups: list[str] | None = None
        if run.cluster_of is not None:
            self.groups = [run.cluster_of.get(sample.id, "") for sample in self.samples]
        self.scores: dict[str, Floats] = {}
        """By metric, NaN if missing."""
        self.expected: dict[str, Floats] = {}
        """Expected scores by metric, NaN if missing."""
        self._places: dict[str, Indices] = {}
        for metric in metrics:
            self.scores[metric] = np.full(len(self.samples), np.nan)
            self.expected[metric] = np.full(len(self.samples), np.nan)
            self._places[metric] = np.full(len(self.samples), _NO_PLACE)
        positions = {sample.id: position for position, sample in enumerate(self.samples)}
        for score in self.run.iter_scores():
            if score.sample_id not in positions:
                raise unknown_sample(self.run, score.sample_id)
            if score.metric in self.scores and score.score is not None:
                self.scores[score.metric][positions[score.sample_id]] = score.score
                self.expected[score.metric][positions[score.sample_id]] = score.expected
        for place, verdict in iter_verdict_places(self.run):
            position = positions.get(verdict.sample_id)
            places = self._places.get(verdict.metric)
            if position is not None and places is not None and places[position] == _NO_PLACE:
                places[position] = place

    def score(self, metric: str, position: int) -> float | None:
        """Return a sample's score, or None without one."""
        return _number_at(self.scores.get(metric), position)

    def expected_score(self, metric: str, position: int) -> float | None:
        """Return a sample's expected score, or None without one."""
        return _number_at(self.expected.get(metric), position)

    def verdicts(self, metric: str, position: int) -> list[VerdictRow]:
        place = int(self._places[metric][position])
        if place == _NO_PLACE:
            return []
        return read_verdicts_at(self.run, place)


def _number_at(values: Floats | None, position: int) -> float | None:
    if values is None or math.isnan(values[position]):
        return None
    return float(values[position])
