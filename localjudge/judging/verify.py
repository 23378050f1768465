"""Verify a run: judge its stored samples again and recompute its files in one pass.

    samples ──cut, word──> questions ──stored answers──> verdicts ──count──> the same files?
       │                       └──────────judge────────> verdicts            the same verdicts?
       └──sha256──> the data named in the manifest?

Questions are built from the samples; stored prompts are never sent to the judge, because the run
may be foreign.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from localjudge.dataset.samples import fingerprint
from localjudge.engine.protocol import Engine
from localjudge.errors import InputError, OutOfResource, RunDirectoryError
from localjudge.judging.evidence import EvidenceSearch
from localjudge.judging.judge_or_jury import JudgeNames, JudgeOrJury, use_judge_or_jury
from localjudge.judging.judges import LoadedJudge
from localjudge.judging.jury import LoadedJury
from localjudge.judging.jury_loop import select_tasks, stored_verdict
from localjudge.judging.loop import (
    TaskRef,
    WordedTask,
    Wording,
    ask,
    blocks,
    decide_verdicts,
    digest,
    distinct,
    evaluate_samples,
)
from localjudge.judging.settings import RunSettings, find_judges, read_run_settings
from localjudge.judging.verify_labels import LabelsCheck, check_labels
from localjudge.metrics import Metric
from localjudge.progress import Progress, Silence, count_with_progress
from localjudge.run_directory import directory as run_directory
from localjudge.run_directory.archive import (
    altered_requests,
    answers_of_units,
    stored_answers,
    stored_keys,
)
from localjudge.run_directory.differences import Difference, differences
from localjudge.run_directory.directory import STORE, excerpt, open_regular
from localjudge.run_directory.files import (
    SUMMARY,
    Summary,
    Totals,
    row_files,
    row_lines,
    summary_text,
)
from localjudge.run_directory.label_rows import LABELS
from localjudge.run_directory.manifest import DataIdentity, signature
from localjudge.run_directory.result_rows import Evaluation
from localjudge.run_directory.run_record import RunRecord, as_run
from localjudge.run_directory.store import AskedUnit, AskedWindow
from localjudge.run_directory.verification import (
    VERIFICATION,
    Result,
    keep_verification,
)
from localjudge.types import Answer, JudgeCard, Label, NoAnswer, Record, Verdict, VerdictRequest
from localjudge.words import option_name

REPORT = "report.html"
_MACHINE = ("engine.system", "engine.gpu_layers", "engine.repack")
_MAX_PLACES = 20
_UNREADABLE = "it cannot be read"
_NOT_ASKED = NoAnswer(error="the run did not ask this")


class RowChange(Record):
    """The `position`-th verdict of a sample and metric, before and after; None without an
    answer.
    """

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
        return cls(
            sample_id=task.sample_id,
            metric=task.metric,
            position=task.position,
            text=task.task.unit.span.text,
            before=getattr(old, "label", None),
            after=getattr(new, "label", None),
            p_before=getattr(old, "p_yes", None),
            p_after=getattr(new, "p_yes", None),
        )

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
    """Result of a verification.

    `judge_changes` and `data_changes` list differences from the manifest. `rows` are the changed
    answers, changed verdicts first, then by distance. `altered_requests` counts stored requests
    that differ from the recomputed ones. `files` lists altered files with the first differences.
    `not_stored` says why the result could not be stored in the run directory.
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
    """Ask the judge again, all questions of the run or `sample` drawn by `seed`, and check files.

    `check_report` checks the report of an otherwise unchanged run. Stores the result in the run
    directory if it is writable.
    """
    run = as_run(run, check=False)  # files that contradict each other are what it looks for
    progress = progress or Silence()
    with closing(progress):
        keys = stored_keys(run.directory / STORE)
        to_ask = _draw_keys(keys, sample, seed)
        computed = _find_metrics(run, metrics)
        settings = read_run_settings(run.manifest, **{"threads": None, **where})
        settings = settings.model_copy(update={"threshold": run.summary.threshold})
        if not judge and engine is None:
            judge = find_judges(run)
        labels = check_labels(run)
        with use_judge_or_jury(judge, engine, settings, progress) as opened:
            for line in opened.announcement.splitlines():
                progress.note(line)
            replay = _start_replay(run, opened, computed, settings, progress, to_ask)
            verification = replay.verify(len(keys), labels)
        verification = _add_report(run, verification, check_report)
        return _store_result(run, verification, progress)


def _draw_keys(keys: Sequence[str], sample: int | None, seed: int) -> set[bytes]:
    """Return the digests of the questions to ask again. Raises InputError."""
    if sample is not None and sample < 1:
        hint = "omit it to repeat all answers"
        raise InputError(f"{option_name('sample')} must be at least 1, got {sample}", hint=hint)
    drawn = sorted(keys)
    if sample is not None and sample < len(drawn):
        drawn = random.Random(seed).sample(drawn, sample)
    return set(map(digest, drawn))


