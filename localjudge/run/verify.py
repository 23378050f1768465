"""Whether a run can be had again: one pass over its stored samples judges and counts anew.

    samples ──cut, word──> questions ──stored answers──> verdicts ──count──> the same files, byte for byte?
       │                       └───────────judge───────> verdicts            bit-identical, same verdicts or different
       └──sha256──> the data that the manifest speaks of?

Nothing but the run's directory and its judge is needed, and nothing in the directory is changed. The judge is asked
what the samples give now, and no text of a stored prompt: a stranger's directory puts no word into its mouth. A sample
of the questions may be asked in place of all; files and data are always checked as a whole, which asks nothing.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, BinaryIO, Literal

from localjudge import model_registry
from localjudge.dataset.identity import fingerprint
from localjudge.engine.opening import is_in_place
from localjudge.engine.protocol import Engine
from localjudge.errors import InputError, ModelError, RunDirectoryError
from localjudge.metrics import Metric, catalog
from localjudge.metrics.criterion import rubrics
from localjudge.progress import Progress, Silence, counted
from localjudge.record.archive import altered_requests, stored_answers, stored_ids, stored_keys
from localjudge.record.directory import (
    MOST_BYTES_OF_OBJECT,
    MOST_BYTES_OF_VALUE,
    STORE,
    excerpt,
    open_regular,
    read_object,
)
from localjudge.record.files import ROW_FILES, SUMMARY, Summary, Totals, row_lines, summary_text
from localjudge.record.manifest import (
    Difference,
    card_of,
    combination_of,
    data_part,
    differences,
    kept_calibrations,
    kept_criteria,
    signature,
)
from localjudge.record.result_rows import Evaluation
from localjudge.record.run import Run, as_run
from localjudge.record.store import canonical_sha256
from localjudge.run.combine import CombinedRuns, runs_combined_in
from localjudge.run.judges import JudgeName, OpenJudge, judge_part_of, opened_judge
from localjudge.run.loop import TaskRef, Wording, ask, blocks, distinct, evaluate_samples, verdicts_of
from localjudge.run.settings import RunSettings, judge_of, settings_of
from localjudge.types import Answer, JudgeCard, Label, NoAnswer, Record, Verdict, VerdictRequest, VerdictRule
from localjudge.words import call

Result = Literal["bit-identical", "same verdicts", "different"]

_MACHINE = {"engine.system", "engine.gpu_layers", "engine.repack"}
_MOST_PLACES = 20
_SHA256_DIGITS = 12
_DIGEST_BYTES = 16
_UNREADABLE = "it cannot be read"
_NOT_ASKED = NoAnswer(error="the run did not ask this")


class RowChange(Record):
    """A verdict row before and after, of whose answers at least one bit is another.

    `position` counts the rows of its sample and metric. A row without an answer has neither label nor probability.
    """

    sample_id: str
    metric: str
    position: int
    text: str
    before: Label | None
    after: Label | None
    p_before: float | None
    p_after: float | None

    @property
    def moved(self) -> bool:
        """Whether the verdict is another one."""
        return self.before != self.after

    @property
    def distance(self) -> float:
        """How far the probability moved; 1 where there is none on one side."""
        if self.p_before is None or self.p_after is None:
            return float(self.p_before != self.p_after)
        return abs(self.p_after - self.p_before)


class Verification(Record):
    """What came of it. `judge_changes` and `data_changes` name the ingredients that are not what the manifest says.

    `rows` are the verdict rows whose answer changed in any bit, those first whose verdict moved, then by distance.
    `altered_requests` counts stored requests that are not what was asked; `files` are those that the stored answers do
    not give, each with the first places where it is another: rows of scores and verdicts, names of values of a summary.
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
    judge_changes: tuple[Difference, ...]
    data_changes: tuple[Difference, ...]
    combined_from: tuple[str, ...] = ()
    """Of a combined run the runs that it was combined from again, each to be verified by itself."""
    isolated: bool = True
    """Whether the run's judge promises the same bits whatever else it is asked; a server does not."""

    @property
    def other_machine(self) -> bool:
        """Whether this machine is of another kind, for which the run's bytes are not promised."""
        return any(change.ingredient in _MACHINE for change in self.judge_changes)

    def decided(self) -> "Verification":
        """The same with its result."""
        if self.verdicts_moved or self.altered_requests or self.files or self.data_changes:
            return self.model_copy(update={"result": "different"})
        same = self.identical == self.asked_again
        return self.model_copy(update={"result": "bit-identical" if same else "same verdicts"})


