"""The user's answer cache is private, bounded, shared by processes, and never stops a run or stays open."""

import gc
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge.errors import InputError
from localjudge.record.cache import AnswerCache, open_cache
from localjudge.record.manifest import JudgeIdentity
from localjudge.types import Answer, NoAnswer

Spoil = Callable[[Path], None]
JUDGE: dict[str, Any] = {"engine": {"engine": "one"}, "judge": {"profile": "p"}, "versions": {"localjudge": "1"}}
ANSWER = Answer(p_yes=0.1 + 0.2, legal_mass=1e-300, raw='{"attributed":0}\ud800', reason="because")
WRITE = f"""
import itertools, sys
from contextlib import closing
from localjudge.record.cache import open_cache

from localjudge.types import Answer
with closing(open_cache({JUDGE!r})) as cache:
    for number in itertools.count() if sys.argv[1] == "all" else range(600):
        key = str(number) if number % 2 else sys.argv[1] + str(number)
        cache.keep(key, Answer(p_yes=0.5, legal_mass=1, raw="x" * 2_000))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "answers"


def opened(judge: dict[str, Any] = JUDGE) -> AnswerCache:
    cache = open_cache(JudgeIdentity(**{"metrics": {}, "threshold": 0.5, **judge}).answering)
    assert cache is not None
    return cache


def keep(*keys: str, judge: dict[str, Any] = JUDGE) -> None:
    with closing(opened(judge)) as cache:
        for key in keys:
            cache.keep(key, ANSWER)


def answers_to(*keys: str, judge: dict[str, Any] = JUDGE) -> dict[str, Answer]:
    with closing(opened(judge)) as cache:
        return dict(cache.answers_to(keys))


def test_answers_are_cached_exactly_and_errors_are_not(folder: Path) -> None:
    with closing(opened()) as cache:
        cache.keep("a", ANSWER)
        cache.keep("b", NoAnswer(error="a logit is not a number"))
    assert answers_to("a", "b", "c") == {"a": ANSWER}
    assert (folder.stat().st_mode & 0o777, (folder / "answers.sqlite").stat().st_mode & 0o777) == (0o700, 0o600)


@pytest.mark.parametrize(
    ("other", "answers"),
    [
        ({"engine": {"engine": "two"}}, {}),
        ({"judge": {"profile": "q"}}, {}),
        ({"versions": {"localjudge": "2"}}, {}),
        ({"threshold": 0.3, "min_legal_mass": 0.1, "segmenter": {}, "metrics": {"m": {"version": 1}}}, {"a": ANSWER}),
    ],
)
def test_cached_answers_are_shared_only_between_equal_judges(other: dict[str, Any], answers: dict[str, Answer]) -> None:
    keep("a", judge={**JUDGE, "threshold": 0.5})
    assert answers_to("a", judge={**JUDGE, **other}) == answers


def test_the_oldest_answers_are_removed(folder: Path) -> None:
    """At 200 bytes each, 12,000 answers exceed 1 MiB; one SQLite statement cannot name all that are removed."""
    keys = [str(number) for number in range(40_000)]
    cache = open_cache(JUDGE, mebibytes=1)
    assert cache
    with closing(cache):
        for key in keys:
            cache.keep(key, ANSWER)
    assert answers_to(*keys).keys() & {keys[0], keys[-1]} == {keys[-1]}
    assert (folder / "answers.sqlite").stat().st_size < 2 << 20


def in_cache(folder: Path, *statements: str) -> list[Any]:
    with closing(sqlite3.connect(folder / "answers.sqlite")) as connection, connection:
        return [connection.execute(statement).fetchone() for statement in statements]


def answers_in(folder: Path) -> int:
    return int(in_cache(folder, "SELECT count(*) FROM answer")[0][0])


def test_processes_share_the_cache(folder: Path) -> None:
    started = [subprocess.Popen([sys.executable, "-c", WRITE, f"{number} "]) for number in range(4)]
    assert [process.wait() for process in started] == [0] * 4
    assert answers_in(folder) == 4 * 300 + 300


def test_a_process_that_is_killed_while_it_writes_leaves_a_sound_cache(folder: Path) -> None:
    file = folder / "answers.sqlite"
    for _ in range(3):
        before = file.stat().st_size if file.exists() else 0
        writing = subprocess.Popen([sys.executable, "-c", WRITE, "all"])
        while writing.poll() is None and (not file.exists() or file.stat().st_size < before + 3_000_000):
            time.sleep(0.001)
        writing.kill()
        writing.wait()
        answers_to()
        keys = [f"{'' if number % 2 else 'all'}{number}" for number in range(answers_in(folder))]
        assert keys
        assert answers_to(*keys).keys() == set(keys)


def damaged(folder: Path) -> None:
    (folder / "answers.sqlite").write_bytes(b"this is no database, and longer than a header of one would be" * 99)


def of_another_shape(folder: Path) -> None:
    in_cache(folder, "DROP TABLE answer", "CREATE TABLE answer (id INTEGER)")


@pytest.mark.parametrize("spoil", [damaged, of_another_shape])
def test_a_damaged_cache_is_reported(folder: Path, caplog: pytest.LogCaptureFixture, spoil: Spoil) -> None:
    keep("a")
    spoil(folder)
    cache = open_cache(JUDGE)
    if cache is not None:
        with closing(cache):
            assert cache.answers_to(["a"]) == {}
            cache.keep("a", ANSWER)
    assert caplog.text.count("ignoring the answer cache") == 1


@pytest.mark.parametrize("value", ["'not JSON'", """'{"p_yes": 1.5, "legal_mass": 1, "raw": ""}'""", "x'00'"])
def test_an_impossible_cached_value_is_ignored(folder: Path, value: str) -> None:
    keep("a")
    in_cache(folder, f"UPDATE answer SET json = {value}")
    assert answers_to("a") == {}


@pytest.mark.parametrize("is_link", [False, True])
def test_a_folder_that_others_can_write_is_refused(folder: Path, is_link: bool) -> None:
    folder.parent.mkdir()
    place = folder.parent / "elsewhere" if is_link else folder
    place.mkdir()
    place.chmod(0o700 if is_link else 0o770)
    if is_link:
        folder.symlink_to(place)
    with pytest.raises(InputError, match="is not private"):
        open_cache(JUDGE)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sound", [True, False])
def test_runs_close_all_connections(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sound: bool) -> None:
    """Part of the data (a second table), a cache, and a second run with the answers of the first.

    Python 3.13 warns about open connections.
    """
    opened: list[sqlite3.Connection] = []
    connect: Any = sqlite3.connect

    def recorded(*place: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*place, **options))
        return opened[-1]

    if not sound:
        keep("a")
        damaged(folder)
    monkeypatch.setattr(sqlite3, "connect", recorded)
    rows = [{"id": f"{number}", "retrieved_contexts": ["Rain."], "reference": "It rains."} for number in range(3)]
    options: dict[str, Any] = {"sample": 2, "engine": localjudge.ScriptedEngine({}, default=0.9)}
    run = localjudge.evaluate(rows, out=tmp_path / "a", cache=True, **options)
    localjudge.evaluate(rows, out=tmp_path / "b", reuse=tmp_path / "a", **options)
    run.verify(engine=options["engine"])
    assert len(run.samples) == 2
    gc.collect()
    assert opened
    for connection in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")
