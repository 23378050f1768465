"""A finished run to look at, with text in it that would like to act on the terminal."""

import base64
import gzip
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.report.terminal import Table, View, drawn

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
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def printed(view: Table | View, width: int = 120, *, colour: bool = False) -> str:
    console = Console(
        file=io.StringIO(),
        width=width,
        markup=False,
        emoji=False,
        highlight=False,
        force_terminal=colour,
        color_system="standard" if colour else None,
    )
    text = drawn(view, console)
    assert colour == bool(_COLOUR.search(text))
    return _COLOUR.sub("", text)


def lines_of(view: Table | View, width: int = 100) -> list[str]:
    return [line.strip() for line in printed(view, width).splitlines()]


class PageReader(HTMLParser):
    """Elements with their attributes, the text outside of scripts and styles, and what scripts and styles hold."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, dict[str, str | None], str]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember it; the content of a script or a style comes as one piece of data."""
        self.elements.append((tag, dict(attrs)))
        if tag in {"script", "style"}:
            self.raw.append((tag, dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        """Text, or what a script or a style holds."""
        if self.cdata_elem:
            tag, attributes, before = self.raw.pop()
            self.raw.append((tag, attributes, before + data))
        else:
            self.text += data

    def content(self, tag: str, **attributes: str) -> list[str]:
        """What the scripts or styles with these attributes hold."""
        return [content for name, attrs, content in self.raw if name == tag and attributes.items() <= attrs.items()]

    def unpacked(self, kind: str) -> list[Any]:
        """The values of all data blocks of a kind, in order."""
        blocks = self.content("script", **{"data-kind": kind})
        return [value for block in blocks for value in json.loads(gzip.decompress(base64.b64decode(block)))]


def corrected(**values: Any) -> SimpleNamespace:
    """A mean as labels correct it; without values one that they cannot."""
    nothing = dict.fromkeys(("mean", "ci95", "worth_labels", "labels_alone", "needed", "minutes", "remark"))
    return SimpleNamespace(**{**nothing, "labels": 0, "sensitivity": None, "specificity": None, **values})


def labelled(*, people: tuple[str, ...] = ("ann",), agreement: Any = None, **means: SimpleNamespace) -> Any:
    """Labels of a run, given on two days."""
    return SimpleNamespace(
        corrected=means,
        labellers=dict.fromkeys(people, 30),
        agreement=agreement,
        first="2026-11-20T09:00:00+00:00",
        last="2026-11-22T10:00:00+00:00",
        warnings=(),
    )


ENOUGH = corrected(
    mean=0.687,
    ci95=(0.592, 0.781),
    labels=50,
    worth_labels=31,
    labels_alone=SimpleNamespace(mean=0.66, ci95=(0.51, 0.79)),
    sensitivity=0.91,
    specificity=0.6,
)


def row(name: str, *sentences: str) -> dict[str, Any]:
    return {"id": name, "reference": " ".join(sentences), "retrieved_contexts": ["A context."]}


def one_each(count: int) -> list[dict[str, Any]]:
    return [row(str(number), f"Sentence {number}.") for number in range(count)]


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Three samples: one of two statements attributed, one with nothing attributed, one without a reference."""
    rows: list[dict[str, Any]] = [
        {"id": "good", "user_input": "Q?", "retrieved_contexts": ["Rain."], "reference": "It rains. It is red."},
        {"id": "=evil\x1b[2J", "user_input": EVIL, "retrieved_contexts": [EVIL], "reference": EVIL},
        {"id": "none", "user_input": "Q?", "retrieved_contexts": ["Rain."], "reference": None},
    ]
    engine = ScriptedEngine({"It rains.": 0.9}, default=0.1)
    metrics = ["context_recall", "context_relevancy"]
    return evaluate(rows, engine=engine, metrics=metrics, out=tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="session")
def failed_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One sample scored 1, one failed, of each metric."""
    rows = [
        {"id": "good", "user_input": "Q?", "retrieved_contexts": ["Rain."], "reference": "It rains."},
        {"id": "bad", "user_input": "Q?", "retrieved_contexts": ["Rain."], "reference": "It snows."},
    ]
    engine = ScriptedEngine({"It snows.": "it does not fit"}, default=0.9)
    return evaluate(rows, engine=engine, metrics=["context_recall"], out=Path(tmp_path_factory.mktemp("failed")))
