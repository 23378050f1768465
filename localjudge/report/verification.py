"""What came of judging a run again.

same verdicts: 2,318 of 2,318 stored answers asked for again, 2,290 the same; 0 of 2,318 verdicts moved, ...
this machine is of another kind than the run's: bytes are promised per kind of processor, not across; ...
changed since: engine.system: ...
data, requests and result files are as the run left them
"""

import re
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from localjudge.report.table_layout import LabelledText, LabelledTexts
from localjudge.report.terminal import safe_text
from localjudge.run.verify import RowChange, Verification

_STYLE = {"bit-identical": "green", "same verdicts": "yellow", "different": "red"}
_ROWS_SHOWN = 20
_CHECKSUM = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")


def verification_view(found: Verification) -> RenderableType:
    """The result, what it rests on, which ingredients changed, and the rows that differ."""
    parts: list[RenderableType] = [Text(f"{found.result}: {_headline(found)}", style=_STYLE[found.result])]
    parts += [safe_text(line) for line in _lines(found)]
    if found.rows:
        parts += [Text(), LabelledTexts([_row(row) for row in found.rows[:_ROWS_SHOWN]])]
    if len(found.rows) > _ROWS_SHOWN:
        parts.append(Text(f"and {len(found.rows) - _ROWS_SHOWN:,} more rows (--json lists all)"))
    return Padding(Group(*parts), (0, 1), expand=False)


def _headline(found: Verification) -> str:
    if not found.stored_requests:
        return "the run asked its judge nothing"
    asked = f"{found.asked_again:,} of {found.stored_requests:,} stored answers asked for again"
    if found.asked_again == found.identical:
        return f"{asked}, every bit the same" if found.asked_again else asked
    return (
        f"{asked}, {found.identical:,} the same; {found.verdicts_moved:,} of {found.verdicts:,} verdicts moved, "
        f"probabilities by at most {found.largest_move:.2g}"
    )


def _lines(found: Verification) -> Iterator[str]:
    yield f"judge {found.judge}"
    if found.other_machine:
        yield (
            "this machine is of another kind than the run's: bytes are promised per kind of processor, not across; "
            f"{found.verdicts_moved:,} of {found.verdicts:,} verdicts moved"
        )
    if found.was_batched:
        yield (
            "the run was made with --batching, which was taken out: its bits depend on what was asked together, its "
            "verdicts hardly; now each was asked by itself"
        )
    elif not found.isolated and found.identical < found.asked_again:
        yield (
            "its judge is not isolated: bits may depend on what else a server is asked; --accept verdicts is content "
            "with the same verdicts"
        )
    for change in found.judge_changes:
        yield f"changed since: {change.ingredient}: {_cut(change.before)} then, {_cut(change.after)} now"
    for change in found.data_changes:
        there, stored = _cut(change.before), _cut(change.after)
        yield f"stored data is not the manifest's: {change.ingredient}: {there} there, {stored} stored"
    if found.altered_requests:
        yield f"{found.altered_requests:,} stored requests are not what was asked: run.sqlite was changed"
    if found.files:
        yield f"not what the stored answers give: {', '.join(found.files)}"
    if not (found.data_changes or found.altered_requests or found.files):
        yield "data, requests and result files are as the run left them"
    yield f"signature {found.signature}"


def _row(row: RowChange) -> LabelledText:
    where = safe_text(f"{row.sample_id} {row.metric} {row.position}")
    labels = Text(f"{_shown(row.before)} -> {_shown(row.after)}", style="red" if row.moved else "")
    probabilities = Text(f"{_shown(row.p_before)} -> {_shown(row.p_after)}")
    return LabelledText((where, labels, probabilities), safe_text(row.text))


def _cut(value: object) -> str:
    """The value, of checksums the beginning."""
    return _CHECKSUM.sub(r"\1", str(value))


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.6f}"
