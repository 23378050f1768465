"""Verify a run: judge its stored samples again and recompute its files in one pass.

    samples ──cut, word──> questions ──stored answers──> verdicts ──count──> the same files, byte
    for byte?
       │                       └───────────judge───────> verdicts            bit-identical, same verdicts or different
       └──sha256──> the data named in the manifest?

Questions are built from the samples; stored prompts are never sent to the judge, because the run
may be foreign.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from localjudge.dataset.samples import fingerprint
from localjudge.engine.protocol import Engine
from localjudge.errors import InputError, OutOfResource, RunDirectoryError
from localjudge.judging.bench import Bench, JudgeNames, identity_of_bench, use_bench
from localjudge.judging.judges import LoadedJudge
from localjudge.judging.jury import LoadedJury
from localjudge.judging.jury_loop import stored_verdict
from localjudge.judging.loop import (
    TaskRef,
    Wording,
    ask,
    blocks,
    digest,
    distinct,
    evaluate_samples,
    verdicts_of,
)
from localjudge.judging.settings import RunSettings, judges_of, settings_of
from localjudge.judging.verify_labels import LabelsCheck, check_labels
from localjudge.metrics import Metric
from localjudge.metrics.criterion import rubrics
from localjudge.progress import Progress, Silence, count_with_progress
from localjudge.run_directory import directory as run_directory
from localjudge.run_directory import manifest as manifests
from localjudge.run_directory.archive import (
    altered_requests,
    answers_of_units,
    stored_answers,
    stored_keys,
)
from localjudge.run_directory.differences import Difference, differences
from localjudge.run_directory.directory import STORE, excerpt, open_regular
from localjudge.run_directory.files import (
    ROW_FILES,
    SUMMARY,
    Summary,
    Totals,
    row_lines,
    summary_text,
)
from localjudge.run_directory.label_rows import LABELS, now
from localjudge.run_directory.manifest import DataIdentity
from localjudge.run_directory.result_rows import Evaluation
from localjudge.run_directory.run_record import RunRecord, as_run
from localjudge.run_directory.store import AskedUnit
from localjudge.run_directory.verification import (
    VERIFICATION,
    Result,
    VerifiedLabels,
    keep_verification,
)
from localjudge.types import Answer, JudgeCard, Label, NoAnswer, Record, Verdict, VerdictRequest
from localjudge.words import option_name

REPORT = "report.html"
_MACHINE = ("engine.system", "engine.gpu_layers", "engine.repack")
_MOST_PLACES = 20
_UNREADABLE = "it cannot be read"
_NOT_ASKED = NoAnswer(error="the run did not ask this")


class RowChange(Record):
    """The `position`-th verdict of a sample and metric, before and after; None without an answer."""

    sample_id: str
    metric: str
    position: int
    text: str
    before: Label | None
    after: Label | None
    p_before: float | None
    p_after: float | None

    @classmethod
    def of(cls, task: TaskRef, old: Verdict | NoAnswer, new: Verdict | NoAnswer) -> "RowChange":
        row = {name: getattr(task, name) for name in ("sample_id", "metric", "position")}
        for when, verdict in (("before", old), ("after", new)):
            row |= {
                when: getattr(verdict, "label", None),
                f"p_{when}": getattr(verdict, "p_yes", None),
            }
        return cls(**row, text=task.task.unit.span.text)

    @property
    def moved(self) -> bool:
        return self.before != self.after

    @property
    def distance(self) -> float:
        """Change of the probability, 1 if it is missing on one side."""
        if self.p_before is None or self.p_after is None:
            return float(self.p_before != self.p_after)
        return abs(self.p_after - self.p_before)


class ReportCheck(Record):
    """Check of the report in the run's directory."""

    note: str = ""
    problem: str | None = None
    is_unchanged: bool = False


class Verification(Record):
    """Result of a verification. `judge_changes` and `data_changes` list differences from the manifest.

    `rows` are the changed answers, changed verdicts first, then by distance. `altered_requests`
    counts stored requests that differ from the recomputed ones. `files` lists altered files with
    the first differences.
    """

    schema_version: int = 1
    run: str
    signature: str
    judge: JudgeCard
    result: Result = "bit-identical"
    stored_requests: int = 0
    asked_again: int = 0
    identical: int = 0
    verdicts: int = 0
    verdicts_moved: int = 0
    largest_move: float = 0.0
    rows: tuple[RowChange, ...] = ()
    altered_requests: int = 0
    files: dict[str, tuple[str, ...]]
    labels: LabelsCheck = LabelsCheck()
    report: ReportCheck = ReportCheck()
    not_stored: str | None = None
    """Why the result could not be stored in the run directory."""
    judge_changes: tuple[Difference, ...]
    data_changes: tuple[Difference, ...]

    def __bool__(self) -> bool:
        return self.result != "different"

    @property
    def other_machine(self) -> bool:
        """Whether this machine differs in kind, so that equal bytes are not promised."""
        return any(change.ingredient.endswith(_MACHINE) for change in self.judge_changes)


