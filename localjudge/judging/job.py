"""Carry out a plan and leave a finished run directory (`localjudge.evaluate`, `localjudge run`).

    data, settings ──plan_run──> Plan          samples and metrics
    Plan, judge ──open_job──> Job              with the open judge, its identity and a directory
    Job ──run──> finished directory            manifest, answers, scores, summary

The same call resumes an interrupted job; the results have the same bytes.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from localjudge.dataset.samples import columns_fingerprint
from localjudge.engine.protocol import Engine, EngineStats
from localjudge.engine.scripted import NoModel
from localjudge.errors import RunDirectoryError
from localjudge.judging.data_report import report_data
from localjudge.judging.evaluate import evaluate
from localjudge.judging.evidence import find_evidence
from localjudge.judging.jury import JudgeNames, Jury, announce, use_jury
from localjudge.judging.model_answers import (
    ModelAnswers,
    OtherRun,
    answers_of_jury,
    earlier_answers,
)
from localjudge.judging.plan import Plan, default_directory
from localjudge.judging.settings import settings_with
from localjudge.judging.stopping import Stopping, check_aims
from localjudge.judging.stored_data import find_judges
from localjudge.metrics.catalog import is_judged
from localjudge.progress import NotedProgress, Progress, count_with_progress
from localjudge.run_directory.differences import format_updates, updates
from localjudge.run_directory.directory import (
    STORE,
    locked_directory,
    now,
    refuse_unusable,
    remove_file,
)
from localjudge.run_directory.files import ResultFiles, read_manifest, rows_so_far, write_manifest
from localjudge.run_directory.identity import JudgeIdentity, signature
from localjudge.run_directory.label_rows import label_file
from localjudge.run_directory.manifest import Manifest, Session, all_versions, host
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.run_rows import has_one_order
from localjudge.run_directory.store import Store
from localjudge.run_directory.summary import SUMMARY, Summary, allowed_failures
from localjudge.text import finder
from localjudge.text.names import fold
from localjudge.words import numbered, option, option_name


@contextmanager
def open_job(
    planned: Plan,
    *,
    judge: JudgeNames | Jury | None = None,
    out: str | Path | None = None,
    engine: Engine | None = None,
    baseline: RunRecord | None = None,
    progress: Progress | None = None,
) -> Iterator["Job"]:
    """Open the judge of a plan, and report both. Arguments and errors as in
    `localjudge.evaluate`.

    A plan without questions opens no model, whatever judge is named.
    """
    notes = progress
    if not isinstance(notes, NotedProgress):
        notes = NotedProgress(progress)
    check_aims(planned, baseline)
    if out:
        refuse_unusable(Path(os.path.expanduser(out)))
    if judge is None or judge == ():  # no option --judge
        stored_in = planned.stored_in
        judge = None
        if engine is None and stored_in is not None and not stored_in.manifest.judge.has_no_model:
            judge = find_judges(stored_in)
    is_open = engine is not None or isinstance(judge, Jury)
    if not is_open and not any(is_judged(metric.name) for metric in planned.metrics):
        engine = NoModel()
    with use_jury(judge, engine, planned.settings, notes) as jury:
        report_data(planned, notes)
        identity = announce(jury, planned.metrics, planned.settings, notes)
        path = Path(os.path.expanduser(out or default_directory(planned, identity)))
        yield Job(planned, jury, identity, path, notes, baseline)


@dataclass
class BegunRun:
    """A run in its locked directory, with the manifest of an earlier process, if any.

    `finished` has the environment of an earlier process that finished the run. `work_before` is
    what the judges did before.
    """

    existing: Manifest | None
    stopping: Stopping | None
    sessions: list[Session]
    store: Store
    work_before: EngineStats
    finished: dict[str, Any] = field(default_factory=dict)

    def update_session(self, **values: Any) -> None:
        """Change the session of this process."""
        self.sessions[-1] = self.sessions[-1].changed(**values)


@dataclass
class Job:
    """A plan with its open judges, to be carried out in the directory `path`."""

    plan: Plan
    jury: Jury
    identity: JudgeIdentity
    path: Path
    progress: NotedProgress
    baseline: RunRecord | None = None
    _has_begun: bool = field(default=False, init=False)
    """Whether this process has begun the run: an estimate does so for each judge."""

    @property
    def signature(self) -> str:
        return signature(self.identity, self.plan.identity)

    @property
    def evidence(self) -> dict[str, str | int] | None:
        """Everything that affects the evidence of the run, or None for a run without."""
        if self.plan.settings.no_evidence:
            return None
        return finder.identity(self.plan.settings.language)

    def run(self) -> RunRecord:
        """Judge the samples and write the results."""
        earlier = earlier_answers(
            self.jury.memory, self.identity, self.plan.settings.reuse, self.progress
        )
        updated_versions: dict[str, dict[str, str]] = {}
        for source in earlier:
            if isinstance(source, OtherRun) and source.updates:
                updated_versions[source.name] = source.versions
        with self.begun(reused_versions=updated_versions) as begun, closing(self.progress):
            answers = answers_of_jury(self.jury, begun.store, self.plan, self.progress, earlier)
            if begun.stopping:
                self._stop_early(begun.stopping, answers)
            self._drop_outdated_summary(begun)
            if begun.existing or begun.stopping:  # a new run's manifest says the same already
                write_manifest(self.path, self._manifest(begun))
            is_new_data = self._store_data(begun)
            summary = None
            if not is_new_data:
                summary = self._read_finished_summary()
            if summary is None:
                summary, manifest = self._write_results(begun, answers)
            else:
                self._finish_session(begun, answers)
                manifest = self._manifest(begun)
                write_manifest(self.path, manifest)
        run = RunRecord(self.path, summary, manifest)
        self._report(run, answers.asked, self.jury.stats.since(begun.work_before))
        return replace(run, notes=tuple(self.progress.notes))

    @contextmanager
    def begun(self, **session: Any) -> Iterator[BegunRun]:
        """Begin or resume the run in its directory, with these values of the session."""
        with locked_directory(self.path):
            existing = self.read_existing()
            if existing:
                before = {**existing.judge.as_json, "versions": existing.versions}
                after = {**self.identity.as_json, "versions": all_versions()}
                changes = updates(before, after)
                if changes:
                    versions = format_updates(changes)
                    effect = (
                        "stored answers stay valid, and sentences and scores are computed again"
                    )
                    self.progress.note(
                        f"this run was begun with other versions ({versions}): {effect}"
                    )
            stopping = self._make_stopping(existing)
            this = Session(
                started=now(),
                versions=all_versions(),
                finished=None,
                asked=None,
                effort=None,
                **session,
            )
            if existing is None:
                sessions = [this]
                manifest = self._make_manifest(sessions)
            else:
                sessions = [*existing.environment.sessions, this]
                manifest = existing.with_environment(sessions=sessions)
            write_manifest(self.path, manifest)
            with closing(Store(self.path / STORE)) as store:
                begun = BegunRun(existing, stopping, sessions, store, self.jury.stats)
                begun.update_session(**self._count_earlier_work(store))
                yield begun

    def read_existing(self) -> Manifest | None:
        """Return the manifest in the directory.

        Raises RunDirectoryError if it belongs to another run.
        """
        existing = read_manifest(self.path)
        if existing is not None:
            self._make_manifest([]).refuse_other_run(self.path, existing)
        return existing

    def _make_stopping(self, existing: Manifest | None) -> Stopping | None:
        """Return what ends the run early, or None for all samples.

        Raises RunDirectoryError if the judged samples were drawn with another seed.
        """
        settings = self.plan.settings
        if not settings.stops_by:
            return None
        if existing is None:
            return Stopping(self.plan, self.baseline)
        at_least = 0
        if os.path.lexists(self.path / SUMMARY) or existing.environment.drawn_from:
            if existing.data == self.plan.identity:
                self.progress.note("all samples are already judged, so the run cannot stop early")
                return None
            seed = existing.environment.settings.seed
            if seed != settings.seed:
                hint = f"use {option('seed', seed)}, or name another directory with {option('out')}"
                problem = f"{self.path} has samples drawn with seed {seed}"
                raise RunDirectoryError(problem, hint=hint)
            at_least = existing.data.rows
        by_scores = existing.sampling.optional_stopping
        return Stopping(self.plan, self.baseline, at_least, optional_stopping=by_scores)

    def _count_earlier_work(self, store: Store) -> dict[str, Any]:
        """Return the answers and labels of earlier processes."""
        counts: dict[str, Any] = {}
        answers = store.answer_count
        if answers:
            if not self._has_begun:
                self.progress.note(f"resuming: {numbered(answers, 'answer')} already stored")
            counts["answers_before"] = answers
        self._has_begun = True
        spellings: dict[str, str] = {}  # of each annotator, as the first row has it
        labels: Counter[str] = Counter()
        with suppress(RunDirectoryError):  # readers of damaged labels refuse them
            for row in label_file(self.path).rows:
                labels[spellings.setdefault(fold(row.annotator), row.annotator)] += 1
        if labels:
            counts["labels_before"] = dict(labels)
        return counts

    def _stop_early(self, stopping: Stopping, answers: ModelAnswers) -> None:
        """Judge until the samples are enough, and shorten the plan to these samples."""
        reason = stopping.judge(answers)
        is_part = len(stopping.positions) < len(self.plan.dataset.samples)
        if self.plan.settings.optional_stopping or is_part:
            largest = stopping.sampling.max_cluster_size
            self.plan = self.plan.stopped_after(stopping.positions, reason, largest)
        answers.progress = Progress()  # all questions are answered

    def _drop_outdated_summary(self, begun: BegunRun) -> None:
        """Keep the finished part of the same run; remove the summary of fewer samples, of other
        versions, or with another kind of evidence.
        """
        if begun.existing is None:
            return
        is_same_evidence = begun.existing.environment.evidence == self.evidence
        if is_same_evidence and begun.existing.signature == self.signature:
            environment = begun.existing.environment
            begun.finished = environment.model_dump(mode="json", include={"answers", "files"})
        else:
            remove_file(self.path / SUMMARY)

    def _store_data(self, begun: BegunRun) -> bool:
        """Store the samples of the plan, and no others. Returns whether that changed the store."""
        table = self.plan.dataset.table
        rows = count_with_progress(table.rows(), self.progress, "storing", len(table))
        is_changed = begun.store.add_samples(rows, self.plan.cluster_of)
        begun.finished["columns_sha256"] = columns_fingerprint(table.rows())
        was_stopped = begun.existing is not None and begun.existing.environment.drawn_from
        if self.plan.stopped is not None or was_stopped:
            begun.store.keep_samples(row.id for row in table.rows())
        return is_changed

    def _read_finished_summary(self) -> Summary | None:
        """Return the summary in the directory, unless judging again would change it."""
        try:
            run = RunRecord.open(self.path)
            unfinished_rows = rows_so_far(self.path)
        except RunDirectoryError:
            return None
        summary = run.summary
        stored = (summary.skipped_rows, summary.judge, summary.stopped)
        planned = (self.plan.dataset.skipped, self.jury.card, self.plan.stopped)
        if unfinished_rows is not None or stored != planned:
            return None
        # Another `max_failed` may withhold a mean, or give it.
        max_failed = allowed_failures(self.plan.settings.max_failed, summary.samples)
        for metric in summary.metrics.values():
            has_mean = metric.scored > 0 and metric.failed <= max_failed
            if has_mean != (metric.mean is not None):
                return None
        if not has_one_order(run):
            return None
        return summary

    def _write_results(self, begun: BegunRun, answers: ModelAnswers) -> tuple[Summary, Manifest]:
        """Judge the samples, and write the result files, the summary and the manifest."""
        plan = self.plan
        samples = plan.dataset.samples
        totals = plan.totals(plan.sampling)
        letters = self.identity.letters_read
        rest = iter(samples)
        files = ResultFiles(self.path, with_evidence=self.evidence is not None)
        with closing(files) as results:
            answers.total = len(samples)
            answers.prepare(samples)
            for evaluations in evaluate(samples, plan.metrics, answers, plan.settings.sentences):
                totals.add(evaluations)
                evidence = None
                if self.evidence:
                    evidence = find_evidence(evaluations, rest, plan.settings, letters)
                results.add(evaluations, evidence)
            summary = totals.summary(
                self.signature, self.jury.card, plan.dataset.skipped, plan.stopped
            )
            self._finish_session(begun, answers)
            manifest = results.finish(summary, self._manifest(begun))
        return summary, manifest

    def _finish_session(self, begun: BegunRun, answers: ModelAnswers) -> None:
        """Record the work of this process."""
        work = self.jury.stats.since(begun.work_before)
        begun.update_session(finished=now(), asked=answers.asked, effort=work.model_dump())
        reused = begun.store.reused_from()
        asked = begun.store.answer_count - sum(reused.values())
        begun.finished["answers"] = {"asked": asked, "reused": reused}

    def _manifest(self, begun: BegunRun) -> Manifest:
        return self._make_manifest(begun.sessions, **begun.finished)

    def _make_manifest(self, sessions: Sequence[Session], **finished: Any) -> Manifest:
        plan = self.plan
        environment: dict[str, Any] = {
            **self.jury.origin,
            "sources": list(plan.dataset.sources),
            "samples_read": plan.whole,
            "skipped_rows": plan.dataset.skipped,
            "mapping": plan.dataset.mapping,
            "settings": plan.settings.model_dump(mode="json", exclude=set(settings_with("typed"))),
        }
        optional = {
            "skipped_places": list(plan.dataset.skipped_places),
            "source_sha256": list(plan.dataset.source_sha256),
            "shard_of": plan.parent,
            "index": list(plan.index_levels),
            "stopped": plan.stopped,
            "drawn_from": plan.drawn_from,
            "evidence": self.evidence,
        }
        environment |= {name: value for name, value in optional.items() if value}
        environment |= {"host": host(), "sessions": list(sessions), **finished}
        return Manifest.of(self.identity, plan.identity, environment)

    def _report(self, run: RunRecord, asked: int, work: EngineStats) -> None:
        """Report metrics without scores, the work, and how to judge the other samples."""
        for name, metric in run.summary.metrics.items():
            if metric.failed == run.summary.samples > 0:
                reason = next(row.detail for row in run.iter_scores() if row.metric == name)
                self.progress.note(f"{name} failed on every sample: {reason}")
        self.progress.note(f"asked {numbered(asked, 'question')} in {work.seconds_total:.1f} s")
        answers = run.manifest.environment.answers
        if answers is not None:
            for source, count in answers.reused.items():
                self.progress.note(f"reused {numbered(count, 'answer')} from {source}")
        shard = self.plan.settings.shard
        if shard:
            reuse = option("reuse", "SHARD")
            self.progress.note(f"shard {shard}; for the whole run: {reuse} with each shard")
        elif run.part:
            stops_by = self.plan.settings.stops_by
            if stops_by:
                omit = option_name(stops_by)
                next_step = f"{run.summary.how_it_ended}; to judge the others, omit {omit}"
            else:
                reuse = option("reuse", str(run.directory))
                next_step = f"to judge all samples without repeating questions: {reuse}"
            self.progress.note(next_step)
