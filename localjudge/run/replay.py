"""A run's files, worked out again from what it stored: nothing is asked, everything else is done anew.

    samples ──cut, word──> requests ──stored answers──> verdicts ──count──> scores, verdicts, summary

Files that come out otherwise were changed by hand or damaged, or something that the manifest names has changed since.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, BinaryIO

from localjudge.errors import RunDirectoryError
from localjudge.metrics import Metric, Sentences
from localjudge.metrics.criterion import rubrics
from localjudge.progress import Progress, counted
from localjudge.record import manifest as manifests
from localjudge.record.archive import schema_is_ours
from localjudge.record.directory import STORE
from localjudge.record.evaluation import Evaluation
from localjudge.record.panel import combination_of, in_the_judge, parts_by_judge
from localjudge.record.result_files import ROW_FILES, SUMMARY, row_lines, summary_text
from localjudge.record.results import Run
from localjudge.record.summary import Summary, Totals
from localjudge.record.untrusted import open_regular
from localjudge.run.answers import panel_verdicts, verdicts_of
from localjudge.run.blocks import blocks
from localjudge.run.evaluate import evaluate_samples
from localjudge.run.judges import Panel
from localjudge.run.wording import AskedTask, Wording, distinct
from localjudge.types import Answer, NoAnswer, Sample, Verdict, VerdictRule

_NOT_ASKED = NoAnswer(error="the run did not ask this")


AnswersTo = Callable[[Iterable[str]], Mapping[str, Answer | NoAnswer]]
"""The stored answers to the questions with these keys, as far as there are any, by their keys."""
RowPlace = tuple[str, str, int]
"""A verdict row: its sample, its metric, and its position among the rows of both."""


class Replay:
    """A run worked out again, block by block, from its stored samples and the answers to the questions about them.

    The panel's judges are in the order of the run.
    """

    def __init__(
        self,
        run: Run,
        panel: Panel,
        answers_to: AnswersTo,
        *,
        metrics: Sequence[Metric],
        sentences: Sentences,
        rule: VerdictRule,
    ) -> None:
        self._run = run
        self._answers_to = answers_to
        self._combination = combination_of(run.manifest)
        parts = parts_by_judge(run.manifest.judge)
        ids = self._combination.ids.values() if self._combination else parts
        self._wordings = [
            Wording(judge.judge, judge.engine, sentences, identity=parts[one]["engine"])
            for judge, one in zip(panel.judges, ids, strict=True)
        ]
        self._metrics = metrics
        self._sentences = sentences
        self._rule = rule

    @property
    def shapes(self) -> Set[str]:
        """Shapes of the answers that the judges would let their models give to all questions so far, as JSON."""
        return set().union(*(wording.shapes for wording in self._wordings))

    def differing_files(self, progress: Progress) -> tuple[str, ...]:
        """Names of the result files that are not, byte for byte, what the stored samples and answers give."""
        run = self._run
        names = [metric.name for metric in self._metrics]
        totals = Totals(names, self._rule, run.cluster_of, rubrics(self._metrics))
        with ExitStack() as stack:
            files = {name: stack.enter_context(closing(_File(run.directory / name))) for name in ROW_FILES}
            for block in blocks(counted(run.iter_samples(), progress, "working out", run.summary.samples)):
                evaluations = self._evaluated(block)
                totals.add(evaluations)
                for name, lines in row_lines(evaluations, earlier=run.summary.judge is None).items():
                    files[name].compare(lines)
            differing = [name for name, file in files.items() if not file.same]
        named_otherwise = run.summary.judge is not None and any(in_the_judge(run.summary.judge, run.manifest))
        if named_otherwise or not _holds(run.directory / SUMMARY, summary_text(_summary(run, totals))):
            differing.append(SUMMARY)
        if not schema_is_ours(run.directory / STORE):
            differing.append(STORE)
        return tuple(differing)

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

    def _evaluated(self, samples: Sequence[Sample]) -> list[Evaluation]:
        return evaluate_samples(samples, self._metrics, self._sentences, self._remembered)

    def _remembered(self, tasks: Sequence[AskedTask]) -> list[Verdict | NoAnswer]:
        found = [self._of_one(wording, tasks) for wording in self._wordings]
        return panel_verdicts(found, self._combination, [task.metric for task in tasks], self._rule)

    def _of_one(self, wording: Wording, tasks: Sequence[AskedTask]) -> list[Verdict | NoAnswer]:
        worded = wording.worded(tasks)
        questions = distinct(worded)
        answers = self._answers_to(questions)
        return verdicts_of(tasks, worded, {key: answers.get(key, _NOT_ASKED) for key in questions}, self._rule)


def _summary(run: Run, totals: Totals) -> Summary:
    """The summary that the run would have: what cannot be worked out is as it stands there."""
    update: dict[str, Any] = {
        "signature": manifests.signature(run.manifest.judge, run.manifest.data),
        "samples": totals.samples,
        "metrics": totals.metrics,
    }
    if run.summary.verdicts is not None:
        update["verdicts"] = totals.verdicts
    return run.summary.model_copy(update=update)


class _File:
    """A file of a run that is compared piece by piece; one that cannot be read is not the same as anything."""

    def __init__(self, path: Path) -> None:
        self._same = True
        self._file: BinaryIO | None = None
        try:
            self._file = open_regular(path)
        except RunDirectoryError:
            self._same = False

    def compare(self, pieces: Iterable[str]) -> None:
        """Read on: so much as the pieces hold."""
        expected = "".join(pieces).encode()
        self._same = self._same and self._file is not None and self._file.read(len(expected)) == expected

    @property
    def same(self) -> bool:
        """Whether the file holds the pieces so far, and nothing behind them."""
        return self._same and self._file is not None and not self._file.read(1)

    def close(self) -> None:
        """Read no more."""
        if self._file is not None:
            self._file.close()


def _holds(path: Path, text: str) -> bool:
    with closing(_File(path)) as file:
        file.compare([text])
        return file.same
