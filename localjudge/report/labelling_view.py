"""A verdict to be labelled, as the terminal shows it: what is asked, what it is held against, and the text.

 12 of 100 labelled   context_recall
 sentence of the reference: can it be attributed to the retrieved contexts?

 user_input  Where does the Danube rise?
 context 1   The Danube rises in the Black Forest.

 > The Danube rises in the Black Forest in Germany.

 1 yes, 0 no, s skip, u undo, q quit

The sheet may be a stranger's: what is no text in it is not shown.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from localjudge.option_spelling import call
from localjudge.report.table_layout import LabelledText, LabelledTexts
from localjudge.report.terminal import safe_text

if TYPE_CHECKING:
    from localjudge.analysis.labelling import Labelling

KEYS = {"1": "yes", "0": "no", "s": "skip", "u": "undo", "q": "quit"}


def row_view(row: Mapping[str, Any], labelled: int, total: int) -> RenderableType:
    """The row, after how many of all have a label."""
    keys = ", ".join(f"{key} {what}" for key, what in KEYS.items())
    beside = list(_beside(row))
    parts: list[RenderableType] = [
        _line(f"{labelled:,} of {total:,} labelled   {_text(row, 'metric')}", style="bold"),
        _line(_text(row, "asks")),
        Text(),
        *_where(beside),
        _line(f"> {_text(row, 'text')}", style="bold"),
        Text(),
        _line(keys, style="dim"),
    ]
    return Group(*parts)


def ended_view(labelling: "Labelling", directory: Path) -> RenderableType:
    """How far somebody came, where it is, and what to do with it."""
    left = len(labelling) - labelling.labelled
    then = f"then: {call('show', str(directory), 'labels', str(labelling.path))}"
    return Group(
        _line(f"{labelling.labelled:,} of {len(labelling):,} labelled, in {labelling.path}", style="bold"),
        *([_line(f"{left:,} are left: the same command goes on")] if left else []),
        _line(then),
    )


def _beside(row: Mapping[str, Any]) -> Iterator[LabelledText]:
    if _text(row, "user_input"):
        yield _labelled("user_input", _text(row, "user_input"))
    contexts = row.get("contexts")
    for number, context in enumerate(contexts if isinstance(contexts, list) else (), start=1):
        yield _labelled(f"context {number}", context if isinstance(context, str) else "")
    for name in ("reference", "response"):
        if _text(row, name):
            yield _labelled(name, _text(row, name))


def _where(beside: list[LabelledText]) -> list[RenderableType]:
    return [LabelledTexts(beside), Text()] if beside else []


def _labelled(label: str, text: str) -> LabelledText:
    return LabelledText((Text(label, style="dim"),), safe_text(text))


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""


def _line(text: str, style: str = "") -> RenderableType:
    return Padding(safe_text(text, style=style), (0, 1), expand=False)
