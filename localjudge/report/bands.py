"""What context recall means in words, as far as its interval allows to say it.

    0.9 ..... 1.0   contains all required information
    0.7 ..... 0.9   contains most of the required information
    0.5 ..... 0.7   some key information is missing
    0.0 ..... 0.5   lacks a significant part of the required information

The lower bound belongs to the band. A band is named if the whole interval lies in it; otherwise those of both its ends.
"""

from typing import NamedTuple


class Band(NamedTuple):
    """Values from `low` up to the next band, and what they mean."""

    low: float
    meaning: str


RECALL_BANDS = (
    Band(0.9, "contains all required information"),
    Band(0.7, "contains most of the required information"),
    Band(0.5, "some key information is missing"),
    Band(0.0, "lacks a significant part of the required information"),
)
_BANDS_OF = {"context_recall": RECALL_BANDS}


def meaning(metric: str, interval: tuple[float, float]) -> str | None:
    """What the metric means wherever in the interval it truly lies; None for a metric without bands."""
    if metric not in _BANDS_OF:
        return None
    lowest, highest = (_at(_BANDS_OF[metric], end) for end in interval)
    return lowest if lowest == highest else f"between {lowest!r} and {highest!r}"


def _at(bands: tuple[Band, ...], value: float) -> str:
    return next(band.meaning for band in bands if value >= band.low)
