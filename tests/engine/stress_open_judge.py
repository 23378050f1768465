"""Three threads use one open judge and a fourth closes it, all at once: `stress_open_judge.py MODEL FOLDER`.

Prints how many uses were answered and how many came after the judge was closed. Ends with an error if an answer is not
that of one thread alone, or if a use ends in anything but these two.
"""

import json
import random
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Semaphore
from typing import Any

import localjudge
from localjudge import InputError, Judge

ROUNDS = 20
USES = ("evaluate", "scores", "verdicts")
PLACES = ("Ulm", "Bonn", "Jena")
Numbers = list[tuple[str, float | None]]


def rows(place: str) -> list[dict[str, Any]]:
    """A statement about a place that no other use asks about, so that none is answered from memory."""
    return [{"id": place, "retrieved_contexts": [f"A tower is in {place}."], "response": f"It is in {place}."}]


def ask(judge: Judge, use: str, place: str, folder: Path) -> Numbers:
    """What the use gives: scores, or probabilities."""
    if use == "evaluate":
        out = folder / f"{place}-{random.getrandbits(64):x}"
        run = localjudge.evaluate(rows(place), judge=judge, metrics=["faithfulness"], out=out, progress=False)
        return [(row.text, row.p_yes) for row in run.verdicts]
    result = judge.evaluate(rows(place), ["faithfulness"])
    if use == "scores":
        return [(row.metric, row.score) for row in result.scores]
    return [(row.text, row.p_yes) for row in result.verdicts]


def stress(model: str, folder: Path) -> Counter[str]:
    """All rounds; how often each outcome was."""
    how: dict[str, Any] = {"threads": 1, "n_ctx": 512}
    with Judge.open(model, **how) as judge:
        serial = {(use, place): ask(judge, use, place, folder) for use, place in zip(USES, PLACES, strict=True)}
    outcomes: Counter[str] = Counter()
    for number in range(ROUNDS):
        judge = Judge.open(model, **how)
        barrier, done = Barrier(len(serial) + 1), Semaphore(0)
        with ThreadPoolExecutor(len(serial) + 1) as threads:
            closing = threads.submit(close_after, number % (len(serial) + 1), judge, barrier, done)
            jobs = [threads.submit(outcome, judge, use, folder, barrier, done) for use in serial]
            for job, (use, numbers) in zip(jobs, serial.items(), strict=True):
                result = job.result()
                outcomes[result if isinstance(result, str) else "equal" if result == numbers else f"other {use}"] += 1
            closing.result()
    return outcomes


def close_after(uses: int, judge: Judge, barrier: Barrier, done: Semaphore) -> None:
    """Close the judge when so many uses are done; the others are waiting or at work then."""
    barrier.wait()
    for _ in range(uses):
        done.acquire()
    judge.close()


def outcome(judge: Judge, use: tuple[str, str], folder: Path, barrier: Barrier, done: Semaphore) -> Numbers | str:
    """What the use gives, or what was wrong."""
    barrier.wait()
    try:
        return ask(judge, *use, folder)
    except InputError as error:
        return error.message
    finally:
        done.release()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(stress(sys.argv[1], Path(sys.argv[2]))))
