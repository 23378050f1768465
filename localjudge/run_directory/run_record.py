"""Open a run, and read its summary, rows and samples."""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Self, TypeVar, TypeVarTuple
from weakref import WeakKeyDictionary

from pydantic import TypeAdapter

from localjudge.arguments import check_arguments
from localjudge.errors import InputError, MissingRun, RunDirectoryError, UnfinishedRun
from localjudge.metrics.metric import Metric
from localjudge.run_directory.comparison_directory import COMPARISON, ComparisonDirectory
from localjudge.run_directory.directory import (
    BY_HAND,
    MANIFEST,
    STORE,
    excerpt,
    part_path,
    placed_rows,
)
from localjudge.run_directory.files import (
    RowsSoFar,
    check_files,
    read_manifest,
    read_summary,
    rows_so_far,
)
from localjudge.run_directory.manifest import Manifest, Origin, Sampling
from localjudge.run_directory.measured_judges import with_examination
from localjudge.run_directory.result_rows import (
    EVIDENCE,
    EVIDENCE_ROWS,
    SCORE_ROWS,
    SCORES,
    VERDICT_ROWS,
    VERDICTS,
    Evaluation,
    EvidenceRow,
    ScoreRow,
    VerdictId,
    VerdictRow,
    join_rows,
    score_rows,
    with_evidence,
    with_expected,
)
from localjudge.run_directory.store_reader import (
    stored_clusters,
    stored_extras,
    stored_sample_at,
    stored_samples,
)
from localjudge.run_directory.summary import (
    SUMMARY,
    MetricSummary,
    Summary,
    Totals,
    allowed_failures,
)
from localjudge.types import JudgeCard, Sample
from localjudge.words import numbered, printable, suggestion, three_digits

_SHOWN = 4
_RESULTS_EACH = 8
_Key = TypeVar("_Key")
_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")
_Row = TypeVar("_Row", ScoreRow, VerdictRow, EvidenceRow, dict[str, Any])
_KEYS = TypeAdapter(dict[str, Any])
"""Reads a row of any version."""


