"""`localjudge start` asks a few questions once, judges, and continues with labels when repeated."""

import csv
import json
import os
import pty
import re
import select
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from localjudge import Run, resources
from localjudge.cli.start_folder import StartFolder
from localjudge.config import read_config
from localjudge.doctor.inventory import Inventory, ListedModel
from localjudge.model_registry import registered
from tests.cli.conftest import Call

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("home")]

HEADINGS = ["Frage", "Fundstelle 1", "Fundstelle 2", "Antwort", "Abteilung"]
KNOWN = ["question", "contexts", "reference", "answer"]
QUESTION = "Which column is the question? [1]"
TEXTS = "Which columns are the texts that were found? One or several [2,3]"
ANSWER = "Which column is the answer of your system? [4]"
RIGHT_ANSWER = "Which column is the right answer, written by a person? [none]"
ID = "Which column is the id of a row? [none]"
JUDGE = "Which judge? A number, or a name for --judge [lexical]"
ENTER = ""
DEFAULTS: dict[str, str | None] = dict.fromkeys(
    (QUESTION, TEXTS, ANSWER, RIGHT_ANSWER, ID, JUDGE), ENTER
)


def write_german_csv(path: str, rows: int = 24, changed: str = "") -> None:
    """Write rows as Excel does in German: every second answer is wrong, the last is `changed`."""
    Path(path).parent.mkdir(exist_ok=True)
    with Path(path).open("w", newline="", encoding="cp1252") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(HEADINGS)
        for n in range(rows):
            fact = f"Die Station {n} wurde im Jahr {1950 + n} eröffnet."
            hours = f"Besuch ist auf der Station {n} ab 14 Uhr möglich."
            answer = fact if n % 2 else f"Kinder dürfen die Station {n} nicht betreten."
            is_last = n == rows - 1
            answer = changed if changed and is_last else answer
            writer.writerow([f"Was gilt für die Station {n}?", fact, hours, answer, "Süd"])


def write_known_csv(path: str) -> None:
    """Write 12 rows with known column names."""
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(KNOWN)
        for n in range(12):
            fact = f"Tower {n} opened in {1880 + n}."
            writer.writerow(
                [f"When did tower {n} open?", fact, fact, fact if n % 2 else "Nobody knows."]
            )


def write_page_labels(page: Path, file: str, name: str = "ann", count: int | None = None) -> None:
    """Write the file that a label page saves: 0 for statements about children, else 1."""
    config = re.search(
        r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page.read_text(), re.DOTALL
    )
    assert config
    rows = json.loads(config[1])["rows"][:count]
    lines = []
    for number, row in enumerate(rows):
        decision = {
            key: row[key] for key in ("label_id", "draw", "sample_id", "metric", "position", "text")
        }
        decision |= {"human": int("Kinder" not in row["text"]), "annotator": name}
        decision["when"] = f"2026-01-31T09:{number:02}:00Z"
        lines.append(json.dumps(decision) + "\n")
    Path(file).write_text("".join(lines), encoding="utf-8")


def talk(*arguments: str, answers: dict[str, str | None]) -> tuple[int, str, str]:
    """Answer each question (None: Ctrl-D) in a terminal; return exit code, output and dialogue."""
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "localjudge", *arguments]
    with subprocess.Popen(
        command, stdin=terminal, stdout=subprocess.PIPE, stderr=terminal
    ) as process:
        os.close(terminal)
        dialogue = ""
        waiting = list(answers.items())
        closed = False
        while not closed:
            is_ready = bool(select.select([controller], [], [], 60)[0])
            if not is_ready:
                process.kill()
            assert is_ready, dialogue
            try:
                dialogue += os.read(controller, 65_536).decode()
            except OSError:  # Linux: the other end is closed
                closed = True
            if waiting and dialogue.endswith(f"{waiting[0][0]}: "):
                answer = waiting.pop(0)[1]
                keys = b"\x04"
                if answer is not None:
                    keys = f"{answer}\n".encode()
                os.write(controller, keys)
        os.close(controller)
        assert process.stdout is not None
        output = process.stdout.read().decode()
    assert not waiting, dialogue
    return process.returncode, output, dialogue


def commands_in(printed: str) -> list[str]:
    return [
        line.removeprefix("$ localjudge ") for line in printed.splitlines() if line.startswith("$ ")
    ]


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:

    def listed(*models: ListedModel) -> None:
        inventory = Inventory(models=models, skipped=(), free_bytes=None)
        monkeypatch.setattr("localjudge.cli.start_answers.inventory", lambda: inventory)

    return listed


