"""Decides what a run is before anything is judged: which data, which metrics, which directory.

    data ──> samples ──columns──> metrics        data + judge + settings ──signature──> runs/answers-3f9a1c2e

The invariant: the same command finds its own directory again, and a directory of anything else is refused.

What was understood of the data is said once, in its own words (`tell`). Where a column that is not used may be the one
that is missing, or the language is another than the sentences are cut as, it is a warning, which `--quiet` does not
hide: a number is missing or wrong.

    2 samples with user_input (column question), retrieved_contexts (column contexts)
    contexts: 3 to 5 a sample
    columns not used: department, gold_standard
    no column for reference, so left out: context_recall
    gold_standard may be the reference missing for context_recall: --map reference=gold_standard
"""

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from localjudge.dataset import Dataset, from_rows, from_samples, load
from localjudge.dataset.columns import map_option
from localjudge.dataset.part import Shard, drawn, first, in_shard
from localjudge.dataset.problems import shown
from localjudge.errors import InputError
from localjudge.metrics import Metric, catalog
from localjudge.metrics.catalog import ALL_CHOICES, FIRST_CHOICES, default_metrics
from localjudge.metrics.criterion import Criterion, read_criterion
from localjudge.metrics.metric import options_of
from localjudge.progress import Progress, Silence
from localjudge.record.archive import stored_rows
from localjudge.record.directory import STORE
from localjudge.record.manifest import ShardedData, chosen_part, part_of, shard_in, shard_of
from localjudge.record.run import Run
from localjudge.record.store import canonical_sha256
from localjudge.resources import criterion_files
from localjudge.run.settings import RunSettings, settings_with
from localjudge.text.languages import misfit
from localjudge.types import Sample
from localjudge.words import numbered, option_name, printable

RUNS = Path("runs")
Data = object
"""A file or several, rows (mappings, objects or samples), columns, or a table of another package."""

_NOT_IN_NAMES = re.compile(r"[^\w.-]+")
_ENDINGS = re.compile(r"(\.(gz|jsonl|ndjson|json|csv|tsv|parquet))+$", re.IGNORECASE)
_DIGITS = 8
_MOST_NAMES = 10
_MOST_FILES = 2
_READ_FOR_LANGUAGE = 1_000

_log = logging.getLogger(__name__)


class Plan(NamedTuple):
    """What is going to be judged. `whole` counts the samples that were read, of which the dataset may be a part.

    `left_out` has, of each metric of a first picture that the data is not enough for, the fields that it lacks;
    `also_possible` those metrics that it is enough for and that are not computed. Both are empty if metrics were named.
    """

    dataset: Dataset
    metrics: tuple[Metric, ...]
    left_out: Mapping[str, frozenset[str]]
    also_possible: tuple[str, ...]
    cluster_of: Mapping[str, str] | None
    settings: RunSettings
    whole: int
    frame_index: Sequence[Mapping[str, Any]] = ()
    """Of a pandas frame the levels of its index, as the manifest names them."""
    suite: Mapping[str, Any] | None = None
    """What the manifest holds of the suite that the run was described in, if it was."""
    among: ShardedData | None = None
    """Of a shard, what it is one of."""


def plan(data: Data, metrics: object, settings: RunSettings, progress: Progress | None = None) -> Plan:
    """Read the data and choose the metrics: those that are asked for, and the criteria of the settings.

    Raises DataError for data that cannot be used, InputError for a metric that does not exist or lacks its columns.
    """
    wanted = wanted_metrics(metrics, settings.criteria)
    settings = wanted.in_settings(settings)
    _ = settings.sentences.identity  # a language that nobody knows is refused before anything is read
    data, index = _with_index(data)
    whole = dataset = _read(data, settings, progress or Silence())
    among = None
    if settings.limit is not None:
        dataset = first(whole, settings.limit)
    elif settings.sample is not None:
        dataset = drawn(whole, settings.sample, settings.seed)
    if settings.shard is not None:
        among = ShardedData(sha256=dataset.fingerprint, rows=len(dataset.samples))
        dataset = in_shard(dataset, Shard.read(settings.shard))
    choice = _choose(wanted, dataset)
    clusters = _clusters(dataset, settings.cluster_by) if settings.cluster_by and dataset.samples else None
    return Plan(dataset, *choice, clusters, settings, len(whole.samples), index, among=among)


