"""The main job, from data to a finished run directory: `localjudge.evaluate`, and what `localjudge run` does.

    plan ──> open judge ──> manifest ──> directory (locked) ──> evaluate ──> results

An interrupted job is begun again with the same call: every answer that was there is in the store and is not asked
again, samples whose rows were written are not looked at again, and the results are the same bytes as if nothing had
happened.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from localjudge.engine.protocol import Engine, EngineStats
from localjudge.metrics.catalog import special_tasks_of
from localjudge.progress import Progress, Silence, counted
from localjudge.record import manifest as manifests
from localjudge.record.directory import STORE, RunDirectory
from localjudge.record.result_files import ResultFiles, write_manifest
from localjudge.record.results import Run, read_manifest
from localjudge.record.store import Store
from localjudge.record.summary import Summary, Totals
from localjudge.run.blocks import Blocks
from localjudge.run.data_notes import tell
from localjudge.run.judges import DEFAULT_JUDGE, OpenJudge, opened, refuse_unaskable
from localjudge.run.plan import Data, Plan, default_directory, plan, refuse_other_run
from localjudge.run.settings import Options, checked
from localjudge.types import Sample, VerdictRule


def evaluate(
    data: Data,
    *,
    judge: str | Path = DEFAULT_JUDGE,
    metrics: Sequence[str] | None = None,
    out: str | Path | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
    **options: Unpack[Options],
) -> Run:
    """Score the data and leave a run directory; the same as the command `localjudge run`.

    `data` is a file or several, or rows; `judge` a registered name or the path of a GGUF file; `metrics` a
    first picture of the data if None; `out` a directory under `runs/` if None. `engine` takes the place of the judge's
    model (a `ScriptedEngine` in tests); it is not closed. The options are those of `RunSettings`.

    Raises UsageError (DataError, ModelError, RunDirectoryError) where nothing was judged, OutOfResource where the same
    call goes on later. A sample that cannot be scored is in the result, and no error.
    """
    settings, told = checked(options), progress or Silence()
    with closing(told):
        planned = plan(data, metrics, settings, told)
        return run_plan(planned, judge=judge, out=out, engine=engine, progress=told)


def run_plan(
    planned: Plan,
    *,
    judge: str | Path = DEFAULT_JUDGE,
    out: str | Path | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Run:
    """Score what was planned: `evaluate` without its first step, and raising what the rest of it raises."""
    settings = planned.settings
    told = progress or Silence()
    tell(planned, told)
    with opened(str(judge), engine, settings) as ours:
        refuse_unaskable(ours, planned.metrics)
        told.note(ours.announcement)
        return _Job(planned, ours, told).run(Path(out) if out is not None else None)


class _Session(NamedTuple):
    """One start of the job: when, when it ended, and what it asked. The times are UTC."""

    started: str
    finished: str | None = None
    asked: int | None = None
    effort: dict[str, Any] | None = None


class _Resumed(NamedTuple):
    """What an earlier start left: totals of the samples that are done, the others, the answers those rest on."""

    totals: Totals
    rest: Iterator[Sample]
    answers: int


class _Job:
    """A plan with an open judge."""

    def __init__(self, planned: Plan, ours: OpenJudge, progress: Progress) -> None:
        self._plan = planned
        self._open_judge, self._engine = ours, ours.engine
        self._settings = settings = planned.settings
        self._rule = VerdictRule(settings.threshold, settings.min_legal_mass)
        self._progress = progress
        self._segmenter = settings.sentences
        dataset = planned.dataset
        self._judge_part = manifests.judge_part(
            self._engine.identity,
            ours.judge.identity_for(special_tasks_of(planned.metrics)),
            self._segmenter.identity,
            planned.metrics,
            self._rule,
        )
        self._data_part = manifests.data_part(dataset.fingerprint, len(dataset.samples), planned.cluster_of)
        self._signature = manifests.signature(self._judge_part, self._data_part)

    def run(self, out: Path | None) -> Run:
        """Judge what is not judged yet, in the directory, and write the results."""
        path = out or default_directory(self._plan.dataset, self._judge_part, self._data_part)
        with ExitStack() as stack:
            directory = stack.enter_context(closing(RunDirectory(path)))
            sessions = self._earlier_sessions(path)
            session = _Session(started=_now())
            write_manifest(directory, self._manifest([*sessions, session._asdict()]))
            store = stack.enter_context(closing(Store(path / STORE)))
            stack.callback(self._progress.close)
            samples = self._plan.dataset.samples
            storing = counted(samples, self._progress, "storing", len(samples))
            store.add_samples(storing, self._plan.cluster_of)
            if known := store.answer_count:
                self._progress.note(f"going on: {known:,} answers are stored already")
            results = stack.enter_context(closing(ResultFiles(directory)))
            judging = self._judging(store)
            totals = self._judged(judging, results, store)
            summary = self._summary(totals)
            session = session._replace(finished=_now(), asked=judging.asked, effort=self._engine.stats.model_dump())
            manifest = self._manifest([*sessions, session._asdict()])
            results.finish(summary)
            write_manifest(directory, manifest)
        for metric, reason in totals.failed_everywhere.items():
            self._progress.note(f"{metric} failed on every sample: {reason}")
        self._progress.note(_work_done(judging.asked, self._engine.stats))
        return Run(path, summary, manifest)

    def _judged(self, judging: Blocks, results: ResultFiles, store: Store) -> Totals:
        """The totals of all samples, when their rows are written."""
        samples = self._plan.dataset.samples
        resumed = self._resumed(results, store.answer_count)
        if resumed is None:
            results.begin()
        totals, rest, answered = resumed or _Resumed(self._totals(), iter(samples), 0)
        for evaluations in judging.evaluations(rest, len(samples), done=totals.samples, answered=answered):
            totals.add(evaluations)
            results.add(evaluations, totals.samples, store.answer_count)
        return totals

    def _resumed(self, results: ResultFiles, answers: int) -> "_Resumed | None":
        """What is done, if a run that was stopped left the rows of these samples in this order."""
        point = results.resume(answers)
        if point is None:
            return None
        totals, samples = self._totals(), iter(self._plan.dataset.samples)
        names = [metric.name for metric in self._plan.metrics]
        rows = counted(results.evaluations(), self._progress, "going on", point.samples * len(names))
        for sample_id, of_sample in groupby(rows, key=lambda evaluation: evaluation.sample_id):
            evaluations, sample = list(of_sample), next(samples, None)
            if sample is None or sample.id != sample_id or [one.metric for one in evaluations] != names:
                return None
            totals.add(evaluations)
        return _Resumed(totals, samples, point.answers) if totals.samples == point.samples else None

    def _totals(self) -> Totals:
        return Totals([metric.name for metric in self._plan.metrics], self._rule.threshold, self._plan.cluster_of)

    def _judging(self, store: Store) -> Blocks:
        return Blocks(
            self._open_judge,
            store,
            metrics=self._plan.metrics,
            segmenter=self._segmenter,
            rule=self._rule,
            progress=self._progress,
        )

    def _summary(self, totals: Totals) -> Summary:
        return Summary(
            signature=self._signature,
            threshold=self._rule.threshold,
            samples=totals.samples,
            skipped_rows=self._plan.dataset.skipped,
            judge=self._open_judge.card,
            verdicts=totals.verdicts,
            metrics=totals.metrics,
        )

    def _earlier_sessions(self, path: Path) -> list[dict[str, Any]]:
        there = read_manifest(path)
        if there is None:
            return []
        refuse_other_run(path, there, self._manifest([]))
        return list(there.environment["sessions"])

    def _manifest(self, sessions: Sequence[dict[str, Any]]) -> manifests.Manifest:
        dataset = self._plan.dataset
        return manifests.Manifest(
            signature=self._signature,
            judge=self._judge_part,
            data=self._data_part,
            environment={
                "judge": self._open_judge.source,
                "sources": list(dataset.sources),
                "mapping": dataset.mapping,
                "settings": self._settings.model_dump(mode="json"),
                "host": manifests.host(),
                "sessions": list(sessions),
            },
        )


def _work_done(asked: int, effort: EngineStats) -> str:
    outside = max(effort.seconds_total - effort.seconds_inside, 0.0)
    return (
        f"asked {asked:,} verdicts: {effort.unique_tokens:,} distinct tokens, {effort.evaluated_tokens:,} evaluated, "
        f"{effort.generated_tokens:,} generated; {effort.seconds_inside:.1f} s in the model, {outside:.1f} s around it"
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
