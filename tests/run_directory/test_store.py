"""What is in `run.sqlite`, and what else may happen to the directory of a run."""

import errno
import os
import resource
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from localjudge import OutOfResource, Run, RunDirectoryError, ScriptedEngine, evaluate
from localjudge.run_directory.store_reader import RequestKeys
from localjudge.types import Answer, Grammar, NoAnswer, Piece, VerdictRequest
from tests.conftest import OneJudge

LONG = "A long context. " * 50


def sample(*statements: str, name: str = "a", context: str = LONG) -> dict[str, Any]:
    return {"id": name, "retrieved_contexts": [context], "reference": " ".join(statements)}


def judged(
    out: Path, *rows: dict[str, Any], engine: ScriptedEngine | None = None, **options: Any
) -> Run:
    asked = engine or OneJudge({}, default=0.5)
    rules = {"metrics": "context_recall", "max_failed": 1, "min_valid_mass": 0, **options}
    return evaluate(rows, engine=asked, out=out, **rules)


def selected(run: Run, query: str) -> list[object]:
    with closing(sqlite3.connect(run.directory / "run.sqlite")) as other:
        return other.execute(query).fetchall()


class Exact(OneJudge):
    """Gives these answers, as a model may give them, and counts its questions."""

    def __init__(self, answers: list[Answer | NoAnswer]) -> None:
        super().__init__({})
        self.left = answers

    def _answer(self, request: VerdictRequest) -> Answer | NoAnswer:
        return self.left.pop(0)


def test_an_answer_survives_reopening_exactly(tmp_path: Path) -> None:
    """The run is repeated from its answers, without asking, after its other files are lost."""
    given: list[Answer | NoAnswer] = [
        Answer(p_yes=0.1 + 0.2, valid_mass=1e-300, raw='{"attributed":0}', reason="because"),
        NoAnswer(error="it does not fit"),
        NoAnswer(error="it does not fit", valid_mass=0.25),
    ]
    found: list[list[Any]] = []
    for engine in (Exact([*given]), Exact([])):
        run = judged(tmp_path / "run", sample("One.", "Two.", "Three."), engine=engine)
        rows = run.verdicts
        found.append([(row.p_yes, row.valid_mass, row.reason, row.error) for row in rows])
        for name in ("summary.json", "scores.jsonl", "verdicts.jsonl"):
            (tmp_path / "run" / name).unlink()
    assert found[0] == found[1]
    error = "it does not fit"
    assert found[0][1:] == [(None, None, None, error), (None, 0.25, None, error)]
    assert found[0][0][0] == 0.1 + 0.2


