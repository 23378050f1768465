"""What came of it, in Markdown: one line for each way, over the samples that every way has judged.

    no number      samples without a score, of all
    r, error       correlation and mean absolute difference of score and known share, of the samples with a score
    AUC            of the verdicts by sentence: each belongs to the sentence with which it shares most words
    complete       samples with as many verdicts as sentences
    moved          scores that were others the second time, of those judged twice

In brackets 95 % intervals, by bootstrap over samples, no two of which share a source.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from localjudge.stats.agreement import roc_auc

from .running import environment_of

Row = dict[str, Any]
_DRAWS = 2000


def progress_line(row: Row) -> str:
    """What one turn brought."""
    what = row["shown"] if row["score"] is None else f"{row['score']:.3f}, known {_share(row):.3f}"
    return f"{row['judge']}, {row['name']}{', again' * (row['turn'] - 1)}: {row['way']}: {row['seconds']:.1f} s, {what}"


def markdown(rows: Sequence[Row], installed: dict[str, Row]) -> str:
    """The table of one model."""
    ways = list(dict.fromkeys(row["way"] for row in rows))
    first = [row for row in rows if row["turn"] == 1]
    common = set.intersection(*({row["name"] for row in first if row["way"] == way} for way in ways)) if rows else set()
    heads = "no number|r|error|AUC|complete|seconds|tokens in, out|moved|peak MiB|packages, MB"
    lines = ["| |" + heads + "|", "|---" * (heads.count("|") + 2) + "|"]
    for way in ways:
        mine = [row for row in first if row["way"] == way and row["name"] in common]
        again = [row for row in rows if row["turn"] == 2 and row["way"] == way]
        lines.append(f"| {' | '.join([way, *_cells(mine, again, installed[environment_of(way)])])} |")
    shown = {(row["way"], row["shown"]) for row in rows if row["score"] is None}
    versions = ", ".join(each["version"] for each in installed.values())
    judges = ", ".join(sorted({row["judge"] for row in rows}))
    return "\n".join([*lines, "", f"{judges}: {len(common)} samples; {versions}."] + [f"- {a}: {b}" for a, b in sorted(shown)])


def _cells(rows: Sequence[Row], again: Sequence[Row], installed: Row) -> list[str]:
    if not rows:
        return ["-"] * 10
    scored = [row for row in rows if row["score"] is not None]
    before = {row["name"]: row["score"] for row in rows}
    twice = [row for row in again if row["name"] in before]
    moved = sum(row["score"] != before[row["name"]] for row in twice)
    judged = [row for row in rows if row["verdicts"]]
    complete = sum(len(row["verdicts"]) == len(row["sentences"]) for row in judged)
    tokens = (np.mean([row.get(kind, 0) for row in rows]) for kind in ("prompt_tokens", "completion_tokens"))
    counted = ", ".join(f"{each:,.0f}" for each in tokens) if any("calls" in row for row in rows) else "-"
    return [
        f"{len(rows) - len(scored)} of {len(rows)}",
        _figure(scored, lambda drawn: np.corrcoef([row["score"] for row in drawn], list(map(_share, drawn)))[0, 1]),
        _figure(scored, lambda drawn: np.mean([abs(row["score"] - _share(row)) for row in drawn])),
        _figure(judged, _auc),
        f"{complete} of {len(rows)}" if judged else "-",
        f"{np.mean([row['seconds'] for row in rows]):.1f}",
        counted,
        f"{moved} of {len(twice)}" if twice else "-",
        f"{max(row['memory'] for row in rows):,}",
        f"{installed['packages']}, {installed['mb']:,}",
    ]


def _share(row: Row) -> float:
    return sum(row["labels"]) / len(row["labels"])


def _auc(rows: Sequence[Row]) -> float:
    """Of the sentences that have verdicts; of several their mean."""
    labels, scores = [], []
    for row in rows:
        words = [set(re.findall(r"\w+", sentence.lower())) for sentence in row["sentences"]]
        values: list[list[float]] = [[] for _ in words]
        for text, value in row["verdicts"]:
            shared = [len(each & set(re.findall(r"\w+", str(text).lower()))) for each in words]
            if max(shared):
                values[int(np.argmax(shared))].append(float(value))
        labels += [label for label, value in zip(row["labels"], values, strict=True) if value]
        scores += [float(np.mean(value)) for value in values if value]
    return float(roc_auc(labels, scores)) if 0 < sum(labels) < len(labels) else float("nan")


def _figure(rows: Sequence[Row], figure: Callable[[Sequence[Row]], float]) -> str:
    """With its interval; a draw in which it has no meaning is left out."""
    chance = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        value = float(figure(rows)) if rows else float("nan")
        draws = [figure([rows[i] for i in chance.integers(len(rows), size=len(rows))]) for _ in range(_DRAWS if rows else 0)]
    if np.isnan(value):
        return "-"
    low, high = np.nanquantile(draws, [0.025, 0.975])
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"
