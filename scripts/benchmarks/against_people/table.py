"""The figures in Markdown."""

from collections.abc import Mapping, Sequence

from .figures import Correlations, Estimate
from .labels_needed import Ordering

CORRELATION_HEADER = (
    "|people say|metric|scored by|rank correlation|minus the first|linear correlation|"
    "minus the first|ratings|seconds|\n"
    "|---|---|---|---|---|---|---|---|---|"
)
ORDERING_HEADER = (
    "|labels of each system|scored by|best system first|all three in order|mean width|\n"
    "|---|---|---|---|---|"
)


def correlation_line(
    aspect: str, metric: str, scored_by: str, found: Correlations, seconds: float | None
) -> str:
    """Return one row: a score beside one question to people. Published ones have no seconds."""
    time = ""
    if seconds is not None:
        time = f"{seconds:.0f}"
    cells = [
        aspect,
        metric,
        scored_by,
        _interval(found.rank),
        _interval(found.rank_gain, sign="+"),
        _interval(found.linear),
        _interval(found.linear_gain, sign="+"),
        str(found.ratings),
        time,
    ]
    return _line(cells)


def t_table(values: Mapping[str, Mapping[tuple[str, str], float]]) -> str:
    """Return t of each pair of systems, with a column for people and for each score."""
    pairs = sorted(next(iter(values.values())))
    lines = [_line(["t of the difference", *values]), "|---" * (len(values) + 1) + "|"]
    for pair in pairs:
        cells = [f"{of_pair[pair]:+.1f}" for of_pair in values.values()]
        lines.append(_line([" - ".join(pair), *cells]))
    return "\n".join(lines)


def ordering_table(orderings: Sequence[Ordering]) -> str:
    """Return how often each score orders the systems as all ratings do."""
    lines = [ORDERING_HEADER]
    for each in orderings:
        cells = [
            str(each.labels),
            each.scored_by,
            f"{each.best_first:.0%}",
            f"{each.all_in_order:.0%}",
            f"{each.width:.3f}",
        ]
        lines.append(_line(cells))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"|{'|'.join(cells)}|"


def _interval(estimate: Estimate, sign: str = "") -> str:
    return f"{estimate.value:{sign}.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"
