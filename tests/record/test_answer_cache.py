"""The user's cache: off until it is turned on, private, bounded, shared by processes, and never in the way of a run."""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from localjudge.errors import UsageError
from localjudge.record import cache as answer_cache
from localjudge.record.cache import AnswerCache, cache_folder, open_cache
from localjudge.types import Answer, NoAnswer

JUDGE: dict[str, Any] = {"engine": {"engine": "one"}, "judge": {"profile": "p"}, "versions": {"localjudge": "1"}}
ANSWER = Answer(p_yes=0.1 + 0.2, legal_mass=1e-300, raw='{"attributed":0}', reason="because")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory of its own."""
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def folder() -> Path:
    answer_cache.turn_on()
    return cache_folder()


def opened(judge: dict[str, Any] = JUDGE) -> AnswerCache:
    cache = open_cache(judge)
    assert cache is not None
    return cache


def kept(*keys: str, judge: dict[str, Any] = JUDGE) -> None:
    with closing(opened(judge)) as cache:
        for key in keys:
            cache.keep(key, ANSWER)


def test_it_is_off_and_nothing_is_made_until_it_is_turned_on(home: Path) -> None:
    assert open_cache(JUDGE) is None
    assert not answer_cache.state().on
    assert not home.exists()


def test_an_answer_is_found_again_to_the_last_digit_and_no_error_is(folder: Path) -> None:
    with closing(opened()) as cache:
        cache.keep("a", ANSWER)
        cache.keep("b", NoAnswer(error="a logit is not a number"))
    with closing(opened()) as cache:
        assert cache.answers_to(["a", "b", "c"]) == {"a": ANSWER}
    assert answer_cache.state().answers == 1
    assert (folder.stat().st_mode & 0o777, (folder / "answers.sqlite").stat().st_mode & 0o777) == (0o700, 0o600)


@pytest.mark.parametrize(
    "other",
    [
        {"engine": {"engine": "two"}},
        {"judge": {"profile": "q"}},
        {"versions": {"localjudge": "2"}},
    ],
)
def test_no_answer_crosses_what_can_move_it(folder: Path, other: dict[str, Any]) -> None:
    """The same key, which names neither prompt profile nor packages."""
    kept("a")
    with closing(opened({**JUDGE, **other})) as cache:
        assert cache.answers_to(["a"]) == {}


def test_what_cannot_move_an_answer_is_no_border(folder: Path) -> None:
    kept("a", judge={**JUDGE, "threshold": 0.5, "metrics": {}})
    with closing(opened({**JUDGE, "threshold": 0.3, "min_legal_mass": 0.1, "segmenter": {}})) as cache:
        assert cache.answers_to(["a"]) == {"a": ANSWER}


def test_any_number_of_answers_is_written_and_found(folder: Path) -> None:
    """More than are held back, and more than one statement can name."""
    keys = [str(number) for number in range(1_201)]
    kept(*keys)
    with closing(opened()) as cache:
        assert sorted(cache.answers_to(keys)) == sorted(keys)


def test_the_oldest_make_room(folder: Path) -> None:
    """About 100 bytes an answer: 3,000 of them are more than 100 KB, the first are gone, the last are there."""
    keys = [str(number) for number in range(3_000)]
    with closing(AnswerCache(folder, JUDGE, most_bytes=100_000)) as cache:
        for key in keys:
            cache.keep(key, ANSWER)
    with closing(opened()) as cache:
        found = cache.answers_to(keys)
    assert keys[0] not in found
    assert keys[-1] in found
    assert answer_cache.state().size < 250_000


def test_processes_use_it_at_once(folder: Path) -> None:
    """Four that write 600 answers each, half of them the same as the others'."""
    program = (
        "import sys; from contextlib import closing; from localjudge.record.cache import open_cache\n"
        "from localjudge.types import Answer\n"
        f"with closing(open_cache({JUDGE!r})) as cache:\n"
        "    for number in range(600):\n"
        "        key = str(number) if number % 2 else f'{sys.argv[1]} {number}'\n"
        "        cache.keep(key, Answer(p_yes=0.5, legal_mass=1, raw=''))\n"
    )
    started = [subprocess.Popen([sys.executable, "-c", program, str(number)]) for number in range(4)]
    assert [process.wait() for process in started] == [0] * 4
    assert answer_cache.state().answers == 4 * 300 + 300