def listed_model(name: str, sha256: str | None = None) -> ListedModel:
    model = ListedModel(name=name, program="registry", path="x", size=1 << 20, sha256=sha256)
    return model.model_copy(
        update={"context": 8192, "chat_template": False, "needed_bytes": 1 << 20}
    )


def test_from_a_german_export_to_a_corrected_mean(call: Call) -> None:
    """Two calls: the first asks and judges, the second reads the page's file."""
    write_german_csv("export.csv")
    code, printed, dialogue = talk("start", "export.csv", answers=DEFAULTS)
    assert code == 0, dialogue
    assert "  2  Fundstelle 1  Die Station 0 wurde im Jahr 1950 eröffnet." in dialogue
    folder = Path("runs/export")
    config = read_config(folder / "localjudge.toml").arguments
    assert config["mapping"] == {
        "user_input": "Frage",
        "retrieved_contexts": "Fundstelle 1,Fundstelle 2",
        "response": "Antwort",
    }
    assert (config["language"], config["metrics"]) == ("de", ("faithfulness",))
    assert commands_in(printed) == [
        "run --config runs/export/localjudge.toml --dry-run",
        "run --config runs/export/localjudge.toml",
        "label runs/export/run --metrics faithfulness --sample 50 "
        "--page runs/export/labels.html --language de",
        "report runs/export/run",
    ]
    assert printed.endswith("saves: localjudge start export.csv --labels FILE\n")
    assert 'lang="de"' in (folder / "labels.html").read_text(encoding="utf-8")
    assert Run.open(folder / "run").summary.samples == 24
    write_page_labels(folder / "labels.html", "labels-ann.jsonl")
    exit_code, printed, errors = call("start", "export.csv", "--labels", "labels-ann.jsonl")
    assert exit_code == 0, errors
    assert commands_in(printed) == [
        "label runs/export/run --read labels-ann.jsonl",
        "report runs/export/run",
    ]
    labels = Run.open(folder / "run").labels
    assert labels
    assert labels.annotators == {"ann": 24}
    assert labels.corrected["faithfulness"].mean == pytest.approx(0.5)
    assert labels.corrected["faithfulness"].ci95 is not None
    assert "mean by the judge only" in " ".join(printed.split())
    assert printed.endswith(" next: localjudge verify runs/export/run\n")
    assert printed.count("next: ") == 1


def test_each_further_call_names_one_next_command(call: Call) -> None:
    write_german_csv("export.csv")
    answers = {question: answer for question, answer in DEFAULTS.items() if question != JUDGE}
    _, asked, _ = talk("start", "export.csv", "--judge", "lexical", answers=answers)
    assert "8 minutes for labels" in " ".join(asked.split())
    folder = Path("runs/export")
    printed = call("start", "export.csv")[1]
    assert commands_in(printed) == []
    assert "label 24 statements (about 8 minutes)" in printed
    write_page_labels(folder / "labels.html", "elsewhere.jsonl", count=8)
    Path("downloads").mkdir()
    Path("elsewhere.jsonl").rename("downloads/labels-ann.jsonl")
    printed = call("start", "export.csv", "--labels", "downloads/labels-ann.jsonl")[1]
    assert "label 16 more statements (about 5 minutes): open runs/export/labels.html" in printed
    write_page_labels(folder / "labels.html", "runs/export/labels-ann.jsonl")
    printed = call("start", "export.csv", "--labels", "runs/export/labels-ann.jsonl")[1]
    assert printed.endswith(" next: localjudge verify runs/export/run\n")
    assert call("verify", "runs/export/run", "--quiet")[0] == 0
    printed = call("start", "export.csv")[1]
    assert printed.endswith(
        " next: localjudge report runs/export/run --certificate certificate.html\n"
    )
    assert commands_in(printed) == []


def test_changed_data_are_judged_again_with_the_answers_and_labels_of_the_last_run(
    call: Call,
) -> None:
    """Of 24 statements one is new: 23 answers and labels remain, and one statement has no label."""
    write_german_csv("export.csv")
    talk("start", "export.csv", answers=DEFAULTS)
    folder = Path("runs/export")
    write_page_labels(folder / "labels.html", "labels-ann.jsonl")
    call("start", "export.csv", "--labels", "labels-ann.jsonl")
    write_german_csv("export.csv", changed="Die Station hat neun Betten.")
    code, _, errors = call("start", "export.csv")
    assert code == 0, errors
    assert "data changed since runs/export/run" in errors
    run = Run.open(folder / "run-2")
    assert ("reused", 23) in [(origin.kind, origin.count) for origin in run.origins]
    labels = run.labels
    assert labels
    assert labels.statements == 23
    assert (folder / "labels-2.html").exists()


