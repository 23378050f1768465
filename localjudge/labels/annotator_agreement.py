"""Agreement of annotators on statements with labels of two or more of them."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from statistics import fmean

import numpy as np

from localjudge.errors import DataError
from localjudge.stats.agreement import cohen_kappa, krippendorff_alpha
from localjudge.types import Label, Record
from localjudge.words import numbered, percent, printable, three_digits

MIN_SHARED = 10
MIN_AGREEMENT = 0.70
"""Below this agreement, on that number of statements or more, no mean is corrected."""
_MAX_NAME = 40
_MAX_PAIRS = 5
"""Most pairs of annotators in a text: those with the most common statements."""


def shorten_name(annotator: str) -> str:
    """Return an annotator's name for a text: escaped, and with at most 40 characters."""
    if len(annotator) > _MAX_NAME:
        annotator = f"{annotator[: _MAX_NAME - 3]}..."
    return printable(annotator)


class PairAgreement(Record):
    """Share of equal labels of two annotators, and Cohen's kappa, if defined."""

    annotators: tuple[str, str]
    statements: int
    share: float
    kappa: float | None

    @property
    def line(self) -> str:
        names = " and ".join(map(shorten_name, self.annotators))
        statements = numbered(self.statements, "statement")
        line = f"{names}: {percent(self.share)} % agreement on {statements}"
        if self.kappa is None:
            return line
        return f"{line}, Cohen's kappa {three_digits(self.kappa)}"


class Agreement(Record):
    """Agreement of annotators on statements with two or more labels.

    `share` is the mean share of equal pairs of labels. `alpha` is Krippendorff's, if defined.
    Adjudicated labels are left out; they settle `settled` of the `disputed` statements.
    """

    statements: int
    share: float
    alpha: float | None
    disputed: int
    settled: int = 0
    pairs: tuple[PairAgreement, ...]

    @property
    def unsettled(self) -> int:
        return self.disputed - self.settled

    @property
    def is_too_low(self) -> bool:
        """Whether too few labels agree, and disputes are unsettled."""
        is_low = self.statements >= MIN_SHARED and self.share < MIN_AGREEMENT
        return is_low and self.unsettled > 0

    @property
    def lines(self) -> list[str]:
        statements = numbered(self.statements, "statement")
        summary = f"{statements} with several labels: {percent(self.share)} % agreement"
        if self.alpha is not None:
            summary += f", Krippendorff's alpha {three_digits(self.alpha)}"
        lines = [summary]
        lines += [pair.line for pair in self.pairs[:_MAX_PAIRS]]
        if len(self.pairs) > _MAX_PAIRS:
            others = numbered(len(self.pairs) - _MAX_PAIRS, "more pair")
            lines.append(f"and {others} of annotators")
        if self.settled:
            disputed = numbered(self.disputed, "disputed statement")
            lines.append(f"{self.settled:,} of {disputed} settled by adjudication")
        return lines

    @property
    def request(self) -> str:
        disputed = numbered(self.unsettled, "disputed statement")
        return (
            f"annotators agree on {percent(self.share)} % of {self.statements:,} statements with "
            f"several labels, less than {percent(MIN_AGREEMENT)} %: settle the {disputed} first: "
            "`localjudge label RUN --disputed`"
        )


def compute_agreement(
    labels: Sequence[Mapping[str, Label]], annotators: Collection[str], *, settled: int
) -> Agreement | None:
    """Return the agreement of the labels of statements, by annotator, or None without two of one.

    `settled` is the number of disputes that were settled by an adjudicated label.
    """
    shared = [by_annotator for by_annotator in labels if len(by_annotator) > 1]
    if not shared:
        return None
    ratings = [list(by_annotator.values()) for by_annotator in shared]
    alpha = None
    with suppress(DataError):  # undefined if all labels are equal
        alpha = krippendorff_alpha(ratings)
    pairs = []
    for names in combinations(sorted(annotators), 2):
        pair = _compare_pair(names, shared)
        if pair is not None:
            pairs.append(pair)
    pairs.sort(key=lambda pair: -pair.statements)
    shares_of_equal_pairs = []
    for labels_of_statement in ratings:
        count = len(labels_of_statement)
        ones = sum(labels_of_statement)
        shares_of_equal_pairs.append(1 - 2 * ones * (count - ones) / (count * (count - 1)))
    return Agreement(
        statements=len(shared),
        share=fmean(shares_of_equal_pairs),
        alpha=alpha,
        disputed=sum(map(is_disputed, shared)),
        settled=settled,
        pairs=tuple(pairs),
    )


def is_disputed(labels: Mapping[str, Label]) -> bool:
    """Return whether annotators gave a statement different labels."""
    return len(set(labels.values())) > 1


def _compare_pair(
    annotators: tuple[str, str], shared: Sequence[Mapping[str, Label]]
) -> PairAgreement | None:
    first, second = annotators
    pairs = []
    for labels in shared:
        if first in labels and second in labels:
            pairs.append((labels[first], labels[second]))
    if not pairs:
        return None
    first_labels, second_labels = np.array(pairs, dtype=np.float64).T
    kappa = None
    with suppress(DataError):  # undefined if all labels are equal
        kappa = float(cohen_kappa(first_labels, second_labels))
    return PairAgreement(
        annotators=annotators,
        statements=len(pairs),
        share=float((first_labels == second_labels).mean()),
        kappa=kappa,
    )
