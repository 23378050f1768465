"""Merge the shards of a run into one run, without a judge.

    shard 1/3   positions 0  3  7 ...  ┐
    shard 2/3             1  4  5 ...  ├──> run.sqlite, scores.jsonl, verdicts.jsonl, summary.json, manifest.json
    shard 3/3             2  6  8 ...  ┘

The result files equal the files of one run over all data, byte for byte.
"""

import heapq
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from localjudge.dataset.samples import Shard, fingerprint_of, sample_hash
from localjudge.errors import InputError, RunDirectoryError
from localjudge.progress import Progress, Silence, count_with_progress
from localjudge.record import manifest as manifests
from localjudge.record.archive import stored_keys, stored_rows
from localjudge.record.differences import differences, format_differences
from localjudge.record.directory import STORE, RunDirectory, excerpt
from localjudge.record.files import ResultFiles, Totals, write_manifest
from localjudge.record.manifest import DataIdentity, Manifest
from localjudge.record.result_rows import Evaluation
from localjudge.record.run import Run, as_run, read_manifest
from localjudge.record.store import COPIES, Store, reading
from localjudge.types import Answer, NoAnswer
from localjudge.words import option

_ROWS_AT_ONCE = 500
_SAMPLES_AT_ONCE = 32


def merge_shards(shards: Sequence[Run | str | Path], out: str | Path, progress: Progress | None = None) -> Run:
    """Merge all shards into the directory `out`. Raises the errors of `localjudge.merge`."""
    progress = progress or Silence()
    if not shards:
        raise InputError("no shard was named", hint="name the directories of all shards of a run")
    runs = [as_run(shard) for shard in shards]
    _check_same_run(runs)
    runs = _in_shard_order(runs)
    path = Path(os.path.expanduser(out))
    if any(path.resolve() == run.directory.resolve() for run in runs):
        raise InputError(f"{path} is one of the shards", hint=f"name another directory with {option('out')}")
    groups = _check_data(runs, progress)
    first_run, manifest = runs[0], _merged_manifest(runs, groups)
    with ExitStack() as stack:
        directory = stack.enter_context(closing(RunDirectory(path)))
        if (existing := read_manifest(path)) is not None:
            manifest.refuse_other_run(path, existing)
        write_manifest(directory, manifest.with_environment(**manifests.finished_part(existing)))
        store = stack.enter_context(closing(Store(path / STORE)))
        stack.callback(progress.close)
        for run in runs:
            store.add_samples(stored_rows(run.directory / STORE), groups)
            _copy_answers(run.directory, store, progress)
        results = stack.enter_context(closing(ResultFiles(directory)))
        names, rubrics = list(first_run.summary.metrics), first_run.manifest.rubrics
        totals = Totals(names, first_run.summary, groups, rubrics, max_failed=manifest.environment.settings.max_failed)
        rows = count_with_progress(_merged_rows(runs), progress, "merging", manifest.data.rows)
        while evaluations := list(chain.from_iterable(islice(rows, _SAMPLES_AT_ONCE))):
            totals.add(evaluations)
            results.add(evaluations)
        reused = store.reused_from()
        answers = {"asked": store.answer_count - sum(reused.values()), "reused": reused}
        summary = totals.summary(manifest.signature, first_run.summary.judge, first_run.summary.skipped_rows)
        manifest = results.finish(summary, manifest.with_environment(answers=answers))
    return Run(path, summary, manifest)


def _merged_manifest(runs: Sequence[Run], groups: Mapping[str, str] | None) -> Manifest:
    manifest, whole = runs[0].manifest, _whole_data(runs[0])
    sessions = chain.from_iterable(run.manifest.environment.sessions for run in runs)
    environment = manifest.environment.as_json | {
        "settings": manifest.environment.settings.changed(shard=None),
        "host": manifests.host(),
        "sessions": sorted(sessions, key=lambda session: session.started),
    }
    del environment["shard_of"]
    return Manifest.of(manifest.judge, DataIdentity.of(whole.sha256, whole.rows, groups), environment)


