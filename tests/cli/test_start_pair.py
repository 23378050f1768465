"""`localjudge start` with two columns that may be the answer: one system, or A against B."""

import csv
import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from localjudge import Run
from localjudge.cli.start_folder import StartFolder
from localjudge.config import read_config
from localjudge.run_directory.comparison_directory import ComparisonDirectory
from localjudge.run_directory.label_rows import stored_labels
from tests.cli.conftest import Call
from tests.cli.test_start_command import commands_in, talk, write_page_labels

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("home")]

FACT = "Station {n} was opened in the year {year}."
QUESTION = "Which column is the question? [1]"
TEXTS = "Which columns are the texts that were found? One or several [2]"
SYSTEMS = "One system (1), or two systems, A against B (2)? [2]"
OLD = "Which column is the answer of A, the system to compare with? [3]"
NEW = "Which column is the answer of B, the new system? [4]"
RIGHT_ANSWER = "Which column is the right answer, written by a person? [none]"
ID = "Which column is the id of a row? [none]"
DEFAULTS: dict[str, str | None] = dict.fromkeys(
    (SYSTEMS, QUESTION, TEXTS, OLD, NEW, RIGHT_ANSWER, ID), ""
)


@pytest.fixture(autouse=True)
def data(folder: Path) -> None:
    """Twenty rows: A is wrong in every second, B is right; the judge compares words."""
    write_rows([n % 2 == 0 for n in range(20)])


