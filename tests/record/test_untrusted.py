"""A run directory that somebody else made: whatever its files are, each reader ends, in one line, or is not concerned.

Attacks that could hang are read in a process of its own, with a limit to its time and memory: this file is its program.
"""

import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import localjudge
from localjudge import LocaljudgeError, Run, RunDirectoryError, ScriptedEngine
from localjudge.record import database
from localjudge.report.export import exported
from localjudge.report.sample import prompts_view, sample_view

Attack = Callable[[Path], object]

SECONDS = 60
BYTES = 4 << 30
ROWS = [
    {"id": "a", "user_input": "Why?", "retrieved_contexts": ["Rain."], "reference": "It rains. It is red."},
    {"id": "b", "user_input": "How?", "retrieved_contexts": ["So.", "Thus."], "reference": "One."},
]

RESULTS = {"open", "sample", "compare", "export", "report", "check", "merge", "label"}
"""Readers that open the run as a whole."""
STORED = {"sample", "compare", "export", "report", "verify", "resume", "merge", "label"}
"""Readers of what `run.sqlite` holds."""


def engine() -> ScriptedEngine:
    return ScriptedEngine({"It rains.": 0.9}, default=0.3)


def made(directory: Path) -> Run:
    """A run that is a shard, the only one, so that it can be merged, too."""
    metrics = ["context_recall", "context_relevancy"]
    return localjudge.evaluate(ROWS, out=directory, engine=engine(), metrics=metrics, shard="1/1")


def shown(directory: Path) -> None:
    run = Run.open(directory)
    sample_view(run, "a")
    prompts_view(run, "a", "context_recall")


READERS: dict[str, Callable[[Path], object]] = {
    "open": Run.open,
    "sample": shown,
    "compare": lambda directory: localjudge.compare(Run.open(directory), Run.open(directory)),
    "export": lambda directory: exported(Run.open(directory), "ragas"),
    "report": lambda directory: localjudge.write_report(directory, baseline=directory),
    "check": lambda directory: Run.open(directory).summary,
    "verify": lambda directory: localjudge.verify(Run.open(directory, check=False), engine=engine()),
    "merge": lambda directory: localjudge.merge([directory], out=directory.parent / "whole"),
    "label": lambda directory: localjudge.label_sheet(directory, out=directory.parent / "sheet.jsonl", n=2),
    "resume": made,
}


def refusals(directory: Path) -> dict[str, list[str]]:
    """Message and hint of each reader that refuses the directory. Going on with the run comes last: it changes it."""
    found = {}
    for name, read in READERS.items():
        try:
            read(directory)
        except LocaljudgeError as error:
            found[name] = [error.message, error.hint or ""]
    return found


def refusals_in_time(directory: Path) -> dict[str, list[str]]:
    """The same, in a process that may take a minute and 4 GiB."""
    command = [sys.executable, __file__, str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, preexec_fn=_limited)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))


def refuse(found: dict[str, list[str]], readers: set[str], message: str) -> None:
    """These readers and no others refuse it, each in one line that says so and a hint."""
    assert set(found) == readers
    for said, hint in found.values():
        assert message in said
        assert "\n" not in said
        assert "http" not in said
        assert len(said) < 500
        assert hint


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run as localjudge leaves it."""
    return made(tmp_path_factory.mktemp("sound") / "run").directory


@pytest.fixture(autouse=True)
def time_limit() -> Iterator[None]:
    """No test of this file takes longer than twice what a process may."""

    def stop(_number: int, _frame: object) -> None:
        raise TimeoutError("a reader of a run directory does not end")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(2 * SECONDS)
    yield
    signal.alarm(0)


def test_a_sound_directory_is_read_by_all(directory: Path) -> None:
    assert refusals(directory) == {}


def fifo(name: str) -> Attack:
    def attack(directory: Path) -> None:
        (directory / name).unlink(missing_ok=True)
        os.mkfifo(directory / name)

    return attack


def link(name: str) -> Attack:
    """A link to a sound file: it is still not the run's own."""

    def attack(directory: Path) -> None:
        (directory / name).rename(directory.parent / name)
        (directory / name).symlink_to(directory.parent / name)

    return attack


def sql(*statements: str) -> Attack:
    def attack(directory: Path) -> None:
        with closing(sqlite3.connect(directory / "run.sqlite")) as store, store:
            for statement in statements:
                store.execute(statement)

    return attack


