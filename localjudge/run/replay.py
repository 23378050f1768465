"""A run's files, worked out again from what it stored: nothing is asked, everything else is done anew.

    samples ──cut, word──> requests ──stored answers──> verdicts ──count──> scores, verdicts, summary

Files that come out otherwise were changed by hand or damaged, or something that the manifest names has changed since.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from localjudge.metrics.catalog import AnyMetric
from localjudge.metrics.protocol import Sentences
from localjudge.record import manifest as manifests
from localjudge.record.archive import StoredRequest
from localjudge.record.keys import RequestKeys
from localjudge.record.results import Run, result_files
from localjudge.record.summary import decidedness, summarize
from localjudge.run.evaluate import evaluate
from localjudge.run.judges import OpenJudge
from localjudge.run.verdict_of import verdicts_of
from localjudge.run.wording import AskedTask, Wording, distinct
from localjudge.types import NoAnswer, Verdict, VerdictRule

_NOT_ASKED = NoAnswer(error="the run did not ask this")


class Replay(NamedTuple):
    """Names of the result files that are not what the stored samples and answers give, and the text of every row.

    A row is known by its sample, its metric and its position among the rows of both.
    """

    differing_files: tuple[str, ...]
    texts: dict[tuple[str, str, int], str]


def replay(
    run: Run,
    stored: Sequence[StoredRequest],
    ours: OpenJudge,
    *,
    metrics: Sequence[AnyMetric],
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

    evaluations = evaluate(run.samples, metrics, sentences, remembered)
    update = {
        "signature": manifests.signature(run.manifest.judge, run.manifest.data),
        "samples": len(run.samples),
        "metrics": summarize(evaluations, [metric.name for metric in metrics], run.cluster_of),
    }
    if run.summary.verdicts is not None:
        update["verdicts"] = decidedness(evaluations, run.summary.threshold)
    expected = result_files(evaluations, run.summary.model_copy(update=update))
    return Replay(
        differing_files=tuple(
            name for name, pieces in expected.items() if _content(run.directory / name) != "".join(pieces).encode()
        ),
        texts={
            (evaluation.sample_id, evaluation.metric, position): judged.unit.span.text
            for evaluation in evaluations
            for position, judged in enumerate(evaluation.units)
        },
    )


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None
