"""Format results in Markdown: our seconds per verdict, and the ratio of each other way.

times ours = (seconds / verdicts) of a way / (seconds / verdicts) of ours, over the samples
completed by both
"""

from collections.abc import Sequence

from localjudge.words import printable

from .cases import CONTEXTS
from .turns import Measurement, Table

NAMES = {
    "ours": "ours, seconds a verdict",
    "prefill": "raw prefill of the tokens that ours evaluates",
    "one-by-one": "one completion a statement",
    "llama-server": "llama-server, one completion a statement",
}
Rows = Sequence[Measurement]


def markdown(rows: Rows) -> str:
    """Return a column for each judge, smallest first; a table for each build and thread count."""
    same = dict.fromkeys((row.table.threads, row.table.build) for row in rows)
    return "\n\n".join(
        _table([row for row in rows if (row.table.threads, row.table.build) == each])
        for each in same
    )


def progress_line(row: Measurement) -> str:
    """Format the result of one turn."""
    done = f"{row.seconds:.2f} s for {row.verdicts} of {row.expected} verdicts"
    came = {
        "done": done,
        "not done": f"not done after {row.seconds:.0f} s",
        "failed": f"failed: {row.why}",
    }
    return printable(
        f"{row.table.judge}, {row.context}, {row.sample}: {row.way}: {came[row.outcome]}"
    )


def _table(rows: Rows) -> str:
    tables = sorted({row.table for row in rows}, key=lambda table: (table.mib, table))
    lines = [["", *(f"{_escape(table.judge)}, {table.mib:,} MiB" for table in tables)]]
    for way, name in NAMES.items():
        if any(row.way == way for row in rows):
            lines.append([name, *(_both(way, table, rows) for table in tables)])
    written = [f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines]
    written.insert(1, "|---" * len(lines[0]) + "|")
    by_context = {context: [row for row in rows if row.context == context] for context in CONTEXTS}
    extents = "; ".join(_extent(context, part) for context, part in by_context.items() if part)
    threads, build = rows[0].table[-2:]
    return (
        "\n".join(written)
        + f"\n\n{extents}; {threads} thread{'s' if threads > 1 else ''}, {build}."
    )


def _both(way: str, table: Table, rows: Rows) -> str:
    """Return a way's figures for short and long contexts of one judge, with equal reasons once."""
    cells = [
        _cell(way, [row for row in rows if (row.table, row.context) == (table, name)])
        for name in CONTEXTS
    ]
    is_measured = any(cell[0].isdigit() or cell[0] == "x" for cell in cells)
    if not is_measured:
        cells = list(dict.fromkeys(cells))
    return " / ".join(cells)


def _cell(way: str, rows: Rows) -> str:
    """Return a figure with its share of samples, or the reason for its absence."""
    done = [row for row in rows if (row.way, row.outcome) == (way, "done")]
    ours = {row.sample: row for row in rows if (row.way, row.outcome) == ("ours", "done")}
    both = [row for row in done if row.sample in ours]
    pace = _pace(both)
    base = _pace([ours[row.sample] for row in both])
    if pace and base:
        samples = len({row.sample for row in rows})
        part = f" ({len(done)} of {samples})" if len(done) < samples else ""
        return (f"{pace:.2f}" if way == "ours" else f"x {pace / base:.1f}") + part
    late = [row.seconds for row in rows if (row.way, row.outcome) == (way, "not done")]
    failed = [row.why for row in rows if (row.way, row.outcome) == (way, "failed")]
    remarks = [f"not done after {max(late):.0f} s"] if late else []
    remarks += [f"failed: {_escape(failed[0])}"] if failed else []
    return "; ".join(remarks) or "-"


def _pace(rows: Rows) -> float:
    verdicts = sum(row.verdicts for row in rows)
    return sum(row.seconds for row in rows) / verdicts if verdicts else 0.0


def _extent(context: str, rows: Rows) -> str:
    tokens = sorted({row.prompt_tokens for row in rows if row.prompt_tokens}) or [0]
    span = f"{tokens[0]:,} to {tokens[-1]:,}" if len(tokens) > 1 else f"{tokens[0]:,}"
    samples = len({row.sample for row in rows})
    statements = max(row.expected for row in rows)
    number = f"{samples} sample{'s' if samples > 1 else ''}"
    return f"{context} contexts: prompts of {span} tokens, {number} of {statements} statements"


def _escape(value: str) -> str:
    return printable(value).replace("|", "\\|")
