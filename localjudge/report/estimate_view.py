"""What a run would take, as a person reads it: in all, and what each metric takes."""

from datetime import timedelta

from rich.console import Group, RenderableType
from rich.text import Text

from localjudge.record.untrusted import shown
from localjudge.report.table_layout import Table
from localjudge.run.estimate import Estimate

_SHARED = "What several metrics need is counted once, with the first of them."
_GIB = 1 << 30
_MINUTE = timedelta(minutes=1)


def estimate_view(estimate: Estimate) -> RenderableType:
    """One line for each thing that a run takes, and below one for each metric if there are several."""
    parts: list[RenderableType] = [_in_all(estimate)]
    parts += [Text(), _by_metric(estimate)] if len(estimate.metrics) > 1 else []
    return Group(*parts)


def _by_metric(estimate: Estimate) -> Table:
    rows = [
        (
            name,
            f"{share.verdicts:,}",
            f"{share.tokens:,}",
            "none" if share.seconds is None or not share.tokens else _duration(share.seconds),
        )
        for name, share in estimate.by_metric.items()
    ]
    return Table(("metric", "verdicts", "tokens", "time"), rows, [_SHARED])


def _in_all(estimate: Estimate) -> Table:
    rows = {
        "samples": f"{estimate.samples:,}",
        "metrics": ", ".join(estimate.metrics),
        "verdicts": f"{estimate.verdicts:,}, of which {estimate.requests:,} are distinct questions",
        **_answered(estimate),
        "tokens": f"{estimate.tokens:,} distinct, each evaluated once",
        "time": "none: nothing is asked" if estimate.seconds is None else f"about {_duration(estimate.seconds)}",
        "memory": f"about {estimate.memory_bytes / _GIB:.1f} GiB",
    }
    return Table((), list(rows.items()))


def _answered(estimate: Estimate) -> dict[str, str]:
    """How many of the questions are answered already, where there are answers to take."""
    if not estimate.reused:
        return {}
    places = ", ".join(f"{count:,} in {shown(name)}" for name, count in estimate.reused.items())
    answered = estimate.requests - estimate.remaining
    return {"answered": f"{answered:,} of these questions already ({places}); {estimate.remaining:,} remain"}


def _duration(seconds: float) -> str:
    """Seconds below a minute, otherwise hours, minutes and seconds."""
    time = timedelta(seconds=round(seconds))
    return str(time) if time >= _MINUTE else f"{time.seconds} s"
