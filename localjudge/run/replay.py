"""A run's files, worked out again from what it stored: nothing is asked, everything else is done anew.

    samples ──cut, word──> requests ──stored answers──> verdicts ──count──> scores, verdicts, summary

Files that come out otherwise were changed by hand or damaged, or something that the manifest names has changed since.
"""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from localjudge.errors import RunDirectoryError
from localjudge.metrics import Metric, Sentences
from localjudge.record import manifest as manifests
from localjudge.record.archive import StoredRequest
from localjudge.record.keys import RequestKeys
from localjudge.record.results import ROW_FILES, SUMMARY, Run, row_lines, summary_text
from localjudge.record.summary import Summary, Totals
from localjudge.record.untrusted import open_regular
from localjudge.run.answers import verdicts_of
from localjudge.run.blocks import blocks
from localjudge.run.evaluate import evaluate_samples
from localjudge.run.judges import OpenJudge
from localjudge.run.wording import AskedTask, Wording, distinct
from localjudge.types import NoAnswer, Verdict, VerdictRule

_NOT_ASKED = NoAnswer(error="the run did not ask this")


class Replay(NamedTuple):
    """Names of the result files that are not what the stored samples and answers give, and the text of every row.

    A row is known by its sample, its metric and its position among the rows of both. `shapes` are those of the answers
    that the judge would let a model give, as JSON.
    """

    differing_files: tuple[str, ...]
    shapes: frozenset[str]
    texts: dict[tuple[str, str, int], str]


def replay(
    run: Run,
    stored: Sequence[StoredRequest],
    ours: OpenJudge,
    *,
    metrics: Sequence[Metric],
    sentences: Sentences,
    rule: VerdictRule,
) -> Replay:
    """Work the files out from the stored samples and answers, and compare them with those of the run, byte for byte."""
    identity = run.manifest.judge["engine"]
    keys = RequestKeys(identity)
    answers = {keys.keyed(one.request).key: one.answer for one in stored}
    wording = Wording(ours.judge, ours.engine, sentences, identity=identity)

    def remembered(tasks: Sequence[AskedTask]) -> list[Verdict | NoAnswer]:
        worded = wording.worded(tasks)
        return verdicts_of(worded, {key: answers.get(key, _NOT_ASKED) for key in distinct(worded)}, rule)

    totals = Totals([metric.name for metric in metrics], rule.threshold, run.cluster_of)
    texts: dict[tuple[str, str, int], str] = {}
    with ExitStack() as stack:
        files = {name: stack.enter_context(closing(_File(run.directory / name))) for name in ROW_FILES}
        for block in blocks(run.samples):
            evaluations = evaluate_samples(block, metrics, sentences, remembered)
            totals.add(evaluations)
            for name, lines in row_lines(evaluations, earlier=run.summary.judge is None).items():
                files[name].compare(lines)
            texts |= {
                (evaluation.sample_id, evaluation.metric, position): judged.unit.span.text
                for evaluation in evaluations
                for position, judged in enumerate(evaluation.units)
            }
        differing = [name for name, file in files.items() if not file.same]
    if not _holds(run.directory / SUMMARY, summary_text(_summary(run, totals))):
        differing.append(SUMMARY)
    return Replay(differing_files=tuple(differing), texts=texts, shapes=frozenset(wording.shapes))


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
