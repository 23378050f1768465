import csv
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from human_labels import answer_all, second_opinion

from localjudge import Run
from localjudge.run_directory.label_rows import stored_labels
from tests.cli.conftest import Call, write_rows
from tests.conftest import ScriptedRun

ROWS: list[dict[str, Any]] = [
    {
        "id": f"s{n}",
        "user_input": f"What of {n}?",
        "reference": f"Fact {n}.",
        "retrieved_contexts": [f"It is {n}."],
    }
    for n in range(12)
]
SCRIPT = {f"Fact {n}.": 0.9 if n % 3 else 0.2 for n in range(12)}
EVIL = "\x1b[2J\x1b]0;owned\x07 [bold]\u202e"


@pytest.fixture
def run(scripted_run: ScriptedRun) -> Run:
    """A run of twelve one-sentence samples in `run`; 8 are judged 1."""
    return scripted_run("run", ROWS, SCRIPT, metrics=["context_recall"])


def load_sheet(path: str) -> list[dict[str, Any]]:
    if path.endswith(".csv"):
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            next(file)  # the instruction
            return [{**row, "text": row["statement"]} for row in csv.DictReader(file)]
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def fill(path: str, labels: dict[str, Any], **values: Any) -> None:
    """Fill in labels by text, 1 for all others, from the last row to the first."""
    rows = [
        {**row, "human": labels.get(row["text"], 1), **values} for row in reversed(load_sheet(path))
    ]
    if path.endswith(".csv"):
        with Path(path).open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        write_rows(path, *rows)


def said(*, of: str = "run") -> list[Any]:
    """Return all decisions in order."""
    return [row.human for row in stored_labels(Path(of))]


def metric(call: Call, name: str = "context_recall") -> Any:
    return json.loads(call("show", "run", "--json")[1])["metrics"][name]


@pytest.mark.parametrize("sheet", ["s.csv", "s.jsonl"])
def test_a_sheet_is_written_and_read_back(run: Run, call: Call, sheet: str) -> None:
    """Human label 1 for all but two judged 1: mean 10/12. Reading it twice adds no labels."""
    code, output, _ = call("label", "run", "--sample", "50", "--seed", "7", "--out", sheet)
    assert (code, "localjudge label run --read" in output) == (0, True)
    rows = load_sheet(sheet)
    answer = "answer" if sheet.endswith(".csv") else "source_text"
    assert {"human", "sample_id", "text", answer, "label_id"} <= rows[0].keys()
    assert not any("p_yes" in column or "judge" in column for column in rows[0])
    assert (sorted(row["text"] for row in rows), {row["human"] for row in rows} <= {None, ""}) == (
        sorted(SCRIPT),
        True,
    )
    assert "corrected" not in metric(call)
    fill(sheet, {"Fact 1.": 0, "Fact 2.": 0})
    code, output, _ = call("label", "run", "--read", sheet, "--annotator", "ann")
    assert (code, output.splitlines()[0].strip()) == (0, f"{sheet}: 12 new labels")
    assert "0.833" in output
    assert (
        "0 new labels, 12 already stored"
        in call("label", "run", "--read", sheet, "--annotator", "ann")[1]
    )
    corrected = metric(call)["corrected"]
    assert (corrected["mean"], corrected["is_complete"]) == (pytest.approx(10 / 12), True)
    assert (corrected["labels"], len(corrected["ci95"])) == (12, 2)
    assert metric(call)["mean"] == pytest.approx(8 / 12)


def test_several_label_files_are_read_together(
    run: Run, call: Call, scripted_run: ScriptedRun
) -> None:
    call("label", "run", "--out", "s.jsonl")
    fill("s.jsonl", {f"Fact {n}.": None for n in range(7)})
    arguments = ("label", "run", "--read", "s.jsonl", "--annotator", "ann", "--json")
    counts = {
        "new": 5,
        "changed": 0,
        "withdrawn": 0,
        "known": 0,
        "older": 0,
        "undecidable": 0,
        "unlabelled": 7,
        "remarks": [],
    }
    assert json.loads(call(*arguments)[1]) == {"s.jsonl": counts}
    fill("s.jsonl", {"Fact 8.": 0}, annotator="bob")
    output = call("label", "run", "--read", "s.jsonl", "--annotator", "ann")[1]
    assert ("s.jsonl: 12 new labels" in output, "80 %" in output) == (True, True)
    scripted_run("other", ROWS, {}, metrics=["context_recall"])
    assert call("label", "other", "--read", "run")[1].startswith(" run: 17 new labels")
    assert json.loads(call("show", "other", "--json")[1])["labels"]["annotators"] == {
        "ann": 5,
        "bob": 12,
    }
    code, output, errors = call("label", "run", "--read", "s.jsonl", "--read", "none.csv")
    assert (code, output, "none.csv" in errors) == (1, "", True)


