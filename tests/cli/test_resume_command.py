"""The command that began a run, told to whoever looks at it before it is finished."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localjudge import Run, RunDirectoryError, ScriptedEngine, evaluate
from localjudge.cli.options import resume_command
from localjudge.cli.run import run_command
from localjudge.record.manifest import Manifest
from localjudge.run.settings import RunSettings
from tests.cli.conftest import called

ROW = {"nr": "a", "retrieved_contexts": ["It rains in Rome."], "gold answer": "It rains. It is red.", "topic": "x"}

MakeManifest = Callable[..., Manifest]
NO_OPTION: list[dict[str, Any]] = [
    {"batching": True},
    {"abbreviations": ["Abb"]},
    {"criteria": [{"name": "kind"}]},
    {"profile": {"path": "p", "files": {}}},
    {"prompts": [{"file": "p", "text": "t"}]},
]
"""One that was taken out, and those of which the manifest holds the words and not the file."""


@pytest.fixture
def manifest() -> MakeManifest:
    """A manifest as far as the command depends on it."""

    def make(**environment: Any) -> Manifest:
        judge = {"metrics": {"context_recall": {"version": 1}, "document_map": {"version": 1}}}
        environment = {"judge": "reference", "sources": ["data.jsonl"], "settings": {}, **environment}
        return Manifest(signature="s", judge=judge, data={}, environment=environment)

    return make


def test_settings_that_are_not_as_by_default_are_named(manifest: MakeManifest) -> None:
    """Not `en`, and not what is off or None."""
    settings = {
        "threshold": 0.6,
        "language": "en",
        "calibration": [],
        "mapping": {"reference": "gold answer"},
        "batching": False,
        "cluster_by": "topic",
        "n_ctx": None,
    }
    assert resume_command(Path("runs/x"), manifest(settings=settings)) == (
        "localjudge run --judge reference --metrics context_recall,document_map --out runs/x --threshold 0.6 "
        "--map 'reference=gold answer' --cluster-by topic -- data.jsonl"
    )


@pytest.mark.parametrize(
    "environment",
    [
        *({"settings": {"threshold": 0.5, **words}} for words in NO_OPTION),
        {"judge": "http://203.0.113.5:8080"},
        {"settings": {"allow_host": ["203.0.113.5"]}},
        {"settings": {"ray": "203.0.113.5:6379"}},
        {"settings": {"markdown": "/home/user/.bashrc"}},
        {"settings": {"suite": "theirs.toml"}},
        {"judge": None},
        {"sources": ["rows"]},
        {"sources": []},
        {"sources": ["a\x1b[2J"]},
    ],
)
def test_no_command_is_advised(manifest: MakeManifest, environment: dict[str, Any]) -> None:
    """That lacks a setting, that could send or write elsewhere, that no command began, or that acts on the terminal."""
    assert resume_command(Path("x"), manifest(**environment)) is None


def test_standard_input_and_names_like_options_are_data(manifest: MakeManifest) -> None:
    assert (resume_command(Path("x"), manifest(sources=["stdin", "--out"])) or "").endswith("-- - --out")


def test_what_is_named_is_an_option_of_the_command(manifest: MakeManifest) -> None:
    """Of each setting that has one: a value that is not its default."""
    values = {int: 64, float: 0.25, bool: True, str: "1/2"}
    options = {option for parameter in run_command.params for option in parameter.opts}
    for name, field in RunSettings.model_fields.items():
        value = values.get(field.annotation, "x") if isinstance(field.annotation, type) else "x"
        words = shlex.split(resume_command(Path("x"), manifest(settings={name: value})) or "")
        assert {word for word in words if word.startswith("--")} <= options | {"--"}


@pytest.mark.engine
def test_the_command_goes_on_with_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As a kill between the last answer and the results leaves it; nothing is asked again."""
    monkeypatch.chdir(tmp_path)
    Path("my data.jsonl").write_text(json.dumps(ROW))
    given = (
        'run "my data.jsonl" --out mine --map id=nr --map "reference=gold answer" --threshold 0.4 --cluster-by topic'
    )
    assert called(capfd, *shlex.split(given), "--metrics", "context_recall", "--quiet")[0] == 0
    summary = Path("mine/summary.json").read_bytes()
    Path("mine/summary.json").unlink()
    code, _, errors = called(capfd, "show", "mine")
    said, hint = errors.splitlines()
    assert code == 1
    assert said == "localjudge: the run in mine has no finished sample yet"
    words = shlex.split(hint.removeprefix("  hint: go on with it: "))
    assert words[0] == "localjudge"
    code, _, errors = called(capfd, *words[1:])
    assert (code, "asked 0 verdicts" in errors) == (0, True)
    assert Path("mine/summary.json").read_bytes() == summary


def test_a_run_of_python_code_says_to_call_it_again(tmp_path: Path) -> None:
    rows = [{"id": "a", "retrieved_contexts": ["x"], "reference": "One."}]
    evaluate(rows, out=tmp_path, engine=ScriptedEngine({}, default=0.9))
    (tmp_path / "summary.json").unlink()
    with pytest.raises(RunDirectoryError, match=r"is not finished\n.*run the command that began it again"):
        Run.open(tmp_path)
