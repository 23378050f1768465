"""labels.jsonl holds human labels, grows only at its end, and is read as untrusted input."""

import hashlib
import json
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localjudge import InputError, RunDirectoryError, ScriptedEngine, evaluate
from localjudge.labels.decisions import Decisions
from localjudge.run_directory.label_rows import (
    LabelRow,
    append_labels,
    hash_first_labels,
    label_file,
    stored_labels,
)

LABELS = "labels.jsonl"
MAX_POINTS = 2**22

VALUES: dict[str, Any] = {
    **{
        "key": "0f" * 16,
        "sample_id": "s1",
        "metric": "faithfulness",
        "position": 0,
        "text": "It rains.",
    },
    **{"human": 1, "annotator": "ann", "when": "2026-11-22T09:14:03+00:00", "way": "terminal"},
    **{"draw": "0: faithfulness 0123abcd", "frame": "0f", "size_share": 0.25, "draw_index": 3},
}


def row(**values: Any) -> LabelRow:
    return LabelRow(**{**VALUES, **values})


@given(
    st.lists(
        st.builds(
            row, text=st.text(), annotator=st.text(), human=st.sampled_from([0, 1, "?", None])
        )
    )
)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20
)
def test_appended_labels_are_read_in_order(tmp_path: Path, rows: list[LabelRow]) -> None:
    (tmp_path / LABELS).unlink(missing_ok=True)
    for one in rows:
        append_labels(tmp_path, [one])
    assert stored_labels(tmp_path) == rows


def test_the_label_file_is_private_and_append_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        append_labels(tmp_path, [row()])
    finally:
        os.umask(before)
    path = tmp_path / LABELS
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first = path.read_bytes()
    inode = path.stat().st_ino
    assert json.loads(first) == VALUES
    append_labels(tmp_path, [row(human=None), row(human="?")])
    assert path.read_bytes().startswith(first)
    assert path.stat().st_ino == inode


def test_only_an_adjudicated_row_names_it(tmp_path: Path) -> None:
    append_labels(tmp_path, [row(), row(adjudicated=True), row()])
    lines = (tmp_path / LABELS).read_bytes().splitlines()
    assert [b"adjudicated" in line for line in lines] == [False, True, False]
    assert [stored.adjudicated for stored in stored_labels(tmp_path)] == [False, True, False]


@pytest.mark.parametrize("kept", [1, 40, -2])
def test_a_torn_last_row_is_ignored_and_overwritten(tmp_path: Path, kept: int) -> None:
    append_labels(tmp_path, [row(), row(text="cut off")])
    first, second = (tmp_path / LABELS).read_bytes().splitlines(keepends=True)
    (tmp_path / LABELS).write_bytes(first + second[:kept])
    assert stored_labels(tmp_path) == [row()]
    append_labels(tmp_path, [row(human=0)])
    assert stored_labels(tmp_path) == [row(), row(human=0)]
    (tmp_path / LABELS).write_bytes(first[:kept])
    assert stored_labels(tmp_path) == []


