"""The columns of the data, said in the data's own words: what each is taken for, and which are not used.

What was understood of the data, said once before anything is judged, and in the data's own words.

    2 samples with user_input (column question), retrieved_contexts (column contexts)
    contexts: 3 to 5 a sample
    3 cells of answer say NaN, NULL: taken as missing
    columns not used: department, gold_standard
    no column for response, so left out: faithfulness
    no column for reference, so left out: context_recall
    also possible with this data: context_relevancy, matrix_recall, hit_rate@k (localjudge run --list-metrics)
    gold_standard may be the reference missing for context_recall: --map reference=gold_standard

A note goes where progress goes. Where a column that is not used may be the one that is missing, or the language is
another than the sentences are cut as, it is a warning, which `--quiet` does not hide: a number is missing or wrong.

Decides what a run is before anything is judged: which data, which metrics, which directory.

    data ──> samples ──columns──> metrics        data + judge + settings ──signature──> runs/answers-3f9a1c2e

The invariant: the same command finds its own directory again, and a directory of anything else is refused.
"""

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from localjudge.dataset import Dataset, from_rows, from_samples, load
from localjudge.dataset.columns import map_option
from localjudge.dataset.part import Shard, drawn, first, in_shard
from localjudge.dataset.problems import shown
from localjudge.errors import UsageError
from localjudge.metrics import Metric, catalog
from localjudge.metrics.catalog import ALL_CHOICES, FIRST_CHOICES, first_picture
from localjudge.metrics.criterion import Criterion
from localjudge.metrics.metric import options_of
from localjudge.progress import Progress, Silence
from localjudge.record.archive import stored_rows
from localjudge.record.directory import STORE
from localjudge.record.manifest import chosen_part, part_of, shard_in, shard_of
from localjudge.record.run import Run
from localjudge.record.store import canonical_sha256
from localjudge.run.settings import RunSettings, settings_with
from localjudge.text.languages import misfit
from localjudge.types import Sample
from localjudge.words import numbered, option_name, printable

_MOST_NAMES = 10
_MOST_FILES = 2


def another_name() -> str:
    """How to say that a column is a field whose name it does not have."""
    return f"if a column has another name, say so: {map_option({'FIELD': ['COLUMN']})}"


def understood(dataset: Dataset) -> str:
    """Our fields, each with the column that is taken for it where its name is another."""
    return ", ".join(
        field if field == column else f"{field} (column {column})" for field, column in dataset.mapping.items()
    )


def unused(dataset: Dataset, cluster_by: str | None = None) -> str:
    """Columns that hold something and are neither a field nor the column of the groups; "" for none.

    Where the files differ, each group of files with the columns that it alone does not use.
    """
    files: dict[tuple[str, ...], list[str]] = {}
    for source, columns in zip(dataset.sources, dataset.unused, strict=True):
        kept = tuple(sorted(shown(column) for column in columns if column != (cluster_by or "").partition(".")[0]))
        files.setdefault(kept, []).append(source)
    if len(files) == 1:
        return some(next(iter(files)), _MOST_NAMES)
    return "; ".join(
        f"{some(columns, _MOST_NAMES)} ({some(sources, _MOST_FILES)})" for columns, sources in files.items() if columns
    )


def nothing_lines(dataset: Dataset) -> Iterator[str]:
    """For each column how many of its values say that there is nothing, and how."""
    for column, words in dataset.nothing.items():
        count, whole = words.total(), column.removesuffix("[]")
        what = "cell" if whole == column else "element"
        cells = f"1 {what} of {shown(whole)} says" if count == 1 else f"{count:,} {what}s of {shown(whole)} say"
        yield f"{cells} {', '.join(sorted(words))}: taken as missing"


def listed(fields: Iterable[str]) -> str:
    """The fields in the order of the alphabet."""
    return ", ".join(sorted(fields))


def some(names: Collection[str], most: int) -> str:
    """The first names, and how many more there are."""
    first = ", ".join([*names][:most])
    return f"{first} and {len(names) - most} more" if len(names) > most else first


