"""Every reader of an untrusted run directory ends with a one-line error."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import printed, refused

import localjudge
from localjudge import LocaljudgeError, Run, RunDirectoryError, ScriptedEngine
from localjudge.labels.drawing import DrawingOptions
from localjudge.labels.label_source import LabelSource
from localjudge.labels.labelling import Labelling
from tests.run_directory.conftest import edited, in_store

Attack = Callable[[Path], object]
SCORE = (
    b'{"sample_id": "a", "metric": "m", "status": "scored", "score": 0.5,'
    b' "numerator": 1, "denominator": 2, '
    b'"detail": null}\n'
)
ROWS = [
    {
        "id": "a",
        "user_input": "Why?",
        "retrieved_contexts": ["Rain."],
        "reference": "It rains. It is red.",
    },
    {"id": "b", "user_input": "How?", "retrieved_contexts": ["So.", "Thus."], "reference": "One."},
]

RESULTS = {"open", "sample", "report", "reuse", "label"}
"""Readers that open the whole run."""
STORED = {"sample", "report", "verify", "resume", "reuse", "label"}
"""Readers of `run.sqlite`."""


def engine() -> ScriptedEngine:
    return ScriptedEngine({"It rains.": 0.9}, default=0.3)


def made(directory: Path) -> Run:
    """Make a run with samples that can be used again."""
    metrics = ["context_recall", "context_relevancy"]
    return localjudge.evaluate(ROWS, out=directory, engine=engine(), metrics=metrics)


def shown(directory: Path) -> None:
    """Show a sample and its prompts. Raises LocaljudgeError with what the command says."""
    command = ("show", directory, "a", "--prompts", "--metrics", "context_recall")
    try:
        printed(*command)
    except AssertionError:
        problem, _, hint = refused(*command).partition("\n  hint: ")
        raise LocaljudgeError(problem, hint=hint) from None


READERS: dict[str, Callable[[Path], object]] = {
    "open": Run.open,
    "sample": shown,
    "report": lambda directory: Run.open(directory).report(baseline=directory),
    "verify": lambda directory: Run.open(directory, check=False).verify(engine=engine()),
    "reuse": lambda directory: localjudge.evaluate(
        reuse=directory, out=directory.parent / "again", engine=engine()
    ),
    "label": lambda directory: Labelling(
        LabelSource.of_run(directory), options=DrawingOptions(sample=2), annotator="x"
    ).answer(1),
    "resume": made,
}


def refusals(directory: Path) -> dict[str, list[str]]:
    """Return message and hint of each reader that refuses. Resuming is last: it changes the run."""
    errors = {}
    for name, read in READERS.items():
        try:
            read(directory)
        except LocaljudgeError as error:
            errors[name] = [error.message, error.hint or ""]
    return errors


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("sound") / "run").directory


@pytest.fixture(autouse=True)
def time_limit() -> Iterator[None]:
    """A pipe would block a reader forever."""

    def stop(_number: int, _frame: object) -> None:
        raise TimeoutError("a reader of a run directory does not end")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(120)
    yield
    signal.alarm(0)


def test_every_command_reads_an_intact_directory(directory: Path) -> None:
    assert refusals(directory) == {}


def fifo(name: str) -> Attack:
    def attack(directory: Path) -> None:
        (directory / name).unlink(missing_ok=True)
        os.mkfifo(directory / name)

    return attack


def link(name: str) -> Attack:
    def attack(directory: Path) -> None:
        (directory / name).rename(directory.parent / name)
        (directory / name).symlink_to(directory.parent / name)

    return attack


def sql(*statements: str) -> Attack:
    return lambda directory: in_store(directory, *statements)


def put(name: str, content: bytes) -> Attack:
    return lambda directory: (directory / name).write_bytes(content)


def as_folder(name: str) -> Attack:
    def attack(directory: Path) -> None:
        (directory / name).unlink()
        (directory / name).mkdir()

    return attack


def stored_as(content: str) -> Attack:
    return sql(f"UPDATE sample SET content = {content} WHERE id = 'a'")


def _row(**values: object) -> bytes:
    row = {
        "key": "0f" * 16,
        "sample_id": "a",
        "metric": "m",
        "position": 0,
        "text": "t",
        "human": 1,
        "annotator": "x",
    }
    return (
        json.dumps({**row, "when": "2026-11-22T09:14:03+00:00", "way": "sheet", **values}).encode()
        + b"\n"
    )


DEEP_META = (
    '{"id": "a", "retrieved_contexts": [{"text": "t", "meta": {"m": '
    + "[" * 999
    + "]" * 999
    + "}}]}"
)
MANIFEST = RESULTS | {"verify", "resume"}
SUMMARY = RESULTS | {"verify"}
LABELS = {"sample", "report", "label"}
READ_BACK = STORED - {"resume"}
"""Resuming a run writes its samples anew."""
ASKED = {"verify", "reuse"}
"""Readers of questions and answers."""

REFUSED: dict[str, tuple[Attack, set[str], str]] = {
    "store, a pipe": (fifo("run.sqlite"), STORED, "run.sqlite is not a regular file"),
    "log, a pipe": (fifo("run.sqlite-wal"), STORED, "run.sqlite-wal is not a regular file"),
    "a giant value": (stored_as("hex(zeroblob(100000000))"), STORED, "string or blob too big"),
    "a giant manifest": (
        lambda of: os.truncate(of / "manifest.json", 1 << 40),
        MANIFEST,
        "manifest.json exceeds the",
    ),
    "manifest, a pipe": (fifo("manifest.json"), MANIFEST, "manifest.json is not a regular file"),
    "scores, a pipe": (fifo("scores.jsonl"), RESULTS, "scores.jsonl is not a regular file"),
    "manifest, a link": (link("manifest.json"), MANIFEST, "manifest.json is a link"),
    "store, a link": (link("run.sqlite"), STORED, "run.sqlite is a link"),
    "lock, a link": (link("run.lock"), {"resume", "label"}, "run.lock is a link"),
    "labels, a pipe": (fifo("labels.jsonl"), LABELS, "labels.jsonl is not a regular file"),
    "labels, no rows": (put("labels.jsonl", b"[]\n"), LABELS, "labels.jsonl:1 is not a row"),
    "verdicts, a folder": (as_folder("verdicts.jsonl"), RESULTS | {"resume"}, "verdicts.jsonl"),
    "a rollback journal": (
        put("run.sqlite-journal", b""),
        STORED,
        "run.sqlite-journal is not a file of localjudge",
    ),
    "deep manifest": (put("manifest.json", b'{"a":' * 99_999), MANIFEST, "values nested too deep"),
    "deep sample": (stored_as(f"'{DEEP_META}'"), READ_BACK, "recursion limit"),
    "manifest, empty": (put("manifest.json", b""), MANIFEST, "manifest.json cannot be read"),
    "manifest without sessions": (
        edited("manifest.json", '"sessions"', '"x"'),
        MANIFEST,
        "environment.sessions",
    ),
    "manifest, a text for failures": (
        edited("manifest.json", '"max_failed": null', '"max_failed": "many"'),
        MANIFEST,
        "environment.settings.max_failed: ",
    ),
    "summary of another shape": (
        edited("summary.json", '"metrics": {', '"metrics": {"x": 1, '),
        SUMMARY,
        "metrics.x",
    ),
    "summary, no UTF-8": (put("summary.json", b"\xff"), SUMMARY, "summary.json cannot be read"),
    "summary, NaN": (
        edited("summary.json", '"mean": ', '"mean": NaN, "x": '),
        SUMMARY,
        "NaN is not a finite number",
    ),
    "summary, twice": (
        edited("summary.json", '"mean": ', '"mean": 1, "mean": '),
        SUMMARY,
        "'mean' appears twice",
    ),
    "sample of bytes": (stored_as("x'ff00'"), READ_BACK, "Input should be a valid string"),
    "another id": (
        stored_as("replace(content, '\"a\"', '\"x\"')"),
        STORED - {"verify", "resume"},
        "sample",
    ),
    "sample, not UTF-8": (stored_as("CAST(x'ff' AS TEXT)"), READ_BACK, "Could not decode to UTF-8"),
    "store, not a database": (put("run.sqlite", b"text" * 999), STORED, "file is not a database"),
    "store of another version": (sql("PRAGMA user_version = 7"), STORED, "has schema version 7"),
    "answer 7": (sql("UPDATE answer SET p_yes = 7"), ASKED, "p_yes: Input should be less than"),
    "answer to nothing": (sql("UPDATE answer SET p_yes = NULL"), ASKED, "p_yes: Input should be"),
    "key that is no sha256": (
        sql("UPDATE request SET key = 'x' || substr(key, 2)"),
        {"verify"},
        "String should match pattern",
    ),
    "request of many pieces": (
        sql("UPDATE request SET path = '[' || replace(hex(zeroblob(1999999)), '00', '1,') || '1]'"),
        {"verify", "sample"},
        "string or blob too big",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_each_refusal_is_one_line(directory: Path, name: str) -> None:
    attack, readers, message = REFUSED[name]
    attack(directory)
    errors = refusals(directory)
    assert set(errors) == readers
    for problem, hint in errors.values():
        assert message in problem
        assert "\n" not in problem
        assert len(problem) < 500
        assert hint


ALTERED = {
    "a request of nothing": "UPDATE request SET path = '[99]'",
    "a request of texts": "UPDATE request SET path = '[\"a\"]'",
    "another path": "UPDATE request SET path = '[1]'",
    "a shape of another shape": "UPDATE shape SET content = id || content",
    "a slow grammar": "UPDATE shape SET content = replace(content, '(0|1)', '(.*a.*b.*c.*){500}')",
    "pieces of negative length": "UPDATE node SET pieces = '[[-1, 0]]'",
}


@pytest.mark.parametrize("name", ALTERED)
def test_no_stored_request_reaches_the_judge(directory: Path, name: str) -> None:
    in_store(directory, ALTERED[name])
    judge = engine()
    verification = Run.open(directory).verify(engine=judge)
    assert verification.result == "different"
    assert verification.altered_requests == verification.stored_requests > 0
    assert judge.asked
    assert not any("{500}" in request.shape for request in judge.asked)


def test_a_trigger_and_a_view_have_no_effect(directory: Path) -> None:
    in_store(
        directory,
        "CREATE TRIGGER t AFTER INSERT ON answer BEGIN DELETE FROM sample; END",
        "CREATE VIEW other AS WITH RECURSIVE n(i) AS "
        "(SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
    )
    shown(directory)


def test_an_unfinished_run_with_an_invalid_answer_is_not_resumed(directory: Path) -> None:
    in_store(directory, "UPDATE answer SET p_yes = NULL")
    made(directory)
    (directory / "summary.json").unlink()
    with pytest.raises(RunDirectoryError, match="p_yes: Input should be"):
        made(directory)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"[" * 99_999, "scores.jsonl:1 is not a row"),
        (b'{"sample_id": "a"}\n', "metric: Field required"),
        (SCORE.replace(b"0.5", b"NaN"), "scores.jsonl:1 is not a row"),
        (SCORE.replace(b"0.5", b"7"), "score: Input"),
        (SCORE.replace(b"0.5", b'"0.5"'), "score: Input"),
        (SCORE.replace(b'"a"', b'"\\ud800"'), "scores.jsonl:1 is not a row"),
        (SCORE.replace(b'"a"', b'"\xff"'), "scores.jsonl:1 is not a row"),
    ],
)
def test_an_invalid_row_is_refused(directory: Path, line: bytes, message: str) -> None:
    (directory / "scores.jsonl").write_bytes(line)
    run = Run.open(directory, check=False)
    with pytest.raises(RunDirectoryError) as caught:
        list(run.iter_scores())
    assert message in caught.value.message
    assert "\n" not in caught.value.message


def test_an_endless_row_is_not_read(directory: Path) -> None:
    (directory / "scores.jsonl").write_bytes(b"")
    os.truncate(directory / "scores.jsonl", 1 << 35)
    run = Run.open(directory, check=False)
    with pytest.raises(
        RunDirectoryError, match=r"scores\.jsonl:1 exceeds the limit of 64 MiB in a row"
    ):
        list(run.iter_scores())


def test_files_are_not_written_through_links(directory: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("important")
    for name in ("scores.jsonl.part", "verdicts.jsonl", "so-far.json"):
        (directory / name).unlink(missing_ok=True)
        (directory / name).symlink_to(victim)
    assert made(directory).scores == Run.open(directory).scores
    assert victim.read_text() == "important"


def test_differences_to_another_run_are_one_line_each(directory: Path) -> None:
    edited("manifest.json", '"threshold": 0.5', f'"threshold": 0.5, "x": "{"y" * 9999}\\n"')(
        directory
    )
    with pytest.raises(RunDirectoryError, match="belongs to another run") as caught:
        made(directory)
    assert max(map(len, str(caught.value).splitlines())) < 500


def test_a_sample_too_large_to_store_is_refused(tmp_path: Path) -> None:
    rows = [{"id": "a", "retrieved_contexts": ["x" * (65 << 20)], "reference_contexts": ["x"]}]
    with pytest.raises(RunDirectoryError, match=r"too big\n.*remove samples larger than 64 MiB"):
        localjudge.evaluate(rows, out=tmp_path, engine=engine(), metrics=["document_mrr"])


def test_a_directory_with_a_half_written_first_manifest_is_still_a_run_directory(
    tmp_path: Path,
) -> None:
    """A process was killed while it wrote `manifest.json`: the next one may use the directory."""
    (tmp_path / ".manifest.json.abcd1234.part").write_text("{")
    rows = [{"id": "a", "retrieved_contexts": ["x"], "reference_contexts": ["x"]}]
    how: dict[str, Any] = {"engine": engine(), "metrics": ["document_mrr"]}
    assert localjudge.evaluate(rows, out=tmp_path, **how)["document_mrr"].mean == 1
    other = tmp_path / "other"
    other.mkdir()
    (other / ".other.json.abcd1234.part").write_text("{")
    with pytest.raises(RunDirectoryError, match="contains no run"):
        localjudge.evaluate(rows, out=other, **how)