def plan_from_run(run: Run, wanted: "WantedMetrics", settings: RunSettings) -> Plan:
    """The same for the samples that a run stored, with the groups that it gave them.

    Raises InputError for a metric that does not exist or lacks its columns, and for groups by a column that is not
    there.
    """
    settings = wanted.in_settings(settings)
    dataset = _stored_data(run)
    clusters = run.cluster_of
    if settings.cluster_by and settings.cluster_by != run.manifest.environment["settings"].get("cluster_by"):
        clusters = _clusters(dataset, settings.cluster_by)
    choice = _choose(wanted, dataset)
    part = part_of(run.manifest)
    among = shard_of(run.manifest) if shard_in(run.manifest) else None
    index = [level.model_dump() for level in run.index]
    whole = part.whole if part else len(dataset.samples)
    return Plan(dataset, *choice, clusters, settings, whole, index, among=among)


class WantedMetrics(NamedTuple):
    """Names of the metrics that are asked for, None for a first picture; `own` are those that no name finds."""

    names: list[str] | None
    own: dict[str, Metric]

    def in_settings(self, settings: RunSettings) -> RunSettings:
        """The settings with all criteria, so that they are in the manifest word by word."""
        criteria = tuple(metric for metric in self.own.values() if isinstance(metric, Criterion))
        return settings.model_copy(update={"criteria": criteria})


def wanted_metrics(
    metrics: object, criteria: Sequence[Criterion] = (), kept: Mapping[str, Metric] = MappingProxyType({})
) -> WantedMetrics:
    """Metrics by name, metric objects and criteria, or one; a criterion also by its file, or its name if it is bundled.

    The `criteria` are asked for, too; those that are `kept` are found by their names. Raises InputError for what is no
    metric, and for two of one name.
    """
    own: dict[str, Metric] = {}
    for criterion in criteria:
        _add(own, criterion)
    if metrics is None:
        return WantedMetrics(list(own) or None, {**kept, **own})
    single = isinstance(metrics, str) or hasattr(metrics, "steps")
    names = []
    for entry in metrics if isinstance(metrics, Iterable) and not single else [metrics]:
        bundled = isinstance(entry, str) and (entry.endswith(".toml") or entry in criterion_files())
        if isinstance(entry, str) and (entry in own or entry in kept or not bundled):
            names.append(entry)
        else:
            metric = read_criterion(entry) if isinstance(entry, str | Path) else _metric(entry)
            _add(own, metric)
            names.append(metric.name)
    names += [criterion.name for criterion in criteria if names]
    return WantedMetrics(list(dict.fromkeys(names)), {**kept, **own})


def _metric(value: Any) -> Metric:
    lacks = [part for part in ("name", "version", "required_fields", "steps") if not hasattr(value, part)]
    if isinstance(value, type) and not lacks:
        raise InputError(f"{value.__name__} is a class, not a metric", hint=f"make one: {value.__name__}()")
    if lacks:
        some = f": it lacks {', '.join(lacks)}" if hasattr(value, "steps") else ""
        raise InputError(
            f"{option_name('metrics')} takes names such as 'faithfulness', metrics and criteria, got "
            f"{value!r:.80}{some}",
            hint="a complete metric is shown by: python -m pydoc localjudge.metrics",
        )
    metric: Metric = value
    return metric


def _add(own: dict[str, Metric], metric: Metric) -> None:
    name = metric.name
    if (name in catalog.names() or catalog.is_ours(name)) and metric != catalog.get(name):
        kind = "a criterion" if isinstance(metric, Criterion) else "a metric of yours"
        raise InputError(f"{kind} cannot be called {name!r}: that is a metric", hint="give it another name")
    if own.setdefault(name, metric) != metric:
        raise InputError(f"two different metrics are called {name!r}", hint="rename one of them")


