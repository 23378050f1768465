import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Semaphore

import pytest

import localjudge
from localjudge import InputError, Judge

pytestmark = pytest.mark.engine

FORK = """
import os, sys
from localjudge import Judge, LocaljudgeError
rows = [{"id": "a", "retrieved_contexts": ["A tower is in Ulm."], "response": "It is in Ulm."}]
with Judge.open("lexical", threads=2) as judge:
    before = judge.evaluate(rows, ["faithfulness"], out=False).scores
    if not os.fork():
        try:
            judge.evaluate(rows, ["faithfulness"], out=False).scores
        except LocaljudgeError as error:
            print(error, flush=True)
        judge.close()
        os._exit(0)
    os.wait()
    assert judge.evaluate(rows, ["faithfulness"], out=False).scores == before
"""
POOL = """
import localjudge
from multiprocessing import get_context
response = "It is in Ulm. It is tall."
rows = [{"id": "a", "retrieved_contexts": ["A tower is in Ulm."], "response": response}]
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
    with Judge.open("lexical", threads=1, n_ctx=512) as judge:
        judge.evaluate(rows, ["faithfulness"], out=False).scores
    gc.collect()
    sizes.append(resident())
print(sizes[-1] - sizes[9])
"""


def finished(*arguments: str) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes")


Numbers = list[tuple[str, float | None]]


def ask(judge: Judge, place: str, folder: Path) -> Numbers:
    """Judge texts about a place that only this call names, so no answer is cached."""
    rows = [
        {
            "id": place,
            "retrieved_contexts": [f"A tower is in {place}."],
            "response": f"It is in {place}.",
        }
    ]
    if place == "Ulm":
        out = folder / f"{random.getrandbits(64):x}"
        run = localjudge.evaluate(
            rows, judge=judge, metrics=["faithfulness"], out=out, progress=False
        )
        return [(row.text, row.p_yes) for row in run.verdicts]
    return [
        (row.text, row.p_yes) for row in judge.evaluate(rows, ["faithfulness"], out=False).verdicts
    ]


def stress(folder: Path) -> Counter[str]:
    def opened() -> Judge:
        return Judge.open("lexical", threads=1, n_ctx=512)

    with opened() as judge:
        serial = {place: ask(judge, place, folder) for place in ("Ulm", "Bonn", "Jena")}
    outcomes: Counter[str] = Counter()
    for number in range(20):
        judge = opened()
        barrier = Barrier(4)
        done = Semaphore(0)
        with ThreadPoolExecutor(4) as threads:
            closing = threads.submit(close_after, number % 4, judge, barrier, done)
            jobs = {
                place: threads.submit(use, judge, place, folder, barrier, done) for place in serial
            }
            for place, job in jobs.items():
                outcomes["equal" if job.result() == serial[place] else str(job.result())] += 1
            closing.result()
    return outcomes


def close_after(uses: int, judge: Judge, barrier: Barrier, done: Semaphore) -> None:
    barrier.wait()
    for _ in range(uses):
        done.acquire()
    judge.close()


def use(judge: Judge, place: str, folder: Path, barrier: Barrier, done: Semaphore) -> Numbers | str:
    barrier.wait()
    try:
        return ask(judge, place, folder)
    except InputError as error:
        return error.message
    finally:
        done.release()


def test_threads_get_the_numbers_of_one_thread_or_an_error(tmp_path: Path) -> None:
    """20 rounds of three uses and a close, after 0 to 3 uses."""
    outcomes = json.loads(finished(__file__, str(tmp_path)).stdout)
    assert outcomes.keys() <= {"equal", "the judge is closed"}
    assert sum(outcomes.values()) == 20 * 3
    assert outcomes["equal"] >= 5 * (0 + 1 + 2 + 3)


@forks
def test_a_forked_process_must_open_its_own_judge() -> None:
    """Using the inherited judge could hang. Closing it does not affect the parent."""
    error, hint = finished("-c", FORK).stdout.splitlines()
    assert "opened by another process" in error
    assert hint.startswith("  hint: ")


@forks
def test_a_forked_process_judges_with_one_thread_and_says_so() -> None:
    """With several threads, a child of a process that has judged would hang."""
    assert "it uses 1 thread" in finished("-c", POOL).stderr


@forks
def test_a_forked_process_cannot_use_the_gpu_of_its_parent() -> None:
    script = "import os; from localjudge.engine.llamacpp.model import usable_threads as use\n"
    script += "use(1, 9)\nif os.fork():\n    os.wait()\nelse:\n    use(1, 9)"
    assert re.search("InputError: .*forked process .*GPU", finished("-c", script).stderr)


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="this system tells no process its memory"
)
def test_closed_judges_free_their_memory() -> None:
    """From the tenth to the thirtieth judge it grows less than five models of 11 MiB (20: 220).

    Measured: -3 to 11 MiB after a full collection, because of allocator gaps.
    """
    assert float(finished("-c", MEMORY).stdout) < 5 * 11


if __name__ == "__main__":
    sys.stdout.write(json.dumps(stress(Path(sys.argv[-1]))))
