"""The figures in Markdown: a column for each judge.

all               AUC with its interval
gain over NAME    paired difference to the first judge, and of judges together to each of them
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from localjudge.stats.interval import Floats

from .asking import members, short_name
from .figures import Estimate, Labels


def markdown(title: str, labels: Labels, scores: Mapping[str, Floats]) -> str:
    """Return the table of all judges. `scores` (n,) are by judge; the first one is the baseline."""
    judges = list(scores)
    lines = [
        _line(title, [short_name(judge) for judge in judges]),
        "|---" * (len(judges) + 1) + "|",
        _line(f"all ({len(labels.rows)})", [_interval(labels.auc(scores[j])) for j in judges]),
    ]
    lines += _gains(labels, scores)
    for name, chosen in _parts(labels):
        aucs = [labels.compute_auc(chosen, scores[judge]) for judge in judges]
        lines.append(_line(f"{name} ({sum(chosen)})", [_number(auc) for auc in aucs]))
    means = [_mean_of_sets(labels, scores[judge]) for judge in judges]
    lines.append(_line("mean of the data sets", [_number(mean) for mean in means]))
    return "\n".join(lines)


def _gains(labels: Labels, scores: Mapping[str, Floats]) -> Iterator[str]:
    first = next(iter(scores))
    baselines = [first]
    for judge in scores:
        names = members(judge)
        if len(names) > 1:
            baselines += names
    for baseline in dict.fromkeys(baselines):
        if baseline not in scores:
            continue
        cells: list[str] = []
        for judge in scores:
            is_compared = judge != baseline and (baseline == first or baseline in members(judge))
            gain = labels.gain(scores[judge], scores[baseline]) if is_compared else None
            interval = ""
            if gain is not None:
                interval = _interval(gain, sign="+")
            cells.append(interval)
        yield _line(f"gain over {short_name(baseline)}", cells)


def _parts(labels: Labels) -> Iterator[tuple[str, Sequence[bool]]]:
    yield "up to 1,000 characters", [not row.is_long for row in labels.rows]
    yield "longer", [row.is_long for row in labels.rows]
    for dataset in _datasets(labels):
        yield dataset, [row.dataset == dataset for row in labels.rows]


def _datasets(labels: Labels) -> list[str]:
    return sorted({row.dataset for row in labels.rows})


def _mean_of_sets(labels: Labels, scores: Floats) -> float:
    """Return the mean AUC of the data sets with both labels."""
    aucs: list[float] = []
    for dataset in _datasets(labels):
        auc = labels.compute_auc([row.dataset == dataset for row in labels.rows], scores)
        if auc is not None:
            aucs.append(auc)
    return float(np.mean(aucs))


def _line(title: str, cells: Sequence[str]) -> str:
    return f"|{'|'.join([title, *cells])}|"


def _interval(estimate: Estimate, sign: str = "") -> str:
    value, low, high = estimate
    return f"{value:{sign}.3f} [{low:.3f}, {high:.3f}]"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}"