def test_an_endless_label_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / LABELS).touch()
    os.truncate(tmp_path / LABELS, 1 << 35)
    with pytest.raises(RunDirectoryError, match="exceeds the limit of"):
        stored_labels(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        *({"key": key} for key in ("no hash", "0F" * 16)),
        *({"human": human} for human in (2, "1")),
        *(
            {"when": when}
            for when in ("yesterday", "2026-11-22T09:14:03", "0001-01-01T00:00:00+01:00")
        ),
        *({"size_share": share} for share in (-0.1, 1.5)),
        *({"draw_index": index} for index in (0, MAX_POINTS + 1)),
        *({"way": "by hand"}, {"position": -1}, {"more": 1}, {"turn": 3}),
    ],
    ids=str,
)
def test_an_invalid_label_row_is_refused_in_one_line(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    append_labels(tmp_path, [row()])
    with (tmp_path / LABELS).open("a") as file:
        file.write(json.dumps({**VALUES, **change}) + "\n")
    with pytest.raises(RunDirectoryError, match=r"labels\.jsonl:2 is not a row") as refused:
        stored_labels(tmp_path)
    assert "\n" not in refused.value.message


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "directory"])
def test_only_regular_label_files_are_written(tmp_path: Path, kind: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("important")
    make: dict[str, Callable[[Path], object]] = {
        "link": lambda path: path.symlink_to(victim),
        "hard link": lambda path: path.hardlink_to(victim),
        "pipe": os.mkfifo,
        "directory": Path.mkdir,
    }
    make[kind](tmp_path / LABELS)
    with pytest.raises(InputError, match=r"labels\.jsonl"):
        append_labels(tmp_path, [row()])
    assert victim.read_text() == "important"


@pytest.mark.parametrize("kept", [1, 2])
def test_a_last_row_without_a_line_end_counts_and_stays(tmp_path: Path, kept: int) -> None:
    append_labels(tmp_path, [row(), row(human=0)][:kept])
    path = tmp_path / LABELS
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    assert stored_labels(tmp_path) == [row(), row(human=0)][:kept]
    append_labels(tmp_path, [row(human="?")])
    assert stored_labels(tmp_path) == [*[row(), row(human=0)][:kept], row(human="?")]


def test_the_checksum_covers_the_complete_rows(tmp_path: Path) -> None:
    """`sha256sum labels.jsonl` prints the same checksum, unless the last row is incomplete."""
    assert label_file(tmp_path).sha256 == hashlib.sha256(b"").hexdigest()
    append_labels(tmp_path, [row(), row(human=0)])
    path = tmp_path / LABELS
    content = path.read_bytes()
    labels = label_file(tmp_path)
    assert (labels.size, labels.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    path.write_bytes(content + b'{"key": "0f')
    assert label_file(tmp_path) == labels


@pytest.mark.parametrize("count", [1, 2_000])
def test_the_first_labels_keep_their_checksum_when_rows_are_added(
    tmp_path: Path, count: int
) -> None:
    """2,000 rows with texts of 1,000 characters exceed the size of one read, 1 MiB."""
    rows = [row(text=f"{number} {'x' * 1_000}") for number in range(count)]
    append_labels(tmp_path, rows)
    first = label_file(tmp_path)
    assert list(first.rows) == rows
    append_labels(tmp_path, [row(human=0)])
    assert hash_first_labels(tmp_path, first.size) == first.sha256
    assert label_file(tmp_path).sha256 != first.sha256
    path = tmp_path / LABELS
    path.write_bytes(path.read_bytes().replace(b'"human": 1', b'"human": 0', 1))
    assert hash_first_labels(tmp_path, first.size) != first.sha256


def test_a_full_disk_keeps_no_label_rows_and_the_command_can_be_repeated(tmp_path: Path) -> None:
    """A real process has the file size limit of a full disk: 18 of 30 rows fit."""
    append_labels(tmp_path, [row()])
    before = (tmp_path / LABELS).read_bytes()
    script = (
        "import sys; from pathlib import Path; from localjudge.errors import OutOfResource\n"
        "from tests.run_directory.test_label_rows import append_labels, row\n"
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, 9_000))\n"
        "try:\n    append_labels(Path(sys.argv[1]), [row(text='x' * 400)] * 30)\n"
        "except OutOfResource as error:\n    sys.exit(str(error))\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert "free disk space" in done.stderr
    assert (tmp_path / LABELS).read_bytes() == before


def _add(directory: Path, name: str, count: int) -> None:
    for number in range(count):
        append_labels(
            directory, [row(annotator=name, text=f"{number} {'x' * (number * 37 % 9000)}")]
        )


def test_two_annotators_at_once_lose_no_rows(tmp_path: Path) -> None:
    (tmp_path / LABELS).write_bytes(b'{"key": "0f')
    spawn = multiprocessing.get_context("spawn")
    people = [spawn.Process(target=_add, args=(tmp_path, name, 150)) for name in ("ann", "bob")]
    for person in people:
        person.start()
    for person in people:
        person.join(120)
        assert person.exitcode == 0
    texts: dict[str, list[str]] = {"ann": [], "bob": []}
    for one in stored_labels(tmp_path):
        texts[one.annotator].append(one.text.split()[0])
    assert texts == {name: [str(number) for number in range(150)] for name in ("ann", "bob")}


def test_a_label_waits_for_a_running_run_with_a_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    labels: list[Future[Any]] = []

    def label_during_the_run(_request: object) -> float:
        labels.append(other.submit(append_labels, tmp_path, [row()]))
        until = monotonic() + 20
        while not caplog.messages and monotonic() < until:
            sleep(0.05)
        [message] = caplog.messages
        assert message.startswith(f"{tmp_path} is being written")
        assert not labels[0].done()
        return 0.5

    rows = [{"reference": "It rains.", "retrieved_contexts": ["Rain."]}]
    with ThreadPoolExecutor(1) as other:
        engine = ScriptedEngine(label_during_the_run)
        evaluate(rows, metrics="context_recall", engine=engine, out=tmp_path)
        labels[0].result()
    assert stored_labels(tmp_path) == [row()]


def test_a_kill_while_labelling_loses_no_stored_row(tmp_path: Path) -> None:
    """A row counts once `append_labels` has returned. SIGKILL ends a process that writes."""
    script = textwrap.dedent("""\
        import sys
        from pathlib import Path
        from tests.run_directory.test_label_rows import append_labels, row
        for number in range(10**6):
            append_labels(Path(sys.argv[1]), [row(text=f'{number} ' + 'x' * 20_000)])
            print(number, flush=True)
        """)
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2], text=True
    ) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(20)]
        process.send_signal(signal.SIGKILL)
        said += process.stdout.readlines()
    numbers = [int(one.text.split()[0]) for one in stored_labels(tmp_path)]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= len([line for line in said if line.endswith("\n")])
    append_labels(tmp_path, [row()])
    assert stored_labels(tmp_path)[-1] == row()


def test_the_latest_decision_of_each_annotator_counts_in_any_order() -> None:
    """Ann says 1 at 9:14 in Berlin, which is 8:14 in UTC, and 0 at 8:30 in UTC.

    As texts, "2026-11-22T09:14" is after "2026-11-22T08:30".
    """
    berlin = row(human=1, when="2026-11-22T09:14:03+01:00")
    later = row(human=0, when="2026-11-22T08:30:00Z")
    last = row(human=1, when="2026-11-22T08:30:00.500+00:00")
    for rows in ([berlin, later], [later, berlin]):
        assert Decisions(rows).human == {VALUES["key"]: 0.0}
    for rows in ([later, last], [last, later]):
        assert Decisions(rows).human == {VALUES["key"]: 1.0}
    assert Decisions([row(human=1), row(human=0)]).human == {
        VALUES["key"]: 0.0
    }  # at one moment the later row
    # Two annotators give the mean; "?" is a decision without a label.
    rows = [row(human=1), row(human=0), row(human=1, annotator="bob")]
    assert Decisions(rows).human == {VALUES["key"]: 0.5}
    assert Decisions([*rows, row(human=None)]).human == {VALUES["key"]: 1.0}
    assert Decisions([*rows, row(human="?")]).human == {VALUES["key"]: 1.0}
    nobody = Decisions([row(human="?"), row(human=None, annotator="bob")])
    assert (nobody.human, nobody.answers) == ({}, {VALUES["key"]: {"ann": None}})
