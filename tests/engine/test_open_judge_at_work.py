"""An open judge on a real model: threads, forked processes, and the memory of many that were opened and closed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine

STRESS = Path(__file__).parent / "stress_open_judge.py"
FORK = """
import os, sys
from localjudge import Judge, LocaljudgeError
rows = [{"id": "a", "retrieved_contexts": ["A tower is in Ulm."], "response": "It is in Ulm."}]
with Judge.open("reference", threads=2) as judge:
    before = judge.evaluate(rows, ["faithfulness"]).scores
    if not os.fork():
        try:
            judge.evaluate(rows, ["faithfulness"]).scores
        except LocaljudgeError as error:
            print(error, flush=True)
        judge.close()
        os._exit(0)
    os.wait()
    assert judge.evaluate(rows, ["faithfulness"]).scores == before
"""
MEMORY = """
import gc, os
from localjudge import Judge
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
rows = [{"id": "a", "retrieved_contexts": ["A tower is in Ulm."], "response": "It is in Ulm."}]
sizes = []
for _ in range(10):
    with Judge.open("reference", threads=1, n_ctx=512) as judge:
        judge.evaluate(rows, ["faithfulness"]).scores
    gc.collect()
    sizes.append(resident())
print(sizes[-1] - sizes[2])
"""


def output_of(*arguments: str) -> str:
    """What a Python process prints. It must end well."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(params=["reference", "smollm2"])
def model(request: pytest.FixtureRequest) -> str:
    """The bundled judge, and a language model where there is one."""
    if request.param == "reference":
        return "reference"
    folder = os.environ.get("LOCALJUDGE_TEST_MODELS")
    files = sorted(Path(folder).glob("smollm2*.gguf")) if folder else []
    if not files:
        pytest.skip("needs smollm2-*.gguf: set LOCALJUDGE_TEST_MODELS to its folder")
    return str(files[0])


def test_threads_that_use_and_close_a_judge_get_the_numbers_of_one_thread_or_an_error(
    model: str, tmp_path: Path
) -> None:
    """20 rounds of evaluate, scores, verdicts and close on four threads, closed after 0 to 3 uses."""
    outcomes = json.loads(output_of(str(STRESS), model, str(tmp_path)))
    assert outcomes.keys() <= {"equal", "the judge is closed"}
    assert sum(outcomes.values()) == 20 * 3
    assert outcomes["equal"] >= 5 * (0 + 1 + 2 + 3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes")
def test_a_forked_process_is_told_to_open_its_own_judge() -> None:
    """It hung before. What it closes is not its own, and the parent's judge still answers."""
    assert output_of("-c", FORK).splitlines() == [
        "the judge was opened by another process, and its model cannot be used in a forked one",
        "  hint: open a judge in each process, after the fork",
    ]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system tells no process its memory")
def test_memory_does_not_grow_with_the_judges_that_were_opened_and_closed() -> None:
    """From the third to the tenth less than one model takes (11 MiB), if 7 are freed.

    Measured: 5 MiB, after a full collection. Without one it was 13, because what Python frees late is not a model.
    """
    assert float(output_of("-c", MEMORY)) < 11
