"""The label page as a file and in a real browser: keyboard, buttons, phone, dark mode."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Dialog, Page, Playwright, expect

from localjudge.report.label_views import write_label_page
from localjudge.report.messages import Messages
from localjudge.words import printable, printable_lines
from tests.report.conftest import HOSTILE, Open, PageReader, check_policy, check_script

pytestmark = pytest.mark.engine

NAME = "Ann Example"
KEYS = "".join("?" if number % 7 == 3 else str(number % 2) for number in range(60))
"""Of 60 keys, 9 at 3, 10, ..., 59 means undecided, which leaves 51 labels."""
COLUMNS = [
    "label_id",
    "draw",
    "sample_id",
    "metric",
    "position",
    "text",
    "planned",
    "human",
    "annotator",
    "when",
]

Written = Callable[..., Path]
Row = dict[str, Any]


def row(number: int, **columns: Any) -> Row:
    return {
        "label_id": sha256(str(number).encode()).hexdigest()[:32],
        "draw": "0:faithfulness",
        "sample_id": f"sample {number}",
        "metric": "faithfulness",
        "position": number,
        "asks": "sentence of the response: is it in the contexts?",
        "user_input": f"What happened in {1900 + number}?",
        "contexts": [f"Rain fell in {1900 + number}, all week.", "Snow is white."],
        "reference": None,
        "response": None,
        "source_text": None,
        "text": f"In {1900 + number} it was raining: rain fell.",
        "human": None,
        "annotator": None,
    } | columns


@pytest.fixture
def written(tmp_path: Path) -> Written:
    def write(rows: list[Row], title: str = "Weather") -> Path:
        path = tmp_path / "labels.html"
        write_label_page(path, rows, title=title)
        return path

    return write


@pytest.fixture
def sixty(written: Written) -> Path:
    return written([row(number) for number in range(60)])


def begin(page: Page, name: str = NAME) -> Page:
    expect(page.get_by_label("Your name")).to_be_focused()
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    return page


def press(page: Page, keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def downloaded(page: Page, button: str = "Download labels") -> tuple[str, list[Row]]:
    page.get_by_role("button", name=button).focus()
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    text = Path(download.value.path()).read_text(encoding="ascii")
    return download.value.suggested_filename, [json.loads(line) for line in text.splitlines()]


def refuse_storage(page: Page) -> None:
    refused = "get() { throw new DOMException('denied', 'SecurityError'); }"
    for storage in ("localStorage", "sessionStorage"):
        page.add_init_script(f"Object.defineProperty(window, '{storage}', {{ {refused} }})")


def wait_for_answers(page: Page, answers: list[int | None]) -> None:
    """Wait for answers of another window, which arrive by an event."""
    downloads = (downloaded(page)[1] for _ in range(20))
    for labels in downloads:
        if [label["human"] for label in labels] == answers:
            return
        page.wait_for_timeout(200)
    assert [label["human"] for label in downloaded(page)[1]] == answers


def marks(page: Page, place: str) -> list[str]:
    return page.locator(f"{place} mark").all_inner_texts()


def place(page: Page) -> str:
    return page.locator("#place").inner_text()


# As a file


def test_the_label_page_is_private_and_reproducible(written: Written) -> None:
    path = written([row(0)])
    content = path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    check_policy(content.decode())
    check_script(content.decode())
    assert written([row(0)]).read_bytes() == content


def test_the_label_page_contains_no_verdict_or_label(written: Written) -> None:
    said = {"human": 1, "p_yes": 0.8125, "share": 0.4375}
    html = written([row(0) | said]).read_text(encoding="utf-8")
    (config,) = PageReader(html).content("script", id="config")
    shown = {name: row(0)[name] for name in row(0) if name not in {*said, "annotator"}}
    assert json.loads(config)["rows"] == [{**shown, "planned": 1}]
    assert not [value for value in ("8125", "4375") if value in html]


def test_user_text_in_the_label_page_is_escaped(written: Written) -> None:
    text = " ".join(HOSTILE)
    hostile = row(
        0,
        **dict.fromkeys(("sample_id", "draw", "asks", "user_input", "text"), text),
        contexts=[text],
    )
    html = written([hostile], title=text).read_text(encoding="utf-8")
    ours = PageReader(written([row(0)]).read_text(encoding="utf-8"))
    read = PageReader(html)
    assert [tag for tag, _ in read.elements] == [tag for tag, _ in ours.elements]
    assert json.loads(read.content("script", id="config")[0])["rows"][0]["text"] == text
    assert not re.findall(
        "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", html
    )


def test_the_storage_key_identifies_run_draw_and_labels(written: Written) -> None:
    """Answers of annotators are stored separately under this key."""

    def key(*rows: Row, title: str = "Weather") -> Any:
        html = written(list(rows), title).read_text(encoding="utf-8")
        return json.loads(PageReader(html).content("script", id="config")[0])["key"]

    first = key(row(0), row(1))
    assert key(row(0, text="Shown otherwise, under the same id."), row(1)) == first
    others = [key(row(1), row(0)), key(row(0)), key(row(0, draw="1:faithfulness"), row(1))]
    others.append(key(row(0), row(1), title="Another run"))
    assert len({first, *others}) == 5
    assert key(row(0, annotator="Bob"), row(1)) == first


# In a browser. `open_page` counts requests, messages, errors and dialogs.


def test_sixty_statements_by_keyboard_alone(open_page: Open, sixty: Path) -> None:
    page = begin(open_page(sixty))
    before = datetime.now(UTC)
    for number, key in enumerate(KEYS):
        assert place(page) == f"Statement {number + 1} of 60"
        page.keyboard.press(key)
    expect(page.get_by_role("heading", name="All done.")).to_be_focused()
    expect(page.get_by_text("51 statements have a label, 9 have none")).to_be_visible()
    expect(page.locator("#count")).to_have_text("51 of 60 labelled, 9 without a label")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Download")).to_be_focused()
    with page.expect_download() as download:
        page.keyboard.press("Space")
    assert download.value.suggested_filename == "labels-Ann-Example.jsonl"
    labels = [json.loads(line) for line in Path(download.value.path()).read_text().splitlines()]
    assert {tuple(label) for label in labels} == {tuple(COLUMNS)}
    told = [(row(number), None if key == "?" else int(key)) for number, key in enumerate(KEYS)]
    assert [{**label, "when": ""} for label in labels] == [
        {
            name: ({**asked, "planned": 60, "human": human, "annotator": NAME, "when": ""})[name]
            for name in COLUMNS
        }
        for asked, human in told
    ]
    times = [datetime.fromisoformat(label["when"]) for label in labels]
    assert before - timedelta(seconds=1) < times[0]
    assert times == sorted(times)


def test_undo_removes_the_last_answer(open_page: Open, sixty: Path) -> None:
    """Of 1, 0 and 1 two are undone, then statement 2 becomes 1: an answer gets its old value.

    If an earlier file has an undone answer, the next file says so with a later time.
    """
    page = begin(open_page(sixty))
    press(page, "101")
    page.keyboard.press("u")
    page.keyboard.press("Backspace")
    assert place(page) == "Statement 2 of 60"
    expect(page.get_by_role("status")).to_have_text(
        "Statement 2: answer undone. Now: Statement 2 of 60."
    )
    press(page, "1")
    for _ in range(2):
        page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("button", name="Yes")).to_have_attribute("aria-pressed", "true")
    press(page, "0")
    changed = downloaded(page)[1]
    assert [label["human"] for label in changed] == [0, 1, None]
    press(page, "u")
    assert place(page) == "Statement 1 of 60"
    expect(page.get_by_role("button", name="Yes")).to_have_attribute("aria-pressed", "true")
    restored = downloaded(page)[1]
    assert [label["human"] for label in restored] == [1, 1, None]
    assert restored[0]["when"] > changed[0]["when"]
    press(page, "uuu")
    expect(page.locator("#count")).to_have_text("0 of 60 labelled")
    expect(page.get_by_role("button", name="Undo")).to_be_disabled()
    assert [label["human"] for label in downloaded(page)[1]] == [None] * 3


def test_the_annotator_name_is_filled_in(open_page: Open, written: Written) -> None:
    page = open_page(written([row(number, annotator="Bob") for number in range(2)]))
    expect(page.get_by_label("Your name")).to_have_value("Bob")
    page.keyboard.press("Enter")
    press(page, "1")
    assert [(label["annotator"], label["human"]) for label in downloaded(page)[1]] == [("Bob", 1)]


def test_the_label_page_resumes_after_closing_the_browser(
    playwright: Playwright, chromium: str, sixty: Path, tmp_path: Path
) -> None:
    """The profile is on disk and each process new; the page of another draw starts empty."""

    def opened(path: Path) -> Page:
        context = playwright.chromium.launch_persistent_context(
            tmp_path / "profile", executable_path=chromium
        )
        page = context.pages[0]
        page.goto(path.as_uri())
        return page

    page = begin(opened(sixty))
    press(page, "10?1")
    page.context.close()
    page = opened(sixty)
    expect(page.get_by_label("Your name")).to_have_value("")
    page.get_by_role("button", name=f"Continue as {NAME} (4 answers)").click()
    assert place(page) == "Statement 5 of 60"
    expect(page.get_by_role("status")).to_have_text(
        re.compile("^Continued with 4 answers saved in this browser")
    )
    press(page, "u")
    press(page, "00")
    name, labels = downloaded(page)
    assert (name, [label["human"] for label in labels]) == (
        "labels-Ann-Example.jsonl",
        [1, 0, None, 0, 0],
    )
    page.context.close()
    other = tmp_path / "other.html"
    write_label_page(
        other, [row(number, draw="1:faithfulness") for number in range(60)], title="Weather"
    )
    page = opened(other)
    expect(page.get_by_label("Your name")).to_have_value("")
    page.context.close()


@pytest.fixture
def windows(browser: Browser, sixty: Path) -> Iterator[tuple[Page, Page]]:
    """Two windows of one browser: the first at its start screen, the second empty."""
    context = browser.new_context()
    one = context.new_page()
    other = context.new_page()
    one.goto(sixty.as_uri())
    yield one, other
    context.close()


def begin_both(windows: tuple[Page, Page], page: Path) -> tuple[Page, Page]:
    one, other = windows
    begin(one)
    other.goto(page.as_uri())
    return one, begin(other)


def test_two_windows_of_an_annotator_keep_each_others_answers(
    windows: tuple[Page, Page], sixty: Path
) -> None:
    one, other = begin_both(windows, sixty)
    press(one, "10")
    expect(other.locator("#count")).to_have_text("2 of 60 labelled")
    other.keyboard.press("ArrowRight")
    other.keyboard.press("ArrowRight")
    press(other, "1")
    expect(one.locator("#count")).to_have_text("3 of 60 labelled")
    assert [label["human"] for label in downloaded(one)[1]] == [1, 0, 1]


def test_an_answer_in_another_window_moves_neither_focus_nor_texts(
    windows: tuple[Page, Page], sixty: Path
) -> None:
    one, other = begin_both(windows, sixty)
    press(one, "1")
    one.set_viewport_size({"width": 600, "height": 400})
    button = one.get_by_role("button", name="Download labels")
    button.focus()
    one.evaluate("scrollTo(0, 150)")
    other.keyboard.press("ArrowRight")
    press(other, "0")
    expect(one.locator("#count")).to_have_text("2 of 60 labelled")
    expect(button).to_be_focused()
    assert one.evaluate("scrollY") == 150


def test_a_window_at_its_start_screen_overwrites_no_answers_of_another(
    windows: tuple[Page, Page], sixty: Path
) -> None:
    """With two windows, Start in the second replaced the log of the first."""
    one, other = windows
    other.goto(sixty.as_uri())
    press(begin(one), "101")
    press(begin(other), "0")
    expect(one.locator("#count")).to_have_text("4 of 60 labelled")
    assert [label["human"] for label in downloaded(one)[1]] == [1, 0, 1, 0]


def test_a_sleeping_window_keeps_answers_of_other_windows(
    windows: tuple[Page, Page], sixty: Path
) -> None:
    """A sleeping window gets no storage event; its answers must not replace the others."""
    one = begin(windows[0])
    other = windows[1]
    deaf = "kind === 'storage' ? undefined : listen.call(window, kind, ...rest)"
    other.add_init_script(
        f"const listen = addEventListener; window.addEventListener = (kind, ...rest) => {deaf}"
    )
    other.goto(sixty.as_uri())
    begin(other)
    press(one, "101")
    press(other, "0")
    expect(other.locator("#count")).to_have_text("3 of 60 labelled")
    press(one, "1")
    press(other, "u")
    wait_for_answers(one, [0, 0, 1, None])


def test_without_browser_storage_the_page_warns_before_closing(
    browser: Browser, sixty: Path
) -> None:
    page = browser.new_context().new_page()
    asked: list[str] = []

    def agree(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.accept()

    page.on("dialog", agree)
    refuse_storage(page)
    page.goto(sixty.as_uri())
    begin(page)
    expect(page.get_by_text("This browser does not save your answers")).to_be_visible()
    press(page, "10")
    page.reload()
    assert asked == ["beforeunload"]
    begin(page)
    press(page, "01")
    assert [label["human"] for label in downloaded(page)[1]] == [0, 1]
    page.reload()
    assert asked == ["beforeunload"]
    page.context.close()


def test_shortcuts_are_ignored_in_the_name_field_and_when_off(open_page: Open, sixty: Path) -> None:
    page = begin(open_page(sixty), "u10?")
    page.keyboard.press("Control+1")
    page.keyboard.press("Alt+0")
    assert place(page) == "Statement 1 of 60"
    page.keyboard.down("1")
    page.keyboard.down("1")  # held down: repeats
    page.keyboard.up("1")
    assert place(page) == "Statement 2 of 60"
    page.get_by_label("Answer with keys").uncheck()
    press(page, "10u")
    assert place(page) == "Statement 2 of 60"
    page.get_by_label("Answer with keys").check()
    press(page, "0")
    name, labels = downloaded(page)
    assert (name, [label["human"] for label in labels]) == ("labels-u10-.jsonl", [1, 0])
    assert {label["annotator"] for label in labels} == {"u10?"}


def test_digit_keys_work_on_a_french_keyboard(open_page: Open, sixty: Path) -> None:
    """On a French keyboard the keys of 1 and 0 give & and à."""
    page = begin(open_page(sixty))
    for key, code in (("&", "Digit1"), ("à", "Digit0")):
        page.evaluate(
            "init => document.dispatchEvent(new KeyboardEvent('keydown', init))",
            {"key": key, "code": code},
        )
    assert [label["human"] for label in downloaded(page)[1]] == [1, 0]


def test_a_reload_continues_as_the_annotator_of_the_window(windows: tuple[Page, Page]) -> None:
    page = begin(windows[0])
    press(page, "10")
    page.reload()
    expect(page.get_by_role("status")).to_have_text(re.compile("^Continued with 2 answers"))
    assert place(page) == "Statement 3 of 60"
    assert [label["human"] for label in downloaded(page)[1]] == [1, 0]


def test_another_name_gets_its_own_answers_after_a_question(open_page: Open, sixty: Path) -> None:
    """Bob changed the name of Ann's page, and his file held her answers with her times."""
    page = begin(open_page(sixty), "Ann")
    press(page, "1011")
    page.get_by_role("button", name="Change your name").click()
    expect(page.get_by_label("Your name")).to_have_value("Ann")
    page.get_by_label("Your name").fill("Bob")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Are you Bob, and not Ann?")).to_be_focused()
    expect(page.get_by_text("The 4 answers by Ann stay under that name.")).to_be_visible()
    press(page, "10")  # not an answer
    page.get_by_role("button", name="Stay Ann").click()
    assert place(page) == "Statement 5 of 60"
    page.get_by_role("button", name="Change your name").click()
    page.get_by_label("Your name").fill("Bob")
    page.keyboard.press("Enter")
    expect(page.get_by_text("4 of 60 labelled")).to_be_hidden()
    page.get_by_role("button", name="Go on as Bob").click()
    assert place(page) == "Statement 1 of 60"
    expect(page.locator("header")).to_contain_text("localjudge labels, Bob")
    expect(page.get_by_role("status")).to_have_text("")
    expect(page.locator("#count")).to_have_text("0 of 60 labelled")
    press(page, "0")
    assert [(label["annotator"], label["human"]) for label in downloaded(page)[1]] == [("Bob", 0)]
    page.get_by_role("button", name="Change your name").click()
    page.get_by_role("button", name="Continue as Ann (4 answers)").click()
    page.get_by_role("button", name="Go on as Ann").click()
    assert place(page) == "Statement 5 of 60"
    assert [label["human"] for label in downloaded(page)[1]] == [1, 0, 1, 1]