def test_a_context_that_is_asked_a_hundred_questions_is_stored_once(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", sample(*(f"All {number} are so." for number in range(100))))
    assert selected(run, "SELECT count(*) FROM node WHERE text LIKE '%long context%'") == [(1,)]
    assert selected(run, "SELECT count(*) FROM request") == [(100,)]


def test_a_verdict_can_be_traced_to_its_prompt_in_sql(tmp_path: Path) -> None:
    engine = OneJudge({}, default=0.75)
    run = judged(tmp_path / "run", sample("Water is wet.", context="Water wets."), engine=engine)
    [request] = engine.asked
    prompt = "".join(piece.text for node in request.path for piece in node)
    assert "Water wets." in prompt
    assert "Water is wet." in prompt
    row = ("a", "context_recall", prompt, 0.75)
    assert selected(run, "SELECT sample_id, metric, prompt, p_yes FROM verdict") == [row]


def test_texts_with_nul_are_asked_and_stored_apart(tmp_path: Path) -> None:
    texts = ("A.", "A\0.", "A\0b.")
    run = judged(tmp_path / "run", *(sample(text, name=repr(text)) for text in texts))
    assert tuple(row.text for row in run.verdicts) == texts
    assert selected(run, "SELECT count(DISTINCT key) FROM request") == [(3,)]


def test_requests_that_differ_anywhere_have_different_keys() -> None:
    pattern = '\\{"attributed":(0|1)\\}'
    grammar = Grammar(name="attributed", pattern=pattern, labels={"0": 0, "1": 1})
    keys_of = RequestKeys({"engine": "test"})
    user = Piece(text="c", trusted=False)
    request = VerdictRequest(path=((Piece(text="ab", trusted=True),), (user,)), grammar=grammar)
    others = [
        request._replace(path=((Piece(text="ab", trusted=False),), (user,))),
        request._replace(
            path=((Piece(text="a", trusted=True),), (Piece(text="bc", trusted=False),))
        ),
        request._replace(path=((Piece(text="ab", trusted=True), user),)),
        request._replace(grammar=grammar.model_copy(update={"labels": {"0": 1, "1": 0}})),
    ]
    keys = {keys_of.keyed(other).key for other in [request, *others]}
    keys.add(RequestKeys({"engine": "another"}).keyed(request).key)
    assert len(keys) == 6


def test_a_full_disk_is_an_error_and_keeps_stored_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last sample has 500 kB and fits into 200 pages of 4 kB; its prompt does not fit, too."""
    rows = [sample("One.", name=str(number), context="short") for number in range(20)]
    rows.append(sample("Two.", name="last", context="long " * 100_000))
    connect = sqlite3.connect

    def limited(*place: Any, **how: Any) -> Any:
        connection = connect(*place, **how)
        if "run.sqlite" in str(place):
            connection.execute("PRAGMA max_page_count = 200")
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", limited)
        with pytest.raises(OutOfResource, match=r"full.*\n.*same command again"):
            judged(tmp_path / "run", *rows)
    engine = OneJudge({}, default=0.5)
    judged(tmp_path / "run", *rows, engine=engine)
    assert len(engine.asked) == 1


def test_a_store_is_not_created_through_a_broken_link(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", sample("One."))
    store = run.directory / "run.sqlite"
    store.unlink()
    store.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunDirectoryError, match=r"run\.sqlite is a link"):
        judged(tmp_path / "run", sample("One."))
    assert not (tmp_path / "elsewhere").exists()


def test_many_stored_answers_are_read_back(tmp_path: Path) -> None:
    """More than SQLite is asked for at once."""
    row = sample(*(f"All {number} are so." for number in range(1201)))
    run = judged(tmp_path / "run", row, engine=OneJudge(lambda asked: len(str(asked)) % 97 / 97))
    assert selected(run, "SELECT count(*) FROM answer") == [(1201,)]
    (run.directory / "verdicts.jsonl").unlink()
    (run.directory / "summary.json").unlink()
    engine = OneJudge({})
    assert judged(tmp_path / "run", row, engine=engine).verdicts == run.verdicts
    assert engine.asked == ()


def test_a_run_directory_is_private(tmp_path: Path) -> None:
    run = judged(tmp_path / "runs" / "one", sample("One."))
    assert stat.S_IMODE(run.directory.stat().st_mode) == 0o700


class Calling(OneJudge):
    """Does something else while it is asked."""

    def __init__(self, call: Callable[[], None]) -> None:
        super().__init__({}, default=0.5)
        self.call = call

    def _answer(self, request: VerdictRequest) -> Answer | NoAnswer:
        self.call()
        return super()._answer(request)


def test_a_directory_in_use_refuses_a_second_run_and_shows_its_answers(tmp_path: Path) -> None:
    """The first 16 samples are a block: their answers are stored when the last one is asked."""
    rows = [sample(f"It is {number}.", name=str(number)) for number in range(17)]
    asked: list[int] = []

    def begin_another() -> None:
        engine = OneJudge({}, default=0.5)
        with pytest.raises(RunDirectoryError, match="is being written"):
            judged(tmp_path / "run", *rows, engine=engine)
        again = tmp_path / str(len(asked))
        judged(again, *rows[:16], engine=engine, reuse=[tmp_path / "run"])
        asked.append(len(engine.asked))

    judged(tmp_path / "run", *rows, engine=Calling(begin_another))
    assert (asked[0], asked[-1]) == (16, 0)
    judged(tmp_path / "run", *rows)


def test_foreign_directories_and_files_are_refused_unchanged(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("important")
    with pytest.raises(RunDirectoryError, match="contains no run"):
        judged(tmp_path, sample("One."))
    with pytest.raises(RunDirectoryError, match=r"thesis\.tex is a file"):
        judged(tmp_path / "thesis.tex", sample("One."))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    assert (tmp_path / "thesis.tex").read_text() == "important"


def test_results_that_do_not_fit_on_the_disk_leave_no_file_that_looks_complete(
    tmp_path: Path,
) -> None:
    """2,000 verdicts on one sentence have 600 kB, and the store 100 kB."""
    row = sample(*["One."] * 2_000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, before[1]))
    try:
        with pytest.raises(OutOfResource, match="File too large"):
            judged(tmp_path / "run", row)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names.isdisjoint({"verdicts.jsonl", "summary.json"})
    engine = OneJudge({})
    assert len(judged(tmp_path / "run", row, engine=engine).verdicts) == 2_000
    assert engine.asked == ()


@pytest.mark.skipif(os.geteuid() == 0, reason="NOT CHECKED: root may read and write every file")
def test_an_unwritable_directory_is_a_usage_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(RunDirectoryError, match="cannot be written: Permission denied"):
        judged(tmp_path / "run", sample("One."))


def test_a_writer_that_begins_during_reading_is_noticed(tmp_path: Path) -> None:
    """A file without a writer is read as unchanging, so a later writer could give torn pages."""
    run = judged(tmp_path / "run", *(sample("One.", name=str(number)) for number in range(9)))
    samples = run.iter_samples()
    next(samples)
    selected(run, "CREATE TABLE another (value)")
    with pytest.raises(RunDirectoryError, match="changed by another process"):
        list(samples)
    assert len(list(Run.open(run.directory).iter_samples())) == 9


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
        judged(tmp_path / "run", sample("One."))
    assert [record.message for record in caplog.records if "without locks" in record.message] != []
    assert len(caplog.records) == 1
