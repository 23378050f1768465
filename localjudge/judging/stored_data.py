"""Plan a run on data, or on the samples of the runs that it reuses.

    one run                  its samples, settings, metrics and judge, unless others are given
    all shards of one run    the same, with the samples of all shards in the order of the data

The settings and the judges are in the manifest of a run.
"""

import heapq
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from localjudge import model_registry
from localjudge.dataset import Dataset, from_samples
from localjudge.dataset.dataset import Shard
from localjudge.errors import InputError, ModelError, RunDirectoryError
from localjudge.judging.metric_choice import (
    add_criteria,
    choose_metrics,
    requested_metrics,
)
from localjudge.judging.plan import Data, Plan, group_samples, plan
from localjudge.judging.settings import (
    DATA_SETTINGS,
    RunSettings,
    checked,
    override,
    settings_with,
)
from localjudge.metrics import Metric
from localjudge.metrics.catalog import get_question
from localjudge.progress import Progress
from localjudge.run_directory.differences import format_differences, other_differences
from localjudge.run_directory.directory import MANIFEST, STORE, decoded_object, excerpt, validated
from localjudge.run_directory.identity import DataIdentity
from localjudge.run_directory.manifest import Manifest
from localjudge.run_directory.measured_judges import Calibration
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.store_reader import parse_json, stored_rows
from localjudge.types import Sample
from localjudge.words import option, option_name

_MAX_NAMES = 10

_StoredSample = tuple[int, Sample, dict[str, Any]]
"""Position in the data, sample, and the columns that are not its fields."""


def plan_run(
    data: Data | None,
    metrics: object,
    settings: RunSettings,
    given: Collection[str],
    progress: Progress,
) -> Plan:
    """Plan a run on data. Without data, or if its files are gone, use the samples of reused runs.

    `given` are the names of the settings that were given for this run. The others are defaults, or
    those of an open judge. Raises the errors of `localjudge.judging.plan.plan`.
    """
    if data is None:
        if not settings.reuse:
            hint = f"name a file, or runs whose samples are used: {option('reuse', 'RUN')}"
            raise InputError("no data were named", hint=hint)
        return _plan_stored(_open_reused(settings), metrics, settings, given)
    files: Any = data
    if isinstance(data, str | Path):
        files = [data]
    runs: list[RunRecord] = []  # the reused ones, if they were made from files that no longer exist
    are_files = isinstance(files, Sequence) and files
    if settings.reuse and are_files and all(_is_lost(file) for file in files):
        runs = _open_reused(settings)
        sources: set[str] = set()
        for run in runs:
            sources |= set(map(_absolute, run.manifest.environment.sources))
        if not sources.issuperset(map(_absolute, files)):
            named = ", ".join(excerpt(str(file)) for file in files)
            read = ", ".join(excerpt(source) for source in sorted(sources))
            raise InputError(
                f"{named} cannot be read: no such file",
                hint=f"the reused samples were read from {read}: omit the data file to score them",
            )
    if not runs:
        return plan(data, metrics, settings, progress)
    return _plan_stored(runs, metrics, settings, given)._replace(files_are_gone=True)


def _open_reused(settings: RunSettings) -> list[RunRecord]:
    return [RunRecord.open(name) for name in settings.reuse]


def _absolute(file: str | Path) -> str:
    return os.path.abspath(os.path.expanduser(file))


def _is_lost(file: object) -> bool:
    """Return whether this is the name of a file that does not exist."""
    if not isinstance(file, str | Path) or str(file) == "-":
        return False
    return not Path(os.path.expanduser(file)).exists()


