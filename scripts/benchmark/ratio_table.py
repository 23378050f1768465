"""What was measured, as a table in Markdown: seconds a verdict, and how many times ours that is.

    times ours = (seconds / verdicts) of a way / (seconds / verdicts) of ours, over the samples that both have done

Verdicts are those that came: an answer that leaves out half of the statements costs twice as much for each.
"""

from collections.abc import Sequence
from typing import NamedTuple

from localjudge.words import printable

from .cases import CONTEXTS
from .measurements import Measured, Measurement

NAMES = {
    "prefill": "raw prefill of the tokens that ours evaluates",
    "ours": "ours",
    "one-by-one": "one completion a statement",
    "llama-server": "llama-server, one completion a statement",
    "joint": "one chat completion for all statements",
    "outlines": "the same through Outlines",
}
_OURS = "ours"


class Row(NamedTuple):
    """One way in one table. `seconds` a verdict and `times` ours are None where there is none."""

    way: str
    times: float | None
    seconds: float | None
    done: Sequence[Measurement]
    not_done: Sequence[Measurement]
    failed: Sequence[Measurement]

    @property
    def samples(self) -> int:
        """That it was asked."""
        return len(self.done) + len(self.not_done) + len(self.failed)

    @property
    def remark(self) -> str:
        """What the figures leave out."""
        parts = []
        if self.not_done:
            parts.append(f"not done after {max(one.seconds for one in self.not_done):.0f} s")
        if self.failed:
            parts.append(f"failed: {self.failed[0].why}")
        if self.done and self.seconds is None:
            parts.append("no verdict")
        return "; ".join(parts)


def rows(measured: Sequence[Measurement]) -> list[Row]:
    """A row for each way, of the measurements of one table and one length of context."""
    ours = {one.sample: one for one in measured if (one.way, one.outcome) == (_OURS, "done")}
    return [_row(way, [one for one in measured if one.way == way], ours) for way in NAMES if _has(way, measured)]


def markdown(measured: Sequence[Measurement]) -> str:
    """A column for each judge, smallest first, one table for each build and number of threads."""
    same = dict.fromkeys((one.threads, one.build) for one in measured)
    return "\n\n".join(
        _markdown([one for one in measured if (one.threads, one.build) == (threads, build)]) for threads, build in same
    )


def progress_line(one: Measurement) -> str:
    """What one turn brought."""
    found = f"{one.seconds:.2f} s for {one.verdicts} of {one.asked} verdicts"
    told = {"done": found, "not done": f"not done after {one.seconds:.0f} s", "failed": f"failed: {one.why}"}
    return printable(f"{one.judge}, {one.context}, {one.sample}: {NAMES[one.way]}: {told[one.outcome]}")


def _row(way: str, measured: Sequence[Measurement], ours: dict[str, Measurement]) -> Row:
    by_outcome = {
        outcome: [one for one in measured if one.outcome == outcome] for outcome in ("done", "not done", "failed")
    }
    done = by_outcome["done"]
    shared = [one for one in done if one.sample in ours]
    theirs, base = _pace(shared), _pace([ours[one.sample] for one in shared])
    times = theirs / base if theirs and base else None
    return Row(way, times, _pace(done), done, by_outcome["not done"], by_outcome["failed"])


def _pace(measured: Sequence[Measurement]) -> float | None:
    verdicts = sum(one.verdicts for one in measured)
    return sum(one.seconds for one in measured) / verdicts if verdicts else None


def _has(way: str, measured: Sequence[Measurement]) -> bool:
    return any(one.way == way for one in measured)


def _tables(measured: Sequence[Measurement]) -> list[Measured]:
    return sorted(dict.fromkeys(one.on for one in measured), key=lambda on: (on.mib, on))


def _of(on: Measured, context: str, measured: Sequence[Measurement]) -> list[Measurement]:
    return [one for one in measured if (one.on, one.context) == (on, context)]


def _samples(measured: Sequence[Measurement]) -> int:
    return len({one.sample for one in measured})


def _extent(context: str, measured: Sequence[Measurement]) -> str:
    tokens = [one.prompt_tokens for one in measured]
    statements = max(one.asked for one in measured)
    of = f"{min(tokens):,} to {max(tokens):,}" if min(tokens) < max(tokens) else f"{max(tokens):,}"
    samples = "1 sample" if _samples(measured) == 1 else f"{_samples(measured)} samples"
    return f"{context} contexts: prompts of {of} tokens, {samples} of {statements} statements"


def _markdown(measured: Sequence[Measurement]) -> str:
    tables = _tables(measured)
    ways = [way for way in (_OURS, *NAMES) if _has(way, measured)]
    head = ["", *(f"{_cell(on.judge)}, {on.mib:,} MiB" for on in tables)]
    lines = []
    for way in dict.fromkeys(ways):
        name = f"{NAMES[way]}, seconds a verdict" if way == _OURS else NAMES[way]
        lines.append([name, *(_both(way, on, measured) for on in tables)])
    extents = "; ".join(
        _extent(context, [one for one in measured if one.context == context])
        for context in CONTEXTS
        if any(one.context == context for one in measured)
    )
    written = [f"| {' | '.join(line)} |".replace("|  |", "| |") for line in (head, *lines)]
    written.insert(1, "|---" * len(head) + "|")
    first = measured[0]
    return "\n".join(written) + f"\n\n{extents}; {_threads(first.threads)}, {first.build}."


def _both(way: str, on: Measured, measured: Sequence[Measurement]) -> str:
    """A way's figures on one judge, on short and on long contexts."""
    cells, figures = [], []
    for context in CONTEXTS:
        here = _of(on, context, measured)
        row = _row(way, [one for one in here if one.way == way], _ours_in(here))
        figure = row.seconds if way == _OURS else row.times
        shown = "" if figure is None else f"{figure:.2f}" if way == _OURS else f"x {figure:.1f}"
        if shown and len(row.done) < _samples(here):
            shown += f" ({len(row.done)} of {_samples(here)})"
        figures += [shown] if shown else []
        cells.append(shown or _cell(row.remark) or "-")
    return " / ".join(cells if figures else dict.fromkeys(cells))


def _ours_in(measured: Sequence[Measurement]) -> dict[str, Measurement]:
    return {one.sample: one for one in measured if (one.way, one.outcome) == (_OURS, "done")}


def _cell(value: str) -> str:
    return printable(value).replace("|", "\\|")


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"
