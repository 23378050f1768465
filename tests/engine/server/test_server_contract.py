"""Contract tests on real servers.

llama-server is found on the PATH or by LOCALJUDGE_LLAMA_SERVER; `python -m llama_cpp.server` needs `pip install
'llama-cpp-python[server]'`.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from localjudge.engine.llamacpp.engine import LlamaCppEngine
from localjudge.engine.llamacpp.model import vocabulary_of_file
from localjudge.engine.protocol import EngineSettings
from localjudge.engine.server.kinds import open_server, served_model
from localjudge.engine.server.server_engine import AnswerPlace, ServerEngine
from localjudge.errors import ModelError, OutOfResource
from localjudge.model_registry import ModelFile
from localjudge.types import Answer
from tests.engine.conftest import TEMPLATE, ModelMaker
from tests.engine.contract import check_engine, example_requests
from tests.engine.server.fake_server import FakeServer, serving

pytestmark = pytest.mark.engine

N_CTX = 2048
SETTINGS = EngineSettings()
_NEEDED = ("fastapi", "uvicorn", "sse_starlette", "starlette_context", "pydantic_settings")


@pytest.fixture(scope="module")
def model(make_model: ModelMaker) -> ModelFile:
    return make_model(vocabulary="pieces", chat_template=TEMPLATE)


@contextmanager
def started(command: Sequence[str], address: str, log: Path) -> Iterator[str]:
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


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def running_llama_server(path: Path, folder: Path) -> Iterator[str]:
    program = os.environ.get("LOCALJUDGE_LLAMA_SERVER") or shutil.which("llama-server")
    if not program:
        pytest.skip("NOT CHECKED: no llama-server: put one on the PATH, or name it by LOCALJUDGE_LLAMA_SERVER")
    port = str(free_port())
    command = [program, "-m", str(path), "--host", "127.0.0.1", "--port", port, "-c", str(N_CTX), "-np", "1", "-t", "1"]
    with started(command, f"http://127.0.0.1:{port}", folder / "server.log") as address:
        yield address


@contextmanager
def running_python_server(path: Path, folder: Path, *options: str) -> Iterator[str]:
    if not all(map(find_spec, _NEEDED)):
        pytest.skip("NOT CHECKED: pip install 'llama-cpp-python[server]' brings what its server needs")
    port = str(free_port())
    command = [sys.executable, "-m", "llama_cpp.server", "--model", str(path), "--port", port, "--n_threads", "1"]
    with started([*command, "--n_ctx", str(N_CTX), *options], f"http://127.0.0.1:{port}", folder / "log") as address:
        yield address


def engine_at(address: str) -> ServerEngine:
    return open_server(served_model(address, SETTINGS), SETTINGS)


def test_llama_server_keeps_the_contract(model: ModelFile, tmp_path: Path) -> None:
    with running_llama_server(model.path, tmp_path) as address:
        with closing(engine_at(address)) as engine:
            assert engine.identity["model_sha256"] == model.sha256
            assert engine.shares_prefixes
        assert check_engine(lambda: engine_at(address)) == []


def test_a_recurrent_memory_keeps_the_contract(make_model: ModelMaker, tmp_path: Path) -> None:
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
        other = there[index]
        assert isinstance(answer, Answer)
        assert isinstance(other, Answer)
        assert (other.p_yes, other.legal_mass) == pytest.approx((answer.p_yes, answer.legal_mass), rel=0, abs=0.01)


def test_the_python_server_keeps_the_contract(model: ModelFile, tmp_path: Path) -> None:
    with running_python_server(model.path, tmp_path, "--logits_all", "true") as address:
        with closing(engine_at(address)) as engine:
            assert engine.identity["server"] == "llama_cpp.server"
            assert engine.identity["model_sha256"] == model.sha256
        assert check_engine(lambda: engine_at(address)) == []


def test_the_python_server_gets_a_second_call_only_for_unlisted_tokens(make_model: ModelMaker, tmp_path: Path) -> None:
    """Two requests with two valid tokens of unique text; the answers are bit-identical."""
    model = make_model(vocabulary="bytes", chat_template=TEMPLATE)
    with (
        running_python_server(model.path, tmp_path, "--logits_all", "true") as address,
        closing(engine_at(address)) as engine,
    ):
        requests, calls = example_requests(engine)[:2], [0]
        texts = with_counted_calls(engine, calls)
        by_list = dict(engine.answers(requests))
        with_list = calls.pop()
        calls.append(0)
        texts.clear()
        by_token = dict(engine.answers(requests))
    assert calls == [2 * (1 + 2)]
    assert 2 <= with_list < 2 * (1 + 2)
    assert by_list == by_token
    assert all(isinstance(answer, Answer) for answer in by_list.values())


def with_counted_calls(engine: Any, calls: list[int]) -> dict[str, int]:
    """Count the calls for probabilities and return the token texts that they look up."""
    complete = engine._complete

    def counting(prompt: str, **how: Any) -> Any:
        calls[0] += "logprobs" in how
        return complete(prompt, **how)

    engine._complete = counting
    texts: dict[str, int] = engine._texts
    return texts


class FakePythonServer(FakeServer):
    """Names a file and tokenizes with the given function."""

    def __init__(self, named: Path, cut: Callable[[str], Any]) -> None:
        super().__init__()
        self.named = str(named)
        self.cut = cut
        self.n_ctx = 2048

    def answer(self, path: str, body: Any) -> tuple[int, Any]:
        """Answer like llama_cpp.server."""
        if path == "/v1/models":
            return 200, {"data": [{"id": self.named, "owned_by": "me"}]}
        if path == "/openapi.json":
            return 200, {"info": {"version": "0.3.36"}}
        if path == "/v1/completions" and len(body["prompt"]) > self.n_ctx:
            return 400, {"error": {"message": f"Requested tokens exceed context window of {self.n_ctx}"}}
        if path == "/v1/completions":
            return 200, {"choices": [{"text": "So."}], "usage": {"prompt_tokens": 1}}
        return (200, {"tokens": self.cut(body["input"])}) if path == "/extras/tokenize" else (404, {})


OTHERS: list[Callable[[list[int]], Any]] = [
    lambda tokens: [token + 1 for token in tokens],
    lambda tokens: [10**9],
    lambda tokens: [],
    lambda tokens: None,
]


@pytest.mark.parametrize("other", OTHERS)
def test_a_local_file_with_other_tokens_is_not_the_servers(model: ModelFile, other: Callable[[list[int]], Any]) -> None:
    """It was replaced, or the path is inside a container. Name and size do not show this."""
    with vocabulary_of_file(model.path) as vocabulary:
        fake = FakePythonServer(model.path, lambda text: [vocabulary.bos, *vocabulary.user(text)])
        with serving(fake):
            assert served_model(fake.url, SETTINGS).sha256 == model.sha256
            fake.cut = lambda text: other([vocabulary.bos, *vocabulary.user(text)])
            with pytest.raises(ModelError, match="into other tokens than that file"):
                served_model(fake.url, SETTINGS)


def test_a_python_server_with_other_settings_is_refused_each_time(model: ModelFile) -> None:
    with vocabulary_of_file(model.path) as vocabulary:
        fake = FakePythonServer(model.path, vocabulary.user)
        place = AnswerPlace((), tuple(vocabulary.user("It rains.")))
        with serving(fake):
            server = open_server(served_model(fake.url, SETTINGS), SETTINGS)
            assert server.written(place, end='"', most=9)
        fake.n_ctx = 4096
        with closing(server), serving(fake, fake.port):
            for _ in range(3):
                with pytest.raises(OutOfResource, match="changed its model"):
                    server.written(place, end='"', most=9)


def test_the_python_server_without_its_logits_is_refused(model: ModelFile, tmp_path: Path) -> None:
    with (
        running_python_server(model.path, tmp_path, "--logits_all", "false") as address,
        pytest.raises(ModelError, match="does not tell probabilities"),
    ):
        engine_at(address)
