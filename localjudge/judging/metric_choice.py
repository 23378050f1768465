"""Choose the metrics of a run: the requested ones, else all that the columns allow."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from localjudge.dataset import Dataset
from localjudge.dataset.columns import guess_columns
from localjudge.dataset.rows import shown
from localjudge.errors import InputError
from localjudge.judging.settings import RunSettings
from localjudge.metrics import Metric, catalog
from localjudge.metrics.catalog import ALL_CHOICES, FIRST_CHOICES, default_metrics
from localjudge.metrics.criterion import Criterion, read_criterion
from localjudge.metrics.documents import field_without_values, get_compared_value
from localjudge.metrics.metric import BuiltIn, metric_problem
from localjudge.resources import criterion_files
from localjudge.types import FIELDS
from localjudge.words import option, option_name

_MAX_NAMES = 10


def requested_metrics(
    metrics: object,
    criteria: Sequence[Criterion] = (),
    earlier: Mapping[str, Metric] = MappingProxyType({}),
) -> list[Metric] | None:
    """Return the requested metrics, or None for the default ones.

    `metrics` are one or several names, objects or criteria, also by file or bundled name. `earlier`
    are objects of an earlier run, which may be requested by name. Raises InputError.
    """
    names, objects = _resolve(metrics, criteria, earlier)
    if names is None:
        return None
    return [objects.get(name) or catalog.get(name) for name in names]


def requested_names(metrics: object) -> list[str] | None:
    """Return the names of the requested metrics, which may be unknown here.

    None for the default ones. Raises InputError.
    """
    names, _ = _resolve(metrics)
    return names


def _resolve(
    metrics: object,
    criteria: Sequence[Criterion] = (),
    earlier: Mapping[str, Metric] = MappingProxyType({}),
) -> tuple[list[str] | None, dict[str, Metric]]:
    """Return the names of the requested metrics, and metric objects by name."""
    objects: dict[str, Metric] = {}
    for criterion in criteria:
        _add(objects, criterion)
    if metrics is None:
        return list(objects) or None, objects
    names: list[str] = []
    is_single = isinstance(metrics, str) or hasattr(metrics, "steps")
    if isinstance(metrics, Iterable) and not is_single:
        entries = metrics
    else:
        entries = [metrics]
    for entry in entries:
        is_known = isinstance(entry, str) and (entry in objects or entry in earlier)
        if isinstance(entry, str) and (
            is_known or not (entry.endswith(".toml") or entry in criterion_files())
        ):
            names.append(entry)
        elif isinstance(entry, str | Path):
            names.append(_add(objects, read_criterion(entry)))
        else:
            names.append(_add(objects, entry))
    if names:
        names += [criterion.name for criterion in criteria]
    return list(dict.fromkeys(names)), {**earlier, **objects}


def add_criteria(settings: RunSettings, requested: Sequence[Metric] | None) -> RunSettings:
    """Return the settings with the criteria among the requested metrics."""
    criteria = tuple(metric for metric in requested or () if isinstance(metric, Criterion))
    return settings.model_copy(update={"criteria": criteria})


def _add(objects: dict[str, Metric], metric: Any) -> str:
    """Add a metric object and return its name. Raises InputError if it cannot be used."""
    problem = metric_problem(metric)
    if problem:
        takes = f"{option_name('metrics')} takes names such as 'faithfulness'"
        message = f"{takes}, or metric and criterion objects, got {metric!r:.80}: {problem}"
        raise InputError(message, hint="for a complete example: python -m pydoc localjudge.metrics")
    name: str = metric.name
    if (name in catalog.names() or catalog.is_ours(name)) and not _is_built_in(metric):
        kind = "metric"
        if isinstance(metric, Criterion):
            kind = "criterion"
        raise InputError(f"{name!r} is a built-in metric", hint=f"give your {kind} another name")
    if objects.setdefault(name, metric) != metric:
        raise InputError(f"two different metrics are called {name!r}", hint="rename one of them")
    return name


def _is_built_in(metric: Any) -> bool:
    """Return whether a metric is the one of the catalog, with the same code."""
    original = catalog.get(metric.name)
    if metric != original or not isinstance(original, BuiltIn):
        return bool(metric == original)
    return _code_of(metric) == _code_of(original)


def _code_of(metric: BuiltIn) -> list[object]:
    """Return the code of the functions of a built-in metric, which each request makes anew."""
    code: list[object] = []
    for function in (metric.steps, metric.formula):
        if isinstance(function, partial):
            code += [function.func, function.args]
        else:
            code.append(getattr(function, "__code__", function))
    return code


def choose_metrics(
    requested: Sequence[Metric] | None, dataset: Dataset
) -> tuple[tuple[Metric, ...], dict[str, frozenset[str]]]:
    """Return the metrics in the order of the catalog, and the missing fields of omitted defaults.

    Raises InputError for a metric that the data do not allow.
    """
    left_out: dict[str, frozenset[str]] = {}
    if requested is None:
        names, left_out = _choose_default_names(dataset)
        requested = [catalog.get(name) for name in names]
    if not requested:
        raise InputError("no metric was named", hint=f"metrics are {', '.join(catalog.names())}")
    metrics = list(requested)
    _check_compared_meta(metrics, dataset)
    if dataset.table.without_text:  # `document_map(compare_by=id)` replaces `document_map`
        metrics = [catalog.by_id_without_texts(metric) for metric in metrics]
    for metric in metrics:
        missing = _find_missing_fields(metric, dataset)
        if missing:
            needs = f"{metric.name} needs {list_names(metric.required_fields)}"
            has = f"the data has {describe_missing(missing, dataset)}"
            raise _unsuitable(f"{needs}, and {has}", dataset)
    distinct = {metric.name: metric for metric in metrics}
    _check_columns(distinct)
    ordered = sorted(distinct.values(), key=lambda metric: catalog.report_order(metric.name))
    return tuple(ordered), left_out


def _choose_default_names(dataset: Dataset) -> tuple[list[str], dict[str, frozenset[str]]]:
    """Return the default metrics, and the missing fields of others.

    Raises InputError if no metric can be computed.
    """
    missing: dict[str, frozenset[str]] = {}
    computable: list[str] = []
    for name in ALL_CHOICES:
        missing[name] = _find_missing_fields(catalog.example(name), dataset)
        if not missing[name]:
            computable.append(name)
    names = list(default_metrics(computable))
    if not names:
        lines = ["", *describe_skipped(missing, dataset)]
        why = "\n  ".join(lines)
        raise _unsuitable("no metric can be computed from these columns", dataset, why)
    return names, {name: missing[name] for name in FIRST_CHOICES if missing[name]}


def _find_missing_fields(metric: Metric, dataset: Dataset) -> frozenset[str]:
    without_texts = catalog.fields_read_as_text(metric) & dataset.table.without_text
    return (metric.required_fields - dataset.fields) | without_texts


def _check_columns(names: Iterable[str]) -> None:
    """Raise InputError for two metrics, or a metric and a field, with one column in exports."""
    owners: dict[str, str] = dict.fromkeys(("sample_id", *FIELDS), "every export")
    for name in names:
        for column in (name, f"{name}_status", f"{name}_expected"):
            if column in owners:
                problem = f"the metric {name} needs the column {column}, which {owners[column]} has"
                raise InputError(problem, hint="rename the metric")
            owners[column] = name


def _check_compared_meta(metrics: Iterable[Metric], dataset: Dataset) -> None:
    """Raise InputError for a metric that compares documents by a key that no meta has.

    Every score would be 0.
    """
    for metric in metrics:
        compare_by = get_compared_value(metric) or ""
        if not compare_by.startswith("meta."):
            continue
        field = field_without_values(dataset.samples, compare_by)
        if field is None:
            continue
        key = compare_by.removeprefix("meta.")
        compares = f"{metric.name} compares documents by {key}"
        raise InputError(
            f"{compares}, and no context of {field} has it in its meta",
            hint="name a key of the meta in compare_by=meta.KEY, or compare by id or content",
        )


def _unsuitable(problem: str, dataset: Dataset, why: str = "") -> InputError:
    likely = suggest_mapping(dataset) or {"FIELD": "COLUMN"}
    hint = f"if a column has another name, map it: {option('mapping', likely)}"
    unused = list_unused(dataset) or "none"
    message = f"{problem} (used: {list_used(dataset)}; not used: {unused})"
    if why:
        message = f"{message}:{why}"
    return InputError(message, hint=hint)


def list_names(fields: Iterable[str]) -> str:
    return ", ".join(sorted(fields))


def list_used(dataset: Dataset) -> str:
    """Return the fields, with their columns where these have other names."""
    fields: list[str] = []
    for field, column in dataset.mapping.items():
        if column == field:
            fields.append(field)
        else:
            fields.append(f"{field} (column {column})")
    return ", ".join(fields)


def list_unused(dataset: Dataset, cluster_by: str | None = None) -> str:
    """Return the columns that are neither used nor group the samples."""
    columns = _unused_columns(dataset)
    columns.discard((cluster_by or "").partition(".")[0])
    names = sorted(map(shown, columns))
    listed = ", ".join(names[:_MAX_NAMES])
    if len(names) > _MAX_NAMES:
        return f"{listed} and {len(names) - _MAX_NAMES} more"
    return listed


def _unused_columns(dataset: Dataset) -> set[str]:
    columns: set[str] = set()
    for columns_of_source in dataset.unused:
        columns |= set(columns_of_source)
    return columns


def suggest_mapping(dataset: Dataset) -> dict[str, str]:
    """Return unused columns by the missing field that their names suggest.

    Several columns are suggested for contexts only, separated by commas.
    """
    likely: dict[str, str] = {}
    for field, names in guess_columns(sorted(_unused_columns(dataset))).items():
        is_clear = len(names) == 1 or (names and field == "retrieved_contexts")
        if is_clear and field in FIELDS and field not in dataset.mapping:
            likely[field] = ",".join(names)
    return likely


def describe_skipped(missing: Mapping[str, frozenset[str]], dataset: Dataset) -> list[str]:
    """Return a line for each set of missing fields, with the metrics that need it."""
    metrics_by_fields: dict[frozenset[str], list[str]] = {}
    for name, fields in missing.items():
        metrics_by_fields.setdefault(fields, []).append(name)
    lines: list[str] = []
    for fields, names in metrics_by_fields.items():
        lines.append(f"{describe_missing(fields, dataset)}, so skipped: {', '.join(names)}")
    return lines


def describe_missing(fields: frozenset[str], dataset: Dataset) -> str:
    parts: list[str] = []
    without_column = fields - dataset.table.without_text
    without_texts = fields & dataset.table.without_text
    if without_column:
        parts.append(f"no column for {list_names(without_column)}")
    if without_texts:
        parts.append(f"no texts of {list_names(without_texts)}")
    return " and ".join(parts)
