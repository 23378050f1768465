"""What the doctor says of a loaded model, with an engine that is only described."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from localjudge.doctor import machine as model_checks
from localjudge.doctor.judgement import plain_cases
from localjudge.engine.protocol import InspectableEngine
from localjudge.errors import SampleError
from localjudge.judge import profile as prompts
from localjudge.judge.wording import PromptWriter

GIB = 1 << 30
REQUESTS = PromptWriter(prompts.load_profile("instruct")).requests([case.task() for case in plain_cases()])


def engine(**described: Any) -> InspectableEngine:
    return cast(InspectableEngine, SimpleNamespace(**described))


def memory_of(need: int, *, gpu_layers: int = 0) -> InspectableEngine:
    return engine(memory_bytes=need, identity={"gpu_layers": gpu_layers})


@pytest.mark.parametrize(("free", "status"), [(10 * GIB, "ok"), (9 * GIB, "warning")])
def test_a_model_that_takes_nearly_all_of_the_memory_is_a_warning(free: int, status: str) -> None:
    """8.5 of 10 GiB leave enough; of 9 GiB they are 94 %."""
    check = model_checks.memory_check(memory_of(17 * GIB // 2), free)
    assert (check.status, check.figures) == (status, {"needed_bytes": 17 * GIB // 2, "free_bytes": free})


def test_memory_of_a_gpu_is_not_compared_with_that_of_the_machine() -> None:
    assert model_checks.memory_check(memory_of(80 * GIB, gpu_layers=-1), GIB).status == "ok"


def test_memory_that_the_system_does_not_tell_is_said_to_be_unknown() -> None:
    assert "does not tell" in model_checks.memory_check(memory_of(GIB), None).found


def test_a_model_that_cannot_share_prompts_is_slow_and_that_is_a_warning() -> None:
    check = model_checks.fork_check(engine(forks=False, identity={"self_check": "not forked"}))
    assert (check.status, check.figures) == ("warning", {"self_check": "not forked"})


def test_tokens_that_decode_to_the_text_are_as_they_should_be() -> None:
    reading = engine(read_back=lambda request: "".join(piece.text for node in request.path for piece in node))
    assert (
        model_checks.read_back_check(reading, REQUESTS).found == "the tokens of 16 prompts decode to their exact text"
    )


def test_one_lost_space_is_another_text() -> None:
    reading = engine(
        read_back=lambda request: "".join(piece.text for node in request.path for piece in node).rstrip(),
    )
    check = model_checks.read_back_check(reading, REQUESTS)
    assert (check.status, check.figures["changed"]) == ("failed", 16)


def test_text_that_the_model_cannot_be_shown_is_a_warning() -> None:
    def refuse(_request: object) -> str:
        raise SampleError("the tokenizer does not give this text back")

    check = model_checks.read_back_check(engine(read_back=refuse), REQUESTS)
    assert (check.status, check.figures["refused"]) == ("warning", 16)


def test_a_vocabulary_that_folds_text_is_said_to() -> None:
    folding = engine(read_back=lambda _request: None)
    assert "folds case and accents" in model_checks.read_back_check(folding, REQUESTS).found
