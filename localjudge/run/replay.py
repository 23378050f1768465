"""A run's files, worked out again from what it stored: nothing is asked, everything else is done anew.

    samples ──cut, word──> requests ──stored answers──> verdicts ──count──> scores, verdicts, summary

Files that come out otherwise were changed by hand or damaged, or something that the manifest names has changed since.
"""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.engine.protocol import Engine
from localjudge.engine.scripted import ScriptedEngine
from localjudge.metrics import Metric, Sentences
from localjudge.record import manifest as manifests
from localjudge.record.archive import StoredRequest
from localjudge.record.keys import RequestKeys
from localjudge.record.results import Run, result_files
from localjudge.record.store import IN_MEMORY, Store
from localjudge.record.summary import decidedness, summarize
from localjudge.run.ask import Asker
from localjudge.run.evaluate import evaluate
from localjudge.run.judges import OpenJudge
from localjudge.run.progress import Silence
from localjudge.types import VerdictRequest, VerdictRule


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
    metrics: Sequence[Metric],
    sentences: Sentences,
    rule: VerdictRule,
) -> Replay:
    """Work the files out from the stored samples and answers, and compare them with those of the run, byte for byte."""
    identity = run.manifest.judge["engine"]
    keys = RequestKeys(identity)
    answers = {keyed.key: (keyed, one.answer) for one in stored for keyed in [keys.keyed(one.request)]}
    with closing(Store(IN_MEMORY)) as store:
        store.add_requests([keyed for keyed, _ in answers.values()], [])
        for key, (_, answer) in answers.items():
            store.add_answer(key, answer)
        asker = Asker(
            ours.judge,
            _Unasked(ours.engine, identity),
            store,
            rule=rule,
            sentences=sentences,
            progress=Silence(),
        )
        evaluations = evaluate(run.samples, metrics, sentences, asker.verdicts)
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


class _Unasked(ScriptedEngine):
    """An engine as the run knew it, that has no answer to what the run did not ask."""

    def __init__(self, engine: Engine, identity: dict[str, Any]) -> None:
        super().__init__({}, default="the run did not ask this", capacity=engine.capacity)
        self._engine = engine
        self._identity = identity

    @property
    def identity(self) -> dict[str, Any]:
        """As the manifest has it, so that requests get the keys that they had."""
        return self._identity

    def length(self, request: VerdictRequest) -> int:
        """As the engine counts: windows come out as they were."""
        return self._engine.length(request)