def test_annotator_of_a_sheet_is_named_in_it_or_by_an_option(run: Run, call: Call) -> None:
    """One row with a name is enough. Nothing is stored under the login name."""
    call("label", "run", "--out", "s.csv")
    instruction = Path("s.csv").read_text(encoding="utf-8-sig").splitlines()[0]
    assert "annotator" in instruction
    fill("s.csv", {})
    code, _, errors = call("label", "run", "--read", "s.csv")
    assert (code, "s.csv" in errors, "column annotator" in errors) == (1, True, True)
    assert "--annotator" in errors
    assert said() == []
    call("label", "run", "--out", "s.jsonl")
    fill("s.jsonl", {})
    rows = load_sheet("s.jsonl")
    rows[3]["annotator"] = "Dr. Weiß"
    write_rows("s.jsonl", *rows)
    assert "12 new labels" in call("label", "run", "--read", "s.jsonl")[1]
    assert {row.annotator for row in stored_labels(Path("run"))} == {"Dr. Weiß"}


def test_changed_and_withdrawn_labels_are_reported(run: Run, call: Call) -> None:
    """Three changed cells, two emptied cells, and a page file older than the sheet."""
    call("label", "run", "--out", "s.jsonl", "--annotator", "ann")
    assert {row["annotator"] for row in load_sheet("s.jsonl")} == {"ann"}
    fill("s.jsonl", {}, when="2026-01-01T00:00:00Z")
    Path("s.jsonl").rename("page.jsonl")
    call("label", "run", "--out", "s.jsonl", "--annotator", "ann")
    fill("s.jsonl", {})
    call("label", "run", "--read", "s.jsonl")
    fill(
        "s.jsonl",
        {**dict.fromkeys(["Fact 1.", "Fact 2.", "Fact 3."], 0), "Fact 4.": None, "Fact 5.": None},
    )
    names = ("new", "changed", "withdrawn", "known", "older", "undecidable", "unlabelled")
    zero = dict.fromkeys(names, 0)
    for sheet, counts in (
        ("s.jsonl", {"changed": 3, "withdrawn": 2, "known": 7}),
        ("page.jsonl", {"known": 7, "older": 3}),
    ):
        counted = json.loads(call("label", "run", "--read", sheet, "--json")[1])[sheet]
        assert counted == {**zero, **counts, "unlabelled": counted["unlabelled"], "remarks": []}


def test_disputed_statements_are_listed_and_settled(run: Run, call: Call) -> None:
    """Ann says 1 to all 12; bob differs on 4: 67 % agreement is too low.

    Carol says 0 to these 4, so the mean is 8/12.
    """
    assert "no statement has" in call("show", "run", "--labels")[1]
    assert call("label", "run", "--disputed") == (
        0,
        "no disputed statement remains to be settled\n",
        "",
    )
    call("label", "run", "--out", "s.jsonl")
    for name, labels in (("ann", {}), ("bob", {f"Fact {n}.": 0 for n in range(4)})):
        fill("s.jsonl", labels, annotator=name)
        call("label", "run", "--read", "s.jsonl")
    assert metric(call)["corrected"]["mean"] is None
    assert "settle the 4 disputed statements first" in " ".join(call("show", "run")[1].split())
    output = call("show", "run", "--labels")[1]
    assert output.count("ann 1, bob 0") == 4
    assert "4 disputed statements: localjudge label run --disputed" in " ".join(output.split())
    page = ("--page", "d.html", "--language", "es")
    assert call("label", "run", "--disputed", "--out", "d.jsonl", *page)[0] == 0
    assert "Qué hay que hacer" in Path("d.html").read_text(encoding="utf-8")
    assert "bob" not in Path("d.html").read_text()
    fill("d.jsonl", {}, human=0, annotator="carol")
    assert "4 new labels" in call("label", "run", "--read", "d.jsonl")[1]
    rows = json.loads(call("show", "run", "--labels", "--json")[1])
    assert rows[0] | {"text": "", "sample_id": ""} == {
        **{"sample_id": "", "metric": "context_recall", "position": 0, "text": ""},
        **{"answers": {"ann": 1, "bob": 0}, "human": 0, "adjudicator": "carol"},
    }
    assert metric(call)["corrected"]["mean"] == pytest.approx(8 / 12)
    assert json.loads(call("label", "run", "--disputed", "--json", "--out", "d2.csv")[1]) == {
        "rows": 0
    }
    assert call("show", "run", "s0", "--labels")[0] == 1


