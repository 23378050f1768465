"""The bench's table says what its figures are made of, whatever there is of it."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from benchmark.measurements import Measurement, append
from benchmark.ratio_table import NAMES, markdown, progress_line, rows

OURS = Measurement(
    "house", "ab" * 32, 94, 2, 8192, "localjudge 1", "ours", "short", "a", "done", 2.0, 4, 311, verdicts=4, peak_mib=400
)
ROOT = Path(__file__).resolve().parents[2]
BENCH = [sys.executable, str(ROOT / "scripts" / "bench")]
MARKS = "<!-- scripts/bench -->\n{}<!-- end of scripts/bench -->\n"
SECOND = replace(OURS, sample="b", seconds=6.0)
JOINT = replace(OURS, way="joint", seconds=12.0, verdicts=2, generated=300)
ENDLESS = replace(JOINT, sample="b", outcome="not done", seconds=108.0, verdicts=0)


def test_a_ratio_is_over_the_samples_that_both_have_done() -> None:
    """Ours took 2 s for 4 verdicts of a, .5 each; the joint answer 12 s for 2, 6 each: 12 times ours. b is left out."""
    ours, joint = rows([OURS, SECOND, JOINT, ENDLESS])
    assert joint.times == pytest.approx(12)
    assert joint.seconds == pytest.approx(6)
    assert ours.times == 1
    assert ours.seconds == pytest.approx((2 + 6) / (4 + 4))
    assert joint.remark == "not done after 108 s"
    assert (len(joint.done), joint.samples) == (1, 2)


def test_the_rows_of_what_is_not_there_are_left_out_and_ratios_without_ours_too() -> None:
    [joint] = rows([JOINT])
    assert (joint.times, joint.seconds) == (None, 6)
    assert rows([]) == []
    assert markdown([]) == ""


def test_an_answer_without_a_verdict_has_no_ratio() -> None:
    mute = replace(JOINT, verdicts=0)
    _, joint = rows([OURS, mute])
    assert (joint.times, joint.seconds, joint.remark) == (None, None, "no verdict")


def test_the_markdown_has_a_column_for_each_judge_and_both_contexts_in_a_cell() -> None:
    """Ours in seconds, .5 and 2 a verdict; 6 / .5 = 12 times; none of the long ones done."""
    long = {"context": "long", "prompt_tokens": 1642}
    large = replace(OURS, judge="large", mib=1066, sha256="cd" * 32)
    measured = [
        large,
        *(OURS, JOINT, replace(OURS, seconds=8.0, **long)),  # type: ignore[arg-type]
        replace(JOINT, outcome="not done", seconds=120.0, verdicts=0, **long),  # type: ignore[arg-type]
    ]
    assert markdown(measured).splitlines() == [
        "| | house, 94 MiB | large, 1,066 MiB |",
        "|---|---|---|",
        "| ours, seconds a verdict | 0.50 / 2.00 | 0.50 / - |",
        "| one chat completion for all statements | x 12.0 / not done after 120 s | - |",
        "",
        "short contexts: prompts of 311 tokens, 1 sample of 4 statements; "
        "long contexts: prompts of 1,642 tokens, 1 sample of 4 statements; 2 threads, localjudge 1.",
    ]


def test_a_partial_row_says_so_in_markdown_too() -> None:
    assert "| x 12.0 (1 of 2) / - |" in markdown([OURS, SECOND, JOINT, ENDLESS])


def test_a_file_is_named_safely() -> None:
    """A judge is called by its file, and a failure may quote what a model wrote: no control sequence, no new column."""
    hostile = replace(OURS, judge="a|b\x1b[31m", outcome="failed", why="\x1b]0;x\x07")
    assert "\x1b" not in markdown([hostile]) + progress_line(hostile)
    assert "a\\|b" in markdown([hostile])


def test_the_table_goes_between_the_marks_of_a_page_and_nothing_else_changes(tmp_path: Path) -> None:
    """Twice, so that an old table is replaced; a page without marks is refused, and left as it is."""
    page, file, marks = tmp_path / "page.md", tmp_path / "bench.jsonl", MARKS.format("old\n")
    page.write_text(f"before\n{marks}after\n", encoding="utf-8")
    append(file, OURS)
    for _ in range(2):
        subprocess.run([*BENCH, "--table", str(file), "--into", str(page)], check=True, capture_output=True)
        assert page.read_text(encoding="utf-8") == f"before\n{MARKS.format(markdown([OURS]) + chr(10))}after\n"
    page.write_text("no marks", encoding="utf-8")
    refused = subprocess.run([*BENCH, "--table", str(file), "--into", str(page)], check=False, capture_output=True)
    assert refused.returncode == 1
    assert page.read_text(encoding="utf-8") == "no marks"


def test_the_page_on_speed_shows_a_table_of_the_bench() -> None:
    """Between the marks, with rows that are called as the bench calls them."""
    begin, end = MARKS.split("{}")
    table = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8").partition(begin)[2].partition(end)[0]
    names = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines() if line.startswith("| ")][1:]
    assert names[0] == f"{NAMES['ours']}, seconds a verdict"
    assert set(names[1:]) == set(NAMES.values()) - {NAMES["ours"]}
