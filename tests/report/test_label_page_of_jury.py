"""The label page shows what the judges of a jury say on request, after an answer."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from localjudge.report.label_views import write_label_page
from tests.report.conftest import HOSTILE, Open, PageReader
from tests.report.test_label_page import begin, downloaded, place, press, row

pytestmark = pytest.mark.engine

NUMBER = 3
HOSTILE_NAME = HOSTILE[0]


@pytest.fixture
def page_file(tmp_path: Path) -> Path:
    """A page with three statements: two by a jury, and one by a single judge."""
    rows = [row(number) for number in range(NUMBER)]
    parts = {
        rows[0]["label_id"]: {"lexical": 0.8125, HOSTILE_NAME: 0.25},
        rows[1]["label_id"]: {"lexical": 0.4375, "reader": 0.125},
    }
    path = tmp_path / "labels.html"
    write_label_page(path, rows, title="Weather", parts_of_juries=parts)
    return path


def expect_hidden(page: Page) -> None:
    expect(page.locator("#judges")).to_be_hidden()
    expect(page.locator("#parts dd")).to_have_count(0)


def test_parts_are_hidden_until_an_answer_and_a_request(open_page: Open, page_file: Path) -> None:
    page = begin(open_page(page_file))
    expect_hidden(page)
    press(page, "1")
    assert place(page).startswith("Statement 2")
    expect_hidden(page)
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#judges summary")).to_be_visible()
    expect(page.locator("#parts")).to_be_hidden()
    page.locator("#judges summary").click()
    names = page.locator("#parts dt").all_inner_texts()
    shown = dict(zip(names, page.locator("#parts dd").all_inner_texts(), strict=True))
    assert shown.pop("lexical") == "0.813"
    assert list(shown.values()) == ["0.250"]
    assert page.locator("#parts dt script, #parts dt img").count() == 0


def test_the_next_visit_is_closed_again(open_page: Open, page_file: Path) -> None:
    page = begin(open_page(page_file))
    press(page, "1")
    page.keyboard.press("ArrowLeft")
    page.locator("#judges summary").click()
    expect(page.locator("#parts")).to_be_visible()
    page.locator("#next").click()
    expect_hidden(page)
    page.locator("#back").click()
    expect(page.locator("#parts")).to_be_hidden()


def test_an_undone_answer_hides_the_parts(open_page: Open, page_file: Path) -> None:
    page = begin(open_page(page_file))
    press(page, "1u")
    assert place(page).startswith("Statement 1")
    expect_hidden(page)


def test_a_statement_of_a_single_judge_has_none(open_page: Open, page_file: Path) -> None:
    page = begin(open_page(page_file))
    press(page, "101")
    page.locator("#last").click()
    assert place(page).startswith("Statement 3")
    expect_hidden(page)


def test_the_file_of_labels_does_not_contain_them(open_page: Open, page_file: Path) -> None:
    page = begin(open_page(page_file))
    press(page, "101")
    _, labels = downloaded(page)
    assert len(labels) == NUMBER
    assert not any("judges" in label for label in labels)


def test_a_page_of_a_single_judge_contains_no_parts(tmp_path: Path) -> None:
    path = tmp_path / "labels.html"
    write_label_page(path, [row(0)], title="Weather")
    (config,) = PageReader(path.read_text(encoding="utf-8")).content("script", id="config")
    assert "judges" not in json.loads(config)["rows"][0]
