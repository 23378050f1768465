"""The results in Markdown: a row for each way, over the samples that every way has judged.

    no number    samples without a score
    r, error     correlation and mean absolute difference of score and true share, of samples with
                 a score
    AUC          of the verdicts on sentences; a verdict belongs to the sentence that shares most
                 words with it
    complete     samples with as many verdicts as sentences
    moved        samples judged twice whose scores differ

Brackets: 95 % intervals, bootstrap over samples (no two share a source).
"""

import re
import warnings
from collections.abc import Callable, Sequence

import numpy as np

from localjudge.stats.agreement import roc_auc

from .running import Row

_HEADS = "way|no number|r|error|AUC|complete|seconds|tokens in/out|moved|peak MiB"
_DRAWS = 2000


def progress_line(row: Row) -> str:
    """Format one result."""
    score = (
        row["message"] if row["score"] is None else f"{row['score']:.3f}, labels {_share(row):.3f}"
    )
    name = f"{row['name']}{', again' * (row['turn'] - 1)}"
    return f"{row['judge']}, {name}: {row['way']}: {row['seconds']:.1f} s, {score}"


def markdown(rows: Sequence[Row], installed: dict[str, Row]) -> str:
    """Return the table of one model, the messages of unscored samples, and the packages."""
    names = [
        {row["name"] for row in rows if row["way"] == way}
        for way in dict.fromkeys(row["way"] for row in rows)
    ]
    common = [row for row in rows if all(row["name"] in each for each in names)]
    lines = [f"|{_HEADS}|", "|---" * (_HEADS.count("|") + 1) + "|"]
    for way in dict.fromkeys(row["way"] for row in common):
        lines.append(f"|{'|'.join([way, *_cells([row for row in common if row['way'] == way])])}|")
    messages = {f"- {row['way']}: {row['message']}" for row in common if row["score"] is None}
    sizes = (
        f"{each['version']}: {each['packages']} packages, {each['mb']:,} MB"
        for each in installed.values()
    )
    return "\n".join([*lines, "", *sorted(messages), "", "; ".join(sizes)])


def _cells(rows: Sequence[Row]) -> list[str]:
    first = [row for row in rows if row["turn"] == 1]
    scored = [row for row in first if row["score"] is not None]
    judged = [row for row in first if row["verdicts"]]
    before = {row["name"]: row["score"] for row in first}
    again = [row["score"] != before[row["name"]] for row in rows if row["turn"] != 1]
    tokens = [
        float(np.mean([row.get(f"{kind}_tokens", 0) for row in first]))
        for kind in ("prompt", "completion")
    ]
    return [
        f"{len(first) - len(scored)}/{len(first)}",
        _figure(
            scored,
            lambda drawn: np.corrcoef([row["score"] for row in drawn], [*map(_share, drawn)])[0, 1],
        ),
        _figure(
            scored,
            lambda drawn: float(np.mean([abs(row["score"] - _share(row)) for row in drawn])),
        ),
        _figure(judged, _auc),
        f"{sum(len(row['verdicts']) == len(row['sentences']) for row in judged)}/{len(first)}"
        if judged
        else "-",
        f"{np.mean([row['seconds'] for row in first]):.1f}",
        "/".join(f"{each:,.0f}" for each in tokens) if any(tokens) else "-",
        f"{sum(again)}/{len(again)}" if again else "-",
        f"{max(row['memory'] for row in first):,}",
    ]


def _share(row: Row) -> float:
    return float(np.mean(row["labels"]))


def _auc(rows: Sequence[Row]) -> float:
    """Return the AUC over sentences with verdicts, using the mean of several verdicts."""
    labels = []
    scores = []
    for row in rows:
        words = [set(re.findall(r"\w+", sentence.lower())) for sentence in row["sentences"]]
        values: list[list[float]] = [[] for _ in words]
        for text, value in row["verdicts"]:
            shared = [
                len(each.intersection(re.findall(r"\w+", str(text).lower()))) for each in words
            ]
            if max(shared):
                values[int(np.argmax(shared))].append(float(value))
        labels += [label for label, value in zip(row["labels"], values, strict=True) if value]
        scores += [float(np.mean(value)) for value in values if value]
    return float(roc_auc(labels, scores)) if 0 < sum(labels) < len(labels) else float("nan")


def _figure(rows: Sequence[Row], figure: Callable[[Sequence[Row]], float]) -> str:
    """Format a figure with its interval. Ignores draws without a value."""
    rng = np.random.default_rng(0)
    drawn = []
    if rows:
        drawn = [rng.integers(len(rows), size=len(rows)) for _ in range(_DRAWS)]
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        value, *draws = [figure([rows[i] for i in each]) for each in (range(len(rows)), *drawn)]
        low, high = np.nanquantile(draws or [0], [0.025, 0.975])
    return "-" if not rows or np.isnan(value) else f"{value:.2f} [{low:.2f},{high:.2f}]"
