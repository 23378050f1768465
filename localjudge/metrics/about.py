"""What a metric says of itself to whoever chooses one: `localjudge metrics` shows it."""

from typing import NamedTuple


class About(NamedTuple):
    """What a metric asks, what it asks it of (one verdict each, "none" without a judge), and where it comes from."""

    asks: str
    verdicts: str
    source: str
