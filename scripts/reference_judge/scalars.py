"""The numbers of the judge that are fitted or solved, not designed: `scalars.json`."""

import json
from pathlib import Path
from typing import NamedTuple

from .positions import Bump


class Scalars(NamedTuple):
    """Everything that `scalars.json` holds."""

    frequencies: tuple[float, ...]
    previous: Bump
    """Highest at distance 1."""
    attribution: dict[str, float]
    """Weight of each feature in the logit of "attributed", and `constant`."""
    relevance: dict[str, float]
    """The same for "relevant", of a sentence beside the contexts."""
    chunk: dict[str, float]
    """The same for "relevant" or "useful", of a chunk alone."""


def load(path: Path) -> Scalars:
    """Read what `save` wrote."""
    held = json.loads(path.read_text(encoding="utf-8"))
    return Scalars(
        frequencies=tuple(held["frequencies"]),
        previous=Bump(*map(tuple, held["previous"])),
        attribution=held["attribution"],
        relevance=held["relevance"],
        chunk=held["chunk"],
    )


def save(scalars: Scalars, path: Path) -> None:
    """Write as JSON."""
    path.write_text(json.dumps(scalars._asdict(), indent=1) + "\n", encoding="utf-8")