def verify_run(  # noqa: PLR0913 # those of `Run.verify`, and what is above this layer
    run: RunRecord | str | Path,
    *,
    judge: JudgeNames | None = None,
    engine: Engine | None = None,
    sample: int | None = None,
    seed: int = 0,
    metrics: Sequence[Metric] = (),
    progress: Progress | None = None,
    check_report: Callable[[RunRecord], ReportCheck] = lambda _: ReportCheck(),
    **where: Any,
) -> Verification:
    """Ask the judge all questions of the run again, or `sample` drawn by `seed`, and check data and files.

    `check_report` checks the report of an otherwise unchanged run. Stores the result in the run
    directory if it is writable.
    """
    run = as_run(run, check=False)  # files that contradict each other are what it looks for
    progress = progress or Silence()
    with closing(progress):
        keys = stored_keys(run.directory / STORE)
        to_ask = _drawn(keys, sample, seed)
        by_name = {metric.name: metric for metric in metrics}
        computed = [by_name.get(name) or run.manifest.metric(name) for name in run.summary.metrics]
        settings = settings_of(run.manifest, **{"threads": None, **where})
        settings = settings.model_copy(update={"threshold": run.summary.threshold})
        judge_name = judge or (judges_of(run) if engine is None else "")
        labels = check_labels(run)
        with use_bench(judge_name, engine, settings, progress) as opened:
            for line in opened.announcement.splitlines():
                progress.note(line)
            replay = _JuryReplay if isinstance(opened, LoadedJury) else _Replay
            verification = replay(run, opened, computed, settings, progress, to_ask).verification(
                len(keys), labels
            )
        report = (
            check_report(run)
            if verification
            else ReportCheck(note="not checked, because the run differs")
        )
        if report.problem:
            changed = {
                "result": "different",
                "files": verification.files | {REPORT: (report.problem,)},
            }
            verification = verification.model_copy(update=changed)
        verification = verification.model_copy(update={"report": report})
        verification = _keep(run, verification, progress)
    return verification


def _keep(run: RunRecord, verification: Verification, progress: Progress) -> Verification:
    counts = {"asked_again": verification.asked_again, "stored": verification.stored_requests}
    labels = verification.labels
    verified = (
        VerifiedLabels(rows=labels.rows, head=labels.head, when=now())
        if verification
        else labels.before
    )
    try:
        keep_verification(run.directory, verification.result, **counts, labels=verified)
    except (InputError, OutOfResource) as error:
        progress.note(f"{VERIFICATION} cannot be stored: {error.message}")
        return verification.model_copy(update={"not_stored": error.message})
    return verification


def _drawn(keys: Sequence[str], sample: int | None, seed: int) -> set[bytes]:
    if sample is not None and sample < 1:
        hint = "omit it to repeat all answers"
        raise InputError(f"{option_name('sample')} must be at least 1, got {sample}", hint=hint)
    keys = sorted(keys)
    drawn = (
        keys if sample is None or sample >= len(keys) else random.Random(seed).sample(keys, sample)
    )
    return set(map(digest, drawn))