@dataclass(frozen=True, repr=False, eq=False)
class RunRecord(Mapping[str, MetricSummary]):
    """A run: a mapping from metric names to their summaries.

    Scores and verdicts are read on demand. Two runs are equal if directory, summary, manifest and
    the rows so far are equal. `notes` are messages from the evaluation.
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
            raise _no_run(path)
        if not os.path.lexists(path / SUMMARY):
            if not unfinished:
                raise UnfinishedRun(path, f"the run in {path} is not finished")
            so_far = rows_so_far(path)
            if so_far is None:
                raise UnfinishedRun(path, f"the run in {path} has no finished sample yet")
            empty = Totals([], manifest.judge.rule).summary(manifest.signature, manifest.card)
            run = cls(path, empty, manifest, so_far)
            summary = run._sum_up().summary(manifest.signature, manifest.card)
            return replace(run, summary=summary)
        run = cls(path, read_summary(path), manifest)
        if check:
            check_files(path, run.summary, manifest)
        if not all("expected" in each.model_fields_set for each in run.summary.metrics.values()):
            return run._add_expected_means(check=check)
        return run

    def _sum_up(self) -> Totals:
        """Return the totals of all rows. Raises RunDirectoryError if they are of another run."""
        totals = self.totals(self.manifest.judge.metrics)
        try:
            for evaluations in self.iter_evaluations():
                totals.add(evaluations)
        except KeyError as error:
            problem = f"the rows in {self.directory} do not belong to its run"
            raise RunDirectoryError(problem, hint=BY_HAND) from error
        return totals

    def _add_expected_means(self, *, check: bool) -> Self:
        """Return a run of an earlier version with the means of expected scores.

        Without a check, damaged rows leave it without.
        """
        try:
            computed = self._sum_up().metrics
        except RunDirectoryError:
            if check:
                raise
            return self
        metrics: dict[str, MetricSummary] = {}
        for name, summary in self.summary.metrics.items():
            added: dict[str, Any] = {}
            if name in computed and summary.mean is not None:
                added["expected"] = computed[name].expected
                added["expected_ci95"] = computed[name].expected_ci95
            metrics[name] = summary.model_copy(update=added)
        return replace(self, summary=self.summary.model_copy(update={"metrics": metrics}))

    @property
    def judge(self) -> JudgeCard:
        """The judge, with the uses that `doctor` recommends on this machine."""
        return with_examination(self.summary.judge, self.manifest.judge)

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
    def answer_column(self) -> str:
        """The column of the judged answers, or the name of the directory."""
        return self.manifest.environment.mapping.get("response", self.directory.name)

    @property
    def max_failed(self) -> int:
        """Number of samples that may fail before a mean is withheld."""
        return allowed_failures(self.manifest.environment.settings.max_failed, self.summary.samples)

    @property
    def has_evidence(self) -> bool:
        return self.manifest.environment.evidence is not None

    @cached_property
    def has_expected(self) -> bool:
        """Whether the score rows have expected scores. Those of earlier versions lack them."""
        try:
            _, row = next(self.iter_rows(SCORES, _KEYS), (0, {"expected": None}))
        except RunDirectoryError:
            return True  # whoever reads the rows states the problem
        return "expected" in row

    @property
    def origins(self) -> list[Origin]:
        """Sources of answers and labels before the last command."""
        return self.manifest.environment.origins

    def find_metrics(self, given: Sequence[Metric] = ()) -> list[Metric]:
        """Return the metrics of the run, of which some may be given as objects.

        Raises InputError for another one that is not installed.
        """
        by_name = {metric.name: metric for metric in given}
        return [by_name.get(name) or self.manifest.metric(name) for name in self.summary.metrics]

    @property
    def installed_metrics(self) -> dict[str, Metric]:
        """The metrics by name, without those of a package that is not installed."""
        metrics: dict[str, Metric] = {}
        for name in self.summary.metrics:
            with suppress(InputError):
                metrics[name] = self.manifest.metric(name)
        return metrics

    def totals(self, metrics: Iterable[str]) -> Totals:
        """Return empty totals of these metrics, for samples of this run."""
        return Totals(
            metrics,
            self.manifest.judge.rule,
            self.cluster_of,
            self.manifest.rubrics,
            self.sampling,
            self.manifest.environment.settings.max_failed,
        )

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
                mean = three_digits(metric.mean)
            parts.append(f"{printable(name)}={mean}")
        if len(self) > _SHOWN:
            parts.append(f"and {len(self) - _SHOWN} more")
        return f"Run({', '.join(parts)}, judge {printable(str(self.judge))})"

    def iter_scores(self) -> Iterator[ScoreRow]:
        """Yield one row for each sample and metric, in this order."""
        if self.has_expected:
            for _, row in self.iter_rows(SCORES, SCORE_ROWS):
                yield row
        else:
            for evaluations in self.iter_evaluations():
                yield from score_rows(evaluations)

    def iter_verdicts(self) -> Iterator[VerdictRow]:
        """Yield one row for each judged unit, in the order of the scores."""
        for _, row in self.iter_rows(VERDICTS, VERDICT_ROWS):
            yield row

    def verdicts_at(self, keys: Mapping[VerdictId, _Key]) -> dict[_Key, VerdictRow]:
        """Return the verdicts with these ids, by their keys."""
        verdicts: dict[_Key, VerdictRow] = {}
        for row in self.iter_verdicts():
            if row.verdict_id in keys:
                verdicts[keys[row.verdict_id]] = row
        return verdicts

    def iter_evidence(self) -> Iterator[EvidenceRow]:
        """Yield the sentences of evidence, in the order of the verdicts; none for a run without."""
        if not self.has_evidence:
            return iter(())
        return (row for _, row in self.iter_rows(EVIDENCE, EVIDENCE_ROWS))

    def iter_verdicts_with_evidence(self) -> Iterator[VerdictRow]:
        """Yield the rows of `iter_verdicts`, each with its evidence."""
        return with_evidence(self.iter_verdicts(), self.iter_evidence())

    def iter_evaluations(self) -> Iterator[list[Evaluation]]:
        """Yield the evaluations of each sample."""
        scores = (row for _, row in self.iter_rows(SCORES, SCORE_ROWS))
        evaluations = join_rows(scores, self.iter_verdicts())
        if not self.has_expected:
            evaluations = self._compute_expected(evaluations)
        for _, group in groupby(evaluations, key=lambda evaluation: evaluation.sample_id):
            yield list(group)

    def _compute_expected(self, evaluations: Iterable[Evaluation]) -> Iterator[Evaluation]:
        """Yield the evaluations of an earlier version with their expected scores.

        A metric that is not installed keeps its score.
        """
        metrics: dict[str, Metric] = {}
        for name in self.manifest.judge.metrics:
            with suppress(InputError):
                metrics[name] = self.manifest.metric(name)
        rule = self.manifest.judge.rule
        for evaluation in evaluations:
            metric = metrics.get(evaluation.metric)
            if metric is None:
                yield evaluation
                continue
            try:
                yield with_expected(evaluation, metric, rule)
            except (ValueError, ArithmeticError) as error:
                problem = f"the verdicts of {excerpt(evaluation.sample_id)} do not fit its score"
                raise RunDirectoryError(problem, hint=BY_HAND) from error

    def iter_rows(
        self, name: str, kind: TypeAdapter[_Row], start: int = 0
    ) -> Iterator[tuple[int, _Row]]:
        """Yield the rows of a file from a byte offset on, each after its own offset."""
        file = self.directory / name
        if self.so_far is None:
            return placed_rows(file, kind, start)
        return placed_rows(part_path(file), kind, start, self.so_far.sizes.get(name, 0))

    def iter_samples(self) -> Iterator[Sample]:
        """Yield the samples in the order of the data."""
        return stored_samples(self.directory / STORE)

    def sample_at(self, position: int) -> Sample:
        """Return the sample at a position in the order of the data, from 0."""
        return stored_sample_at(self.directory / STORE, position)

    def iter_extras(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the id of each sample with its columns that are not fields."""
        return stored_extras(self.directory / STORE)

    @cached_property
    def cluster_of(self) -> dict[str, str] | None:
        """The group of each sample by id, or None without groups."""
        return stored_clusters(self.directory / STORE)

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


