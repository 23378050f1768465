"""Evidence in the terminal and on the page of a run."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.engine.scripted import unit_text
from localjudge.report.sample_views import sample_view
from localjudge.types import VerdictRequest
from tests.report.conftest import Open, lines_of

SAMPLE = {
    "id": "danube",
    "user_input": "Where does the Danube rise?",
    "retrieved_contexts": [
        "The Rhine ends in the Netherlands. It is <b>long</b>.",
        "😀 It is long. The Danube rises in the Black Forest.",
    ],
    "response": "The Danube rises in the Black Forest [1]. The Rhine ends in the Alps [1].",
    "reference": "The Danube is long.",
}
RISES = "The Danube rises in the Black Forest."
ENDS = "The Rhine ends in the Netherlands."


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """The first statement is supported, except by what it cites; the second is not supported."""

    def answer(request: VerdictRequest) -> float:
        is_cited = len(str(request.path).split("Black Forest")) == 2
        if "rises" in unit_text(request) and not is_cited:
            return 0.9
        return 0.1

    return evaluate(
        [SAMPLE],
        metrics=["faithfulness", "citation_support"],
        out=tmp_path / "run",
        engine=ScriptedEngine(answer),
    )


def shown(run: Run, metric: str) -> str:
    """The lines below the score of a metric."""
    lines = lines_of(sample_view(run, "danube", metric=metric))
    start = next(at for at, line in enumerate(lines) if line.startswith(f"danube: {metric}"))
    return " ".join(" ".join(lines[start:]).split())


def test_show_prints_the_evidence_below_its_statement(run: Run) -> None:
    output = shown(run, "faithfulness")

    assert f"Black Forest evidence [2] 1.000 {RISES}" in output
    assert re.search(rf"Alps closest, not supporting \[1\] 0\.\d+ {re.escape(ENDS)}", output)


def test_show_says_where_a_wrong_citation_has_its_evidence(run: Run) -> None:
    output = shown(run, "citation_support")

    assert output.count("not in what it cites, evidence in [2]") == 1


def test_show_of_a_run_without_evidence_prints_none(tmp_path: Path) -> None:
    run = evaluate(
        [SAMPLE],
        metrics=["faithfulness"],
        out=tmp_path / "run",
        engine=ScriptedEngine({}, default=0.9),
        no_evidence=True,
    )

    assert "evidence" not in shown(run, "faithfulness")


@pytest.mark.engine
def test_a_click_or_key_marks_the_evidence_and_moves_there(run: Run, open_page: Open) -> None:
    page = open_page(run.report())
    page.get_by_text("Where does the Danube rise?").first.click()
    marked = page.locator("mark.evidence.shown")
    expect(marked).to_have_count(0)

    page.get_by_text("The Danube rises in the Black Forest", exact=True).first.click()
    expect(marked).to_have_text(RISES)
    expect(marked).to_be_focused()

    page.get_by_role("link", name=re.compile("closest")).press("Enter")
    expect(marked).to_have_count(1)
    expect(marked).to_have_text(ENDS)
    expect(marked).to_be_in_viewport()


@pytest.mark.engine
def test_links_name_an_anchor_and_the_closest_sentence_stands_beside(
    run: Run, open_page: Open
) -> None:
    page = open_page(run.report())
    page.get_by_text("Where does the Danube rise?").first.click()

    for link in page.locator("span.evidence a").all():
        anchor = (link.get_attribute("href") or "").removeprefix("#")
        expect(page.locator(f"[id='{anchor}']")).to_have_count(1)
    expect(page.locator("span.closest q")).to_have_text(ENDS)


@pytest.mark.engine
def test_the_page_of_a_run_without_evidence_has_no_links(tmp_path: Path, open_page: Open) -> None:
    run = evaluate(
        [SAMPLE],
        metrics=["faithfulness"],
        out=tmp_path / "run",
        engine=ScriptedEngine({}, default=0.9),
        no_evidence=True,
    )
    page = open_page(run.report())
    page.get_by_text("Where does the Danube rise?").first.click()

    expect(page.locator("mark").first).to_be_visible()
    expect(page.locator(".evidence")).to_have_count(0)
