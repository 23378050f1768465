"""Plan a run before judging: data, metrics and directory.

data ──> samples ──columns──> metrics        data + judge + settings ──signature──> runs/answers-3f9a1c2e
"""

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import Field
from itertools import islice
from pathlib import Path
from sys import intern
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol

from localjudge.dataset import Dataset, load
from localjudge.dataset.problems import group_name, shown
from localjudge.dataset.samples import Shard
from localjudge.errors import InputError
from localjudge.judging.settings import RunSettings
from localjudge.metrics import Metric, catalog
from localjudge.metrics.catalog import ALL_CHOICES, FIRST_CHOICES, default_metrics
from localjudge.metrics.criterion import Criterion, read_criterion
from localjudge.metrics.documents import DocumentMetric
from localjudge.progress import Progress, Silence
from localjudge.resources import criterion_files
from localjudge.run_directory.manifest import DataIdentity, IndexLevel, JudgeIdentity
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.sampling import Sampling
from localjudge.run_directory.store import canonical_sha256
from localjudge.text.languages import language_warning
from localjudge.text.thinking import thinking_ranges
from localjudge.types import context_texts
from localjudge.words import numbered, option, option_name, printable

RUNS = Path("runs")


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
"""A file or several, rows (mappings, objects or samples), columns, or a table of another package."""

_NOT_IN_NAMES = re.compile(r"[^\w.-]+")
_ENDINGS = re.compile(r"(\.(gz|jsonl|ndjson|json|csv|tsv|parquet))+$", re.IGNORECASE)
_DIGITS = 8
_MOST_NAMES = 10
_READ_FOR_LANGUAGE = 1_000

_log = logging.getLogger(__name__)


class StoppedRun(NamedTuple):
    """Why a run stopped, with `Sampling.max_cluster_size` and all of its data; all None for other runs."""

    max_cluster_size: int | None = None
    reason: str | None = None
    data: DataIdentity | None = None


class Plan(NamedTuple):
    """Data and metrics to judge. `left_out` maps omitted default metrics to missing fields."""

    dataset: Dataset
    metrics: tuple[Metric, ...]
    settings: RunSettings
    whole: int
    left_out: Mapping[str, frozenset[str]] = MappingProxyType({})
    cluster_of: Mapping[str, str] | None = None
    frame_index: Sequence[IndexLevel] = ()
    parent: DataIdentity | None = None
    stopped: StoppedRun = StoppedRun()
    stored_in: RunRecord | None = None
    """A run with the samples, whose judge is the default."""
    column_types: Mapping[str, Any] = MappingProxyType({})

    def stopped_after(
        self, positions: Sequence[int], reason: str, max_cluster_size: int | None
    ) -> "Plan":
        dataset, cluster_of = self.dataset.at(positions), self.cluster_of
        groups = cluster_of and {sample.id: cluster_of[sample.id] for sample in dataset.samples}
        is_whole = len(positions) == len(self.dataset.samples)
        settings = (
            self.settings
            if is_whole
            else self.settings.model_copy(update={"sample": len(positions)})
        )
        stopped_run = StoppedRun(max_cluster_size, reason, self.identity)
        return self._replace(
            dataset=dataset, cluster_of=groups, settings=settings, stopped=stopped_run
        )

    @property
    def identity(self) -> DataIdentity:
        fingerprint, sampling = self.dataset.fingerprint, self.sampling
        return DataIdentity.of(
            fingerprint, sampling.samples, self.cluster_of, sampling.max_cluster_size
        )

    @property
    def sampling(self) -> Sampling:
        return Sampling.of(
            self.settings, len(self.dataset.samples), self.whole, self.stopped.max_cluster_size
        )


