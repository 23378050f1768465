"""A suite file: what it may say, where its paths are meant from, and what is said of mistakes in it."""

from pathlib import Path

import pytest

import localjudge
from localjudge import InputError
from localjudge.analysis.check import check
from localjudge.suite import read_suite


def written(folder: Path, text: str) -> Path:
    """A suite in a folder."""
    folder.mkdir(exist_ok=True)
    file = folder / "localjudge.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_one_file_says_what_evaluate_and_check_are_given(tmp_path: Path) -> None:
    """A single text stands for a list of one; what is not said is not an argument."""
    suite = read_suite(
        written(tmp_path, 'data = "d.jsonl"\nmetrics = "hit_rate@1"\ngates = ["hit_rate@1>=0"]\nthreshold = 0.6\n')
    )
    assert suite.evaluation == {"data": [str(tmp_path / "d.jsonl")], "metrics": ("hit_rate@1",), "threshold": 0.6}
    assert suite.checks == {"gates": ("hit_rate@1>=0",)}


def test_gates_that_end_a_run_are_checked_with_the_others(tmp_path: Path) -> None:
    """And a difference has its baseline in both."""
    text = 'data = "d.jsonl"\ngates = "recall@1>=0"\nbaseline = "main"\nuntil = "hit_rate@1.delta>=0"\n'
    suite, main = read_suite(written(tmp_path, text)), str(tmp_path / "main")
    assert suite.evaluation == {"data": suite.arguments["data"], "until": "hit_rate@1.delta>=0", "baseline": main}
    assert suite.checks == {"gates": ("recall@1>=0", "hit_rate@1.delta>=0"), "baseline": main}


def test_paths_are_meant_from_the_folder_of_the_file(tmp_path: Path) -> None:
    """A judge, profile or criterion that is not a file there is the name of one; standard input stays what it is."""
    (tmp_path / "own.toml").write_text(
        'name = "polite"\nquestion = "Is it polite?"\nof = "response"\n', encoding="utf-8"
    )
    text = 'data = ["-", "d.jsonl"]\njudge = "reference"\nbaseline = "runs/main"\ncriteria = ["refuses", "own.toml"]\n'
    assert read_suite(written(tmp_path, text + 'profile = "instruct"\n')).arguments == {
        "data": ["-", str(tmp_path / "d.jsonl")],
        "judge": "reference",
        "baseline": str(tmp_path / "runs" / "main"),
        "criteria": ["refuses", str(tmp_path / "own.toml")],
        "profile": "instruct",
    }


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("treshold = 1", "treshold"),
        ("threshold = 2", "threshold"),
        ("report = 1", "report"),
        ('undecided = "maybe"', "undecided"),
        ("data = 7", "data"),
        ("limit = 3\nsample = 4", "limit"),
        ("data = [", "TOML"),
    ],
)
def test_what_is_wrong_is_said_by_file_and_key(tmp_path: Path, text: str, key: str) -> None:
    with pytest.raises(InputError, match=rf"localjudge\.toml.*{key}"):
        read_suite(written(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_suite(tmp_path / "none.toml")


def test_python_does_what_the_command_does(tmp_path: Path) -> None:
    """Computed metrics alone: hit_rate@1 of one sample whose first context is the right one is 1."""
    (tmp_path / "d.jsonl").write_text('{"id": "a", "retrieved_contexts": ["x"], "reference_contexts": ["x"]}\n')
    file = written(tmp_path, 'data = "d.jsonl"\nmetrics = "hit_rate@1"\nout = "run"\ngates = "hit_rate@1>=0.01"\n')
    suite = read_suite(file)
    run = localjudge.evaluate(**suite.evaluation, engine=localjudge.ScriptedEngine({}), progress=False)
    assert run.summary.metrics["hit_rate@1"].mean == 1
    assert check(run, **suite.checks).decisions[0].outcome == "pass"


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ('allow_host = "gpu"', "--allow-host"),
        ('allow_host = ["127.0.0.1"]', "--allow-host"),
        ('ray = "head.example:6379"', "--ray"),
        ('ray = "auto"', "--ray"),
        ('judge = "http://gpu:8080"', "--judge"),
    ],
)
def test_a_suite_sends_no_text_away(tmp_path: Path, text: str, option: str) -> None:
    """It may have come with somebody else's repository: where texts go is typed, and not copied from advice."""
    with pytest.raises(InputError, match="would send the texts to another machine") as error:
        read_suite(written(tmp_path, text))
    assert str(error.value.hint).endswith(f"type {option} on the command line")


@pytest.mark.parametrize("text", ['ray = "local"', 'judge = "http://[::1]:8080"'])
def test_a_suite_may_name_what_is_on_this_machine(tmp_path: Path, text: str) -> None:
    assert read_suite(written(tmp_path, text)).arguments