def test_a_process_that_is_killed_while_it_writes_leaves_a_sound_cache(folder: Path) -> None:
    """Three times, in the middle of some transaction; the next process rolls it back and writes on."""
    program = (
        "import itertools; from contextlib import closing; from localjudge.record.cache import open_cache\n"
        "from localjudge.types import Answer\n"
        f"with closing(open_cache({JUDGE!r})) as cache:\n"
        "    for number in itertools.count():\n"
        "        cache.keep(str(number), Answer(p_yes=0.5, legal_mass=1, raw='x' * 2_000))\n"
    )
    file = folder / "answers.sqlite"
    for _ in range(3):
        before = file.stat().st_size if file.exists() else 0
        writing = subprocess.Popen([sys.executable, "-c", program])
        while writing.poll() is None and (not file.exists() or file.stat().st_size < before + 3_000_000):
            time.sleep(0.001)
        writing.kill()
        writing.wait()
        with closing(opened()) as cache:
            keys = list(map(str, range(answer_cache.state().answers)))
            assert keys
            assert cache.answers_to(keys).keys() == set(keys)


def damaged(folder: Path) -> None:
    (folder / "answers.sqlite").write_bytes(b"this is no database, and longer than a header of one would be" * 99)


def of_another_shape(folder: Path) -> None:
    import sqlite3

    with closing(sqlite3.connect(folder / "answers.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE answer (id INTEGER)")


def not_in_words(folder: Path) -> None:
    """What SQLite says of it holds a byte that is no UTF-8: the name of a table."""
    kept("a")
    content = (folder / "answers.sqlite").read_bytes()
    (folder / "answers.sqlite").write_bytes(content.replace(b"CREATE TABLE answer", b"CREATE T\xffBLE answer"))


@pytest.mark.parametrize("spoil", [damaged, of_another_shape, not_in_words])
def test_a_damaged_cache_is_told_and_left_alone(folder: Path, caplog: pytest.LogCaptureFixture, spoil: Any) -> None:
    spoil(folder)
    with caplog.at_level(logging.WARNING):
        cache = open_cache(JUDGE)
        if cache is not None:
            with closing(cache):
                assert cache.answers_to(["a"]) == {}
                cache.keep("a", ANSWER)
    assert caplog.text.count("is not used, every answer is asked for") == 1
    answer_cache.turn_off()
    assert not folder.exists()


def test_what_the_system_does_not_let_it_read_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for the file of another user, which no test can count on."""
    monkeypatch.setenv("LOCALJUDGE_HOME", f"/{'x' * 300}")
    with pytest.raises(UsageError, match=r"cannot be read: .*File name too long"):
        answer_cache.state()


def test_a_value_that_no_answer_has_is_not_taken(folder: Path) -> None:
    import sqlite3

    kept("a")
    with closing(sqlite3.connect(folder / "answers.sqlite")) as connection, connection:
        connection.execute("UPDATE answer SET p_yes = 1.5")
    with closing(opened()) as cache:
        assert cache.answers_to(["a"]) == {}


@pytest.fixture
def open_to_the_group(folder: Path) -> Iterator[Path]:
    folder.chmod(0o770)
    yield folder
    folder.chmod(0o700)


def test_a_folder_that_others_can_write_is_refused(open_to_the_group: Path) -> None:
    with pytest.raises(UsageError, match="not a folder of yours alone"):
        open_cache(JUDGE)


def test_a_link_is_no_folder_of_the_user(home: Path, tmp_path: Path) -> None:
    home.mkdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    cache_folder().symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="not a folder of yours alone"):
        open_cache(JUDGE)


def test_it_is_not_deleted_while_a_run_uses_it(folder: Path) -> None:
    kept("a")
    with closing(opened()), pytest.raises(UsageError, match="a run is using the cache"):
        answer_cache.turn_off()
    answer_cache.turn_off()
    assert not os.path.lexists(folder)
    answer_cache.turn_off()
