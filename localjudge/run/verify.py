"""A run's files, worked out again from what it stored: nothing is asked, everything else is done anew.

    samples ──cut, word──> requests ──stored answers──> verdicts ──count──> scores, verdicts, summary

Files that come out otherwise were changed by hand or damaged, or something that the manifest names has changed since.

Whether a run can be had again: its judge is asked again, and its files are worked out again.

    run.sqlite   requests ──judge──> the same answers?                     bit-identical, same verdicts or different
                 samples, stored answers ──cut, count──> the same files?
                 samples ──sha256──> the data that the manifest speaks of?

Nothing but the run's directory and its judge is needed, and nothing in the directory is changed. A sample of the
requests may be asked in place of all; files and data are always checked as a whole, which asks nothing.
"""

import random
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, closing
from itertools import groupby, islice
from pathlib import Path
from typing import BinaryIO, Literal, TypedDict, Unpack

from localjudge import model_registry
from localjudge.dataset.identity import fingerprint
from localjudge.engine.opening import is_in_place
from localjudge.engine.protocol import Engine
from localjudge.errors import ModelError, RunDirectoryError
from localjudge.metrics import Metric, Sentences, catalog
from localjudge.metrics.criterion import rubrics
from localjudge.progress import Progress, Silence, counted
from localjudge.record import manifest as manifests
from localjudge.record.archive import (
    StoredAsking,
    StoredRequest,
    numbered_answers,
    stored_answers,
    stored_askings,
    stored_ids,
    stored_keys,
    stored_requests,
)
from localjudge.record.directory import (
    MOST_BYTES_OF_OBJECT,
    MOST_BYTES_OF_VALUE,
    STORE,
    excerpt,
    open_regular,
    read_object,
    too_much,
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
)
from localjudge.record.result_rows import Evaluation
from localjudge.record.run import Run, as_run
from localjudge.record.store import RequestKeys, canonical_sha256, extras_fingerprint
from localjudge.run.combine import CombinedRuns, runs_combined_in
from localjudge.run.judges import JudgeName, OpenJudge, judge_part_of, opened_judge
from localjudge.run.loop import (
    AskedTask,
    Wording,
    answers_in_order,
    blocks,
    distinct,
    evaluate_samples,
    verdict_of,
    verdicts_of,
)
from localjudge.run.settings import judge_of, settings_again
from localjudge.types import Answer, JudgeCard, Label, NoAnswer, Record, Sample, Verdict, VerdictRule
from localjudge.words import call

_MOST_PLACES = 20
_UNREADABLE = "it cannot be read"
_NOT_ASKED = NoAnswer(error="the run did not ask this")


AnswersTo = Callable[[Iterable[str]], Mapping[str, Answer | NoAnswer]]
"""The stored answers to the questions with these keys, as far as there are any, by their keys."""
RowPlace = tuple[str, str, int]
"""A verdict row: its sample, its metric, and its position among the rows of both."""


class Replay:
    """A run worked out again, block by block, from its stored samples and the answers to the questions about them."""

    def __init__(
        self,
        run: Run,
        judge: OpenJudge,
        answers_to: AnswersTo,
        *,
        metrics: Sequence[Metric],
        sentences: Sentences,
        rule: VerdictRule,
    ) -> None:
        self._run = run
        self._judge = judge
        self._answers_to = answers_to
        self._wording = Wording(judge.judge, judge.engine, sentences, identity=run.manifest.judge["engine"])
        self._metrics = metrics
        self._sentences = sentences
        self._rule = rule

    @property
    def shapes(self) -> Set[str]:
        """Shapes of the answers that the judge would let its model give to all questions so far, as JSON."""
        return self._wording.shapes

    def changed_files(self, progress: Progress) -> dict[str, tuple[str, ...]]:
        """The files that are not, byte for byte, what the stored samples and answers give, each with the first places.

        A place is a row, `row 17`, or a value of the summary, `judge.caution`.
        """
        run = self._run
        names = [metric.name for metric in self._metrics]
        totals = Totals(names, self._rule, run.cluster_of, rubrics(self._metrics))
        samples = counted(run.iter_samples(), progress, "working out", run.summary.samples)
        return changed_files(run.directory, map(self._evaluated, blocks(samples)), totals, self._summary)

    def texts(self, places: Iterable[RowPlace]) -> dict[RowPlace, str]:
        """The texts of these rows, as far as there are such rows."""
        wanted = set(places)
        ids = {sample_id for sample_id, _, _ in wanted}
        samples = (sample for sample in self._run.iter_samples() if sample.id in ids) if ids else iter(())
        return {
            place: judged.unit.span.text
            for block in blocks(samples)
            for evaluation in self._evaluated(block)
            for position, judged in enumerate(evaluation.units)
            if (place := (evaluation.sample_id, evaluation.metric, position)) in wanted
        }

    def _summary(self, totals: Totals) -> Summary:
        """The summary that the run would have."""
        manifest = self._run.manifest
        return Summary(
            signature=manifests.signature(manifest.judge, manifest.data),
            threshold=manifest.judge["threshold"],
            thresholds=manifest.judge.get("thresholds", {}),
            samples=totals.samples,
            skipped_rows=manifest.environment["skipped_rows"],
            judge=self._judge_card(),
            verdicts=totals.verdicts,
            metrics=totals.metrics,
        )

    def _judge_card(self) -> JudgeCard:
        """Who judged, named as the open judge is; a copy of a model in another place may have another name."""
        manifest = self._run.manifest
        card = card_of(manifest)
        opened_as_then = self._judge.source is not None and self._judge.source == manifest.environment.get("judge")
        if not opened_as_then and self._run.judge.name == card.name:
            return card
        return card.model_copy(update={"name": self._judge.card.name})

    def _evaluated(self, samples: Sequence[Sample]) -> list[Evaluation]:
        return evaluate_samples(samples, self._metrics, self._sentences, self._remembered)

    def _remembered(self, tasks: Sequence[AskedTask]) -> list[Verdict | NoAnswer]:
        worded = self._wording.worded(tasks)
        questions = distinct(worded)
        answers = self._answers_to(questions)
        return verdicts_of(tasks, worded, {key: answers.get(key, _NOT_ASKED) for key in questions}, self._rule)


