import errno
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from localjudge import OutOfResource, RunDirectoryError
from localjudge.run_directory.directory import PartFile, locked_directory, write_file
from localjudge.run_directory.store import Store
from localjudge.run_directory.store_reader import (
    AskedUnit,
    AskedWindow,
    RequestKeys,
    reading,
    select_answers,
)
from localjudge.types import Answer, Grammar, NoAnswer, Piece, VerdictRequest

KEYS = RequestKeys({"engine": "test"})
GRAMMAR = Grammar(name="attributed", pattern='\\{"attributed":(0|1)\\}', labels={"0": 0, "1": 1})
LONG = "A long context. " * 50


def keyed(unit: str, context: str = LONG) -> Any:
    path = ((Piece(text="Context: ", trusted=True), _user(context)), (_user(unit),))
    return KEYS.keyed(VerdictRequest(path=path, grammar=GRAMMAR))


def _user(text: str) -> Piece:
    return Piece(text=text, trusted=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with closing(Store(path)) as store:
        yield store


def selected(path: Path, query: str) -> list[object]:
    with closing(sqlite3.connect(path)) as other:
        return other.execute(query).fetchall()


@pytest.mark.parametrize(
    "answer",
    [
        Answer(p_yes=0.1 + 0.2, valid_mass=1e-300, raw='{"attributed":0}', reason="because"),
        NoAnswer(error="it does not fit"),
        NoAnswer(error="it does not fit", valid_mass=0.25),
    ],
)
def test_an_answer_survives_reopening_exactly(
    path: Path, store: Store, answer: Answer | NoAnswer
) -> None:
    request = keyed("One.")
    store.add_requests({request.key: request}, {})
    store.add_answers({request.key: answer})
    with closing(Store(path)) as again:
        assert again.answers_to([request.key, "another"]) == {request.key: answer}
        assert again.answer_count == 1


def test_a_context_that_is_asked_a_hundred_questions_is_stored_once(
    path: Path, store: Store
) -> None:
    requests = [keyed(f"Statement {number}.") for number in range(100)]
    store.add_requests({request.key: request for request in requests}, {})
    assert selected(path, "SELECT count(*) FROM node WHERE text LIKE '%long context%'") == [(1,)]
    assert selected(path, "SELECT count(*) FROM request") == [(100,)]


def test_a_verdict_can_be_traced_to_its_prompt_in_sql(path: Path, store: Store) -> None:
    request = keyed("Water is wet.", context="Water wets.")
    unit = AskedUnit("sample 1", "context_recall", 0, 0)
    store.add_requests({request.key: request}, {unit: [AskedWindow(None, request.key)]})
    store.add_answers({request.key: Answer(p_yes=0.75, valid_mass=1, raw="")})
    row = ("sample 1", "context_recall", "Context: Water wets.Water is wet.", 0.75)
    assert selected(path, "SELECT sample_id, metric, prompt, p_yes FROM verdict") == [row]


@pytest.mark.parametrize("numbers", [[None], [0], [1], [0, 1, 2]], ids=str)
def test_windows_are_read_with_their_numbers(store: Store, numbers: list[int | None]) -> None:
    request = keyed("Water is wet.", context="Water wets.")
    unit = AskedUnit("sample 1", "context_recall", 0, 0)
    windows = [AskedWindow(number, request.key) for number in numbers]
    store.add_requests({request.key: request}, {unit: windows})
    assert store.answers_about(["sample 1"]) == {unit: windows}


def test_lone_surrogates_and_nul_do_not_stop_a_run(store: Store) -> None:
    requests = [keyed("a\ud800"), keyed("a\\ud800"), keyed("a\0b")]
    assert len({request.key for request in requests}) == 3
    unit = AskedUnit("id \ud800", "context_recall", 0, 0)
    windows = [AskedWindow(None, requests[0].key)]
    store.add_requests({request.key: request for request in requests}, {unit: windows})


def test_requests_that_differ_anywhere_have_different_keys() -> None:
    path = ((Piece(text="ab", trusted=True),), (_user("c"),))
    request = VerdictRequest(path=path, grammar=GRAMMAR)
    others = [
        request._replace(path=((Piece(text="ab", trusted=False),), (_user("c"),))),
        request._replace(path=((Piece(text="a", trusted=True),), (_user("bc"),))),
        request._replace(path=((Piece(text="ab", trusted=True), _user("c")),)),
        request._replace(grammar=GRAMMAR.model_copy(update={"labels": {"0": 1, "1": 0}})),
    ]
    keys = {KEYS.keyed(other).key for other in [request, *others]}
    keys.add(RequestKeys({"engine": "another"}).keyed(request).key)
    assert len(keys) == 6


def test_a_full_disk_is_an_error_and_keeps_stored_answers(path: Path, store: Store) -> None:
    first = keyed("One.", "short")
    second = keyed("Two.", "long " * 100_000)
    store.add_requests({first.key: first}, {})
    store.add_answers({first.key: Answer(p_yes=1, valid_mass=1, raw="")})
    store._connection.execute("PRAGMA max_page_count = 20")
    with pytest.raises(OutOfResource, match=r"full.*\n.*same command again"):
        store.add_requests({second.key: second}, {})
    assert list(store.answers_to([first.key, second.key])) == [first.key]


def test_a_store_is_not_created_through_a_broken_link(path: Path) -> None:
    path.symlink_to(path.parent / "elsewhere")
    with pytest.raises(RunDirectoryError, match=r"run\.sqlite is a link"):
        Store(path)
    assert not (path.parent / "elsewhere").exists()


def test_many_stored_answers_are_read_back(store: Store) -> None:
    requests = {
        request.key: request
        for request in (keyed(f"Statement {number}.") for number in range(1201))
    }
    for _ in range(2):
        store.add_requests(requests, {})
    answers = {
        key: Answer(p_yes=place / 1201, valid_mass=1, raw="") for place, key in enumerate(requests)
    }
    for key, answer in answers.items():
        store.add_answers({key: answer})
    assert store.answers_to(requests) == answers
    assert store.answer_count == 1201


def test_a_run_directory_is_private(tmp_path: Path) -> None:
    directory = tmp_path / "runs" / "one"
    with locked_directory(directory):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_directory_in_use_refuses_a_second_process(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; "
        "from localjudge.run_directory.directory import locked_directory\n"
        "with locked_directory(Path(sys.argv[1])): pass"
    )
    with locked_directory(tmp_path):
        command = [sys.executable, "-c", program, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "is being written" in done.stderr
    subprocess.run(command, check=True)


def test_foreign_directories_and_files_are_refused_unchanged(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("important")
    with pytest.raises(RunDirectoryError, match="contains no run"), locked_directory(tmp_path):
        pass
    with (
        pytest.raises(RunDirectoryError, match=r"thesis\.tex is a file"),
        locked_directory(tmp_path / "thesis.tex"),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    assert (tmp_path / "thesis.tex").read_text() == "important"


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    def pieces() -> Iterator[str]:
        yield "half of the new"
        raise OSError(errno.ENOSPC, "No space left on device")

    with locked_directory(tmp_path):
        write_file(tmp_path / "scores.jsonl", "old\n")
        part = PartFile(tmp_path / "scores.jsonl")
        with pytest.raises(OutOfResource, match="No space left"):
            part.write(pieces())
        part.close()
    assert (tmp_path / "scores.jsonl").read_text() == "old\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="NOT CHECKED: root may read and write every file")
def test_an_unwritable_directory_is_a_usage_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with (
        pytest.raises(RunDirectoryError, match="cannot be written: Permission denied"),
        locked_directory(tmp_path / "run"),
    ):
        pass


def fill(path: Path, *units: str) -> None:
    with closing(Store(path)) as store:
        for unit in units:
            request = keyed(unit)
            store.add_requests({request.key: request}, {})
            store.add_answers({request.key: Answer(p_yes=0.5, valid_mass=1.0, raw="0")})


def test_a_writer_that_begins_during_reading_is_noticed(path: Path) -> None:
    """A file without a writer is read as unchanging, so a later writer could give torn pages."""
    fill(path, "One.")

    def read_while_writing() -> None:
        with reading(path) as connection:
            fill(path, *(f"Unit {number}." for number in range(200)))
            select_answers(connection, [keyed("One.").key])

    with pytest.raises(RunDirectoryError, match="changed by another process"):
        read_while_writing()
    with reading(path) as connection:
        assert len(select_answers(connection, [keyed("One.").key, keyed("Unit 7.").key])) == 2


def test_reading_beside_a_writer_sees_its_answers(path: Path, store: Store) -> None:
    request = keyed("One.")
    store.add_requests({request.key: request}, {})
    with reading(path) as connection:
        store.add_answers({request.key: Answer(p_yes=0.5, valid_mass=1.0, raw="0")})
        assert len(select_answers(connection, [request.key])) == 1


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_without_locks_can_hold_a_run(
    tmp_path: Path,
    number: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As on some network drives. One warning says that the directory is not protected."""

    def refuse(_descriptor: int, *, blocking: bool) -> bool:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("filelock.lock_descriptor", refuse)
    for _ in range(2):
        with locked_directory(tmp_path / "run"):
            write_file(tmp_path / "run" / "manifest.json", "{}")
    assert [record.message for record in caplog.records if "without locks" in record.message] != []
    assert len(caplog.records) == 1
