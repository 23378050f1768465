"""What the labels of a metric say, next to the judge's verdicts on the same statements.

statement   human   judge            19 labelled statements
a             0       1              annotators support 0, the judge supports 19
b             0       1              McNemar's exact test: 2 * 0.5^19 = 0.000004
...
"""

from collections.abc import Mapping

from localjudge.labels.units import UnitFrame
from localjudge.metrics import catalog
from localjudge.metrics.metric import get_about
from localjudge.stats.agreement import mcnemar_test
from localjudge.types import Record

SIGNIFICANT = 0.01
"""Below this p-value the labels contradict the judge."""
_PLACES = 3
_SMALLEST_SHOWN = 10**-_PLACES


class LabelCounts(Record):
    """Labelled statements of a metric, and how many of them count for it: those of 1, or of 0.

    `supported` statements count by their labels, `supported_by_judge` by the verdicts. Annotators
    differ on `disputed` ones, which count neither way. `p_value` is McNemar's, without disputed
    ones.
    `of` is the number of all statements of the metric. `is_share`: the metric's score is the share
    of the statements that count.
    """

    metric: str
    is_share: bool
    labelled: int
    of: int
    supported: int
    supported_by_judge: int
    disputed: int
    p_value: float

    @property
    def is_contradiction(self) -> bool:
        return self.p_value < SIGNIFICANT

    @property
    def in_words(self) -> str:
        """`0 of 19 labelled statements are supported by the documents`."""
        noun, rest = self._words
        disputed = f", annotators differ on {self.disputed:,}" if self.disputed else ""
        return f"{self.supported:,} of {self.labelled:,} labelled {noun} {rest}{disputed}"

    @property
    def contradiction(self) -> str | None:
        """`the labels contradict the judge: 0 of 19 labelled statements are ..., ... says 19`."""
        if not self.is_contradiction:
            return None
        p_value = f"p = {self.p_value:.{_PLACES}f}"
        if self.p_value < _SMALLEST_SHOWN:
            p_value = f"p < {_SMALLEST_SHOWN:g}"
        judge = f"the judge says {self.supported_by_judge:,} ({p_value})"
        return f"the labels contradict the judge: {self.in_words}, {judge}"

    @property
    def _words(self) -> tuple[str, str]:
        """Noun and predicate of the metric's headline, or general words."""
        headline = get_about(catalog.ours(self.metric)).headline
        _, _, rest = headline.partition("{} of the ")
        noun, _, predicate = rest.partition(" ")
        if not (self.is_share and predicate):
            return "statements", "have the label 1"
        return ("statements" if noun == "sentences" else noun), predicate


def count_labels(frame: UnitFrame, human: Mapping[str, float]) -> LabelCounts | None:
    """Count the labels of a metric's statements, or return None if none has one.

    `human` is the label by key, between 0 and 1 if annotators differ.
    """
    keys = frame.by_key.keys() & human.keys()
    if not keys:
        return None
    judged = {key: float(frame.judged[frame.by_key[key][0]]) for key in keys}
    labels = {key: human[key] for key in keys}
    if frame.share_of == "zeros":
        judged = {key: 1 - label for key, label in judged.items()}
        labels = {key: 1 - label for key, label in labels.items()}
    decided = {key: label for key, label in labels.items() if label in (0.0, 1.0)}
    return LabelCounts(
        metric=frame.metric,
        is_share=frame.share_of is not None,
        labelled=len(keys),
        of=len(frame.by_key),
        supported=int(sum(decided.values())),
        supported_by_judge=int(sum(judged.values())),
        disputed=len(labels) - len(decided),
        p_value=_p_value(decided, judged),
    )


def _p_value(labels: Mapping[str, float], judged: Mapping[str, float]) -> float:
    differences = [judged[key] - label for key, label in labels.items()]
    return mcnemar_test(differences.count(1.0), differences.count(-1.0))
