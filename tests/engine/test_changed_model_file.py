"""A model file that is written to while it is used: verdicts come from the bytes whose checksum the run records."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localjudge import model_registry
from localjudge.engine.llamacpp import loading
from localjudge.engine.llamacpp.engine import LlamaCppEngine
from localjudge.engine.llamacpp.model import OpenModel, open_model
from localjudge.engine.protocol import EngineSettings
from localjudge.errors import ModelError
from localjudge.model_registry import ModelFile
from localjudge.types import Answer, NoAnswer, VerdictRequest
from tests.engine.conftest import Asker, ModelMaker, Opener

pytestmark = pytest.mark.engine

QUANTISATIONS = ("F16", "Q8_0", "Q4_0")


@pytest.fixture(params=QUANTISATIONS)
def model(request: pytest.FixtureRequest, make_model: ModelMaker, tmp_path: Path) -> ModelFile:
    """A copy that may be spoilt. llama.cpp lays some quantisations out anew when it loads them, others not."""
    return model_registry.find(str(shutil.copy(make_model(quantisation=request.param).path, tmp_path / "model.gguf")))


def asked(ask: Asker) -> list[VerdictRequest]:
    return [ask(statement, ["In 1936."]) for statement in ("It opened in 1936.", "It closed.", "It is red.")]


def spoil(path: Path) -> None:
    """Write zeros over the second half of the file, in place."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(bytes(size - size // 2))


def answers(engine: LlamaCppEngine, requests: list[VerdictRequest]) -> dict[int, Answer | NoAnswer]:
    return dict(engine.answers(requests))


def test_a_file_that_is_overwritten_moves_no_verdict(model: ModelFile, open_engine: Opener, ask: Asker) -> None:
    """Also none of those that are decoded when the file is not what it was. Opened anew, it gives other answers."""
    requests = asked(ask)
    expected = answers(open_engine(model, n_ctx=256), requests)
    coming = open_engine(model, n_ctx=256).answers(requests)
    first = dict([next(coming)])
    spoil(model.path)
    assert first | dict(coming) == expected
    assert answers(open_engine(model_registry.find(str(model.path)), n_ctx=256), requests) != expected


def test_a_file_that_is_cut_off_does_not_end_the_process(model: ModelFile) -> None:
    """A mapped file would: SIGBUS at the first page that is gone."""
    path = str(model.path)
    program = f"""
import os
from localjudge import model_registry
from localjudge.engine.llamacpp.engine import LlamaCppEngine
from localjudge.engine.protocol import EngineSettings
from localjudge.judge.profile import load_grammar
from localjudge.types import Piece, VerdictRequest
engine = LlamaCppEngine(model_registry.find({path!r}), EngineSettings(threads=1, n_ctx=256))
os.truncate({path!r}, 0)
path = ((Piece(text="Is it so? ", trusted=True),),)
print(*engine.answers([VerdictRequest(path=path, grammar=load_grammar("attributed"))]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Answer(p_yes=" in done.stdout


def test_a_file_that_was_changed_before_it_is_loaded_is_refused(model: ModelFile) -> None:
    """Its checksum is that of other bytes."""
    spoil(model.path)
    with pytest.raises(ModelError, match="changed since its checksum was taken"):
        loading.load(model, EngineSettings(threads=1, n_ctx=256))


@pytest.mark.parametrize("change", [spoil, Path.unlink], ids=["overwritten", "removed"])
def test_a_file_that_changes_while_it_is_loaded_is_refused(
    make_model: ModelMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    """Nobody knows which bytes were read."""
    model = model_registry.find(str(shutil.copy(make_model().path, tmp_path / "model.gguf")))

    def slowly(path: Path, **how: Any) -> OpenModel:
        opened = open_model(path, **how)
        change(path)
        return opened

    monkeypatch.setattr(loading, "open_model", slowly)
    with pytest.raises(ModelError, match="changed since its checksum was taken"):
        loading.load(model, EngineSettings(threads=1, n_ctx=256))


def test_a_file_that_was_only_touched_is_loaded(make_model: ModelMaker, tmp_path: Path) -> None:
    """Another time and the same bytes: its checksum is what it was."""
    model = model_registry.find(str(shutil.copy(make_model().path, tmp_path / "model.gguf")))
    os.utime(model.path, ns=(1, 1))
    loading.load(model, EngineSettings(threads=1, n_ctx=256)).close()
