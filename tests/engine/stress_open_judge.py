"""Four threads use one open judge and close it, in an order drawn for each round: `stress_open_judge.py MODEL FOLDER`.

Prints how many uses were answered and how many came after the judge was closed. Ends with an error if an answer is not
that of one thread alone, or if a use ends in anything but these two.
"""

import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import localjudge
from localjudge import Judge, UsageError

ROUNDS, THREADS, PLACES = 20, 4, ("Ulm", "Bonn", "Jena", "Trier", "Worms", "Mainz")
USES = ("evaluate", "scores", "verdicts") * 2
Numbers = list[tuple[str, float | None]]


def rows(place: str) -> list[dict[str, Any]]:
    """Two statements about a place that no other use asks about, so that none is answered from memory."""
    return [{"id": place, "retrieved_contexts": [f"A tower is in {place}."], "response": f"It is in {place}. It fell."}]


def ask(judge: Judge, use: str, place: str, folder: Path) -> Numbers:
    """What the use gives: scores, or probabilities."""
    if use == "scores":
        return [(row.metric, row.score) for row in judge.scores(rows(place), ["faithfulness"])]
    if use == "verdicts":
        return [(row.text, row.p_yes) for row in judge.verdicts(rows(place), ["faithfulness"])]
    out = folder / f"{place}-{random.getrandbits(64):x}"
    run = localjudge.evaluate(rows(place), judge=judge, metrics=["faithfulness"], out=out, progress=False)
    return [(row.text, row.p_yes) for row in run.verdicts]


def stress(model: str, folder: Path) -> Counter[str]:
    """All rounds; how often each outcome was."""
    how: dict[str, Any] = {"threads": 1, "n_ctx": 512}
    with Judge.open(model, **how) as judge:
        serial = {(use, place): ask(judge, use, place, folder) for use, place in zip(USES, PLACES, strict=True)}
    outcomes: Counter[str] = Counter()
    for number in range(ROUNDS):
        judge = Judge.open(model, **how)
        barrier = Barrier(THREADS)

        def use_in_turn(
            judge: Judge, barrier: Barrier, uses: list[tuple[str, str] | None], note: Callable[[str], None]
        ) -> None:
            barrier.wait()
            for use in uses:
                if use is None:
                    judge.close()
                    continue
                try:
                    note("equal" if ask(judge, *use, folder) == serial[use] else f"other numbers of {use}")
                except UsageError as error:
                    note(error.message)

        jobs: list[tuple[str, str] | None] = [*serial, None]
        random.Random(number).shuffle(jobs)
        noted: list[str] = []
        threads = [
            Thread(target=use_in_turn, args=(judge, barrier, jobs[first::THREADS], noted.append))
            for first in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        judge.close()
        outcomes.update(noted)
    return outcomes


if __name__ == "__main__":
    sys.stdout.write(json.dumps(stress(sys.argv[1], Path(sys.argv[2]))))
