from pathlib import Path

import pytest

from localjudge import InputError
from localjudge.config import read_config


def written(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "localjudge.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_suite_gives_the_arguments_of_evaluate_and_check(tmp_path: Path) -> None:
    """A single text is a list of one. Absent keys are not passed."""
    config = read_config(
        written(
            tmp_path,
            'data = "d.jsonl"\nmetrics = "hit_rate@1"\n'
            'gates = ["hit_rate@1>=0"]\nthreshold = 0.6\n',
        )
    )
    assert config.evaluation == {
        "data": [str(tmp_path / "d.jsonl")],
        "metrics": ("hit_rate@1",),
        "threshold": 0.6,
    }
    assert config.checks == {"gates": ("hit_rate@1>=0",)}


def test_gates_of_until_are_checked_too(tmp_path: Path) -> None:
    """The baseline applies to both."""
    text = (
        'data = "d.jsonl"\ngates = "recall@1>=0"\n'
        'baseline = "main"\nuntil = "hit_rate@1.delta>=0"\n'
    )
    config = read_config(written(tmp_path, text))
    main = str(tmp_path / "main")
    assert config.evaluation == {
        "data": config.arguments["data"],
        "until": "hit_rate@1.delta>=0",
        "baseline": main,
    }
    assert config.checks == {"gates": ("recall@1>=0", "hit_rate@1.delta>=0"), "baseline": main}


def test_paths_are_relative_to_the_config(tmp_path: Path) -> None:
    """A judge, profile or criterion without such a file is a name; `-` is standard input."""
    (tmp_path / "own.toml").write_text(
        'name = "polite"\nquestion = "Is it polite?"\nof = "response"\n', encoding="utf-8"
    )
    text = (
        'data = ["-", "d.jsonl"]\njudge = "lexical"\n'
        'baseline = "runs/main"\ncriteria = ["refuses", "own.toml"]\n'
    )
    assert read_config(written(tmp_path, text + 'profile = "instruct"\n')).arguments == {
        "data": ["-", str(tmp_path / "d.jsonl")],
        "judge": "lexical",
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
def test_problems_are_reported_by_file_and_key(tmp_path: Path, text: str, key: str) -> None:
    with pytest.raises(InputError, match=rf"localjudge\.toml.*{key}"):
        read_config(written(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_config(tmp_path / "none.toml")
