"""A run's files, worked out again from what it stored: nothing is asked, everything else is done anew.

    samples ──cut, word──> requests ──stored answers──> verdicts ──count──> scores, verdicts, summary

Files that come out otherwise were changed by hand or damaged, or something that the manifest names has changed since.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import ExitStack, closing
from pathlib import Path
from typing import BinaryIO

from localjudge.errors import RunDirectoryError
from localjudge.metrics import Metric, Sentences
from localjudge.metrics.criterion import rubrics
from localjudge.progress import Progress, counted
from localjudge.record import manifest as manifests
from localjudge.record.evaluation import Evaluation
from localjudge.record.judge_card import card_of
from localjudge.record.manifest import differences
from localjudge.record.result_files import ROW_FILES, SUMMARY, row_lines, summary_text
from localjudge.record.results import Run
from localjudge.record.summary import Summary, Totals
from localjudge.record.untrusted import MOST_BYTES_OF_OBJECT, MOST_BYTES_OF_VALUE, open_regular, read_object, shown
from localjudge.run.answers import verdicts_of
from localjudge.run.blocks import blocks
from localjudge.run.evaluate import evaluate_samples
from localjudge.run.judges import OpenJudge
from localjudge.run.wording import AskedTask, Wording, distinct
from localjudge.types import Answer, JudgeCard, NoAnswer, Sample, Verdict, VerdictRule

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
    return tuple(shown(change.ingredient) for change in changes[:_MOST_PLACES]) or ("spelling",)
