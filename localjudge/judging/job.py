"""Carry out a plan and leave a finished run directory (`localjudge.evaluate`, `localjudge run`).

    plan ──> open judge ──> manifest ──> directory (locked) ──> evaluate ──> results

The same call resumes an interrupted job; the results have the same bytes.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.engine.protocol import Engine
from localjudge.errors import RunDirectoryError
from localjudge.judging.bench import (
    Bench,
    JudgeNames,
    Judging,
    announce_bench,
    judging_by,
    sources_of,
    stats_of,
    use_bench,
)
from localjudge.judging.judges import earlier_answers
from localjudge.judging.plan import NotedProgress, Plan, default_directory, report_data
from localjudge.judging.settings import judges_of
from localjudge.judging.stopping import Stopping, check_aims
from localjudge.metrics.criterion import rubrics
from localjudge.progress import Progress, Silence, count_with_progress
from localjudge.run_directory import manifest as manifests
from localjudge.run_directory.differences import format_updates, updates
from localjudge.run_directory.directory import STORE, RunDirectory, refuse_unusable
from localjudge.run_directory.files import (
    SUMMARY,
    ResultFiles,
    Summary,
    Totals,
    allowed_failures,
    rows_so_far,
    write_manifest,
)
from localjudge.run_directory.label_rows import LabelRow, label_file, now
from localjudge.run_directory.manifest import Session
from localjudge.run_directory.reuse import EarlierAnswers, OtherRun
from localjudge.run_directory.run_record import RunRecord, read_manifest
from localjudge.run_directory.store import Store
from localjudge.text.folding import fold
from localjudge.words import numbered, option, option_name


def run_plan(
    planned: Plan,
    *,
    judge: JudgeNames | Bench | None = None,
    out: str | Path | None = None,
    engine: Engine | None = None,
    baseline: RunRecord | None = None,
    progress: Progress | None = None,
) -> RunRecord:
    """Score a plan and write a run directory. Arguments and errors as in `localjudge.evaluate`."""
    notes = NotedProgress(progress)
    check_aims(planned, baseline)
    if out:
        refuse_unusable(Path(os.path.expanduser(out)))
    if judge is None or judge == ():  # no option --judge
        judge = default_judge(planned, engine)
    with use_bench(judge, engine, planned.settings, notes) as opened:
        report_data(planned, notes)
        part = announce_bench(opened, planned.metrics, planned.settings, notes)
        return Job(planned, opened, part, notes, baseline).run(out)


def default_judge(planned: Plan, engine: Engine | None) -> str | list[str] | None:
    """Return the judge or judges of the run with the samples, if any. Raises ModelError if its model is gone."""
    if engine is not None or planned.stored_in is None:
        return None
    return judges_of(planned.stored_in)


def _count_by_annotator(rows: Iterable[LabelRow]) -> dict[str, int]:
    """Return the number of rows of each annotator, with names as the first row spells them."""
    spellings: dict[str, str] = {}
    names = [spellings.setdefault(fold(row.annotator), row.annotator) for row in rows]
    return dict(Counter(names))


def _versions_of_reused(earlier: Sequence[EarlierAnswers]) -> dict[str, dict[str, str]]:
    runs = [source for source in earlier if isinstance(source, OtherRun)]
    return {run.name: run.versions for run in runs if run.updates}


class Begun(NamedTuple):
    """A run in its locked directory, with the manifest of an earlier process, if any."""

    directory: RunDirectory
    existing: manifests.Manifest | None
    stopping: Stopping | None
    sessions: list[Session]
    store: Store


@dataclass
class Job:
    """A plan with its open judge, to be carried out in a directory."""

    plan: Plan
    judge: Bench
    judge_part: manifests.JudgeIdentity
    progress: NotedProgress
    baseline: RunRecord | None = None

    def run(self, out: str | Path | None) -> RunRecord:
        plan, progress, path = self.plan, self.progress, self.path(out)
        with ExitStack() as stack:
            earlier = earlier_answers(self.judge.memory, self.judge_part, plan.settings, progress)
            directory, existing, stopping, sessions, store = stack.enter_context(self.begun(path))
            stack.callback(progress.close)
            sessions[-1] = sessions[-1].changed(reused_versions=_versions_of_reused(earlier))
            stats = stats_of(self.judge)
            judging = judging_by(self.judge, store, plan.metrics, plan.settings, progress, earlier)
            if stopping:
                self._stop_early(stopping, judging)
            finished = manifests.finished_part(existing)
            if (
                existing and existing.signature != self.signature
            ):  # more samples, or updated packages
                directory.remove(SUMMARY)
                finished = {}
            write_manifest(directory, self._manifest(sessions, **finished))
            changed = self._store_data(store)
            if self.plan.stopped.reason is not None or (
                existing and existing.environment.drawn_from
            ):
                store.keep_samples(row.id for row in self.plan.dataset.table.rows())
            summary, results = None if changed else self._finished(path), None
            if summary is None:
                results = stack.enter_context(closing(ResultFiles(directory)))
                summary = self._judge(judging, results)
            work, when = stats_of(self.judge).since(stats), now()
            sessions[-1] = sessions[-1].changed(
                finished=when, asked=judging.asked, effort=work.model_dump()
            )
            reused = store.reused_from()
            finished["answers"] = {
                "asked": store.answer_count - sum(reused.values()),
                "reused": reused,
            }
            manifest = self._manifest(sessions, **finished)
            if results is None:
                write_manifest(directory, manifest)
            else:
                manifest = results.finish(summary, manifest)
        self._log_summary(
            run := RunRecord(path, summary, manifest), judging.asked, work.seconds_total
        )
        return replace(run, notes=tuple(progress.notes))

    def path(self, out: str | Path | None) -> Path:
        return Path(os.path.expanduser(out or default_directory(self.plan, self.judge_part)))

    def existing(self, path: Path) -> manifests.Manifest | None:
        """Return the manifest in the directory. Raises RunDirectoryError if it belongs to another run."""
        existing = read_manifest(path)
        if existing is not None:
            self._manifest([]).refuse_other_run(path, existing)
        return existing

    @property
    def signature(self) -> str:
        return manifests.signature(self.judge_part, self.plan.identity)

    @contextmanager
    def begun(self, path: Path) -> Iterator[Begun]:
        """Begin or resume the run in the directory."""
        with closing(RunDirectory(path)) as directory:
            existing = self.existing(path)
            if existing:
                self._report_updates(existing)
            stopping = self._stopping(path, existing)
            sessions = self._begin(directory, existing)
            with closing(Store(path / STORE)) as store:
                sessions[-1] = sessions[-1].changed(**self._resumed(store, path))
                yield Begun(directory, existing, stopping, sessions, store)

    def _begin(self, directory: RunDirectory, existing: manifests.Manifest | None) -> list[Session]:
        versions = manifests.all_versions()
        session = Session(started=now(), versions=versions, finished=None, asked=None, effort=None)
        sessions = [*(existing.environment.sessions if existing else ()), session]
        manifest = (
            existing.with_environment(sessions=sessions) if existing else self._manifest(sessions)
        )
        write_manifest(directory, manifest)
        return sessions

    def _report_updates(self, existing: manifests.Manifest) -> None:
        before = {**existing.judge.as_json, "versions": existing.versions}
        now_used = {**self.judge_part.as_json, "versions": manifests.all_versions()}
        if changes := updates(before, now_used):
            effect = "stored answers stay valid, and sentences and scores are computed again"
            self.progress.note(
                f"this run was begun with other versions ({format_updates(changes)}): {effect}"
            )

    def _resumed(self, store: Store, path: Path) -> dict[str, Any]:
        counts: dict[str, Any] = {}
        if answers := store.answer_count:
            self.progress.note(f"resuming: {numbered(answers, 'answer')} already stored")
            counts["answers_before"] = answers
        with suppress(RunDirectoryError):  # readers of damaged labels refuse them
            labels = _count_by_annotator(label_file(path).rows)
            if labels:
                counts["labels_before"] = labels
        return counts

    def _stopping(self, path: Path, existing: manifests.Manifest | None) -> Stopping | None:
        settings, at_least = self.plan.settings, 0
        if not settings.stops_by:
            return None
        if existing and (os.path.lexists(path / SUMMARY) or existing.environment.drawn_from):
            if existing.data == self.plan.identity:
                self.progress.note("all samples are already judged, so the run cannot stop early")
                return None
            if (seed := existing.environment.settings.seed) != settings.seed:
                hint = f"use {option('seed', seed)}, or name another directory with {option('out')}"
                raise RunDirectoryError(f"{path} has samples drawn with seed {seed}", hint=hint)
            at_least = existing.data.rows
        optional_stopping = existing is not None and existing.sampling.optional_stopping
        return Stopping(self.plan, self.baseline, at_least, optional_stopping)

    def _stop_early(self, stopping: Stopping, judging: Judging) -> None:
        stopped = stopping.judge(judging)
        if self.plan.settings.optional_stopping or len(stopping.positions) < len(
            self.plan.dataset.samples
        ):
            self.plan = self.plan.stopped_after(
                stopping.positions, stopped, stopping.sampling.max_cluster_size
            )
        judging.progress = Silence()  # all questions are answered

    def _store_data(self, store: Store) -> bool:
        table = self.plan.dataset.table
        rows = count_with_progress(table.rows(), self.progress, "storing", len(table))
        return store.add_samples(rows, self.plan.cluster_of)

    def _finished(self, path: Path) -> Summary | None:
        try:
            run, begun_again = RunRecord.open(path), rows_so_far(path)
        except RunDirectoryError:
            return None
        summary = run.summary
        max_failed = allowed_failures(self.plan.settings.max_failed, summary.samples)
        inputs = (summary.skipped_rows, summary.judge, summary.stopped)
        same = begun_again is None and inputs == (
            self.plan.dataset.skipped,
            self.judge.card,
            self.plan.stopped.reason,
        )
        # Another `max_failed` may withhold a mean, or give it.
        for metric in summary.metrics.values():
            same &= (metric.mean is not None) == (metric.scored > 0 and metric.failed <= max_failed)
        return summary if same and run.in_one_order() else None

    def _judge(self, judging: Judging, results: ResultFiles) -> Summary:
        metrics, settings = self.plan.metrics, self.plan.settings
        names, rule, groups = (
            [metric.name for metric in metrics],
            settings.rule_for(metrics),
            self.plan.cluster_of,
        )
        totals = Totals(
            names, rule, groups, rubrics(metrics), self.plan.sampling, settings.max_failed
        )
        for evaluations in judging.evaluations(self.plan.dataset.samples):
            totals.add(evaluations)
            results.add(evaluations)
        summary = totals.summary(self.signature, self.judge.card, self.plan.dataset.skipped)
        return summary.model_copy(update={"stopped": self.plan.stopped.reason})

    def _manifest(self, sessions: Sequence[Session], **finished: Any) -> manifests.Manifest:
        planned, dataset = self.plan, self.plan.dataset
        optional: dict[str, Any] = {
            "shard_of": planned.parent,
            "index": list(planned.frame_index),
            "stopped": planned.stopped.reason,
            "drawn_from": planned.stopped.data,
        }
        return manifests.Manifest.of(
            self.judge_part,
            planned.identity,
            {
                **sources_of(self.judge),
                "sources": list(dataset.sources),
                "samples_read": planned.whole,
                "skipped_rows": dataset.skipped,
                "mapping": dataset.mapping,
                "settings": planned.settings.model_dump(mode="json"),
                **{name: value for name, value in optional.items() if value},
                "host": manifests.host(),
                "sessions": list(sessions),
                **finished,
            },
        )

    def _log_summary(self, run: RunRecord, asked: int, seconds: float) -> None:
        say = self.progress.note
        for name, metric in run.summary.metrics.items():
            if metric.failed == run.summary.samples > 0:
                reason = next(row.detail for row in run.iter_scores() if row.metric == name)
                say(f"{name} failed on every sample: {reason}")
        say(f"asked {numbered(asked, 'verdict')} in {seconds:.1f} s")
        answers = run.manifest.environment.answers
        for source, count in (answers.reused if answers else {}).items():
            say(f"reused {numbered(count, 'answer')} from {source}")
        if shard := self.plan.settings.shard:
            say(f"shard {shard}; for the whole run: {option('reuse', 'SHARD')} with each shard")
        elif run.part and (early := self.plan.settings.stops_by):
            say(f"{run.summary.how_it_ended}; to judge the others, omit {option_name(early)}")
        elif run.part:
            say(
                f"to judge all samples without repeating questions: {option('reuse', str(run.directory))}",
            )
