"""A finished run on disk, read back as one value, and whether its files are of one run and as it left them.

    manifest.json    what the numbers rest on: signature = sha256 of its parts; sha256 of each of the other files
    summary.json     means, intervals, counts; signature, thresholds, metrics, samples and judge are the manifest's
    scores.jsonl     one row per sample and metric
    verdicts.jsonl   one row per judged unit

By their checksums, so that no row is looked at before it is asked for. Someone who changes a file together with its
checksum is not noticed here: `verify` asks the judge again, and works the files out from the stored data and answers.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter

from localjudge.errors import InputError, RunDirectoryError, UnfinishedRun
from localjudge.record.archive import stored_clusters, stored_extras, stored_ids, stored_samples, stored_samples_at
from localjudge.record.directory import (
    BY_HAND,
    MANIFEST,
    STORE,
    excerpt,
    open_regular,
    part_path,
    placed_rows,
    read_object,
    starts_with,
    validated,
)
from localjudge.record.examination import Examination, with_examination
from localjudge.record.files import (
    ROW_FILES,
    SCORES,
    SUMMARY,
    SUMMARY_VERSION,
    VERDICTS,
    MetricSummary,
    ResumePoint,
    Summary,
    Totals,
    resume_point,
)
from localjudge.record.manifest import (
    MANIFEST_VERSION,
    Manifest,
    Part,
    card_of,
    combination_of,
    contradictions,
    kept_rubrics,
    part_of,
    signature,
)
from localjudge.record.result_rows import (
    SCORE_ROWS,
    VERDICT_ROWS,
    ScoreRow,
    VerdictRow,
    evaluations_of,
    rows_of_sample,
)
from localjudge.types import JudgeCard, Record, Sample, VerdictRule
from localjudge.words import numbered, printable

_VERIFY = "`localjudge verify` says what in the files the stored answers do not give"
_SHOWN_METRICS = 4
_Object = TypeVar("_Object", Manifest, Summary)
_Row = TypeVar("_Row", ScoreRow, VerdictRow)


def file_sha256(path: Path) -> str:
    """Sha256 (hexadecimal) of a regular file. Raises RunDirectoryError if it cannot be read."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _differences(summary: Summary, manifest: Manifest) -> Iterator[str]:
    parts = {
        "signature": (summary.signature, manifest.signature),
        "threshold": (summary.threshold, manifest.judge["threshold"]),
        "thresholds": (summary.thresholds, manifest.judge.get("thresholds", {})),
        "number of samples": (summary.samples, manifest.data["rows"]),
        "metrics": (sorted(summary.metrics), sorted(manifest.judge["metrics"])),
    }
    for name, (in_summary, in_manifest) in parts.items():
        if in_summary != in_manifest:
            yield f"{name}: {excerpt(in_summary)} in summary.json, {excerpt(in_manifest)} in manifest.json"
    if manifest.signature != signature(manifest.judge, manifest.data):
        yield "the signature in manifest.json is not that of its parts"
    yield from contradictions(manifest, summary.judge)


class _Part(Record):
    """Part of a manifest: the values that are used, beside others."""

    model_config = ConfigDict(extra="ignore", strict=True)


class IndexLevel(_Part):
    """A level of the index of a pandas frame that was evaluated: the column that it became, its name and its type."""

    column: str
    name: str | None
    dtype: str


class _Settings(_Part):
    max_failed: int = Field(ge=0)


class _Environment(_Part):
    settings: _Settings
    files: dict[str, str] = Field(default_factory=dict)
    sessions: list[dict[str, Any]]
    samples_read: int = Field(ge=0)
    sources: list[str] = Field(default_factory=list)
    judge: str | None = None
    index: list[IndexLevel] = Field(default_factory=list)
    examined: dict[str, Examination] = Field(default_factory=dict)


class _JudgePart(_Part):
    engine: dict[str, Any]
    combined: dict[str, Any] | None = None
    metrics: dict[str, Any]
    threshold: float
    thresholds: dict[str, float] = Field(default_factory=dict)


