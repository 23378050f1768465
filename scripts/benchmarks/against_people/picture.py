"""The picture of labels and certainty, as SVG: one line for each score, no library needed."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from .labels_needed import ALONE, Ordering

_WIDTH = 760
_HEIGHT = 380
_LEFT = 64
_RIGHT = 500
_TOP = 40
_BOTTOM = 320
_LOWEST = 0.5
"""Share of drawings at the lower end of the axis."""
_COLOURS = ("#6b7280", "#0f62a8", "#c2410c", "#15803d", "#7e22ce")


def draw_orderings(orderings: Sequence[Ordering], path: Path) -> None:
    """Write how often the best system comes first, by the number of labels."""
    counts = sorted({each.labels for each in orderings})
    names = list(dict.fromkeys(each.scored_by for each in orderings))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="13" role="img">',
        "<title>Labels of each system, and how often the best of three comes first</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
    ]
    parts += _axes(counts)
    ends = _spread({name: _y(_share(orderings, name, counts[-1])) for name in names})
    for name, colour in zip(names, _COLOURS, strict=False):
        points = [(_x(counts, labels), _y(_share(orderings, name, labels))) for labels in counts]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = ""
        if name == ALONE:
            dashes = ' stroke-dasharray="6 4"'
        parts.append(
            f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'
        )
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        parts.append(_text(_RIGHT + 14, ends[name] + 4, escape(name), "start", colour))
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")


def _share(orderings: Sequence[Ordering], name: str, labels: int) -> float:
    for each in orderings:
        if each.scored_by == name and each.labels == labels:
            return each.best_first
    raise KeyError(name, labels)


def _axes(counts: Sequence[int]) -> list[str]:
    parts: list[str] = []
    for percent in range(round(_LOWEST * 100), 101, 10):
        y = _y(percent / 100)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="#e5e7eb"/>')
        parts.append(_text(_LEFT - 8, y + 4, f"{percent} %", "end"))
    for labels in counts:
        parts.append(_text(_x(counts, labels), _BOTTOM + 22, str(labels), "middle"))
    middle = (_LEFT + _RIGHT) / 2
    parts.append(_text(middle, _BOTTOM + 46, "labels of each system", "middle"))
    parts.append(_text(_LEFT, _TOP - 18, "drawings with the best of three systems first", "start"))
    return parts


def _x(counts: Sequence[int], labels: int) -> float:
    """Return the place of a number of labels: equal steps, in the order of the numbers."""
    step = (_RIGHT - _LEFT - 40) / max(1, len(counts) - 1)
    return _LEFT + 20 + step * counts.index(labels)


def _y(share: float) -> float:
    return _BOTTOM - (max(share, _LOWEST) - _LOWEST) / (1 - _LOWEST) * (_BOTTOM - _TOP)


def _spread(ends: dict[str, float]) -> dict[str, float]:
    """Move names at the ends of lines apart, so that each can be read."""
    line_height = 18
    moved: dict[str, float] = {}
    lowest = float(_TOP - line_height)
    for name in sorted(ends, key=lambda each: ends[each]):
        lowest = max(ends[name], lowest + line_height)
        moved[name] = lowest
    return moved


def _text(x: float, y: float, words: str, anchor: str, colour: str = "#111827") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'
