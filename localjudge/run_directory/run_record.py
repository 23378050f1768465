"""Open a run, and read its summary, rows and samples."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, islice, zip_longest
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import TypeAdapter

from localjudge.arguments import check_arguments
from localjudge.errors import MissingRun, RunDirectoryError, UnfinishedRun
from localjudge.run_directory.archive import (
    stored_clusters,
    stored_extras,
    stored_ids,
    stored_sample_at,
    stored_samples,
)
from localjudge.run_directory.consistency import check_files
from localjudge.run_directory.directory import (
    BY_HAND,
    MANIFEST,
    STORE,
    excerpt,
    part_path,
    placed_rows,
    read_object,
    validated,
)
from localjudge.run_directory.environment import AnswersUsed, IndexLevel
from localjudge.run_directory.evidence_rows import EVIDENCE, EVIDENCE_ROWS, evidence_by_verdict
from localjudge.run_directory.examination import with_examination
from localjudge.run_directory.files import SCORES, VERDICTS, RowsSoFar, row_files, rows_so_far
from localjudge.run_directory.manifest import MANIFEST_VERSION, Manifest
from localjudge.run_directory.result_rows import (
    SCORE_ROWS,
    VERDICT_ROWS,
    Evaluation,
    EvidenceRow,
    ScoreRow,
    VerdictRow,
    join_rows,
)
from localjudge.run_directory.sampling import Sampling
from localjudge.run_directory.summary import SUMMARY, SUMMARY_VERSION, MetricSummary, Summary
from localjudge.run_directory.totals import Totals, allowed_failures
from localjudge.types import JudgeCard, Sample, VerdictRule
from localjudge.words import numbered, printable, suggestion

_SHOWN = 4
_NO_MORE: tuple[None, tuple[EvidenceRow, ...]] = (None, ())
_Object = TypeVar("_Object", Manifest, Summary)
_Row = TypeVar("_Row", ScoreRow, VerdictRow, EvidenceRow)


@dataclass(frozen=True)
class Origin:
    """Answers or labels of a run from before its last command.

    `count` of `total` are from the run or annotator `name`.
    """

    kind: Literal["reused", "stored", "labels"]
    count: int
    total: int
    name: str

    @property
    def is_notable(self) -> bool:
        """Whether this is more than some answers by an earlier command, such as a dry run."""
        return self.kind != "stored" or self.count >= self.total

    def __str__(self) -> str:
        if self.kind == "reused":
            return f"{self.count:,} of {self.total:,} answers were reused from {self.name}"
        if self.kind == "stored":
            return f"{self.count:,} of {self.total:,} answers were stored by earlier commands"
        return f"{numbered(self.count, 'label')} of {self.name} stored before the last command"


@dataclass(frozen=True, repr=False, eq=False)
class RunRecord(Mapping[str, MetricSummary]):
    """A run: a mapping from metric names to their summaries.

    Scores and verdicts are read on demand. Two runs are equal if directory, summary and manifest
    are equal. `notes` are messages from the evaluation.
    """

    directory: Path
    summary: Summary
    manifest: Manifest
    so_far: RowsSoFar | None = None
    """For an unfinished run: the rows at the time of opening."""
    notes: tuple[str, ...] = ()

    @classmethod
    @check_arguments
    def open(cls, directory: str | Path, *, check: bool = True, unfinished: bool = False) -> Self:
        """Open the run in a directory; with `unfinished`, also one in progress or interrupted.

        Raises RunDirectoryError if there is no run, it is unfinished, or (unless `check=False`) its
        files were changed.
        """
        path = Path(os.path.expanduser(directory))
        manifest = read_manifest(path)
        if manifest is None:
            what = "contains no run"
            if path.is_file():
                what = "is a file, not a run directory"
            raise MissingRun(f"{path} {what}", hint=_runs_beside(path))
        if not os.path.lexists(path / SUMMARY):
            if not unfinished:
                raise UnfinishedRun(path, f"the run in {path} is not finished")
            so_far = rows_so_far(path)
            if so_far is None:
                raise UnfinishedRun(path, f"the run in {path} has no finished sample yet")
            return cls._open_unfinished(path, manifest, so_far)
        run = cls(path, _read_object(path / SUMMARY, Summary, SUMMARY_VERSION), manifest)
        if check:
            check_files(path, run.summary, manifest, run.row_files)
        return run

    @classmethod
    def _open_unfinished(cls, path: Path, manifest: Manifest, so_far: RowsSoFar) -> Self:
        judge = manifest.judge
        rule = VerdictRule(judge.threshold, 0.0, judge.thresholds)
        empty = Totals([], rule).summary(manifest.signature, manifest.card)
        run = cls(path, empty, manifest, so_far)
        totals = run.totals(judge.metrics, rule)
        try:
            for evaluations in run.iter_evaluations():
                totals.add(evaluations)
        except KeyError as error:
            problem = f"the rows in {path} do not belong to its run"
            raise RunDirectoryError(problem, hint=BY_HAND) from error
        return replace(run, summary=totals.summary(manifest.signature, manifest.card))

    @property
    def judge(self) -> JudgeCard:
        """The judge, with the uses that `doctor` recommends on this machine."""
        return with_examination(self.summary.judge, self.manifest.judge)

    def rule(self, min_valid_mass: float) -> VerdictRule:
        """Return how the run turned answers into verdicts."""
        return VerdictRule(
            self.summary.threshold,
            min_valid_mass,
            self.summary.thresholds,
            self.manifest.judge.combinations,
        )

    @property
    def sampling(self) -> Sampling:
        return self.manifest.sampling

    @property
    def part(self) -> Sampling | None:
        """The scored part of the data, or None for all of it."""
        if not self.sampling.is_part:
            return None
        return self.sampling

    @property
    def max_failed(self) -> int:
        """Number of samples that may fail before a mean is withheld."""
        return allowed_failures(self.manifest.environment.settings.max_failed, self.summary.samples)

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Sources of answers and labels before the last command."""
        environment = self.manifest.environment
        answers = environment.answers or AnswersUsed(asked=0, reused={})
        reused = sum(answers.reused.values())
        total = answers.asked + reused
        origins = []
        for source, count in answers.reused.items():
            origins.append(Origin("reused", count, total, excerpt(source)))
        if environment.sessions:
            last = environment.sessions[-1]
            stored = last.answers_before - reused
            if stored > 0:
                origins.append(Origin("stored", stored, total, ""))
            for name, count in last.labels_before.items():
                origins.append(Origin("labels", count, count, excerpt(name)))
        return tuple(origins)

    @property
    def index(self) -> tuple[IndexLevel, ...]:
        """Index levels of the evaluated pandas frame, empty for a default index."""
        return self.manifest.environment.index

    def __iter__(self) -> Iterator[str]:
        return iter(self.summary.metrics)

    def __len__(self) -> int:
        return len(self.summary.metrics)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunRecord):
            return NotImplemented
        return (
            self.directory == other.directory
            and self.summary == other.summary
            and self.manifest == other.manifest
            and self.so_far == other.so_far
        )

    def __hash__(self) -> int:
        return hash((self.directory, self.summary.signature))

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __getitem__(self, metric: str) -> MetricSummary:
        if metric not in self.summary.metrics:
            raise KeyError(
                f"the run has no metric {metric!r}; it has {', '.join(self.summary.metrics)}"
            )
        return self.summary.metrics[metric]

    def __repr__(self) -> str:
        parts = [repr(str(self.directory)), numbered(self.summary.samples, "sample")]
        for name, metric in islice(self.summary.metrics.items(), _SHOWN):
            mean = "no mean"
            if metric.mean is not None:
                mean = f"{metric.mean:.3f}"
            parts.append(f"{printable(name)}={mean}")
        if len(self) > _SHOWN:
            parts.append(f"and {len(self) - _SHOWN} more")
        return f"Run({', '.join(parts)}, judge {printable(str(self.judge))})"

    def iter_scores(self) -> Iterator[ScoreRow]:
        """Yield one row for each sample and metric, in this order."""
        for _, row in self._rows(SCORES, SCORE_ROWS):
            yield row

    def iter_verdicts(self) -> Iterator[VerdictRow]:
        """Yield one row for each judged unit, in the order of the scores."""
        for row, _ in self.verdict_places():
            yield row

    def iter_evidence(self) -> Iterator[EvidenceRow]:
        """Yield the sentences of evidence, in the order of the verdicts; none for a run without."""
        if not self.has_evidence:
            return iter(())
        return (row for _, row in self._rows(EVIDENCE, EVIDENCE_ROWS))

    def iter_verdicts_with_evidence(self) -> Iterator[VerdictRow]:
        """Yield the rows of `iter_verdicts`, each with its evidence."""
        return with_evidence(self.iter_verdicts(), self.iter_evidence())

    @property
    def has_evidence(self) -> bool:
        return self.manifest.environment.evidence is not None

    @property
    def row_files(self) -> tuple[str, ...]:
        """Names of the files with rows."""
        return row_files(with_evidence=self.has_evidence)

    def iter_evaluations(self) -> Iterator[list[Evaluation]]:
        """Yield the evaluations of each sample."""
        evaluations = join_rows(self.iter_scores(), self.iter_verdicts())
        for _, group in groupby(evaluations, key=lambda evaluation: evaluation.sample_id):
            yield list(group)

    def iter_samples(self) -> Iterator[Sample]:
        """Yield the samples in the order of the data."""
        return stored_samples(self.directory / STORE)

    def sample_at(self, position: int) -> Sample:
        return stored_sample_at(self.directory / STORE, position)

    def iter_extras(self) -> Iterator[tuple[str, dict[str, Any]]]:
        return stored_extras(self.directory / STORE)

    def verdict_places(self) -> Iterator[tuple[VerdictRow, int]]:
        """Yield the rows of `iter_verdicts` with their byte offsets, for `verdicts_at`."""
        for place, row in self._rows(VERDICTS, VERDICT_ROWS):
            yield row, place

    def verdicts_at(self, place: int) -> Iterator[VerdictRow]:
        """Yield the rows of the sample and metric at this byte offset."""
        first = None
        for _, row in self._rows(VERDICTS, VERDICT_ROWS, place):
            if first is None:
                first = row
            if (row.sample_id, row.metric) != (first.sample_id, first.metric):
                return
            yield row

    def scores_of(self, sample_id: str) -> list[ScoreRow]:
        return [row for row in self.iter_scores() if row.sample_id == sample_id]

    def verdicts_of(self, sample_id: str) -> list[VerdictRow]:
        return [row for row in self.iter_verdicts() if row.sample_id == sample_id]

    def verdicts_with_evidence_of(self, sample_id: str) -> list[VerdictRow]:
        """Return the verdicts of a sample, each with its evidence."""
        evidence = (row for row in self.iter_evidence() if row.sample_id == sample_id)
        return list(with_evidence(self.verdicts_of(sample_id), evidence))

    def iter_scored_samples(self) -> Iterator[tuple[Sample, dict[str, ScoreRow]]]:
        """Yield each sample with its scores by metric."""
        if not self.in_one_order():
            raise RunDirectoryError(
                f"scores and samples in {self.directory} do not match",
                hint="repeat the command that made it",
            )
        groups = groupby(self.iter_scores(), key=lambda row: row.sample_id)
        for sample, (_, rows) in zip(self.iter_samples(), groups, strict=True):
            yield sample, {row.metric: row for row in rows}

    def in_one_order(self) -> bool:
        """Return whether scores and stored samples have the same order."""
        groups = groupby(self.iter_scores(), key=lambda row: row.sample_id)
        scored = (sample_id for sample_id, _ in groups)
        stored = stored_ids(self.directory / STORE)
        return all(name == other for name, other in zip_longest(scored, stored))

    @cached_property
    def scores(self) -> tuple[ScoreRow, ...]:
        """All score rows, about 0.5 KB each."""
        return tuple(self.iter_scores())

    @cached_property
    def verdicts(self) -> tuple[VerdictRow, ...]:
        """All verdict rows with their evidence, about 2 KB each."""
        return tuple(self.iter_verdicts_with_evidence())

    @cached_property
    def samples(self) -> tuple[Sample, ...]:
        return tuple(self.iter_samples())

    def _rows(
        self, name: str, kind: TypeAdapter[_Row], start: int = 0
    ) -> Iterator[tuple[int, _Row]]:
        file = self.directory / name
        if self.so_far is None:
            return placed_rows(file, kind, start)
        return placed_rows(part_path(file), kind, start, self.so_far.sizes.get(name, 0))

    @cached_property
    def cluster_of(self) -> dict[str, str] | None:
        return stored_clusters(self.directory / STORE)

    def totals(self, metrics: Iterable[str], rule: VerdictRule | Summary) -> Totals:
        """Return empty totals of these metrics, for samples of this run."""
        return Totals(
            metrics,
            rule,
            self.cluster_of,
            self.manifest.rubrics,
            self.sampling,
            self.manifest.environment.settings.max_failed,
        )


