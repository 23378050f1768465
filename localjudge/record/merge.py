"""The shards of a run made one run, without a judge: what each asked and was answered, and the rows in one order.

    shard 1/3   positions 0  3  7 ...  ┐
    shard 2/3             1  4  5 ...  ├──> run.sqlite, scores.jsonl, verdicts.jsonl, summary.json, manifest.json
    shard 3/3             2  6  8 ...  ┘

The result files are byte for byte those of one run over all of the data, since no verdict depends on its company and
each shard knows where its samples stand. So that the whole is what it is signed as, the shards have to be all of them,
of one judge, each with the samples that its number gives it, and together the data that each says that it is one of.
Two shards may have asked the same question; an answer is a function of its question, so it has to be the same in both.
"""

import heapq
import os
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter

from localjudge.dataset.samples import Shard, fingerprint_of, sample_hash, shard_number
from localjudge.errors import InputError, RunDirectoryError
from localjudge.progress import Progress, Silence, counted
from localjudge.record import manifest as manifests
from localjudge.record.archive import numbered_requests, reading, stored_extras, stored_ids, stored_rows
from localjudge.record.directory import STORE, RunDirectory, excerpt, placed_rows
from localjudge.record.files import SCORES, VERDICTS, ResultFiles, Totals, write_manifest
from localjudge.record.manifest import Manifest, differences, in_lines, shard_of
from localjudge.record.result_rows import SCORE_ROWS, VERDICT_ROWS, Evaluation, ScoreRow, VerdictRow, evaluations_of
from localjudge.record.run import Run, as_run, read_manifest
from localjudge.record.store import (
    KeyedRequest,
    Store,
    TaskLink,
    canonical_sha256,
    extras_fingerprint,
    rows_named,
    storable,
)
from localjudge.types import Answer, NoAnswer
from localjudge.words import option

_AT_ONCE = 32
_NAMED = 10
_THE_SAME = ("cluster_by", "max_failed")
"""Settings of which a run has one, and that the signature does not name."""
_UNIT = TypeAdapter(tuple[str, str, int, int, int])
_REUSED = TypeAdapter(tuple[int, str])
_Row = TypeVar("_Row", ScoreRow, VerdictRow)


class _ShardRun(NamedTuple):
    shard: Shard
    run: Run


def merge_shards(shards: Sequence[Run | str | Path], out: str | Path, progress: Progress | None = None) -> Run:
    """One run of all shards, in the directory `out`. The shards are not changed.

    Raises InputError if a shard is missing or there twice, or if they are not of one run, RunDirectoryError where one
    cannot be read, contradicts itself or is not finished, or the directory cannot be written or holds another run.
    """
    progress = progress or Silence()
    parts = _in_order([as_run(shard) for shard in shards])
    path = Path(os.path.expanduser(out))
    if any(path.resolve() == part.run.directory.resolve() for part in parts):
        raise InputError(f"{path} is one of the shards", hint=f"name another directory with {option('out')}")
    _check_same_run(parts)
    groups = _check_data(parts, progress)
    first, whole = parts[0].run, shard_of(parts[0].run.manifest)
    data = manifests.data_part(whole.sha256, whole.rows, canonical_sha256(groups) if groups else None)
    judge = first.manifest.judge
    signature = manifests.signature(judge, data)
    manifest = Manifest(signature=signature, judge=judge, data=data, environment=_environment(parts))
    with ExitStack() as stack:
        directory = stack.enter_context(closing(RunDirectory(path)))
        if (there := read_manifest(path)) is not None:
            manifests.refuse_other_run(path, there, manifest)
        write_manifest(directory, manifests.with_environment(manifest, manifests.finished_part(there)))
        store = stack.enter_context(closing(Store(path / STORE)))
        stack.callback(progress.close)
        for part in parts:
            store.add_samples(stored_rows(part.run.directory / STORE), groups)
            _copy_answers(part.run.directory, store, progress)
        results = stack.enter_context(closing(ResultFiles(directory)))
        results.begin()
        totals = Totals(list(first.summary.metrics), first.summary, groups, manifests.kept_rubrics(first.manifest))
        rows = counted(_rows(parts), progress, "merging", whole.rows)
        while some := list(chain.from_iterable(islice(rows, _AT_ONCE))):
            totals.add(some)
            results.add(some, totals.samples, store.answer_count)
        figures = {"samples": totals.samples, "verdicts": totals.verdicts, "metrics": totals.metrics}
        summary = first.summary.model_copy(update={"signature": manifest.signature, **figures})
        reused = store.reused_from()
        done = {
            "answers": {"asked": store.answer_count - sum(reused.values()), "reused": reused},
            "extras_sha256": extras_fingerprint(stored_extras(path / STORE)),
        }
        manifest = results.finish(summary, manifests.with_environment(manifest, done))
    return Run(path, summary, manifest)