def test_an_interrupted_run_is_resumed_without_questions(call: Call) -> None:
    """The folder has answers and no run, as after Ctrl-C in the dry run."""
    write_german_csv("export.csv")
    mapping = {"user_input": "Frage", "retrieved_contexts": "Fundstelle 1", "response": "Antwort"}
    folder = StartFolder.find(["export.csv"], None)
    folder.write_config({"mapping": mapping, "judge": "lexical", "metrics": ["faithfulness"]})
    code, _, errors = call("start", "export.csv")
    assert code == 0, errors
    assert "Which" not in errors
    assert Run.open("runs/export/run").summary.samples == 24


def test_two_data_files_have_two_folders(call: Call) -> None:
    for name in ("a/data.csv", "b/data.csv"):
        write_german_csv(name)
        folder = StartFolder.find([name], None)
        folder.write_config({"judge": "lexical", "metrics": ["faithfulness"]})
    assert [StartFolder.find([name], None).path.name for name in ("a/data.csv", "b/data.csv")] == [
        "data",
        "data-2",
    ]
    code, _, errors = call("start", "b/data.csv", "--out", "runs/data")
    assert code == 1
    assert "other data" in errors


@pytest.mark.parametrize("judge", ["lexical", "bundled"])
def test_without_a_terminal_it_prints_commands_that_do_the_same(
    models: Callable[..., None],
    call: Call,
    output: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    judge: str,
) -> None:
    """Each printed command is run, and each command that the last one names as the next."""
    monkeypatch.setenv("LOCALJUDGE_JUDGE", judge)
    models()
    write_known_csv("data.csv")
    Path("localjudge.toml").write_text("", encoding="utf-8")
    code, printed, errors = call("start", "data.csv")
    assert code == 1
    assert "in a terminal" in errors
    steps = [shlex.split(line)[1:] for line in printed.splitlines()]
    expected = "run doctor run label label report verify report"
    assert [step[0] for step in steps] == expected.split()
    assert not Path("runs").exists()
    for step in steps:
        if step[0] == "doctor":
            step += ["--probes", "0", "--injections", "0"]
        if "--read" in step:
            write_page_labels(Path("runs/data/labels.html"), "labels-NAME.jsonl")
        output(*step)
    printed = output("show", "runs/data/run")
    following: list[str] = []
    while True:
        [line] = [line for line in printed.splitlines() if line.startswith(" next: ")]
        name, *arguments = shlex.split(line.removeprefix(" next: localjudge "))
        if name in following:
            break
        following.append(name)
        output(name, *arguments)
        printed = output("show", "runs/data/run")
    assert following
    assert {"labels.html", "run"} <= {file.name for file in Path("runs/data").iterdir()}
    assert list(Run.open("runs/data/run")) == ["faithfulness"]


def test_the_default_judge_is_the_first_without_a_caution(
    models: Callable[..., None], call: Call
) -> None:
    write_known_csv("data.csv")
    file = str(resources.bundled_file("models", "lexical.gguf"))
    models(listed_model("lexical", registered()["lexical"].sha256), listed_model(file))
    _, printed, errors = call("start", "data.csv")
    assert "  1  bundled\n" in errors
    assert "  2  lexical (compares words, not for decisions)\n     1 MiB, context 8,192" in errors
    assert f"  3  {file}\n" in errors
    assert f"--judge {shlex.quote(file)} " in printed


def test_without_a_terminal_columns_are_mapped_as_their_names_suggest(call: Call) -> None:
    """As Enter at the question for the texts does in a terminal."""
    lines = "question,text_1,text_2,answer\nWhere?,It is in Ulm.,It is old.,In Ulm.\n"
    Path("data.csv").write_text(lines, encoding="utf-8")
    _, printed, errors = call("start", "data.csv")
    command = printed.splitlines()[0]
    assert "--map retrieved_contexts=text_1,text_2" in command, errors
    assert "--metrics faithfulness" in command


def test_columns_that_are_unclear_are_an_error_without_a_terminal(call: Call) -> None:
    write_german_csv("export.csv")
    code, printed, errors = call("start", "export.csv")
    assert (code, printed, "no column has" in errors) == (1, "", True)