def pages_that_lead_to_each_other(directory: Path) -> None:
    """A table of a few thousand rows whose tree promises 100 million: every branch leads to one page, twice over."""
    file = directory / "run.sqlite"
    with closing(sqlite3.connect(file)) as store, store:
        rows = ((f"s{number}", number, '{"id": "s"}' + " " * 200) for number in range(20_000))
        store.executemany("INSERT INTO sample VALUES (?, ?, ?, NULL)", rows)
    with closing(sqlite3.connect(file)) as store:
        root = store.execute("SELECT rootpage FROM sqlite_master WHERE name = 'sample'").fetchone()[0]
        size = store.execute("PRAGMA page_size").fetchone()[0]
    data = bytearray(file.read_bytes())

    def pointers(page: int) -> list[int]:
        """Where a page of branches (kind 5) keeps the numbers of its children."""
        start = (page - 1) * size
        assert data[start] == 5
        count = int.from_bytes(data[start + 3 : start + 5], "big")
        cells = [start + 12 + 2 * cell for cell in range(count)]
        return [start + int.from_bytes(data[cell : cell + 2], "big") for cell in cells] + [start + 8]

    def child(pointer: int) -> int:
        return int.from_bytes(data[pointer : pointer + 4], "big")

    leaf, branch = child(pointers(root)[0]), child(pointers(root)[1])
    data[(branch - 1) * size : branch * size] = data[(root - 1) * size : root * size]
    for page, leads_to in ((root, branch), (branch, leaf)):
        for pointer in pointers(page):
            data[pointer : pointer + 4] = leads_to.to_bytes(4, "big")
    file.write_bytes(data)


ENDLESS_VIEW = (
    "DROP VIEW verdict",
    "DROP VIEW prompt",
    "DROP TABLE sample",
    "CREATE VIEW sample AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n)"
    " SELECT id, 1 AS position, '{}' AS content, NULL AS cluster FROM n",
)
COMPUTED_COLUMN = (
    "DROP VIEW verdict",
    "DROP VIEW prompt",
    "DROP TABLE sample",
    "CREATE TABLE sample (id TEXT, position INTEGER, cluster TEXT,"
    " content TEXT AS (replace(hex(zeroblob(9999)), '0', 'a') LIKE '%a%a%a%a%a%a%a%a%b'))",
    "INSERT INTO sample (id, position) VALUES ('a', 0)",
)
GIANT = "hex(zeroblob(100000000))"

COULD_HANG: dict[str, tuple[Attack, set[str], str]] = {
    "store, a pipe": (fifo("run.sqlite"), STORED, "run.sqlite is not a regular file"),
    "log, a pipe": (fifo("run.sqlite-wal"), STORED, "run.sqlite-wal is not a regular file"),
    "index, a pipe": (fifo("run.sqlite-shm"), STORED, "run.sqlite-shm is not a regular file"),
    "an endless view": (sql(*ENDLESS_VIEW), STORED, "run.sqlite: sample is not as localjudge creates it"),
    "an endless pattern": (sql(*COMPUTED_COLUMN), STORED, "run.sqlite: sample is not as localjudge creates it"),
    "endless pages": (
        pages_that_lead_to_each_other,
        STORED,
        "run.sqlite holds more than fits into a file",
    ),
    "a giant row": (sql(f"UPDATE sample SET content = {GIANT}"), STORED, "string or blob too big"),
    "a giant manifest": (
        lambda directory: os.truncate(directory / "manifest.json", 1 << 40),
        RESULTS | {"verify", "resume"},
        "manifest.json holds more than localjudge reads (64 GiB)",
    ),
    "a giant line": (
        lambda directory: os.truncate(directory / "scores.jsonl", 1 << 35),
        RESULTS,
        "scores.jsonl:5 holds more than localjudge reads (64 MiB in a row)",
    ),
}


@pytest.mark.parametrize("name", COULD_HANG)
def test_no_reader_hangs(directory: Path, name: str) -> None:
    attack, readers, message = COULD_HANG[name]
    attack(directory)
    refuse(refusals_in_time(directory), readers, message)


def put(name: str, content: bytes) -> Attack:
    return lambda directory: (directory / name).write_bytes(content)