def _in_order(runs: Sequence[Run]) -> list[_ShardRun]:
    """The shards by their numbers. Raises InputError unless each is there once."""
    if not runs:
        raise InputError("no shard was named", hint="name the directories of all shards of a run")
    parts: dict[int, _ShardRun] = {}
    count = 0
    for run in runs:
        shard = manifests.shard_in(run.manifest)
        if manifests.combination_of(run.manifest):
            raise InputError(
                f"{run.directory} is a combined run", hint="merge the shards of each judge, then combine those runs"
            )
        if shard is None:
            raise InputError(
                f"{run.directory} is not a shard of a run", hint=f"a shard is made with {option('shard', '1/4')}"
            )
        count = count or shard.of
        if shard.of != count:
            raise InputError(
                f"{runs[0].directory} is one of {count} shards, and {run.directory} one of {shard.of}",
                hint="name the shards of one run",
            )
        if (other := parts.get(shard.number)) is not None:
            raise InputError(
                f"shard {shard} is there twice: {other.run.directory} and {run.directory}", hint="leave one of them out"
            )
        parts[shard.number] = _ShardRun(shard, run)
    missing = [f"{number}/{count}" for number in range(1, min(count, len(runs) + _NAMED) + 1) if number not in parts]
    if missing:
        lacking = count - len(runs)
        more = f" and {lacking - len(missing)} more" if lacking > len(missing) else ""
        raise InputError(
            f"shard {', '.join(missing)}{more} is missing", hint=f"judge it with {option('shard', missing[0])}"
        )
    return [parts[number] for number in sorted(parts)]


def _check_same_run(parts: Sequence[_ShardRun]) -> None:
    """Raise InputError, naming what differs, unless all shards are of one judge, data and settings."""
    first = parts[0].run
    for _, run in parts[1:]:
        if different := differences(first.manifest.judge, run.manifest.judge):
            raise InputError(
                f"{run.directory} was not judged as {first.directory} was:{in_lines(different)}",
                hint="shards of one run have one judge on one kind of processor: judge this one again there",
            )
        if different := differences(_in_common(first), _in_common(run)):
            raise InputError(
                f"{run.directory} and {first.directory} are not of one run:{in_lines(different)}",
                hint="judge one of them again, with the data and the settings of the other",
            )


def _in_common(run: Run) -> dict[str, Any]:
    """What shards of one run have in common besides their judge."""
    settings = run.manifest.environment["settings"]
    return {
        "data": shard_of(run.manifest).model_dump(),
        "samples_read": run.manifest.environment.get("samples_read"),
        "skipped_rows": run.summary.skipped_rows,
        "metrics": list(run.summary.metrics),
        **{name: settings.get(name) for name in _THE_SAME},
    }


def _check_data(parts: Sequence[_ShardRun], progress: Progress) -> dict[str, str] | None:
    """The group of each sample. Raises RunDirectoryError unless the shards come to the data that they are shards of."""
    hashes: list[bytes] = []
    groups: dict[str, str] = {}
    whole = shard_of(parts[0].run.manifest)
    for shard, run in parts:
        if not run.in_one_order():
            raise RunDirectoryError(
                f"the rows in {run.directory} are not in the order of its samples",
                hint="run the command that made it again",
            )
        groups |= run.cluster_of or {}
        for sample in counted(run.iter_samples(), progress, "reading", run.summary.samples):
            if shard_number(sample.id, shard.of) != shard.number:
                belongs = Shard(shard_number(sample.id, shard.of), shard.of)
                raise RunDirectoryError(
                    f"{run.directory} is shard {shard}, and holds {excerpt(sample.id)}, which is of {belongs}",
                    hint="was a file of the run changed by hand?",
                )
            hashes.append(sample_hash(sample))
    if (len(hashes), fingerprint_of(sorted(hashes))) != (whole.rows, whole.sha256):
        raise RunDirectoryError(
            f"the shards come to {len(hashes):,} samples that are not the {whole.rows:,} that they are shards of",
            hint="`localjudge verify` says which of them was changed",
        )
    return groups or None


