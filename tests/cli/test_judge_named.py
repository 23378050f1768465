"""No number without its judge: name, checksum and what must be said of it stand wherever one is read."""

import json
from pathlib import Path

import pytest

from localjudge.model_registry import registered
from tests.cli.conftest import called

pytestmark = pytest.mark.engine

ROWS = [
    {"id": "eiffel", "retrieved_contexts": ["It opened in 1889."], "reference": "It opened in 1889. It is in Paris."},
    {"id": "mars", "retrieved_contexts": ["The king lives."], "reference": "Mars is red."},
]
NAMED = "judge reference (lexical, not for decisions), 10.7 MiB, sha256 4844085b4a92"
CARD = {"name": "reference", "caution": "lexical, not for decisions", "size": 11208032}
RUN = ("run", "data.jsonl", "--metrics", "context_recall", "--threads", "1", "--out", "run", "--quiet")

COMMANDS = (RUN, ("show", "run"), ("show", "run", "eiffel"), ("compare", "run", "run"), ("verify", "run", "--quiet"))


def printed(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command prints, on one line."""
    code, output, _ = called(capfd, *arguments)
    assert code == 0
    return " ".join(output.split())


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")


def test_whoever_reads_a_command_reads_who_judged(capfd: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        assert NAMED in printed(capfd, *command)
        card = json.loads(printed(capfd, *command, "--json"))["judge"]
        assert {name: card[name] for name in CARD} == CARD
        assert card["sha256"].startswith("4844085b4a92")


def test_the_packaged_judge_under_a_name_of_one_s_own_keeps_its_caution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A run that was made before it had that name is read as before."""
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path))
    printed(capfd, *RUN)
    packaged = registered()["reference"]
    row = {"name": "ours", "path": str(packaged.path), "sha256": packaged.sha256, "profile": packaged.profile}
    lines = [f"{key} = {json.dumps(value)}" for key, value in row.items()]
    (tmp_path / "registry.toml").write_text(
        "\n".join(["[[model]]", *lines, f"size = {packaged.size}"]), encoding="utf-8"
    )
    assert NAMED in printed(capfd, "show", "run")
    printed(capfd, *RUN[:-2], "again", "--quiet", "--judge", "ours")
    assert NAMED.replace("reference", "ours") in printed(capfd, "show", "again")
