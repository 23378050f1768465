"""What a value of context recall means in words.

    0.9 ..... 1.0   contains all required information
    0.7 ..... 0.9   contains most of the required information
    0.5 ..... 0.7   some key information is missing
    0.0 ..... 0.5   lacks a significant part of the required information

The lower bound belongs to the band.
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


def meaning(metric: str, value: float) -> str | None:
    """What the value of the metric means; None for a metric without bands."""
    return next((band.meaning for band in _BANDS_OF.get(metric, ()) if value >= band.low), None)