@pytest.mark.parametrize(
    ("question", "bad", "message"),
    [
        (QUESTION, "nan", "'nan' is no column"),
        (QUESTION, "1,2", "got 2"),
        (QUESTION, "6", "'6' is no column"),
        (QUESTION, "-1", "'-1' is no column"),
        (TEXTS, "none", "at least one column"),
        (TEXTS, "2,1", "column Frage was already chosen"),
    ],
)
def test_a_bad_answer_is_asked_again_and_the_end_of_input_is_an_interruption(
    question: str, bad: str, message: str
) -> None:
    write_german_csv("export.csv")
    before: dict[str, str | None] = {} if question == QUESTION else {QUESTION: ENTER}
    again = f"\r\n{question}"
    code, printed, dialogue = talk(
        "start", "export.csv", answers={**before, question: bad, again: None}
    )
    assert (code, printed) == (4, "")
    assert message in dialogue
    assert dialogue.endswith(
        "\r\nlocaljudge: interrupted\r\n  hint: run the same command again to resume\r\n"
    )
    assert not Path("runs").exists()


def test_names_decide_and_two_candidates_have_no_default(call: Call) -> None:
    """Enter at the answer asks again; the number of a row is its id."""
    rows = [
        "Nr;Question;Passage 1;Right answer;Answer system A;Answer system B",
        "hh01;How high is it?;It is 5 m high.;5 m.;It is 5 m.;It is 3 m.",
        "hh02;How old is it?;It is 9 years old.;9 years.;9 years.;8 years.",
    ]
    Path("export.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    answers: dict[str, str | None] = {
        "One system (1), or two systems, A against B (2)? [2]": "1",
        "Which column is the question? [2]": ENTER,
        "One or several [3]": ENTER,
        "Which column is the answer of your system?": ENTER,
        "\r\nWhich column is the answer of your system?": "6",
        "Which column is the right answer, written by a person? [4]": ENTER,
        "Which column is the id of a row? [1]": ENTER,
        JUDGE: ENTER,
    }
    code, _, dialogue = talk("start", "export.csv", answers=answers)
    assert code == 0, dialogue
    mapping = read_config("runs/export/localjudge.toml").arguments["mapping"]
    assert mapping["response"] == "Answer system B"
    assert mapping["reference"] == "Right answer"
    assert mapping["id"] == "Nr"
    assert call("show", "runs/export/run", "hh01")[0] == 0


def test_dropped_evidence_is_named(call: Call) -> None:
    write_german_csv("export.csv")
    answers = {**DEFAULTS, TEXTS: "Fundstelle 1", JUDGE: None}
    dialogue = talk("start", "export.csv", answers=answers)[2]
    assert "column Fundstelle 2 is not used" in dialogue
    assert "the column Abteilung" not in dialogue


def test_another_judge_begins_a_run_with_the_labels_of_the_first(call: Call) -> None:
    """A copy of the judge under another path has the same verdicts; all 24 labels remain."""
    write_german_csv("export.csv")
    mapping = {"user_input": "Frage", "retrieved_contexts": "Fundstelle 1", "response": "Antwort"}
    folder = StartFolder.find(["export.csv"], None)
    folder.write_config({"mapping": mapping, "judge": "lexical", "metrics": ["faithfulness"]})
    assert call("start", "export.csv")[0] == 0
    write_page_labels(Path("runs/export/labels.html"), "labels-ann.jsonl")
    assert call("start", "export.csv", "--labels", "labels-ann.jsonl")[0] == 0
    copy = Path("judge.gguf")
    copy.write_bytes(resources.bundled_file("models", "lexical.gguf").read_bytes())
    code, printed, errors = call("start", "export.csv", "--judge", "judge.gguf")
    assert code == 0, errors
    assert read_config("runs/export/localjudge.toml").arguments["judge"] == str(copy.resolve())
    labels = Run.open("runs/export/run-2").labels
    assert labels
    assert labels.annotators == {"ann": 24}
    assert "label runs/export/run-2 --read runs/export/run" in commands_in(printed)


def test_a_column_with_the_names_of_the_texts_is_not_a_text() -> None:
    """A column `Quelle` with "SOP 100" became a further context of each sample."""
    write_german_csv("named.csv")
    with Path("named.csv").open(newline="", encoding="cp1252") as file:
        first, *rows = csv.reader(file, delimiter=";")
    with Path("named.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow([*first, "Quelle"])
        writer.writerows([*row, f"{n}"] for n, row in enumerate(rows))
    code, _, dialogue = talk("start", "named.csv", answers={QUESTION: ENTER, TEXTS: None})
    assert code != 0
    assert "6 Quelle" in " ".join(dialogue.split())
