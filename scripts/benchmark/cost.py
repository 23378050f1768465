"""What a way of asking cost: seconds, processor seconds, tokens evaluated, tokens generated."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Cost:
    """Sums over samples. Evaluated tokens include generated ones, which are evaluated one by one.

    Processor seconds are those of all threads: on a machine that does other things too, their ratios tell more.
    """

    seconds: float = 0.0
    processor_seconds: float = 0.0
    seconds_inside: float = 0.0
    """Inside llama.cpp, where that is known."""
    unique: int = 0
    evaluated: int = 0
    generated: int = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the time that the block takes."""
        started, processor_started = time.perf_counter(), time.process_time()
        yield
        self.seconds += time.perf_counter() - started
        self.processor_seconds += time.process_time() - processor_started

    def times(self, base: "Cost") -> dict[str, float]:
        """How many times the base it took, by the clock and by the processor."""
        return {
            "seconds": self.seconds / base.seconds,
            "processor_seconds": self.processor_seconds / base.processor_seconds,
        }

    def row(self, name: str, samples: int, base: "Cost") -> dict[str, Any]:
        """The sums with seconds per sample, and how many times the base they are."""
        return {
            "name": name,
            **asdict(self),
            "seconds_per_sample": self.seconds / samples,
            "times_ours": self.times(base),
        }


def table(title: str, rows: list[dict[str, Any]]) -> str:
    """The rows as text, one line each."""
    head = f"{title:58}{'s/sample':>9}{'evaluated':>11}{'generated':>11}{'times ours':>12}{'by processor':>14}"
    lines = [
        f"{row['name']:58}{row['seconds_per_sample']:9.2f}{row['evaluated']:11d}{row['generated']:11d}"
        f"{row['times_ours']['seconds']:12.2f}{row['times_ours']['processor_seconds']:14.2f}"
        for row in rows
    ]
    return "\n".join([head, *lines])