class _DataPart(_Part):
    rows: int
    clusters_sha256: str | None


class _ManifestParts(_Part):
    """What this program relies on in a manifest."""

    judge: _JudgePart
    data: _DataPart
    environment: _Environment


@dataclass(frozen=True, repr=False)
class Run:
    """A finished run: `summary` and `manifest` at once, scores and verdicts when they are looked at.

    It is read like a mapping of its metrics: `run["context_recall"]` is the summary of one, `list(run)` names all.
    `notes` are what was said while it was made; a run that is opened has none.
    """

    directory: Path
    summary: Summary
    manifest: Manifest
    so_far: ResumePoint | None = None
    """Of a run that is not finished: which rows there were when it was opened. Nothing else of it is looked at."""
    notes: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def open(cls, directory: str | Path, *, check: bool = True, unfinished: bool = False) -> Self:
        """Read the run in a directory; an `unfinished` one as far as it is, while it is written or was stopped.

        Raises RunDirectoryError if there is none, if it is not finished, or if its files are not what localjudge
        writes, or not what the run left. Without `check` the last is left to `verify`, which works them out again.
        """
        path = Path(os.path.expanduser(directory))
        if not os.path.lexists(path / MANIFEST):
            what = "is a file, not the directory of a run" if path.is_file() else "holds no run"
            raise RunDirectoryError(f"{path} {what}", hint="give the directory that `localjudge run` made")
        manifest = _manifest(path / MANIFEST)
        if not os.path.lexists(path / SUMMARY):
            point = resume_point(path) if unfinished else None
            if point is None:
                what = "has no finished sample yet" if unfinished else "is not finished"
                raise UnfinishedRun(path, f"the run in {path} {what}")
            return cls._so_far(path, manifest, point)
        run = cls(path, _read_object(path / SUMMARY, Summary, SUMMARY_VERSION), manifest)
        for problem in _differences(run.summary, manifest) if check else ():
            raise RunDirectoryError(f"the files in {path} are not of one run: {problem}", hint=_VERIFY)
        for name in (SUMMARY, *ROW_FILES) if check else ():
            if file_sha256(path / name) != manifest.environment.get("files", {}).get(name):
                problem = "was changed: its sha256 is not the one in manifest.json"
                raise RunDirectoryError(f"{path / name} {problem}", hint=_VERIFY)
        return run

    @classmethod
    def _so_far(cls, path: Path, manifest: Manifest, point: ResumePoint) -> Self:
        """A run that is not finished, with a summary of what there is, where the rows are what `resume.json` says."""
        for part, written in ((part_path(path / name), written) for name, written in point.parts.items()):
            if not starts_with(part, written):
                raise RunDirectoryError(f"{part} is not as it was left", hint="is it written anew just now?")
        names, judge = list(manifest.judge["metrics"]), manifest.judge
        rule = VerdictRule(judge["threshold"], 0.0, judge.get("thresholds", {}))
        run = cls(path, Totals([], rule).summary(manifest.signature, card_of(manifest)), manifest, point)
        groups = None if manifest.data["clusters_sha256"] is None else run.cluster_of
        totals = Totals(names, rule, groups, kept_rubrics(manifest))
        rows = evaluations_of(run.iter_scores(), run.iter_verdicts())
        for sample_id, of_sample in groupby(rows, key=lambda evaluation: evaluation.sample_id):
            evaluations = list(of_sample)
            metrics = [evaluation.metric for evaluation in evaluations]
            if metrics != names or (groups is not None and sample_id not in groups):
                raise RunDirectoryError(
                    f"the rows of {excerpt(sample_id)} in {path} are not those of its metrics", hint=BY_HAND
                )
            totals.add(evaluations)
        return replace(run, summary=totals.summary(manifest.signature, card_of(manifest)))

    @property
    def judge(self) -> JudgeCard:
        """Who judged, with what `doctor` found it fit for: on this machine, or else as the run recorded it."""
        return with_examination(self.summary.judge, self.manifest)

    @property
    def part(self) -> Part | None:
        """Which part of the data was scored; None if it was all of it."""
        return part_of(self.manifest)

    @property
    def max_failed(self) -> int:
        """How many samples of a metric were allowed to fail."""
        return int(self.manifest.environment["settings"]["max_failed"])

    @property
    def index(self) -> list[IndexLevel]:
        """The index of the pandas frame that was evaluated; nothing of other data, and of rows that are counted."""
        return [IndexLevel.model_validate(level) for level in self.manifest.environment.get("index", ())]

    def __iter__(self) -> Iterator[str]:
        return iter(self.summary.metrics)

    def __len__(self) -> int:
        return len(self.summary.metrics)

    def __hash__(self) -> int:
        return hash((self.directory, self.summary.signature))

    def keys(self) -> list[str]:
        """Names of the metrics; a notebook offers them between the brackets."""
        return list(self.summary.metrics)

    _ipython_key_completions_ = keys

    def __getitem__(self, metric: str) -> MetricSummary:
        if metric not in self.summary.metrics:
            raise KeyError(f"the run has no metric {metric!r}; it has {', '.join(self.summary.metrics)}")
        return self.summary.metrics[metric]

    def __repr__(self) -> str:
        summary, withheld = self.summary, self.summary.failed_beyond(self.max_failed)
        shown = [
            f"{printable(name)}={'no mean' if name in withheld or found.mean is None else format(found.mean, '.3f')}"
            for name, found in summary.metrics.items()
        ]
        more = [f"and {len(shown) - _SHOWN_METRICS} more"] if len(shown) > _SHOWN_METRICS else []
        parts = [repr(str(self.directory)), numbered(summary.samples, "sample"), *shown[:_SHOWN_METRICS], *more]
        return f"Run({', '.join(parts)}, judge {printable(str(self.judge))})"

    def iter_scores(self) -> Iterator[ScoreRow]:
        """One row for each sample and metric, in the order of the data, then of the metrics; one row is held.

        Raises RunDirectoryError for a row that localjudge does not write.
        """
        return (row for _, row in self._rows(SCORES, SCORE_ROWS))

    def iter_verdicts(self) -> Iterator[VerdictRow]:
        """One row for each judged unit, in the order of the scores, then of the units. Raises as `iter_scores` does."""
        return (row for row, _ in self.verdict_places())

    def iter_samples(self) -> Iterator[Sample]:
        """The data in its order, some samples at a time. Raises RunDirectoryError if `run.sqlite` cannot be read."""
        return stored_samples(self.directory / STORE)

    def samples_at(self, positions: Sequence[int]) -> dict[int, Sample]:
        """Those of `iter_samples` at these positions, a few. Raises RunDirectoryError as it does."""
        return stored_samples_at(self.directory / STORE, positions)

    def iter_extras(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Id of each sample and its columns that are not fields. Raises as `iter_samples` does."""
        return stored_extras(self.directory / STORE)

    def verdict_places(self) -> Iterator[tuple[VerdictRow, int]]:
        """The rows of `iter_verdicts` with the places in their file where they begin, for `verdicts_at`."""
        return ((row, place) for place, row in self._rows(VERDICTS, VERDICT_ROWS))

    def verdicts_at(self, place: int) -> Iterator[VerdictRow]:
        """The rows from that place on that are of the same sample and metric as the first of them."""
        rows = (row for _, row in self._rows(VERDICTS, VERDICT_ROWS, place))
        return next(iter(groupby(rows, key=lambda row: (row.sample_id, row.metric))))[1]

    def scores_of(self, sample_id: str) -> list[ScoreRow]:
        """The rows of one sample; those of a sample stand together, so reading ends with them."""
        return list(rows_of_sample(self.iter_scores(), sample_id))

    def verdicts_of(self, sample_id: str) -> list[VerdictRow]:
        """The rows of one sample, as `scores_of` reads them."""
        return list(rows_of_sample(self.iter_verdicts(), sample_id))

    def iter_scored_samples(self) -> Iterator[tuple[Sample, dict[str, ScoreRow]]]:
        """Each sample with its scores by metric, in the order of the data.

        All scores are in memory where the run was begun again with its rows in another order, or changed.
        Raises RunDirectoryError, before the first of them, if a score is of none of the samples.
        """
        if self.in_one_order():
            groups = groupby(self.iter_scores(), key=lambda row: row.sample_id)
            return zip(self.iter_samples(), ({row.metric: row for row in rows} for _, rows in groups), strict=True)
        scores: dict[str, dict[str, ScoreRow]] = {}
        for row in self.iter_scores():
            scores.setdefault(row.sample_id, {})[row.metric] = row
        if lost := scores.keys() - set(stored_ids(self.directory / STORE)):
            raise unknown_sample(self, min(lost))
        return ((sample, scores.get(sample.id, {})) for sample in self.iter_samples())

    def in_one_order(self) -> bool:
        """Whether scores and stored samples name the same samples in the same order, as a finished run leaves them."""
        scored = (sample_id for sample_id, _ in groupby(row.sample_id for row in self.iter_scores()))
        return all(one == other for one, other in zip_longest(scored, stored_ids(self.directory / STORE)))

    @cached_property
    def scores(self) -> tuple[ScoreRow, ...]:
        """All rows of `iter_scores` at once: they stay in memory, about 0.5 KB each."""
        return tuple(self.iter_scores())

    @cached_property
    def verdicts(self) -> tuple[VerdictRow, ...]:
        """All rows of `iter_verdicts` at once: they stay in memory, about 1 KB each."""
        return tuple(self.iter_verdicts())

    @cached_property
    def samples(self) -> tuple[Sample, ...]:
        """All samples of `iter_samples` at once: they stay in memory with their texts."""
        return tuple(self.iter_samples())

    def _rows(self, name: str, kind: TypeAdapter[_Row], start: int = 0) -> Iterator[tuple[int, _Row]]:
        if self.so_far is None:
            return placed_rows(self.directory / name, kind, start)
        return placed_rows(part_path(self.directory / name), kind, start, self.so_far.parts[name].size)

    @cached_property
    def cluster_of(self) -> dict[str, str] | None:
        """The group of each sample by its id; None if each stands alone."""
        return stored_clusters(self.directory / STORE)


def unknown_sample(run: Run, sample_id: str) -> RunDirectoryError:
    """The error for a score of a sample that is not stored."""
    return RunDirectoryError(
        f"{run.directory / STORE} lacks the sample {excerpt(sample_id)}, which {SCORES} has a score of",
        hint="are both files of the same run?",
    )


def as_run(run: Run | str | Path, *, check: bool = True) -> Run:
    """The run itself, or the one in a directory. Raises RunDirectoryError if there is none, InputError for no path."""
    if isinstance(run, Run):
        return run
    if not isinstance(run, str | Path):
        raise InputError(f"a {type(run).__name__} is not a run", hint="give a Run, or the directory of one")
    return Run.open(run, check=check)


def read_manifest(directory: Path) -> Manifest | None:
    """The manifest in the directory; None if there is none yet."""
    file = directory / MANIFEST
    return _manifest(file) if os.path.lexists(file) else None


def _manifest(file: Path) -> Manifest:
    manifest = _read_object(file, Manifest, MANIFEST_VERSION)
    validated(_ManifestParts, manifest.model_dump(), str(file))
    combination_of(manifest)  # refused here, and not where it is used
    return manifest


def _read_object(file: Path, kind: type[_Object], schema_version: int) -> _Object:
    content = read_object(file)
    if content.get("schema_version") != schema_version:
        version = excerpt(content.get("schema_version"))
        raise RunDirectoryError(
            f"{file} has schema version {version}, this localjudge reads {schema_version}",
            hint="read it with the version of localjudge that wrote it",
        )
    return validated(kind, content, str(file))
