"""What came of judging a run again.

same verdicts: 2,318 of 2,318 stored answers asked for again, 2,290 the same; 0 of 2,318 verdicts moved, ...
this machine is of another kind than the run's: bytes are promised per kind of processor, not across; ...
changed since: engine.system: ...
data, requests and result files are as the run left them
"""

import re
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from localjudge.report.table_layout import Table, line
from localjudge.run.verify import RowChange, Verification

_STYLE = {"bit-identical": "green", "same verdicts": "yellow", "different": "red"}
_RESULT = {"bit-identical": "bit-identical", "same verdicts": "same verdicts", "different": "not verified"}
_ROWS_SHOWN = 20
_PLACES_SHOWN = 3
_CHECKSUM = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")


def verification_view(found: Verification) -> RenderableType:
    """The result, what it rests on, which ingredients changed, and the rows that differ."""
    parts: list[RenderableType] = [line(f"{_RESULT[found.result]}: {_headline(found)}", _STYLE[found.result])]
    parts += map(line, _lines(found))
    if found.rows:
        parts += [Text(), Table((), [_row(row) for row in found.rows[:_ROWS_SHOWN]])]
    if len(found.rows) > _ROWS_SHOWN:
        parts.append(line(f"and {len(found.rows) - _ROWS_SHOWN:,} more rows (--json lists all)"))
    return Group(*parts)


def _headline(found: Verification) -> str:
    if found.combined_from:
        return "; ".join(["the same runs were combined again", *_changed(found)])
    if not found.stored_requests:
        return "; ".join(["the run asked its judge nothing", *_changed(found)])
    repeats = found.asked_again == found.identical
    if repeats and found.result == "different":
        every = f"all {found.asked_again:,}" if found.asked_again == found.stored_requests else f"{found.asked_again:,}"
        return f"the judge repeats {every} answers, but {'; '.join(_changed(found))}"
    asked = f"{found.asked_again:,} of {found.stored_requests:,} stored answers asked for again"
    if repeats:
        return f"{asked}, every bit the same" if found.asked_again else asked
    moved = (
        f"{asked}, {found.identical:,} the same; {found.verdicts_moved:,} of {found.verdicts:,} verdicts moved, "
        f"probabilities by at most {found.largest_move:.2g}"
    )
    return "; ".join([moved, *_changed(found)])


def _changed(found: Verification) -> Iterator[str]:
    """What in the directory is not as the run left it."""
    if found.data_changes:
        yield "the stored data was changed"
    if found.altered_requests:
        yield f"{found.altered_requests:,} stored requests are not what was asked: run.sqlite was changed"
    for name, places in found.files.items():
        more = ", ..." if len(places) > _PLACES_SHOWN else ""
        yield f"{name} was changed ({', '.join(places[:_PLACES_SHOWN])}{more})"


def _lines(found: Verification) -> Iterator[str]:
    yield f"judge {found.judge}"
    if found.other_machine:
        yield (
            "this machine is of another kind than the run's: bytes are promised per kind of processor, not across; "
            f"{found.verdicts_moved:,} of {found.verdicts:,} verdicts moved"
        )
    if not found.isolated and found.identical < found.asked_again:
        yield (
            "its judge is not isolated: bits may depend on what else a server is asked; --accept verdicts is content "
            "with the same verdicts"
        )
    for change in found.judge_changes:
        yield f"changed since: {change.ingredient}: {_cut(change.before)} then, {_cut(change.after)} now"
    for change in found.data_changes:
        there, stored = _cut(change.before), _cut(change.after)
        yield f"stored data is not the manifest's: {change.ingredient}: {there} there, {stored} stored"
    if not any(_changed(found)):
        yield "data, requests and result files are as the run left them"
    if found.combined_from:
        yield f"combined from {' and '.join(found.combined_from)}: verify each of them, too"
    yield f"signature {found.signature}"


def _row(row: RowChange) -> tuple[str | Text, ...]:
    labels = Text(f"{_shown(row.before)} -> {_shown(row.after)}", style="red" if row.moved else "")
    probabilities = f"{_shown(row.p_before)} -> {_shown(row.p_after)}"
    return labels, probabilities, f"{row.sample_id} {row.metric} {row.position}: {row.text}"


def _cut(value: object) -> str:
    """The value, of checksums the beginning."""
    return _CHECKSUM.sub(r"\1", str(value))


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.6f}"