def _choose(
    wanted: WantedMetrics, dataset: Dataset
) -> tuple[tuple[Metric, ...], dict[str, frozenset[str]], tuple[str, ...]]:
    """The wanted metrics; if none, those of a first picture, with what a plan says is left out and also possible.

    In the order of the catalogue, whatever was asked. Of documents without texts the ids are compared:
    `document_map(compare_by=id)` takes the place of `document_map`.
    Raises InputError for a metric that does not exist or lacks a field, and where the data is enough for none.
    """
    if wanted.names is not None and not wanted.names:
        raise InputError("no metric was named", hint=f"metrics are {', '.join(catalog.names())}")
    lacks = {name: _lacking_fields(catalog.example(name), dataset) for name in catalog.our_names()}
    possible = [name for name, fields in lacks.items() if not fields]
    names = default_metrics(possible) if wanted.names is None else wanted.names
    if not names:
        raise _enough_for_none({name: lacks[name] for name in ALL_CHOICES}, dataset)
    metrics = [wanted.own.get(name) or catalog.get(name) for name in names]
    if dataset.without_text:
        metrics = [catalog.by_id_without_texts(metric) for metric in metrics]
    metrics = list({metric.name: metric for metric in metrics}.values())
    for metric in metrics:
        if fields := _lacking_fields(metric, dataset):
            raise InputError(
                f"{metric.name} needs {_listed(metric.required_fields)}, and the data has {_missing(fields, dataset)} "
                f"({_columns(dataset)})",
                hint=_what_to_map(fields, dataset),
            )
    metrics.sort(key=lambda metric: catalog.place(metric.name))
    if wanted.names is not None:
        return tuple(metrics), {}, ()
    left_out = {name: lacks[name] for name in FIRST_CHOICES if lacks[name]}
    return tuple(metrics), left_out, tuple(name for name in possible if name not in names)


def default_directory(planned: Plan, judge: Mapping[str, Any], data: Mapping[str, Any]) -> Path:
    """`runs/<stem of the first source>-<short hash of inputs, judge and settings>`.

    Those of the shards of one run differ by their ends alone: `-shard-2-of-4`.
    """
    dataset, end = planned.dataset, ""
    if planned.among and planned.settings.shard:
        data = {**planned.among.model_dump(), "cluster_by": planned.settings.cluster_by}
        end = "-shard-{}-of-{}".format(*Shard.read(planned.settings.shard))
    name = _ENDINGS.sub("", Path(dataset.sources[0]).name)
    stem = _NOT_IN_NAMES.sub("-", name).strip("-.") or "data"
    return RUNS / f"{stem}-{canonical_sha256([judge, data])[:_DIGITS]}{end}"


def _read(data: Any, settings: RunSettings, progress: Progress) -> Dataset:
    many = isinstance(data, Sequence) and len(data) > 0 and all(isinstance(item, str | Path) for item in data)
    how: dict[str, Any] = {
        "mapping": settings.mapping,
        "skip_bad_rows": settings.skip_bad_rows,
        "context_separator": settings.context_separator,
        "rows_path": settings.rows,
        "progress": progress,
    }
    return load(data, **how) if many or isinstance(data, str | Path) else from_rows(data, **how)


def _with_index(data: Any) -> tuple[Data, list[dict[str, Any]]]:
    """A pandas frame whose index says something, with its levels as columns, and what they are; other data as it is."""
    index = getattr(data, "index", None)
    if type(data).__module__.partition(".")[0] != "pandas" or not hasattr(data, "columns") or index is None:
        return data, []
    if list(index.names) == [None] and index.equals(type(index)(range(len(index)))):
        return data, []
    taken, levels = {str(column) for column in data.columns}, []
    for number, name in enumerate(index.names):
        column = str(name) if name is not None else "index" if index.nlevels == 1 else f"level_{number}"
        while column in taken:
            column = f"{column}_index"
        taken.add(column)
        values = index.get_level_values(number)
        levels.append({"column": column, "name": None if name is None else str(name), "dtype": str(values.dtype)})
    return data.reset_index(names=[level["column"] for level in levels]), levels


def _stored_data(run: Run) -> Dataset:
    """The data that a run stored, under the names of files and columns that it had then."""
    environment = run.manifest.environment
    stored = environment.get("mapping")
    mapping = {field: str(column) for field, column in stored.items()} if isinstance(stored, Mapping) else {}
    rows = zip(stored_rows(run.directory / STORE), run.iter_samples(), run.iter_extras(), strict=True)
    return from_samples(
        ((row.position, sample, columns) for row, sample, (_, columns) in rows),
        sources=[str(source) for source in environment.get("sources") or ("rows",)],
        mapping=mapping,
        skipped=run.summary.skipped_rows,
    )