def test_verdicts_that_differ_from_labels_are_listed_surest_first(run: Run, call: Call) -> None:
    """0.9 and 0.2 for facts labelled the other way: 0.4 and 0.3 from the threshold of 0.5."""
    assert "no verdict differs" in call("show", "run", "--disagree")[1]
    call("label", "run", "--out", "s.jsonl")
    fill(
        "s.jsonl",
        {"Fact 1.": 0, "Fact 3.": 1, **{f"Fact {n}.": 0 for n in (0, 6, 9)}},
        annotator="ann",
    )
    call("label", "run", "--read", "s.jsonl")
    output = call("show", "run", "--disagree")[1]
    assert [line.split()[-1] for line in output.splitlines() if "Fact" in line] == ["1.", "3."]
    rows = json.loads(call("show", "run", "--disagree", "--json")[1])
    assert [(row["text"], row["label"], row["human"], row["annotators"]) for row in rows] == [
        ("Fact 1.", 1, 0, "ann"),
        ("Fact 3.", 0, 1, "ann"),
    ]
    shown = json.loads(call("show", "run", "s1", "--json")[1])["verdicts"]
    assert [(row["human"], row["annotators"]) for row in shown] == [(0, "ann")]
    assert "differs from human label 0 by ann" in call("show", "run", "s1")[1]


@pytest.mark.engine
def test_labelling_resumes_after_a_full_disk(run: Run, call: Call) -> None:
    """Files are limited to 2 KiB; 12 rows take 5 KiB."""
    call("label", "run", "--out", "s.jsonl", "--annotator", "ann")
    fill("s.jsonl", {})
    command = [sys.executable, "-m", "localjudge", "label", "run", "--read", "s.jsonl"]
    limited = ["bash", "-c", 'ulimit -f 2; exec "$@"', "bash", *command]
    done = subprocess.run(limited, capture_output=True, text=True, check=False)
    assert (done.returncode, "free disk space" in done.stderr) == (
        4,
        True,
    ), done.stderr
    assert said() == []
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert len(said()) == 12


def test_show_puts_the_corrected_mean_first(run: Run, call: Call) -> None:
    """Then the means of judge and labels, and the annotators; without labels, how to label."""
    assert "next: localjudge label run\n" in call("show", "run")[1]
    call("label", "run", "--out", "s.jsonl")
    fill("s.jsonl", {"Fact 1.": 0, "Fact 2.": 0})
    call("label", "run", "--read", "s.jsonl", "--annotator", EVIL)
    code, output, errors = call("show", "run", "--details")
    assert (code, set("\x1b\x07\u202e") & set(output + errors)) == (0, set())
    table = [line.split() for line in output.splitlines()]
    at = next(number for number, row in enumerate(table) if row[:1] == ["context_recall"])
    assert [row[:2] for row in (table[at], table[at + 1][1:])] == [
        ["context_recall", "0.833"],
        ["only", "0.667"],
    ]
    # 6 of the 10 statements with label 1 are judged 1, and neither of the other two 0.
    counted = "gives 1 to 6 of 10 statements labelled 1, and 0 to 0 of 2 labelled 0"
    assert counted in " ".join(output.split())


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("label", "none", "--out", "s.csv"), "none contains no run"),
        (("label", "run"), "no terminal"),
        (("label", "run", "--language", "de"), "--language is"),
        (("label", "run", "--minutes", "5"), "No such option"),
        (("label", "run", "--metrics", "context_recal"), "did you mean context_recall"),
        (("label", "run", "--json"), "prints no JSON"),
        (("label", "run", "--sample", "0"), "Invalid value for '--sample'"),
        (
            ("label", "run", "--seed", str(10**18), "--out", "s.csv"),
            "seed must have at most 18 digits",
        ),
        (
            ("label", "run", "--disputed", "--sample", "5", "--out", "s.csv"),
            "exclude each other",
        ),
        (("label", "run", "--out", "there.csv"), "already exists"),
        (("label", "run", "--out", "sheet.txt"), "is not a sheet"),
        (("label", "run", "--read", "run"), "none of the 0 labels"),
        (("label", "run", "--read", "s.csv", "--sample", "5"), "--sample"),
        (("label", "run", "--read", "s.csv", "--out", "t.csv"), "--out"),
        (("label", "run", "--read", "s.csv", "--disputed"), "--disputed"),
        (("show", "run", "s0", "--by", "x"), "SAMPLE and --by exclude each other"),
        (("show", "run", "s0", "--worst", "3"), "--worst"),
        (("show", "run", "--by", "x", "--worst", "3"), "--worst"),
        (("show", "run", "--disagree", "--worst", "10"), "--worst"),
    ],
)
def test_impossible_requests_are_explained(
    run: Run, call: Call, arguments: tuple[str, ...], problem: str
) -> None:
    Path("there.csv").write_text("labels of a week")
    code, _, errors = call(*arguments)
    assert (code, problem in errors) == (1, True), errors
    assert not Path("run/labels.jsonl").exists()
    assert Path("there.csv").read_text() == "labels of a week"