def changed_files(
    directory: Path, evaluated: Iterable[Sequence[Evaluation]], totals: Totals, summary: Callable[[Totals], Summary]
) -> dict[str, tuple[str, ...]]:
    """The files in the directory that are not, byte for byte, those of the evaluations; the totals are filled."""
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
                self._add(f"row {self._rows}")

    @property
    def changed_rows(self) -> tuple[str, ...]:
        """The first rows that are not the lines so far, and the first behind them."""
        if self._file is not None and self._file.read(1):
            self._add(f"row {self._rows + 1}")
        return tuple(self._changed)

    def close(self) -> None:
        """Read no more."""
        if self._file is not None:
            self._file.close()

    def _add(self, place: str) -> None:
        if len(self._changed) < _MOST_PLACES:
            self._changed.append(place)


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


VERIFICATION_VERSION = 1
Result = Literal["bit-identical", "same verdicts", "different"]

_SHA256_SHOWN = 12
_ASKED_AT_ONCE = 1024
_MOST_ALTERED = 100_000
_MACHINE = {"engine.system", "engine.gpu_layers", "engine.repack"}


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


class WhereAsked(TypedDict, total=False):
    """Settings that say where the judge works, and move no number; `RunSettings` says what each means."""

    threads: int | None
    ray: str | None
    ray_workers: int | None
    allow_host: str | Sequence[str]


class Verification(Record):
    """What came of it. `judge_changes` and `data_changes` name the ingredients that are not what the manifest says.

    `rows` are the verdict rows whose answer changed in any bit, those first whose verdict moved, then by distance.
    `altered_requests` counts stored requests that are not what was asked; `files` are those that the stored answers do
    not give, each with the first places where it is another: rows of scores and verdicts, names of values of a summary.
    """

    schema_version: int = VERIFICATION_VERSION
    run: str
    signature: str
    judge: JudgeCard
    result: Result
    stored_requests: int
    asked_again: int
    identical: int
    verdicts: int
    verdicts_moved: int
    largest_move: float
    rows: tuple[RowChange, ...]
    altered_requests: int
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


