"""The report of a labelled run: disputed statements, and human labels next to the verdicts."""

import json
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from command_line import printed, printed_lines
from human_labels import answer_all, second_opinion
from playwright.sync_api import Page, expect

from localjudge import Run, ScriptedEngine, evaluate
from tests.report.conftest import EVIL, HOSTILE, Open, PageReader

ANSWERS = {"It rains.": (1, 1), "It snows.": (1, 0), "It is red.": (0, 0), "It pours.": (0, 0)}
"""Of ann and of bob."""


def answer(run: Run, annotator: str) -> None:
    with second_opinion(run, annotator) as labelling:
        number = ("ann", "bob").index(annotator)
        answer_all(labelling, lambda text: ANSWERS.get(text, (1, 0))[number])


@pytest.fixture(scope="module")
def labelled_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Ann and bob label all statements of four samples; they differ on three of six, two hostile.

    The judge differs on two more, with a probability of 0.7 and 0.95.
    """
    rows = [
        {
            "id": "first",
            "user_input": "Rain?",
            "retrieved_contexts": ["Rain."],
            "reference": "It rains. It snows.",
        },
        {
            "id": "second",
            "user_input": "Red?",
            "retrieved_contexts": ["Red."],
            "reference": "It is red.",
        },
        {
            "id": "third",
            "user_input": "Rain?",
            "retrieved_contexts": ["Rain."],
            "reference": "It pours.",
        },
        {
            "id": "evil",
            "user_input": "?",
            "retrieved_contexts": ["x"],
            "reference": f"{EVIL[:-1]} {HOSTILE[2]}.",
        },
    ]
    script: dict[str, float | str] = {
        "It rains.": 0.9,
        "It snows.": 0.8,
        "It is red.": 0.7,
        "It pours.": 0.95,
    }
    engine = ScriptedEngine(script, default=0.1)
    run = evaluate(
        rows,
        engine=engine,
        metrics=["context_recall"],
        out=tmp_path_factory.mktemp("labelled"),
    )
    verdicts = (run.directory / "verdicts.jsonl").read_bytes()
    for annotator in ("ann", "bob"):
        answer(run, annotator)
    assert (run.directory / "verdicts.jsonl").read_bytes() == verdicts
    return run


def read(path: Path) -> PageReader:
    return PageReader(path.read_text())


def test_the_report_lists_disputed_statements_with_all_answers(
    labelled_run: Run, tmp_path: Path
) -> None:
    page = read(labelled_run.report(tmp_path / "open.html"))
    _, heading, disputes = " ".join(page.text.split()).partition(
        "Statements on which annotators differ"
    )
    assert heading
    assert "It snows. first, context_recall ann 1, bob 0 no" in disputes
    assert ("It rains." in disputes, "It is red." in disputes) == (False, False)
    assert (HOSTILE[2] in disputes, "\\x1b[2J" in disputes) == (True, True)
    assert not [attrs for tag, attrs in page.elements if tag == "script" and "type" not in attrs]


def test_exported_verdicts_have_human_label_and_annotators(
    labelled_run: Run, run: Run, tmp_path: Path
) -> None:
    rows = labelled_run.to_pandas("verdicts")
    assert rows["human"].dropna().tolist() == [1, 0, 0]
    assert set(rows["annotators"]) == {"ann, bob"}
    for each in (labelled_run, run):
        exported = each.export(tmp_path / f"{each.directory.name}.jsonl", rows="verdicts")
        values = [json.loads(line) for line in exported.read_text().splitlines()]
        assert {"human", "annotators"} <= values[0].keys()
        assert [row["human"] for row in values[:4]] == (
            [1, None, 0, 0] if each is labelled_run else [None] * 4
        )
    assert run.to_polars("verdicts")["human"].to_list() == [None] * len(run.verdicts)


def test_a_sample_shows_the_human_label_of_each_verdict(labelled_run: Run) -> None:
    lines = printed_lines("show", labelled_run, "first")
    assert "1 0.900  It rains.  (human label 1 by ann, bob)" in lines
    assert "1 0.800  It snows.  (annotators differ: ann 1, bob 0)" in lines
    assert "1 0.700  It is red.  (differs from human label 0 by ann, bob)" in printed_lines(
        "show", labelled_run, "second"
    )


def test_disagreements_begin_with_the_surest_judge(labelled_run: Run) -> None:
    """0.95 is 0.45 above the threshold, 0.7 is 0.2. Disputed statements have no label."""
    verdicts = json.loads(printed("show", labelled_run, "--disagree", "--json"))
    assert [row["text"] for row in verdicts] == ["It pours.", "It is red."]
    lines = printed_lines("show", labelled_run, "--disagree")
    rows = [line.split() for line in lines[2:4]]
    assert [row[:7] for row in rows] == [
        ["third", "context_recall", "1", "0.950", "0", "by", "ann,"],
        ["second", "context_recall", "1", "0.700", "0", "by", "ann,"],
    ]


def test_a_run_without_labels_has_no_disagreements(run: Run) -> None:
    lines = printed_lines("show", run, "--disagree")
    assert lines == ["no verdict differs from a human label"]


def test_the_distribution_of_scores_names_the_judge(labelled_run: Run) -> None:
    assert "by the judge 4 0 0" in " ".join(read(labelled_run.report()).text.split())


def ids(page: Page) -> list[str]:
    return page.locator(".opener .id").all_inner_texts()


@pytest.mark.engine
def test_the_page_lists_the_samples_on_which_judge_and_annotator_disagree(
    open_page: Open, labelled_run: Run
) -> None:
    """By keyboard. The order follows the filter, can be changed, and returns with it."""
    page = open_page(labelled_run.report())
    assert len(ids(page)) == 4
    choice = page.get_by_label("Human labels")
    choice.focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("status")).to_have_text(
        r"2 of 4 samples. context_recall: 2 scored, 0 undefined, 0 failed, mean 1.000 by the judge,"
        r" expected 0.825",
    )
    assert ids(page) == ["third", "second"]
    assert page.get_by_label("Order").input_value() == "surest"
    page.get_by_label("Order").select_option("data")
    assert ids(page) == ["second", "third"]
    page.locator(".opener").first.press("Enter")
    expect(page.locator(".human.differs")).to_have_text("differs from human label 0 by ann, bob")
    choice.focus()
    page.keyboard.press("ArrowUp")
    assert (len(ids(page)), page.get_by_label("Order").input_value()) == (4, "worst")


@pytest.mark.engine
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 380])
def test_labels_fit_the_screen_and_are_accessible(
    open_page: Open, labelled_run: Run, scheme: str, width: int
) -> None:
    page = open_page(
        labelled_run.report(), color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    for opener in page.locator(".opener").all():
        opener.click()
    expect(page.locator(".human")).to_have_count(6)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert [rule["id"] for rule in Axe().run(page).response["violations"]] == []
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 680, "height": 900})  # of A4 without margins
    expect(page.get_by_text("Statements on which annotators differ")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 680