def plan(
    data: Data, metrics: object, settings: RunSettings, progress: Progress | None = None
) -> Plan:
    """Read the data and choose the metrics, including criteria from the settings.

    Raises DataError for unusable data, InputError for an unknown metric or missing columns.
    """
    wanted = wanted_metrics(metrics, settings.criteria)
    settings = wanted.in_settings(settings)
    _ = settings.sentences.identity  # refuses an unknown language before anything is read
    types = _column_types(data)
    data, index = _with_index(data)
    whole = dataset = load(
        data,
        mapping=settings.mapping,
        skip_bad_rows=settings.skip_bad_rows,
        context_separator=settings.context_separator,
        rows_path=settings.rows,
        keeps_answer_words=_asks_for_refusals(wanted),
        progress=progress,
    )
    parent = None
    if settings.limit is not None:
        dataset = whole.first(settings.limit)
    elif settings.sample is not None:
        dataset = whole.draw(settings.sample, settings.seed)
    if settings.shard is not None:
        parent = DataIdentity(sha256=dataset.fingerprint, rows=len(dataset.samples))
        dataset = dataset.in_shard(Shard.read(settings.shard))
    chosen, left_out = choose_metrics(wanted, dataset)
    clusters = (
        group_samples(dataset, settings.cluster_by)
        if settings.cluster_by and dataset.samples
        else None
    )
    count = len(whole.samples)
    return Plan(
        dataset,
        chosen,
        settings,
        count,
        left_out,
        clusters,
        index,
        parent=parent,
        column_types=types,
    )


def _asks_for_refusals(wanted: "WantedMetrics") -> bool:
    """Whether a metric asks if a response is a refusal, which a response such as "N/A" may be."""
    metrics = [wanted.get(name) for name in wanted.names or ()]
    return "refusal" in catalog.list_special_tasks(metrics)


class WantedMetrics(NamedTuple):
    """Names of the requested metrics (None for the default), and metric objects by name."""

    names: list[str] | None
    objects: dict[str, Metric]

    def get(self, name: str) -> Metric:
        return self.objects.get(name) or catalog.get(name)

    def in_settings(self, settings: RunSettings) -> RunSettings:
        criteria = tuple(
            metric for metric in self.objects.values() if isinstance(metric, Criterion)
        )
        return settings.model_copy(update={"criteria": criteria})


def wanted_metrics(
    metrics: object,
    criteria: Sequence[Criterion] = (),
    earlier: Mapping[str, Metric] = MappingProxyType({}),
) -> WantedMetrics:
    """Resolve one or several metrics: names, objects, or criteria (also by file or bundled name)."""
    objects: dict[str, Metric] = {}
    for criterion in criteria:
        _add(objects, criterion)
    if metrics is None:
        return WantedMetrics(list(objects) or None, {**earlier, **objects})
    single = isinstance(metrics, str) or hasattr(metrics, "steps")
    names = []
    for entry in metrics if isinstance(metrics, Iterable) and not single else [metrics]:
        is_criterion = isinstance(entry, str) and (
            entry.endswith(".toml") or entry in criterion_files()
        )
        if isinstance(entry, str) and (entry in objects or entry in earlier or not is_criterion):
            names.append(entry)
        else:
            names.append(
                _add(objects, read_criterion(entry) if isinstance(entry, str | Path) else entry),
            )
    names += [criterion.name for criterion in criteria if names]
    return WantedMetrics(list(dict.fromkeys(names)), {**earlier, **objects})


def _add(objects: dict[str, Metric], metric: Any) -> str:
    if flaw := catalog.metric_problem(metric):
        kinds = f"{option_name('metrics')} takes names such as 'faithfulness', or metric and criterion objects"
        hint = "for a complete example: python -m pydoc localjudge.metrics"
        raise InputError(f"{kinds}, got {metric!r:.80}: {flaw}", hint=hint)
    name: str = metric.name
    if (name in catalog.names() or catalog.is_ours(name)) and metric != catalog.get(name):
        kind = "criterion" if isinstance(metric, Criterion) else "metric"
        raise InputError(f"{name!r} is a built-in metric", hint=f"give your {kind} another name")
    if objects.setdefault(name, metric) != metric:
        raise InputError(f"two different metrics are called {name!r}", hint="rename one of them")
    return name