def _clusters(dataset: Dataset, column: str) -> dict[str, str]:
    names: dict[str, str] = {}
    clusters = {}
    for sample, value in zip(dataset.samples, dataset.column(column), strict=True):
        if value is None:
            raise InputError(
                f"the sample {sample.id!r} has no value in the column {column!r}",
                hint=f"{option_name('cluster_by')} needs a value for every sample",
            )
        clusters[sample.id] = names.setdefault(str(value), str(value))
    return clusters


def _lacking_fields(metric: Metric, dataset: Dataset) -> frozenset[str]:
    """The fields that the metric needs and the data does not give, or of which it gives ids alone."""
    return (metric.required_fields - dataset.fields) | (catalog.reads_texts_of(metric) & dataset.without_text)


def _enough_for_none(lacks: dict[str, frozenset[str]], dataset: Dataset) -> InputError:
    why = "".join(f"\n  {line}" for line in _left_out_lines(lacks, dataset))
    return InputError(
        f"the data's columns are enough for no metric ({_columns(dataset)}):{why}",
        hint=_what_to_map(frozenset.union(*lacks.values()), dataset),
    )


def _columns(dataset: Dataset) -> str:
    return f"taken: {_taken(dataset)}; not used: {_unused(dataset) or 'none'}"


def _what_to_map(fields: frozenset[str], dataset: Dataset) -> str:
    guesses = {field: columns for field, columns in dataset.guesses.items() if field in fields}
    if guesses:
        return f"if that is what they hold: {map_option(guesses)}"
    return f"if a column has another name, say so: {map_option({'FIELD': ['COLUMN']})}"


class Noted:
    """Passes on what it is told, keeps the notes for `Run.notes`, and logs them where nothing is shown."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress = progress or Silence()
        self.rows, self.expect, self.recall = progress.rows, progress.expect, progress.recall
        self.phase, self.pause = progress.phase, progress.pause
        self.advance, self.close = progress.advance, progress.close
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Something worth a line of its own."""
        self.notes.append(text)
        self._progress.note(text)
        if isinstance(self._progress, Silence):
            _log.info(printable(text))

    def warn(self, text: str) -> None:
        """Something that has to be said even where nothing is shown."""
        self.notes.append(text)
        _log.warning(printable(text))


def tell(planned: Plan, progress: Noted) -> None:
    """Say in three lines what the data are, what of them is not used, and which metrics are left out or possible."""
    dataset = planned.dataset
    metrics = _left_out_lines(planned.left_out, dataset)
    if planned.also_possible:
        others = ", ".join(planned.also_possible)
        metrics.append(f"also possible with this data: {others} (localjudge run --list-metrics)")
    for remarks in (_data_remarks(planned), _cell_remarks(planned), metrics):
        if line := "; ".join(remarks):
            progress.note(line)
    for field, columns in dataset.guesses.items() if planned.left_out else ():
        names = ", ".join(name for name, fields in planned.left_out.items() if field in fields)
        progress.warn(f"{', '.join(columns)} may be the {field} missing for {names}: {map_option({field: columns})}")
    if dataset.contexts_each == (1, 1) and len(dataset.samples) > 1:
        separator = option_name("context_separator")
        progress.warn(f"every sample has exactly 1 context: if several stand in one text, {separator} splits it")
    if not planned.settings.segmenter:  # the first samples speak for the others
        texts = [_prose(sample) for sample in islice(dataset.samples, _READ_FOR_LANGUAGE)]
        if misread := misfit(texts, planned.settings.language):
            progress.warn(misread)


def _prose(sample: Sample) -> str:
    """What is cut into sentences; of the contexts, which are much alike, the first."""
    contexts = [context.text for context in (sample.retrieved_contexts or ())[:1]]
    return "\n".join(filter(None, (sample.reference, sample.response, *contexts)))