def _environment(parts: Iterable[_ShardRun]) -> dict[str, Any]:
    """What the manifest says that moves no number: as of the first shard, and of each where and when it was."""
    made = [(part.shard, part.run, part.run.manifest.environment) for part in parts]
    first = made[0][2]
    sessions = chain.from_iterable(environment["sessions"] for _, _, environment in made)
    return {
        **{name: value for name, value in first.items() if name not in ("shard_of", *manifests.WHEN_FINISHED)},
        "settings": {**first["settings"], "shard": None},
        "host": manifests.host(),
        "shards": [
            {"shard": str(shard), "run": str(run.directory), "host": environment.get("host")}
            for shard, run, environment in made
        ],
        "sessions": sorted(sessions, key=lambda session: str(session.get("started"))),
    }


def _copy_answers(directory: Path, into: Store, progress: Progress) -> None:
    """Copy all that the run in the directory asked and was answered.

    Raises RunDirectoryError if its file cannot be read, or if it was answered otherwise than what is there already.
    """
    path = directory / STORE
    ids = counted(stored_ids(path), progress, "copying")
    query = (
        "SELECT sample_id, metric, position, window, unit.request FROM unit "
        "JOIN answer ON answer.request = unit.request WHERE sample_id IN "
    )
    while some := list(map(storable, islice(ids, _AT_ONCE))):
        with reading(path) as reader:
            units = list(rows_named(reader, _UNIT, query, some))
            numbers = list(dict.fromkeys(number for *_, number in units))
            requests = {request.number: request for request in numbered_requests(reader, numbers)}
            reused = "SELECT request, source FROM reused WHERE request IN "
            source_of = dict(rows_named(reader, _REUSED, reused, numbers))
        keyed = {
            key: KeyedRequest(key, tuple(map(canonical_sha256, request.path)), request.shape, request)
            for _, key, request, _ in requests.values()
        }
        into.add_requests(keyed, (TaskLink(*unit[:4], requests[unit[4]].key) for unit in units))
        there = into.answers_to(keyed)
        new: dict[str, dict[str, Answer | NoAnswer]] = defaultdict(dict)
        for request in requests.values():
            if there.get(request.key, request.answer) != request.answer:
                raise RunDirectoryError(
                    f"{directory} was answered otherwise than another run of the same judge "
                    f"(request {excerpt(request.key)})",
                    hint="`localjudge verify` says which of them holds what the judge answers",
                )
            if request.key not in there:
                is_reused = isinstance(request.answer, Answer)
                new[source_of.get(request.number, "") if is_reused else ""][request.key] = request.answer
        for source, answers in new.items():
            into.add_answers(answers, source or None)


def _rows(parts: Sequence[_ShardRun]) -> Iterator[list[Evaluation]]:
    """The evaluations of each sample, in the order of the whole data."""
    positions = (array("q", (row.position for row in stored_rows(part.run.directory / STORE))) for part in parts)
    samples = (evaluations_by_sample(part.run.directory) for part in parts)
    placed = heapq.merge(*(zip(*pair, strict=True) for pair in zip(positions, samples, strict=True)), key=itemgetter(0))
    for expected, (position, evaluations) in enumerate(placed):
        if position != expected:
            raise RunDirectoryError(
                f"the shards do not agree which sample stands at position {min(position, expected)} of the data",
                hint="the rows were in another order: run the commands of all shards again, nothing is asked twice",
            )
        yield evaluations


def evaluations_by_sample(directory: Path) -> Iterator[list[Evaluation]]:
    """The evaluations of each sample, in the order of the rows.

    Some samples are read at a time, and no file is open in between: a process may not hold a thousand files open.
    Raises RunDirectoryError for a row that localjudge does not write, and for a verdict that is of no score.
    """
    place_of_score = place_of_verdict = 0
    while True:
        ids: set[str] = set()

        def is_among_the_first(sample_id: str, ids: set[str] = ids) -> bool:
            if len(ids) < _AT_ONCE:
                ids.add(sample_id)
            return sample_id in ids

        scores, place_of_score = _some(directory / SCORES, SCORE_ROWS, place_of_score, is_among_the_first)
        if not scores:
            return
        verdicts, place_of_verdict = _some(directory / VERDICTS, VERDICT_ROWS, place_of_verdict, ids.__contains__)
        for _, of_sample in groupby(evaluations_of(scores, verdicts), key=lambda evaluation: evaluation.sample_id):
            yield list(of_sample)


def _some(
    path: Path, kind: TypeAdapter[_Row], start: int, is_of_these: Callable[[str], bool]
) -> tuple[list[_Row], int]:
    """The rows from a place on as long as they are of these samples, and the place behind them."""
    rows: list[_Row] = []
    with closing(placed_rows(path, kind, start)) as placed:
        for place, row in placed:
            if not is_of_these(row.sample_id):
                return rows, place
            rows.append(row)
    return rows, path.stat().st_size
