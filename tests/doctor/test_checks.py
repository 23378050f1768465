from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace
from typing import Any, cast

import pytest

from localjudge.doctor import checks
from localjudge.doctor.examinee import plain_cases
from localjudge.engine.protocol import InspectableEngine
from localjudge.metrics import SampleError
from localjudge.types import VerdictRequest
from tests.doctor.scripted_judges import WRITER

GIB = 1 << 30
REQUESTS = WRITER.requests([case.task for case in plain_cases()])


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(package: str) -> str:
        if package == "localjudge":
            return "1"
        raise PackageNotFoundError(package)

    monkeypatch.setattr("localjudge.doctor.checks.version", version)
    check = checks.check_packages()
    assert (check.status, "llguidance is not installed" in check.finding) == ("failed", True)


@pytest.mark.parametrize(
    ("backends", "layers", "uses_gpu", "status"),
    [
        ((), None, False, "ok"),
        ((), 8, False, "warning"),
        (("cuda",), None, False, "warning"),
        ((), 12, True, "ok"),
    ],
)
def test_a_missing_gpu_is_a_warning(
    backends: tuple[str, ...], layers: int | None, uses_gpu: bool, status: str
) -> None:
    check = checks.check_gpu("llama.cpp 1.0", backends, layers, uses_gpu=uses_gpu)
    assert check.status == status


def engine(**described: Any) -> InspectableEngine:
    return cast(InspectableEngine, SimpleNamespace(**described))


@pytest.mark.parametrize(
    ("need", "gpu_layers", "free", "status"),
    [(8.5, 0, 10, "ok"), (8.5, 0, 9, "warning"), (80, -1, 1, "ok"), (1, 0, None, "ok")],
)
def test_a_model_that_takes_nearly_all_of_the_memory_is_a_warning(
    need: float, gpu_layers: int, free: int | None, status: str
) -> None:
    """8.5 of 10 GiB is fine, of 9 GiB (94 %) not. GPU memory is not compared."""
    needed = int(need * GIB)
    free_bytes = None if free is None else free * GIB
    described = engine(memory_bytes=needed, identity={"gpu_layers": gpu_layers})
    check = checks.check_memory(described, free_bytes)
    assert (check.status, check.figures) == (
        status,
        {"needed_bytes": needed, "free_bytes": free_bytes},
    )


def whole(request: VerdictRequest) -> str:
    return "".join(piece.text for node in request.path for piece in node)


def refuse(_request: VerdictRequest) -> str:
    raise SampleError("the tokenizer does not give this text back")


@pytest.mark.parametrize(
    ("read_back", "status", "figure"),
    [
        (whole, "ok", {}),
        (lambda request: whole(request).rstrip(), "failed", {"changed": 16}),
        (refuse, "warning", {"refused": 16}),
        (lambda _request: None, "ok", {}),
    ],
)
def test_prompts_are_compared_with_their_decoded_tokens(
    read_back: Callable[[VerdictRequest], str | None], status: str, figure: dict[str, int]
) -> None:
    """Exact; one space lost; text that the model cannot represent; a vocabulary that folds text."""
    check = checks.check_prompts(engine(read_back=read_back), REQUESTS)
    assert (check.status, check.figures) == (
        status,
        {"prompts": 16, "changed": 0, "refused": 0} | figure,
    )