def _plan_stored(
    runs: Sequence[RunRecord], metrics: object, settings: RunSettings, given: Collection[str]
) -> Plan:
    if len(runs) > 1:
        runs = _sort_shards(runs)
    original = runs[0]
    environment = original.manifest.environment
    names = list(original) if metrics is None else metrics
    requested = requested_metrics(names, settings.criteria, original.manifest.criteria)
    settings = _choose_settings(original, settings, given, requested or ())
    settings = add_criteria(settings, requested)
    dataset = _read_dataset(runs)
    groups: dict[str, str] = {}
    for run in runs:
        groups |= run.cluster_of or {}
    if settings.cluster_by and settings.cluster_by != environment.settings.cluster_by:
        groups = group_samples(dataset, settings.cluster_by)
    selected, left_out = choose_metrics(requested, dataset)
    planned = Plan(
        dataset,
        selected,
        settings,
        whole=original.sampling.whole,
        left_out=left_out,
        cluster_of=groups or None,
        index_levels=environment.index,
        parent=environment.shard_of,
        stored_in=original,
    )
    if len(runs) > 1:
        _require_data(dataset, _whole_data(original), "the shards")
        settings = settings.model_copy(update={"shard": None})
        return planned._replace(settings=settings, parent=None)
    _require_data(dataset, original.manifest.data, str(original.directory))
    if not original.sampling.optional_stopping:
        return planned
    reason = (original.summary.stopped or "").partition(": ")[0]
    if reason:
        reason = f"{reason}: by the scores of the run with the samples"
    return planned._replace(stopped=reason, max_cluster_size=original.sampling.max_cluster_size)


def _choose_settings(
    original: RunRecord, settings: RunSettings, given: Collection[str], metrics: Sequence[Metric]
) -> RunSettings:
    """Return the settings of the original run with the given ones, and without an early stop.

    Raises InputError for given settings about data, and for other groups of a run whose size
    depends on its scores.
    """
    for name in given:
        if name in DATA_SETTINGS and name not in ("cluster_by", "reuse"):
            message = f"{option_name(name)} applies to data"
            why = "the samples stored in the reused runs are used"
            raise InputError(f"{message}, and {why}", hint="name the data file")
    column = settings.cluster_by
    has_other_groups = column not in (None, original.manifest.environment.settings.cluster_by)
    if has_other_groups and original.sampling.optional_stopping:
        problem = f"{original.directory} cannot have other groups"
        hint = f"judge the data again with {option('cluster_by', column)}"
        raise InputError(f"{problem}, because its size depends on its scores", hint=hint)
    calibrations = _choose_calibrations(original, settings, metrics)
    stored = {**_stored_settings(original.manifest), "calibration": calibrations}
    changes = {name: getattr(settings, name) for name in given}
    changes.pop("calibration", None)  # none given leaves those of the original run
    if settings.calibration:
        changes["calibration"] = calibrations
    never_stops = {**dict.fromkeys(settings_with("stops")), "until": ()}
    return _validated(override(stored, changes)).model_copy(update=never_stops)


def _choose_calibrations(
    original: RunRecord, settings: RunSettings, metrics: Sequence[Metric]
) -> tuple[Calibration, ...]:
    """Return the original run's calibrations for these metrics, with the given ones added.

    A given one replaces the original one for its question.
    """
    questions = {get_question(metric.name) for metric in metrics}
    by_question = {}
    for calibration in original.manifest.environment.settings.calibration:
        if calibration.question in questions:
            by_question[calibration.question] = calibration
    for calibration in settings.calibration:
        by_question[calibration.question] = calibration
    return tuple(by_question.values())


def _read_dataset(runs: Sequence[RunRecord]) -> Dataset:
    environment = runs[0].manifest.environment
    dataset = from_samples(
        _samples_in_order(runs),
        sources=environment.sources or ("rows",),
        mapping=environment.mapping,
        skipped=runs[0].summary.skipped_rows,
    )
    return replace(
        dataset, source_sha256=environment.source_sha256, skipped_places=environment.skipped_places
    )


def _samples_in_order(runs: Sequence[RunRecord]) -> Iterator[_StoredSample]:
    """Yield the samples in the order of the data.

    Raises RunDirectoryError for shards with a repeated or missing position.
    """
    if len(runs) == 1:
        yield from _read_samples(runs[0])
        return
    stored = heapq.merge(*map(_read_samples, runs), key=itemgetter(0))
    for expected, (position, sample, columns) in enumerate(stored):
        if position != expected:
            first = min(position, expected)
            problem = f"the shards disagree on the sample at position {first} of the data"
            again = "run the commands of all shards again, which repeats no question"
            raise RunDirectoryError(problem, hint=f"the order of the rows changed: {again}")
        yield position, sample, columns


def _read_samples(run: RunRecord) -> Iterator[_StoredSample]:
    store = run.directory / STORE
    for row in stored_rows(store):
        sample = parse_json(Sample, row.content, store)
        yield row.position, sample, decoded_object(row.extras, store)