def verify_run(
    run: Run | str | Path,
    *,
    judge: JudgeName | None = None,
    engine: Engine | None = None,
    count: int | None = None,
    seed: int = 0,
    metrics: Sequence[Metric] = (),
    progress: Progress | None = None,
    **where: Any,
) -> Verification:
    """Ask the judge again, all questions of the run or `count` of them drawn by `seed`, and check data and files.

    `run` is a run or its directory. `judge` takes the place of the one that it was made with, `engine` that of any
    model; `metrics` are those of the user's own that the run computed. Other settings say where the judge works:
    `threads`, `allow_host` and those of a Ray cluster. Raises InputError (ModelError, RunDirectoryError) where a judge
    or the run cannot be opened.
    """
    run = as_run(run, check=False)  # files that contradict each other are what it looks for
    progress = progress or Silence()
    with closing(progress):
        if combination_of(run.manifest):
            return _verify_combined(run, progress)
        settings = settings_of(run.manifest, **{"threads": None, **where})
        settings = settings.model_copy(update={"threshold": run.summary.threshold})
        named = judge or judge_of(run, needed=engine is None)
        if judge is None and engine is None:
            _refuse_moved(str(named), run)
        own = {**kept_criteria(run.manifest), **{metric.name: metric for metric in metrics}}
        computed = [own.get(name) or catalog.get(name) for name in run.summary.metrics]
        with opened_judge(named, engine, settings) as opened:
            for line in opened.announcement.splitlines():
                progress.note(line)
            replay = _Replay(run, opened, computed, settings, progress)
            return replay.verification(_drawn_keys(run, count, seed))


def _drawn_keys(run: Run, count: int | None, seed: int) -> Set[str] | None:
    """So many keys, drawn from all in the order of the keys, which no order of rows moves; None for all."""
    if count is None:
        return None
    if not isinstance(count, int) or count < 1:
        raise InputError(f"count must be at least 1, got {count!r:.80}", hint="leave it out to ask all questions")
    keys = sorted(stored_keys(run.directory / STORE))
    return frozenset(random.Random(seed).sample(keys, count)) if count < len(keys) else None


def _refuse_moved(judge: str, run: Run) -> None:
    """Raise ModelError if the model that the run was made with is not where it was."""
    if is_in_place(judge):
        return
    file = model_registry.place_of(judge)
    sha256 = excerpt((run.judge.sha256 or "unknown")[:_SHA256_DIGITS])
    place = f"at {file}" if file else "there"
    raise ModelError(
        f"the model of this run ({Path(judge).stem}, sha256 {sha256}) is not {place} any more",
        hint=f"say where it is now: {call('verify', str(run.directory), 'judge', 'PATH')}",
    )


