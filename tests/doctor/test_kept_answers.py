"""Answers of an interrupted check: what is taken, what is asked, and what is not trusted."""

import json
from pathlib import Path
from typing import Any

import pytest

from localjudge.doctor import judgement as verdicts
from localjudge.doctor.kept_answers import KeptAnswers
from localjudge.doctor.plain_cases import plain_cases
from localjudge.engine.scripted import ScriptedEngine
from localjudge.judge import prompts
from localjudge.judge.prompt_writer import PromptWriter
from localjudge.progress import Silence
from localjudge.types import VerdictRequest

JUDGE = PromptWriter(prompts.load("instruct"))
REQUESTS = [JUDGE.request(case.task()) for case in plain_cases()[:4]]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory of its own."""
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def engine(default: float | str = 0.75) -> ScriptedEngine:
    return ScriptedEngine({}, default=default)


def check(using: ScriptedEngine, requests: list[VerdictRequest]) -> list[Any]:
    """The answers of a check that does not come to its end."""
    return KeptAnswers(using).answers_in_order(using, requests, Silence())


def file_of(home: Path) -> Path:
    (file,) = (home / "doctor").iterdir()
    return file


def test_what_was_answered_is_not_asked_again_and_stands_in_its_place() -> None:
    first = check(engine(), REQUESTS[1:3])
    again = engine()
    kept = KeptAnswers(again)
    assert kept.count(REQUESTS) == 2
    assert kept.answers_in_order(again, REQUESTS, Silence())[1:3] == first
    assert (again.asked, kept.asked) == ((REQUESTS[0], REQUESTS[3]), 2)


def test_the_progress_hears_of_each_answer_once() -> None:
    class Counting(Silence):
        def __init__(self) -> None:
            self.recalled = self.advanced = 0

        def recall(self, count: int) -> None:
            """Count them."""
            self.recalled += count

        def advance(self) -> None:
            """Count one."""
            self.advanced += 1

    check(engine(), REQUESTS[:3])
    told = Counting()
    KeptAnswers(engine()).answers_in_order(engine(), REQUESTS, told)
    assert (told.recalled, told.advanced) == (3, 1)


def test_a_check_that_came_to_its_end_leaves_nothing(home: Path) -> None:
    check(engine(), REQUESTS)
    KeptAnswers(engine()).forget()
    KeptAnswers(engine()).forget()
    assert list((home / "doctor").iterdir()) == []
    assert KeptAnswers(engine()).count(REQUESTS) == 0


def test_another_engine_is_asked_everything() -> None:
    """Another script stands for another model, machine or build: whatever moves an answer is in the identity."""
    check(engine(), REQUESTS)
    assert KeptAnswers(engine(0.5)).count(REQUESTS) == 0


def test_another_version_of_localjudge_asks_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    check(engine(), REQUESTS)
    monkeypatch.setattr("localjudge.doctor.kept_answers.version", lambda _name: "0.0.0")
    assert KeptAnswers(engine()).count(REQUESTS) == 0


def test_an_error_is_not_kept() -> None:
    check(engine("it does not fit"), REQUESTS)
    assert KeptAnswers(engine("it does not fit")).count(REQUESTS) == 0


def test_verdicts_that_are_asked_again_are_really_asked() -> None:
    """All 16 plain cases are known, and the check of six of them asks twice for each."""
    check(engine(), [JUDGE.request(case.task()) for case in plain_cases()])
    again = engine()
    assert verdicts.again_check(JUDGE, again, Silence()).status == "ok"
    assert len(again.asked) == verdicts.asked_again(JUDGE) == 12


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[" * 100_000,
        b'{"key": "KEY", "answer": {"p_yes": 2.0, "legal_mass": 1.0, "raw": ""}}',
        b'{"key": "KEY", "answer": {"p_yes": NaN, "legal_mass": 1.0, "raw": ""}}',
        b'{"key": "KEY", "answer": {"p_yes": "0.9", "legal_mass": 1.0, "raw": ""}}',
        b'{"key": "KEY", "answer": {"p_yes": 0.9, "legal_mass": 1.0, "raw": "", "more": 1}}',
        b'{"key": "KEY", "answer": {"p_yes": 0.9, "legal_m',
    ],
    ids=range(9),
)
def test_a_damaged_line_counts_for_nothing_and_spoils_no_other(home: Path, line: bytes) -> None:
    """Cut off by a kill, or written by nobody of ours: what is appended after it is read."""
    check(engine(), REQUESTS[:2])
    file = file_of(home)
    lines = file.read_bytes().splitlines()
    key = json.loads(lines[1])["key"].encode()
    file.write_bytes(b"\n".join([*lines[:1], line.replace(b"KEY", key)]))
    assert KeptAnswers(engine()).count(REQUESTS) == 0
    check(engine(), REQUESTS[2:])
    assert KeptAnswers(engine()).count(REQUESTS) == 2


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o707])
def test_a_folder_that_others_can_open_is_neither_read_nor_written(home: Path, mode: int) -> None:
    check(engine(), REQUESTS[:2])
    file = file_of(home)
    before = file.read_bytes()
    file.parent.chmod(mode)
    again = engine()
    assert len(check(again, REQUESTS)) == len(again.asked) == 4
    assert file.read_bytes() == before


def test_a_link_is_not_followed(home: Path, tmp_path: Path) -> None:
    check(engine(), REQUESTS[:2])
    file = file_of(home)
    elsewhere = file.rename(tmp_path / "elsewhere")
    before = elsewhere.read_bytes()
    file.symlink_to(elsewhere)
    again = engine()
    assert len(check(again, REQUESTS)) == len(again.asked) == 4
    assert elsewhere.read_bytes() == before


def test_a_state_directory_that_is_none_keeps_nothing_and_ends_nothing(home: Path) -> None:
    home.write_text("a file")
    again = engine()
    kept = KeptAnswers(again)
    assert len(kept.answers_in_order(again, REQUESTS, Silence())) == 4
    kept.forget()
    assert home.read_text() == "a file"
