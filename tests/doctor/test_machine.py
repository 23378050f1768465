"""What the doctor says of a machine that lacks something, and of a loaded model that is only described."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from localjudge.doctor import machine
from localjudge.doctor.judgement import plain_cases
from localjudge.engine.protocol import EngineBuild, InspectableEngine
from localjudge.errors import SampleError
from localjudge.judge import profile as prompts
from localjudge.judge.wording import PromptWriter
from localjudge.run.settings import RunSettings
from localjudge.types import VerdictRequest

GIB = 1 << 30
REQUESTS = PromptWriter(prompts.load_profile("instruct")).requests([case.task() for case in plain_cases()])


@pytest.mark.parametrize(
    ("package", "module", "problem"),
    [
        ("no-such-package", "nothing", "no-such-package is not installed"),
        ("llguidance", "no_such_module", "cannot be imported: No module named 'no_such_module'"),
    ],
)
def test_a_package_that_is_missing_or_broken_is_named(
    package: str, module: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(machine._LIBRARIES, package, module)
    check = machine.packages()
    assert (check.status, problem in check.found) == ("failed", True)


def test_a_state_folder_that_cannot_be_written_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a file here: a folder without permission would stop everybody but root."""
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("LOCALJUDGE_HOME", str(file))
    state = machine.state_folder()
    assert (state.status, state.advice) == ("warning", "let LOCALJUDGE_HOME name a folder of your own")


def test_more_threads_than_cores_are_a_warning() -> None:
    assert machine.processor(RunSettings(threads=4096)).status == "warning"


@pytest.mark.parametrize(
    ("build", "layers", "status", "words"),
    [
        (EngineBuild("llama.cpp", "1.0", uses_gpu=False), None, "ok", "was built for the processor alone"),
        (EngineBuild("llama.cpp", "1.0", uses_gpu=False), 8, "warning", "gpu_layers = 8 has no effect"),
        (EngineBuild("llama.cpp", "1.0", False, ("cuda",)), None, "warning", "cuda, which finds no GPU"),
        (EngineBuild("llama.cpp", "1.0", uses_gpu=True), 12, "ok", "has a GPU backend: 12 layers go there"),
        (EngineBuild("llama.cpp", "1.0", uses_gpu=True), None, "ok", "has a GPU backend: all layers go there"),
    ],
)
def test_a_build_says_whether_it_uses_a_gpu(build: EngineBuild, layers: int | None, status: str, words: str) -> None:
    check = machine.gpu_check(build, layers)
    assert (check.status, words in check.found) == (status, True)


def engine(**described: Any) -> InspectableEngine:
    return cast(InspectableEngine, SimpleNamespace(**described))


@pytest.mark.parametrize(
    ("need", "gpu_layers", "free", "status"),
    [(8.5, 0, 10, "ok"), (8.5, 0, 9, "warning"), (80, -1, 1, "ok"), (1, 0, None, "ok")],
)
def test_a_model_that_takes_nearly_all_of_the_memory_is_a_warning(
    need: float, gpu_layers: int, free: int | None, status: str
) -> None:
    """8.5 of 10 GiB leave enough; of 9 GiB they are 94 %. The memory of a GPU is not compared, nor one not told."""
    needed, free_bytes = int(need * GIB), None if free is None else free * GIB
    described = engine(memory_bytes=needed, identity={"gpu_layers": gpu_layers})
    check = machine.memory_check(described, free_bytes)
    assert (check.status, check.figures) == (status, {"needed_bytes": needed, "free_bytes": free_bytes})


def test_a_model_that_cannot_share_prompts_is_slow_and_that_is_a_warning() -> None:
    check = machine.fork_check(engine(shares_prefixes=False, identity={"self_check": "not forked"}), "")
    assert (check.status, check.figures) == ("warning", {"self_check": "not forked"})


def whole(request: VerdictRequest) -> str:
    return "".join(piece.text for node in request.path for piece in node)


def refuse(_request: VerdictRequest) -> str:
    raise SampleError("the tokenizer does not give this text back")


@pytest.mark.parametrize(
    ("read_back", "status", "figure"),
    [
        (whole, "ok", None),
        (lambda request: whole(request).rstrip(), "failed", "changed"),
        (refuse, "warning", "refused"),
        (lambda _request: None, "ok", "folded"),
    ],
)
def test_prompts_are_read_back_from_their_tokens(
    read_back: Callable[[VerdictRequest], str | None], status: str, figure: str | None
) -> None:
    """Exact; with one space lost; with text that the model cannot be shown; by a vocabulary that folds text."""
    check = machine.read_back_check(engine(read_back=read_back), REQUESTS)
    counts = dict.fromkeys(("changed", "refused", "folded"), 0) | {figure: 16}
    assert (check.status, check.figures | {None: 16}) == (status, {None: 16, "prompts": 16, **counts})