def test_windows_of_two_annotators_do_not_mix(windows: tuple[Page, Page], sixty: Path) -> None:
    """All became Bob's. After a reload each window continues as its annotator."""
    ann = begin(windows[0], "Ann")
    bob = windows[1]
    bob.goto(sixty.as_uri())
    begin(bob, "Bob")
    press(ann, "111")
    press(bob, "00")
    press(ann, "?")
    for page in (ann, bob):
        page.reload()
    expect(ann.locator("#count")).to_have_text("3 of 60 labelled, 1 without a label")
    expect(bob.locator("#count")).to_have_text("2 of 60 labelled")
    answers = {
        page: [(label["annotator"], label["human"]) for label in downloaded(page)[1]]
        for page in (ann, bob)
    }
    assert answers == {ann: [("Ann", 1)] * 3 + [("Ann", None)], bob: [("Bob", 0)] * 2}


@pytest.mark.parametrize(
    "name", [" ann example ", "Ann\u00a0Example", "A\u200bnn Example", "\uff21nn Example"]
)
def test_names_that_look_alike_continue_one_log(open_page: Open, sixty: Path, name: str) -> None:
    page = begin(open_page(sixty))
    press(page, "10")
    page.get_by_role("button", name="Change your name").click()
    page.get_by_label("Your name").fill(name)
    expect(page.locator("#begin")).to_have_text("Continue")
    page.keyboard.press("Enter")
    assert place(page) == "Statement 3 of 60"
    assert [label["human"] for label in downloaded(page)[1]] == [1, 0]