def write_rows(are_wrong: Sequence[bool], right: str = FACT) -> None:
    """Write a row for each answer of A, which is wrong or right; B has the fact."""
    with Path("data.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "passages", "answer_a", "answer_b"])
        for n, is_wrong in enumerate(are_wrong):
            fact = FACT.format(n=n, year=1950 + n)
            old = right.format(n=n, year=1950 + n)
            if is_wrong:
                old = f"Kinder may not enter station {n}."
            writer.writerow([f"When was station {n} opened?", fact, old, fact])


def test_two_systems_go_to_a_corrected_difference() -> None:
    """Ten statements of A are wrong, and no statement of B is asked that A has, too."""
    arguments = ("start", "data.csv", "--judge", "lexical")
    code, output, dialogue = talk(*arguments, answers=DEFAULTS)
    assert code == 0, dialogue
    assert read_config("runs/data/localjudge.toml").arguments["against"] == "answer_a"
    assert ComparisonDirectory.find("runs/data/run") is not None
    assert "Judge only in faithfulness: +" in output
    ran = commands_in(output)
    page = "label runs/data/run --metrics faithfulness --sample 50 --page runs/data/labels.html"
    assert page in ran
    assert "report runs/data/run" in ran
    assert "label 20 statements" in " ".join(output.split())
    assert "localjudge start data.csv --labels FILE" in " ".join(output.split())
    write_page_labels(Path("runs/data/labels.html"), "labels-ann.jsonl")
    code, output, dialogue = talk("start", "data.csv", "--labels", "labels-ann.jsonl", answers={})
    assert code == 0, dialogue
    assert "label runs/data/run --read labels-ann.jsonl" in commands_in(output)
    assert "by 20 labels of 1 person" in " ".join(output.split())
    assert "next: localjudge" in output


def test_one_system_of_two_columns_is_still_possible() -> None:
    answers: dict[str, str | None] = {
        SYSTEMS: "1",
        QUESTION: "",
        TEXTS: "",
        "Which column is the answer of your system?": "4",
        RIGHT_ANSWER: "",
        ID: "",
    }
    code, _, dialogue = talk("start", "data.csv", "--judge", "lexical", answers=answers)
    assert code == 0, dialogue
    assert "against" not in read_config("runs/data/localjudge.toml").arguments
    assert ComparisonDirectory.find("runs/data/run") is None


def write_columns(headings: list[str], rows: int = 20) -> None:
    """Write a question, texts, and the answers of A and B, under these headings."""
    with Path("data.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(headings)
        for n in range(rows):
            fact = f"Die Station {n} wurde im Jahr {1950 + n} am Rand der Stadt eröffnet."
            old = fact if n % 2 else f"Kinder dürfen die Station {n} nicht betreten."
            writer.writerow([f"Wann wurde die Station {n} eröffnet?", fact, old, fact])


@pytest.mark.parametrize(
    "headings",
    [
        None,
        ["Frage", "Fundstelle", "Antwort 1", "Antwort 2"],
        ["question", "contexts", "old system", "new system"],
    ],
)
def test_without_a_terminal_it_prints_commands_for_two_systems(
    call: Call, output: Callable[..., str], headings: list[str] | None
) -> None:
    """Each printed command is run; the last ones have the difference and the page of both."""
    if headings:
        write_columns(headings)
    code, printed, errors = call("start", "data.csv", "--judge", "lexical")
    assert code == 1, errors
    assert not Path("runs").exists()
    steps = [shlex.split(line)[1:] for line in printed.splitlines()]
    names = [step[0] for step in steps]
    expected = "run doctor run label label compare report verify report"
    assert names == expected.split()
    for step in steps:
        if step[0] == "doctor":
            continue
        if "--read" in step:
            write_page_labels(Path("runs/data/labels.html"), "labels-NAME.jsonl")
        printed = output(*step)
        if step[0] == "compare":
            assert "by 20 labels of 1 person" in " ".join(printed.split())
    assert "B is better than A" in Path("runs/data/certificate.html").read_text(encoding="utf-8")
    comparison = ComparisonDirectory.open("runs/data/run")
    assert (comparison.run_path / "report.html").exists()
    assert Run.open(comparison.run_path).summary.samples == 20


@pytest.mark.parametrize(
    ("headings", "answers"),
    [
        (
            ["question", "passages", "old system", "new system"],
            {
                "Several columns may be the answer: old system, new system\r\n" + SYSTEMS: "",
                **DEFAULTS,
            },
        ),
        (
            ["question", "passages", "answer", "remark"],
            {
                QUESTION: "",
                TEXTS: "",
                "Which column is the answer of your system? [3]": "3,4",
                RIGHT_ANSWER: "",
                ID: "",
            },
        ),
    ],
)
def test_two_columns_are_two_systems_where_their_names_do_not_say_so(
    headings: list[str], answers: dict[str, str | None]
) -> None:
    write_columns(headings)
    answers.pop(SYSTEMS, None)
    code, _, dialogue = talk("start", "data.csv", "--judge", "lexical", answers=answers)
    assert code == 0, dialogue
    stored = read_config("runs/data/localjudge.toml").arguments
    assert stored["against"] == headings[2]
    assert stored["mapping"]["response"] == headings[3]


def test_without_a_terminal_and_an_answer_it_names_the_options(call: Call) -> None:
    """The texts are not similar: only one is long."""
    rows = [["question", "passages", "mark", "remark"]]
    for n in range(5):
        rows.append(
            [f"When {n}?", f"In {n} it was opened.", str(n), f"It was said in {n} that so."]
        )
    Path("data.csv").write_text("\n".join(map(",".join, rows)), encoding="utf-8")
    code, printed, errors = call("start", "data.csv", "--judge", "lexical")
    assert code == 1
    assert "--map response=COLUMN" in errors
    assert "--against" in errors
    assert "--against" not in printed


def answer_two_systems() -> None:
    """Store the answers to the questions."""
    mapping = {
        "user_input": "question",
        "retrieved_contexts": "passages",
        "response": "answer_b",
    }
    answers = {"mapping": mapping, "against": "answer_a", "judge": "lexical"}
    StartFolder.find(["data.csv"], None).write_config({**answers, "metrics": ["faithfulness"]})


def test_changed_data_are_compared_again_with_the_labels_of_the_first_comparison(
    call: Call,
) -> None:
    """One answer changes, so 19 of 20 labels count for the second comparison."""
    answer_two_systems()
    assert call("start", "data.csv")[0] == 0
    write_page_labels(Path("runs/data/labels.html"), "labels-ann.jsonl")
    assert call("start", "data.csv", "--labels", "labels-ann.jsonl")[0] == 0
    text = Path("data.csv").read_text(encoding="utf-8")
    text = text.replace("Kinder may not enter station 4.", "Kinder may enter station 4 at noon.")
    Path("data.csv").write_text(text, encoding="utf-8")
    code, printed, errors = call("start", "data.csv")
    assert code == 0, errors
    assert read_config("runs/data/localjudge.toml").arguments["against"] == "answer_a"
    assert "19 in runs/data/run/answer_a" in printed  # by the estimate before the run
    second = ComparisonDirectory.open("runs/data/run-2")
    assert "label runs/data/run-2 --read runs/data/run" in commands_in(printed)
    assert len({row.key for row in stored_labels(second.path)}) == 19
    assert "label 1 more statement" in " ".join(printed.split())
    write_page_labels(Path("runs/data/labels-2.html"), "labels-last.jsonl")
    code, printed, _ = call("start", "data.csv", "--labels", "labels-last.jsonl")
    assert code == 0
    assert "by 20 labels of 1 person" in " ".join(printed.split())


def test_disputed_statements_of_both_are_settled_by_a_page(call: Call) -> None:
    """Bob contradicts ann on 12 of 20 statements, and eve settles them as ann has said."""
    answer_two_systems()
    assert call("start", "data.csv")[0] == 0
    page = Path("runs/data/labels.html")
    write_page_labels(page, "ann.jsonl")
    write_page_labels(page, "bob.jsonl", "bob")
    rows = [json.loads(line) for line in Path("bob.jsonl").read_text().splitlines()]
    for row in rows[:12]:
        row["human"] = 1 - row["human"]
    Path("bob.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, printed, errors = call(
        "start", "data.csv", "--labels", "ann.jsonl", "--labels", "bob.jsonl"
    )
    assert code == 0, errors
    text = " ".join(printed.split())
    disputed = Path("runs/data/disputed-12.html")
    assert "12 disputed statements" in text
    assert f"label runs/data/run --metrics faithfulness --disputed --page {disputed}" in text
    assert "`localjudge label runs/data/run --disputed`" in text
    assert "label runs/data/run --disputed" in call("compare", "runs/data/run")[1]
    write_page_labels(disputed, "eve.jsonl", "eve")
    code, printed, errors = call("start", "data.csv", "--labels", "eve.jsonl")
    assert code == 0, errors
    text = " ".join(printed.split())
    assert "B is better in faithfulness" in text
    assert "disputed" not in text


def test_an_undecided_difference_can_be_certified_as_it_is(call: Call) -> None:
    """Sixty statements in other words, 30 of each system; 3 of A are wrong, and 40 have labels."""
    write_rows([n < 3 for n in range(30)], "{year} it was, for {n}.")
    answer_two_systems()
    assert call("start", "data.csv")[0] == 0
    write_page_labels(Path("runs/data/labels.html"), "labels-ann.jsonl", count=40)
    code, printed, errors = call("start", "data.csv", "--labels", "labels-ann.jsonl")
    assert code == 0, errors
    text = " ".join(printed.split())
    assert "Not decided in faithfulness" in text
    assert "localjudge report runs/data/run --certificate" in text
    page = Path("runs/data/run/answer_b/report.html").read_text()
    assert "About the judge" not in page
    assert call("verify", "runs/data/run")[0] == 0
    assert call("report", "runs/data/run", "--certificate", "certificate.html")[0] == 0
    assert "means by the judge only" in " ".join(call("compare", "runs/data/run")[1].split())
