import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import ModelError, model_registry, resources
from tests.cli.conftest import OPENINGS, Call, write_rows
from tests.local_models.conftest import gguf, manifest, pulled, user

pytestmark = pytest.mark.engine

__all__ = ["user"]

NAMED = "judge lexical (compares words, not for decisions)"
CARD = {"name": "lexical", "caution": "compares words, not for decisions", "size": 11208000}
NAME = "ollama:judge:latest"
RUN = (
    "run",
    "data.jsonl",
    "--metrics",
    "context_recall",
    "--threads",
    "1",
    "--out",
    "run",
    "--quiet",
)


@pytest.fixture(autouse=True)
def data() -> None:
    write_rows("data.jsonl", *OPENINGS)


@pytest.fixture
def store(user: Path) -> Path:
    """The bundled judge in Ollama's layout."""
    store = user / ".ollama" / "models"
    pulled(
        store,
        "registry.ollama.ai/library/judge/latest",
        resources.bundled_file("models", "lexical.gguf"),
    )
    return store


def other_judges() -> list[str]:
    """Return the notes of a run on other models that can judge."""
    run = localjudge.evaluate(
        "data.jsonl", metrics="context_recall", threads=1, out=False, progress=False
    )
    return [note for note in run.notes if "can judge" in note]


@pytest.mark.usefixtures("store")
def test_the_default_judge_names_others_and_no_file_does(call: Call) -> None:
    """Not if the user names the lexical judge, and not in files of the run."""
    others = "1 model on this machine can judge, for example --judge ollama:judge:latest"
    command = [part for part in RUN if part != "--quiet"]
    assert others in call(*command)[2]
    stored = Path("run/summary.json").read_bytes()
    assert others not in call(*command[:-1], "named", "--judge", "lexical")[2]
    assert Path("named/summary.json").read_bytes() == stored
    assert b"ollama" not in b"".join(path.read_bytes() for path in Path("run").iterdir())
    [note] = other_judges()
    assert note.endswith("judge='ollama:judge:latest'")
    run = localjudge.Run.open("run")
    assert run.judge.caution == run.to_pandas().attrs["caution"] == CARD["caution"]


def test_only_models_that_can_judge_are_counted(user: Path) -> None:
    """Unreadable places never end a run."""
    assert other_judges() == []
    folder = user / ".lmstudio" / "models" / "org" / "repo"
    gguf(folder / "chat.Q4_K_M.gguf")
    gguf(folder / "embeds.Q8_0.gguf", "nomic-bert")
    (folder / "cut.Q6_K.gguf").write_bytes(b"GGUF")
    manifest(user / ".ollama" / "models", "registry.ollama.ai/library/odd/latest", "{")
    [note] = other_judges()
    assert "1 model" in note
    assert note.endswith("judge='lmstudio:org/repo:Q4_K_M'")


def test_the_name_of_the_judge_does_not_change_the_run(store: Path, call: Call) -> None:
    """The checksum identifies the judge; the manifest keeps its full name."""
    assert call(*RUN, "--judge", "ollama:judge")[0] == 0
    run = localjudge.Run.open("run")
    assert run.manifest.environment.judge == NAME
    assert (
        run.summary
        == localjudge.evaluate(
            OPENINGS, metrics=["context_recall"], threads=1, out="by-name"
        ).summary
    )
    assert call(*RUN, "--judge", NAME)[0] == 0
    assert call("verify", "run", "--quiet")[0] == 0
    assert call("run", "--reuse", "run", "--threshold", "0.4", "--out", "again", "--quiet")[0] == 0
    assert localjudge.Run.open("again").manifest.environment.judge == NAME


def test_a_run_whose_model_was_removed_says_so(store: Path, call: Call) -> None:
    assert call(*RUN, "--judge", NAME)[0] == 0
    shutil.rmtree(store)
    code, _, errors = call("verify", "run", "--quiet")
    assert code == 1
    assert "sha256 cfcfedcc41bb) is no longer" in errors
    assert "with --judge PATH" in errors
    assert call("verify", "run", "--quiet", "--judge", "lexical")[0] == 0


def test_a_blob_with_another_checksum_than_its_name_is_refused(store: Path) -> None:
    (blob,) = (store / "blobs").iterdir()
    content = bytearray(blob.read_bytes())
    content[-1] ^= 1
    blob.write_bytes(content)
    for name in (NAME, str(blob)):
        with pytest.raises(ModelError, match="checksum in its name: sha256") as caught:
            model_registry.find(name)
        assert blob.name in caught.value.message
        assert caught.value.hint


class Served(localjudge.ScriptedEngine):
    """The identity that an earlier version gave to a model on a server."""

    @property
    def identity(self) -> dict[str, Any]:
        return {
            **super().identity,
            "engine": "server",
            "model": "m",
            "batching": "not isolated",
            "host": "gpu",
        }


REFUSAL = (
    "localjudge asks no server\n"
    "  hint: name the model's file (`localjudge models` lists those on this machine)"
)


@pytest.mark.parametrize("judge", ["http://127.0.0.1:8080", "HTTPS://gpu/v1"])
def test_an_address_is_no_judge(call: Call, judge: str) -> None:
    for command in (RUN, ("doctor",), ("run", "data.jsonl", "--dry-run")):
        code, out, errors = call(*command, "--judge", judge)
        assert (code != 0, "localjudge asks no server" in out + errors) == (True, True)
    assert not Path("run").exists()


def test_a_run_by_a_server_is_read_but_not_asked_again(call: Call) -> None:
    localjudge.evaluate(
        "data.jsonl", metrics=["context_recall"], engine=Served({}, default=0.9), out="run"
    )
    path = Path("run", "manifest.json")
    manifest = json.loads(path.read_text())
    manifest["environment"]["judge"] = "http://gpu:8080"
    path.write_text(json.dumps(manifest, indent=2))
    assert "(bytes not proved)" in call("show", "run")[1]
    for reading in (
        ("show", "run", OPENINGS[0]["id"]),
        ("compare", "run", "run"),
        ("report", "run"),
    ):
        assert call(*reading)[0] == 0
    for asking in (
        ("verify", "run"),
        ("run", "--reuse", "run", "--threshold", "0.6", "--out", "again"),
    ):
        code, _, errors = call(*asking)
        assert (code, REFUSAL in errors) == (1, True)


def test_commands_name_the_judge(output: Callable[..., str]) -> None:
    sample = ("show", "run", "eiffel")
    for command in (
        RUN,
        sample[:2],
        sample,
        ("compare", "run", "run"),
        ("verify", "run", "--quiet"),
    ):
        assert NAMED in " ".join(output(*command).split())
        card = json.loads(output(*command, "--json"))["judge"]
        assert {name: card[name] for name in CARD} == CARD
        assert card["sha256"].startswith("cfcfedcc41bb")


def test_the_packaged_judge_keeps_its_caution_under_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: Callable[..., str]
) -> None:
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path))
    output(*RUN)
    packaged = model_registry.registered()["lexical"]
    row = {
        "name": "own",
        "path": str(packaged.path),
        "sha256": packaged.sha256,
        "profile": packaged.profile,
    }
    lines = [
        f"{key} = {json.dumps(value)}\n" for key, value in {**row, "size": packaged.size}.items()
    ]
    (tmp_path / "registry.toml").write_text("".join(["[[model]]\n", *lines]), encoding="utf-8")
    output(*RUN[:-2], "again", "--quiet", "--judge", "own")
    assert NAMED.replace("lexical", "own") in " ".join(output("show", "again").split())