def test_answers_of_two_annotators_without_browser_storage(browser: Browser, sixty: Path) -> None:
    page = browser.new_context().new_page()
    refuse_storage(page)
    page.goto(sixty.as_uri())
    press(begin(page, "Ann"), "11")
    for name in ("Bob", "Ann"):
        page.get_by_role("button", name="Change your name").click()
        page.get_by_label("Your name").fill(name)
        page.keyboard.press("Enter")
        page.get_by_role("button", name=f"Go on as {name}").click()
        press(page, "0")
    assert [(label["annotator"], label["human"]) for label in downloaded(page)[1]] == [
        ("Ann", 1),
        ("Ann", 1),
        ("Ann", 0),
    ]
    page.context.close()


def test_a_name_is_asked_for_once_and_can_be_changed(open_page: Open, sixty: Path) -> None:
    page = open_page(sixty)
    begin(page, "   ")
    expect(page.get_by_role("button", name="Start")).to_be_visible()
    begin(page, "../Zoë 王/\u202e")
    page.get_by_role("button", name="Change your name").click()
    expect(page.get_by_label("Your name")).to_be_focused()
    page.get_by_label("Your name").fill("../Zoé 王/\u202e")
    page.get_by_role("button", name="Start").click()
    press(page, "1")
    name, (label,) = downloaded(page, "Download labels")
    assert (name, label["annotator"]) == ("labels-..-Zoé-王-.jsonl", "../Zoé 王/\u202e")