def choose_metrics(
    wanted: WantedMetrics, dataset: Dataset
) -> tuple[tuple[Metric, ...], dict[str, frozenset[str]]]:
    if wanted.names is not None and not wanted.names:
        raise InputError("no metric was named", hint=f"metrics are {', '.join(catalog.names())}")
    left_out: dict[str, frozenset[str]] = {}
    names: Sequence[str] = wanted.names or ()
    if wanted.names is None:
        lacks = {name: _lacking_fields(catalog.example(name), dataset) for name in ALL_CHOICES}
        names = default_metrics([name for name, fields in lacks.items() if not fields])
        left_out = {name: lacks[name] for name in FIRST_CHOICES if lacks[name]}
        if not names:
            why = "".join(f"\n  {line}" for line in _left_out_lines(lacks, dataset))
            raise _lacks("no metric can be computed from these columns", dataset, why)
    metrics = list(map(wanted.get, names))
    _check_compared_meta(metrics, dataset)
    if dataset.table.without_text:  # `document_map(compare_by=id)` replaces `document_map`
        metrics = [catalog.by_id_without_texts(metric) for metric in metrics]
    for metric in metrics:
        if fields := _lacking_fields(metric, dataset):
            needs = f"{metric.name} needs {_listed(metric.required_fields)}, and the data has"
            raise _lacks(f"{needs} {_missing(fields, dataset)}", dataset)
    distinct = {metric.name: metric for metric in metrics}.values()
    return tuple(sorted(distinct, key=lambda metric: catalog.place(metric.name))), left_out


def _check_compared_meta(metrics: Iterable[Metric], dataset: Dataset) -> None:
    """Raise InputError for a metric that compares documents by a key that no meta has: every score would be 0."""
    for metric in metrics:
        if not isinstance(metric, DocumentMetric) or not metric.compare_by.startswith("meta."):
            continue
        field = metric.field_without_values(dataset.samples)
        if field is not None:
            key = metric.compare_by.removeprefix("meta.")
            raise InputError(
                f"{metric.name} compares documents by {key}, and no context of {field} has it in its meta",
                hint="name a key of the meta in compare_by=meta.KEY, or compare by id or content",
            )


def default_directory(planned: Plan, judge: JudgeIdentity) -> Path:
    """Return `runs/<stem of the first source>-<short hash of data and judge>`, with `-shard-2-of-4` for a shard."""
    data, end = planned.identity.as_json, ""
    if planned.parent and planned.settings.shard:
        data = {**planned.parent.as_json, "cluster_by": planned.settings.cluster_by}
        end = "-shard-{}-of-{}".format(*Shard.read(planned.settings.shard))
    return named_directory(planned, [judge.without_updates, data], end)


def named_directory(planned: Plan, parts: Sequence[Any], end: str = "") -> Path:
    """Return `runs/<stem of the first source>-<short hash of the parts>`."""
    stem = data_stem(planned.dataset.sources[0])
    return below_runs(f"{stem}-{canonical_sha256(parts)[:_DIGITS]}{end}")


def data_stem(source: str) -> str:
    """Return the name of a data file without endings, as part of a directory's name."""
    name = _ENDINGS.sub("", Path(source).name)
    return _NOT_IN_NAMES.sub("-", name).strip("-.") or "data"


def below_runs(name: str) -> Path:
    """Return a directory in `runs`. Raises InputError for a link."""
    path = RUNS / name
    if link := next((place for place in (RUNS, path) if place.is_symlink()), None):
        message = (
            f"{link} is a link: the run and its texts would be written to {os.path.realpath(link)}"
        )
        raise InputError(
            message, hint=f"if you want that, name the directory: {option('out', str(path))}"
        )
    return path


def _column_types(data: Any) -> dict[str, Any]:
    package = type(data).__module__.partition(".")[0]
    types = {"pandas": "dtypes", "polars": "schema"}.get(package, "")
    return (
        {str(name): dtype for name, dtype in getattr(data, types, {}).items()}
        if hasattr(data, "columns")
        else {}
    )


