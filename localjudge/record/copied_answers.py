"""What a run asked and was answered, copied into the store of another run of the same judge.

    samples, some at a time ──> their units ──> the requests of these ──> answers, and where those are from

Two runs may have asked the same question. An answer is a function of its question, so it has to be the same in both.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter

from localjudge.errors import RunDirectoryError
from localjudge.progress import Progress, counted
from localjudge.record.archive import StoredRequest, numbered_requests, reading, stored_ids
from localjudge.record.directory import STORE
from localjudge.record.keys import KeyedRequest, canonical_sha256
from localjudge.record.store import Asking, Store, rows_named, storable
from localjudge.record.untrusted import shown
from localjudge.types import Answer, NoAnswer

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
                f"{directory} was answered otherwise than another run of the same judge (request {shown(key)})",
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
