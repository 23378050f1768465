"""The page of a run without JavaScript: the worst samples, with links to their evidence."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.engine.scripted import unit_text
from localjudge.report.worst_samples import static_samples
from localjudge.types import VerdictRequest
from tests.report.conftest import HOSTILE, PageReader

RISES = "The Danube rises in the Black Forest."
ENDS = "The Rhine ends in the Netherlands."
SAMPLE: dict[str, Any] = {
    "id": "danube",
    "user_input": "Where does it rise?",
    "retrieved_contexts": [ENDS, f"It is long. {RISES} It is blue."],
    "response": f"{RISES} The Rhine ends in the Alps.",
}


def judge(request: VerdictRequest) -> float:
    return 0.1 if "Alps" in unit_text(request) else 0.9


def judged(out: Path, *samples: dict[str, Any], **how: Any) -> Run:
    metrics = how.pop("metrics", ["faithfulness"])
    rows = list(samples) or [SAMPLE]
    return evaluate(rows, metrics=metrics, out=out, engine=ScriptedEngine(judge), **how)


def join_texts(sample: dict[str, Any]) -> dict[int, str]:
    texts: dict[int, str] = {}
    for number, parts in sample["contexts"]:
        texts[number] = "".join(text.unescape() for text, _ in parts)
    return texts


def all_links(sample: dict[str, Any]) -> list[dict[str, Any]]:
    links: list[dict[str, Any]] = []
    for verdict in sample["metrics"][0]["verdicts"]:
        links += verdict["links"]
    return links


def test_each_anchor_is_the_sentence_of_its_link(tmp_path: Path) -> None:
    [sample] = static_samples(judged(tmp_path / "run"), [1])

    anchors: dict[str | None, str] = {}
    for _, parts in sample["contexts"]:
        for text, anchor in parts:
            anchors[anchor] = text.unescape()
    links = all_links(sample)
    assert [anchors[link["anchor"]] for link in links] == [link["quote"] for link in links]
    assert [link["quote"] for link in links] == [RISES, ENDS]
    assert join_texts(sample) == {1: ENDS, 2: SAMPLE["retrieved_contexts"][1]}


@pytest.mark.parametrize(("before", "after"), [(0, 0), (20, 20), (20_000, 0), (0, 20_000)])
def test_of_a_long_context_only_the_neighbourhood_is_shown(
    tmp_path: Path, before: int, after: int
) -> None:
    """At most 300 characters on each side, and a sign for what is left out."""
    context = "Snow fell. " * before + RISES + " Snow fell." * after
    run = judged(tmp_path / "run", {**SAMPLE, "retrieved_contexts": [context]})
    [sample] = static_samples(run, [1])

    shown = join_texts(sample)[1]
    assert RISES in shown
    assert len(shown) <= len(RISES) + 2 * 300 + len("... ") + len(" ...")
    assert shown.startswith("... ") is (11 * before > 300)
    assert shown.endswith(" ...") is (11 * after > 300)
    assert shown.removeprefix("... ").removesuffix(" ...") in context


def test_two_distant_sentences_have_a_gap_between_them(tmp_path: Path) -> None:
    context = f"{RISES} {'Snow fell. ' * 200}{ENDS}"
    run = judged(tmp_path / "run", {**SAMPLE, "retrieved_contexts": [context]})
    [sample] = static_samples(run, [1])

    [(_, parts)] = sample["contexts"]
    before, first, between, second, after = (text for text, _ in parts)
    assert (before, first, second, after) == ("", RISES, ENDS, "")
    assert between.count("...") == 1
    assert len(between) == 2 * 300 + len("... ")


def test_evidence_in_the_reference_has_no_anchor(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", {**SAMPLE, "reference": RISES}, metrics=["answer_correctness"])
    [sample] = static_samples(run, [1])

    links = all_links(sample)
    assert links
    assert {link["anchor"] for link in links} == {None}
    assert sample["contexts"] == []


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    text = " ".join(HOSTILE)
    row = {**SAMPLE, "retrieved_contexts": [text], "response": text, "user_input": text}
    html = judged(tmp_path / "run", row).report().read_text(encoding="utf-8")

    tags = {tag for tag, _ in PageReader(html).elements}
    assert "img" not in tags
    assert not re.search("[\x1b\u202e\u2028\u2066]", html)


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Page:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(judged(tmp_path / "run").report().as_uri())
    return page


@pytest.mark.engine
def test_a_link_marks_the_sentence_without_a_script(page: Page) -> None:
    expect(page.get_by_text("which did not run here")).to_contain_text("/run SAMPLE")
    link = page.get_by_role("link", name="evidence [2] 1.000")
    link.focus()
    page.keyboard.press("Enter")
    target = page.locator("mark:target")
    expect(target).to_have_text(RISES)
    expect(target).to_be_in_viewport()
    assert target.evaluate("mark => getComputedStyle(mark).outlineStyle") == "solid"


@pytest.mark.engine
def test_the_closest_sentence_stands_beside_without_a_script(page: Page) -> None:
    item = page.locator("article li", has_text="Alps")
    expect(item.locator("q")).to_have_text(ENDS)
    expect(item.get_by_role("link")).to_have_text(re.compile("closest, not supporting"))


@pytest.mark.engine
def test_with_a_script_they_are_not_shown(browser: Browser, tmp_path: Path) -> None:
    page = browser.new_context().new_page()
    page.goto(judged(tmp_path / "run").report().as_uri())
    expect(page.locator("html[data-ready]")).to_have_count(1)
    expect(page.locator("article")).to_have_count(0)