def _require_one_run(runs: Sequence[RunRecord]) -> None:
    """Raise InputError unless the runs are shards of one run."""
    first = runs[0]
    for run in runs[1:]:
        changes = other_differences(_shared_values(first), _shared_values(run))
        if not changes:
            continue
        problem = f"{run.directory} and {first.directory} are not shards of one run"
        reuse = "name the data file to reuse answers of different runs"
        raise InputError(
            f"{problem}:{format_differences(changes)}",
            hint=f"{reuse}, or judge a shard again like the others",
        )


def _shared_values(run: RunRecord) -> dict[str, Any]:
    """Return what all shards of a run have in common."""
    environment = run.manifest.environment
    return {
        **run.manifest.judge.as_json,
        "shards": _read_shard(run).of,
        "data": _whole_data(run).as_json,
        "samples_read": environment.samples_read,
        "skipped_rows": run.summary.skipped_rows,
        "order of metrics": list(run.summary.metrics),
        "cluster_by": environment.settings.cluster_by,
        "max_failed": environment.settings.max_failed,
    }


def _sort_shards(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the shards of one run by number. Raises InputError for a missing or repeated one."""
    _require_one_run(runs)
    by_number: dict[int, RunRecord] = {}
    for run in runs:
        shard = _read_shard(run)
        if shard.number in by_number:
            first = by_number[shard.number].directory
            problem = f"shard {shard} appears twice: {first} and {run.directory}"
            raise InputError(problem, hint="omit one of them")
        by_number[shard.number] = run
    count = _read_shard(runs[0]).of
    missing = [f"{number}/{count}" for number in range(1, count + 1) if number not in by_number]
    if missing:
        names = ", ".join(missing[:_MAX_NAMES])
        if len(missing) > _MAX_NAMES:
            names = f"{names} and {len(missing) - _MAX_NAMES} more"
        hint = f"judge it with {option('shard', missing[0])}, or name the data file"
        raise InputError(f"missing shards: {names}", hint=hint)
    return [by_number[number] for number in sorted(by_number)]


def _read_shard(run: RunRecord) -> Shard:
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
    """Raise RunDirectoryError unless the judged samples are the same."""
    count = len(dataset.samples)
    if (count, dataset.fingerprint) != (expected.rows, expected.sha256):
        raise RunDirectoryError(
            f"the {count:,} samples in {where} differ from the {expected.rows:,} that were judged",
            hint="to find the changes: localjudge verify",
        )


def read_run_settings(manifest: Manifest, **changed: Any) -> RunSettings:
    """Return the settings of a run with changes.

    Reads no file and joins no machine that the run names, because it may be foreign. Raises
    RunDirectoryError for invalid or unsupported ones.
    """
    changes = checked(changed)
    values = _stored_settings(manifest)
    for name in changed:
        values[name] = getattr(changes, name)
    return _validated(values)


def _stored_settings(manifest: Manifest) -> dict[str, Any]:
    """Return the settings in a manifest that a new run may take from it."""
    stored = dict(manifest.environment.settings)
    for name in settings_with("typed"):
        stored.pop(name, None)
    values = {name: stored[name] for name in RunSettings.model_fields if name in stored}
    if not manifest.judge.jury:
        values["n_ctx"] = manifest.judge.engine.n_ctx or values.get("n_ctx")
    return values


def _validated(values: Mapping[str, Any]) -> RunSettings:
    return validated(RunSettings, values, f"{MANIFEST}: settings")


def find_judges(run: RunRecord) -> str | list[str]:
    """Return the judge or judges named in the manifest.

    Raises InputError without one, ModelError if a model is gone.
    """
    environment = run.manifest.environment
    if environment.judges:
        if environment.judge in model_registry.registered_juries():
            return str(environment.judge)
        return [_require_present(run, judge) for judge in environment.judges]
    return _require_present(run, environment.judge)


def _require_present(run: RunRecord, judge: str | None) -> str:
    if judge is None:
        message = f"{run.directory} does not name its judge"
        raise InputError(message, hint=f"name it with {option('judge')}")
    file = model_registry.locate(judge)
    if file is not None and file.is_file():
        return judge
    checksum = excerpt((run.summary.judge.sha256 or "unknown")[:12])
    model = f"{Path(judge).stem}, sha256 {checksum}"
    where = "where it was"
    if file is not None:
        where = f"at {file}"
    problem = f"the model of this run ({model}) is no longer {where}"
    raise ModelError(problem, hint=f"give its new path with {option('judge', 'PATH')}")
