"""A finished run with text that tries to act on the terminal, and a browser.

Needs Chromium, either the system's or the one named by LOCALJUDGE_TEST_CHROMIUM.
"""

import base64
import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from localjudge import Run, ScriptedEngine, evaluate

if TYPE_CHECKING:  # tests without a browser run without the package
    from playwright.sync_api import Browser, Page, Playwright

EVIL = "It \x1b[2J\x1b]0;owned\x07 rains. [bold red]Not[/] \u202etxet :smile:."
HOSTILE = (
    "</script><script>owned()</script>",
    "</style><style>*{display:none}</style>",
    "<img src=x onerror=owned()>",
    "javascript:owned()",
    '"><svg onload=owned()>',
    "<!--",
    "&lt;b&gt;",
    "{{ 7 * 7 }}",
    "\x1b[2J\x1b]0;owned\x07",
    "\u202eevil\u202c \u2028 \u2066x",
)
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class PageReader(HTMLParser):
    """Collect elements with attributes, the text outside of scripts and styles, their content."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, dict[str, str | None], str]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record an element; a script or style has one piece of data."""
        self.elements.append((tag, dict(attrs)))
        if tag in {"script", "style"}:
            self.raw.append((tag, dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        """Record text, or the content of a script or style."""
        if self.cdata_elem:
            tag, attributes, before = self.raw.pop()
            self.raw.append((tag, attributes, before + data))
        else:
            self.text += data

    def content(self, tag: str, **attributes: str) -> list[str]:
        """Return the content of scripts or styles with these attributes."""
        return [
            content
            for name, attrs, content in self.raw
            if name == tag and attributes.items() <= attrs.items()
        ]

    def unpacked(self, kind: str) -> list[Any]:
        """Return the values of all data blocks of a kind, in order."""
        blocks = self.content("script", **{"data-kind": kind})
        return [
            value
            for block in blocks
            for value in json.loads(gzip.decompress(base64.b64decode(block)))
        ]


def check_policy(html: str) -> None:
    """Check the hashes of the only style and script, and that the policy comes before both."""
    read = PageReader(html)
    (policy,) = (attrs["content"] for tag, attrs in read.elements if attrs.get("http-equiv"))
    (style,) = read.content("style")
    (script,) = read.content("script", type="module")
    hashes = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (style, script)
    ]
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; "
        f"script-src 'sha256-{hashes[1]}'; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    assert html.index("Content-Security-Policy") < html.index("<style>") < html.index("<script")


def check_script(html: str) -> None:
    """Check that the script builds no markup from strings and uses no network."""
    (script,) = PageReader(html).content("script", type="module")
    words = (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "fetch(",
        "XMLHttp",
        "import(",
    )
    assert script
    assert not [word for word in words if word in script]


def row(name: str, *sentences: str) -> dict[str, Any]:
    return {"id": name, "reference": " ".join(sentences), "retrieved_contexts": ["A context."]}


def one_each(count: int) -> list[dict[str, Any]]:
    return [row(str(number), f"Sentence {number}.") for number in range(count)]


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Three samples: one of two statements attributed, none attributed, and no reference."""
    rows: list[dict[str, Any]] = [
        {
            "id": "good",
            "user_input": "Q?",
            "retrieved_contexts": ["Rain."],
            "reference": "It rains. It is red.",
        },
        {"id": "=evil\x1b[2J", "user_input": EVIL, "retrieved_contexts": [EVIL], "reference": EVIL},
        {"id": "none", "user_input": "Q?", "retrieved_contexts": ["Rain."], "reference": None},
    ]
    engine = ScriptedEngine({"It rains.": 0.9}, default=0.1)
    metrics = ["context_recall", "context_relevancy"]
    return evaluate(rows, engine=engine, metrics=metrics, out=tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="session")
def failed_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One sample scored 1 and one failed, for each metric."""
    rows = [
        {
            "id": "good",
            "user_input": "Q?",
            "retrieved_contexts": ["Rain."],
            "reference": "It rains.",
        },
        {
            "id": "bad",
            "user_input": "Q?",
            "retrieved_contexts": ["Rain."],
            "reference": "It snows.",
        },
    ]
    engine = ScriptedEngine({"It snows.": "it does not fit"}, default=0.9)
    return evaluate(
        rows,
        engine=engine,
        metrics=["context_recall"],
        out=Path(tmp_path_factory.mktemp("failed")),
    )


Open = Callable[..., "Page"]


@pytest.fixture(scope="session")
def chromium() -> str:
    """Return the path of Chromium, or skip the tests."""
    named = os.environ.get("LOCALJUDGE_TEST_CHROMIUM") or next(
        filter(None, map(shutil.which, CHROMIUM)), None
    )
    if not named:
        pytest.skip(
            "needs Chromium: apt-get install chromium, or name one by LOCALJUDGE_TEST_CHROMIUM"
        )
    return named


@pytest.fixture(scope="module")
def playwright() -> Iterator["Playwright"]:
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="NOT CHECKED: the package Playwright is not installed"
    )
    with sync_api.sync_playwright() as driver:
        yield driver


@pytest.fixture(scope="module")
def browser(playwright: "Playwright", chromium: str) -> Iterator["Browser"]:
    browser = playwright.chromium.launch(executable_path=chromium)
    yield browser
    browser.close()


@pytest.fixture
def open_page(browser: "Browser") -> Iterator[Open]:
    """Open a page from its file. At the end, check for requests, messages and dialogs."""
    from playwright.sync_api import expect

    requests: list[str] = []
    asked: list[str] = []
    said: list[str] = []

    def opened(path: Path, **options: Any) -> "Page":
        page = browser.new_context(**options).new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        asked.append(path.as_uri())
        page.goto(path.as_uri())
        expect(page.locator("html[data-ready]")).to_have_count(1)
        return page

    yield opened
    for context in browser.contexts:
        context.close()
    assert (requests, said) == (asked, [])
