"""What a run asked and was answered, copied into the store of another run of the same judge.

    samples, some at a time ──> their units ──> the requests of these ──> answers, and where those are from

Two runs may have asked the same question. An answer is a function of its question, so it has to be the same in both.

The shards of a run made one run, without a judge: what each asked and was answered, and the rows in one order.

    shard 1/3   positions 0  3  7 ...  ┐
    shard 2/3             1  4  5 ...  ├──> run.sqlite, scores.jsonl, verdicts.jsonl, summary.json, manifest.json
    shard 3/3             2  6  8 ...  ┘

The result files are byte for byte those of one run over all of the data, since no verdict hangs on its company and
each shard knows where its samples stand. So that the whole is what it is signed as, the shards have to be all of them,
of one judge, each with the samples that its number gives it, and together the data that each says that it is one of.

Of the data are held the hashes, the positions and the groups.

The rows of a finished run sample by sample, for whoever reads many runs side by side.

Some samples are read at a time, and no file is open between: of a thousand runs that are read at once, a process may
not hold a thousand files open.
"""

import heapq
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter

from localjudge.dataset.identity import fingerprint_of, sample_hash
from localjudge.dataset.part import Shard, shard_number
from localjudge.errors import RunDirectoryError, UsageError
from localjudge.progress import Progress, Silence, counted
from localjudge.record import manifest as manifests
from localjudge.record.archive import (
    StoredRequest,
    numbered_requests,
    reading,
    stored_extras,
    stored_ids,
    stored_rows,
)
from localjudge.record.directory import STORE, RunDirectory, excerpt, placed_rows
from localjudge.record.files import SCORES, VERDICTS, ResultFiles, Summary, Totals, write_manifest
from localjudge.record.manifest import (
    WHEN_FINISHED,
    Manifest,
    differences,
    finished_part,
    in_lines,
    kept_rubrics,
    refuse_other_run,
    shard_in,
    shard_of,
    with_environment,
)
from localjudge.record.result_rows import SCORE_ROWS, VERDICT_ROWS, Evaluation, ScoreRow, VerdictRow, evaluations_of
from localjudge.record.run import Run, as_run, read_manifest
from localjudge.record.store import (
    Asking,
    KeyedRequest,
    Store,
    canonical_sha256,
    extras_fingerprint,
    rows_named,
    storable,
)
from localjudge.types import Answer, NoAnswer
from localjudge.words import option

_SAMPLES_AT_ONCE = 32
_UNIT = TypeAdapter(tuple[str, str, int, int, int])
_REUSED = TypeAdapter(tuple[int, str])


class _Part(NamedTuple):
    """The requests of some samples, who asked them, and of those that another run answered, which."""

    requests: list[StoredRequest]
    askings: list[Asking]
    source_of: Mapping[int, str]


def copy_answers(directory: Path, into: Store, progress: Progress) -> None:
    """Copy all that the run in the directory asked and was answered.

    Raises RunDirectoryError if its file cannot be read, or if it was answered otherwise than what is there already.
    """
    ids = counted(stored_ids(directory / STORE), progress, "copying")
    while some := list(islice(ids, _SAMPLES_AT_ONCE)):
        _add(_asked_about(directory / STORE, some), into, directory)


def _asked_about(path: Path, sample_ids: Sequence[str]) -> _Part:
    with reading(path) as reader:
        query = (
            "SELECT sample_id, metric, position, window, unit.request FROM unit "
            "JOIN answer ON answer.request = unit.request WHERE sample_id IN "
        )
        units = list(rows_named(reader, _UNIT, query, map(storable, sample_ids)))
        numbers = list(dict.fromkeys(number for *_, number in units))
        requests = numbered_requests(reader, numbers)
        source_of = dict(rows_named(reader, _REUSED, "SELECT request, source FROM reused WHERE request IN ", numbers))
    keys = {one.number: one.key for one in requests}
    askings = [
        Asking(sample_id, metric, position, window, keys[number])
        for sample_id, metric, position, window, number in units
    ]
    return _Part(requests, askings, source_of)


