"""The label page shows the closest sentences on request, and the downloaded file says so."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from localjudge.labels.label_source import ClosestSentence
from localjudge.report.label_views import write_label_page
from localjudge.report.messages import Messages
from tests.conftest import LANGUAGES
from tests.report.conftest import HOSTILE, Open
from tests.report.test_label_page import begin, downloaded, place, press, row

pytestmark = pytest.mark.engine

NUMBER = 4
WITHOUT = 2
"""Number of the row without evidence, from 0."""
SNOW = "Snow is white."

Write = Callable[..., Path]


def make_sentences(number: int) -> tuple[ClosestSentence, ...]:
    text = row(number)["contexts"][0]
    return (
        ClosestSentence("contexts", 0, 0, len(text), text),
        ClosestSentence("contexts", 1, 0, len(SNOW), SNOW),
    )


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(**how: Any) -> Path:
        rows = [row(number) for number in range(NUMBER)]
        evidence = {}
        for number, columns in enumerate(rows):
            if number != WITHOUT:
                evidence[columns["label_id"]] = make_sentences(number)
        path = tmp_path / "labels.html"
        write_label_page(path, rows, title="Weather", **{"evidence": evidence, **how})
        return path

    return write


def expect_open(page: Page, is_open: bool, marks: int = 2) -> None:
    expect(page.locator("#closest")).to_be_visible(visible=is_open)
    expect(page.locator("#reveal")).to_have_attribute("aria-expanded", str(is_open).lower())
    expect(page.locator("#evidence mark.evidence")).to_have_count(marks if is_open else 0)


def quotes(page: Page) -> list[str]:
    return page.locator("#sentences q").all_inner_texts()


def test_it_is_hidden_until_the_key(open_page: Open, write: Write) -> None:
    page = begin(open_page(write()))
    expect_open(page, False)
    assert quotes(page) == []

    press(page, "e")
    expect_open(page, True)
    assert quotes(page) == [sentence.text for sentence in make_sentences(0)]
    expect(page.locator("#status")).to_have_text("2 closest sentences are shown.")

    press(page, "E")
    expect_open(page, False)
    assert quotes(page) == []


def test_what_the_judge_has_read_is_shown_with_it(open_page: Open, write: Write) -> None:
    page = begin(open_page(write(read={row(0)["label_id"]: f"{HOSTILE}\n{SNOW}"})))
    expect(page.locator("#read-text")).to_have_text("")

    press(page, "e")
    page.locator("#read summary").click()
    expect(page.locator("#read-text")).to_contain_text(SNOW)
    page.keyboard.press("ArrowRight")
    press(page, "e")
    expect(page.locator("#read")).to_be_hidden()


def test_a_statement_without_evidence_has_a_button_for_what_was_read(
    open_page: Open, write: Write
) -> None:
    """The button, the region and the file treat it like closest sentences."""
    read = {row(number)["label_id"]: f"{HOSTILE}\n{SNOW}" for number in (0, WITHOUT)}
    page = begin(open_page(write(read=read)))
    press(page, "11")
    assert place(page).startswith("Statement 3")
    button = page.get_by_role("button", name="What the judge has read e")
    expect(button).to_be_visible()
    expect(page.locator("#read-text")).to_have_text("")

    button.click()
    expect_open(page, True, marks=0)
    expect(page.get_by_role("region", name="What the judge has read")).to_contain_text(SNOW)
    expect(page.locator("#closest")).not_to_contain_text("closest")
    assert quotes(page) == []
    press(page, "1")
    press(page, "e")
    expect(page.locator("#read")).to_be_hidden()
    expect_open(page, True)
    press(page, "1")
    assert seen(page) == [None, None, "opened", "opened"]


def test_a_page_with_only_what_was_read_explains_it(open_page: Open, write: Write) -> None:
    read = {row(0)["label_id"]: SNOW}
    page = open_page(write(evidence={}, read=read))
    assert "e" in page.locator("#start kbd").all_inner_texts()
    assert "closest" not in page.locator("#start").inner_text()
    begin(page)
    press(page, "e")
    expect(page.locator("#read-text")).to_be_visible()
    assert Axe().run(page).response["violations"] == []
    press(page, "1")
    expect(page.locator("#hint")).to_be_hidden()
    assert seen(page) == ["opened"]


def test_the_button_does_the_same(open_page: Open, write: Write) -> None:
    page = begin(open_page(write()))
    button = page.get_by_role("button", name="Closest sentences e")
    button.focus()
    page.keyboard.press("Enter")
    expect_open(page, True)
    expect(button).to_be_focused()
    page.keyboard.press("Space")
    expect_open(page, False)


def test_a_link_moves_to_the_sentence(open_page: Open, write: Write) -> None:
    page = begin(open_page(write()))
    press(page, "e")
    page.get_by_role("link", name="[2]").press("Enter")
    marked = page.locator("mark.evidence.shown")
    expect(marked).to_have_text(SNOW)
    expect(marked).to_be_focused()
    press(page, "1")
    assert place(page).startswith("Statement 2")


def test_the_next_statement_is_closed_again(open_page: Open, write: Write) -> None:
    page = begin(open_page(write()))
    press(page, "e")
    page.keyboard.press("ArrowRight")
    expect_open(page, False)
    page.keyboard.press("ArrowLeft")
    expect_open(page, False)


def test_a_statement_without_evidence_has_no_button(open_page: Open, write: Write) -> None:
    page = begin(open_page(write()))
    press(page, "11")
    assert place(page).startswith("Statement 3")
    expect(page.locator("#hint")).to_be_hidden()
    press(page, "e")
    expect(page.locator("#closest")).to_be_hidden()
    press(page, "1")
    page.locator("#back").click()
    expect(page.locator("#hint")).to_be_hidden()


def seen(page: Page) -> list[str | None]:
    _, labels = downloaded(page)
    return [label.get("evidence_seen") for label in labels]


def test_the_file_says_which_labels_had_it_open(open_page: Open, write: Write) -> None:
    """Opened, then closed before the answer, counts as well: it cannot be unseen."""
    page = begin(open_page(write()))
    press(page, "e1" + "ee0" + "e1" + "1")
    assert seen(page) == ["opened", "opened", None, None]


def test_an_answer_before_opening_is_not_marked(open_page: Open, write: Write) -> None:
    page = begin(open_page(write()))
    press(page, "1")
    page.keyboard.press("ArrowLeft")
    press(page, "e")
    page.keyboard.press("ArrowRight")
    press(page, "101")
    assert seen(page) == [None] * NUMBER


def test_an_answer_again_after_opening_is_marked(open_page: Open, write: Write) -> None:
    page = begin(open_page(write()))
    press(page, "1")
    page.keyboard.press("ArrowLeft")
    press(page, "e1")
    assert seen(page) == ["opened"]


def test_an_undone_answer_returns_to_the_one_before(open_page: Open, write: Write) -> None:
    page = begin(open_page(write()))
    press(page, "1")
    page.keyboard.press("ArrowLeft")
    press(page, "e0u")
    _, [label] = downloaded(page)
    assert label["human"] == 1
    assert "evidence_seen" not in label


def test_a_reload_remembers_what_was_opened(browser: Browser, write: Write) -> None:
    page = browser.new_context().new_page()
    page.goto(write().as_uri())
    begin(page)
    press(page, "e")
    page.reload()
    expect(page.locator("html[data-ready]")).to_have_count(1)
    expect_open(page, False)
    press(page, "1")
    assert seen(page) == ["opened"]
    page.context.close()


def test_another_annotator_has_opened_nothing(open_page: Open, write: Write) -> None:
    page = begin(open_page(write()))
    press(page, "e")
    page.get_by_role("button", name="Change your name").click()
    page.get_by_label("Your name").fill("Bob")
    page.keyboard.press("Enter")
    press(page, "1")
    assert seen(page) == [None]


def test_shown_at_once_it_marks_every_label_with_evidence(open_page: Open, write: Write) -> None:
    page = begin(open_page(write(show_evidence=True)))
    expect(page.locator("#closest")).to_be_visible()
    expect(page.locator("#reveal")).to_be_hidden()
    press(page, "e")
    expect(page.locator("#closest")).to_be_visible()
    press(page, "1" * NUMBER)
    assert seen(page) == ["shown", "shown", None, "shown"]


def test_a_page_without_evidence_does_not_mention_it(open_page: Open, write: Write) -> None:
    page = open_page(write(evidence={}))
    assert "e" not in page.locator("#start kbd").all_inner_texts()
    assert "closest" not in page.locator("#start").inner_text()
    begin(page)
    expect(page.locator("#hint")).to_be_hidden()
    press(page, "e1")
    assert seen(page) == [None]


@pytest.mark.parametrize("field", ["reference", "response"])
def test_evidence_in_another_text_is_marked_there(
    open_page: Open, tmp_path: Path, field: str
) -> None:
    """Offsets count code points here, and UTF-16 code units in the page."""
    text = "😀 Before. It rained in Ulm. After."
    columns = row(0, contexts=None, **{field: text})
    sentence = ClosestSentence(field, None, 10, 27, text[10:27])
    path = tmp_path / "labels.html"
    evidence = {columns["label_id"]: (sentence,)}
    write_label_page(path, [columns], title="Weather", evidence=evidence)
    page = begin(open_page(path))
    press(page, "e")
    expect(page.locator("mark.evidence")).to_have_text("It rained in Ulm.")
    expect(page.locator("#sentences a")).to_have_text(field.capitalize())
    assert quotes(page) == ["It rained in Ulm."]


def test_evidence_late_in_a_long_text_is_visible(open_page: Open, tmp_path: Path) -> None:
    """A long text is shown in part, up to its evidence."""
    late = "It rained in Ulm."
    text = "A sentence. " * 8_000 + late + " More." * 2_000
    columns = row(0, contexts=[text])
    start = text.index(late)
    sentence = ClosestSentence("contexts", 0, start, start + len(late), late)
    path = tmp_path / "labels.html"
    evidence = {columns["label_id"]: (sentence,)}
    write_label_page(path, [columns], title="Weather", evidence=evidence)
    page = begin(open_page(path))
    press(page, "e")
    page.locator("#sentences a").click()
    expect(page.locator("mark.evidence.shown")).to_have_text(late)
    expect(page.locator("mark.evidence.shown")).to_be_in_viewport()
    expect(page.get_by_role("button", name="Show all")).to_have_count(1)


@pytest.mark.parametrize(("width", "moves"), [(1280, True), (390, False)])
def test_opening_moves_to_the_sentence_where_the_statement_stays_in_sight(
    open_page: Open, tmp_path: Path, width: int, moves: bool
) -> None:
    late = "It rained in Ulm."
    columns = row(0, contexts=["A sentence. " * 900, f"{'A sentence. ' * 300}{late}"])
    sentence = ClosestSentence("contexts", 1, 3600, 3600 + len(late), late)
    path = tmp_path / "labels.html"
    evidence = {columns["label_id"]: (sentence,)}
    write_label_page(path, [columns], title="Weather", evidence=evidence)
    page = begin(open_page(path, viewport={"width": width, "height": 800}))
    press(page, "e")
    mark = page.locator("mark.evidence")
    expect(mark).to_have_text(late)
    expect(page.locator("#statement")).to_be_in_viewport()
    if moves:
        expect(mark).to_be_in_viewport()
    else:
        expect(mark).not_to_be_in_viewport()
    press(page, "1")
    assert page.evaluate("scrollY") == 0


def test_text_that_looks_like_markup_stays_text(open_page: Open, tmp_path: Path) -> None:
    text = " ".join(HOSTILE)
    columns = row(0, contexts=[text])
    sentence = ClosestSentence("contexts", 0, 0, len(text), text)
    path = tmp_path / "labels.html"
    evidence = {columns["label_id"]: (sentence,)}
    write_label_page(path, [columns], title="Weather", evidence=evidence)
    page = begin(open_page(path))
    press(page, "e")
    expect(page.locator("mark.evidence")).to_contain_text("<img src=x onerror=owned()>")
    expect(page.locator("#task img, #task svg, #task script")).to_have_count(0)


@pytest.mark.parametrize("size", [(1280, 900), (390, 800)])
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_open_evidence_is_accessible(
    open_page: Open, write: Write, language: Any, size: tuple[int, int]
) -> None:
    viewport = {"width": size[0], "height": size[1]}
    page = open_page(write(language=language), viewport=viewport)
    page.keyboard.type("Ann")
    page.keyboard.press("Enter")
    press(page, "e")
    expect(page.locator("#closest-heading")).to_have_text(Messages(language).plain("label.closest"))
    assert Axe().run(page).response["violations"] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_reading_order_is_statement_answers_evidence_texts(
    open_page: Open, write: Write
) -> None:
    page = begin(open_page(write()))
    press(page, "e")
    tree = page.locator("#task").aria_snapshot()
    parts = [
        'heading "Statement 1 of 4"',
        'group "Answer"',
        'group "Move"',
        'button "Closest sentences e" [expanded]',
        'region "The closest sentences"',
        'heading "Question"',
        'heading "Contexts"',
    ]
    positions = [tree.index(part) for part in parts]
    assert positions == sorted(positions)