def test_evidence_is_in_a_sheet_on_request(run: Run, call: Call) -> None:
    """`Fact 3.` shares no word with `It is 3.` except the number, which is the closest sentence."""
    assert call("label", "run", "--show-evidence", "--out", "s.jsonl")[0] == 0
    rows = load_sheet("s.jsonl")
    assert {row["evidence_seen"] for row in rows} == {"shown"}
    fill("s.jsonl", {})
    output = call("label", "run", "--read", "s.jsonl", "--annotator", "ann")[1]
    shown = " ".join(output.split())
    assert "closest sentences open for 12 of 12 labels (shown at once for 12)" in shown


def test_a_run_without_evidence_cannot_show_it(
    run: Run, call: Call, scripted_run: ScriptedRun
) -> None:
    places = '"closest": [['
    scripted_run("bare", ROWS, SCRIPT, metrics=["context_recall"], no_evidence=True)
    code, _, errors = call("label", "bare", "--show-evidence", "--page", "p.html")
    assert code == 1
    assert "no evidence to show" in errors
    assert "--no-evidence" in errors
    assert not Path("p.html").exists()
    assert call("label", "bare", "--page", "p.html")[0] == 0
    assert places not in Path("p.html").read_text(encoding="utf-8")
    assert call("label", "run", "--page", "p.html")[0] == 0
    assert places in Path("p.html").read_text(encoding="utf-8")


def test_a_finished_drawing_suggests_the_next_step(call: Call, run: Run) -> None:
    """Draw more, or name the annotator."""
    call("label", "run", "--sample", "2", "--out", "s.jsonl")
    fill("s.jsonl", {})
    call("label", "run", "--read", "s.jsonl", "--annotator", "ann")
    assert "--sample" in call("label", "run", "--sample", "2", "--out", "more.csv")[2]
    call("label", "run", "--out", "all.jsonl")
    fill("all.jsonl", {})
    assert "ann labelled" in call("label", "run", "--read", "all.jsonl")[2]


def test_useless_labelling_is_announced_first(call: Call, scripted_run: ScriptedRun) -> None:
    """Too few samples, or scores that are not shares of verdicts."""
    scripted_run("few", ROWS[:9], {}, metrics=["context_recall"])
    assert "context_recall: fewer than 10 samples" in call("label", "few", "--out", "few.csv")[2]
    scripted_run("ranks", ROWS, {}, metrics=["context_precision", "context_recall"])
    named = call("label", "ranks", "--metrics", "context_precision", "--out", "ranks.csv")[2]
    assert re.search("context_precision: .*not shares", named)
    assert call("label", "ranks", "--out", "shares.csv")[2] == ""


