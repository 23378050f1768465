"""Count the reasons for missing scores, with advice on each.

scores.jsonl ──> reasons without numbers, quoted texts and ids ──> groups, the largest first
                                                          what to do <──_ADVICE──┘
"""

import re
from collections import Counter
from collections.abc import Collection
from typing import Any, Literal, get_args

from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.run_record import RunRecord
from localjudge.types import FieldName, Record
from localjudge.words import option

_VARIES = re.compile(r"""(?<!\w)(?:'[^']*'|"[^"]*")(?!\w)|[0-9][0-9.,]*""")
_FIELD = f"(?P<field>{'|'.join(get_args(FieldName))})"
_MAP = "fill it in, or name its column with {column}"
_ADVICE = {
    rf"\b{_FIELD} is (null|blank)": _MAP,
    r"there is no (?P<field>question)": _MAP,
    rf"there is no {_FIELD}": _MAP,
    rf"the {_FIELD} has no sentence": _MAP,
    rf"{_FIELD} has ids and no texts": "store the texts, too, or name their column with {column}",
    r"contexts have no|no context text": "check why the retriever found no text",
    r"the response cites nothing": "ask your system to cite its contexts, such as [1]",
    r"the model did not answer": "test the judge with localjudge doctor, or name another",
    r"control token|does not give this text back": "remove these characters, or name another judge",
    r"lone surrogate": "repair the encoding of the text",
    r"logits that are not numbers": "copy the model file again, and run localjudge doctor",
}
"""Advice by a regular expression for the reason. Other reasons include a hint or need no advice."""


_Group = tuple[str, Any, str]
"""Metric, status, and the reason without what varies between samples."""


class MissingScores(Record):
    """Samples without a score of one metric for one reason, quoted from the first of them."""

    metric: str
    status: Literal["undefined", "failed"]
    count: int
    reason: str
    advice: str | None

    def __str__(self) -> str:
        words = f"{self.metric}: {self.count:,} {self.status}: {excerpt(self.reason)}"
        if self.advice:
            return f"{words} ({self.advice})"
        return words


def missing_scores(run: RunRecord, metrics: Collection[str] | None = None) -> list[MissingScores]:
    """Return a group for each metric and reason, the largest first.

    Reasons that differ only in numbers or quoted texts share a group.
    """
    names: Collection[str] = run.summary.metrics.keys()
    if metrics is not None:
        names = metrics
    missing_of = 0
    for name, summary in run.summary.metrics.items():
        if name in names:
            missing_of += summary.undefined + summary.failed
    if not missing_of:
        return []
    counts: Counter[_Group] = Counter()
    examples: dict[_Group, str] = {}
    for row in run.iter_scores():
        if row.metric in names and row.status != "scored":
            reason = (row.detail or "").removeprefix(f"sample {row.sample_id}: ")
            group = (row.metric, row.status, _VARIES.sub("#", reason))
            counts[group] += 1
            examples.setdefault(group, reason)
    groups = []
    for group, count in counts.most_common():
        metric, status, _ = group
        reason = examples[group]
        missing = MissingScores(
            metric=metric, status=status, count=count, reason=reason, advice=_find_advice(reason)
        )
        groups.append(missing)
    return groups


def _find_advice(reason: str) -> str | None:
    for pattern, advice in _ADVICE.items():
        if match := re.search(pattern, reason):
            field = match.groupdict().get("field") or ""
            if field == "question":
                field = "user_input"
            return advice.format(column=option("mapping", {field: "COLUMN"}))
    return None
