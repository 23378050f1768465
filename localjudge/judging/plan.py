"""Plan a run before judging: which samples and which metrics.

data ──> samples ──columns──> metrics
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field
from pathlib import Path
from sys import intern
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol

from localjudge.dataset import Dataset, load
from localjudge.dataset.dataset import Shard
from localjudge.dataset.load import ReadOptions
from localjudge.dataset.rows import group_name
from localjudge.errors import InputError
from localjudge.judging.metric_choice import (
    add_criteria,
    choose_metrics,
    requested_metrics,
)
from localjudge.judging.settings import RunSettings
from localjudge.metrics import Metric, catalog
from localjudge.metrics.criterion import rubrics
from localjudge.progress import Progress
from localjudge.run_directory.directory import canonical_sha256
from localjudge.run_directory.identity import DataIdentity, JudgeIdentity
from localjudge.run_directory.manifest import IndexLevel, Sampling
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.summary import Totals
from localjudge.text.names import clean
from localjudge.words import option, option_name

RUNS = Path("runs")
FIRST_RUN = "run"
"""Each run in a folder of `localjudge start` has this name: run, run-2, ..."""
_NOT_IN_NAMES = re.compile(r"[^\w.-]+")
_ENDINGS = re.compile(r"(\.(gz|jsonl|ndjson|json|csv|tsv|parquet|arrow|feather))+$", re.IGNORECASE)
_DIGITS = 8


class ArrowTable(Protocol):
    """A table of any package by the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> object:
        """Return the table as a stream of Arrow data."""


class LazyTable(Protocol):
    """A table to collect before reading, such as a polars `LazyFrame`."""

    def collect(self) -> Any:
        """Return the table."""


