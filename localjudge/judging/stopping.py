"""Judge samples in random order until gates are decided or the time is over.

    order       0  7  3  5 ...     samples by the sha256 of seed and id, or whole groups by seed
                                   and group
    after 1     context_recall 1.00 [0.02, 1.00]      >= 0.8?  undecided
    ...
    after 41    context_recall 0.93 [0.81, 0.98]      >= 0.8?  decided: the run has these samples

`--sample` with this size gives the same samples. If scores decide when to stop, intervals are
confidence sequences (`stats.repeated_looks`); a time budget ignores scores and has an ordinary
interval.
"""

import math
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from localjudge.analysis.check import check_baseline, check_metrics
from localjudge.analysis.gates import Gate, parse_gate
from localjudge.analysis.pairing import ComparedRun, pair_samples, sample_keys
from localjudge.judging.evaluate import evaluate
from localjudge.judging.model_answers import ModelAnswers
from localjudge.judging.plan import Plan
from localjudge.judging.settings import parse_time
from localjudge.run_directory.manifest import Sampling
from localjudge.run_directory.result_rows import Evaluation
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.summary import ALL_JUDGED, MetricSummary, allowed_failures
from localjudge.stats.interval import Mean
from localjudge.stats.paired import (
    GateOutcome,
    decide,
    samples_to_decide,
)
from localjudge.types import Scored
from localjudge.words import numbered

_CHECKED_EVERY = 0.01
"""Beyond a hundred samples, check only after each additional 1 %."""
_PILOT_SAMPLES = 20
_FIRST_TURN = 16
"""Draws that each of several judges answers before the next judge opens."""
_FIRST_TIMED_TURN = 2
_MAX_TURN = 256


class AimStatus(NamedTuple):
    """Status of an aim: its interval in words, and the number of samples to reach it (None if
    unknown).
    """

    words: str
    decided: bool
    needed: int | None

    @property
    def at_the_end(self) -> str:
        """The words after the last sample, with the sample size needed for a missed aim."""
        if self.decided:
            return self.words
        words = f"{self.words}: not decided"
        if not self.needed:
            return words
        return f"{words}, about {numbered(self.needed, 'sample')} would do"


def check_aims(plan: Plan, baseline: RunRecord | None) -> list[Gate]:
    """Return the gates that stop the run.

    Raises InputError for another metric or a missing baseline.
    """
    gates = [parse_gate(gate) for gate in plan.settings.until]
    check_metrics(gates, [metric.name for metric in plan.metrics])
    check_baseline(gates, baseline)
    return gates


