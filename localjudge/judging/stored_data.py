"""Plan a run on the samples of the runs that it reuses, for which no data file is needed.

one run                  its samples, settings, metrics and judge, unless others are given
all shards of one run    the same, with the samples of all shards in the order of the data
"""

import heapq
import os
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from localjudge.dataset import Dataset, from_samples
from localjudge.dataset.samples import Shard
from localjudge.errors import InputError, RunDirectoryError
from localjudge.judging.plan import (
    Data,
    Plan,
    StoppedRun,
    choose_metrics,
    group_samples,
    plan,
    wanted_metrics,
)
from localjudge.judging.settings import ONE_HALF, RunSettings, settings_of, settings_with
from localjudge.metrics.catalog import get_question
from localjudge.progress import Progress, Silence
from localjudge.run_directory.archive import stored_rows
from localjudge.run_directory.differences import format_differences, other_differences
from localjudge.run_directory.directory import STORE
from localjudge.run_directory.manifest import DataIdentity
from localjudge.run_directory.run_record import RunRecord
from localjudge.types import Sample
from localjudge.words import option, option_name

_StoredSample = tuple[int, Sample, dict[str, Any]]
"""Position in the data, sample, and the columns that are not its fields."""
_MOST_NAMED = 10


def plan_run(
    data: Data | None,
    metrics: object,
    options: Mapping[str, Any],
    settings: RunSettings,
    progress: Progress | None = None,
) -> Plan:
    """Plan a run on data, or on the samples of the reused runs if there are no data or their files are gone.

    `settings` are the checked `options`. Raises the errors of `localjudge.judging.plan.plan`.
    """
    progress = progress or Silence()
    if data is None and not settings.reuse:
        hint = f"name a file, or runs whose samples are used: {option('reuse', 'RUN')}"
        raise InputError("no data were named", hint=hint)
    runs = (
        [RunRecord.open(name) for name in settings.reuse]
        if data is None
        else _runs_of_lost_files(data, settings)
    )
    if not runs:
        assert data is not None
        return plan(data, metrics, settings, progress)
    if data is not None:
        progress.note("the data files are gone, so the samples stored in the reused runs are used")
    return _plan_stored(runs, metrics, options, settings)


def _runs_of_lost_files(data: Data, settings: RunSettings) -> list[RunRecord]:
    """Return the reused runs if they were made from files of these names, and none of the files exists."""
    files = [data] if isinstance(data, str | Path) else data
    if not settings.reuse or not isinstance(files, Sequence):
        return []
    names = []
    for file in files:
        if (
            not isinstance(file, str | Path)
            or str(file) == "-"
            or Path(os.path.expanduser(file)).exists()
        ):
            return []
        names.append(Path(file).name)
    runs = [RunRecord.open(name) for name in settings.reuse]
    sources = {Path(source).name for run in runs for source in run.manifest.environment.sources}
    return runs if names and sources.issuperset(names) else []


def _plan_stored(
    runs: Sequence[RunRecord], metrics: object, options: Mapping[str, Any], chosen: RunSettings
) -> Plan:
    _refuse_data_options(options)
    if len(runs) > 1:
        _require_one_run(runs)
        runs = _in_shard_order(runs)
    original = runs[0]
    manifest, environment = original.manifest, original.manifest.environment
    _refuse_other_groups(original, chosen.cluster_by)
    names = list(original) if metrics is None else metrics
    wanted = wanted_metrics(names, chosen.criteria, manifest.criteria)
    changes = {**options, **_thresholds(original, options, chosen, wanted.names or ())}
    settings = wanted.in_settings(settings_of(manifest, **changes))
    settings = settings.model_copy(update=dict.fromkeys(settings_with("stops")) | {"until": ()})
    dataset = _dataset(runs)
    groups = _stored_groups(runs)
    if settings.cluster_by and settings.cluster_by != environment.settings.cluster_by:
        groups = group_samples(dataset, settings.cluster_by)
    selected, left_out = choose_metrics(wanted, dataset)
    planned = Plan(
        dataset,
        selected,
        settings,
        whole=original.sampling.whole,
        left_out=left_out,
        cluster_of=groups,
        frame_index=original.index,
        parent=environment.shard_of,
        stored_in=original,
    )
    if len(runs) > 1:
        _require_data(dataset, _whole_data(original), "the shards")
        return planned._replace(settings=settings.model_copy(update={"shard": None}), parent=None)
    _require_data(dataset, manifest.data, str(original.directory))
    return planned._replace(stopped=_early_stop(original))


def _refuse_data_options(options: Mapping[str, Any]) -> None:
    allowed = {"cluster_by", "reuse"}
    for name in options:
        if name in settings_with("data") and name not in allowed:
            message = f"{option_name(name)} applies to data, and the samples stored in the reused runs are used"
            raise InputError(message, hint="name the data file")


def _refuse_other_groups(original: RunRecord, cluster_by: str | None) -> None:
    if original.sampling.optional_stopping and cluster_by not in (
        None,
        original.manifest.environment.settings.cluster_by,
    ):
        message = (
            f"{original.directory} cannot have other groups, because its size depends on its scores"
        )
        raise InputError(
            message, hint=f"judge the data again with {option('cluster_by', cluster_by)}"
        )