def verify_run(
    run: Run | str | Path,
    *,
    judge: JudgeName | None = None,
    engine: Engine | None = None,
    count: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    **where: Unpack[WhereAsked],
) -> Verification:
    """Ask the judge again, all requests of the run or `count` of them drawn by `seed`, and check data and files.

    `run` is a run or its directory. `judge` takes the place of the one that it was made with, `engine` that of any
    model. Raises UsageError (ModelError, RunDirectoryError) where a judge or the run cannot be opened.
    """
    run = as_run(run, check=False)  # files that contradict each other are what it looks for
    if combination_of(run.manifest):
        return _verify_combined(run, progress or Silence())
    settings = settings_again(run.manifest, **{"threads": None, **where}).model_copy(
        update={"threshold": run.summary.threshold}
    )
    named = judge or judge_of(run, needed=engine is None)
    if judge is None and engine is None:
        _refuse_moved(str(named), run)
    told = progress or Silence()
    stored = _Stored(run)
    chosen = stored.drawn(count, seed)
    own = kept_criteria(run.manifest)
    metrics = [own.get(name) or catalog.get(name) for name in run.summary.metrics]
    rule = VerdictRule(run.summary.threshold, settings.min_legal_mass, run.summary.thresholds)
    with opened_judge(named, engine, settings) as opened:
        replay = Replay(run, opened, stored.answers_to, metrics=metrics, sentences=settings.sentences, rule=rule)
        files = replay.changed_files(told)
        again = _Again(opened.engine, replay.shapes, told)
        again.ask(stored_requests(run.directory / STORE), chosen, stored.count, note=opened.announcement)
        verdicts, changed = _rows(run, again, rule)
        texts = replay.texts(map(_place, changed))
        rows = [row.model_copy(update={"text": texts.get(_place(row), "")}) for row in changed]
        now = judge_part_of(opened, metrics, settings)
    found = Verification(
        run=str(run.directory),
        signature=run.manifest.signature,
        judge=opened.card,
        result="bit-identical",
        stored_requests=stored.count,
        asked_again=len(again.asked),
        identical=len(again.asked) - len(again.changed),
        verdicts=verdicts,
        verdicts_moved=sum(row.moved for row in rows),
        largest_move=max((row.distance for row in rows), default=0.0),
        rows=tuple(sorted(rows, key=lambda row: (not row.moved, -row.distance))),
        altered_requests=stored.altered(replay.shapes),
        files=files,
        judge_changes=tuple(differences(run.manifest.judge, now)),
        data_changes=_data_changes(run),
        isolated=not str(run.manifest.judge["engine"].get("batching")).startswith("not isolated"),
    )
    return found.model_copy(update={"result": _result(found)})


def _verify_combined(run: Run, progress: Progress) -> Verification:
    """Whether combining the same runs again gives the same files. Raises RunDirectoryError if one is not there."""
    combined = CombinedRuns(runs_combined_in(run), kept_calibrations(run.manifest), progress)
    try:
        files = changed_files(run.directory, combined.evaluations(progress), combined.totals(), combined.summary)
    finally:
        progress.close()
    found = Verification(
        run=str(run.directory),
        signature=run.manifest.signature,
        judge=combined.combination.card,
        result="bit-identical",
        stored_requests=0,
        asked_again=0,
        identical=0,
        verdicts=0,
        verdicts_moved=0,
        largest_move=0.0,
        rows=(),
        altered_requests=0,
        files=files,
        judge_changes=tuple(differences(run.manifest.judge, combined.manifest.judge)),
        data_changes=_data_changes(run),
        combined_from=tuple(str(source.directory) for source in combined.runs),
    )
    return found.model_copy(update={"result": _result(found)})


def _refuse_moved(judge: str, run: Run) -> None:
    """Raise ModelError if the model that the run was made with is not where it was."""
    if is_in_place(judge):
        return
    file = model_registry.place_of(judge)
    sha256 = excerpt((run.judge.sha256 or "unknown")[:_SHA256_SHOWN])
    place = f"at {file}" if file else "there"
    raise ModelError(
        f"the model of this run ({Path(judge).stem}, sha256 {sha256}) is not {place} any more",
        hint=f"say where it is now: {call('verify', str(run.directory), 'judge', 'PATH')}",
    )


class _Stored:
    """The stored requests of a run, each held against its key; their texts are not kept.

    A request whose key is not that of its content answers the question that it holds, not the one that it was.
    """

    def __init__(self, run: Run) -> None:
        self._path = run.directory / STORE
        self._altered: set[str] = set()
        self._answering: dict[str, str] = {}
        self._sound: Counter[str] = Counter()
        keys = RequestKeys(run.manifest.judge["engine"])
        for one in stored_requests(self._path):
            keyed = keys.keyed(one.request)
            if keyed.key == one.key:
                self._sound[keyed.shape] += 1
            else:
                self._altered.add(one.key)
                self._answering[keyed.key] = one.key
            if len(self._altered) > _MOST_ALTERED:
                raise too_much(self._path, f"{_MOST_ALTERED:,} requests that are not what was asked")

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._altered) + self._sound.total()

    def altered(self, shapes: Set[str]) -> int:
        """How many are not what was asked: by their key, or by their grammar, which is none of these shapes."""
        return len(self._altered) + sum(count for shape, count in self._sound.items() if shape not in shapes)

    def answers_to(self, keys: Iterable[str]) -> dict[str, Answer | NoAnswer]:
        """The stored answers to these questions, by their keys."""
        asked = {
            self._answering.get(key, key): key for key in keys if key in self._answering or key not in self._altered
        }
        return {asked[key]: answer for key, answer in stored_answers(self._path, asked).items()}

    def drawn(self, count: int | None, seed: int) -> frozenset[str] | None:
        """Keys of so many of them, drawn from all in the order of their keys, which no order of rows moves; None: all.

        All keys are held while they are drawn from.
        """
        if count is None or count >= self.count:
            return None
        return frozenset(random.Random(seed).sample(sorted(stored_keys(self._path)), count))


