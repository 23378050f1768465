"""Outlines, and its core where Outlines does not install, make the same expressions."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from localjudge.judge import grammars
from localjudge.types import Grammar

SCHEMAS = sorted((Path(__file__).resolve().parents[2] / "grammars").glob("*.json"))
Both = Callable[[Callable[[], Grammar]], list[Grammar]]

if sys.version_info >= (3, 14):
    pytest.skip("Outlines does not install on Python 3.14: its core is all there is", allow_module_level=True)


@pytest.fixture
def by_both(monkeypatch: pytest.MonkeyPatch) -> Both:
    """Makes a grammar with either package."""

    def made(make: Callable[[], Grammar]) -> list[Grammar]:
        found = []
        for compiler in ("outlines", "outlines_core"):
            monkeypatch.setattr(grammars, "COMPILER", compiler)
            found.append(make())
        return found

    return made


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.stem)
def test_a_bundled_grammar_is_the_same_by_both(by_both: Both, path: Path) -> None:
    by_outlines, by_core = by_both(lambda: grammars.from_schema(path.stem, path.read_text(encoding="utf-8")))
    assert by_outlines == by_core == grammars.load(path.stem)


@pytest.mark.parametrize(
    "statement", ["Plain.", "", 'Quotes " and \\ and {[(.*+?|^$', "tab\there\nand there", "日本 \U0001f600"]
)
def test_a_joint_answer_is_the_same_by_both(by_both: Both, statement: str) -> None:
    """Its expression holds the statements verbatim, whatever they are."""
    by_outlines, by_core = by_both(lambda: grammars.for_statements([statement, "Another."]))
    assert by_outlines == by_core


def test_each_package_is_called_where_it_is_asked_for(by_both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the tests above would compare a package with itself."""
    monkeypatch.setattr("outlines.types.dsl.to_regex", lambda _: "outlines")
    monkeypatch.setattr("outlines_core.json_schema.build_regex_from_schema", lambda *_: "core")
    assert [grammar.pattern for grammar in by_both(lambda: grammars.for_statements(["One."]))] == ["outlines", "(core)"]