def test_labelling_works_by_touch(open_page: Open, sixty: Path) -> None:
    page = open_page(sixty, has_touch=True, is_mobile=True, viewport={"width": 400, "height": 860})
    page.get_by_label("Your name").fill(NAME)
    page.get_by_role("button", name="Start").tap()
    for name in ("Yes", "Cannot tell", "No", "No", "Undo", "Yes", "Back", "Next", "Next", "Back"):
        page.get_by_role("button", name=re.compile(f"^{name}")).tap()
    assert place(page) == "Statement 5 of 60"
    with page.expect_download() as download:
        page.get_by_role("button", name="Download", exact=True).tap()
    labels = map(json.loads, Path(download.value.path()).read_text().splitlines())
    assert [(label["position"], label["human"]) for label in labels] == [
        (0, 1),
        (1, None),
        (2, 0),
        (3, 1),
    ]


def test_screen_readers_hear_answer_and_next_statement(open_page: Open, sixty: Path) -> None:
    page = begin(open_page(sixty))
    expect(page.get_by_role("heading", name="Statement 1 of 60")).to_be_focused()
    press(page, "1")
    status = page.get_by_role("status")
    expect(status).to_have_text("Statement 1: yes. Now: Statement 2 of 60.")
    expect(page.get_by_role("heading", name="Statement 2 of 60")).to_be_focused()
    press(page, "?")
    expect(status).to_have_text("Statement 2: cannot tell. Now: Statement 3 of 60.")
    page.keyboard.press("ArrowLeft")
    expect(status).to_have_text("Statement 2: cannot tell. Now: Statement 2 of 60.")
    expect(
        page.get_by_role("progressbar", name="1 of 60 labelled, 1 without a label")
    ).to_have_js_property("value", 1)


