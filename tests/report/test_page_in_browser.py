"""The page of a run in a real browser: no requests, keyboard use, and hostile text shown as text.

Needs Chromium, either the system's or the one named by LOCALJUDGE_TEST_CHROMIUM.
"""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from command_line import printed, printed_lines
from playwright.sync_api import Browser, Error, Page, expect

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.words import printable, printable_lines
from tests.analysis.conftest import label
from tests.report.conftest import Open

pytestmark = pytest.mark.engine

UNSAFE = "".join(
    map(
        chr,
        (*range(32), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), 0x2066),
    )
)
HOSTILE = (
    "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 1'>",
    "<a href='javascript:window.owned = 1'>x</a></style><style>*{display:none}</style>",
    "{{ 7 * 7 }} ${window.owned = 1} \x1b[2J\x1b]0;owned\x07 \u202eevil \u2066x",
)


def rows(count: int) -> list[dict[str, Any]]:
    """Sample 0 has no statement attributed, sample 1 one of two, sample 2 none ..."""
    return [
        {
            "id": f"sample {number}",
            "user_input": f"What is {number}?",
            "retrieved_contexts": [f"First of {number}. 😀 Second.", f"Needle {number}."],
            "reference": f"😀 It is {number}. It was {number}.",
            "response": f"Old {number}.",
            "doc": f"document {number % 14}",
        }
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """A baseline of 70 samples without attributions, and a run with half of every other one."""
    out = tmp_path_factory.mktemp("runs")
    metrics = ["context_recall", "context_relevancy_chunk"]
    old = evaluate(
        rows(70), engine=ScriptedEngine({}, default=0.25), metrics=metrics, out=out / "old"
    )
    attributed = {f"😀 It is {number}.": 0.75 for number in range(1, 70, 2)}
    script: dict[str, float | str] = {**attributed, "It was 3.": "it does not fit"}
    new = [{**row, "response": f"New {at}."} for at, row in enumerate(rows(70))]
    options: dict[str, Any] = {"metrics": metrics, "cluster_by": "doc", "max_failed": 1}
    return old, evaluate(
        new, engine=ScriptedEngine(script, default=0.25), out=out / "new", **options
    )


@pytest.fixture(scope="module")
def report(runs: tuple[Run, Run]) -> Path:
    return runs[1].report()


@pytest.fixture(scope="module")
def compared(runs: tuple[Run, Run]) -> Path:
    """The report of the new run with enough labels for one metric, and too few for the other."""
    old, new = runs
    run = Run.open(shutil.copytree(new.directory, new.directory.with_name("labelled")))
    for metric, count in (("context_recall", 50), ("context_relevancy_chunk", 7)):
        label(run, lambda text: int("It is" in text), n=count, metrics=[metric])
    gates = ["context_recall>=0.9", "context_recall<=0.95", "context_recall.delta>=0"]
    page = run.directory / "compared.html"
    return Run.open(run.directory).report(page, baseline=old, gates=gates, title="New", by="doc")


def ids(page: Page) -> list[str]:
    return page.locator(".opener .id").all_inner_texts()


def opened_sample(page: Page, sample: str) -> Any:
    page.locator(".opener").filter(has_text=sample).first.click()
    details = page.locator("tr.details")
    expect(details.locator(".sample")).to_have_count(1)
    return details


def test_using_the_page_makes_no_requests_and_no_messages(open_page: Open, compared: Path) -> None:
    page = open_page(compared)
    opened_sample(page, "sample 1")
    page.get_by_label("Search").fill("needle 1")
    expect(page.get_by_role("status")).to_have_text(re.compile("^11 of 70 samples"))
    page.get_by_label("Search").fill("")
    expect(page.get_by_role("status")).to_have_text(re.compile("^70 of 70 samples"))
    page.get_by_label("Order").select_option("data")
    assert ids(page) == [f"sample {number}" for number in range(50)]
    page.get_by_role("button", name="Next").click()
    assert ids(page) == [f"sample {number}" for number in range(50, 70)]
    expect(page.get_by_text("51 to 70, page 2 of 2")).to_be_visible()
    expect(page.get_by_role("button", name="Previous")).to_be_focused()


def test_contexts_are_numbered_from_one_on_the_page_and_in_the_terminal(
    open_page: Open, runs: tuple[Run, Run]
) -> None:
    """The report counted from 0, but the label page and citations count from 1."""
    details = opened_sample(open_page(runs[1].report()), "sample 1")
    assert details.locator("ol.contexts").evaluate_all(
        "lists => lists.map(({ start }) => start)"
    ) == [1]
    shown = [
        line.split()[0]
        for line in printed_lines("show", runs[1], "sample 1")
        if "contexts[" in line
    ]
    assert shown == ["retrieved_contexts[1]", "retrieved_contexts[2]"]


def test_blocked_markup_and_requests_are_detected(browser: Browser, report: Path) -> None:
    """The tests for no requests and no messages can therefore fail."""
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(report.as_uri())
    with pytest.raises(Error, match="TrustedHTML"):
        page.evaluate("() => { document.body.innerHTML = '<b>x</b>' }")
    assert (
        page.evaluate("fetch('https://example.org/').then(() => 'sent', () => 'refused')")
        == "refused"
    )
    page.evaluate(
        "document.body.append(Object.assign(new Image(), {src: 'https://example.org/x.png'}))"
    )
    page.close()
    assert [text for text in said if "Content Security Policy" in text]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_accessibility_engine_finds_nothing(
    open_page: Open, compared: Path, scheme: str, width: int
) -> None:
    page = open_page(compared, color_scheme=scheme, viewport={"width": width, "height": 900})
    opened_sample(page, "sample 3")
    violations = Axe().run(page).response["violations"]
    assert {rule["id"]: [node["html"] for node in rule["nodes"]] for rule in violations} == {}


def test_everything_can_be_done_with_the_keyboard(open_page: Open, compared: Path) -> None:
    page = open_page(compared)
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the samples")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Search")).to_be_focused()
    page.get_by_role("button", name="Reset").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    heading = page.get_by_role("columnheader", name="context_recall").last
    expect(heading).to_have_attribute("aria-sort", "ascending")
    page.keyboard.press("Enter")
    expect(heading).to_have_attribute("aria-sort", "descending")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    opener = page.locator(".opener").first
    expect(opener).to_be_focused()
    page.keyboard.press("Space")
    expect(opener).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".sample")).to_have_count(1)
    page.keyboard.press("Tab")
    expect(page.get_by_role("radio", name="context_recall")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("radio", name="context_relevancy_chunk")).to_be_checked()
    opener.press("Enter")
    expect(page.locator(".sample")).to_have_count(0)


