"""`compare`, `show`, `report` and `verify` with the directory of a comparison."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Call, write_rows

pytestmark = pytest.mark.engine

RAIN = "It rains in Rome."
KING = "The king lives in Paris."


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six rows: the baseline scores 0, the run 1."""
    import localjudge

    rows = []
    for number in range(6):
        texts = {"user_input": f"Where {number}?", "retrieved_contexts": [RAIN]}
        rows.append({"id": f"q{number}", **texts, "old": KING, "new": RAIN, "topic": number % 2})
    folder = tmp_path_factory.mktemp("made") / "cmp"
    mapping = {"response": "new"}
    how: dict[str, Any] = {
        "judge": "lexical",
        "metrics": ["faithfulness"],
        "threads": 1,
        "progress": False,
    }
    localjudge.evaluate_pair(rows, "old", mapping=mapping, out=folder, **how)
    return folder


@pytest.fixture(autouse=True)
def comparison(made: Path, folder: Path) -> None:
    shutil.copytree(made, folder / "cmp")


def test_compare_takes_both_runs_from_the_directory(call: Call) -> None:
    code, output, _ = call("compare", "cmp", "--moved", "0")
    assert code == 0
    assert "+1.000" in output
    assert "localjudge label cmp" in output
    assert output.split()[:6] == ["A:", "old,", "the", "baseline;", "B:", "new"]
    _, one, _ = call("compare", "cmp", "--json")
    _, two, _ = call("compare", "cmp/old", "cmp/new", "--json")
    assert json.loads(one) == json.loads(two)
    code, output, _ = call("compare", "cmp", "--by", "topic")
    assert code == 0
    assert "3/3" in output


def test_report_has_both_runs_and_verify_checks_it(call: Call) -> None:
    code, output, _ = call("report", "cmp")
    assert code == 0
    assert "cmp/new/report.html" in output
    code, output, _ = call("verify", "cmp", "--quiet")
    assert code == 0
    assert output.count("bit-identical") == 2
    assert "report.html: unchanged" in output
    shutil.move("cmp", "elsewhere")
    code, output, _ = call("verify", "elsewhere", "--quiet", "--sample", "1")
    assert code == 0
    assert "report.html: unchanged" in output


def test_verify_compares_a_data_file_with_both_runs(call: Call) -> None:
    """`made` has rows in memory, so no bytes to compare. One question is changed."""
    rows = []
    for number in range(6):
        texts = {"user_input": f"Where {number}?", "retrieved_contexts": [RAIN]}
        rows.append({"id": f"q{number}", **texts, "old": KING, "new": RAIN, "topic": number % 2})
    write_rows("data.jsonl", *rows)
    code, output, _ = call("verify", "cmp", "--quiet", "--data", "data.jsonl")
    assert code == 0
    assert output.count("data.jsonl: gives the 6 samples") == 2
    write_rows("data.jsonl", *rows[1:], {**rows[0], "user_input": "Who?"})
    code, output, _ = call("verify", "cmp", "--quiet", "--data", "data.jsonl")
    assert code == 3
    assert output.count("1 of 6") == 2
    assert output.count("bit-identical") == 2


@pytest.mark.parametrize("changed", ["old", "new"])
def test_verify_ends_with_the_worse_of_both_results(call: Call, changed: str) -> None:
    scores = Path("cmp") / changed / "scores.jsonl"
    scores.write_text(scores.read_text().replace('"q1"', '"q9"'))
    code, output, _ = call("verify", "cmp", "--json")
    assert code == 3
    values = json.loads(output)
    assert values.pop("labels")["problems"] == []
    results = {role: value["result"] for role, value in values.items()}
    expected = dict.fromkeys(("baseline", "run"), "bit-identical")
    expected["baseline" if changed == "old" else "run"] = "different"
    assert results == expected


def test_show_has_the_difference_or_one_sample_of_both(call: Call) -> None:
    code, output, _ = call("show", "cmp", "--worst", "1")
    assert code == 0
    assert "+1.000" in output
    assert output.count("1.000, was 0.000") == 1
    code, output, _ = call("show", "cmp", "q2", "--metrics", "faithfulness")
    assert code == 0
    assert KING in output
    assert RAIN in output
    _, output, _ = call("show", "cmp", "--json")
    assert json.loads(output)["samples"]["by_id"] == 6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compare", "cmp/old"], "--against"),
        (["compare", "cmp", "cmp/old"], "cmp/new"),
        (["compare", "cmp/old", "cmp"], "cmp/new"),
        (["compare", "missing"], "--against"),
        (["report", "cmp", "--baseline", "cmp/old"], "--baseline"),
        (["show", "cmp", "--details"], "--details"),
        (["show", "cmp", "--disagree"], "--disagree"),
        (["show", "cmp", "q1", "--json"], "--json"),
        (["export", "cmp", "--format", "csv"], "cmp/new"),
        (["calibrate", "cmp"], "cmp/new"),
    ],
)
def test_what_is_about_one_run_names_the_two(call: Call, arguments: list[str], words: str) -> None:
    code, _, errors = call(*arguments)
    assert code == 1
    assert words in errors


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"schema_version": 1, "baseline": "../x", "run": "new"}']
)
@pytest.mark.parametrize("command", ["compare", "report", "show", "verify"])
def test_damaged_comparison_is_an_input_error(call: Call, command: str, content: str) -> None:
    Path("cmp/comparison.json").write_text(content)
    code, _, errors = call(command, "cmp")
    assert code == 1
    assert "comparison.json" in errors


