"""How well two people agree about the same verdicts: more than they do, no judge can agree with either.

    raw agreement   share of the verdicts that both labelled alike
    kappa           (observed - expected) / (1 - expected): 0 is what chance gives, 1 is perfect

Intervals are over samples, as the verdicts of one are about the same texts. Sources: J. Cohen (1960), Educational and
Psychological Measurement 20, 37-46; `localjudge.stats.agreement`.
"""

from pathlib import Path
from typing import Any

import numpy as np

from localjudge.analysis.human_labels import HumanLabels, LabelledVerdict, VerdictKey, read_labels
from localjudge.analysis.unit_frame import comparable
from localjudge.dataset.spreadsheet import inert
from localjudge.errors import DataError
from localjudge.stats import mean_interval, statistic_interval
from localjudge.stats.agreement import cohen_kappa
from localjudge.stats.corrected import FEWEST_CLUSTERS
from localjudge.types import Label, Record


class Agreement(Record):
    """A number with its 95 % interval, None where it cannot be told."""

    value: float
    ci95: tuple[float, float] | None


class Disagreement(Record):
    """A verdict that two people labelled differently."""

    sample_id: str
    metric: str
    text: str
    first: Label
    second: Label


class AnnotatorAgreement(Record):
    """Two files of labels beside each other. `kappa` is None where all labels are of one kind."""

    schema_version: int = 1
    first: str
    second: str
    rows: int
    samples: int
    only_one: int
    """Verdicts that only one of the two labelled."""
    raw: Agreement
    kappa: Agreement | None
    both: dict[str, int]
    """How often the first said 1 or 0, and the second: "1 1", "1 0", "0 1", "0 0"."""
    disagreements: tuple[Disagreement, ...]


def label_agreement(first: str | Path, second: str | Path) -> AnnotatorAgreement:
    """Compare two files of labels of the same sheet.

    Raises DataError for files that are none, for verdicts with other texts, and for no verdict that both labelled.
    """
    one, other = _labelled(first), _labelled(second)
    shared = [key for key in one if key in other]
    if not shared:
        raise DataError(
            f"no verdict is labelled in both {first} and {second}", hint="give both people a copy of the same sheet"
        )
    for key in shared:
        if inert(one[key].text) != inert(other[key].text):
            raise DataError(
                f"{one[key].place} and {other[key].place} label the same verdict with other texts",
                hint="give both people a copy of the same sheet",
            )
    said = np.array([(one[key].human, other[key].human) for key in shared], dtype=np.float64)
    samples = [key.sample_id for key in shared]
    cells = [(str(a), str(b)) for a, b in said.astype(int).tolist()]
    return AnnotatorAgreement(
        first=str(first),
        second=str(second),
        rows=len(shared),
        samples=len(set(samples)),
        only_one=len(one.keys() ^ other.keys()),
        raw=_raw(said, samples),
        kappa=_kappa(said, samples),
        both={f"{a} {b}": cells.count((a, b)) for a in "10" for b in "10"},
        disagreements=tuple(
            Disagreement(
                sample_id=key.sample_id,
                metric=key.metric,
                text=one[key].text,
                first=_label(one[key]),
                second=_label(other[key]),
            )
            for key in shared
            if one[key].human != other[key].human
        ),
    )


def _labelled(file: str | Path) -> dict[VerdictKey, LabelledVerdict]:
    labels: HumanLabels = read_labels(file)
    if labels.shape != "verdicts":
        raise DataError(f"{file} is no sheet of verdicts", hint="make one with: localjudge label RUN --out FILE")
    return {comparable(row.key): row for row in labels.verdicts if row.human is not None}


def _label(row: LabelledVerdict) -> Label:
    return 1 if row.human else 0


def _raw(said: "np.ndarray[Any, np.dtype[np.float64]]", samples: list[str]) -> Agreement:
    same = (said[:, 0] == said[:, 1]).astype(np.float64)
    found = mean_interval(same, clusters=samples)
    return Agreement(value=found.mean, ci95=found.limits)


def _kappa(said: "np.ndarray[Any, np.dtype[np.float64]]", samples: list[str]) -> Agreement | None:
    """A bootstrap of few samples promises too much: of fewer than ten there is no interval."""
    try:
        found = statistic_interval(cohen_kappa, said[:, 0], said[:, 1], clusters=samples)
    except DataError:
        return None
    return Agreement(value=found.mean, ci95=(found.low, found.high) if found.clusters >= FEWEST_CLUSTERS else None)
