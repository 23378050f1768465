"""What a run would take, as a person reads it."""

from datetime import timedelta

from rich.table import Table

from localjudge.report.terminal import safe
from localjudge.run.estimate import Estimate

_GIB = 1 << 30
_MINUTE = timedelta(minutes=1)


def estimate_view(estimate: Estimate) -> Table:
    """One line for each thing that a run takes."""
    table = Table.grid(padding=(0, 2))
    time = "none: nothing is asked" if estimate.seconds is None else f"about {_duration(estimate.seconds)}"
    rows = {
        "samples": f"{estimate.samples:,}",
        "metrics": safe(", ".join(estimate.metrics)),
        "verdicts": f"{estimate.verdicts:,}, of which {estimate.requests:,} are distinct questions",
        "tokens": f"{estimate.tokens:,} distinct, each evaluated once",
        "time": time,
        "memory": f"about {estimate.memory_bytes / _GIB:.1f} GiB",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _duration(seconds: float) -> str:
    """Seconds below a minute, otherwise hours, minutes and seconds."""
    time = timedelta(seconds=round(seconds))
    return str(time) if time >= _MINUTE else f"{time.seconds} s"
