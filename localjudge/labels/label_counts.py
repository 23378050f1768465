"""Labels of a metric next to the judge's verdicts on the same statements.

statement   human   judge            19 labelled statements
a             0       1              annotators support 0, the judge supports 19
b             0       1              McNemar's exact test: 2 * 0.5^19 = 0.000004
...
"""

from collections import Counter
from collections.abc import Mapping

from localjudge.labels.units import UnitFrame
from localjudge.metrics import catalog
from localjudge.metrics.metric import get_about
from localjudge.stats.agreement import mcnemar_test
from localjudge.types import Record
from localjudge.words import three_digits

SIGNIFICANT = 0.01
"""Below this p-value the labels contradict the judge."""
SMALLEST_SHOWN = 0.001


class LabelCounts(Record):
    """Labelled statements of a metric, and how many of them count for it: by a label of 1, or of 0.

    `supported` statements count by their labels, `supported_by_judge` by the verdicts. Annotators
    differ on `disputed` ones, which count neither way. `p_value` is McNemar's, without disputed
    ones. `of` is the number of all statements of the metric. `is_share`: the metric's score is the
    share of the statements that count.
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
        words = self.without_disputes
        if self.disputed:
            words += f", annotators differ on {self.disputed:,}"
        return words

    @property
    def without_disputes(self) -> str:
        """`in_words` without the number of statements on which annotators differ."""
        noun, predicate = self._words
        return f"{self.supported:,} of {self.labelled:,} labelled {noun} {predicate}"

    @property
    def contradiction(self) -> str | None:
        """`the labels contradict the judge: 0 of 19 labelled statements are ..., ... says 19`."""
        if not self.is_contradiction:
            return None
        p_value = f"p = {three_digits(self.p_value)}"
        if self.p_value < SMALLEST_SHOWN:
            p_value = f"p < {SMALLEST_SHOWN:g}"
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
        if noun == "sentences":
            noun = "statements"
        return noun, predicate


def are_too_many(passed_over: int, counts: LabelCounts | None) -> bool:
    """Return whether more than a tenth of the drawn statements have no label."""
    if counts is None:
        return passed_over > 0
    return 10 * passed_over > counts.labelled + passed_over


def count_labels(frame: UnitFrame, human: Mapping[str, float]) -> LabelCounts | None:
    """Count the labels of a metric's statements, or return None if none has one.

    `human` is the label by key, between 0 and 1 if annotators differ.
    """
    keys = frame.by_key.keys() & human.keys()
    if not keys:
        return None
    supporting_label = 1.0
    if frame.share_of == "zeros":
        supporting_label = 0.0
    supported_by_judge = 0
    # Undisputed statements, by whether annotators support them, and whether the judge does.
    pairs: Counter[tuple[bool, bool]] = Counter()
    for key in keys:
        first_unit = frame.by_key[key][0]
        by_judge = bool(frame.judged[first_unit] == supporting_label)
        supported_by_judge += by_judge
        label = human[key]
        if label in (0.0, 1.0):
            pairs[label == supporting_label, by_judge] += 1
    return LabelCounts(
        metric=frame.metric,
        is_share=frame.share_of is not None,
        labelled=len(keys),
        of=len(frame.by_key),
        supported=pairs[True, True] + pairs[True, False],
        supported_by_judge=supported_by_judge,
        disputed=len(keys) - pairs.total(),
        p_value=mcnemar_test(pairs[False, True], pairs[True, False]),
    )