def _find_metrics(run: RunRecord, metrics: Sequence[Metric]) -> list[Metric]:
    """Return the metrics of the run: these objects by name, else as named in the manifest."""
    by_name = {metric.name: metric for metric in metrics}
    return [by_name.get(name) or run.manifest.metric(name) for name in run.summary.metrics]


def _add_report(
    run: RunRecord, verification: Verification, check_report: Callable[[RunRecord], ReportCheck]
) -> Verification:
    if not verification:
        report = ReportCheck(note="not checked, because the run differs")
        return verification.model_copy(update={"report": report})
    report = check_report(run)
    changes: dict[str, Any] = {"report": report}
    if report.problem:
        changes["result"] = "different"
        changes["files"] = verification.files | {REPORT: (report.problem,)}
    return verification.model_copy(update=changes)


def _store_result(run: RunRecord, verification: Verification, progress: Progress) -> Verification:
    labels = verification.labels
    verified = labels.verified
    if verification:
        verified = labels.current
    try:
        keep_verification(
            run.directory,
            verification.result,
            asked_again=verification.asked_again,
            stored=verification.stored_requests,
            labels=verified,
        )
    except (InputError, OutOfResource) as error:
        progress.note(f"{VERIFICATION} cannot be stored: {error.message}")
        return verification.model_copy(update={"not_stored": error.message})
    return verification


def _start_replay(
    run: RunRecord,
    judge: JudgeOrJury,
    metrics: Sequence[Metric],
    settings: RunSettings,
    progress: Progress,
    to_ask: set[bytes],
) -> "_Replay":
    if isinstance(judge, LoadedJury):
        return _JuryReplay(run, judge, metrics, settings, progress, to_ask)
    return _JudgeReplay(run, judge, metrics, settings, progress, to_ask)