class _Replay:
    """The samples of a run judged again: by the stored answers, as the run was, and by those that the judge gives now.

    The metrics go by the stored answers, so that the judge is asked what it was asked then, each question once.
    """

    def __init__(
        self, run: Run, judge: OpenJudge, metrics: Sequence[Metric], settings: RunSettings, progress: Progress
    ) -> None:
        self._run = run
        self._judge = judge
        self._metrics = metrics
        self._settings = settings
        self._progress = progress
        self._store = run.directory / STORE
        self._rule = VerdictRule(run.summary.threshold, settings.min_legal_mass, run.summary.thresholds)
        engine = run.manifest.judge["engine"]
        self._wording = Wording(judge.judge, judge.engine, settings.sentences, identity=engine)
        self._drawn: Set[str] | None = None
        self._asked: set[bytes] = set()
        self._changed: dict[str, Answer | NoAnswer] = {}
        self._rows: list[RowChange] = []
        self._verdicts = 0

    def verification(self, drawn: Set[str] | None) -> Verification:
        """What is the same, when the judge was asked for those drawn, or for all."""
        run, manifest = self._run, self._run.manifest
        self._drawn = drawn
        stored = len(stored_keys(self._store))
        self._progress.expect(stored if drawn is None else len(drawn))
        totals = Totals([metric.name for metric in self._metrics], self._rule, run.cluster_of, rubrics(self._metrics))
        samples = counted(run.iter_samples(), self._progress, "working out", run.summary.samples)
        sentences = self._settings.sentences
        evaluated = (evaluate_samples(block, self._metrics, sentences, self._verdicts_of) for block in blocks(samples))
        files = changed_files(run.directory, evaluated, totals, self._summary)
        return Verification(
            run=str(run.directory),
            signature=manifest.signature,
            judge=self._judge.card,
            stored_requests=stored,
            asked_again=len(self._asked),
            identical=len(self._asked) - len(self._changed),
            verdicts=self._verdicts,
            verdicts_moved=sum(row.moved for row in self._rows),
            largest_move=max((row.distance for row in self._rows), default=0.0),
            rows=tuple(sorted(self._rows, key=lambda row: (not row.moved, -row.distance))),
            altered_requests=altered_requests(self._store, manifest.judge["engine"], self._wording.shapes),
            files=files,
            judge_changes=tuple(differences(manifest.judge, judge_part_of(self._judge, self._metrics, self._settings))),
            data_changes=_data_changes(run),
            isolated=not str(manifest.judge["engine"].get("batching")).startswith("not isolated"),
        ).decided()

    def _verdicts_of(self, tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        """The verdicts by the stored answers; those by the answers of now are compared with them."""
        worded = self._wording.worded(tasks)
        questions = distinct(worded)
        stored = stored_answers(self._store, questions)
        self._ask({key: question.request for key, question in questions.items() if key in stored}, stored)
        before: dict[str, Answer | NoAnswer] = {key: stored.get(key, _NOT_ASKED) for key in questions}
        after = {key: self._changed.get(key, answer) for key, answer in before.items()}
        verdicts = verdicts_of(tasks, worded, before, self._rule)
        now = verdicts_of(tasks, worded, after, self._rule)
        for task, asked, old, new in zip(tasks, worded, verdicts, now, strict=True):
            keys = [question.key for question in asked] if isinstance(asked, tuple) else []
            self._verdicts += any(_digest(key) in self._asked for key in keys)
            if any(key in self._changed for key in keys):
                self._rows.append(_row_change(task, old, new))
        return verdicts

    def _ask(self, requests: Mapping[str, VerdictRequest], stored: Mapping[str, Answer | NoAnswer]) -> None:
        """Ask for those that are drawn and were not asked yet."""
        new = {
            key: request
            for key, request in requests.items()
            if (self._drawn is None or key in self._drawn) and _digest(key) not in self._asked
        }
        answers = ask(self._judge.engine, new, self._progress)
        self._asked.update(map(_digest, new))
        self._changed |= {key: answer for key, answer in answers.items() if answer != stored[key]}

    def _summary(self, totals: Totals) -> Summary:
        """The summary that the run would have; a copy of its model in another place may have another name."""
        manifest = self._run.manifest
        card, source = card_of(manifest), self._judge.source
        opened_as_then = source is not None and source == manifest.environment.get("judge")
        if opened_as_then or self._run.judge.name != card.name:
            card = card.model_copy(update={"name": self._judge.card.name})
        skipped = manifest.environment["skipped_rows"]
        summary = totals.summary(signature(manifest.judge, manifest.data), card, skipped)
        thresholds = {"threshold": manifest.judge["threshold"], "thresholds": manifest.judge.get("thresholds", {})}
        return summary.model_copy(update=thresholds)


def _digest(key: str) -> bytes:
    """So much of a key is held of each question: 1,000,000 take about 100 MB."""
    return bytes.fromhex(key)[:_DIGEST_BYTES]


def _row_change(task: TaskRef, old: Verdict | NoAnswer, new: Verdict | NoAnswer) -> RowChange:
    before, after = (verdict if isinstance(verdict, Verdict) else None for verdict in (old, new))
    return RowChange(
        sample_id=task.sample_id,
        metric=task.metric,
        position=task.position,
        text=task.task.unit.span.text,
        before=before.label if before else None,
        after=after.label if after else None,
        p_before=before.p_yes if before else None,
        p_after=after.p_yes if after else None,
    )


def _verify_combined(run: Run, progress: Progress) -> Verification:
    """Whether combining the same runs again gives the same files. Raises RunDirectoryError if one is not there."""
    combined = CombinedRuns(runs_combined_in(run), kept_calibrations(run.manifest), progress)
    return Verification(
        run=str(run.directory),
        signature=run.manifest.signature,
        judge=combined.combination.card,
        files=changed_files(run.directory, combined.evaluations(progress), combined.totals(), combined.summary),
        judge_changes=tuple(differences(run.manifest.judge, combined.manifest.judge)),
        data_changes=_data_changes(run),
        combined_from=tuple(str(source.directory) for source in combined.runs),
    ).decided()


def _data_changes(run: Run) -> tuple[Difference, ...]:
    rows = sum(1 for _ in stored_ids(run.directory / STORE))
    groups = None if run.cluster_of is None else canonical_sha256(run.cluster_of)
    return tuple(differences(run.manifest.data, data_part(fingerprint(run.iter_samples()), rows, groups)))


def changed_files(
    directory: Path, evaluated: Iterable[Sequence[Evaluation]], totals: Totals, summary: Callable[[Totals], Summary]
) -> dict[str, tuple[str, ...]]:
    """The files in the directory that are not, byte for byte, those of the evaluations, each with the first places.

    A place is a row, `row 17`, or a value of the summary, `judge.caution`. The totals are filled.
    """
    with ExitStack() as stack:
        files = {name: stack.enter_context(closing(_RowFile(directory / name))) for name in ROW_FILES}
        for evaluations in evaluated:
            totals.add(evaluations)
            for name, lines in row_lines(evaluations).items():
                files[name].compare(lines)
        changes = {name: file.changed_rows for name, file in files.items()}
    changes[SUMMARY] = _changes_in(directory / SUMMARY, summary(totals))
    return {name: places for name, places in changes.items() if places}


class _RowFile:
    """A file of a run that is compared row by row; one that cannot be read is changed as a whole."""

    def __init__(self, path: Path) -> None:
        self._rows = 0
        self._changed: list[str] = []
        self._file: BinaryIO | None = None
        try:
            self._file = open_regular(path)
        except RunDirectoryError:
            self._changed.append(_UNREADABLE)

    def compare(self, lines: Iterable[str]) -> None:
        """Read on: as many rows as there are lines."""
        for line in lines:
            self._rows += 1
            if self._file is not None and self._file.readline(MOST_BYTES_OF_VALUE) != line.encode():
                self._changed.append(f"row {self._rows}")
                del self._changed[_MOST_PLACES:]

    @property
    def changed_rows(self) -> tuple[str, ...]:
        """The first rows that are not the lines so far, and the first behind them."""
        behind = [f"row {self._rows + 1}"] if self._file is not None and self._file.read(1) else []
        return tuple([*self._changed, *behind][:_MOST_PLACES])

    def close(self) -> None:
        """Read no more."""
        if self._file is not None:
            self._file.close()


def _changes_in(path: Path, summary: Summary) -> tuple[str, ...]:
    """Names of the values in `summary.json` that are not those of the summary; "spelling" where only bytes differ."""
    try:
        with open_regular(path) as file:
            if file.read(MOST_BYTES_OF_OBJECT) == summary_text(summary).encode():
                return ()
        values = read_object(path)
    except RunDirectoryError:
        return (_UNREADABLE,)
    changes = differences(values, summary.model_dump(mode="json"))
    return tuple(excerpt(change.ingredient) for change in changes[:_MOST_PLACES]) or ("spelling",)