def missing(fields: frozenset[str], dataset: Dataset) -> str:
    """That these fields are not there: `no column for reference`, or `no texts of ...` where there are ids alone."""
    bare = fields & dataset.without_text
    said = [f"no column for {listed(fields - bare)}"] if fields - bare else []
    return " and ".join([*said, *([f"no texts of {listed(bare)}"] if bare else [])])


def left_out_lines(left_out: Mapping[str, frozenset[str]], dataset: Dataset) -> list[str]:
    """What is missing, each time with all metrics that miss it; `left_out` names the fields that each lacks."""
    names: dict[frozenset[str], list[str]] = {}
    for name, fields in left_out.items():
        names.setdefault(fields, []).append(name)
    return [f"{missing(fields, dataset)}, so left out: {', '.join(lacking)}" for fields, lacking in names.items()]


RUNS = Path("runs")
Files = str | Path | Sequence[str | Path]
Data = object
"""A file or several, rows (mappings, objects or samples), columns, or a table of another package: see `tables`."""

_NOT_IN_NAMES = re.compile(r"[^\w.-]+")
_ENDINGS = re.compile(r"(\.(gz|jsonl|ndjson|json|csv|tsv|parquet))+$", re.IGNORECASE)
_DIGITS = 8


class Among(NamedTuple):
    """What a shard is one of: the data's fingerprint and its number of samples."""

    sha256: str
    rows: int

    @property
    def for_manifest(self) -> dict[str, Any]:
        """What the manifest of a shard says of the data that all shards make."""
        return {"sha256": self.sha256, "rows": self.rows}


class Plan(NamedTuple):
    """Samples, the metrics to compute on them, and, for each sample id, its group (None: each stands alone).

    `left_out` says of each metric of the first picture that was not computed which fields it lacks, `also_possible`
    which others the data has the fields for. Both are empty where the metrics were named. `whole` counts the samples
    that were read, of which the dataset may be a part.
    """

    dataset: Dataset
    metrics: tuple[Metric, ...]
    left_out: Mapping[str, frozenset[str]]
    also_possible: tuple[str, ...]
    cluster_of: Mapping[str, str] | None
    settings: RunSettings
    whole: int
    suite: Mapping[str, Any] | None = None
    """What the manifest holds of the suite that the run was described in, if it was."""
    among: Among | None = None
    """Of a shard, where its samples stand, and in what."""


class MetricChoice(NamedTuple):
    """The metrics to compute, of each one that is left out the fields that it lacks, and what else is possible."""

    metrics: tuple[Metric, ...]
    left_out: dict[str, frozenset[str]]
    also_possible: tuple[str, ...]


def plan(
    data: Data, metric_names: Sequence[str] | None, settings: RunSettings, progress: Progress | None = None
) -> Plan:
    """Read the data and choose the metrics: those that are named, and the criteria.

    Raises DataError for data that cannot be used, UsageError for a metric that does not exist or lacks its columns.
    """
    refuse_taken_names(settings.criteria)
    _ = settings.sentences.identity  # a language that nobody knows is refused before anything is read
    whole = _read(data, settings, progress or Silence())
    dataset, among = _part(whole, settings), None
    if settings.shard is not None:
        among = Among(dataset.fingerprint, len(dataset.samples))
        dataset = in_shard(dataset, Shard.read(settings.shard))
    choice = choose_metrics(with_criteria(metric_names, settings.criteria), dataset, settings.criteria)
    clusters = _clusters(dataset, settings.cluster_by) if settings.cluster_by and dataset.samples else None
    return Plan(dataset, *choice, clusters, settings, len(whole.samples), among=among)


