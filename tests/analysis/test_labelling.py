"""Labelling row by row: answers, skips, undo, and that a sheet is taken up where it was left."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localjudge import DataError, Run, UsageError
from localjudge.analysis.label_sheet import Labelling, default_path

JudgedRun = Callable[..., Run]


def saved(path: Path) -> list[int | None]:
    return [json.loads(line)["human"] for line in path.read_text().splitlines()]


@pytest.fixture
def run(judged_run: JudgedRun) -> Run:
    return judged_run(samples=6)


def test_every_answer_is_saved_when_it_is_given(run: Run, tmp_path: Path) -> None:
    labelling = Labelling.begin(tmp_path / "l.jsonl", run, {"n": 4})
    assert saved(labelling.path) == [None] * 4
    labelling.answer(1)
    assert saved(labelling.path) == [1, None, None, None]
    labelling.skip()
    labelling.answer(0)
    assert saved(labelling.path) == [1, None, 0, None]
    assert labelling.labelled == 2


def test_undo_goes_back_over_skips_and_answers_also_those_of_earlier(run: Run, tmp_path: Path) -> None:
    labelling = Labelling.begin(tmp_path / "l.jsonl", run, {"n": 3})
    rows = [labelling.current]
    labelling.answer(1)
    rows.append(labelling.current)
    labelling.skip()
    assert labelling.undo()
    assert labelling.current == rows[1]
    again = Labelling.begin(tmp_path / "l.jsonl", run, {})
    assert again.current == rows[1]
    assert again.undo()
    assert again.current == rows[0] | {"human": None} if rows[0] else False
    assert saved(again.path) == [None] * 3
    assert not again.undo()


def test_what_was_skipped_comes_again_next_time(run: Run, tmp_path: Path) -> None:
    labelling = Labelling.begin(tmp_path / "l.jsonl", run, {"n": 2})
    skipped = labelling.current
    labelling.skip()
    labelling.answer(0)
    assert labelling.current is None
    assert Labelling.begin(tmp_path / "l.jsonl", run, {}).current == skipped


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.sampled_from("10su!"), max_size=25))
def test_any_keys_leave_what_a_list_would_hold(run: Run, tmp_path: Path, pressed: list[str]) -> None:
    """A list of answers is the model; `!` stands for being killed and begun anew, where skipped rows are open."""
    path = tmp_path / "l.jsonl"
    path.unlink(missing_ok=True)
    labelling = Labelling.begin(path, run, {"n": 5})
    model: dict[int, int | None] = dict.fromkeys(range(5))
    opened, answered = list(range(5)), list[int]()
    for key in pressed:
        match key:
            case "!":
                labelling = Labelling.begin(path, run, {})
                opened = [number for number in range(5) if model[number] is None]
                answered = [number for number in range(5) if model[number] is not None]
            case "u":
                assert labelling.undo() == bool(answered)
                if answered:
                    model[answered[-1]] = None
                    opened.insert(0, answered.pop())
            case _ if opened:
                if key == "s":
                    labelling.skip()
                else:
                    labelling.answer(1 if key == "1" else 0)
                    model[opened[0]] = int(key)
                answered.append(opened.pop(0))
        assert saved(path) == list(model.values())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n": 5}, "drawn with n 4, not 5"),
        ({"seed": 3}, "seed 0, not 3"),
        ({"metrics": ["faithfulness"]}, "with metrics"),
    ],
)
def test_a_sheet_that_was_drawn_otherwise_is_not_gone_on_with(
    run: Run, tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    Labelling.begin(tmp_path / "l.jsonl", run, {"n": 4})
    with pytest.raises(UsageError, match=said):
        Labelling.begin(tmp_path / "l.jsonl", run, given)
    assert len(Labelling.begin(tmp_path / "l.jsonl", run, {"n": 4, "seed": 0})) == 4


def test_a_sheet_of_another_run_and_what_is_no_sheet_are_refused(
    run: Run, judged_run: JudgedRun, tmp_path: Path
) -> None:
    Labelling.begin(tmp_path / "l.jsonl", judged_run("other", samples=7), {})
    with pytest.raises(UsageError, match="sheet of another run"):
        Labelling.begin(tmp_path / "l.jsonl", run, {})
    with pytest.raises(UsageError, match=r"ends in \.jsonl"):
        Labelling.begin(tmp_path / "l.csv", run, {})
    (tmp_path / "no.jsonl").write_text("{}\n")
    with pytest.raises(DataError):
        Labelling.begin(tmp_path / "no.jsonl", run, {})


def test_labels_are_kept_beside_the_directory_of_the_run_and_not_in_it(run: Run) -> None:
    assert default_path(run) == run.directory.parent / "labels-run.jsonl"
