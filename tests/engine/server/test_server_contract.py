"""Contract tests on a real llama-server, found on the PATH or by LOCALJUDGE_LLAMA_SERVER."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from localjudge.engine.llamacpp.engine import LlamaCppEngine
from localjudge.engine.protocol import EngineSettings
from localjudge.engine.server.served_model import served_model
from localjudge.engine.server.server_engine import ServerEngine, open_server
from localjudge.errors import ModelError
from localjudge.model_registry import ModelFile
from tests.engine.conftest import TEMPLATE, ModelMaker
from tests.engine.contract import check_engine, example_requests

pytestmark = pytest.mark.engine

N_CTX = 2048
SETTINGS = EngineSettings()


@pytest.fixture(scope="module")
def model(make_model: ModelMaker) -> ModelFile:
    return make_model(vocabulary="pieces", chat_template=TEMPLATE)


@contextmanager
def running_llama_server(path: Path, folder: Path) -> Iterator[str]:
    program = os.environ.get("LOCALJUDGE_LLAMA_SERVER") or shutil.which("llama-server")
    if not program:
        pytest.skip("NOT CHECKED: no llama-server: put one on the PATH, or name it by LOCALJUDGE_LLAMA_SERVER")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    command = [program, "-m", str(path), "--host", "127.0.0.1", "--port", port, "-c", str(N_CTX), "-np", "1", "-t", "1"]
    address, log = f"http://127.0.0.1:{port}", folder / "server.log"
    with log.open("wb") as output:
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        try:
            until = time.monotonic() + 60
            while True:
                try:
                    served_model(address, SETTINGS)
                    break
                except ModelError as error:
                    is_starting = "there is no server" in str(error) or "HTTP 503" in str(error)
                    if process.poll() is not None or time.monotonic() > until or not is_starting:
                        raise AssertionError(log.read_text(errors="replace")[-2000:]) from error
                    time.sleep(0.1)
            yield address
        finally:
            process.terminate()
            process.wait()


def engine_at(address: str) -> ServerEngine:
    return open_server(served_model(address, SETTINGS), SETTINGS)


def test_llama_server_meets_the_contract(model: ModelFile, tmp_path: Path) -> None:
    with running_llama_server(model.path, tmp_path) as address:
        with closing(engine_at(address)) as engine:
            assert engine.identity["model_sha256"] == model.sha256
            assert engine.shares_prefixes
        assert check_engine(lambda: engine_at(address)) == []


def test_a_recurrent_memory_meets_the_contract(make_model: ModelMaker, tmp_path: Path) -> None:
    """It cannot be cut to a shared prefix."""
    recurrent = make_model("lfm2", vocabulary="pieces")
    with running_llama_server(recurrent.path, tmp_path) as address:
        assert check_engine(lambda: engine_at(address)) == []


def test_a_listed_vocabulary_equals_the_one_in_the_file(model: ModelFile, tmp_path: Path) -> None:
    """Same bytes of every token, same tokens of every text. The file is deleted after loading."""
    copy = tmp_path / "copy.gguf"
    shutil.copyfile(model.path, copy)
    with running_llama_server(copy, tmp_path) as address, ExitStack() as stack:
        there = stack.enter_context(closing(engine_at(address))).vocabulary
        copy.unlink()
        here = stack.enter_context(closing(engine_at(address))).vocabulary
        assert (here.pieces, here.begin) == (there.pieces, there.begin)
        assert set(there.reserved) <= set(here.reserved)
        for text in ("The bridge opened in 1936.", "<start_of_turn>", "a\n\tb 桥 😀", " <s> </s>"):
            assert here.trusted(text) == there.trusted(text)
            assert here.user(text) == there.user(text)
        with closing(engine_at(address)) as engine:
            assert "model_sha256" not in engine.identity
        assert check_engine(lambda: engine_at(address)) == []


def test_a_server_gives_the_probabilities_of_the_model_in_process(model: ModelFile, tmp_path: Path) -> None:
    """Within 0.01 for random weights, as the builds round differently."""
    with running_llama_server(model.path, tmp_path) as address, closing(engine_at(address)) as engine:
        requests = example_requests(engine)[:6]
        there = dict(engine.answers(requests))
    with closing(LlamaCppEngine(model, EngineSettings(threads=1, n_ctx=N_CTX))) as engine:
        here = dict(engine.answers(requests))
    for index, answer in here.items():
        numbers = [each.model_dump(include={"p_yes", "legal_mass"}) for each in (there[index], answer)]
        assert numbers[0] == pytest.approx(numbers[1], rel=0, abs=0.01)