def test_tab_reaches_every_control(open_page: Open, sixty: Path) -> None:
    page = begin(open_page(sixty))
    press(page, "1")
    stops = []
    for _ in range(20):
        page.keyboard.press("Tab")
        stops.append(
            page.evaluate("document.activeElement.textContent.trim().split(' ')[0] || 'keys'")
        )
    tour = ["Yes", "No", "Cannot", "Back", "Undo", "Next", "Download", "Change", "keys"]
    assert stops[:9] == tour
    assert "Yes" in stops[9:]


def test_unanswered_statements_can_be_revisited(open_page: Open, written: Written) -> None:
    page = begin(open_page(written([row(number) for number in range(4)])))
    page.keyboard.press("ArrowRight")
    press(page, "1")
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    expect(page.get_by_role("heading", name="3 statements without an answer")).to_be_visible()
    page.get_by_role("button", name="Go to the first statement without an answer").press("Enter")
    assert place(page) == "Statement 1 of 4"
    press(page, "0")
    assert place(page) == "Statement 3 of 4"
    press(page, "0?")
    expect(page.get_by_role("heading", name="All done.")).to_be_visible()
    expect(page.get_by_text("3 statements have a label, 1 has none")).to_be_visible()
    expect(page.locator("#status")).to_have_text(
        "Statement 4: cannot tell. Now: All done. Thank you."
    )
    page.get_by_role("button", name="Back to the last statement").press("Enter")
    assert place(page) == "Statement 4 of 4"