def test_every_judged_unit_is_marked_in_its_text(
    open_page: Open, runs: tuple[Run, Run], report: Path
) -> None:
    details = opened_sample(open_page(report), "sample 3")
    verdicts = []
    for row in runs[1].iter_verdicts():
        if (row.sample_id, row.metric) == ("sample 3", "context_recall"):
            verdicts.append(row)
    assert (
        details.locator("mark:not(.evidence)").all_inner_texts()
        == [row.text for row in verdicts]
        == ["😀 It is 3.", "It was 3."]
    )
    assert details.locator("mark.yes").all_inner_texts() == ["😀 It is 3."]
    assert details.locator(".badge").all_text_contents() == [
        "✓verdict 1, probability  0.750",
        "?no verdict",
    ]
    expect(details.locator(".note")).to_have_text("it does not fit")
    details.get_by_role("radio", name="context_relevancy_chunk").check()
    assert details.locator("mark.no").all_inner_texts() == ["First of 3. 😀 Second.", "Needle 3."]
    expect(details.locator(".why")).to_have_text(
        '0 of 2 needed; not needed: "First of 3. 😀 Second." and 1 more'
    )


def test_samples_are_sorted_filtered_and_searched(open_page: Open, report: Path) -> None:
    """Of 70, 34 score 1/2, 35 score 0 and one failed, which comes first."""
    page = open_page(report)
    shown = page.get_by_role("status")
    scored = "context_recall: 69 scored, 0 undefined, 1 failed, mean 0.246 by the judge"
    counts = f"70 of 70 samples. {scored}"
    expect(shown).to_have_text(re.compile(re.escape(counts)))
    assert ids(page)[:3] == ["sample 3", "sample 0", "sample 2"]
    page.get_by_label("Order").select_option("best")
    assert ids(page)[0] == "sample 1"
    page.get_by_label("Score from").fill("0.4")
    expect(shown).to_have_text(re.compile("34 of 70 samples.*mean 0.500 by the judge"))
    page.get_by_role("button", name="Reset").click()
    expect(shown).to_have_text(re.compile("70 of 70"))
    page.get_by_label("Outcome").select_option("failed")
    assert ids(page) == ["sample 3"]
    page.get_by_label("Outcome").select_option("any")
    page.get_by_label("Group").fill("Document 13")
    expect(shown).to_have_text(re.compile("^5 of 70"))
    page.get_by_label("Group").fill("")
    page.get_by_label("Search").fill("NEEDLE 42.")
    expect(shown).to_have_text(re.compile("^1 of 70 samples"))
    assert ids(page) == ["sample 42"]


def test_samples_have_the_order_of_the_terminal(open_page: Open, tmp_path: Path) -> None:
    """One verdict each, .9, .45, .55, .1, .3 and .8: mean .517. Perfect samples are last."""
    p_yes = {"a": 0.9, "b": 0.45, "c": 0.55, "d": 0.1, "e": 0.3, "f": 0.8}
    data = []
    for name in p_yes:
        data.append({"id": name, "retrieved_contexts": ["x"], "response": f"It is {name}."})
    script = {f"It is {name}.": probability for name, probability in p_yes.items()}
    engine = ScriptedEngine(script)
    run = evaluate(data, engine=engine, metrics=["faithfulness"], out=tmp_path / "run")
    worst = json.loads(printed("show", run, "--json", "--worst", "6"))["worst"]
    in_terminal = [score["sample_id"] for score in worst]
    assert in_terminal == ["d", "e", "b"]
    page = open_page(run.report())
    assert ids(page) == [*in_terminal, "c", "f", "a"]
    cell = page.locator("tbody td.score").first
    expect(cell).to_have_text("0.000expected 0.100")
    expect(page.get_by_role("status")).to_have_text(re.compile("mean 0.500 .*expected 0.517"))
    page.get_by_label("Order").select_option("best")
    assert ids(page) == ["a", "f", "c", "b", "e", "d"]