def plan_again(run: Run, metric_names: Sequence[str] | None, settings: RunSettings) -> Plan:
    """The same for the samples that a run stored, with the groups that it gave them; its metrics if none is named.

    Raises UsageError for a metric that does not exist or lacks its columns, and for groups by a column that is not
    there.
    """
    dataset = from_run(run)
    clusters = run.cluster_of
    if settings.cluster_by and settings.cluster_by != run.manifest.environment["settings"].get("cluster_by"):
        clusters = _clusters(dataset, settings.cluster_by)
    names = list(run.summary.metrics) if metric_names is None else metric_names
    choice = choose_metrics(names, dataset, settings.criteria)
    part = part_of(run.manifest)
    whole = part.whole if part else len(dataset.samples)
    return Plan(dataset, *choice, clusters, settings, whole, among=_among_again(run))


def _among_again(run: Run) -> Among | None:
    """What the shard was one of; None for a run that is no shard."""
    if shard_in(run.manifest) is None:
        return None
    whole = shard_of(run.manifest)
    return Among(whole.sha256, whole.rows)


def with_criteria(names: Sequence[str] | None, criteria: Sequence[Criterion]) -> Sequence[str] | None:
    """Names of metrics and of these criteria, each once; None if there are neither."""
    listed = list_names(names)
    if not criteria or listed == []:
        return listed
    return list(dict.fromkeys([*(listed or ()), *(criterion.name for criterion in criteria)]))


def list_names(names: object) -> list[str] | None:
    """The names in a list; None for none. Raises UsageError for anything but names: a metric itself, a criterion."""
    if names is None:
        return None
    listed: list[str] = []
    for name in [names] if isinstance(names, str | Criterion) or not isinstance(names, Iterable) else names:
        if not isinstance(name, str):
            own = "a metric of your own by the name of its entry point (docs/python.md)"
            raise UsageError(
                f"{option_name('metrics')} takes names such as 'faithfulness', got {name!r:.80}",
                hint=f"name {own}; a criterion goes to {option_name('criteria')}",
            )
        listed.append(name)
    return listed


def refuse_taken_names(criteria: Sequence[Criterion]) -> None:
    """Raise UsageError for a new criterion that is called like a metric."""
    for criterion in criteria:
        if criterion.name in catalog.names() or catalog.is_ours(criterion.name):
            raise UsageError(
                f"a criterion cannot be called {criterion.name!r}: that is a metric", hint="give it another name"
            )


def choose_metrics(wanted: Sequence[str] | None, dataset: Dataset, criteria: Sequence[Criterion] = ()) -> MetricChoice:
    """The wanted metrics; if None, those of a first picture. In the order of the catalogue, whatever was asked.

    Of documents without texts the ids are compared: `document_map(compare_by=id)` takes the place of `document_map`.
    Raises UsageError for a metric that does not exist or lacks a field, and where the data is enough for none.
    """
    wanted = list_names(wanted)
    if wanted is not None and not wanted:
        raise UsageError("no metric was named", hint=f"metrics are {', '.join(catalog.names())}")
    lacks = {name: _lacking_fields(catalog.example(name), dataset) for name in catalog.our_names()}
    possible = [name for name, fields in lacks.items() if not fields]
    names = first_picture(possible) if wanted is None else wanted
    if not names:
        raise _enough_for_none({name: lacks[name] for name in ALL_CHOICES}, dataset)
    own: dict[str, Metric] = {criterion.name: criterion for criterion in criteria}
    metrics = [own.get(name) or catalog.get(name) for name in names]
    if dataset.without_text:
        metrics = [catalog.by_id_without_texts(metric) for metric in metrics]
    metrics = list({metric.name: metric for metric in metrics}.values())
    for metric in metrics:
        if fields := _lacking_fields(metric, dataset):
            raise _lacking(metric, fields, dataset)
    metrics.sort(key=lambda metric: catalog.place(metric.name))
    if wanted is not None:
        return MetricChoice(tuple(metrics), {}, ())
    left_out = {name: lacks[name] for name in FIRST_CHOICES if lacks[name]}
    return MetricChoice(tuple(metrics), left_out, tuple(name for name in possible if name not in names))


