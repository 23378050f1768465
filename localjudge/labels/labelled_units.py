"""The units of a metric with their labels, and next to the judge's verdicts on the same statements.

Units are weighted by the chance of being drawn.

    statement   human   judge            19 labelled statements
    a             0       1              annotators support 0, the judge supports 19
    b             0       1              McNemar's exact test: 2 * 0.5^19 = 0.000004
    ...

Evidence that leads the eye can also mislead it. So labels given with the evidence open are compared
with the verdicts apart from the others.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Set
from typing import NamedTuple

import numpy as np

from localjudge.labels.decisions import Decisions
from localjudge.labels.units import UnitFrame
from localjudge.metrics import catalog
from localjudge.run_directory.label_rows import DrawnStatement, LabelRow
from localjudge.stats.agreement import mcnemar_test
from localjudge.stats.corrected import (
    STRATA,
    JudgedUnits,
    inclusion_probabilities,
    prediction_powered,
    strata_by_score,
)
from localjudge.stats.interval import Mean, mean_interval, share_interval
from localjudge.stats.repeated_looks import MIN_PLANNED_LABELS, Look, look_at
from localjudge.types import Record
from localjudge.words import numbered, three_digits

SIGNIFICANT = 0.01
"""Below this p-value the labels contradict the judge."""
SMALLEST_SHOWN = 0.001


def sampling_weights(
    drawings: Iterable[Iterable[DrawnStatement]], most: float = math.inf
) -> dict[str, float]:
    """Return the weights of the first `most` labelled statements, relative to shares in the mean.

    It is the sum of (share of labels) / (inclusion probability) over the drawings that reached the
    statement.
    """
    keys: set[str] = set()
    reached: list[list[DrawnStatement]] = []
    for drawing in drawings:
        reached.append([])
        for drawn in drawing:
            if len(keys) >= most:
                break
            keys.add(drawn.key)
            reached[-1].append(drawn)
    count = sum(len(statements) for statements in reached)
    weights: dict[str, float] = defaultdict(float)
    for statements in reached:
        if not statements:
            continue
        shares = np.array([drawn.size_share for drawn in statements])
        probabilities = inclusion_probabilities(shares, statements[-1].turn).tolist()
        for drawn, probability in zip(statements, probabilities, strict=True):
            weights[drawn.key] += len(statements) / count / probability
    return dict(weights)


class LabelledUnits(NamedTuple):
    """Units of a metric with labels. Of the `labelled` statements, `counted` count at this look.

    `is_complete`: every statement has a label that counts. `planned` statements were to be read
    first, none without a plan.
    """

    frame: UnitFrame
    units: JudgedUnits
    counted: Set[str]
    labelled: Set[str]
    look: Look
    is_complete: bool
    planned: Set[str]

    @property
    def is_planned(self) -> bool:
        """Whether the number of labels that count was planned."""
        return bool(self.planned) and self.look.labels == len(self.planned)

    def estimate(self) -> Mean:
        """Return the mean of the labels if every statement has one, else the corrected mean."""
        if self.is_complete:
            confidence = self.look.confidence
            assert confidence  # the look at all labels has an interval
            labels = self.units.human
            if self.frame.is_pooled:
                ones = labels.astype(np.int64)
                clusters = np.unique(self.units.clusters, return_inverse=True)[1].reshape(-1)
                mean = share_interval(ones, np.ones_like(ones), clusters, confidence)
            else:
                shares = self.frame.means_of_samples(labels)
                groups = self.frame.clusters_of_samples
                is_grouped = len(np.unique(groups)) < len(groups)
                mean = mean_interval(
                    shares, clusters=groups if is_grouped else None, confidence=confidence
                )
            return mean._replace(basis="labels", ppi_lambda=0.0)
        return prediction_powered(self.units, self.look.confidence)


def label_units(
    frame: UnitFrame,
    human: Mapping[str, float],
    drawings: Iterable[Iterable[DrawnStatement]],
    planned_sets: Iterable[Set[str]] = (),
    most: int | None = None,
) -> LabelledUnits:
    """Return the units of a metric with the labels that count, for at most `most` statements.

    `human` is one annotator's label of each statement, and `planned_sets` are the statements of
    first readings that were complete. The number of labels determines the look, and only the labels
    that count there are weighted.
    """
    keys = frame.by_key.keys() & human.keys()
    drawings = _select_labels(drawings, keys)
    labelled: set[str] = set()
    for drawing in drawings:
        labelled.update(drawn.key for drawn in drawing)
    # Labels that were all drawn are cut off at `most`; others have no order.
    is_cut_off = most is not None and most < len(keys) and labelled == keys
    is_complete = len(keys) == len(frame.by_key) and not is_cut_off
    if is_complete:
        labelled = keys
    planned = _find_planned(frame, planned_sets, labelled)
    number = len(labelled)
    if most is not None:
        number = min(number, most)
    look = look_at(number, len(frame.by_key), len(planned) or None)
    if is_complete:
        weights = dict.fromkeys(keys, 1.0)
    elif look.labels == len(labelled):
        weights = sampling_weights(drawings)  # also of drawings that only repeat statements
    elif planned and look.labels == len(planned):
        weights = sampling_weights(_select_labels(drawings, planned), look.labels)
    else:
        weights = sampling_weights(drawings, look.labels)
    return LabelledUnits(
        frame=frame,
        units=_judged_units(frame, human, weights),
        counted=weights.keys(),
        labelled=labelled,
        look=look,
        is_complete=is_complete,
        planned=planned,
    )


def _find_planned(
    frame: UnitFrame, planned_sets: Iterable[Set[str]], labelled: Set[str]
) -> Set[str]:
    """Return the largest plan for the labelled statements, or none if it is too small."""
    largest: Set[str] = frozenset()
    for statements in planned_sets:
        planned = statements & frame.by_key.keys()
        is_usable = len(planned) >= MIN_PLANNED_LABELS and planned <= labelled
        if is_usable and len(planned) > len(largest):
            largest = planned
    return largest


def _select_labels(
    drawings: Iterable[Iterable[DrawnStatement]], keys: Set[str]
) -> list[list[DrawnStatement]]:
    """Return the labels of these statements in each drawing."""
    selected = []
    for drawing in drawings:
        selected.append([drawn for drawn in drawing if drawn.key in keys])
    return selected


def _judged_units(
    frame: UnitFrame, human: Mapping[str, float], sampling_weight: Mapping[str, float]
) -> JudgedUnits:
    """Return the units of a metric, with labels of the statements that have a sampling weight."""
    labels = np.zeros(len(frame.judged))
    drawn = np.zeros(len(frame.judged))
    for key, weight in sampling_weight.items():
        indices = frame.by_key[key]
        labels[indices] = human[key]
        # A statement has one label even if several samples share it. Its first unit represents all.
        drawn[indices[0]] = frame.weights[indices].sum() * weight
    certain = np.isnan(frame.p_yes)
    labels[certain] = frame.judged[certain]
    drawn[certain] = frame.weights[certain]
    strata = np.zeros(len(labels), dtype=np.intp)
    if not certain.all():
        scores = frame.p_yes[~certain]
        count = max(1, min(STRATA, len(sampling_weight)))
        strata[~certain] = strata_by_score(scores, count) + int(certain.any())
    units = JudgedUnits(frame.judged, frame.weights, labels, drawn, strata, frame.clusters, certain)
    if frame.share_of == "zeros":
        return units._replace(judged=1 - units.judged, human=1 - units.human)
    return units


def labelled_template(metric: str) -> str | None:
    """Return the sentence about the labels of a metric, None for one that is no share.

    For example: `{supported} of {n} labelled statements are supported by the documents`.
    """
    headline = catalog.about(metric).headline
    _, _, rest = headline.partition("{} of the ")
    noun, _, predicate = rest.partition(" ")
    if not predicate:
        return None
    if noun == "sentences":
        noun = "statements"
    return f"{{supported}} of {{n}} labelled {noun} {predicate}"


class LabelCounts(Record):
    """Labelled statements of a metric, and how many of them count for it: by a label of 1, or of 0.

    `supported` statements count by their labels, `supported_by_judge` by the verdicts. Annotators
    differ on `disputed` ones, which count by no label; `undisputed_by_judge` and McNemar's
    `p_value` leave them out. `of` is the number of all statements of the metric. `is_share`: the
    metric's score is the share of the statements that count.
    """

    metric: str
    is_share: bool
    labelled: int
    of: int
    supported: int
    supported_by_judge: int
    undisputed_by_judge: int
    disputed: int
    p_value: float

    @property
    def is_contradiction(self) -> bool:
        return self.p_value < SIGNIFICANT

    @property
    def undisputed(self) -> int:
        return self.labelled - self.disputed

    @property
    def in_words(self) -> str:
        """`0 of 19 labelled statements are supported by the documents, annotators differ on 2`."""
        if not self.undisputed:
            return f"annotators differ on every labelled statement ({self.disputed:,})"
        template = labelled_template(self.metric)
        if template is None or not self.is_share:
            template = "{supported} of {n} labelled statements have the label 1"
        words = template.format(supported=f"{self.supported:,}", n=f"{self.labelled:,}")
        if self.disputed:
            words += f", annotators differ on {self.disputed:,}"
        return words

    @property
    def contradiction(self) -> str | None:
        """`the labels contradict the judge: 0 of 19 labelled statements are ..., ... says 19`.

        With disputes: `..., annotators differ on 2, of the other 17 the judge says 17`.
        """
        if not self.is_contradiction:
            return None
        p_value = f"p = {three_digits(self.p_value)}"
        if self.p_value < SMALLEST_SHOWN:
            p_value = f"p < {SMALLEST_SHOWN:g}"
        judge = f"the judge says {self.undisputed_by_judge:,} ({p_value})"
        if self.disputed:
            judge = f"of the other {self.undisputed:,} {judge}"
        return f"the labels contradict the judge: {self.in_words}, {judge}"


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
        undisputed_by_judge=pairs[True, True] + pairs[False, True],
        disputed=len(keys) - pairs.total(),
        p_value=mcnemar_test(pairs[False, True], pairs[True, False]),
    )


class EvidenceUse(Record):
    """Labels of a metric's statements by whether the evidence was open, and the judge's agreement.

    Of the labels with open evidence, `shown` were made with `--show-evidence`.
    """

    open: int
    open_agreeing: int
    shown: int
    closed: int
    closed_agreeing: int

    @property
    def in_words(self) -> str:
        """`closest sentences open for 12 of 50 labels: the judge agrees with 11 of them ...`."""
        labels = self.open + self.closed
        counted = f"closest sentences open for {self.open:,} of {numbered(labels, 'label')}"
        if self.shown:
            counted += f" (shown at once for {self.shown:,})"
        agreement = f"the judge agrees with {self.open_agreeing:,} of them"
        if self.closed:
            agreement += f", and with {self.closed_agreeing:,} of the other {self.closed:,}"
        return f"{counted}: {agreement}"


def count_evidence_use(
    labelled: Collection[str], frame: UnitFrame, decisions: Decisions
) -> EvidenceUse | None:
    """Count the labels of these statements of a metric, or return None if none used the evidence.

    A label of each annotator counts, and so does one of each adjudicator.
    """
    latest: dict[tuple[str, str, bool], LabelRow] = {}
    for row in decisions.rows:
        if row.key in labelled:
            latest[row.role] = row
    labels = [row for row in latest.values() if row.human in (0, 1)]
    if not any(row.evidence_seen for row in labels):
        return None
    counts = dict.fromkeys(EvidenceUse.model_fields, 0)
    for row in labels:
        kind = "open" if row.evidence_seen else "closed"
        counts[kind] += 1
        counts["shown"] += row.evidence_seen == "shown"
        judged = frame.judged[frame.by_key[row.key][0]]
        counts[f"{kind}_agreeing"] += bool(judged == row.human)
    return EvidenceUse(**counts)