class _Replay(ABC):
    """Judge the samples of a run again.

    Metrics use the stored answers, so that they ask the same questions. `to_ask` has the digests of
    the questions that the judge is asked again.
    """

    def __init__(
        self,
        run: RunRecord,
        judge: JudgeOrJury,
        metrics: Sequence[Metric],
        settings: RunSettings,
        progress: Progress,
        to_ask: set[bytes],
    ) -> None:
        self.run = run
        self.metrics = metrics
        self.settings = settings
        self.progress = progress
        self._judge = judge
        self._to_ask = to_ask
        self._asked: set[bytes] = set()
        self._changed: dict[str, Answer | NoAnswer] = {}
        self._rows: list[RowChange] = []
        self._verdict_count = 0
        self._shapes: set[str] = set()
        self._store = run.directory / STORE
        self._rule = run.rule(settings.min_valid_mass)
        progress.expect(len(to_ask))

    @abstractmethod
    def _replay_verdicts(self, tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        """Return the verdicts by the stored answers, and note changes by the new ones."""

    def _count_altered_requests(self) -> int:
        """Count stored requests that the samples do not lead to. Call it after the replay."""
        return altered_requests(self._store, self.run.manifest.judge.engines, self._shapes)

    def verify(self, stored: int, labels: LabelsCheck) -> Verification:
        """Replay the run, which has this number of `stored` answers, and compare everything."""
        run = self.run
        manifest = run.manifest
        files = self._compare_files()
        files[LABELS] = list(labels.problems)
        data = DataIdentity.of(
            fingerprint(run.iter_samples()),
            self._totals.samples,
            run.cluster_of,
            run.sampling.max_cluster_size,
        )
        data_changes = tuple(differences(manifest.data, data))
        identity = self._judge.identify(self.metrics, self.settings, Silence())
        moved = sum(row.moved for row in self._rows)
        altered = self._count_altered_requests()
        result: Result = "bit-identical"
        if moved or altered or any(files.values()) or data_changes:
            result = "different"
        elif self._changed:
            result = "same verdicts"
        return Verification(
            run=str(run.directory),
            signature=manifest.signature,
            judge=self._judge.card,
            result=result,
            stored_requests=stored,
            asked_again=len(self._asked),
            identical=len(self._asked) - len(self._changed),
            verdicts=self._verdict_count,
            verdicts_moved=moved,
            largest_move=max((row.distance for row in self._rows), default=0.0),
            rows=tuple(sorted(self._rows, key=lambda row: (not row.moved, -row.distance))),
            altered_requests=altered,
            files={name: tuple(places[:_MAX_PLACES]) for name, places in files.items() if places},
            labels=labels,
            judge_changes=tuple(differences(manifest.judge, identity)),
            data_changes=data_changes,
        )

    def _compare_files(self) -> dict[str, list[str]]:
        """Replay the run, and return the changes of each result file."""
        run = self.run
        self._totals = run.totals([metric.name for metric in self.metrics], self._rule)
        count = run.summary.samples
        samples = count_with_progress(run.iter_samples(), self.progress, "recomputing", count)
        evaluated = (
            evaluate_samples(block, self.metrics, self.settings.sentences, self._replay_verdicts)
            for block in blocks(samples)
        )
        files = changed_rows(run, evaluated, self._totals, self.settings)
        files[SUMMARY] = changed_values(run.directory / SUMMARY, self._summarise())
        return files

    def _summarise(self) -> Summary:
        manifest = self.run.manifest
        card = manifest.card
        source = self._judge.source
        is_same_source = source and source == manifest.environment.judge
        if is_same_source or self.run.summary.judge.name != card.name:
            card = card.model_copy(update={"name": self._judge.card.name})
        summary = self._totals.summary(
            signature(manifest.judge, manifest.data), card, manifest.environment.skipped_rows
        )
        return summary.model_copy(
            update={
                "threshold": manifest.judge.threshold,
                "thresholds": manifest.judge.thresholds,
                "stopped": manifest.environment.stopped,
            }
        )

    def _ask_again(
        self,
        engine: Engine,
        requests: Mapping[str, VerdictRequest],
        stored: Mapping[str, Answer | NoAnswer],
    ) -> None:
        """Ask the drawn ones of these requests, and note answers that differ from the stored."""
        drawn = {key: request for key, request in requests.items() if digest(key) in self._to_ask}
        answers = ask(engine, drawn, self.progress)
        digests = set(map(digest, drawn))
        self._to_ask -= digests
        self._asked |= digests
        for key, answer in answers.items():
            if answer != stored[key]:
                self._changed[key] = answer

    def _note_change(
        self,
        task: TaskRef,
        keys: Sequence[str],
        old: Verdict | NoAnswer,
        new: Verdict | NoAnswer,
    ) -> None:
        """Note the verdict of a task if the judge was asked these questions again."""
        if any(digest(key) in self._asked for key in keys):
            self._verdict_count += 1
        if any(key in self._changed for key in keys):
            self._rows.append(RowChange.of(task, old, new))


class _JudgeReplay(_Replay):
    """Let one judge answer again, while the metrics ask."""

    def __init__(self, run: RunRecord, judge: LoadedJudge, *how: Any) -> None:
        super().__init__(run, judge, *how)
        [engine] = run.manifest.judge.engines
        self._engine = judge.engine
        self._wording = Wording(judge, self.settings.sentences, identity=engine)

    def _replay_verdicts(self, tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        worded = self._wording.word(tasks)
        questions = distinct(worded)
        stored = stored_answers(self._store, questions)
        self._ask_again(self._engine, {key: questions[key].request for key in stored}, stored)
        before = {key: stored.get(key, _NOT_ASKED) for key in questions}
        after = {key: self._changed.get(key, answer) for key, answer in before.items()}
        old_verdicts = decide_verdicts(tasks, worded, before, self._rule)
        new_verdicts = decide_verdicts(tasks, worded, after, self._rule)
        for task, asked, old, new in zip(tasks, worded, old_verdicts, new_verdicts, strict=True):
            self._note_change(task, _list_keys(asked), old, new)
        return old_verdicts

    def _count_altered_requests(self) -> int:
        self._shapes |= self._wording.keys.shapes
        return super()._count_altered_requests()


def _list_keys(asked: WordedTask) -> list[str]:
    if not isinstance(asked, tuple):
        return []
    return [keyed.key for keyed, _ in asked]


class _JuryReplay(_Replay):
    """Let each judge of a jury answer again, in its turn, then combine the stored answers."""

    def __init__(self, run: RunRecord, jury: LoadedJury, *how: Any) -> None:
        super().__init__(run, jury, *how)
        stored = run.manifest.judge.jury
        self._names = list(stored)
        self._unasked: dict[AskedUnit, Verdict | NoAnswer] = {}
        self._altered_units = 0
        jury.adopt_scales(stored)
        if self._names != jury.names:
            there = f"{run.directory} was judged by {', '.join(self._names)}"
            here = f"the judges here are {', '.join(jury.names)}"
            raise InputError(f"{there}, and {here}", hint="name the judges of the run")
        for place in jury.order:
            self._let_judge_answer(jury, place)

    def _let_judge_answer(self, jury: LoadedJury, place: int) -> None:
        """Compare the questions of one judge with the stored ones, and ask the drawn ones."""
        name = self._names[place]
        judge = jury.open(place)
        sentences = self.settings.sentences
        engine = self.run.manifest.judge.jury[name].engine.as_json
        wording = Wording(judge, sentences, identity=engine)
        self.progress.phase(name)
        verdicts = partial(self._check_questions, place, judge, wording)
        for block in blocks(self.run.iter_samples()):
            evaluate_samples(block, self.metrics, sentences, verdicts)
        self._shapes |= wording.keys.shapes

    def _check_questions(
        self, place: int, judge: LoadedJudge, wording: Wording, tasks: Sequence[TaskRef]
    ) -> list[Verdict | NoAnswer]:
        selected = select_tasks(tasks, self._names[place], self._rule)
        worded = wording.word(selected)
        questions = distinct(worded)
        stored = stored_answers(self._store, questions)
        self._ask_again(judge.engine, {key: questions[key].request for key in stored}, stored)
        answers = self._answers_about(tasks)
        for task, asked in zip(selected, worded, strict=True):
            unit = AskedUnit(task.sample_id, task.metric, task.position, place)
            expected: list[tuple[int, str]] = []
            if isinstance(asked, tuple):
                expected = [(window or 0, keyed.key) for keyed, window in asked]
            else:
                self._unasked[unit] = asked
            windows = [(window.number, window.key) for window in answers.get(unit, ())]
            if windows != expected:
                self._altered_units += 1
        return [self._decide(task, answers) for task in tasks]

    def _count_altered_requests(self) -> int:
        return max(super()._count_altered_requests(), self._altered_units)

    def _replay_verdicts(self, tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        before = self._answers_about(tasks)
        after = {unit: self._replace_changed(windows) for unit, windows in before.items()}
        verdicts: list[Verdict | NoAnswer] = []
        for task in tasks:
            keys: list[str] = []
            for place in range(len(self._names)):
                unit = AskedUnit(task.sample_id, task.metric, task.position, place)
                keys += [window.key for window in before.get(unit, ())]
            old = self._decide(task, before)
            self._note_change(task, keys, old, self._decide(task, after))
            verdicts.append(old)
        return verdicts

    def _replace_changed(self, windows: Sequence[AskedWindow]) -> list[AskedWindow]:
        replaced: list[AskedWindow] = []
        for window in windows:
            answer = self._changed.get(window.key, window.answer)
            replaced.append(window._replace(answer=answer))
        return replaced

    def _answers_about(self, tasks: Sequence[TaskRef]) -> dict[AskedUnit, list[AskedWindow]]:
        return answers_of_units(self._store, dict.fromkeys(task.sample_id for task in tasks))

    def _decide(
        self, task: TaskRef, answers: Mapping[AskedUnit, Sequence[AskedWindow]]
    ) -> Verdict | NoAnswer:
        return stored_verdict(task, self._names, answers, self._unasked, self._rule)


def changed_rows(
    run: RunRecord,
    evaluated: Iterable[Sequence[Evaluation]],
    totals: Totals,
    settings: RunSettings,
) -> dict[str, list[str]]:
    """Return the first rows of each file that differ from the evaluations, and add these up."""
    names = row_files(with_evidence=run.has_evidence)
    changes: dict[str, list[str]] = {name: [] for name in names}
    counts = dict.fromkeys(names, 0)
    search = EvidenceSearch(run.iter_samples(), settings)
    with ExitStack() as stack:
        files: dict[str, BinaryIO] = {}
        for name in names:
            try:
                files[name] = stack.enter_context(open_regular(run.directory / name))
            except RunDirectoryError:
                changes[name].append(_UNREADABLE)
        for evaluations in evaluated:
            totals.add(evaluations)
            evidence = search.rows(evaluations) if run.has_evidence else None
            lines_by_file = row_lines(evaluations, evidence)
            for name, file in files.items():
                for line in lines_by_file[name]:
                    counts[name] += 1
                    is_same = file.readline(run_directory.MOST_BYTES_OF_VALUE) == line.encode()
                    if not is_same and len(changes[name]) < _MAX_PLACES:
                        changes[name].append(f"row {counts[name]}")
        for name, file in files.items():
            if file.read(1):
                changes[name].append(f"row {counts[name] + 1}")
    return changes


def changed_values(path: Path, summary: Summary) -> list[str]:
    """Return the names of values that differ in `summary.json`, such as `judge.caution`.

    Returns "formatting" if only bytes differ.
    """
    try:
        with open_regular(path) as file:
            content = file.read(run_directory.MOST_BYTES_OF_OBJECT)
        if content == summary_text(summary).encode():
            return []
        changes = differences(run_directory.read_object(path), summary.model_dump(mode="json"))
    except RunDirectoryError:
        return [_UNREADABLE]
    return [excerpt(change.ingredient) for change in changes] or ["formatting"]