def default_directory(planned: Plan, judge: Mapping[str, Any], data: Mapping[str, Any]) -> Path:
    """`runs/<stem of the first source>-<short hash of inputs, judge and settings>`.

    Those of the shards of one run differ by their ends alone: `-shard-2-of-4`.
    """
    dataset, end = planned.dataset, ""
    if planned.among and planned.settings.shard:
        data = {**planned.among.for_manifest, "cluster_by": planned.settings.cluster_by}
        end = "-shard-{}-of-{}".format(*Shard.read(planned.settings.shard))
    name = _ENDINGS.sub("", Path(dataset.sources[0]).name)
    stem = _NOT_IN_NAMES.sub("-", name).strip("-.") or "data"
    return RUNS / f"{stem}-{canonical_sha256([judge, data])[:_DIGITS]}{end}"


def _read(data: Data, settings: RunSettings, progress: Progress) -> Dataset:
    how: dict[str, Any] = {
        "mapping": settings.mapping,
        "skip_bad_rows": settings.skip_bad_rows,
        "context_separator": settings.context_separator,
        "rows_path": settings.rows,
        "progress": progress,
    }
    return load(data, **how) if _are_files(data) else from_rows(data, **how)


def from_run(run: Run) -> Dataset:
    """The data that a run stored, under the names of files and columns that it had then."""
    environment = run.manifest.environment
    given = environment.get("mapping")
    mapping = {ours: str(column) for ours, column in given.items()} if isinstance(given, Mapping) else {}
    rows = zip(stored_rows(run.directory / STORE), run.iter_samples(), run.iter_extras(), strict=True)
    return from_samples(
        ((row.position, sample, columns) for row, sample, (_, columns) in rows),
        sources=[str(source) for source in environment.get("sources") or ("rows",)],
        mapping=mapping,
        skipped=run.summary.skipped_rows,
    )


def _part(dataset: Dataset, settings: RunSettings) -> Dataset:
    """The samples that are asked for."""
    if settings.limit is not None:
        return first(dataset, settings.limit)
    return dataset if settings.sample is None else drawn(dataset, settings.sample, settings.seed)


def _are_files(data: Data) -> TypeGuard[Files]:
    if isinstance(data, str | Path):
        return True
    return isinstance(data, Sequence) and len(data) > 0 and all(isinstance(item, str | Path) for item in data)


def _clusters(dataset: Dataset, column: str) -> dict[str, str]:
    names: dict[str, str] = {}
    clusters = {}
    for sample, value in zip(dataset.samples, dataset.column(column), strict=True):
        if value is None:
            raise UsageError(
                f"the sample {sample.id!r} has no value in the column {column!r}",
                hint=f"{option_name('cluster_by')} needs a value for every sample",
            )
        clusters[sample.id] = names.setdefault(str(value), str(value))
    return clusters


def _lacking_fields(metric: Metric, dataset: Dataset) -> frozenset[str]:
    """The fields that the metric needs and the data does not give, or of which it gives ids alone."""
    return (metric.required_fields - dataset.fields) | (catalog.reads_texts_of(metric) & dataset.without_text)


def _lacking(metric: Metric, fields: frozenset[str], dataset: Dataset) -> UsageError:
    return UsageError(
        f"{metric.name} needs {listed(metric.required_fields)}, and the data has {missing(fields, dataset)} "
        f"({_columns(dataset)})",
        hint=_what_to_map(fields, dataset),
    )


def _enough_for_none(lacks: dict[str, frozenset[str]], dataset: Dataset) -> UsageError:
    why = "".join(f"\n  {line}" for line in left_out_lines(lacks, dataset))
    return UsageError(
        f"the data's columns are enough for no metric ({_columns(dataset)}):{why}",
        hint=_what_to_map(frozenset.union(*lacks.values()), dataset),
    )


def _columns(dataset: Dataset) -> str:
    return f"taken: {understood(dataset)}; not used: {unused(dataset) or 'none'}"


