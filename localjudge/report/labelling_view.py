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
from rich.text import Text

from localjudge.option_spelling import call
from localjudge.report.table_layout import Table, line

if TYPE_CHECKING:
    from localjudge.analysis.labelling import Labelling

KEYS = {"1": "yes", "0": "no", "s": "skip", "u": "undo", "q": "quit"}


def row_view(row: Mapping[str, Any], labelled: int, total: int) -> RenderableType:
    """The row, after how many of all have a label."""
    keys = ", ".join(f"{key} {what}" for key, what in KEYS.items())
    about = list(_about(row))
    where: list[RenderableType] = [Table((), about), Text()] if about else []
    return Group(
        line(f"{labelled:,} of {total:,} labelled   {_text(row, 'metric')}", "bold"),
        line(_text(row, "asks")),
        Text(),
        *where,
        line(f"> {_text(row, 'text')}", "bold"),
        Text(),
        line(keys, "dim"),
    )


def ended_view(labelling: "Labelling", directory: Path) -> RenderableType:
    """How far somebody came, where it is, and what to do with it."""
    left = len(labelling) - labelling.labelled
    then = f"then: {call('show', str(directory), 'labels', str(labelling.path))}"
    return Group(
        line(f"{labelling.labelled:,} of {len(labelling):,} labelled, in {labelling.path}", "bold"),
        *([line(f"{left:,} are left: the same command goes on")] if left else []),
        line(then),
    )


def _about(row: Mapping[str, Any]) -> Iterator[tuple[Text, str]]:
    """What the text is to be judged by."""
    contexts = row.get("contexts")
    texts = {"user_input": _text(row, "user_input")}
    for number, context in enumerate(contexts if isinstance(contexts, list) else (), start=1):
        texts[f"context {number}"] = context if isinstance(context, str) else ""
    texts |= {name: _text(row, name) for name in ("reference", "response")}
    return ((Text(name, style="dim"), text) for name, text in texts.items() if text or name.startswith("context "))


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""