def edited(name: str, old: str, new: str) -> Attack:
    def attack(directory: Path) -> None:
        text = (directory / name).read_text(encoding="utf-8")
        assert old in text
        (directory / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    return attack


def as_folder(name: str) -> Attack:
    def attack(directory: Path) -> None:
        (directory / name).unlink()
        (directory / name).mkdir()

    return attack


def stored_as(content: str) -> Attack:
    return sql(f"UPDATE sample SET content = {content} WHERE id = 'a'")


DEEP_META = '{"id": "a", "retrieved_contexts": [{"text": "t", "meta": {"m": ' + "[" * 999 + "]" * 999 + "}}]}"
MANIFEST = RESULTS | {"verify", "resume"}
SUMMARY = RESULTS | {"verify"}
READ_BACK = STORED - {"resume"}
"""Going on with a run writes its samples anew."""
ASKED = {"verify", "merge"}
"""Readers of what was asked and answered."""

REFUSED: dict[str, tuple[Attack, set[str], str]] = {
    "manifest, a pipe": (fifo("manifest.json"), MANIFEST, "manifest.json is not a regular file"),
    "summary, a pipe": (fifo("summary.json"), SUMMARY, "summary.json is not a regular file"),
    "scores, a pipe": (fifo("scores.jsonl"), RESULTS, "scores.jsonl is not a regular file"),
    "verdicts, a pipe": (fifo("verdicts.jsonl"), RESULTS, "verdicts.jsonl is not a regular file"),
    "lock, a pipe": (fifo("run.lock"), {"resume"}, "run.lock is not a regular file"),
    "manifest, a link": (link("manifest.json"), MANIFEST, "manifest.json is a link"),
    "scores, a link": (link("scores.jsonl"), RESULTS, "scores.jsonl is a link"),
    "store, a link": (link("run.sqlite"), STORED, "run.sqlite is a link"),
    "lock, a link": (link("run.lock"), {"resume"}, "run.lock is a link"),
    "verdicts, a folder": (as_folder("verdicts.jsonl"), RESULTS | {"resume"}, "verdicts.jsonl"),
    "a rollback journal": (put("run.sqlite-journal", b""), STORED, "run.sqlite-journal is not a file of localjudge"),
    "deep manifest": (put("manifest.json", b'{"a":' * 99_999), MANIFEST, "values nested too deep"),
    "deep settings": (
        edited("manifest.json", '"environment": {', '"environment": {"x": ' + "[" * 200 + "]" * 200 + ","),
        MANIFEST,
        "values are nested more than 100 deep",
    ),
    "deep summary": (put("summary.json", b"[" * 99_999), SUMMARY, "values nested too deep"),
    "deep scores": (put("scores.jsonl", b"[" * 99_999), RESULTS, "scores.jsonl:1 is not a row"),
    "deep sample": (stored_as(f"'{DEEP_META}'"), READ_BACK, "recursion limit"),
    "manifest, a list": (put("manifest.json", b"[]"), MANIFEST, "is not a JSON object"),
    "manifest, empty": (put("manifest.json", b""), MANIFEST, "manifest.json cannot be read"),
    "manifest without sessions": (edited("manifest.json", '"sessions"', '"x"'), MANIFEST, "environment.sessions"),
    "manifest, a text for failures": (
        edited("manifest.json", '"max_failed": 0', '"max_failed": "many"'),
        MANIFEST,
        "environment.settings.max_failed: Input should be a valid integer",
    ),
    "summary of another shape": (edited("summary.json", '"metrics": {', '"metrics": {"x": 1, '), SUMMARY, "metrics.x"),
    "summary, no UTF-8": (put("summary.json", b"\xff"), SUMMARY, "summary.json cannot be read"),
    "summary, NaN": (edited("summary.json", '"mean": ', '"mean": NaN, "x": '), SUMMARY, "NaN is not a number"),
    "summary, infinite": (edited("summary.json", '"mean": ', '"mean": 1e999, "x": '), SUMMARY, "1e999 is too large"),
    "summary, twice": (edited("summary.json", '"mean": ', '"mean": 1, "mean": '), SUMMARY, "'mean' stands twice"),
    "score NaN": (edited("scores.jsonl", '"score": 0.5', '"score": NaN'), RESULTS, "scores.jsonl:1 is not a row"),
    "score 7": (edited("scores.jsonl", '"score": 0.5', '"score": 7'), RESULTS, "score: Input should be less than"),
    "probability 2": (edited("verdicts.jsonl", '"p_yes": 0.9', '"p_yes": 2'), RESULTS, "verdicts.jsonl:1 is not a row"),
    "half a character": (edited("scores.jsonl", '"a"', '"\\ud800"'), RESULTS, "scores.jsonl:1 is not a row"),
    "score, a key twice": (
        edited("scores.jsonl", '"score": 0.5', '"score": 0.1, "score": 0.5'),
        RESULTS,
        "stands twice",
    ),
    "samples at one position": (sql("UPDATE sample SET position = 0"), READ_BACK, "has two samples at one position"),
    "half a row": (put("scores.jsonl", b'{"sample_id": "a"}\n'), RESULTS, "metric: Field required"),
    "sample of another shape": (stored_as("'{\"id\": 5}'"), READ_BACK, "id: Input should be a valid string"),
    "sample of bytes": (stored_as("x'ff00'"), READ_BACK, "Input should be a valid string"),
    "sample of another id": (
        stored_as("replace(content, '\"a\"', '\"x\"')"),
        {"compare", "report", "sample", "merge", "label"},
        " sample",
    ),
    "sample, not UTF-8": (stored_as("CAST(x'ff' AS TEXT)"), READ_BACK, "Could not decode to UTF-8"),
    "store, not a database": (put("run.sqlite", b"text" * 999), STORED, "file is not a database"),
    "store of another version": (sql("PRAGMA user_version = 7"), STORED, "has schema version 7"),
    "answer 7": (sql("UPDATE answer SET p_yes = 7"), ASKED | {"resume"}, "p_yes: Input should be less than"),
    "answer to nothing": (sql("UPDATE answer SET p_yes = NULL"), ASKED | {"resume"}, "p_yes: Input should be"),
    "request of nothing": (sql("UPDATE request SET path = '[99]'"), ASKED | {"sample"}, "lacks row 99"),
    "request of texts": (sql("UPDATE request SET path = '[\"a\"]'"), ASKED | {"sample"}, "valid integer"),
    "request, the 9th verdict": (sql("UPDATE request SET entry = 9"), ASKED, "asks for verdict 9 of 1"),
    "request of many pieces": (
        sql("UPDATE request SET path = '[' || replace(hex(zeroblob(1999999)), '00', '1,') || '1]'"),
        ASKED | {"sample"},
        "holds more than localjudge reads",
    ),
    "shape of another shape": (sql("UPDATE shape SET content = id || content"), ASKED, "Invalid JSON"),
    "negative pieces": (sql("UPDATE node SET pieces = '[[-1, 0]]'"), ASKED, "greater than or equal to 0"),
    "a trigger": (
        sql("CREATE TRIGGER t AFTER INSERT ON sample BEGIN UPDATE answer SET p_yes = 1; END"),
        {"resume"},
        "run.sqlite: t is not as localjudge creates it",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_each_refusal_is_one_line(directory: Path, name: str) -> None:
    attack, readers, message = REFUSED[name]
    attack(directory)
    refuse(refusals(directory), readers, message)


UNCONCERNED: dict[str, Attack] = {
    "a regular expression bomb in a shape": sql(
        """UPDATE shape SET content = replace(content, '(0|1)', '(.*a.*b){999}')"""
    ),
    "null bytes in prompts": sql("UPDATE node SET text = CAST(replace(text, ' ', x'00') AS TEXT)"),
    "a trigger, and a view of another": sql(
        "CREATE TRIGGER t AFTER INSERT ON answer BEGIN DELETE FROM sample; END",
        "CREATE VIEW other AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
    ),
}


@pytest.mark.parametrize("name", UNCONCERNED)
def test_what_show_does_not_need_has_no_effect_on_it(directory: Path, name: str) -> None:
    UNCONCERNED[name](directory)
    shown(directory)


def test_a_grammar_that_is_not_the_judge_s_is_not_asked(directory: Path) -> None:
    """`(.*a.*b.*c.*){500}` keeps a compiler of grammars busy for minutes."""
    sql("UPDATE shape SET content = replace(content, '(0|1)', '(.*a.*b.*c.*){500}')")(directory)
    asked = engine()
    found = localjudge.verify(Run.open(directory), engine=asked)
    assert (found.result, found.asked_again, asked.asked) == ("different", 0, ())
    assert found.altered_requests == found.stored_requests > 0


def test_reading_ends_when_its_time_is_over(tmp_path: Path) -> None:
    """A statement without an end is interrupted after its 0.2 s, inside the database."""
    program = (
        "import sqlite3, sys; from pathlib import Path; from localjudge.record import database\n"
        "database.SECONDS = 0.2\n"
        "store = sqlite3.connect(sys.argv[1])\n"
        "store.execute('CREATE TABLE t (x)')\n"
        "endless = 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n'\n"
        "with database.bounded(store, Path(sys.argv[1])): store.execute(endless)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "t.sqlite")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert "RunDirectoryError" in done.stderr
    assert "t.sqlite takes too long to read" in done.stderr


def test_rows_that_come_too_slowly_end_it_too(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "SECONDS", -1.0)
    with pytest.raises(RunDirectoryError, match="takes too long to read"):
        _ = Run.open(directory).samples


if __name__ == "__main__":
    sys.stdout.write(json.dumps(refusals(Path(sys.argv[1]))))
