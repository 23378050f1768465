"""How far a judge is looked at, and what for. It imports no library that a machine may lack."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

Use = Literal["ranking", "means", "thresholds"]
"""What a judge may be fit for, each with those before it: to compare systems, to read a mean as a share, to decide one
verdict."""
USES: tuple[Use, ...] = get_args(Use)
ADMISSION = "admission"
"""The check that says what a judge is fit for: the last one."""


def fit_for(uses: Sequence[str]) -> str:
    """`fit for ranking and means`."""
    *most, last = uses or [""]
    if not last:
        return "not fit"
    return f"fit for {', '.join(most)} and {last}" if most else f"fit for {last}"


class Extent(NamedTuple):
    """How many attempts and items are put to the judge, None: by its speed; and what it has to be fit for."""

    injections: int | None = None
    probes: int | None = None
    required: Use | None = None