class FieldsOfRows(Protocol):
    """A dataclass that holds rows."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


Data = str | Path | Mapping[str, Any] | Iterable[Any] | ArrowTable | LazyTable | FieldsOfRows
"""A file or several, rows (mappings, objects or samples), columns, or a table of another package.
"""


class Plan(NamedTuple):
    """Data and metrics to judge.

    whole               number of samples in the data; the dataset may have fewer
    left_out            omitted default metrics, with the missing fields
    cluster_of          group of each sample
    index_levels        index of the user's pandas frame
    column_types        types of the columns of the user's frame
    parent              data of all shards, for a shard
    stored_in           a run with the samples, whose judge is the default
    stopped             why the run has no more samples than these, if it ended early
    drawn_from          the data from which these samples were drawn until the run ended
    max_cluster_size    as in `Sampling`, if scores ended the run
    files_are_gone      the samples are those of `stored_in`, because there are no others
    """

    dataset: Dataset
    metrics: tuple[Metric, ...]
    settings: RunSettings
    whole: int
    left_out: Mapping[str, frozenset[str]] = MappingProxyType({})
    cluster_of: Mapping[str, str] | None = None
    index_levels: Sequence[IndexLevel] = ()
    parent: DataIdentity | None = None
    stored_in: RunRecord | None = None
    column_types: Mapping[str, Any] = MappingProxyType({})
    stopped: str | None = None
    drawn_from: DataIdentity | None = None
    max_cluster_size: int | None = None
    files_are_gone: bool = False

    def stopped_after(
        self, positions: Sequence[int], reason: str, max_cluster_size: int | None
    ) -> "Plan":
        """Return the plan with the samples at these positions only."""
        dataset = self.dataset.at(positions)
        groups = self.cluster_of
        if groups:
            groups = {sample.id: groups[sample.id] for sample in dataset.samples}
        settings = self.settings
        if len(positions) < len(self.dataset.samples):
            settings = settings.model_copy(update={"sample": len(positions)})
        return self._replace(
            dataset=dataset,
            cluster_of=groups,
            settings=settings,
            stopped=reason,
            drawn_from=self.identity,
            max_cluster_size=max_cluster_size,
        )

    @property
    def identity(self) -> DataIdentity:
        return DataIdentity.of(
            self.dataset.fingerprint,
            len(self.dataset.samples),
            self.cluster_of,
            self.max_cluster_size,
        )

    @property
    def sampling(self) -> Sampling:
        return Sampling.of(
            self.settings, len(self.dataset.samples), self.whole, self.max_cluster_size
        )

    def totals(self, sampling: Sampling) -> Totals:
        """Return empty totals of the metrics, for samples that are chosen in this way."""
        return Totals(
            [metric.name for metric in self.metrics],
            self.settings.rule_for(self.metrics),
            self.cluster_of,
            rubrics(self.metrics),
            sampling,
            self.settings.max_failed,
        )


def plan(
    data: Data, metrics: object, settings: RunSettings, progress: Progress | None = None
) -> Plan:
    """Read the data and choose the metrics, including criteria from the settings.

    Raises DataError for unusable data, InputError for an unknown metric or missing columns.
    """
    to_read = data_to_read(data, metrics, settings)
    whole = load(to_read.rows, **to_read.options, progress=progress)
    return to_read.plan_samples(whole)


class DataToRead(NamedTuple):
    """How the data of a plan are read.

    options     arguments of `load`
    requested   metrics, or None for those that the columns allow

    `index_levels` and `column_types` are those of the plan.
    """

    rows: Data
    options: ReadOptions
    requested: list[Metric] | None
    settings: RunSettings
    index_levels: Sequence[IndexLevel]
    column_types: Mapping[str, Any]

    def plan_samples(self, whole: Dataset) -> Plan:
        """Return the plan of the data that were read."""
        settings = self.settings
        dataset = whole
        if settings.limit is not None:
            dataset = whole.first(settings.limit)
        elif settings.sample is not None:
            dataset = whole.draw(settings.sample, settings.seed)
        parent = None
        if settings.shard is not None:
            parent = DataIdentity(sha256=dataset.fingerprint, rows=len(dataset.samples))
            dataset = dataset.in_shard(Shard.read(settings.shard))
        chosen, left_out = choose_metrics(self.requested, dataset)
        clusters = None
        if settings.cluster_by and dataset.samples:
            clusters = group_samples(dataset, settings.cluster_by)
        return Plan(
            dataset,
            chosen,
            settings,
            len(whole.samples),
            left_out,
            clusters,
            self.index_levels,
            parent=parent,
            column_types=self.column_types,
        )


def data_to_read(data: Data, metrics: object, settings: RunSettings) -> DataToRead:
    """Return how to read the data of a plan. Raises InputError for an unknown metric."""
    requested = requested_metrics(metrics, settings.criteria)
    settings = add_criteria(settings, requested)
    _ = settings.sentences.identity  # refuses an unknown language before anything is read
    rows, index_levels = _unpack_index(data)
    attribute = {"pandas": "dtypes", "polars": "schema"}.get(_name_package(data), "")
    types = getattr(data, attribute, {})
    column_types = {str(name): dtype for name, dtype in types.items()}
    options: ReadOptions = {
        "mapping": settings.mapping,
        "skip_bad_rows": settings.skip_bad_rows,
        "context_separator": settings.context_separator,
        "rows_path": settings.rows,
        # A response such as "N/A" may be a refusal.
        "keeps_answer_words": "refusal" in catalog.list_special_tasks(requested or ()),
    }
    return DataToRead(rows, options, requested, settings, index_levels, column_types)


def group_samples(dataset: Dataset, column: str) -> dict[str, str]:
    """Return the group of each sample by its id. Raises InputError for a missing value."""
    groups: dict[str, str] = {}
    for sample, value in zip(dataset.samples, dataset.column(column), strict=True):
        if value is None:
            problem = f"the sample {sample.id!r} has no value in the column {column!r}"
            hint = f"{option_name('cluster_by')} needs a value for every sample"
            raise InputError(problem, hint=hint)
        groups[sample.id] = intern(clean(group_name(value)))
    return groups


def _name_package(data: Any) -> str:
    """Return the package of a frame, or "" for other data."""
    if not hasattr(data, "columns"):
        return ""
    return type(data).__module__.partition(".")[0]


def _unpack_index(data: Any) -> tuple[Data, list[IndexLevel]]:
    """Return a pandas frame with its index as columns, and the levels of the index.

    Other data do not change, nor does a frame whose index only numbers the rows.
    """
    index = getattr(data, "index", None)
    if _name_package(data) != "pandas" or index is None:
        return data, []
    if list(index.names) == [None] and index.equals(type(index)(range(len(index)))):
        return data, []
    columns = {str(column) for column in data.columns}
    levels: list[IndexLevel] = []
    for number, name in enumerate(index.names):
        if name is not None:
            column = str(name)
        elif index.nlevels == 1:
            column = "index"
        else:
            column = f"level_{number}"
        while column in columns:
            column = f"{column}_index"
        columns.add(column)
        dtype = str(index.get_level_values(number).dtype)
        level_name = None if name is None else str(name)
        levels.append(IndexLevel(column=column, name=level_name, dtype=dtype))
    return data.reset_index(names=[level.column for level in levels]), levels


def default_directory(planned: Plan, judge: JudgeIdentity) -> Path:
    """Return `runs/<stem of the first source>-<short hash of data and judge>`.

    The name of a shard ends in `-shard-2-of-4`.
    """
    data = planned.identity.as_json
    ending = ""
    if planned.parent and planned.settings.shard:
        data = {**planned.parent.as_json, "cluster_by": planned.settings.cluster_by}
        shard = Shard.read(planned.settings.shard)
        ending = f"-shard-{shard.number}-of-{shard.of}"
    stem = data_stem(planned.dataset.sources[0])
    checksum = canonical_sha256([judge.without_updates, data])
    return below_runs(f"{stem}-{checksum[:_DIGITS]}{ending}")


def pair_directory(baseline: Plan, run: Plan, judge: JudgeIdentity) -> Path:
    """Return `runs/<stem of the first source>-<short hash of both data and judge>`."""
    values = [judge.without_updates, baseline.identity.as_json, run.identity.as_json]
    stem = data_stem(run.dataset.sources[0])
    return below_runs(f"{stem}-{canonical_sha256(values)[:_DIGITS]}")


def data_stem(source: str) -> str:
    """Return the name of a data file without endings, as part of a directory's name."""
    name = _ENDINGS.sub("", Path(source).name)
    return _NOT_IN_NAMES.sub("-", name).strip("-.") or "data"


def below_runs(name: str) -> Path:
    """Return a directory in `runs`. Raises InputError for a link."""
    path = RUNS / name
    for folder in (RUNS, path):
        if folder.is_symlink():
            target = os.path.realpath(folder)
            raise InputError(
                f"{folder} is a link: the run and its texts would be written to {target}",
                hint=f"if you want that, name the directory: {option('out', str(path))}",
            )
    return path
