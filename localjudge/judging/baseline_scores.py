"""Scores of a baseline and of a run that is being judged, for gates on differences."""

from collections.abc import Sequence

from localjudge.analysis.compared_run import ComparedRun
from localjudge.analysis.pairing import pair_samples, sample_keys
from localjudge.judging.plan import Plan
from localjudge.run_directory.evaluations import Evaluation
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.sampling import Sampling
from localjudge.stats.interval import Interval
from localjudge.types import Scored


class BaselineScores:
    """Scores paired with a baseline for gates on differences, as in a comparison of the runs."""

    def __init__(
        self, baseline: RunRecord, plan: Plan, metrics: Sequence[str], sampling: Sampling
    ) -> None:
        self._baseline = ComparedRun(baseline, metrics)
        self._keys = [sample_keys(sample) for sample in plan.dataset.samples]
        self._places = {keys.id: place for place, keys in enumerate(self._keys)}
        self._sampling = sampling.joined(baseline.sampling)
        self._groups = plan.cluster_of
        pairs = pair_samples(self._baseline.samples, self._keys)
        if self._groups is None and self._baseline.groups and self._sampling.by_groups:
            self._groups = {}
            for new, old in pairs.items():
                self._groups[self._keys[new].id] = self._baseline.groups[old]
        self._scores: dict[str, dict[int, float | None]] = {}
        """By metric, then by place of a judged sample. None without a score."""
        self._waiting: dict[str, set[int]] = {}
        """Places of the samples that the baseline has, and that are not judged yet."""
        for metric in metrics:
            self._scores[metric] = {}
            self._waiting[metric] = set()
            for new, old in pairs.items():
                if self._baseline.score(metric, old) is not None:
                    self._waiting[metric].add(new)
        self.failed_too_often: dict[str, int] = {}
        for name in baseline.summary.failed_beyond(baseline.max_failed):
            if name in metrics:
                self.failed_too_often[name] = baseline.summary.metrics[name].failed

    def add(self, evaluations: Sequence[Evaluation]) -> None:
        for evaluation in evaluations:
            if evaluation.metric not in self._scores:
                continue
            score = None
            if isinstance(evaluation.outcome, Scored):
                score = evaluation.outcome.value
            place = self._places[evaluation.sample_id]
            self._scores[evaluation.metric][place] = score
            self._waiting[evaluation.metric].discard(place)

    def is_complete(self, metric: str) -> bool:
        """Return whether all samples that the baseline has are judged."""
        return not self._waiting[metric]

    def interval(self, metric: str) -> Interval | None:
        """Return the interval of the mean difference over the judged samples."""
        scores = self._scores[metric]
        places = sorted(scores)
        before: list[float] = []
        after: list[float] = []
        groups: list[str] = []
        keys = [self._keys[place] for place in places]
        for new, old in pair_samples(self._baseline.samples, keys).items():
            place = places[new]
            score_before = self._baseline.score(metric, old)
            score_after = scores[place]
            if score_before is None or score_after is None:
                continue
            before.append(score_before)
            after.append(score_after)
            if self._groups:
                groups.append(self._groups.get(self._keys[place].id, ""))
        if not before:
            return None
        return self._sampling.difference(before, after, groups or None)