@dataclass
class _Replay:
    """Judge the samples of a run again. Metrics use the stored answers, so that they ask the same questions."""

    run: RunRecord
    judge: Bench
    metrics: Sequence[Metric]
    settings: RunSettings
    progress: Progress
    to_ask: set[bytes]
    asked: set[bytes] = field(default_factory=set)
    changed: dict[str, Answer | NoAnswer] = field(default_factory=dict)
    rows: list[RowChange] = field(default_factory=list)
    verdicts: int = 0

    def __post_init__(self) -> None:
        self._store = self.run.directory / STORE
        self._rule = self.run.rule(self.settings.min_valid_mass)
        self._shapes: set[str] = set()
        self.progress.expect(len(self.to_ask))
        self._begin()

    def _begin(self) -> None:
        assert isinstance(self.judge, LoadedJudge)
        [engine] = self.run.manifest.judge.engines
        self._engine = self.judge.engine
        self._wording = Wording(self.judge, self.settings.sentences, identity=engine)

    def _requests_altered(self) -> int:
        self._shapes |= self._wording.keys.shapes
        return altered_requests(self._store, self.run.manifest.judge.engines, self._shapes)

    def verification(self, stored: int, labels: LabelsCheck) -> Verification:
        run, manifest, sampling = self.run, self.run.manifest, self.run.sampling
        names = [metric.name for metric in self.metrics]
        totals = Totals(
            names,
            self._rule,
            run.cluster_of,
            rubrics(self.metrics),
            sampling,
            run.manifest.environment.settings.max_failed,
        )
        samples = count_with_progress(
            run.iter_samples(), self.progress, "recomputing", run.summary.samples
        )
        sentences = self.settings.sentences
        evaluated = (
            evaluate_samples(block, self.metrics, sentences, self._verdicts_of)
            for block in blocks(samples)
        )
        files = changed_rows(run.directory, evaluated, totals)
        files[SUMMARY] = changed_values(run.directory / SUMMARY, self._summary(totals))
        files[LABELS] = list(labels.problems)
        data = DataIdentity.of(
            fingerprint(run.iter_samples()),
            totals.samples,
            run.cluster_of,
            sampling.max_cluster_size,
        )
        data_changes = tuple(differences(manifest.data, data))
        part = identity_of_bench(self.judge, self.metrics, self.settings)
        moved = sum(row.moved for row in self.rows)
        altered = self._requests_altered()
        is_different = moved or altered or any(files.values()) or data_changes
        same: Result = "same verdicts" if self.changed else "bit-identical"
        return Verification(
            run=str(run.directory),
            signature=manifest.signature,
            judge=self.judge.card,
            result="different" if is_different else same,
            stored_requests=stored,
            asked_again=len(self.asked),
            identical=len(self.asked) - len(self.changed),
            verdicts=self.verdicts,
            verdicts_moved=moved,
            largest_move=max((row.distance for row in self.rows), default=0.0),
            rows=tuple(sorted(self.rows, key=lambda row: (not row.moved, -row.distance))),
            altered_requests=altered,
            files={name: tuple(places[:_MOST_PLACES]) for name, places in files.items() if places},
            labels=labels,
            judge_changes=tuple(differences(manifest.judge, part)),
            data_changes=data_changes,
        )

    def _verdicts_of(self, tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        worded = self._wording.worded(tasks)
        questions = distinct(worded)
        stored = stored_answers(self._store, questions)
        self._ask_again({key: questions[key].request for key in stored}, stored)
        before: dict[str, Answer | NoAnswer] = {
            key: stored.get(key, _NOT_ASKED) for key in questions
        }
        after = {key: self.changed.get(key, answer) for key, answer in before.items()}
        verdicts = verdicts_of(tasks, worded, before, self._rule)
        now = verdicts_of(tasks, worded, after, self._rule)
        for task, asked, old, new in zip(tasks, worded, verdicts, now, strict=True):
            keys = [keyed.key for keyed, _ in asked] if isinstance(asked, tuple) else []
            self._note_change(task, keys, old, new)
        return verdicts

    def _ask_again(
        self, requests: Mapping[str, VerdictRequest], stored: Mapping[str, Answer | NoAnswer]
    ) -> None:
        """Ask the drawn ones of these requests."""
        drawn = {key: request for key, request in requests.items() if digest(key) in self.to_ask}
        answers = ask(self._engine, drawn, self.progress)
        self.to_ask.difference_update(map(digest, drawn))
        self.asked.update(map(digest, drawn))
        self.changed |= {key: answer for key, answer in answers.items() if answer != stored[key]}

    def _note_change(
        self,
        task: TaskRef,
        keys: Sequence[str],
        old: Verdict | NoAnswer,
        new: Verdict | NoAnswer,
    ) -> None:
        self.verdicts += any(digest(key) in self.asked for key in keys)
        if any(key in self.changed for key in keys):
            self.rows.append(RowChange.of(task, old, new))

    def _summary(self, totals: Totals) -> Summary:
        manifest = self.run.manifest
        card, source = manifest.card, self.judge.source
        if (
            source and source == manifest.environment.judge
        ) or self.run.summary.judge.name != card.name:
            card = card.model_copy(update={"name": self.judge.card.name})
        signature = manifests.signature(manifest.judge, manifest.data)
        summary = totals.summary(signature, card, manifest.environment.skipped_rows)
        thresholds = {
            "threshold": manifest.judge.threshold,
            "thresholds": manifest.judge.thresholds,
        }
        return summary.model_copy(update={**thresholds, "stopped": manifest.environment.stopped})


class _JuryReplay(_Replay):
    """Let each judge of a jury answer again, in its turn, then combine the stored answers."""

    def _begin(self) -> None:
        assert isinstance(self.judge, LoadedJury)
        identity = self.run.manifest.judge
        self.judge.use_scales_of(identity.jury)
        self._unasked: dict[AskedUnit, Verdict | NoAnswer] = {}
        self._altered_units = 0
        self._names = list(identity.jury)
        if self._names != self.judge.names:
            here = ", ".join(self.judge.names)
            problem = f"{self.run.directory} was judged by {', '.join(self._names)}, and the judges here are {here}"
            raise InputError(problem, hint="name the judges of the run")
        for place in self.judge.order:
            engine = identity.jury[self._names[place]].engine.as_json
            opened = self.judge.open(place)
            self._engine = opened.engine
            self._wording = Wording(opened, self.settings.sentences, identity=engine)
            self.progress.phase(self._names[place])
            for block in blocks(self.run.iter_samples()):
                verdicts = partial(self._check, place)
                evaluate_samples(block, self.metrics, self.settings.sentences, verdicts)
            self._shapes |= self._wording.keys.shapes

    def _check(self, place: int, tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        """Compare the questions of one judge with the stored ones, and ask the drawn ones again."""
        name = self._names[place]
        concerned = [task for task in tasks if name in self._rule.combinations[task.metric].weights]
        worded = self._wording.worded(concerned)
        questions = distinct(worded)
        stored = stored_answers(self._store, questions)
        self._ask_again({key: questions[key].request for key in stored}, stored)
        answers = answers_of_units(self._store, dict.fromkeys(task.sample_id for task in tasks))
        for task, asked in zip(concerned, worded, strict=True):
            unit = AskedUnit(task.sample_id, task.metric, task.position, place)
            expected = (
                [(window or 0, keyed.key) for keyed, window in asked]
                if isinstance(asked, tuple)
                else []
            )
            if not isinstance(asked, tuple):
                self._unasked[unit] = asked
            self._altered_units += expected != [
                (window.number, window.key) for window in answers.get(unit, ())
            ]
        return [
            stored_verdict(task, self._names, answers, self._unasked, self._rule) for task in tasks
        ]

    def _requests_altered(self) -> int:
        altered = altered_requests(self._store, self.run.manifest.judge.engines, self._shapes)
        return max(altered, self._altered_units)

    def _verdicts_of(self, tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        before = answers_of_units(self._store, dict.fromkeys(task.sample_id for task in tasks))
        after = {
            unit: [
                window._replace(answer=self.changed.get(window.key, window.answer))
                for window in windows
            ]
            for unit, windows in before.items()
        }
        verdicts: list[Verdict | NoAnswer] = []
        for task in tasks:
            old = stored_verdict(task, self._names, before, self._unasked, self._rule)
            new = stored_verdict(task, self._names, after, self._unasked, self._rule)
            units = [
                AskedUnit(task.sample_id, task.metric, task.position, place)
                for place in range(len(self._names))
            ]
            keys = [window.key for unit in units for window in before.get(unit, ())]
            self._note_change(task, keys, old, new)
            verdicts.append(old)
        return verdicts


def changed_rows(
    directory: Path, evaluated: Iterable[Sequence[Evaluation]], totals: Totals
) -> dict[str, list[str]]:
    changes: dict[str, list[str]] = {name: [] for name in ROW_FILES}
    rows = dict.fromkeys(ROW_FILES, 0)
    with ExitStack() as stack:
        files = {}
        for name in ROW_FILES:
            try:
                files[name] = stack.enter_context(open_regular(directory / name))
            except RunDirectoryError:
                changes[name].append(_UNREADABLE)
        for evaluations in evaluated:
            totals.add(evaluations)
            for name, lines in row_lines(evaluations).items():
                for line in lines if name in files else ():
                    rows[name] += 1
                    same = files[name].readline(run_directory.MOST_BYTES_OF_VALUE) == line.encode()
                    if not same and len(changes[name]) < _MOST_PLACES:
                        changes[name].append(f"row {rows[name]}")
        for name, file in files.items():
            if file.read(1):
                changes[name].append(f"row {rows[name] + 1}")
    return changes


def changed_values(path: Path, summary: Summary) -> list[str]:
    """Return the names of values that differ in `summary.json` (`judge.caution`), "formatting" if only bytes differ."""
    try:
        with open_regular(path) as file:
            if file.read(run_directory.MOST_BYTES_OF_OBJECT) == summary_text(summary).encode():
                return []
        changes = differences(run_directory.read_object(path), summary.model_dump(mode="json"))
    except RunDirectoryError:
        return [_UNREADABLE]
    return [excerpt(change.ingredient) for change in changes] or ["formatting"]
