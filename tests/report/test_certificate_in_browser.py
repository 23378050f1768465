"""The certificate on paper and on screens, in Chromium."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from localjudge import Run
from tests.analysis.conftest import JudgedRun, judged_run, label, label_words
from tests.conftest import LANGUAGES
from tests.run_directory.conftest import edited

__all__ = ["judged_run"]
pytestmark = pytest.mark.engine

METRICS = ("context_recall", "context_relevancy", "context_relevancy_chunk", "answer_relevancy")
MORE = ("faithfulness", "context_precision", "context_sufficiency")


@pytest.fixture
def large(judged_run: JudgedRun) -> Run:
    """Eight metrics and files, seven annotators who sometimes disagree, all with long names."""
    run = judged_run(metrics=(*METRICS, *MORE))
    for number in range(7):
        place = f"the Department {number} of Internal Medicine"
        name = f"Doctor Maximiliane Wolkenstein-Trostburg of {place}"
        say = partial(answer, number)
        metrics = None
        if number < 3:
            metrics = ["context_recall"]
        label(run, say, 60, name, metrics=metrics, again=number > 0)
    sources = [
        f"/data/answers-of-the-help-desk-in-the-autumn-of-2026-part-{number}-of-8.jsonl"
        for number in range(8)
    ]
    return replace(run, manifest=run.manifest.with_environment(sources=sources))


@pytest.fixture
def certificate(large: Run, tmp_path: Path) -> Path:
    written = large.certificate(tmp_path / "page.html", title="Answers of the help desk " * 8)
    assert written.problems == ()
    return written.file


def answer(number: int, text: str) -> int:
    """Disagree on a few texts."""
    return label_words(text) if "Fact" in text and len(text) % 9 != number else number % 2


def count_pages(browser: Browser, path: Path) -> int:
    page = browser.new_page()
    page.goto(path.as_uri())
    paper = page.pdf(prefer_css_page_size=True)
    page.close()
    (size,) = set(re.findall(rb"/MediaBox \[0 0 ([0-9]+)[0-9.]* ([0-9]+)", paper))
    assert size == (b"594", b"841")
    return len(re.findall(rb"/Type /Page\b", paper))


def test_a_large_certificate_is_one_page_of_a4(
    browser: Browser, large: Run, certificate: Path
) -> None:
    for language in LANGUAGES:
        large.certificate(certificate, title="Answers of the help desk " * 8, language=language)
        assert count_pages(browser, certificate) == 1, language
    edited("scores.jsonl", '"score": ', '"score": 0')(large.directory)
    assert (
        count_pages(
            browser,
            Run.open(large.directory, check=False).certificate(certificate).file,
        )
        == 1
    )


def test_two_pages_are_counted_as_two(browser: Browser, certificate: Path) -> None:
    html = certificate.read_text().replace("</main>", f"{'<p>more</p>' * 60}</main>")
    certificate.write_text(html)
    assert count_pages(browser, certificate) == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 380])
def test_screens_of_any_size_show_it_without_violations(
    browser: Browser, certificate: Path, scheme: Literal["light", "dark"], width: int
) -> None:
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(certificate.as_uri())
    violations = Axe().run(page).response["violations"]
    assert {rule["id"]: [node["html"] for node in rule["nodes"]] for rule in violations} == {}
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert said == []
    page.close()
