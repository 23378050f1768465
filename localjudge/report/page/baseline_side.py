"""What each sample was in the baseline: its scores, the texts that were others, and the verdicts before.

A text is written once: of the baseline only the fields that differ, as both are shown side by side.
"""

from collections.abc import Iterable
from itertools import islice

from localjudge.analysis.comparison import places_of_verdicts, scores_by_metric
from localjudge.analysis.pairing import pair_samples
from localjudge.analysis.unit_changes import unit_changes
from localjudge.record.archive import stored_samples_named
from localjudge.record.directory import STORE
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
    """The samples of a run as they were in its baseline. In memory: ids, scores and where the verdicts stand."""

    def __init__(self, baseline: Run, run: Run) -> None:
        self._baseline = baseline
        pairing = pair_samples(baseline.iter_samples(), run.iter_samples())
        self._pair_of = {pair.after.id: pair for pair in pairing.pairs}
        self._scores = scores_by_metric(baseline)
        self._places = places_of_verdicts(baseline)
        self._samples: dict[str, Sample] = {}

    def read(self, samples: Iterable[Sample]) -> None:
        """Hold the baseline's samples that belong to these, in place of those before.

        Raises RunDirectoryError if one cannot be read.
        """
        pairs = [self._pair_of[sample.id] for sample in samples if sample.id in self._pair_of]
        self._samples = stored_samples_named(self._baseline.directory / STORE, [pair.before.id for pair in pairs])

    def score(self, sample_id: str, metric: str) -> float | None:
        """The sample's score in the baseline; None without one."""
        pair = self._pair_of.get(sample_id)
        return None if pair is None else rounded(self._scores.get(metric, {}).get(pair.before.id), SCORE_DIGITS)

    def values(self, sample: Sample, metrics: Iterable[str], verdicts_of: VerdictsOf) -> Values | None:
        """Fields that were others, and of each metric the score and the verdicts; None for a sample of this run only.

        Raises KeyError for a sample that was not read.
        """
        pair = self._pair_of.get(sample.id)
        if pair is None:
            return None
        old = self._samples[pair.before.id]
        before, after = text_values(old), text_values(sample)
        differ = {field: before.get(field) for field in before | after if before.get(field) != after.get(field)}
        known = [metric for metric in metrics if metric in self._baseline.summary.metrics]
        return {
            "id": old.id,
            "texts": differ,
            "metrics": {
                metric: {
                    "score": self.score(sample.id, metric),
                    **self._verdicts(old, metric, verdicts_of(metric), same_texts=not differ),
                }
                for metric in known
            },
        }

    def _verdicts(self, old: Sample, metric: str, after: list[VerdictRow], *, same_texts: bool) -> Values:
        """`was`: label and probability of each unit of the new run; `verdicts`: all before, if they need a place."""
        place = self._places.get(metric, {}).get(old.id)
        rows = [] if place is None else list(self._baseline.verdicts_at(place))
        changes = unit_changes(rows, after, same_content=same_texts)
        was = [[change.before, rounded(change.p_before)] for change in islice(changes, len(after))]
        if same_texts and len(changes) == len(after):
            return {"was": was}
        places = PlacesInBrowser(old)
        return {"was": was, "verdicts": [verdict_values(row, places) for row in rows]}