@pytest.mark.parametrize("command", ["compare", "report", "show", "verify"])
def test_missing_run_inside_is_an_input_error(call: Call, command: str) -> None:
    shutil.rmtree("cmp/old")
    code, _, errors = call(command, "cmp")
    assert code == 1
    assert "cmp/old contains no run" in errors
    assert "comparison.json" in errors
    assert "did you mean" not in errors


def test_run_into_the_directory_of_a_comparison_is_refused(call: Call) -> None:
    write_rows("data.jsonl", {"retrieved_contexts": [RAIN], "response": RAIN})
    code, _, errors = call("run", "data.jsonl", "--judge", "lexical", "--out", "cmp")
    assert code == 1
    assert "cmp" in errors


def test_certificate_of_the_difference(call: Call) -> None:
    arguments = ("report", "cmp", "--certificate", "page.html")
    code, output, _ = call(*arguments, "--language", "de", "--gate", "faithfulness.delta>=-0.2")
    assert code == 0
    assert "page.html" in output
    assert "faithfulness.delta>=-0.2" in output
    page = Path("page.html").read_text()
    assert "old" in page
    assert "Paare" in page
    code, _, _ = call(*arguments, "--gate", "faithfulness.delta<=0")
    assert code == 3
    for options in (["--baseline", "cmp/old"], ["--out", "x.html"]):
        code, _, errors = call(*arguments, *options)
        assert code == 1
        assert options[0] in errors
    code, _, errors = call("report", "cmp", "--certificate", "cmp/labels.jsonl")
    assert code == 1
    assert "labels.jsonl" in errors


def test_labels_of_two_metrics_are_for_one_and_the_next_step_names_it(call: Call) -> None:
    """Both metrics read the answers; `faithfulness` comes second in the alphabet."""
    rows = []
    for number in range(12):
        texts = {"user_input": f"Where {number}?", "retrieved_contexts": [f"{RAIN} {number}"]}
        answers = {"old": f"{KING} {number}", "new": f"{RAIN} {number}", "reference": RAIN}
        rows.append({"id": f"q{number}", **texts, **answers})
    write_rows("data.jsonl", *rows)
    metrics = "answer_relevancy,faithfulness"
    mapped = ("--map", "response=new", "--against", "old", "--metrics", metrics)
    code, output, errors = call("run", "data.jsonl", "--judge", "lexical", *mapped, "--out", "two")
    assert code == 0, errors
    assert "label two --metrics faithfulness" in output
    code, _, errors = call("label", "two", "--out", "sheet.csv")
    assert code == 0
    sheet = Path("sheet.csv").read_text(encoding="utf-8")
    assert sheet.count("faithfulness") >= 12
    assert "answer_relevancy" not in sheet
    assert "these labels are for faithfulness" in errors


def test_remarks_on_the_data_of_two_columns_are_shown_once(call: Call) -> None:
    """All rows have one question; A has thinking in two answers, B in three."""
    rows = []
    for number in range(6):
        old = f"{'<think>So.</think> ' if number < 2 else ''}{KING}"
        new = f"{'<think>So.</think> ' if number < 3 else ''}{RAIN}"
        answers = {"old": old, "new": new, "note": f"n{number}"}
        rows.append({"user_input": "Where?", "retrieved_contexts": [RAIN], **answers})
    write_rows("data.jsonl", *rows)
    mapped = ("--map", "response=new", "--against", "old", "--metrics", "faithfulness")
    code, _, errors = call("run", "data.jsonl", "--judge", "lexical", *mapped, "--out", "two")
    assert code == 0
    text = " ".join(errors.split())
    assert text.count("1 different question") == 1
    assert "2 responses (column old)" in text
    assert "3 responses (column new)" in text


def test_commands_on_two_runs_name_the_next_step(call: Call) -> None:
    label = ("label", "cmp", "--out", "sheet.jsonl")
    assert call(*label)[0] == 0
    rows = [json.loads(line) for line in Path("sheet.jsonl").read_text().splitlines()]
    for row in rows:
        row["human"] = int(row["text"] == RAIN)
    Path("sheet.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, output, errors = call("label", "cmp", "--read", "sheet.jsonl", "--annotator", "ann")
    assert code == 0, errors
    assert "next: localjudge" in output
    code, output, _ = call("verify", "cmp", "--quiet")
    assert code == 0
    assert "next: localjudge" in output
    code, _, errors = call("show", "cmp", "--labels")
    assert code == 1
    assert "label cmp --disputed" in errors