def nothing_lines(dataset: Dataset) -> Iterator[str]:
    """For each column how many of its values say that there is nothing, and how."""
    for column, words in dataset.nothing.items():
        count, whole = words.total(), column.removesuffix("[]")
        what = "cell" if whole == column else "element"
        cells = f"1 {what} of {shown(whole)} says" if count == 1 else f"{count:,} {what}s of {shown(whole)} say"
        yield f"{cells} {', '.join(sorted(words))}: taken as missing"


def _taken(dataset: Dataset) -> str:
    """Our fields, each with the column that is taken for it where its name is another."""
    return ", ".join(
        field if field == column else f"{field} (column {column})" for field, column in dataset.mapping.items()
    )


def _unused(dataset: Dataset, cluster_by: str | None = None) -> str:
    """Columns that hold something and are neither a field nor the column of the groups; "" for none.

    Where the files differ, each group of files with the columns that it alone does not use.
    """
    files: dict[tuple[str, ...], list[str]] = {}
    grouping = (cluster_by or "").partition(".")[0]
    for source, columns in zip(dataset.sources, dataset.unused, strict=True):
        files.setdefault(tuple(sorted(shown(column) for column in columns if column != grouping)), []).append(source)
    if len(files) == 1:
        return _some(next(iter(files)), _MOST_NAMES)
    return "; ".join(
        f"{_some(columns, _MOST_NAMES)} ({_some(sources, _MOST_FILES)})"
        for columns, sources in files.items()
        if columns
    )


def _left_out_lines(left_out: Mapping[str, frozenset[str]], dataset: Dataset) -> list[str]:
    """What is missing, each time with all metrics that miss it."""
    names: dict[frozenset[str], list[str]] = {}
    for name, fields in left_out.items():
        names.setdefault(fields, []).append(name)
    return [f"{_missing(fields, dataset)}, so left out: {', '.join(lacking)}" for fields, lacking in names.items()]


def _missing(fields: frozenset[str], dataset: Dataset) -> str:
    """That these fields are not there: `no column for reference`, or `no texts of ...` where there are ids alone."""
    bare = fields & dataset.without_text
    columns = [f"no column for {_listed(fields - bare)}"] if fields - bare else []
    return " and ".join([*columns, *([f"no texts of {_listed(bare)}"] if bare else [])])


def _listed(fields: Iterable[str]) -> str:
    return ", ".join(sorted(fields))


def _some(names: Collection[str], most: int) -> str:
    """The first names, and how many more there are."""
    first = ", ".join([*names][:most])
    return f"{first} and {len(names) - most} more" if len(names) > most else first


def _data_remarks(planned: Plan) -> Iterator[str]:
    """Which samples there are, and in which columns."""
    dataset, samples = planned.dataset, len(planned.dataset.samples)
    if part := chosen_part(planned.settings.model_dump(include=set(settings_with("part"))), samples, planned.whole):
        yield f"a part of the data: {part}"
    yield f"{numbered(samples, 'sample')} with {_taken(dataset)}"
    if dataset.contexts_each:
        fewest, most = dataset.contexts_each
        yield f"contexts: {fewest:,}{'' if fewest == most else f' to {most:,}'} a sample"
    if talks := dataset.conversations:
        these = "1 is a conversation" if talks == 1 else f"{talks:,} are conversations"
        yield f"{these}, of which the last turn is judged: the last question, and the answer to it"


def _cell_remarks(planned: Plan) -> Iterator[str]:
    """What of the data is missing or not used, a remark for each cause."""
    dataset = planned.dataset
    yield from nothing_lines(dataset)
    if not_used := _unused(dataset, planned.settings.cluster_by):
        yield f"columns not used: {not_used}"
    if dataset.without_text:
        compared_by = {by for metric in planned.metrics if (by := options_of(metric).get("compare_by"))}
        how = f", documents are compared by {_listed(compared_by)}" if compared_by else ""
        yield f"{_listed(dataset.without_text)}: ids and no texts{how}"
    elif bare := dataset.ids_alone:
        yield f"{bare:,} samples have contexts with ids and no texts: what reads texts is undefined for them"
    if dataset.skipped:
        problems = "".join(f"\n  {problem}" for problem in dataset.problems)
        yield f"{dataset.skipped:,} rows left out, problems: {dataset.problem_count:,}{problems}"
