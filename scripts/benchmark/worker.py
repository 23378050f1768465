"""The process that judges one sample in one way, and ends: no way holds memory while another has its turn.

stdin     an order, one line of JSON; its end means that whoever gave it is gone
stdout    {"ready": true} when the model is loaded and the instructions are evaluated, then what came of the sample
"""

import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TextIO

from localjudge.errors import LocaljudgeError

from . import ours
from .order import Order, Way


def _ours(order: Order) -> Way:
    return ours.Ours(order)


def _peer(name: str) -> Callable[[Order], Way]:
    def made(order: Order) -> Way:
        from . import peers

        way: Way = getattr(peers, name)(order)
        return way

    return made


def _served(order: Order) -> Way:
    from .served import Served

    return Served(order)


WAYS: dict[str, Callable[[Order], Way]] = {
    "ours": _ours,
    "prefill": _peer("Prefill"),
    "one-by-one": _peer("OneByOne"),
    "llama-server": _served,
    "joint": _peer("Joint"),
    "outlines": _peer("ByOutlines"),
}
WORDINGS = "wordings"
"""In place of a way: how every case is worded."""


def main() -> None:
    """Do what the order says, and report it."""
    reports = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no report
    given = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_the_asker, daemon=True).start()
    order = Order(**given["order"])
    if order.way == WORDINGS:
        _tell(reports, ours.wordings(order, given["samples"]))
        return
    way = WAYS[order.way](order)
    _tell(reports, {"ready": True})
    started = time.perf_counter()
    work = way.ask()
    seconds = time.perf_counter() - started
    way.close()
    _tell(reports, {"seconds": seconds, **work._asdict(), "peak_mib": _peak_mib()})


def order_in_json(order: Order, samples: int) -> str:
    """The line that `main` reads."""
    return json.dumps({"order": asdict(order), "samples": samples}) + "\n"


def _tell(reports: TextIO, report: dict[str, Any]) -> None:
    reports.write(json.dumps(report) + "\n")
    reports.flush()


def _peak_mib() -> int:
    """Memory that was resident at most, here or in a server that was started: Linux counts it in KiB."""
    return max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) >> 10


def _end_with_the_asker() -> None:
    """Nothing is left running, not even a server, when the bench was killed."""
    while os.read(0, 1):  # not through `sys.stdin`, whose lock would be held when this process ends
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    try:
        main()
    except LocaljudgeError as error:
        sys.exit(error.in_one_line)
