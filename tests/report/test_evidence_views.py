"""Evidence in the terminal and on the page of a run."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import printed_lines
from playwright.sync_api import expect

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.engine.scripted import unit_text
from localjudge.report.sample_views import misplaced_citation
from localjudge.report.worst_samples import static_samples
from localjudge.types import VerdictRequest
from tests.report.conftest import Open, PageReader

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


def answer(request: VerdictRequest) -> float:
    """Support the first statement, except by what it cites."""
    is_cited = len(str(request.path).split("Black Forest")) == 2
    if "rises" in unit_text(request) and not is_cited:
        return 0.9
    return 0.1


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """The first statement is supported, except by what it cites; the second is not supported."""
    return evaluate(
        [SAMPLE],
        metrics=["faithfulness", "citation_support"],
        out=tmp_path / "run",
        engine=ScriptedEngine(answer),
    )


def shown(run: Run, metric: str) -> str:
    """The lines below the score of a metric."""
    lines = printed_lines("show", run, "danube", "--metrics", metric)
    start = next(at for at, line in enumerate(lines) if line.startswith(f"danube: {metric}"))
    return " ".join(" ".join(lines[start:]).split())


def test_show_prints_the_evidence_below_its_statement(run: Run) -> None:
    output = shown(run, "faithfulness")

    assert f"Black Forest evidence [2] 1.000 {RISES}" in output
    assert re.search(rf"Alps closest, not supporting \[1\] 0\.\d+ {re.escape(ENDS)}", output)


def test_show_says_where_a_wrong_citation_has_its_evidence(run: Run) -> None:
    output = shown(run, "citation_support")

    assert output.count("cited [1], closest in [2]") == 1


def evidence_row(run: Run, **columns: Any) -> Any:
    values = {
        "sample_id": "s",
        "metric": "citation_support",
        "source": "response",
        "source_index": None,
        "index": 0,
        "position": 0,
        "rank": 1,
        "context": 0,
        "start": 0,
        "end": 3,
        "text": "Ulm",
        "score": 0.9,
        "supports": True,
        "cited": False,
    }
    row = next(row for verdict in run.verdicts for row in verdict.evidence)
    return replace(row, **{**values, **columns})


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([{"context": 1, "cites": ("1",), "name": "2"}], "cited [1], closest in [2]"),
        ([{"context": 1, "cites": ("1", "3"), "name": "2"}], "cited [1], [3], closest in [2]"),
        ([{"context": 1, "cites": (), "name": "2"}], "cites nothing, closest in [2]"),
        (
            [
                {"context": 9, "cites": ("1",), "name": "10"},
                {"context": 1, "cites": ("1",), "name": "2", "rank": 2},
            ],
            "cited [1], closest in [2], [10]",
        ),
        (
            [
                {"context": 0, "cites": ("1",), "name": "1", "cited": True, "supports": False},
                {"context": 1, "cites": ("1",), "name": "2", "rank": 2},
            ],
            "cited [1], closest in [2]",
        ),
        ([{"cites": ("1",), "name": "1", "cited": True, "supports": False}], None),
        ([], None),
    ],
)
def test_a_misplaced_citation_in_words(
    run: Run, rows: list[dict[str, Any]], expected: str | None
) -> None:
    verdict = next(row for row in run.verdicts if row.label == 0)
    evidence = tuple(evidence_row(run, **columns) for columns in rows)

    assert misplaced_citation(replace(verdict, evidence=evidence)) == expected


def test_a_supported_citation_is_not_misplaced(run: Run) -> None:
    """The judge accepts what the statement cites, so another sentence elsewhere is no remark."""
    verdict = next(row for row in run.verdicts if row.label == 1)
    row = evidence_row(run, context=1, cites=("1",), name="2")

    assert misplaced_citation(replace(verdict, evidence=(row,))) is None


def test_a_page_with_and_without_javascript_says_the_same_of_each_sentence(tmp_path: Path) -> None:
    """Two contexts that are not cited have the same sentence; the citation is misplaced once."""
    sample = {**SAMPLE, "retrieved_contexts": [ENDS, RISES, f"It is long. {RISES}"]}
    run = evaluate(
        [sample],
        metrics=["citation_support"],
        out=tmp_path / "run",
        engine=ScriptedEngine(answer),
    )
    page = PageReader(run.report().read_text(encoding="utf-8"))

    (details,) = page.unpacked("details")
    sentences = details["metrics"]["citation_support"]["evidence"][0]
    with_script = [words for _, _, _, _, words, _ in sentences]
    [static] = static_samples(run, [1])
    links = static["metrics"][0]["verdicts"][0]["links"]
    assert with_script == [link["words"] for link in links]
    assert with_script[0] == "cited [1], closest in [2], [3]"
    assert with_script[1].startswith("closest, not cited [3] ")


@pytest.mark.engine
def test_hostile_ids_stay_text(tmp_path: Path, open_page: Open) -> None:
    """An id is foreign text, which a citation quotes in the terminal and on the page."""
    name = "x1\u202e\x1b[2J<img>"
    contexts = [{"id": "a1", "text": ENDS}, {"id": name, "text": RISES}]
    samples = [{**SAMPLE, "retrieved_contexts": contexts, "response": f"{RISES[:-1]} [a1]."}]
    run = evaluate(
        samples,
        metrics=["citation_support"],
        out=tmp_path / "run",
        engine=ScriptedEngine({}, default=0.1),
    )

    output = shown(run, "citation_support")
    assert "cited [a1], closest in [x1\\u202e\\x1b[2J<img>]" in output
    page = open_page(run.report())
    page.get_by_text("Where does the Danube rise?").first.click()
    link = page.get_by_role("link", name=re.compile("closest in"))
    expect(link).to_contain_text("[x1\\u202e\\x1b[2J<img>]")


def test_a_matrix_has_the_evidence_of_each_text_that_supports(tmp_path: Path) -> None:
    """The sentence is in both contexts, the other statement in none."""
    contexts = [f"{RISES} It is long.", f"It is wide. {RISES}"]
    reference = f"{RISES} The Danube is wide and blue."
    samples = [{"id": "danube", "retrieved_contexts": contexts, "reference": reference}]
    answers = {RISES: 0.9}
    engine = ScriptedEngine(answers, default=0.1)
    run = evaluate(samples, metrics=["matrix_recall"], out=tmp_path / "run", engine=engine)

    output = shown(run, "matrix_recall")
    assert f"{RISES} evidence [1] 1.000 {RISES} evidence [2] 1.000 {RISES}" in output
    assert output.count("closest, not supporting") == 1


def test_a_matrix_names_evidence_in_the_reference(tmp_path: Path) -> None:
    samples = [{**SAMPLE, "reference": "The Danube rises in the Black Forest."}]
    engine = ScriptedEngine({}, default=0.9)
    run = evaluate(samples, metrics=["noise_sensitivity"], out=tmp_path / "run", engine=engine)

    assert f"evidence ref. 1.000 {RISES}" in shown(run, "noise_sensitivity")


@pytest.fixture
def run_without_evidence(tmp_path: Path) -> Run:
    engine = ScriptedEngine({}, default=0.9)
    out = tmp_path / "without"
    return evaluate([SAMPLE], metrics=["faithfulness"], out=out, engine=engine, no_evidence=True)


def test_show_of_a_run_without_evidence_prints_none(run_without_evidence: Run) -> None:
    assert "evidence" not in shown(run_without_evidence, "faithfulness")


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
def test_the_page_of_a_run_without_evidence_has_no_links(
    run_without_evidence: Run, open_page: Open
) -> None:
    page = open_page(run_without_evidence.report())
    page.get_by_text("Where does the Danube rise?").first.click()

    expect(page.locator("mark").first).to_be_visible()
    expect(page.locator(".evidence")).to_have_count(0)
