"""Turn samples into the verdicts of a jury.

    pass 1      judge 1 answers the questions of all samples                       ──> store
    pass 2      judge 2 answers its questions; complete verdicts ──metrics──> more questions?
    ...         passes are repeated until every judge has answered every question
    at the end  stored answers ──windows──> verdict of each judge ──combination──> verdict of the jury

Each pass is the loop over one engine (`run/loop.py`), so each judge has the same questions, keys
and windows as alone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from localjudge.judging.jury import LoadedJury
from localjudge.judging.loop import Blocks, TaskRef, blocks, evaluate_samples, verdict_of
from localjudge.judging.settings import RunSettings
from localjudge.metrics import Metric
from localjudge.progress import Progress, Silence
from localjudge.run_directory.jury import combine
from localjudge.run_directory.result_rows import Evaluation
from localjudge.run_directory.reuse import EarlierAnswers
from localjudge.run_directory.store import AskedUnit, AskedWindow, Store
from localjudge.types import Answer, Label, NoAnswer, Sample, Verdict, VerdictRequest, VerdictRule

StoredAnswers = Mapping[AskedUnit, Sequence[AskedWindow]]
"""Windows of each unit with their answers so far, by judge."""
NOT_YET = NoAnswer(error="a judge has not answered yet")
"""Verdict of a unit with a missing answer."""


def jury_verdict(
    parts: Mapping[str, Verdict | NoAnswer], rule: VerdictRule, metric: str
) -> Verdict | NoAnswer:
    """Return the jury's verdict from its judges' verdicts by name: no answer if one of them has none."""
    probabilities: dict[str, float] = {}
    verdicts: list[Verdict] = []
    for name in sorted(parts):
        part = parts[name]
        if isinstance(part, NoAnswer):
            return (
                NOT_YET
                if part is NOT_YET
                else NoAnswer(error=f"{name}: {part.error}", valid_mass=part.valid_mass)
            )
        if part.p_yes is None:
            return part
        probabilities[name] = part.p_yes
        verdicts.append(part)
    p_yes = combine(probabilities, rule.combinations[metric])
    label: Label = 1 if p_yes >= rule.of(metric).threshold else 0
    windows = {verdict.window for verdict in verdicts if verdict.window is not None}
    reasons = [
        f"{name}: {verdict.reason}"
        for name, verdict in zip(probabilities, verdicts, strict=True)
        if verdict.reason
    ]
    return Verdict(
        label=label,
        p_yes=p_yes,
        valid_mass=min(
            verdict.valid_mass for verdict in verdicts if verdict.valid_mass is not None
        ),
        reason="; ".join(reasons) or None,
        window=windows.pop() if len(windows) == 1 else None,
        judges=probabilities,
    )


def stored_verdict(
    task: TaskRef,
    names: Sequence[str],
    answers: StoredAnswers,
    unasked: Mapping[AskedUnit, Verdict | NoAnswer],
    rule: VerdictRule,
) -> Verdict | NoAnswer:
    """Return the jury's verdict from stored answers; `unasked` has the verdicts of judges without a question.

    Judges without a weight for the metric take no part in it.
    """
    parts: dict[str, Verdict | NoAnswer] = {}
    for place, name in enumerate(names):
        if name not in rule.combinations[task.metric].weights:
            continue
        unit = AskedUnit(task.sample_id, task.metric, task.position, place)
        if unit in unasked:
            parts[name] = unasked[unit]
        else:
            parts[name] = _verdict_of_windows(answers.get(unit, ()), rule.of(task.metric))
    waiting = any(part is NOT_YET for part in parts.values())
    return NOT_YET if waiting else jury_verdict(parts, rule, task.metric)


def _verdict_of_windows(windows: Sequence[AskedWindow], rule: VerdictRule) -> Verdict | NoAnswer:
    is_cut = len(windows) > 1 or any(window.number > 0 for window in windows)
    answers: list[tuple[Answer | NoAnswer, int | None]] = []
    for window in windows:
        if window.answer is None:
            return NOT_YET
        answers.append((window.answer, window.number if is_cut else None))
    return verdict_of(answers, rule) if answers else NOT_YET


@dataclass
class JuryBlocks:
    """Judge samples by a jury. The judges take turns over all samples that `prepare` or `evaluations` receives."""

    jury: LoadedJury
    store: Store
    metrics: Sequence[Metric]
    settings: RunSettings
    progress: Progress
    rule: VerdictRule
    earlier: Sequence[EarlierAnswers] = ()
    watch: Callable[[VerdictRequest], object] = lambda _request: None
    """Called after each answer is stored."""
    asked: int = 0
    _unasked: dict[AskedUnit, Verdict | NoAnswer] = field(default_factory=dict)
    _waiting: bool = False

    def evaluations(self, samples: Sequence[Sample]) -> Iterator[list[Evaluation]]:
        self.prepare(samples)
        for block in blocks(samples):
            yield self._evaluate(block)

    def evaluate(self, block: Sequence[Sample], share: float) -> list[Evaluation]:
        """Evaluate a block. `share` is not used: the progress of each judge is over the prepared samples."""
        evaluations = self._evaluate(block)
        if self._waiting:
            self.prepare(block)
            evaluations = self._evaluate(block)
        return evaluations

    def prepare(self, samples: Sequence[Sample]) -> None:
        """Let each judge answer all questions about these samples."""
        waiting = bool(samples)
        while waiting:
            for place in self.jury.order:
                waiting = self._pass(place, samples)

    def _pass(self, place: int, samples: Sequence[Sample]) -> bool:
        """Let one judge answer. Returns whether a verdict then waits for another judge."""
        opened = self.jury.open(place)
        name = self.jury.names[place]
        self.progress.phase(name)
        judging = Blocks(
            opened,
            self.store,
            self.metrics,
            self.settings,
            self.progress,
            self.earlier,
            watch=self.watch,
            place=place,
        )
        waiting = False

        def verdicts(tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
            nonlocal waiting
            concerned = [
                task for task in tasks if name in self.rule.combinations[task.metric].weights
            ]
            own = judging.verdicts(concerned)
            answers = self._answers_about(tasks)
            for task, verdict in zip(concerned, own, strict=True):
                unit = AskedUnit(task.sample_id, task.metric, task.position, place)
                if unit not in answers:  # decided without a question
                    self._unasked[unit] = verdict
            of_jury = self._stored_verdicts(tasks, answers)
            waiting = waiting or any(verdict is NOT_YET for verdict in of_jury)
            return of_jury

        done = 0
        for block in blocks(samples):
            done += len(block)
            judging.judge_with(verdicts, block, done / len(samples))
        self.asked += judging.asked
        return waiting

    def _evaluate(self, block: Sequence[Sample]) -> list[Evaluation]:
        self._waiting = False

        def verdicts(tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
            of_jury = self._stored_verdicts(tasks, self._answers_about(tasks))
            self._waiting = self._waiting or any(verdict is NOT_YET for verdict in of_jury)
            return of_jury

        return evaluate_samples(block, self.metrics, self.settings.sentences, verdicts)

    def _answers_about(self, tasks: Sequence[TaskRef]) -> StoredAnswers:
        return self.store.answers_about(dict.fromkeys(task.sample_id for task in tasks))

    def _stored_verdicts(
        self, tasks: Sequence[TaskRef], answers: StoredAnswers
    ) -> list[Verdict | NoAnswer]:
        names = self.jury.names
        return [stored_verdict(task, names, answers, self._unasked, self.rule) for task in tasks]


def jury_evaluations_in_memory(
    jury: LoadedJury,
    metrics: Sequence[Metric],
    settings: RunSettings,
    earlier: Sequence[EarlierAnswers],
) -> Callable[[Sequence[Sample]], Iterator[list[Evaluation]]]:
    """Return a function that evaluates samples without a store, by a jury whose models are all open."""
    rule = jury.rule_for(metrics, settings, Silence())
    loops = {
        name: Blocks(jury.open(place), None, metrics, settings, Silence(), earlier)
        for place, name in enumerate(jury.names)
    }

    def verdicts(tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        parts: list[dict[str, Verdict | NoAnswer]] = [{} for _ in tasks]
        for name, judging in loops.items():
            places = [
                place
                for place, task in enumerate(tasks)
                if name in rule.combinations[task.metric].weights
            ]
            own = judging.verdicts([tasks[place] for place in places])
            for place, verdict in zip(places, own, strict=True):
                parts[place][name] = verdict
        return [
            jury_verdict(part, rule, task.metric) for part, task in zip(parts, tasks, strict=True)
        ]

    def evaluate(samples: Sequence[Sample]) -> Iterator[list[Evaluation]]:
        for block in blocks(samples):
            yield evaluate_samples(block, metrics, settings.sentences, verdicts)

    return evaluate
