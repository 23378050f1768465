"""Judge samples in random order until an aim is reached: `--until`, `--width`, `--budget`.

    order       0  7  3  5 ...     samples by the sha256 of seed and id, or whole groups by seed and group
    after 1     context_recall 1.00 [0.02, 1.00]      >= 0.8?  undecided
    ...
    after 41    context_recall 0.93 [0.81, 0.98]      >= 0.8?  decided: the run has these 41 samples

`--sample` with this size gives the same samples. If scores decide when to stop, intervals are
confidence sequences (`stats.sequence`); a time budget ignores scores and has an ordinary interval.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from localjudge.analysis.check import Gate, check_baseline, check_metrics, parse_gate
from localjudge.analysis.compare import ComparedRun, pair_samples, sample_keys
from localjudge.judging.bench import Judging
from localjudge.judging.loop import blocks
from localjudge.judging.plan import Plan
from localjudge.judging.settings import seconds_of
from localjudge.metrics.criterion import rubrics
from localjudge.run_directory.files import ALL_JUDGED, MetricSummary, Totals, allowed_failures
from localjudge.run_directory.result_rows import Evaluation
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.sampling import Sampling
from localjudge.stats.interval import Interval
from localjudge.stats.paired import WIDTH_EXPONENT, Decision, decide, samples_needed
from localjudge.types import Scored
from localjudge.words import numbered

_NOT_REACHED = "not reached"
_CHECKED_EVERY = 0.01
"""Beyond a hundred samples, check only after each additional 1 %."""
_PILOT_SAMPLES = 20


class AimStatus(NamedTuple):
    """Status of an aim: its interval in words, and the number of samples to reach it (None if unknown)."""

    words: str
    decided: bool
    needed: int | None
    undecided: str = "not decided"

    @property
    def at_the_end(self) -> str:
        """The words after the last sample, with the sample size needed for a missed aim."""
        if self.decided:
            return self.words
        would = f", about {numbered(self.needed, 'sample')} would do" if self.needed else ""
        return f"{self.words}: {self.undecided}{would}"


class BaselineScores:
    """Scores paired with a baseline for gates on differences, as in a comparison of the runs."""

    def __init__(
        self, baseline: RunRecord, plan: Plan, metrics: Sequence[str], sampling: Sampling
    ) -> None:
        self._baseline = ComparedRun(baseline, metrics)
        self._keys = [sample_keys(sample) for sample in plan.dataset.samples]
        self._places = {key.id: place for place, key in enumerate(self._keys)}
        self._scores: dict[str, dict[int, float | None]] = {metric: {} for metric in metrics}
        pairs = pair_samples(self._baseline.samples, self._keys)
        self._waiting = {
            metric: {
                pair.after
                for pair in pairs
                if self._baseline.score(metric, pair.before) is not None
            }
            for metric in metrics
        }
        self._sampling, self._groups = sampling.joined(baseline.sampling), plan.cluster_of
        if self._groups is None and self._baseline.groups and self._sampling.by_groups:
            self._groups = {
                self._keys[pair.after].id: self._baseline.groups[pair.before] for pair in pairs
            }
        withheld = baseline.summary.failed_beyond(baseline.max_failed)
        self.failed_too_often = {
            name: baseline.summary.metrics[name].failed for name in metrics if name in withheld
        }

    def add(self, evaluations: Sequence[Evaluation]) -> None:
        for evaluation in evaluations:
            if evaluation.metric in self._scores:
                place, outcome = self._places[evaluation.sample_id], evaluation.outcome
                self._scores[evaluation.metric][place] = (
                    outcome.value if isinstance(outcome, Scored) else None
                )
                self._waiting[evaluation.metric].discard(place)

    def is_complete(self, metric: str) -> bool:
        return not self._waiting[metric]

    def interval(self, metric: str) -> Interval | None:
        """Return the interval of the mean difference over the judged samples."""
        scores = self._scores[metric]
        places = sorted(scores)
        rows = []
        for pair in pair_samples(self._baseline.samples, [self._keys[place] for place in places]):
            place = places[pair.after]
            old, new = self._baseline.score(metric, pair.before), scores[place]
            if old is not None and new is not None:
                rows.append(
                    (old, new, self._groups.get(self._keys[place].id, "") if self._groups else ""),
                )
        if not rows:
            return None
        olds, news, groups = zip(*rows, strict=True)
        return self._sampling.difference(olds, news, groups if self._groups else None).difference


def check_aims(plan: Plan, baseline: RunRecord | None) -> list[Gate]:
    """Return the gates that stop the run. Raises InputError for another metric or a missing baseline."""
    gates = [parse_gate(gate) for gate in plan.settings.until]
    check_metrics(gates, [metric.name for metric in plan.metrics])
    check_baseline(gates, baseline)
    return gates


@dataclass
class Stopping:
    """Judge the samples of a plan one by one until they are enough."""

    plan: Plan
    baseline: RunRecord | None = None
    at_least: int = 0
    optional_stopping: bool = False
    positions: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        plan, settings = self.plan, self.plan.settings
        self._gates = check_aims(plan, self.baseline)
        self._draws = plan.dataset.draws(settings.seed, plan.cluster_of)
        optional_stopping = self.optional_stopping or settings.optional_stopping
        max_cluster_size = max(map(len, self._draws), default=1) if optional_stopping else None
        self.sampling = plan.sampling.model_copy(update={"max_cluster_size": max_cluster_size})
        self._baseline_scores = None
        if self.baseline and (
            compared := list(dict.fromkeys(gate.metric for gate in self._gates if gate.delta))
        ):
            self._baseline_scores = BaselineScores(self.baseline, plan, compared, self.sampling)
        names, rule = [metric.name for metric in plan.metrics], settings.rule_for(plan.metrics)
        levels = rubrics(plan.metrics)
        self._totals = Totals(
            names, rule, plan.cluster_of, levels, self.sampling, settings.max_failed
        )
        self._seconds = seconds_of(settings.budget) if settings.budget else math.inf
        self._count = self._expected = len(plan.dataset.samples)
        self._started, self._timed = time.monotonic(), 0

    def judge(self, judging: Judging) -> str:
        """Judge until the aims are reached. Returns the sample size and the reason."""
        next_check = max(1, self.at_least)
        for judged in self.draws(judging):
            enough = ""
            if judged >= self.at_least and self._is_time_over():
                enough = f"the time is over ({self.plan.settings.budget})"
            elif judged >= next_check:
                next_check = max(judged + 1, math.ceil((1 + _CHECKED_EVERY) * judged))
                statuses = self.aim_statuses()
                if statuses and all(aim.decided for aim in statuses):
                    enough = "; ".join(aim.words for aim in statuses)
                judging.progress.standing(self._in_words(statuses, judged))
            if enough and judged < self._count:
                seed = f"in random order (seed {self.plan.settings.seed})"
                return f"after {judged:,} of {numbered(self._count, 'sample')} {seed}: {enough}"
        reached = "; ".join(aim.at_the_end for aim in self.aim_statuses())
        return f"{ALL_JUDGED}{reached and ': '}{reached}"

    def draws(self, judging: Judging) -> Iterator[int]:
        """Judge in random order. Yields the number of judged samples after each draw."""
        table = self.plan.dataset.table
        turns = iter(blocks(range(len(self._draws))))
        prepared = 0
        for number, draw in enumerate(self._draws):
            share = min(1.0, (len(self.positions) + len(draw)) / self._expected)
            asked = judging.asked
            if number == prepared:
                turn = next(turns)
                prepared += len(turn)
                positions = [position for place in turn for position in self._draws[place]]
                judging.prepare([table.sample_at(position) for position in positions])
            evaluations = judging.evaluate([table.sample_at(position) for position in draw], share)
            self._timed += judging.asked > asked
            self._totals.add(evaluations)
            if self._baseline_scores:
                self._baseline_scores.add(evaluations)
            self.positions += draw
            yield len(self.positions)

    def pilot(self, judging: Judging) -> None:
        """Judge the first samples until the aims are decided: at most 20, and at least one that is not stored."""
        for judged in self.draws(judging):
            aims = self.aim_statuses()
            if (aims and all(aim.decided for aim in aims)) or (
                judged >= _PILOT_SAMPLES and judging.asked
            ):
                break

    def pilot_statuses(self) -> list[AimStatus]:
        judged = len(self.positions)
        return [aim._replace(needed=judged) if aim.decided else aim for aim in self.aim_statuses()]

    def aim_statuses(self) -> list[AimStatus]:
        width = self.plan.settings.width
        if width is None and not self._gates:
            return []
        metrics = self._totals.metrics
        statuses = [self._of_gate(gate, metrics[gate.metric]) for gate in self._gates]
        widths = (
            []
            if width is None
            else [self._of_width(name, metrics[name], width) for name in metrics]
        )
        return statuses + widths

    def _of_width(self, name: str, summary: MetricSummary, width: float) -> AimStatus:
        interval, words = summary.interval, _shown(name, summary.interval, delta=False)
        if interval is None or interval.limits is None:
            return AimStatus(
                f"{words}, needs a width of {width:g}",
                decided=False,
                needed=None,
                undecided=_NOT_REACHED,
            )
        wide = interval.high - interval.low
        words = f"{words}, {wide:.2g} wide, needs at most {width:g}"
        needed = self._judged_for(interval, samples_needed(interval, wide, width, WIDTH_EXPONENT))
        return AimStatus(words, wide <= width, needed, undecided=_NOT_REACHED)

    def _of_gate(self, gate: Gate, summary: MetricSummary) -> AimStatus:
        interval, failed, is_last = summary.interval, summary.failed, False
        failed_before = 0
        if gate.delta and self._baseline_scores:
            interval = self._baseline_scores.interval(gate.metric)
            is_last = self._baseline_scores.is_complete(gate.metric)
            failed_before = self._baseline_scores.failed_too_often.get(gate.metric, 0)
        decision = (
            decide(interval, gate.comparison, gate.threshold) if interval else Decision("undecided")
        )
        name = f"{gate.metric}{'.delta' if gate.delta else ''}"
        words = f"{_shown(name, interval, delta=gate.delta)}, needs {gate.comparison} {gate.threshold:g}"
        max_failed = self.plan.settings.max_failed
        if failed_before or failed > allowed_failures(max_failed, self._count):
            decision = Decision("fail")
            words = f"{words} (failed samples: {max(failed_before, failed):,})"
        elif failed > allowed_failures(max_failed, len(self.positions)):
            return AimStatus(f"{words} (failed samples: {failed:,})", decided=False, needed=None)
        elif is_last and decision.outcome == "undecided" and len(self.positions) < self._count:
            return AimStatus(
                f"{words} (the baseline has no more samples)", decided=True, needed=None
            )
        needed = (
            interval
            and decision.samples_needed
            and self._judged_for(interval, decision.samples_needed)
        )
        return AimStatus(words, decision.outcome != "undecided", needed)

    def _judged_for(self, interval: Interval, scored: int) -> int:
        return math.ceil(scored * len(self.positions) / interval.n)

    def _is_time_over(self) -> bool:
        passed = time.monotonic() - self._started
        return self._timed > 0 and passed * (1 + 1 / self._timed) > self._seconds

    def _in_words(self, statuses: Sequence[AimStatus], judged: int) -> str:
        open_aims = [aim for aim in statuses if not aim.decided]
        left = self._count
        if self._timed and self._seconds < math.inf:
            rate = self._timed / (time.monotonic() - self._started)
            left = max(judged, min(left, judged + round(self._seconds * rate) - self._timed))
        if not open_aims:
            self._expected = left
            return f"time for about {numbered(left, 'sample')} of {self._count:,}"
        farthest = max(open_aims, key=lambda aim: aim.needed or math.inf)
        words = (
            f"{farthest.words} (and {len(open_aims) - 1} more)"
            if len(open_aims) > 1
            else farthest.words
        )
        self._expected = max(judged, min(left, farthest.needed or left))
        if farthest.needed is None:  # nothing is scored yet, or the mean is the threshold
            return words
        if farthest.needed > self._count:
            return f"{words}: more samples than the data has"
        return f"{words}: about {numbered(farthest.needed - judged, 'sample')} more"


def _shown(name: str, interval: Interval | None, *, delta: bool) -> str:
    shape = "{:+.2f}" if delta else "{:.2f}"
    if interval is None:
        return f"{name} -"
    mean, low, high = (shape.format(value) for value in interval[:3])
    return f"{name} {mean} [{low}, {high}]"