def test_changed_samples_are_shown_side_by_side(open_page: Open, compared: Path) -> None:
    """0 -> 1/2: one of two verdicts flipped, and the response differs."""
    page = open_page(compared)
    assert ids(page)[0] == "sample 1"
    details = opened_sample(page, "sample 1")
    response = details.locator(".field").nth(1)
    assert response.locator("h4").all_inner_texts() == ["Baseline", "This run"]
    assert response.locator(".text").all_inner_texts() == ["Old 1.", "New 1."]
    assert details.locator(".was").all_text_contents() == ["was✗verdict 0, probability  0.250"]
    page.get_by_label("Change").select_option("better")
    expect(page.get_by_role("status")).to_have_text(re.compile("34 of 70 samples"))
    page.get_by_label("Change").select_option("worse")
    assert ids(page) == []


def test_the_worst_samples_are_expanded_in_print(open_page: Open, report: Path) -> None:
    """Ten with their verdicts, the failed one first; the screen stays as it was."""
    page = open_page(report)
    details = opened_sample(page, "sample 3")
    details.get_by_role("radio", name="context_relevancy_chunk").check()
    shown = """() => {
        const nodes = (selector) => [...document.querySelectorAll(`.paper ${selector}`)];
        const texts = (selector) => nodes(selector).map((node) => node.textContent);
        const marks = texts(".sample:first-of-type mark");
        window.printed = [texts("h3").length, texts("h3 bdi")[0], marks];
    }"""
    page.evaluate(f"addEventListener('beforeprint', {shown})")
    page.pdf()
    count, first, marks = page.evaluate("window.printed")
    assert (first, marks[:2]) == ("sample 3", ["😀 It is 3.", "It was 3."])
    assert count == 10 + 10 * 4
    expect(page.locator(".paper")).to_have_count(0)
    expect(details.get_by_role("radio", name="context_relevancy_chunk")).to_be_checked()


@pytest.mark.parametrize("width", [320, 500, 961, 1280])
def test_the_page_fits_the_screen(open_page: Open, compared: Path, width: int) -> None:
    page = open_page(compared, viewport={"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_printed_page_fits_and_has_no_controls(open_page: Open, compared: Path) -> None:
    """A4 has 180 mm between its margins, 680 pixels."""
    page = open_page(compared, viewport={"width": 680, "height": 900})
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    expect(page.get_by_label("Search ids and texts")).to_be_hidden()
    expect(page.get_by_role("img", name="gate at least 0.9").first).to_be_visible()


def test_hostile_text_is_text(open_page: Open, tmp_path: Path) -> None:
    text = " ".join(HOSTILE)
    row = {
        "id": text,
        "user_input": text,
        "retrieved_contexts": [text, "w" * 1_000_000],
        "reference": text,
        "d": text,
    }
    engine = ScriptedEngine({}, default=0.5)
    page = open_page(evaluate([row], engine=engine, out=tmp_path / "run", cluster_by="d").report())
    details = opened_sample(page, "owned")
    foreign = "[...document.links].filter((link) => !link.hash.startsWith('#evidence-')).length"
    assert page.evaluate(f"[window.owned, document.images.length, {foreign}]") == [
        None,
        0,
        1,
    ]
    assert page.locator(".opener .question").inner_text() == printable(text[:200])
    texts = details.locator(".text")
    assert texts.nth(0).inner_text() == printable_lines(text)
    expect(texts.last).to_have_text(re.compile("^w{20000}"))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    details.get_by_role("button", name="Show all 1,000,000 characters").click()
    expect(texts.last).to_have_text(re.compile("^w{1000000}"))


def test_the_page_makes_the_same_characters_visible_as_the_terminal(
    open_page: Open, tmp_path: Path
) -> None:
    text = f"a{'.'.join(UNSAFE)}b 😀 مرحبا"
    row = {"id": "a", "user_input": text, "reference": "x", "retrieved_contexts": ["x"]}
    page = open_page(
        evaluate([row], engine=ScriptedEngine({}, default=0.5), out=tmp_path / "run").report()
    )
    assert page.locator(".opener .question").text_content() == printable(text)
    shown = opened_sample(page, "a").locator(".text").first.text_content()
    assert shown == "\n".join(
        "\t".join(map(printable, line.split("\t"))) for line in text.split("\n")
    )


def test_without_a_script_the_first_screen_is_there(
    open_page: Open, browser: Browser, report: Path
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    expect(page.get_by_role("rowheader", name="context_recall")).to_be_visible()
    expect(page.get_by_text("which did not run here")).to_be_visible()
