"""A run in a notebook: a table, remarks, a link; nothing in it is markup but what is ours."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge import Run
from localjudge.report.tables import run_html
from localjudge.report.terminal import Table, as_html
from localjudge.words import printable


class _Elements(HTMLParser):
    """The elements of a text, with their attributes, and its words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep it."""
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Keep it."""
        self.words.append(data)


def test_the_table_is_that_of_the_terminal_with_the_judge_below(run: Run) -> None:
    """Recall: 1/2 and 0/2, one sample without a reference."""
    html = run._repr_html_()
    assert html is not None
    cells = re.findall("<td>(.*?)</td>", html)
    assert [cells[place] for place in (0, 1, 3, 4, 5)] == ["context_recall", "0.250", "2", "1", "0"]
    assert "judge scripted<br>" in html
    assert f"signature {run.summary.signature}" in html


def test_the_page_of_a_run_is_linked_if_there_is_one(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the address that a browser takes to that file, whatever the directory is called."""
    monkeypatch.chdir(tmp_path)
    named = Run(Path("javascript:100% <b>#1?"), run.summary, run.manifest)
    assert "a" not in dict(_Elements(run_html(named)).found)
    named.directory.mkdir()
    (named.directory / "report.html").touch()
    assert dict(_Elements(run_html(named)).found)["a"] == {"href": "./javascript:100%25 <b>%231%3F/report.html"}


HOSTILE = ["<script>alert(1)</script>", "&lt;b&gt;", '"><img src=x onerror=alert(1)>', "\x1b[2J"]


@given(st.text(min_size=1) | st.sampled_from(HOSTILE))
def test_no_text_is_taken_for_markup(text: str) -> None:
    """In a title, a heading, a cell, a note."""
    elements = _Elements(as_html(Table((text,), [(text,)], [text], titles=[text])))
    assert elements.found == [(tag, {}) for tag in ("p", "strong", "table", "tr", "th", "tr", "td", "p")]
    assert "".join(elements.words).replace("\n", "") == printable(text) * 4