class _Again:
    """What came of asking again: the numbers of the requests, and the answers, before and after, that are not the same.

    A grammar that is none of the judge's `shapes` is asked no model: it can be made so that no end of it is ever found.
    """

    def __init__(self, engine: Engine, shapes: Set[str], progress: Progress) -> None:
        self._engine = engine
        self._shapes = shapes
        self._progress = progress
        self.asked = array("q")
        """Ascending."""
        self.changed: dict[int, tuple[Answer | NoAnswer, Answer | NoAnswer]] = {}

    def ask(self, stored: Iterator[StoredRequest], chosen: frozenset[str] | None, count: int, *, note: str) -> None:
        """Ask for those that are chosen, or for all `count` of them, some at a time."""
        for line in note.splitlines():
            self._progress.note(line)
        self._progress.expect(count if chosen is None else len(chosen))
        wanted = (one for one in stored if chosen is None or one.key in chosen)
        try:
            while block := list(islice(wanted, _ASKED_AT_ONCE)):
                ours = [one for one in block if one.request.shape in self._shapes]
                self._progress.expect(len(ours) - len(block))
                self._ask(ours)
        finally:
            self._progress.close()

    def _ask(self, block: Sequence[StoredRequest]) -> None:
        self.asked.extend(one.number for one in block)
        answers = answers_in_order(self._engine, [one.request for one in block], self._progress)
        for one, answer in zip(block, answers, strict=True):
            if answer != one.answer:
                self.changed[one.number] = (one.answer, answer)

    def was_asked(self, number: int) -> bool:
        """Whether the request with this number was asked for again."""
        place = bisect_left(self.asked, number)
        return place < len(self.asked) and self.asked[place] == number


def _rows(run: Run, again: _Again, rule: VerdictRule) -> tuple[int, list[RowChange]]:
    """How many verdict rows were asked about again, whole or in part, and those whose answers changed, without text."""
    count = 0
    touched: list[tuple[RowPlace, list[StoredAsking]]] = []
    for place, askings in groupby(stored_askings(run.directory / STORE), key=lambda asking: asking[:3]):
        of_row = list(askings)
        numbers = [asking.number for asking in of_row]
        count += any(map(again.was_asked, numbers))
        if not again.changed.keys().isdisjoint(numbers):
            touched.append((place, of_row))
    others = {one.number for _, of_row in touched for one in of_row if one.number not in again.changed}
    same = numbered_answers(run.directory / STORE, others)
    answers = {**{number: (answer, answer) for number, answer in same.items()}, **again.changed}
    return count, [_row_change(place, of_row, answers, rule) for place, of_row in touched]


def _row_change(
    place: RowPlace,
    askings: Sequence[StoredAsking],
    answers: Mapping[int, tuple[Answer | NoAnswer, Answer | NoAnswer]],
    rule: VerdictRule,
) -> RowChange:
    both = (verdict_of([(answers[one.number][side], None) for one in askings], rule.of(place[1])) for side in (0, 1))
    before, after = (verdict if isinstance(verdict, Verdict) else None for verdict in both)
    return RowChange(
        sample_id=place[0],
        metric=place[1],
        position=place[2],
        text="",
        before=before.label if before else None,
        after=after.label if after else None,
        p_before=before.p_yes if before else None,
        p_after=after.p_yes if after else None,
    )


def _place(row: RowChange) -> RowPlace:
    return row.sample_id, row.metric, row.position


def _data_changes(run: Run) -> tuple[Difference, ...]:
    rows = sum(1 for _ in stored_ids(run.directory / STORE))
    groups = run.cluster_of
    groups_hash = None if groups is None else canonical_sha256(groups)
    now = data_part(fingerprint(run.iter_samples()), rows, groups_hash)
    found = differences(run.manifest.data, now)
    kept = run.manifest.environment.get("extras_sha256")
    if kept != (there := extras_fingerprint(run.iter_extras())):
        found.append(Difference(ingredient="columns", before=kept, after=there))
    return tuple(found)


def _result(found: Verification) -> Result:
    if found.verdicts_moved or found.altered_requests or found.files or found.data_changes:
        return "different"
    return "bit-identical" if found.identical == found.asked_again else "same verdicts"
