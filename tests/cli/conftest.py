import json
from collections.abc import Callable
from pathlib import Path

import pytest

import localjudge
from localjudge.cli.main import main

Call = Callable[..., tuple[object, str, str]]
DEMO = str(Path(localjudge.__file__).parent / "dataset" / "demo.jsonl")
OPENINGS = [
    {
        "id": "eiffel",
        "retrieved_contexts": ["It opened in 1889."],
        "reference": "It opened in 1889. It is in Paris.",
    },
    {"id": "mars", "retrieved_contexts": ["The king lives."], "reference": "Mars is red."},
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALJUDGE_HOME", str(folder / "home"))


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Call:
    """Run the command line in this process: `call("show", "run")` is exit code, output, errors."""
    return lambda *arguments: called(capfd, *arguments)


@pytest.fixture
def output(call: Call) -> Callable[..., str]:

    def printed(*arguments: str | Path) -> str:
        code, text, errors = call(*arguments)
        assert code == 0, errors
        return text

    return printed


def config_here(**says: object) -> None:
    Path("localjudge.toml").write_text(
        "".join(f"{key} = {json.dumps(value)}\n" for key, value in says.items())
    )


def write_rows(path: str, *rows: object) -> None:
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def called(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(map(str, arguments)))
    return ended.value.code, *capfd.readouterr()
