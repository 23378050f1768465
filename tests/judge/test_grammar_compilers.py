"""Outlines, and its core where Outlines does not install, make the same expressions."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from localjudge.judge import profile as grammars
from localjudge.types import Grammar

GOLDEN = json.loads(Path(__file__).with_name("expanded_grammars.json").read_text(encoding="utf-8"))
NAMES = [*(grammar["name"] for grammar in GOLDEN["grammars"]), "classifications"]
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


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_grammar_is_the_same_by_both(by_both: Both, name: str) -> None:
    by_outlines, by_core = by_both(lambda: grammars.load_grammar.__wrapped__(name))
    assert by_outlines == by_core == grammars.load_grammar(name)


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
