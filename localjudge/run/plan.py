"""Decides what a run is before anything is judged: which data, which metrics, which directory.

    data ──> samples ──columns──> metrics        data + judge + settings ──signature──> runs/answers-3f9a1c2e

The invariant: the same command finds its own directory again, and a directory of anything else is refused.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, cast

from localjudge.analysis.gates import parse_gate, refuse_unknown
from localjudge.dataset import Dataset, from_rows, load
from localjudge.errors import RunDirectoryError, UsageError
from localjudge.metrics import catalog
from localjudge.metrics.catalog import AnyMetric
from localjudge.record.keys import canonical_sha256
from localjudge.record.manifest import Manifest, differences
from localjudge.record.untrusted import shown as cut
from localjudge.run.settings import RunSettings
from localjudge.types import Sample

RUNS = Path("runs")
Files = str | Path | Sequence[str | Path]
Rows = Iterable[Mapping[str, Any] | Sample] | Mapping[str, Sequence[Any]]
Data = Files | Rows
"""A file or several, rows (mappings or samples), or one mapping of columns."""

_NOT_IN_NAMES = re.compile(r"[^\w.-]+")
_ENDINGS = re.compile(r"(\.(gz|jsonl|ndjson|json|csv|tsv|parquet))+$", re.IGNORECASE)
_DIGITS = 8
_DIFFERENCES_SHOWN = 5


class Plan(NamedTuple):
    """Samples, the metrics to compute on them, and, for each sample id, its group (None: each stands alone)."""

    dataset: Dataset
    metrics: tuple[AnyMetric, ...]
    cluster_of: dict[str, str] | None


def plan(data: Data, metric_names: Sequence[str] | None, settings: RunSettings) -> Plan:
    """Read the data and choose the metrics.

    Raises DataError for data that cannot be used, UsageError for a metric that does not exist or lacks its columns, and
    for a gate that is none, or is about a metric that is not computed.
    """
    dataset = _read(data, settings)
    metrics = choose_metrics(metric_names, dataset.fields, settings)
    refuse_unknown([parse_gate(gate) for gate in settings.gates], [metric.name for metric in metrics])
    return Plan(dataset, metrics, _clusters(dataset, settings.cluster_by) if settings.cluster_by else None)


def choose_metrics(
    wanted: Sequence[str] | None, fields: frozenset[str], settings: RunSettings
) -> tuple[AnyMetric, ...]:
    """The wanted metrics; if None, all whose fields are there. In the order of the catalogue, whatever was asked."""
    if isinstance(wanted, str):
        wanted = [wanted]
    if wanted is not None and not wanted:
        raise UsageError("no metric was named", hint=f"metrics are {', '.join(catalog.names())}")
    names = list(_possible_metrics(fields) if wanted is None else wanted)
    if settings.matrix:
        names += catalog.matrix_names()
    metrics = [catalog.get(name, settings.compare_by) for name in dict.fromkeys(names)]
    for metric in metrics:
        if lacking := metric.requires - fields:
            raise UsageError(
                f"{metric.name} needs {_listed(metric.requires)}, and the data has no column for {_listed(lacking)}",
                hint="if a column has another name, say so: --map FIELD=COLUMN",
            )
    order = {name: place for place, name in enumerate(catalog.names())}
    return tuple(sorted(metrics, key=lambda metric: (order.get(metric.name, len(order)), metric.name)))


def default_directory(dataset: Dataset, judge: Mapping[str, Any], data: Mapping[str, Any]) -> Path:
    """`runs/<stem of the first source>-<short hash of inputs, judge and settings>`."""
    name = _ENDINGS.sub("", Path(dataset.sources[0]).name)
    stem = _NOT_IN_NAMES.sub("-", name).strip("-.") or "data"
    return RUNS / f"{stem}-{canonical_sha256([judge, data])[:_DIGITS]}"


def refuse_other_run(directory: Path, there: Manifest, ours: Manifest) -> None:
    """Raise RunDirectoryError, naming what differs, unless the run in the directory is this one."""
    different = differences(there.judge, ours.judge) + differences(there.data, ours.data)
    if not different:
        return
    shown = different[:_DIFFERENCES_SHOWN]
    lines = [f"\n  {cut(change.ingredient)}: {cut(change.before)} there, {cut(change.after)} now" for change in shown]
    more = len(different) - len(lines)
    raise RunDirectoryError(
        f"{directory} belongs to another run ({cut(there.signature)}, this one is {ours.signature}):"
        + "".join(lines)
        + (f"\n  and {more} more" if more else ""),
        hint="name another directory with --out, or leave --out away",
    )


def _read(data: Data, settings: RunSettings) -> Dataset:
    if _are_files(data):
        return load(data, mapping=settings.mapping, skip_bad_rows=settings.skip_bad_rows)
    return from_rows(cast(Rows, data), mapping=settings.mapping, skip_bad_rows=settings.skip_bad_rows)


def _are_files(data: Data) -> TypeGuard[Files]:
    if isinstance(data, str | Path):
        return True
    return isinstance(data, Sequence) and len(data) > 0 and all(isinstance(item, str | Path) for item in data)


def _possible_metrics(fields: frozenset[str]) -> tuple[str, ...]:
    metrics = tuple(map(catalog.get, catalog.default_names()))
    possible = tuple(metric for metric in metrics if metric.requires <= fields)
    if not possible:
        needs = "".join(f"\n  {metric.name} needs {_listed(metric.requires)}" for metric in metrics)
        raise UsageError(
            f"the data's columns ({_listed(fields) or 'none of our fields'}) are enough for no metric:{needs}",
            hint="if a column has another name, say so: --map FIELD=COLUMN",
        )
    return tuple(metric.name for metric in possible)


def _listed(fields: frozenset[str]) -> str:
    return ", ".join(sorted(fields))


def _clusters(dataset: Dataset, column: str) -> dict[str, str]:
    values = dataset.column(column)
    for sample, value in zip(dataset.samples, values, strict=True):
        if value is None:
            raise UsageError(
                f"the sample {sample.id!r} has no value in the column {column!r}",
                hint="--cluster-by needs a value for every sample",
            )
    return {sample.id: str(value) for sample, value in zip(dataset.samples, values, strict=True)}