class Stopping:
    """Judge the samples of a plan in random order until they are enough.

    At least `at_least` samples are judged. `positions` are the judged samples in the data.
    """

    def __init__(
        self,
        plan: Plan,
        baseline: RunRecord | None,
        at_least: int = 0,
        *,
        optional_stopping: bool = False,
    ) -> None:
        settings = plan.settings
        self.plan = plan
        self.at_least = at_least
        self.positions: list[int] = []
        self._gates = check_aims(plan, baseline)
        self._draws = plan.dataset.draws(settings.seed, plan.cluster_of)
        max_cluster_size = None
        if optional_stopping or settings.optional_stopping:
            max_cluster_size = max(map(len, self._draws), default=1)
        self.sampling = plan.sampling.model_copy(update={"max_cluster_size": max_cluster_size})
        self._baseline_scores: BaselineScores | None = None
        compared = dict.fromkeys(gate.metric for gate in self._gates if gate.delta)
        if baseline and compared:
            self._baseline_scores = BaselineScores(baseline, plan, list(compared), self.sampling)
        self._totals = plan.totals(self.sampling)
        self._seconds = math.inf
        if settings.budget:
            self._seconds = parse_time(settings.budget)
        self._count = len(plan.dataset.samples)
        self._expected = self._count
        self._started = time.monotonic()
        self._timed = 0
        self._next_takes_time = True

    def judge(self, answers: ModelAnswers) -> str:
        """Judge until the aims are reached. Returns the sample size and the reason."""
        next_check = max(1, self.at_least)
        for judged in self.judge_draws(answers):
            reason = ""
            seconds = time.monotonic() - self._started
            if self._timed:
                seconds *= 1 + 1 / self._timed  # with another sample
            is_over = self._timed > 0 and seconds > self._seconds
            if judged >= self.at_least and self._next_takes_time and is_over:
                reason = f"the time is over ({self.plan.settings.budget})"
            elif judged >= next_check:
                next_check = max(judged + 1, math.ceil((1 + _CHECKED_EVERY) * judged))
                statuses = self.aim_statuses()
                if _are_decided(statuses):
                    reason = "; ".join(aim.words for aim in statuses)
                answers.progress.standing(self._describe_rest(statuses, judged))
            if reason and judged < self._count:
                order = f"in random order (seed {self.plan.settings.seed})"
                return f"after {judged:,} of {numbered(self._count, 'sample')} {order}: {reason}"
        statuses = self.aim_statuses()
        if not statuses:
            return ALL_JUDGED
        return f"{ALL_JUDGED}: {'; '.join(aim.at_the_end for aim in statuses)}"

    def judge_draws(self, answers: ModelAnswers) -> Iterator[int]:
        """Judge in random order. Yields the number of judged samples after each draw."""
        table = self.plan.dataset.table
        turn_size = _FIRST_TIMED_TURN
        if self._seconds == math.inf:
            turn_size = _FIRST_TURN
        turn_end = 0
        sentences = self.plan.settings.sentences
        is_prepared = False
        for number, draw in enumerate(self._draws):
            if number == turn_end:
                asked_before = answers.asked
                turn = self._draws[number : number + turn_size]
                turn_end += len(turn)
                samples = list(map(table.sample_at, chain.from_iterable(turn)))
                is_prepared = answers.prepare(samples)
                if answers.asked > asked_before:
                    self._timed += len(turn)
                affordable = self._count_affordable(len(self.positions)) - len(self.positions)
                turn_size = min(2 * turn_size, max(1, affordable), _MAX_TURN)
            asked_before = answers.asked
            samples = list(map(table.sample_at, draw))
            answers.total = self._expected
            evaluated = evaluate(samples, self.plan.metrics, answers, sentences)
            evaluations = list(chain.from_iterable(evaluated))
            if answers.asked > asked_before:
                self._timed += 1
            self._totals.add(evaluations)
            if self._baseline_scores:
                self._baseline_scores.add(evaluations)
            self.positions += draw
            self._next_takes_time = not is_prepared or number + 1 == turn_end
            yield len(self.positions)

    def pilot(self, answers: ModelAnswers) -> None:
        """Judge the first samples until the aims are decided.

        These are at most 20 samples, and at least one that is not stored.
        """
        for judged in self.judge_draws(answers):
            if _are_decided(self.aim_statuses()):
                break
            if judged >= _PILOT_SAMPLES and answers.asked:
                break

    def pilot_statuses(self) -> list[AimStatus]:
        """Return the aims. A decided one needs the judged samples."""
        statuses: list[AimStatus] = []
        for aim in self.aim_statuses():
            if aim.decided:
                statuses.append(aim._replace(needed=len(self.positions)))
            else:
                statuses.append(aim)
        return statuses

    def aim_statuses(self) -> list[AimStatus]:
        """Return the status of each gate."""
        if not self._gates:
            return []
        summaries = self._totals.metrics
        return [self._check_gate(gate, summaries[gate.metric]) for gate in self._gates]

    def _check_gate(self, gate: Gate, summary: MetricSummary) -> AimStatus:
        name = gate.metric
        interval = summary.by_judge
        is_last = False
        failed_before = 0
        if gate.delta:
            name = f"{gate.metric}.delta"
        if gate.delta and self._baseline_scores:
            interval = self._baseline_scores.interval(gate.metric)
            is_last = self._baseline_scores.is_complete(gate.metric)
            failed_before = self._baseline_scores.failed_too_often.get(gate.metric, 0)
        words = _describe_interval(name, interval, signed=gate.delta)
        words = f"{words}, needs {gate.comparison} {gate.threshold:g}"
        judged = len(self.positions)
        max_failed = self.plan.settings.max_failed
        outcome: GateOutcome = "undecided"
        if interval is not None:
            outcome = decide(interval, gate.comparison, gate.threshold)
        if failed_before or summary.failed > allowed_failures(max_failed, self._count):
            outcome = "fail"
            words = f"{words} (failed samples: {max(failed_before, summary.failed):,})"
        elif summary.failed > allowed_failures(max_failed, judged):
            words = f"{words} (failed samples: {summary.failed:,})"
            return AimStatus(words, decided=False, needed=None)
        elif is_last and outcome == "undecided" and judged < self._count:
            words = f"{words} (the baseline has no more samples)"
            return AimStatus(words, decided=True, needed=None)
        needed = None
        if interval is not None and outcome == "undecided":
            scored = samples_to_decide(interval, gate.threshold)
            if scored is not None:
                needed = math.ceil(scored * judged / interval.n)
        return AimStatus(words, outcome != "undecided", needed)

    def _count_affordable(self, judged: int) -> int:
        """Return the number of samples that the time allows."""
        if not self._timed or self._seconds == math.inf:
            return self._count
        rate = self._timed / (time.monotonic() - self._started)
        more = round(self._seconds * rate) - self._timed
        return max(judged, min(self._count, judged + more))

    def _describe_rest(self, statuses: Sequence[AimStatus], judged: int) -> str:
        """Return the aim that needs the most samples, and set the number of expected samples."""
        affordable = self._count_affordable(judged)
        open_aims = [aim for aim in statuses if not aim.decided]
        if not open_aims:
            self._expected = affordable
            return f"time for about {numbered(affordable, 'sample')} of {self._count:,}"
        farthest = max(open_aims, key=lambda aim: aim.needed or math.inf)
        words = farthest.words
        if len(open_aims) > 1:
            words = f"{words} (and {len(open_aims) - 1} more)"
        self._expected = max(judged, min(affordable, farthest.needed or affordable))
        if farthest.needed is None:  # nothing is scored yet, or the mean is the threshold
            return words
        if farthest.needed > self._count:
            return f"{words}: more samples than the data has"
        return f"{words}: about {numbered(farthest.needed - judged, 'sample')} more"