def _runs_beside(path: Path) -> str:
    """Return a hint that names the runs in the parent directory."""
    runs = {}
    if not path.exists():
        for file in sorted(path.parent.glob(f"*/{MANIFEST}")):
            runs[file.parent.name] = file.parent
    if not runs:
        return "name the directory of a run, such as runs/before"
    return suggestion(path.name, runs, "the runs there", show=lambda name: excerpt(runs[name]))


def with_evidence(
    verdicts: Iterable[VerdictRow], evidence: Iterable[EvidenceRow]
) -> Iterator[VerdictRow]:
    """Yield the verdicts with their evidence. Both are in the order of the run's files.

    Raises RunDirectoryError for evidence without a verdict.
    """
    groups = evidence_by_verdict(evidence)
    key, rows = next(groups, _NO_MORE)
    for verdict in verdicts:
        if key == (verdict.sample_id, verdict.metric, verdict.position):
            yield replace(verdict, evidence=rows)
            key, rows = next(groups, _NO_MORE)
        else:
            yield verdict
    if key is not None:
        raise RunDirectoryError(f"a row of {EVIDENCE} has no verdict", hint=BY_HAND)


def unknown_sample(run: RunRecord, sample_id: str) -> RunDirectoryError:
    problem = f"{run.directory / STORE} lacks the sample {excerpt(sample_id)} of {SCORES}"
    return RunDirectoryError(problem, hint="are both files of the same run?")


RunLike = RunRecord | str | Path
"""A run, or its directory."""


def as_run(run: RunLike, *, check: bool = True) -> RunRecord:
    if isinstance(run, RunRecord):
        return run
    return RunRecord.open(run, check=check)


def seconds_per_verdict(run: RunRecord) -> float | None:
    """Return the judge's seconds per verdict over all finished processes."""
    sessions = run.manifest.environment.sessions
    asked = sum(session.asked or 0 for session in sessions)
    efforts = [session.effort for session in sessions if session.effort]
    seconds = sum(effort.seconds_total or 0 for effort in efforts)
    if not asked or not seconds:
        return None
    return seconds / asked


def read_manifest(directory: Path) -> Manifest | None:
    file = directory / MANIFEST
    if not os.path.lexists(file):
        return None
    return _read_object(file, Manifest, MANIFEST_VERSION)


def _read_object(file: Path, kind: type[_Object], schema_version: int) -> _Object:
    content = read_object(file)
    if content.get("schema_version") != schema_version:
        version = excerpt(content.get("schema_version"))
        raise RunDirectoryError(
            f"{file} has schema version {version}, expected {schema_version}",
            hint="read it with the version of localjudge that wrote it",
        )
    return validated(kind, content, str(file))
