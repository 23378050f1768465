"""`localjudge start` asks at most four questions, and does what the printed commands do."""

import csv
import os
import pty
import select
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from localjudge import resources
from localjudge.doctor.machine import Inventory, ListedModel
from localjudge.model_registry import registered
from tests.cli.conftest import Call, write_rows
from tests.cli.test_label_command import sheet_of

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("home")]

HEADINGS = ["Frage", "Fundstelle 1", "Soll", "Ist", "Abteilung"]
KNOWN = ["question", "contexts", "reference", "answer", "department"]
COLUMNS = "user_input=Frage retrieved_contexts='Fundstelle 1' reference=Soll response=Ist"
FILES = ("scores.jsonl", "verdicts.jsonl", "summary.json")


def write_csv(path: str, headings: list[str]) -> None:
    """Write 12 rows, half of the answers wrong."""
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(headings)
        for n in range(12):
            fact = f"Tower {n} opened in {1880 + n}."
            writer.writerow([f"When did tower {n} open?", fact, fact, fact if n % 2 else "Nobody knows.", "IT"])


def talk(*arguments: str, answers: dict[str, str | None]) -> tuple[int, str, str]:
    """Answer each question (None: Ctrl-D) in a terminal; return exit code, standard output and the dialogue."""
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "localjudge", *arguments]
    with subprocess.Popen(command, stdin=terminal, stdout=subprocess.PIPE, stderr=terminal) as process:
        os.close(terminal)
        dialogue, waiting, closed = "", list(answers.items()), False
        while not closed:
            assert select.select([controller], [], [], 60)[0], dialogue
            try:
                dialogue += os.read(controller, 65_536).decode()
            except OSError:  # Linux: the other end is closed
                closed = True
            if waiting and dialogue.endswith((f"{waiting[0][0]}: ", f"{waiting[0][0]}:")):
                answer = waiting.pop(0)[1]
                os.write(controller, b"\x04" if answer is None else f"{answer}\n".encode())
        os.close(controller)
        assert process.stdout is not None
        output = process.stdout.read().decode()
    assert not waiting, dialogue
    return process.returncode, output, dialogue


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:

    def listed(*models: ListedModel) -> None:
        found = Inventory(models=models, skipped=(), free_bytes=None)
        monkeypatch.setattr("localjudge.cli.start.inventory", lambda: found)

    return listed


def listed_model(name: str, sha256: str | None = None) -> ListedModel:
    model = ListedModel(name=name, program="registry", path="x", size=1 << 20, sha256=sha256)
    return model.model_copy(update={"context": 8192, "chat_template": False, "needed_bytes": 1 << 20})


def test_from_unknown_columns_to_a_report_and_a_corrected_mean(output: Callable[..., str]) -> None:
    """Four questions; standard output has the commands and tables. The labels are read by the same command."""
    write_csv("export.csv", HEADINGS)
    answers: dict[str, str | None] = {
        "[none]": COLUMNS,
        "]": "reference",
        "[context_recall,faithfulness,answer_correctness]": "faithfulness",
        "[15]": "5",
    }
    code, printed, dialogue = talk("start", "export.csv", "--out", "run", answers=answers)
    assert code == 0, dialogue
    assert "no column has a known name" in dialogue
    assert "reference (lexical, not for decisions)" in dialogue
    assert "minutes" not in printed.partition("in total")[0]
    steps = [line.removeprefix("$ ") for line in printed.splitlines() if line.startswith("$ ")]
    run = f"localjudge run export.csv --judge reference --metrics faithfulness {mapped(COLUMNS)} --out run"
    label = "localjudge label run --minutes 5 --page run/labels.html"
    assert steps == [f"{run} --dry-run", run, label, "localjudge report run"]
    assert "in total about 5 minutes: about 5 seconds for judging, 5 minutes for labels" in printed
    assert "12 answers in run, which the run uses" in printed
    assert "open run/labels.html in a browser" in printed
    for name in FILES:
        before = Path("run", name).read_bytes()
        output(*shlex.split(run)[1:-1], "same")
        assert Path("same", name).read_bytes() == before
    assert Path("run/report.html").is_file()
    output("label", "run", "--out", "sheet.jsonl", "--annotator", "ann")
    write_rows("run/labels-run.jsonl", *({**row, "human": 1} for row in sheet_of("sheet.jsonl")))
    code, printed, _ = talk("start", "export.csv", "--out", "run", answers=answers)
    assert (code, "12 new labels" in printed) == (0, True)
    assert "$ localjudge label run --read run/labels-run.jsonl\n" in printed
    assert "An annotator checked 12 statements" in Path("run/report.html").read_text()


def mapped(columns: str) -> str:
    return " ".join(f"--map {shlex.quote(pair)}" for pair in shlex.split(columns))


def test_without_a_terminal_it_prints_commands_that_do_the_same(
    models: Callable[..., None], call: Call, output: Callable[..., str]
) -> None:
    models()
    write_csv("data.csv", KNOWN)
    write_rows("localjudge.toml")
    code, printed, errors = call("start", "data.csv")
    assert (code, "start asks its questions in a terminal" in errors) == (1, True)
    steps = [shlex.split(line) for line in printed.splitlines()]
    assert [step[:2] for step in steps] == [
        ["localjudge", name] for name in ("run", "doctor", "run", "label", "report")
    ]
    assert not Path("runs").exists()
    for step in steps:
        if step[1] != "doctor":
            output(*step[1:])
    directory = steps[-1][2]
    assert {"labels.html", "report.html", "summary.json"} <= {file.name for file in Path(directory).iterdir()}


def test_the_default_judge_is_the_first_without_a_caution(models: Callable[..., None], call: Call) -> None:
    write_csv("data.csv", KNOWN)
    file = str(resources.bundled_file("models", "reference-judge.gguf"))
    models(listed_model("reference", registered()["reference"].sha256), listed_model(file))
    _, printed, errors = call("start", "data.csv")
    assert " 1  reference (lexical, not for decisions)\n    1 MiB, context 8,192" in errors
    assert f" 2  {file}\n" in errors
    assert f"--judge {shlex.quote(file)} " in printed


def test_columns_that_are_unclear_are_an_error_without_a_terminal(call: Call) -> None:
    write_csv("export.csv", HEADINGS)
    code, printed, errors = call("start", "export.csv")
    assert (code, printed, "no column has a known name" in errors) == (1, "", True)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (COLUMNS.replace("Soll", "Sol"), "did you mean Soll?"),
        ("reference='Soll", "No closing quotation"),
        ("Soll", "'Soll' is not FIELD=COLUMN, such as reference=gold_answer"),
    ],
)
def test_a_bad_answer_is_asked_again_and_the_end_of_input_is_an_interruption(bad: str, message: str) -> None:
    write_csv("export.csv", HEADINGS)
    again = f"{message}\r\nmore columns, such as reference=gold user_input='the question' [none]"
    code, printed, dialogue = talk("start", "export.csv", answers={"[none]": bad, again: None})
    assert (code, printed) == (4, "")
    assert dialogue.endswith("\r\nlocaljudge: interrupted\r\n  hint: run the same command again to resume\r\n")