def _no_run(path: Path) -> MissingRun:
    """Return the error for a path without a run, which names two runs in it or others beside it."""
    comparison = ComparisonDirectory.find(path)
    if comparison is not None:
        runs = f"{comparison.run_path} or {comparison.baseline_path}"
        problem = f"{path} has two runs, and this is about one"
        return MissingRun(problem, hint=f"name one of them: {excerpt(runs)}")
    problem = f"{path} contains no run"
    if path.is_file():
        problem = f"{path} is a file, not a run directory"
    beside = {}
    if not path.exists():
        for file in sorted(path.parent.glob(f"*/{MANIFEST}")):
            beside[file.parent.name] = file.parent
    hint = "name the directory of a run, such as runs/before"
    if beside:
        hint = suggestion(
            path.name, beside, "the runs there", show=lambda name: excerpt(beside[name])
        )
    pair = ComparisonDirectory.find(path.parent)
    if pair is not None and path in (pair.baseline_path, pair.run_path):
        problem = f"{problem}, and {COMPARISON} beside it names it"
        hint = "copy the folder back, or repeat the command that made the comparison"
    return MissingRun(problem, hint=hint)


RunLike = RunRecord | str | Path
"""A run, or its directory."""


def as_run(run: RunLike, *, check: bool = True) -> RunRecord:
    if isinstance(run, RunRecord):
        return run
    return RunRecord.open(run, check=check)


def cached_by_run(
    compute: Callable[[RunRecord, *_Arguments], _Result],
) -> Callable[[RunRecord, *_Arguments], _Result]:
    """Remember the last results for each run, by the other arguments, which must be hashable.

    The results are kept while the run is in use, and no longer: unlike with `lru_cache`, a run and
    its temporary folder can be freed.
    """
    results_by_run: WeakKeyDictionary[RunRecord, OrderedDict[tuple[*_Arguments], _Result]] = (
        WeakKeyDictionary()
    )

    @wraps(compute)
    def cached(run: RunRecord, *arguments: *_Arguments) -> _Result:
        results = results_by_run.setdefault(run, OrderedDict())
        if arguments not in results:
            results[arguments] = compute(run, *arguments)
        results.move_to_end(arguments)
        while len(results) > _RESULTS_EACH:
            results.popitem(last=False)
        return results[arguments]

    return cached
