"""An option is called as whoever reads of it gives it: a flag on the command line, an argument in Python."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import ScriptedEngine
from localjudge.analysis.check import check
from localjudge.cli.main import main
from localjudge.errors import LocaljudgeError
from localjudge.words import as_typed, call, option, option_name

ROW = {"id": "a", "user_input": "Q?", "retrieved_contexts": ["Rain."], "reference": "It rains."}
FLAG = re.compile(r"--[a-z]")


@pytest.mark.parametrize(
    ("given", "in_python", "typed"),
    [
        (("out",), "out=...", "--out"),
        (("quiet", True), "quiet=True", "--quiet"),
        (("threads", 4), "threads=4", "--threads 4"),
        (("protocol", "joint"), "protocol='joint'", 'protocol = "joint" in localjudge.toml'),
        (("skip_bad_rows", True), "skip_bad_rows=True", "skip_bad_rows = true in localjudge.toml"),
        (("n_ctx",), "n_ctx=...", "n_ctx = ... in localjudge.toml"),
        (("mapping", {"reference": "gold"}), "mapping={'reference': 'gold'}", "--map reference=gold"),
        (
            ("mapping", {"reference": "a b", "id": "k"}),
            "mapping={'reference': 'a b', 'id': 'k'}",
            "--map 'reference=a b' --map id=k",
        ),
    ],
)
def test_an_option_is_spelled_as_it_is_given(given: tuple[Any, ...], in_python: str, typed: str) -> None:
    assert option(*given) == in_python
    with as_typed():
        assert option(*given) == typed
    assert option(*given) == in_python


def test_the_bare_name_is_that_of_the_argument_or_of_the_flag() -> None:
    assert (option_name("criteria"), option_name("prompts")) == ("criteria", "prompts")
    with as_typed():
        assert (option_name("criteria"), option_name("prompts")) == ("--criterion", "prompts")


def test_a_command_on_a_run_can_be_copied() -> None:
    given = ("verify", "my runs/a", "judge", "b.gguf")
    assert call(*given) == "Run.open('my runs/a').verify(judge='b.gguf')"
    with as_typed():
        assert call(*given) == "localjudge verify 'my runs/a' --judge b.gguf"


def _evaluate(**options: Any) -> None:
    localjudge.evaluate([ROW], **{"engine": ScriptedEngine({}, default=1.0), "out": "run", **options})


def _with_a_strange_directory() -> None:
    Path("run").mkdir()
    Path("run/letter.txt").touch()
    _evaluate()


def _again_with_other_data() -> None:
    _evaluate()
    localjudge.evaluate([{**ROW, "reference": "It snows."}], engine=ScriptedEngine({}, default=1.0), out="run")


def _with_a_gate_about_a_difference() -> None:
    _evaluate()
    check("run", gates=["context_recall.delta>=0"])


TWO_COLUMNS = {"question": "Q?", "documents": ["Some text."], "chunks": ["Some text."]}
MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "a value out of bounds": (lambda: _evaluate(max_failed=-1), "max_failed must be at least 0"),
    "abbreviations that are none": (lambda: _evaluate(abbreviations=3), "abbreviations must be a list of words"),
    "a directory of something else": (_with_a_strange_directory, "name another directory with out=..."),
    "a directory of another run": (_again_with_other_data, "name another directory with out=..., or omit it"),
    "two columns for one field": (
        lambda: localjudge.evaluate([TWO_COLUMNS], engine=ScriptedEngine({}), out="run"),
        "say which one counts: mapping={'retrieved_contexts': 'documents'}",
    ),
    "a column of another name": (
        lambda: localjudge.evaluate([{"gold_standard": "It rains."}], engine=ScriptedEngine({}), out="run"),
        "if that is what they hold: mapping={'reference': 'gold_standard'}",
    ),
    "a row that cannot be used": (
        lambda: localjudge.evaluate([{**ROW, "reference": 3}], engine=ScriptedEngine({}), out="run"),
        "leave them out: skip_bad_rows=True",
    ),
    "a group without a name": (
        lambda: localjudge.evaluate(
            [{**ROW, "document": None}], engine=ScriptedEngine({}), cluster_by="document", out="run"
        ),
        "cluster_by needs a value for every sample",
    ),
    "a gate without a baseline": (_with_a_gate_about_a_difference, "name an earlier run with baseline=..."),
    "a protocol that the judge has not": (
        lambda: _evaluate(protocol="joint", reasons="after"),
        "leave out reasons='after' or protocol='joint'",
    ),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", MISTAKES)
def test_an_error_in_python_names_arguments_and_no_flags(name: str) -> None:
    mistake, words = MISTAKES[name]
    with pytest.raises(LocaljudgeError) as caught:
        mistake()
    assert words in str(caught.value)
    assert not FLAG.search(str(caught.value))


def test_the_same_error_on_the_command_line_names_flags(capfd: pytest.CaptureFixture[str]) -> None:
    """A directory that holds something else, and a value that pydantic refuses rather than click."""
    Path("data.jsonl").write_text(json.dumps({**ROW, "document": None}))
    Path("run").mkdir()
    Path("run/letter.txt").touch()
    with pytest.raises(SystemExit) as ended:
        main(["run", "data.jsonl", "--cluster-by", "document"])
    assert ended.value.code == 1
    assert "--cluster-by needs a value for every sample" in capfd.readouterr().err
    assert option("out") == "out=..."


def test_what_is_written_to_a_run_is_the_same_whoever_began_it(tmp_path: Path) -> None:
    """A reason why there is no verdict names an option, and it is in `scores.jsonl`."""
    engine = {"engine": ScriptedEngine({}, default=1.0, capacity=10), "metrics": ["context_recall"]}
    _evaluate(**engine, out=tmp_path / "python")
    with as_typed():
        _evaluate(**engine, out=tmp_path / "typed")
    files = [(tmp_path / name / "scores.jsonl").read_bytes() for name in ("python", "typed")]
    assert files[0] == files[1]
    assert b"failed" in files[0]
