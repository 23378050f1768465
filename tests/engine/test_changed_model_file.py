import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localjudge import ModelError, model_registry
from localjudge.engine.llamacpp import loading
from localjudge.engine.llamacpp.model import open_model
from localjudge.engine.protocol import EngineSettings
from localjudge.model_registry import ModelFile
from tests.engine.conftest import Asker, ModelMaker, Opener

pytestmark = pytest.mark.engine

SETTINGS = EngineSettings(threads=1, n_ctx=256)


@pytest.fixture(params=["F16", "Q8_0", "Q4_0"])
def model(request: pytest.FixtureRequest, make_model: ModelMaker, tmp_path: Path) -> ModelFile:
    """A copy for the test to damage. llama.cpp repacks only some quantisations when loading."""
    return model_registry.find(
        str(shutil.copy(make_model(quantisation=request.param).path, tmp_path / "model.gguf"))
    )


def spoil(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(bytes(size - size // 2))


def cut_off(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize("change", [spoil, cut_off])
def test_changing_a_loaded_file_does_not_change_verdicts(
    model: ModelFile, open_engine: Opener, ask: Asker, change: Callable[[Path], None]
) -> None:
    """Also in reasons decoded after the change. A new engine gives other answers.

    Truncating a mapped file would end the process with SIGBUS.
    """
    requests = [
        ask(statement, ["In 1936."])
        for statement in ("It opened in 1936.", "It closed.", "It is red.")
    ]
    expected = dict(open_engine(model, n_ctx=256).answers(requests))
    coming = open_engine(model, n_ctx=256).answers(requests)
    first = dict([next(coming)])
    change(model.path)
    assert first | dict(coming) == expected
    if change is spoil:
        assert (
            dict(open_engine(model_registry.find(str(model.path)), n_ctx=256).answers(requests))
            != expected
        )


@pytest.mark.parametrize("model", ["F16"], indirect=True)
@pytest.mark.parametrize(
    ("before", "during"),
    [(spoil, Path.exists), (Path.exists, spoil), (Path.exists, Path.unlink)],
)
def test_a_file_that_changes_before_or_while_it_is_loaded_is_refused(
    model: ModelFile,
    monkeypatch: pytest.MonkeyPatch,
    before: Callable[[Path], object],
    during: Callable[[Path], object],
) -> None:
    def slowly(path: Path, **how: Any) -> Any:
        opened = open_model(path, **how)
        during(path)
        return opened

    before(model.path)
    monkeypatch.setattr(loading, "open_model", slowly)
    with pytest.raises(ModelError, match=r"changed .*checksum"):
        loading.load(model, SETTINGS)


def test_a_file_that_was_only_touched_is_loaded(model: ModelFile) -> None:
    os.utime(model.path, ns=(1, 1))
    loading.load(model, SETTINGS).close()
