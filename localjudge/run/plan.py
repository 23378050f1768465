"""Decides what a run is before anything is judged: which data, which metrics, which directory.

    data ──> samples ──columns──> metrics        data + judge + settings ──signature──> runs/answers-3f9a1c2e

The invariant: the same command finds its own directory again, and a directory of anything else is refused.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, cast

from localjudge.dataset import Dataset, from_rows, load
from localjudge.errors import RunDirectoryError, UsageError
from localjudge.metrics.catalog import AnyMetric
from localjudge.record.keys import canonical_sha256
from localjudge.record.manifest import Manifest, differences
from localjudge.run.metric_choice import choose_metrics
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
    """Samples, the metrics to compute on them, and, for each sample id, its group (None: each stands alone).

    `left_out` says of each metric that was not computed which fields it lacks; `settings` are those that the data calls
    for: documents of which only ids are known are compared by id.
    """

    dataset: Dataset
    metrics: tuple[AnyMetric, ...]
    left_out: Mapping[str, frozenset[str]]
    cluster_of: dict[str, str] | None
    settings: RunSettings


def plan(data: Data, metric_names: Sequence[str] | None, settings: RunSettings) -> Plan:
    """Read the data and choose the metrics.

    Raises DataError for data that cannot be used, UsageError for a metric that does not exist or lacks its columns.
    """
    dataset = _read(data, settings)
    if dataset.without_text and settings.compare_by == "content":
        settings = settings.model_copy(update={"compare_by": "id"})
    metrics, left_out = choose_metrics(metric_names, dataset, settings)
    clusters = _clusters(dataset, settings.cluster_by) if settings.cluster_by else None
    return Plan(dataset, metrics, left_out, clusters, settings)


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
    lines = [f"\n  {change.ingredient}: {change.before} there, {change.after} now" for change in shown]
    more = len(different) - len(lines)
    raise RunDirectoryError(
        f"{directory} belongs to another run ({there.signature}, this one is {ours.signature}):"
        + "".join(lines)
        + (f"\n  and {more} more" if more else ""),
        hint="name another directory with --out, or leave --out away",
    )


def _read(data: Data, settings: RunSettings) -> Dataset:
    how: dict[str, Any] = {
        "mapping": settings.mapping,
        "skip_bad_rows": settings.skip_bad_rows,
        "context_separator": settings.context_separator,
    }
    return load(data, **how) if _are_files(data) else from_rows(cast(Rows, data), **how)


def _are_files(data: Data) -> TypeGuard[Files]:
    if isinstance(data, str | Path):
        return True
    return isinstance(data, Sequence) and len(data) > 0 and all(isinstance(item, str | Path) for item in data)


def _clusters(dataset: Dataset, column: str) -> dict[str, str]:
    clusters = {}
    for sample, value in zip(dataset.samples, dataset.column(column), strict=True):
        if value is None:
            raise UsageError(
                f"the sample {sample.id!r} has no value in the column {column!r}",
                hint="--cluster-by needs a value for every sample",
            )
        clusters[sample.id] = str(value)
    return clusters
