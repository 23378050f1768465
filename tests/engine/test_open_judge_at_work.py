"""An open judge on a real model: threads, forked processes, and the memory of many that were opened and closed."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Semaphore
from typing import Any

import pytest

import localjudge
from localjudge import InputError, Judge

pytestmark = pytest.mark.engine

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
POOL = """
import localjudge
from multiprocessing import get_context
rows = [{"id": "a", "retrieved_contexts": ["A tower is in Ulm."], "response": "It is in Ulm. It is tall."}]
def verdicts(_):
    run = localjudge.evaluate(rows, metrics="faithfulness", threads=2, out=False)
    return [verdict.p_yes for verdict in run.verdicts]
expected = verdicts(0)
with get_context("fork").Pool(2) as pool:
    assert pool.map_async(verdicts, range(4)).get(timeout=60) == [expected] * 4
"""
MEMORY = """
import gc, os
from localjudge import Judge
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
rows = [{"id": "a", "retrieved_contexts": ["A tower is in Ulm."], "response": "It is in Ulm."}]
sizes = []
for _ in range(30):
    with Judge.open("reference", threads=1, n_ctx=512) as judge:
        judge.evaluate(rows, ["faithfulness"]).scores
    gc.collect()
    sizes.append(resident())
print(sizes[-1] - sizes[9])
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


Numbers = list[tuple[str, float | None]]


def ask(judge: Judge, place: str, folder: Path) -> Numbers:
    """What is judged about a place that no other use asks about, so that none is answered from memory."""
    rows = [{"id": place, "retrieved_contexts": [f"A tower is in {place}."], "response": f"It is in {place}."}]
    if place == "Ulm":
        out = folder / f"{random.getrandbits(64):x}"
        run = localjudge.evaluate(rows, judge=judge, metrics=["faithfulness"], out=out, progress=False)
        return [(row.text, row.p_yes) for row in run.verdicts]
    return [(row.text, row.p_yes) for row in judge.evaluate(rows, ["faithfulness"]).verdicts]


def stress(model: str, folder: Path) -> Counter[str]:
    """Let three threads use one open judge and a fourth close it, all at once; how often each outcome was."""
    how: dict[str, Any] = {"threads": 1, "n_ctx": 512}
    with Judge.open(model, **how) as judge:
        serial = {place: ask(judge, place, folder) for place in ("Ulm", "Bonn", "Jena")}
    outcomes: Counter[str] = Counter()
    for number in range(20):
        judge, barrier, done = Judge.open(model, **how), Barrier(4), Semaphore(0)
        with ThreadPoolExecutor(4) as threads:
            closing = threads.submit(close_after, number % 4, judge, barrier, done)
            jobs = {place: threads.submit(use, judge, place, folder, barrier, done) for place in serial}
            for place, job in jobs.items():
                outcomes["equal" if job.result() == serial[place] else str(job.result())] += 1
            closing.result()
    return outcomes


def close_after(uses: int, judge: Judge, barrier: Barrier, done: Semaphore) -> None:
    """Close the judge after this number of uses; the others are waiting or at work then."""
    barrier.wait()
    for _ in range(uses):
        done.acquire()
    judge.close()


def use(judge: Judge, place: str, folder: Path, barrier: Barrier, done: Semaphore) -> Numbers | str:
    """What the use gives, or what was wrong."""
    barrier.wait()
    try:
        return ask(judge, place, folder)
    except InputError as error:
        return error.message
    finally:
        done.release()


def test_threads_that_use_and_close_a_judge_get_the_numbers_of_one_thread_or_an_error(
    model: str, tmp_path: Path
) -> None:
    """20 rounds of three uses and a close on four threads, closed after 0 to 3 uses."""
    outcomes = json.loads(output_of(__file__, model, str(tmp_path)))
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes")
def test_a_forked_process_judges_with_one_thread_and_says_so() -> None:
    """After the parent had judged with several threads, a child that judged waited for ever."""
    done = subprocess.run([sys.executable, "-c", POOL], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "it uses 1 thread; for more, use multiprocessing.get_context('spawn')" in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes")
def test_a_forked_process_cannot_use_the_gpu_of_its_parent() -> None:
    script = (
        "import os; from localjudge.engine.llamacpp.model import usable_threads; usable_threads(1, 9); os.fork() or "
        "usable_threads(1, 9)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert "InputError: a forked process cannot use the GPU" in done.stderr


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system tells no process its memory")
def test_memory_does_not_grow_with_the_judges_that_were_opened_and_closed() -> None:
    """From the tenth to the thirtieth less than five models take (11 MiB each), if 20 are freed.

    Measured: -3 to 11 MiB, after a full collection, as the allocator fills and leaves gaps; 20 models are 220.
    """
    assert float(output_of("-c", MEMORY)) < 5 * 11


def test_scores_without_a_run_use_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second judge asks nothing; without the cache, adapters and `assert_score` asked everything again."""
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path))
    rows = [{"id": "a", "retrieved_contexts": ["A tower is in Ulm."], "response": "It is in Ulm."}]
    results = []
    for _ in range(2):
        with Judge.open("reference", threads=1, cache=True) as judge:
            evaluations = judge.evaluations(rows, "faithfulness")
            with judge.in_use() as opened:
                results.append((evaluations, opened.engine.stats.unique_tokens))
    assert results[0][0] == results[1][0]
    assert results[0][1] > results[1][1] == 0


if __name__ == "__main__":
    sys.stdout.write(json.dumps(stress(sys.argv[1], Path(sys.argv[2]))))