def test_words_shared_by_statement_and_texts_are_marked(open_page: Open, written: Written) -> None:
    """Words with at least three letters or with digits, in any case; adjacent ones together."""
    text = "The STRASSE is 3.5 km long; l'eau, B12 on it."
    contexts = [
        "Die Straße: 3.5 kilometres, longer. It is on B12 long ago.",
        "Eau de vie. The 3 roads.",
    ]
    page = begin(open_page(written([row(0, text=text, contexts=contexts)])))
    assert marks(page, "#statement") == ["The STRASSE", "3.5", "long", "eau", "B12"]
    assert marks(page, "#evidence") == ["Straße", "3.5", "B12 long", "Eau", "The"]
    assert page.locator("#evidence .text").all_inner_texts() == [
        "What happened in 1900?",
        *contexts,
    ]


@pytest.mark.parametrize(
    ("text", "context", "shared"),
    [
        ("Москва стоит на реке.", "НА реке — Москва-река", ["реке", "Москва"]),
        ("Ο ΣΟΦΟΣ μιλά", "σοφος και", ["σοφος"]),
        ("القاهرة عاصمة مصر", "عاصمة مصر هي القاهرة", ["عاصمة مصر", "القاهرة"]),
        ("दिल्ली भारत में है", "भारत की दिल्ली में", ["भारत", "दिल्ली"]),
        ("北京是中国的首都。", "中国的北京", ["中国", "北京"]),
        ("서울은 한국의 수도", "한국의 도시", ["한국의"]),
        ("กรุงเทพเป็นเมืองหลวง", "เมืองหลวงใหญ่", ["เมืองหลวง"]),
    ],
)
def test_shared_words_are_found_in_any_script(
    open_page: Open, written: Written, text: str, context: str, shared: list[str]
) -> None:
    page = begin(open_page(written([row(0, text=text, contexts=[context])])))
    assert marks(page, "#evidence") == shared