def _add(part: _Part, into: Store, directory: Path) -> None:
    answered = {one.key: one.answer for one in part.requests}
    into.add_requests({one.key: _keyed(one) for one in part.requests}, part.askings)
    there = into.answers_to(answered)
    for key, answer in there.items():
        if answer != answered[key]:
            raise RunDirectoryError(
                f"{directory} was answered otherwise than another run of the same judge (request {excerpt(key)})",
                hint="`localjudge verify` says which of them holds what the judge answers",
            )
    of_source: dict[str, dict[str, Answer | NoAnswer]] = defaultdict(dict)
    for one in part.requests:
        if one.key not in there:
            of_source[part.source_of.get(one.number, "")][one.key] = one.answer
    for source, answers in of_source.items():
        reused = dict(_given(answers))
        if source and len(reused) == len(answers):
            into.add_reused(reused, source)
        else:
            into.add_answers(answers)


def _given(answers: Mapping[str, Answer | NoAnswer]) -> Iterator[tuple[str, Answer]]:
    return ((key, answer) for key, answer in answers.items() if isinstance(answer, Answer))


def _keyed(one: StoredRequest) -> KeyedRequest:
    node_keys = tuple(canonical_sha256(node) for node in one.request.path)
    return KeyedRequest(one.key, node_keys, one.request.shape, one.request)


_SAMPLE_ROWS_SAMPLES_AT_ONCE = 16
_Row = TypeVar("_Row", ScoreRow, VerdictRow)


def evaluations_by_sample(directory: Path) -> Iterator[list[Evaluation]]:
    """The evaluations of each sample, in the order of the rows.

    Raises RunDirectoryError for a row that localjudge does not write, and for a verdict that is of no score.
    """
    place_of_score = place_of_verdict = 0
    while True:
        seen: set[str] = set()

        def among_the_first(sample_id: str, seen: set[str] = seen) -> bool:
            seen.add(sample_id)
            return len(seen) <= _SAMPLE_ROWS_SAMPLES_AT_ONCE

        scores, place_of_score = _some(directory / SCORES, SCORE_ROWS, place_of_score, among_the_first)
        if not scores:
            return
        ids = {row.sample_id for row in scores}
        verdicts, place_of_verdict = _some(directory / VERDICTS, VERDICT_ROWS, place_of_verdict, ids.__contains__)
        for _, of_sample in groupby(evaluations_of(scores, verdicts), key=lambda evaluation: evaluation.sample_id):
            yield list(of_sample)


def _some(path: Path, kind: TypeAdapter[_Row], start: int, wanted: Callable[[str], bool]) -> tuple[list[_Row], int]:
    """The rows from a place on as long as their samples are wanted, and the place behind them."""
    rows: list[_Row] = []
    with closing(placed_rows(path, kind, start)) as placed:
        for place, row in placed:
            if not wanted(row.sample_id):
                return rows, place
            rows.append(row)
    return rows, path.stat().st_size


_MERGE_SAMPLES_AT_ONCE = 64
_NAMED = 10
_THE_SAME = ("cluster_by", "max_failed")
"""Settings of which a run has one, and that the signature does not name."""


class _ShardRun(NamedTuple):
    shard: Shard
    run: Run

    @property
    def store(self) -> Path:
        return self.run.directory / STORE


class _Whole(NamedTuple):
    """What the shards come to: the data's part of the signature, the group of each sample."""

    data: dict[str, Any]
    groups: dict[str, str] | None


