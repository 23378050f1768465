"""The abbreviation files say what their groups mean, where their words come from, and nothing that cannot be found."""

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import localjudge.text.languages
from localjudge.text.languages import Conventions, languages
from localjudge.text.stops import _WORD_EDGE

FILES = sorted((Path(localjudge.text.languages.__file__).parent / "abbreviations").glob("*.toml"))
GROUPS = {
    *("never_ends", "before_number", "may_end", "often_ends", "units", "after_unit"),
    *("lettered", "valued", "endings", "particles", "openers", "not_openers", "frequent"),
}
SEVEN = {"de", "en", "es", "fr", "it", "nl", "pt"}


def groups(file: Path) -> dict[str, list[dict[str, Any]]]:
    return tomllib.loads(file.read_text(encoding="utf-8"))


def words(entries: list[dict[str, Any]]) -> list[str]:
    return [word for entry in entries for word in entry["words"].split()]


def test_the_seven_languages_have_a_file() -> None:
    assert set(languages()) >= SEVEN
    assert {file.stem for file in FILES} == {*languages(), "xx"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_group_is_one_that_the_rules_read_and_every_list_names_its_source(file: Path) -> None:
    """All but three groups are fields of `Conventions`; those three become its starters and the language's signs."""
    assert {field.name for field in fields(Conventions)} >= GROUPS - {"openers", "not_openers", "frequent"}
    for name, entries in groups(file).items():
        assert name in GROUPS
        for entry in entries:
            assert set(entry) == {"source", "words"}
            assert entry["source"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_word_can_be_found(file: Path) -> None:
    """No word has its last stop, none holds what words are split at, none stands twice in a group."""
    for name, entries in groups(file).items():
        found = words(entries)
        assert len(found) == len(set(found)), name
        for word in found:
            assert not word.endswith("."), (name, word)
            if name in {"never_ends", "before_number", "may_end", "often_ends"}:
                assert not _WORD_EDGE.search(word), (name, word)
            if name in {"lettered", "valued", "openers", "not_openers", "frequent"}:
                assert word == word.lower(), (name, word)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_word_both_never_and_often_ends_a_sentence(file: Path) -> None:
    found = groups(file)
    assert not set(words(found.get("never_ends", []))) & set(words(found.get("often_ends", [])))


@pytest.mark.parametrize("language", sorted(SEVEN))
def test_clinical_legal_and_financial_words_are_there(language: str) -> None:
    """By the sources that the lists name; the words differ from language to language."""
    file = next(file for file in FILES if file.stem == language)
    sources = {entry["source"].partition(": ")[2] for entries in groups(file).values() for entry in entries}
    assert len(sources) >= 4
    assert len(words(groups(file)["may_end"])) >= 150