def _in_shard_order(runs: Sequence[Run]) -> list[Run]:
    by_number: dict[int, Run] = {}
    for run in runs:
        shard = _shard_of(run)
        if shard.number in by_number:
            problem = f"shard {shard} appears twice: {by_number[shard.number].directory} and {run.directory}"
            raise InputError(problem, hint="omit one of them")
        by_number[shard.number] = run
    count = _shard_of(runs[0]).of
    missing = [f"{number}/{count}" for number in range(1, min(count, len(runs) + 10) + 1) if number not in by_number]
    if missing:
        hint = f"judge it with {option('shard', missing[0])}"
        raise InputError(f"missing shards: {', '.join(missing)}", hint=hint)
    return [by_number[number] for number in sorted(by_number)]


def _shard_of(run: Run) -> Shard:
    shard = run.manifest.shard
    if shard is None:
        hint = f"a shard is made with {option('shard', '1/4')}"
        raise InputError(f"{run.directory} is not a shard of a run", hint=hint)
    return shard


def _whole_data(shard: Run) -> DataIdentity:
    whole = shard.manifest.environment.shard_of
    assert whole is not None, "a manifest of a shard names it"
    return whole


def _check_same_run(runs: Sequence[Run]) -> None:
    for run in runs[1:]:
        if changes := differences(_shared_values(runs[0]), _shared_values(run)):
            raise InputError(
                f"{run.directory} and {runs[0].directory} are not shards of one run:{format_differences(changes)}",
                hint="judge one of them again, with the judge, data, settings and kind of processor of the other",
            )


def _shared_values(run: Run) -> dict[str, Any]:
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


def _check_data(runs: Sequence[Run], progress: Progress) -> dict[str, str] | None:
    """Return the group of each sample."""
    hashes: list[bytes] = []
    groups: dict[str, str] = {}
    whole = _whole_data(runs[0])
    for run in runs:
        groups |= run.cluster_of or {}
        hashes += map(sample_hash, count_with_progress(run.iter_samples(), progress, "reading", run.summary.samples))
    if (len(hashes), fingerprint_of(sorted(hashes))) != (whole.rows, whole.sha256):
        raise RunDirectoryError(
            f"the shards have {len(hashes):,} samples, which differ from the {whole.rows:,} of the data",
            hint="to find the changed shard: localjudge verify",
        )
    return groups or None


def _copy_answers(directory: Path, into: Store, progress: Progress) -> None:
    path = directory / STORE
    with reading(path) as reader:
        for kind, query, statement in COPIES:
            rows = reader.rows(kind, query)
            while batch := list(islice(rows, _ROWS_AT_ONCE)):
                into.put(statement, batch)
        all_keys = count_with_progress(iter(stored_keys(path)), progress, "copying")
        while keys := list(islice(all_keys, _ROWS_AT_ONCE)):
            answers, copied = reader.answers_by(keys), into.answers_to(keys)
            query = "SELECT key, source FROM reused JOIN request ON id = request WHERE key IN"
            sources = dict(reader.rows_named(tuple[str, str], query, keys))
            by_source: dict[str | None, dict[str, Answer | NoAnswer]] = defaultdict(dict)
            for key in keys:
                if key not in copied:
                    by_source[sources.get(key)][key] = answers[key]
                elif copied[key] != answers[key]:
                    raise RunDirectoryError(
                        f"{directory} has a different answer than another shard (request {excerpt(key)})",
                        hint="to find the changed shard: localjudge verify",
                    )
            for source, of_source in by_source.items():
                into.add_answers(of_source, source)


def _merged_rows(runs: Iterable[Run]) -> Iterator[list[Evaluation]]:
    for expected, (position, evaluations) in enumerate(heapq.merge(*map(_rows_by_position, runs), key=itemgetter(0))):
        if position != expected:
            raise RunDirectoryError(
                f"the shards disagree on the sample at position {min(position, expected)} of the data",
                hint="the order of the rows changed: run the commands of all shards again, which repeats no question",
            )
        yield evaluations


def _rows_by_position(run: Run) -> Iterator[tuple[int, list[Evaluation]]]:
    if not run.in_one_order():
        raise RunDirectoryError(
            f"the rows in {run.directory} are not in the order of its samples",
            hint="repeat the command that made it",
        )
    positions = [row.position for row in stored_rows(run.directory / STORE)]
    return zip(positions, run.iter_evaluations(), strict=True)