def merge_shards(shards: Sequence[Run | str | Path], out: str | Path, progress: Progress | None = None) -> Run:
    """One run of all shards, in the directory `out`. The shards are not changed.

    Raises UsageError if a shard is missing or there twice, or if they are not of one run, RunDirectoryError where one
    cannot be read, contradicts itself or is not finished, or the directory cannot be written or holds another run.
    """
    told = progress or Silence()
    found = _in_order([as_run(one) for one in shards])
    path = Path(os.path.expanduser(out))
    if any(path.resolve() == one.run.directory.resolve() for one in found):
        raise UsageError(f"{path} is one of the shards", hint=f"name another directory with {option('out')}")
    _refuse_different(found)
    whole = _whole(found, told)
    first = found[0].run
    signature = manifests.signature(first.manifest.judge, whole.data)
    environment = _environment(found)
    manifest = Manifest(signature=signature, judge=first.manifest.judge, data=whole.data, environment=environment)
    with ExitStack() as stack:
        directory = stack.enter_context(closing(RunDirectory(path)))
        if (there := read_manifest(path)) is not None:
            refuse_other_run(path, there, manifest)
        write_manifest(directory, with_environment(manifest, finished_part(there)))
        store = stack.enter_context(closing(Store(path / STORE)))
        stack.callback(told.close)
        for one in found:
            store.add_samples(stored_rows(one.store), whole.groups)
            copy_answers(one.run.directory, store, told)
        results = stack.enter_context(closing(ResultFiles(directory)))
        rows = counted(_rows(found), told, "merging", whole.data["rows"])
        totals = Totals(list(first.summary.metrics), first.summary, whole.groups, kept_rubrics(first.manifest))
        results.begin()
        while some := list(islice(rows, _MERGE_SAMPLES_AT_ONCE)):
            evaluations = list(chain.from_iterable(some))
            totals.add(evaluations)
            results.add(evaluations, totals.samples, store.answer_count)
        summary = _summary(first.summary, signature, totals)
        reused = store.reused_from()
        done = {
            "answers": {"asked": store.answer_count - sum(reused.values()), "reused": reused},
            "extras_sha256": extras_fingerprint(stored_extras(path / STORE)),
        }
        manifest = results.finish(summary, with_environment(manifest, done))
    return Run(path, summary, manifest)


def _in_order(runs: Sequence[Run]) -> list[_ShardRun]:
    """The shards by their numbers. Raises UsageError unless each is there once."""
    if not runs:
        raise UsageError("no shard was named", hint="name the directories of all shards of a run")
    by_number: dict[int, _ShardRun] = {}
    count = 0
    for run in runs:
        shard = shard_in(run.manifest)
        if shard is None:
            raise UsageError(
                f"{run.directory} is no shard of a run", hint=f"a shard is made with {option('shard', '1/4')}"
            )
        count = count or shard.of
        if shard.of != count:
            raise UsageError(
                f"{runs[0].directory} is one of {count} shards, and {run.directory} one of {shard.of}",
                hint="name the shards of one run",
            )
        if (other := by_number.get(shard.number)) is not None:
            raise UsageError(
                f"shard {shard} is there twice: {other.run.directory} and {run.directory}", hint="leave one of them out"
            )
        by_number[shard.number] = _ShardRun(shard, run)
    missing = [
        f"{number}/{count}" for number in range(1, min(count, len(runs) + _NAMED) + 1) if number not in by_number
    ]
    if missing:
        lacking = count - len(runs)
        more = f" and {lacking - len(missing)} more" if lacking > len(missing) else ""
        raise UsageError(
            f"shard {', '.join(missing)}{more} is missing", hint=f"judge it with {option('shard', missing[0])}"
        )
    return [by_number[number] for number in sorted(by_number)]


def _refuse_different(shards: Sequence[_ShardRun]) -> None:
    """Raise UsageError, naming what differs, unless all shards are of one judge, data and settings."""
    first = shards[0].run
    for _, run in shards[1:]:
        judges = differences(first.manifest.judge, run.manifest.judge)
        if judges:
            raise UsageError(
                f"{run.directory} was not judged as {first.directory} was:{in_lines(judges)}",
                hint="shards of one run have one judge on one kind of processor: judge this one again there",
            )
        named = differences(_beside(first), _beside(run))
        if named:
            raise UsageError(
                f"{run.directory} and {first.directory} are not of one run:{in_lines(named)}",
                hint="judge one of them again, with the data and the settings of the other",
            )