def test_short_words_of_many_statements_are_not_marked(open_page: Open, written: Written) -> None:
    """Three of ten statements have "the", at least a tenth; capitalised names stay marked."""
    texts = [
        "the Mars of the sun",
        "the Mars",
        "and the Mars",
        *(f"Word{number}" for number in range(7)),
    ]
    page = begin(
        open_page(
            written(
                [
                    row(at, text=text, contexts=["The sun and Mars"])
                    for at, text in enumerate(texts)
                ],
            )
        )
    )
    assert marks(page, "#statement") == ["Mars", "sun"]
    assert marks(page, "#evidence") == ["sun", "Mars"]
    press(page, "11")
    assert marks(page, "#statement") == ["and", "Mars"]


def test_the_label_page_shows_the_texts_of_a_row(open_page: Open, written: Written) -> None:
    """Without contexts, reference and response, the statement is compared with the question."""
    rows = [
        row(0, contexts=None, reference="It was raining.", asks=None),
        row(1, contexts=[], response="Rain fell."),
        row(2, contexts=None, text="What happened?"),
        row(3, contexts=[None, "Rain fell."], user_input=None),
    ]
    page = begin(open_page(written(rows)))
    names = []
    for _ in rows:
        names.append(page.locator("#evidence h3").all_inner_texts())
        page.keyboard.press("ArrowRight")
    assert names == [
        ["Question", "Reference"],
        ["Question", "Contexts", "Response"],
        ["Question"],
        ["Contexts"],
    ]
    page.keyboard.press("ArrowLeft")
    assert page.locator("#evidence li").all_inner_texts() == ["no text", "Rain fell."]
    page.keyboard.press("ArrowLeft")
    assert marks(page, "#evidence") == ["What happened"]


def test_the_statement_is_marked_in_its_answer(open_page: Open, written: Written) -> None:
    """The answer comes after the question, once. Offsets count UTF-16 units, as in JavaScript."""
    rows = [
        row(0, source_text=("response", "😀 Rain. ", "It fell.", f" {HOSTILE[0]}")),
        row(1, response="It fell."),
    ]
    rows.append(
        row(
            2,
            source_text=("response", "", "It fell.", " Then snow."),
            response="It fell. Then snow.",
        )
    )
    page = begin(
        open_page(written(rows), viewport={"width": 380, "height": 860}, color_scheme="dark")
    )
    for headings, text, mark in (
        (["Question", "Response", "Contexts"], f"😀 Rain. It fell. {HOSTILE[0]}", ["It fell."]),
        (["Question", "Contexts", "Response"], None, []),
        (["Question", "Response", "Contexts"], "It fell. Then snow.", ["It fell."]),
    ):
        assert page.locator("#evidence h3").all_inner_texts() == headings
        assert page.locator("mark.statement").all_inner_texts() == mark
        if text:
            assert page.locator("#evidence .text").nth(1).inner_text() == text
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert [rule["id"] for rule in Axe().run(page).response["violations"]] == []
        press(page, "1")
    assert all("source_text" not in label for label in downloaded(page)[1])


