"""The estimate of a run: verdicts, tokens, time and memory."""

from localjudge.judging.estimate import Estimate
from localjudge.report.terminal import Table
from localjudge.run_directory.directory import excerpt
from localjudge.words import numbered, roughly

_GIB = 1 << 30


def estimate_view(estimate: Estimate) -> Table:
    rows = [
        ("samples", f"{estimate.samples:,}"),
        ("metrics", ", ".join(estimate.metrics)),
        ("verdicts", f"{estimate.verdicts:,}, with {estimate.requests:,} distinct questions"),
    ]
    if estimate.reused:
        places = ", ".join(
            f"{count:,} in {excerpt(name)}" for name, count in estimate.reused.items()
        )
        stored = f"{estimate.requests - estimate.remaining:,} of these questions ({places})"
        rows.append(("answered", f"{stored}; {estimate.remaining:,} remain"))
    time = "none: no question remains"
    if estimate.seconds is not None:
        time = roughly(estimate.seconds, estimate.seconds_ci95)
    if estimate.measured:
        few = "" if estimate.seconds_ci95 else ", too few for an interval"
        time += f": measured on {estimate.measured:,} of {estimate.remaining:,} questions{few}"
    if estimate.measured:
        measured = f"{numbered(estimate.measured, 'answer')} in {excerpt(estimate.directory)}, which the run uses"
        rows.append(("stored", measured))
    rows += [
        ("tokens", f"{estimate.tokens:,} distinct, each evaluated once"),
        ("time", time),
        ("memory", f"about {estimate.memory_bytes / _GIB:.1f} GiB"),
    ]
    for aim in estimate.until:
        needs = "unknown" if aim.samples is None else f"about {numbered(aim.samples, 'sample')}"
        if (aim.samples or 0) > estimate.samples:
            needs += f", more than the {estimate.samples:,} of the run"
        elif aim.seconds:
            needs += f", {roughly(aim.seconds)}"
        rows.append(("to judge", f"{needs} ({aim.aim})"))
    return Table(rows=rows)