def _beside(run: Run) -> dict[str, Any]:
    """What shards of one run have in common beside their judge."""
    settings = run.manifest.environment["settings"]
    return {
        "data": shard_of(run.manifest).model_dump(),
        "samples_read": run.manifest.environment.get("samples_read"),
        "skipped_rows": run.summary.skipped_rows,
        "metrics": list(run.summary.metrics),
        **{name: settings.get(name) for name in _THE_SAME},
    }


def _whole(shards: Sequence[_ShardRun], progress: Progress) -> _Whole:
    """What the shards come to. Raises RunDirectoryError unless that is the data that they say they are shards of."""
    hashes: list[bytes] = []
    groups: dict[str, str] = {}
    said = shard_of(shards[0].run.manifest)
    for shard, run in shards:
        if not run.in_one_order():
            raise RunDirectoryError(
                f"the rows in {run.directory} are not in the order of its samples",
                hint="run the command that made it again",
            )
        of = run.cluster_of
        for sample in counted(run.iter_samples(), progress, "reading", run.summary.samples):
            if not shard.has(sample.id):
                belongs = Shard(shard_number(sample.id, shard.of), shard.of)
                raise RunDirectoryError(
                    f"{run.directory} is shard {shard}, and holds {excerpt(sample.id)}, which is of {belongs}",
                    hint="was a file of the run changed by hand?",
                )
            hashes.append(sample_hash(sample))
            if of is not None:
                groups[sample.id] = of[sample.id]
    if (len(hashes), fingerprint_of(sorted(hashes))) != (said.rows, said.sha256):
        raise RunDirectoryError(
            f"the shards come to {len(hashes):,} samples that are not the {said.rows:,} that they are shards of",
            hint="`localjudge verify` says which of them was changed",
        )
    groups_hash = canonical_sha256(groups) if groups else None
    return _Whole(manifests.data_part(said.sha256, said.rows, groups_hash), groups or None)


def _rows(shards: Sequence[_ShardRun]) -> Iterator[list[Evaluation]]:
    """The evaluations of each sample, in the order of the whole data."""
    placed = heapq.merge(
        *(
            zip((row.position for row in stored_rows(one.store)), evaluations_by_sample(one.run.directory), strict=True)
            for one in shards
        ),
        key=itemgetter(0),
    )
    last = -1
    for position, evaluations in placed:
        if position != last + 1:
            raise RunDirectoryError(
                f"the shards do not agree which sample stands at position {min(position, last + 1)} of the data",
                hint="the rows were in another order: run the commands of all shards again, nothing is asked twice",
            )
        last = position
        yield evaluations


def _summary(of_a_shard: Summary, signature: str, totals: Totals) -> Summary:
    found = {
        "signature": signature,
        "samples": totals.samples,
        "verdicts": totals.verdicts,
        "metrics": totals.metrics,
    }
    return of_a_shard.model_copy(update=found)


def _environment(shards: Iterable[_ShardRun]) -> dict[str, Any]:
    """What the manifest says beside what moves a number: as of the first shard, and of each where and when it was."""
    made = [(one.shard, one.run, one.run.manifest.environment) for one in shards]
    first = made[0][2]
    kept = {name: value for name, value in first.items() if name not in ("shard_of", *WHEN_FINISHED)}
    sessions = chain.from_iterable(environment["sessions"] for _, _, environment in made)
    return {
        **kept,
        "settings": {**first["settings"], "shard": None},
        "host": manifests.host(),
        "shards": [
            {"shard": str(shard), "run": str(run.directory), "host": environment.get("host")}
            for shard, run, environment in made
        ],
        "sessions": sorted(sessions, key=lambda session: str(session.get("started"))),
    }