def test_hostile_text_is_text(open_page: Open, written: Written) -> None:
    """A word of a million letters breaks no line and gets a button to show all of it."""
    text = " ".join(HOSTILE)
    hostile = row(
        0,
        **dict.fromkeys(("asks", "user_input", "text"), text),
        contexts=[text, "w" * 1_000_000],
    )
    page = begin(
        open_page(written([hostile], title=text), viewport={"width": 400, "height": 860}),
        text[:80],
    )
    assert page.evaluate("[typeof owned, document.images.length, document.links.length]") == [
        "undefined",
        0,
        0,
    ]
    assert page.locator("h1").inner_text() == printable(text)
    assert page.locator("#statement").inner_text() == printable_lines(text)
    assert page.locator("#evidence .text").first.inner_text() == printable_lines(text)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Show all 1,000,000 characters").press("Enter")
    expect(page.locator("#evidence .text").last).to_be_focused()
    expect(page.locator("#evidence .text").last).to_have_text(re.compile("^w{1000000}$"))
    press(page, "1")
    (label,) = downloaded(page)[1]
    assert (label["text"], label["human"]) == (text, 1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_accessibility_engine_finds_nothing(
    open_page: Open, sixty: Path, scheme: str, width: int
) -> None:
    page = open_page(sixty, color_scheme=scheme, viewport={"width": width, "height": 860})
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(247, 248, 249)", "dark": "rgb(19, 22, 26)"}[scheme]

    def look() -> None:
        violations = Axe().run(page).response["violations"]
        assert {rule["id"]: [node["html"] for node in rule["nodes"]] for rule in violations} == {}
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    look()
    begin(page)
    look()
    for key in "10?":
        page.keyboard.press(key)
        page.keyboard.press("ArrowLeft")
        look()
        page.keyboard.press("ArrowRight")
    press(page, KEYS[3:])
    look()


def test_answer_buttons_stay_visible_and_hold_their_texts(
    open_page: Open, written: Written
) -> None:
    path = written([row(0, contexts=["A long text. " * 500] * 3)])
    for width in (1280, 1025, 1024, 400):
        page = begin(open_page(path, viewport={"width": width, "height": 860}))
        tight = "(button) => button.scrollWidth > button.clientWidth"
        assert not page.evaluate(f"[...document.querySelectorAll('.answers button')].some({tight})")
        for _ in range(2):
            expect(page.get_by_role("button", name="Yes")).to_be_in_viewport(ratio=1)
            page.get_by_text("A long text.").last.scroll_into_view_if_needed()


@pytest.mark.parametrize("language", ["de", "fr", "es"])
@pytest.mark.parametrize("width", [1280, 1025, 380])
def test_the_page_in_another_language(
    open_page: Open, tmp_path: Path, language: Any, width: int
) -> None:
    """The keys and the file are the same as in English, and texts of users stay as they are."""
    asks = "sentence of the response: can it be attributed to the retrieved contexts?"
    rows = [
        row(number, asks=asks, text="no text", user_input="Question") for number in range(1_001)
    ]
    path = tmp_path / "labels.html"
    messages = Messages(language)
    write_label_page(path, rows, title="Label page", language=language)
    page = open_page(path, viewport={"width": width, "height": 860}, color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("lang", language)
    expect(page.get_by_label(messages.plain("label.your_name"))).to_be_focused()
    page.keyboard.type(NAME)
    page.keyboard.press("Enter")
    press(page, "1?u1")
    text = page.locator("body").inner_text()
    spoken = messages.plain("label.answered", n=2, answer=messages.plain("label.yes"))
    question = messages.question("faithfulness")
    assert question is not None
    assert [
        words in text for words in (question[1:], spoken, "no text", "Question", "Label page")
    ] == [True] * 5
    assert messages.plain("label.progress", n=2, total=1_001) in text
    english = (
        "Statement",
        "Cannot tell",
        "labelled",
        "Download",
        "Change your name",
        "without an answer",
        "loads no",
    )
    assert [words for words in english if words in text] == []
    assert Axe().run(page).response["violations"] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tight = "(button) => button.scrollWidth > button.clientWidth"
    assert not page.evaluate(f"[...document.querySelectorAll('.answers button')].some({tight})")
    file = messages.plain("label.download_file", file="labels-Ann-Example.jsonl")
    name, labels = downloaded(page, file)
    assert (name, [label["human"] for label in labels]) == ("labels-Ann-Example.jsonl", [1, 1])


def test_without_a_script_it_says_so(browser: Browser, sixty: Path) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(sixty.as_uri())
    expect(page.get_by_text("Labelling needs JavaScript")).to_be_visible()
    page.context.close()


def test_a_context_has_the_id_that_a_citation_names(open_page: Open, written: Written) -> None:
    """Without ids, and for other questions, contexts have their number only."""
    page = begin(open_page(written([row(0, context_ids=["doc-7", None]), row(1)])))
    contexts = page.locator("#evidence .contexts li")
    expect(contexts.nth(0)).to_contain_text("id doc-7")
    expect(contexts.nth(1)).to_have_text("Snow is white.")

    press(page, "1")
    expect(contexts.nth(0)).not_to_contain_text("id ")
