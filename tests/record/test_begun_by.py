"""The command that began a run, told to whoever looks at it before it is finished."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localjudge import Run, RunDirectoryError, ScriptedEngine, evaluate
from localjudge.cli.main import main
from localjudge.cli.run import run_command
from localjudge.record import manifest as begun_by
from localjudge.record.manifest import Manifest, command
from localjudge.run.settings import NOT_IN_FILES, RunSettings

ROW = {"nr": "a", "retrieved_contexts": ["It rains in Rome."], "gold answer": "It rains. It is red.", "topic": "x"}

MakeManifest = Callable[..., Manifest]


@pytest.fixture
def manifest() -> MakeManifest:
    """A manifest as far as the command depends on it."""

    def make(**environment: Any) -> Manifest:
        judge = {"metrics": {"context_recall": {"version": 1}, "document_map": {"version": 1}}}
        environment = {"judge": "reference", "sources": ["data.jsonl"], "settings": {}, **environment}
        return Manifest(signature="s", judge=judge, data={}, environment=environment)

    return make


def test_settings_that_have_a_value_are_named(manifest: MakeManifest) -> None:
    """Also those that are as they are by default, `en`; what is off or None is not."""
    settings = {
        "threshold": 0.6,
        "language": "en",
        "calibration": [],
        "mapping": {"reference": "gold answer"},
        "batching": False,
        "max_failed": 2,
        "n_ctx": None,
    }
    assert command(Path("runs/x"), manifest(settings=settings)) == (
        "localjudge run --judge reference --metrics context_recall,document_map --out runs/x --threshold 0.6 "
        "--language en --map 'reference=gold answer' --max-failed 2 "
        "-- data.jsonl"
    )


@pytest.mark.parametrize("gone", [{"batching": True}, {"compare_by": "content"}, {"matrix": True}])
def test_an_option_that_was_taken_out_is_not_recommended(manifest: MakeManifest, gone: dict[str, Any]) -> None:
    assert command(Path("x"), manifest(settings={"threshold": 0.5, **gone})) is None


@pytest.mark.parametrize(
    "environment",
    [
        {"judge": "http://203.0.113.5:8080"},
        {"settings": {"allow_host": ["203.0.113.5"]}},
        {"settings": {"ray": "203.0.113.5:6379"}},
        {"settings": {"markdown": "/home/user/.bashrc"}},
        {"settings": {"suite": "theirs.toml"}},
    ],
)
def test_what_could_send_or_write_elsewhere_is_not_recommended(
    manifest: MakeManifest, environment: dict[str, Any]
) -> None:
    """The manifest may be a stranger's, and whoever is told a command copies it."""
    assert command(Path("x"), manifest(**environment)) is None


def test_standard_input_and_names_like_options_are_data(manifest: MakeManifest) -> None:
    assert (command(Path("x"), manifest(sources=["stdin", "--out"])) or "").endswith("-- - --out")


def test_every_setting_is_an_option_of_the_command(manifest: MakeManifest) -> None:
    """A setting that is added later, under a name that is not its option's, fails here."""
    given = command(Path("x"), manifest(settings=RunSettings(profile="instruct").model_dump(mode="json")))
    options = {option for parameter in run_command.params for option in parameter.opts}
    assert {word for word in shlex.split(given or "") if word.startswith("--")} <= options | {"--"}
    assert (
        RunSettings.model_fields.keys() - NOT_IN_FILES - {"criteria", "calibration", "abbreviations", "prompts"}
        == begun_by._SAFE
    )
    names = {option.removeprefix("--").replace("-", "_") for option in options}
    assert names | {"criteria", "prompts", "mapping"} >= RunSettings.model_fields.keys()


@pytest.mark.parametrize(
    "environment", [{"judge": None}, {"sources": ["rows"]}, {"sources": []}, {"sources": ["a\x1b[2J"]}]
)
def test_what_no_command_began_has_none(manifest: MakeManifest, environment: dict[str, Any]) -> None:
    """An engine or rows of Python code; and nothing that would act on the terminal is printed to be copied."""
    assert command(Path("x"), manifest(**environment)) is None


def test_the_command_goes_on_with_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As a kill between the last answer and the results leaves it; nothing is asked again."""
    monkeypatch.chdir(tmp_path)
    Path("my data.jsonl").write_text(json.dumps(ROW))
    given = (
        'run "my data.jsonl" --out mine --map id=nr --map "reference=gold answer" --threshold 0.4 --cluster-by topic'
    )
    assert exit_code(*shlex.split(given), "--metrics", "context_recall", "--quiet") == 0
    summary = Path("mine/summary.json").read_bytes()
    Path("mine/summary.json").unlink()
    capfd.readouterr()
    assert exit_code("show", "mine") == 1
    said, hint = capfd.readouterr().err.splitlines()
    assert said == "localjudge: the run in mine has no finished sample yet"
    words = shlex.split(hint.removeprefix("  hint: go on with it: "))
    assert words[0] == "localjudge"
    assert exit_code(*words[1:]) == 0
    assert "asked 0 verdicts" in capfd.readouterr().err
    assert Path("mine/summary.json").read_bytes() == summary


def test_a_run_of_python_code_says_to_call_it_again(tmp_path: Path) -> None:
    rows = [{"id": "a", "retrieved_contexts": ["x"], "reference": "One."}]
    evaluate(rows, out=tmp_path, engine=ScriptedEngine({}, default=0.9))
    (tmp_path / "summary.json").unlink()
    with pytest.raises(RunDirectoryError, match=r"is not finished\n.*run the command that began it again"):
        Run.open(tmp_path)


def exit_code(*arguments: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return ended.value.code