def _with_index(data: Any) -> tuple[Data, list[IndexLevel]]:
    index = getattr(data, "index", None)
    if (
        type(data).__module__.partition(".")[0] != "pandas"
        or not hasattr(data, "columns")
        or index is None
    ):
        return data, []
    if list(index.names) == [None] and index.equals(type(index)(range(len(index)))):
        return data, []
    columns, levels = {str(column) for column in data.columns}, []
    for number, name in enumerate(index.names):
        column = (
            str(name) if name is not None else "index" if index.nlevels == 1 else f"level_{number}"
        )
        while column in columns:
            column = f"{column}_index"
        columns.add(column)
        dtype = str(index.get_level_values(number).dtype)
        levels.append(
            IndexLevel(column=column, name=None if name is None else str(name), dtype=dtype)
        )
    return data.reset_index(names=[level.column for level in levels]), levels


def group_samples(dataset: Dataset, column: str) -> dict[str, str]:
    clusters = {}
    for sample, value in zip(dataset.samples, dataset.column(column), strict=True):
        if value is None:
            hint = f"{option_name('cluster_by')} needs a value for every sample"
            raise InputError(
                f"the sample {sample.id!r} has no value in the column {column!r}", hint=hint
            )
        clusters[sample.id] = intern(group_name(value))
    return clusters


def _lacking_fields(metric: Metric, dataset: Dataset) -> frozenset[str]:
    return (metric.required_fields - dataset.fields) | (
        catalog.fields_read_as_text(metric) & dataset.table.without_text
    )


def _lacks(problem: str, dataset: Dataset, why: str = "") -> InputError:
    hint = f"if a column has another name, map it: {option('mapping', {'FIELD': 'COLUMN'})}"
    columns = f"used: {_taken(dataset)}; not used: {_unused(dataset) or 'none'}"
    return InputError(f"{problem} ({columns}){f':{why}' if why else ''}", hint=hint)


