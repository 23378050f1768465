"""What each sample was in the baseline: its scores, the texts that were others, and the verdicts before.

A text is written once: of the baseline only the fields that differ, as both are shown side by side.
"""

from collections.abc import Iterable
from itertools import islice

import numpy as np

from localjudge.analysis.pairing import HashedSamples, pair_samples
from localjudge.analysis.sample_columns import SampleColumn, sample_columns
from localjudge.analysis.unit_changes import unit_changes
from localjudge.record.result_rows import VerdictRow
from localjudge.record.results import Run
from localjudge.report.page.sample_values import (
    SCORE_DIGITS,
    PlacesInBrowser,
    Values,
    VerdictsOf,
    rounded,
    text_values,
    verdict_values,
)
from localjudge.types import Sample


class BaselineSide:
    """The samples of a run as they were in its baseline, known by their positions in the run: `samples` are its.

    In memory: some numbers of each sample, and the texts of those that were read last.
    """

    def __init__(self, baseline: Run, metrics: Iterable[str], samples: HashedSamples) -> None:
        self._baseline = baseline
        self._metrics = [metric for metric in metrics if metric in baseline.summary.metrics]
        old, self._columns = sample_columns(baseline, self._metrics, {})
        pairing = pair_samples(old, samples)
        self._partner = SampleColumn(np.zeros(len(samples), dtype=np.int64), np.zeros(len(samples), dtype=np.bool_))
        self._partner.numbers[pairing.after], self._partner.there[pairing.after] = pairing.before, True
        self._samples: dict[int, Sample] = {}

    def read(self, positions: Iterable[int]) -> None:
        """Hold the baseline's samples that belong to these, in place of those before.

        Raises RunDirectoryError if they cannot be read.
        """
        partners = [partner for position in positions if (partner := self._partner.at(position)) is not None]
        self._samples = self._baseline.samples_at(partners)

    def score(self, position: int, metric: str) -> float | None:
        """The sample's score in the baseline; None without one."""
        partner = self._partner.at(position)
        if partner is None or metric not in self._columns.scores:
            return None
        return rounded(self._columns.scores[metric].at(partner), SCORE_DIGITS)

    def values(self, position: int, sample: Sample, verdicts_of: VerdictsOf) -> Values | None:
        """Fields that were others, and of each metric the score and the verdicts; None for a sample of this run only.

        Raises KeyError for a sample that was not read.
        """
        partner = self._partner.at(position)
        if partner is None:
            return None
        old = self._samples[partner]
        before, after = text_values(old), text_values(sample)
        differ = {field: before.get(field) for field in before | after if before.get(field) != after.get(field)}
        return {
            "id": old.id,
            "texts": differ,
            "metrics": {
                metric: {
                    "score": self.score(position, metric),
                    **self._verdicts(partner, metric, verdicts_of(metric), same_texts=not differ),
                }
                for metric in self._metrics
            },
        }

    def _verdicts(self, partner: int, metric: str, after: list[VerdictRow], *, same_texts: bool) -> Values:
        """`was`: label and probability of each unit of the new run; `verdicts`: all before, if they need a place."""
        place = self._columns.places[metric].at(partner)
        rows = [] if place is None else list(self._baseline.verdicts_at(place))
        changes = unit_changes(rows, after, same_content=same_texts)
        was = [[change.before, rounded(change.p_before)] for change in islice(changes, len(after))]
        if same_texts and len(changes) == len(after):
            return {"was": was}
        places = PlacesInBrowser(self._samples[partner])
        return {"was": was, "verdicts": [verdict_values(row, places) for row in rows]}
