"""Writes statements to label as one private page, for a person who has no terminal.

    label.html        the template: a start, one statement at a time, an end
    shared_words.js   marks the words that a statement shares with the texts that it is compared with
    decisions.js      what was decided: kept in the browser's storage, and downloaded as labels-NAME.jsonl
    label.js          keys and buttons

The page holds what a person is shown and which label it becomes, nothing that a judge or another person said. The
downloaded file has a row for each answer: label_id, draw, sample_id, metric, position, text, human (1, 0, or null for
"cannot tell" and for an answer that was taken back), labeller, when (ISO 8601, UTC).
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from localjudge.report.private_page import page_parts, write_page

_STYLES = ("base.css", "label.css")
_SCRIPTS = ("elements.js", "shared_words.js", "decisions.js", "label.js")
_NAMES = ("label_id", "draw", "sample_id", "metric", "position")
_SHOWN = ("asks", "user_input", "contexts", "reference", "response", "text")


def write_label_page(path: Path, rows: Sequence[Mapping[str, Any]], *, title: str) -> None:
    """Write the page with the rows in their order. The same rows and title give the same bytes.

    A row has the columns of a sheet; contexts is a list of texts. The first row may name the annotator. An earlier page
    is replaced. Raises InputError for another file of that name, and for one that cannot be written.
    """
    shown = [{name: row[name] for name in (*_NAMES, *_SHOWN)} for row in rows]
    # Under this key a browser keeps the decisions: of this annotator, the same labels of the same draw in their order.
    labeller = rows[0].get("labeller") if rows else None
    names = [labeller or "", *(f"{row['draw']}\n{row['label_id']}" for row in shown)]
    digest = hashlib.sha256("".join(f"{name}\n" for name in names).encode()).hexdigest()
    config = {"key": f"localjudge-labels-{digest}", "labeller": labeller, "rows": shown}
    parts = page_parts("label.html", styles=_STYLES, scripts=_SCRIPTS, config=config, title=title, count=len(shown))
    write_page(path, parts, kind="page")
