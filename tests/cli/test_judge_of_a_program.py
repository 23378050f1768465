"""A judge that is named as another program names it: run, resumed, scored again and verified under that name."""

import json
import shutil
from pathlib import Path

import pytest

import localjudge
from localjudge import model_registry, resources
from localjudge.errors import ModelError
from localjudge.run.settings import judge_of
from tests.cli.conftest import called
from tests.local_models.conftest import pulled, user

pytestmark = pytest.mark.engine

__all__ = ["user"]

ROWS = [{"id": "a", "retrieved_contexts": ["It opened in 1936."], "reference": "It opened in 1936. It was closed."}]
NAME = "ollama:judge:latest"
RUN = ("run", "data.jsonl", "--metrics", "context_recall", "--threads", "1", "--out", "run", "--quiet")


@pytest.fixture
def store(user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The bundled judge as Ollama would keep it, and a file of data."""
    monkeypatch.chdir(tmp_path)
    Path("data.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    store = user / ".ollama" / "models"
    pulled(store, "registry.ollama.ai/library/judge/latest", resources.bundled_file("models", "reference-judge.gguf"))
    return store


def test_a_run_is_the_same_whatever_its_judge_is_called(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It is known by its checksum; the manifest keeps the name that finds it again, whole."""
    assert called(capfd, *RUN, "--judge", "ollama:judge")[0] == 0
    run = localjudge.Run.open("run")
    assert judge_of(run) == NAME
    assert run.summary == localjudge.evaluate(ROWS, metrics=["context_recall"], threads=1, out="by-name").summary
    assert called(capfd, *RUN, "--judge", NAME)[0] == 0
    assert called(capfd, "verify", "run", "--quiet")[0] == 0
    assert called(capfd, "run", "--rescore", "run", "--threshold", "0.4", "--out", "again", "--quiet")[0] == 0
    assert judge_of(localjudge.Run.open("again")) == NAME


def test_a_run_whose_model_was_removed_says_so(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert called(capfd, *RUN, "--judge", NAME)[0] == 0
    shutil.rmtree(store)
    code, _, errors = called(capfd, "verify", "run", "--quiet")
    assert code == 1
    assert "sha256 4844085b4a92) is not there any more" in errors
    assert "localjudge verify run --judge PATH" in errors
    assert called(capfd, "verify", "run", "--quiet", "--judge", "reference")[0] == 0


def test_a_blob_that_is_not_what_it_is_called_by_is_refused(store: Path) -> None:
    """By its name and by its path; with its checksum and the one it should have."""
    (blob,) = (store / "blobs").iterdir()
    content = bytearray(blob.read_bytes())
    content[-1] ^= 1
    blob.write_bytes(content)
    for name in (NAME, str(blob)):
        with pytest.raises(ModelError, match="is not the file that its name says: sha256") as caught:
            model_registry.find(name)
        assert blob.name in caught.value.message
        assert caught.value.hint