class NotedProgress:
    """Forward progress, keep notes for `Run.notes`, and log them if no progress is shown."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress = progress or Silence()
        self.rows, self.elapsed = progress.rows, progress.elapsed
        self.expect, self.recall = progress.expect, progress.recall
        self.phase, self.standing, self.pause = progress.phase, progress.standing, progress.pause
        self.advance, self.close = progress.advance, progress.close
        self.notes: list[str] = []

    def note(self, text: str, level: int = logging.INFO) -> None:
        self.notes.append(text)
        self._progress.note(text)
        if isinstance(self._progress, Silence):
            _log.log(level, printable(text))

    def warn(self, text: str) -> None:
        self.notes.append(text)
        _log.warning(printable(text))


def report_data(planned: Plan, progress: NotedProgress) -> None:
    """Report samples, columns and omitted metrics. Possible errors in numbers are warnings."""
    dataset = planned.dataset
    for remarks in (_data_remarks(planned), _cell_remarks(planned), _response_remarks(planned)):
        if line := "; ".join(remarks):
            progress.note(line)
    if line := "; ".join(_left_out_lines(planned.left_out, dataset)):
        # Where a column is not used, it may be the missing one under another name.
        progress.note(
            line,
            logging.WARNING if _unused(dataset, planned.settings.cluster_by) else logging.INFO,
        )
    if dataset.joined and dataset.table.contexts_each == (1, 1) and len(dataset.samples) > 1:
        separator = option_name("context_separator")
        progress.warn(
            f"every sample has exactly 1 context: to split texts with several contexts, use {separator}",
        )
    if not planned.settings.segmenter:
        warning = language_warning(language_sample(dataset), planned.settings.language)
        if warning:
            progress.warn(warning)


def language_sample(dataset: Dataset) -> list[str]:
    """Return texts of the first samples, from which their language can be recognised."""
    texts: list[str] = []
    for row in islice(dataset.samples, _READ_FOR_LANGUAGE):
        fields = (row.reference, row.response, *context_texts(row.retrieved_contexts)[:1])
        texts.append("\n".join(filter(None, fields)))
    return texts


def nothing_lines(dataset: Dataset) -> Iterator[str]:
    for column, words in dataset.nothing.items():
        verb = "says" if words.total() == 1 else "say"
        cells = f"{numbered(words.total(), 'cell')} of {shown(column)}"
        yield f"{cells} {verb} {', '.join(sorted(words))}: treated as missing"


def _taken(dataset: Dataset) -> str:
    fields = dataset.mapping.items()
    return ", ".join(
        field if field == column else f"{field} (column {column})" for field, column in fields
    )


def _unused(dataset: Dataset, cluster_by: str | None = None) -> str:
    columns = {column for of_source in dataset.unused for column in of_source}
    names = sorted(map(shown, columns - {(cluster_by or "").partition(".")[0]}))
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _left_out_lines(left_out: Mapping[str, frozenset[str]], dataset: Dataset) -> list[str]:
    by_fields: dict[frozenset[str], list[str]] = {}
    for name, fields in left_out.items():
        by_fields.setdefault(fields, []).append(name)
    return [
        f"{_missing(fields, dataset)}, so skipped: {', '.join(names)}"
        for fields, names in by_fields.items()
    ]


def _missing(fields: frozenset[str], dataset: Dataset) -> str:
    parts = {
        "no column for": fields - dataset.table.without_text,
        "no texts of": fields & dataset.table.without_text,
    }
    return " and ".join(f"{what} {_listed(names)}" for what, names in parts.items() if names)


def _listed(fields: Iterable[str]) -> str:
    return ", ".join(sorted(fields))


def _data_remarks(planned: Plan) -> Iterator[str]:
    dataset, samples = planned.dataset, len(planned.dataset.samples)
    if planned.sampling.is_part:
        yield f"part of the data: {planned.sampling}"
    yield f"{numbered(samples, 'sample')} with {_taken(dataset)}"
    if dataset.table.contexts_each:
        fewest, most = dataset.table.contexts_each
        yield f"contexts: {fewest:,}{'' if fewest == most else f' to {most:,}'} per sample"
    if dataset.conversations:
        yield f"{numbered(dataset.conversations, 'conversation')} (the last question and answer are judged)"


def _cell_remarks(planned: Plan) -> Iterator[str]:
    dataset = planned.dataset
    for source in dataset.windows_1252:
        yield f"{source} is not UTF-8 and was read as Windows-1252"
    yield from nothing_lines(dataset)
    if dataset.json_responses:
        column = dataset.mapping.get("response", "response")
        inside = option("mapping", {"response": f"{column}.KEY"})
        count = numbered(dataset.json_responses, "response")
        yield f"{count} in JSON, each judged as one sentence with names and brackets (for a text inside: {inside})"
    if not_used := _unused(dataset, planned.settings.cluster_by):
        yield f"columns not used: {not_used}"
    if dataset.table.without_text:
        compared_by = {
            metric.compare_by for metric in planned.metrics if isinstance(metric, DocumentMetric)
        }
        how = f", documents are compared by {_listed(compared_by)}" if compared_by else ""
        yield f"{_listed(dataset.table.without_text)}: ids without texts{how}"
    elif bare := dataset.table.bare:
        yield f"{bare:,} samples have contexts without texts, so metrics that read texts are undefined for them"
    if dataset.skipped:
        problems = "".join(f"\n  {problem}" for problem in dataset.problems)
        yield f"{numbered(dataset.skipped, 'row')} skipped, problems: {dataset.problem_count:,}{problems}"


def _response_remarks(planned: Plan) -> Iterator[str]:
    """Yield in how many responses thinking is left out, or judged."""
    if not any("response" in metric.required_fields for metric in planned.metrics):
        return
    responses = (sample.response or "" for sample in planned.dataset.samples)
    thinking = sum(bool(thinking_ranges(response)) for response in responses)
    if thinking and planned.settings.keep_thinking:
        yield f"thinking in {numbered(thinking, 'response')} is judged ({option_name('keep_thinking')})"
    elif thinking:
        keep = option("keep_thinking", True)
        yield f"thinking left out of {numbered(thinking, 'response')}; to judge it: {keep}"