@contextmanager
def in_a_terminal(*arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run the command in a pseudo-terminal; yield the process and its controlling descriptor."""
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "localjudge", *arguments]
    process = subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True
    )
    os.close(terminal)
    try:
        yield process, controller
    finally:
        process.kill()
        process.wait()
        os.close(controller)


def seen(controller: int, words: str) -> str:
    text = ""
    while words not in text:
        ready, _, _ = select.select([controller], [], [], 30)
        assert ready, text
        text += os.read(controller, 65_536).decode()
    return text


@pytest.mark.engine
def test_one_key_labels_in_a_real_terminal_and_a_kill_loses_no_label(
    scripted_run: ScriptedRun,
) -> None:
    """Arrow keys and Home send digits, which must not count. Killed after two labels."""
    rows = [{**row, "user_input": EVIL, "retrieved_contexts": [EVIL]} for row in ROWS]
    scripted_run("run", rows, SCRIPT, metrics=["context_recall"])
    with in_a_terminal("label", "run", "--sample", "6", "--annotator", "ann") as (
        process,
        controller,
    ):
        assert "\x1b[2J" not in seen(controller, "0 of 6 answered")
        os.write(controller, b"\x1b[1~")
        os.write(controller, b"1")
        seen(controller, "1 of 6 answered")
        os.write(controller, b"0")
        assert "\\x1b[2J" in seen(controller, "2 of 6 answered")
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert said() == [1, 0]
    with in_a_terminal("label", "run", "--sample", "6", "--annotator", "ann") as (
        process,
        controller,
    ):
        seen(controller, "2 of 6 answered")
        os.write(controller, b"u")
        seen(controller, "nothing to undo")
        os.write(controller, b"?")
        seen(controller, "3 of 6 answered")
        os.write(controller, b"x1us0q")
        text = seen(controller, "next: ")
        assert "4 of 6 answered, stored in" in text
        assert "2 left: " in text
        assert process.wait(timeout=60) == 0
    assert said() == [1, 0, "?", 1, None, 0]
    rows_kept = stored_labels(Path("run"))
    assert {(row.annotator, row.way) for row in rows_kept} == {("ann", "terminal")}
    # 1 was undone and its statement postponed, so 0 labels the next one.
    assert rows_kept[3].key == rows_kept[4].key != rows_kept[5].key
    with second_opinion(Run.open(Path("run")), "bob", 6) as bob:
        answer_all(bob)
    with in_a_terminal("label", "run", "--disputed", "--annotator", "carol") as (
        process,
        controller,
    ):
        seen(controller, "0 of 2 answered")
        os.write(controller, b"10")
        assert "2 of 2 disputed statements settled" in seen(controller, "next: ")
        assert process.wait(timeout=60) == 0


@pytest.mark.engine
def test_evidence_opened_before_an_interrupt_is_remembered(run: Run) -> None:
    options = ("label", "run", "--sample", "3", "--annotator", "ann")
    with in_a_terminal(*options) as (process, controller):
        seen(controller, "q quit")
        os.write(controller, b"e")
        seen(controller, "closest sentences by their words")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 4
    with in_a_terminal(*options) as (process, controller):
        seen(controller, "q quit")
        os.write(controller, b"1q")
        assert process.wait(timeout=60) == 0
    rows = stored_labels(Path("run"))
    assert [row.evidence_seen for row in rows if row.human is not None] == ["opened"]


@pytest.mark.engine
def test_a_key_shows_the_evidence_in_a_terminal(run: Run) -> None:
    with in_a_terminal("label", "run", "--sample", "3", "--annotator", "ann") as (
        process,
        controller,
    ):
        first = seen(controller, "q quit")
        assert "by their words" not in first
        assert "e closest sentences" in first
        os.write(controller, b"e")
        seen(controller, "closest sentences by their words")
        os.write(controller, b"1")
        assert "by their words" not in seen(controller, "1 of 3 answered")
        os.write(controller, b"1q")
        assert process.wait(timeout=60) == 0
    with in_a_terminal(
        "label", "run", "--sample", "3", "--annotator", "ann", "--show-evidence"
    ) as (
        process,
        controller,
    ):
        seen(controller, "closest sentences by their words")
        os.write(controller, b"0")
        assert process.wait(timeout=60) == 0
    rows = stored_labels(Path("run"))
    assert [row.evidence_seen for row in rows] == ["opened", None, "shown"]


@pytest.mark.engine
def test_a_terminal_is_asked_for_the_annotator_of_a_sheet(run: Run, call: Call) -> None:
    call("label", "run", "--out", "s.jsonl")
    fill("s.jsonl", {})
    with in_a_terminal("label", "run", "--read", "s.jsonl") as (process, controller):
        seen(controller, "name of the annotator")
        os.write(controller, b"Dr. Wu\n")
        seen(controller, "12 new labels")
        assert process.wait(timeout=60) == 0
    assert {row.annotator for row in stored_labels(Path("run"))} == {"Dr. Wu"}
    with in_a_terminal("label", "run", "--sample", "2", "--seed", "5") as (process, controller):
        text = seen(controller, "next: ")
    assert "(login name)" in text
    assert "--annotator NAME" in text