def _thresholds(
    original: RunRecord, options: Mapping[str, Any], chosen: RunSettings, names: Sequence[str]
) -> dict[str, Any]:
    """Return the calibrations to use, and the threshold beside new ones."""
    if "threshold" in options and not chosen.calibration:
        return {"calibration": ()}
    questions = set(map(get_question, names))
    by_question = {}
    for calibration in original.manifest.environment.settings.calibration:
        if calibration.question in questions:
            by_question[calibration.question] = calibration
    for calibration in chosen.calibration:
        by_question[calibration.question] = calibration
    values: dict[str, Any] = {"calibration": tuple(by_question.values())}
    if chosen.calibration:
        values["threshold"] = ONE_HALF
    return values


def _early_stop(original: RunRecord) -> StoppedRun:
    sampling = original.sampling
    if not sampling.optional_stopping:
        return StoppedRun()
    when = (original.summary.stopped or "").partition(": ")[0]
    return StoppedRun(
        sampling.max_cluster_size, when and f"{when}: by the scores of the run with the samples"
    )


def _dataset(runs: Sequence[RunRecord]) -> Dataset:
    environment = runs[0].manifest.environment
    return from_samples(
        _samples_in_order(runs),
        sources=environment.sources or ("rows",),
        mapping=environment.mapping,
        skipped=runs[0].summary.skipped_rows,
    )


def _samples_in_order(runs: Sequence[RunRecord]) -> Iterator[_StoredSample]:
    if len(runs) == 1:
        yield from _samples(runs[0])
        return
    for expected, sample in enumerate(heapq.merge(*map(_samples, runs), key=itemgetter(0))):
        if sample[0] != expected:
            raise RunDirectoryError(
                f"the shards disagree on the sample at position {min(sample[0], expected)} of the data",
                hint="the order of the rows changed: run the commands of all shards again, which repeats no question",
            )
        yield sample


def _samples(run: RunRecord) -> Iterator[_StoredSample]:
    for row, sample, (_, columns) in zip(
        stored_rows(run.directory / STORE), run.iter_samples(), run.iter_extras(), strict=True
    ):
        yield row.position, sample, columns


def _stored_groups(runs: Sequence[RunRecord]) -> dict[str, str] | None:
    if all(run.cluster_of is None for run in runs):
        return None
    groups: dict[str, str] = {}
    for run in runs:
        groups |= run.cluster_of or {}
    return groups


def _require_one_run(runs: Sequence[RunRecord]) -> None:
    """Raise InputError unless the runs are shards of one run."""
    for run in runs[1:]:
        changes = other_differences(_shared_values(runs[0]), _shared_values(run))
        if changes:
            raise InputError(
                f"{run.directory} and {runs[0].directory} are not shards of one run:{format_differences(changes)}",
                hint="name the data file to reuse answers of different runs, or judge a shard again like the others",
            )


def _shared_values(run: RunRecord) -> dict[str, Any]:
    environment = run.manifest.environment
    return {
        **run.manifest.judge.as_json,
        "shards": _shard_of(run).of,
        "data": _whole_data(run).as_json,
        "samples_read": environment.samples_read,
        "skipped_rows": run.summary.skipped_rows,
        "order of metrics": list(run.summary.metrics),
        "cluster_by": environment.settings.cluster_by,
        "max_failed": environment.settings.max_failed,
    }


def _in_shard_order(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the shards by number. Raises InputError for a missing or repeated one."""
    by_number: dict[int, RunRecord] = {}
    for run in runs:
        shard = _shard_of(run)
        if shard.number in by_number:
            problem = f"shard {shard} appears twice: {by_number[shard.number].directory} and {run.directory}"
            raise InputError(problem, hint="omit one of them")
        by_number[shard.number] = run
    count = _shard_of(runs[0]).of
    missing = [f"{number}/{count}" for number in range(1, count + 1) if number not in by_number]
    if missing:
        more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
        hint = f"judge it with {option('shard', missing[0])}, or name the data file"
        raise InputError(f"missing shards: {', '.join(missing[:_MOST_NAMED])}{more}", hint=hint)
    return [by_number[number] for number in sorted(by_number)]


def _shard_of(run: RunRecord) -> Shard:
    shard = run.manifest.shard
    if shard is None:
        hint = "name the data file to reuse answers of different runs"
        raise InputError(f"{run.directory} is not a shard of a run", hint=hint)
    return shard


def _whole_data(shard: RunRecord) -> DataIdentity:
    whole = shard.manifest.environment.shard_of
    assert whole is not None, "a manifest of a shard names it"
    return whole


def _require_data(dataset: Dataset, expected: DataIdentity, where: str) -> None:
    """Raise RunDirectoryError unless the samples are those that were judged."""
    count = len(dataset.samples)
    if (count, dataset.fingerprint) != (expected.rows, expected.sha256):
        raise RunDirectoryError(
            f"the {count:,} samples in {where} differ from the {expected.rows:,} that were judged",
            hint="to find the changes: localjudge verify",
        )
