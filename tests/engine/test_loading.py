import os
import re
import shutil
from pathlib import Path

import llama_cpp
import pytest
import random_model

from localjudge import model_registry
from localjudge.engine.llamacpp import loading
from localjudge.engine.protocol import EngineSettings
from localjudge.types import Answer, NoAnswer
from tests.engine.conftest import Asker, ModelMaker, Opener

pytestmark = pytest.mark.engine

LONG = random_model.Shape(context=16_384)


@pytest.mark.parametrize(
    ("shape", "asked", "pinned", "got"),
    [
        (random_model.Shape(context=2048), None, None, 2048),
        (LONG, None, None, 8192),
        (LONG, 1024, None, 1024),
        (LONG, 12_000, None, 12_000),
        (LONG, 99_999, None, 16_384),
        (LONG, None, 4096, 4096),
        (LONG, 1024, 4096, 1024),
    ],
)
def test_the_context_size_comes_from_model_and_option(
    make_model: ModelMaker,
    caplog: pytest.LogCaptureFixture,
    shape: random_model.Shape,
    asked: int | None,
    pinned: int | None,
    got: int,
) -> None:
    file = make_model(shape=shape).model_copy(update={"n_ctx": pinned})
    model = loading.load(file, EngineSettings(threads=1, n_ctx=asked))
    assert model.n_ctx == got
    model.close()
    warned = [record.getMessage()[:6] for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == (asked is not None and asked > got)


@pytest.mark.parametrize(
    ("has_gpu", "asked", "given"),
    [(False, None, 0), (False, 20, 0), (True, None, -1), (True, 0, 0), (True, 20, 20)],
)
def test_all_layers_go_to_a_usable_gpu(
    make_model: ModelMaker,
    monkeypatch: pytest.MonkeyPatch,
    has_gpu: bool,
    asked: int | None,
    given: int,
) -> None:
    """-1 means all layers."""
    monkeypatch.setattr(llama_cpp, "llama_supports_gpu_offload", lambda: has_gpu)
    model = loading.load(make_model(), EngineSettings(threads=1, n_ctx=256, gpu_layers=asked))
    assert model.gpu_layers == given
    model.close()


def test_the_default_threads_are_the_available_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    assert EngineSettings().used_threads == len(os.sched_getaffinity(0))
    assert EngineSettings(threads=3).used_threads == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert EngineSettings().used_threads == 6


@pytest.mark.parametrize(
    "name", ["with blanks in it.gguf", "日本 😀.gguf", "quote'\".gguf", "-n.gguf", "a\nb.gguf"]
)
def test_a_model_may_have_any_path(make_model: ModelMaker, tmp_path: Path, name: str) -> None:
    path = shutil.copy(make_model().path, tmp_path / name)
    loading.load(model_registry.find(str(path)), EngineSettings(threads=1, n_ctx=256)).close()


def test_a_prompt_of_full_context_is_judged_and_a_longer_one_has_no_effect(
    make_model: ModelMaker, open_engine: Opener, ask: Asker
) -> None:
    """One token per byte: exactly the context, and one more."""
    engine = open_engine(make_model(), n_ctx=256)
    spare = 256 - engine.length(ask("Fits.", [""]))
    exact = ask("Fits.", ["x" * spare])
    beyond = ask("Fits.", ["x" * (spare + 1)])
    assert (engine.length(exact), engine.length(beyond)) == (256, 257)
    answers = dict(engine.answers([exact, beyond, ask("Fits too.", ["x"])]))
    assert [type(answers[index]) for index in range(3)] == [Answer, NoAnswer, Answer]
    assert re.search("257 tokens.*256", getattr(answers[1], "error", ""))


def test_a_context_smaller_than_a_step_works(
    make_model: ModelMaker, open_engine: Opener, ask: Asker
) -> None:
    """llama.cpp aborts if a batch exceeds the context."""
    engine = open_engine(make_model(), n_ctx=128)
    requests = [ask(f"Statement {number}.", [f"Context {number % 3}."]) for number in range(30)]
    assert all(isinstance(answer, Answer) for _, answer in engine.answers(requests))


def test_the_identity_names_everything_that_can_change_an_answer(
    make_model: ModelMaker, open_engine: Opener
) -> None:
    file = make_model("qwen2", "Q8_0")
    identity = open_engine(file, n_ctx=512).identity
    assert {"llama_cpp_python", "llguidance", "system", "n_ubatch", "gpu_layers"} <= set(identity)
    assert "threads" not in identity
    expected = {
        "model_sha256": file.sha256,
        "architecture": "qwen2",
        "quantisation": "Q8_0",
        "n_ctx": 512,
    }
    assert {
        **expected,
        "batching": "isolated",
        "flash_attention": False,
    }.items() <= identity.items()