def _are_decided(statuses: Sequence[AimStatus]) -> bool:
    return bool(statuses) and all(aim.decided for aim in statuses)


def _describe_interval(name: str, interval: Mean | None, *, signed: bool) -> str:
    """Return the mean and its limits, with signs for a difference."""
    if interval is None:
        return f"{name} -"
    sign = ""
    if signed:
        sign = "+"
    mean = f"{interval.mean:{sign}.2f}"
    return f"{name} {mean} [{interval.low:{sign}.2f}, {interval.high:{sign}.2f}]"


class BaselineScores:
    """Expected scores paired with a baseline, as in a comparison of the runs."""

    def __init__(
        self, baseline: RunRecord, plan: Plan, metrics: Sequence[str], sampling: Sampling
    ) -> None:
        self._baseline = ComparedRun(baseline, metrics)
        self._keys = [sample_keys(sample) for sample in plan.dataset.samples]
        self._numbers = {keys.id: number for number, keys in enumerate(self._keys)}
        self._sampling = sampling.joined(baseline.sampling)
        self._groups = plan.cluster_of
        pairs = pair_samples(self._baseline.samples, self._keys)
        if self._groups is None and self._baseline.groups and self._sampling.by_groups:
            self._groups = {}
            for new, old in pairs.items():
                self._groups[self._keys[new].id] = self._baseline.groups[old]
        self._scores: dict[str, dict[int, float | None]] = {}
        """By metric, then by number of a judged sample. None without a score."""
        self._waiting: dict[str, set[int]] = {}
        """Numbers of the samples that the baseline has, and that are not judged yet."""
        for metric in metrics:
            self._scores[metric] = {}
            self._waiting[metric] = set()
            for new, old in pairs.items():
                if self._baseline.expected_score(metric, old) is not None:
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
                score = evaluation.outcome.expected
            number = self._numbers[evaluation.sample_id]
            self._scores[evaluation.metric][number] = score
            self._waiting[evaluation.metric].discard(number)

    def is_complete(self, metric: str) -> bool:
        """Return whether all samples that the baseline has are judged."""
        return not self._waiting[metric]

    def interval(self, metric: str) -> Mean | None:
        """Return the interval of the mean difference over the judged samples."""
        scores = self._scores[metric]
        numbers = sorted(scores)
        before: list[float] = []
        after: list[float] = []
        groups: list[str] = []
        keys = [self._keys[number] for number in numbers]
        for new, old in pair_samples(self._baseline.samples, keys).items():
            number = numbers[new]
            score_before = self._baseline.expected_score(metric, old)
            score_after = scores[number]
            if score_before is None or score_after is None:
                continue
            before.append(score_before)
            after.append(score_after)
            if self._groups:
                groups.append(self._groups.get(self._keys[number].id, ""))
        if not before:
            return None
        return self._sampling.difference(before, after, groups or None)