def _what_to_map(fields: frozenset[str], dataset: Dataset) -> str:
    guessed = {field: columns for field, columns in dataset.guesses.items() if field in fields}
    return f"if that is what they hold: {map_option(guessed)}" if guessed else another_name()


_READ_FOR_LANGUAGE = 1_000


_log = logging.getLogger(__name__)


class Noted:
    """Passes on what it is told, keeps the notes for `Run.notes`, and logs them where nothing is shown."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress = progress or Silence()
        self.rows, self.expect, self.recall, self.phase = (
            progress.rows,
            progress.expect,
            progress.recall,
            progress.phase,
        )
        self.pause, self.advance, self.close = progress.pause, progress.advance, progress.close
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
    """Say which column is taken for which field, and what is left out for want of which."""
    for note in (*_notes(planned), *left_out_lines(planned.left_out, planned.dataset)):
        progress.note(note)
    if planned.also_possible:
        others = ", ".join(planned.also_possible)
        progress.note(f"also possible with this data: {others} (localjudge run --list-metrics)")
    for field, columns in planned.dataset.guesses.items() if planned.left_out else ():
        names = ", ".join(name for name, fields in planned.left_out.items() if field in fields)
        progress.warn(f"{', '.join(columns)} may be the {field} missing for {names}: {map_option({field: columns})}")
    if planned.dataset.contexts_each == (1, 1) and len(planned.dataset.samples) > 1:
        separator = option_name("context_separator")
        progress.warn(f"every sample has exactly 1 context: if several stand in one text, {separator} splits it")
    if misread := language_note(planned.dataset.samples, planned.settings):
        progress.warn(misread)


def language_note(samples: Iterable[Sample], settings: RunSettings) -> str | None:
    """One line if the data looks to be in another language than its sentences are cut as, and what to do.

    None also where a spaCy pipeline cuts in place of our rules. The first samples speak for the others.
    """
    if settings.segmenter:
        return None
    return misfit([_prose(sample) for sample in islice(samples, _READ_FOR_LANGUAGE)], settings.language)


def _prose(sample: Sample) -> str:
    """What is cut into sentences; of the contexts, which are much alike, the first."""
    contexts = [context.text for context in (sample.retrieved_contexts or ())[:1]]
    return "\n".join(filter(None, (sample.reference, sample.response, *contexts)))


def _contexts_each(dataset: Dataset) -> Iterator[str]:
    if dataset.contexts_each:
        fewest, most = dataset.contexts_each
        yield f"contexts: {fewest:,}{'' if fewest == most else f' to {most:,}'} a sample"


def _notes(planned: Plan) -> Iterator[str]:
    dataset = planned.dataset
    samples, settings = len(dataset.samples), planned.settings
    if part := chosen_part(settings.model_dump(include=set(settings_with("part"))), samples, planned.whole):
        yield f"a part of the data: {part}"
    yield f"{numbered(samples, 'sample')} with {understood(dataset)}"
    if talks := dataset.conversations:
        these = "1 is a conversation" if talks == 1 else f"{talks:,} are conversations"
        yield f"{these}, of which the last turn is judged: the last question, and the answer to it"
    yield from _contexts_each(dataset)
    yield from nothing_lines(dataset)
    if not_used := unused(dataset, settings.cluster_by):
        yield f"columns not used: {not_used}"
    if dataset.without_text:
        compared_by = {by for metric in planned.metrics if (by := options_of(metric).get("compare_by"))}
        how = f"; documents are compared by {listed(compared_by)}" if compared_by else ""
        yield f"{listed(dataset.without_text)}: ids and no texts{how}"
    elif bare := dataset.ids_alone:
        yield f"{bare:,} samples have contexts with ids and no texts: what reads texts is undefined for them"
    if dataset.skipped:
        yield f"{dataset.skipped:,} rows left out, problems: {dataset.problem_count:,}"
        yield from (f"  {problem}" for problem in dataset.problems)
