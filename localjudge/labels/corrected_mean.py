"""The mean of a metric corrected by its labels.

    context_recall   the judge                 0.708   0.669 - 0.745
                     50 labels only            0.622   0.480 - 0.747
                     corrected                 0.641   0.580 - 0.702

Labels correct a mean only if they were drawn from the statements of the run. If annotators
contradict each other, the mean is corrected once per annotator, and the interval covers all. Two
drawings are combined in proportion to their labels. Labels count at planned numbers only
(`localjudge.stats.repeated_looks`). If every statement has a label, the mean is the one of the
labels.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import PlainSerializer

from localjudge.labels.decisions import labelling_minutes
from localjudge.labels.drawing import LabelledUnits, label_units
from localjudge.labels.judge_figures import FEW
from localjudge.labels.matched_labels import (
    EvidenceUse,
    LabelCounts,
    MatchedLabels,
    are_too_many,
    count_evidence_use,
    count_labels,
)
from localjudge.labels.units import UnitFrame
from localjudge.run_directory.summary import MetricSummary
from localjudge.stats.corrected import (
    MIN_CLUSTERS,
    covering,
    labels_alone,
    labels_saved,
)
from localjudge.stats.interval import Mean, NoMean
from localjudge.types import Record
from localjudge.words import numbered, percent

NO_SHARE = "its scores are not shares of its verdicts, so labels cannot correct its mean"
NOT_DRAWN = "its labels were not drawn from its statements, so they cannot correct its mean"
TOO_SMALL = (
    f"fewer than {MIN_CLUSTERS} samples (or groups of samples): an interval needs labels of all "
    "statements"
)
TOO_MANY_FAILED = "too many of its samples failed"
BY_SCORES = "scores decided how many samples were judged, so labels cannot correct its mean"
ONE_GROUP = "all samples are in one group, so there is no interval"
NO_SAVING = "the judge saves no labels"
ALL_LABELLED = "every statement has a label, so this is the mean of the labels"


def labels_in_words(counted: int, labelled: int) -> str:
    """Return `50 labels`, or `50 of 63 labels` between two looks."""
    if counted < labelled:
        return f"{counted:,} of {labelled:,} labels"
    return numbered(counted, "label")


def labels_waiting(counted: int, labelled: int, next_look: int | None) -> str | None:
    """Return which labels do not count yet, and when they will, or None."""
    if counted >= labelled or next_look is None:
        return None
    more = numbered(next_look - labelled, "more label")
    return (
        f"{labels_in_words(counted, labelled)} count; the interval is computed again at planned "
        f"numbers only: {more} to reach {next_look:,}"
    )


BriefMean = Annotated[Mean, PlainSerializer(lambda mean: {"mean": mean.mean, "ci95": mean.ci95})]
"""A mean with two keys in JSON: by labels without the judge, or corrected by one annotator."""


class CorrectedMean(Record):
    """A mean corrected by labels, with its 95 % interval, or None with too few usable labels.

    Of the `labelled` `statements`, `labels` count, in `clusters` samples or groups, until the next
    look at `next_look` labels. An interval needs at least `needed` more labels, which take about
    `minutes`. `labels_saved` is the number of extra labels that a labels-only estimate would need
    for the same interval width. `ppi_lambda` is the weight of the judge, from 0 to 1. `counts` are
    all labels of its statements, also ones that cannot correct the mean; `own_labels` of these
    statements were labelled in this run and for this metric, others in a run with the same
    statements, or for another metric. `passed_over`
    statements have no label, but later ones of their drawing do. If every
    statement has a label (`is_complete`), the mean is the one of the labels. `is_planned`: the
    number of labels was planned, and the interval is an ordinary one. `right_on_ones` contains the
    number of labels of 1 that the judge gets right, and their total. `sensitivity` and
    `specificity` use the weights of the mean and need 20 labels of a kind. `evidence_use` is None
    if no label was given with the evidence open. `remark` explains what is missing.

    If annotators contradict each other, `by_annotator` has a corrected mean for each, with missing
    labels from the annotator with the most. The interval covers all of theirs, and the mean is
    midway between the extremes. If agreement is too low, there is no mean until the `unsettled`
    statements are settled.
    """

    mean: float | None = None
    ci95: tuple[float, float] | None = None
    labels: int = 0
    labelled: int = 0
    next_look: int | None = None
    statements: int = 0
    labels_saved: int | None = None
    labels_alone: BriefMean | None = None
    by_annotator: dict[str, BriefMean] | None = None
    pooled: BriefMean | None = None
    unsettled: int = 0
    clusters: int = 0
    needed: int | None = None
    minutes: int | None = None
    ppi_lambda: float | None = None
    right_on_ones: tuple[int, int] | None = None
    right_on_zeros: tuple[int, int] | None = None
    sensitivity: float | None = None
    specificity: float | None = None
    counts: LabelCounts | None = None
    evidence_use: EvidenceUse | None = None
    own_labels: int = 0
    passed_over: int = 0
    is_complete: bool = False
    is_planned: bool = False
    remark: str | None = None

    @property
    def in_words(self) -> str:
        """`50 labels`, or `50 of 63 labels` between two looks."""
        return labels_in_words(self.labels, self.labelled)

    @property
    def until_next_look(self) -> int:
        """Labels missing for the look at which the ones that do not count yet will count, or 0."""
        if self.next_look is None or self.labels == self.labelled:
            return 0
        return self.next_look - self.labelled

    @property
    def is_labelled(self) -> bool:
        """Whether statements have labels made for this metric, or drawn from its statements."""
        return self.own_labels > 0 or self.labelled > 0

    @property
    def has_gaps(self) -> bool:
        """Whether too many of the drawn statements have no label to decide a gate."""
        return not self.is_complete and are_too_many(self.passed_over, self.counts)

    @property
    def contradiction(self) -> str | None:
        """How the labels contradict the judge, if they do."""
        if self.counts is None:
            return None
        return self.counts.contradiction

    @property
    def withholds_judge(self) -> bool:
        """Whether labels without an interval keep the judge's mean from being quoted."""
        if self.counts is None or self.ci95:
            return False
        if self.contradiction:
            return True
        return self.is_labelled and self.remark != NO_SHARE

    @property
    def shortage(self) -> str | None:
        """Why labels give no interval: `19 labels, 20 needed`. None if they do, or without."""
        if self.counts is None or self.ci95:
            return None
        if self.needed is None:
            return f"{numbered(self.counts.labelled, 'label')}: {self.remark}"
        needed = self.labelled + self.needed
        return f"{numbered(self.labelled, 'label')}, {needed:,} needed"

    @property
    def rates_in_words(self) -> str:
        """How often the judge is right on each kind of label. Few labels give no rate.

        For example: `the judge gives 1 to 29 of 33 statements labelled 1 (sensitivity 87 %,
        weighted by the drawing), and 0 to 9 of 17 labelled 0`.
        """
        parts: list[str] = []
        if self.right_on_ones and self.right_on_ones[1]:
            right, total = self.right_on_ones
            statements = numbered(total, "statement")
            rate = _format_rate("sensitivity", self.sensitivity)
            parts.append(f"1 to {right:,} of {statements} labelled 1{rate}")
        if self.right_on_zeros and self.right_on_zeros[1]:
            right, total = self.right_on_zeros
            statements = f"{total:,}"
            if not parts:
                statements = numbered(total, "statement")
            rate = _format_rate("specificity", self.specificity)
            parts.append(f"0 to {right:,} of {statements} labelled 0{rate}")
        if not parts:
            return ""
        return f"the judge gives {', and '.join(parts)}"


def _format_rate(name: str, rate: float | None) -> str:
    if rate is None:
        return ""
    return f" ({name} {percent(rate)} %, weighted by the drawing)"


def quote_mean(summary: MetricSummary, corrected: CorrectedMean | None) -> Mean | NoMean:
    """Return the mean to quote of a metric, in a run or a slice.

    Labels of the run that give no interval leave no number: the judge's mean is never quoted
    against labels. The judge decides without labels, with labels of another run only, and if labels
    can never correct the metric and do not contradict the judge.
    """
    if corrected and corrected.mean is not None and (corrected.ci95 or corrected.is_complete):
        return Mean(
            mean=corrected.mean,
            ci95=corrected.ci95,
            method="labels",
            n=summary.scored,
            clusters=corrected.clusters,
            basis="labels",
            based_on=corrected.in_words,
        )
    if corrected and corrected.withholds_judge:
        return NoMean("too few labels", corrected.shortage or "too few labels")
    return summary.by_judge or NoMean()


def correct_mean(
    frame: UnitFrame, matched: MatchedLabels, seconds: float, *, too_many_failed: bool = False
) -> CorrectedMean:
    """Return the mean of a metric corrected by the labels of its statements.

    `seconds` is the time for one label. With `too_many_failed` samples there is no mean.
    """
    decisions = matched.decisions
    labelled = frame.by_key.keys() & decisions.human.keys()
    corrected = CorrectedMean(
        statements=len(frame.by_key),
        counts=count_labels(frame, decisions.human),
        evidence_use=count_evidence_use(labelled, frame, decisions),
        own_labels=len(labelled & matched.own[frame.metric]),
        passed_over=len(frame.by_key.keys() & matched.passed_over),
    )
    obstacle = find_obstacle([matched], [frame], frame.by_key.keys())
    if too_many_failed:
        obstacle = {"remark": TOO_MANY_FAILED}
    if obstacle:
        return corrected.model_copy(update=obstacle)
    drawings = matched.drawings[frame.metric]
    people: dict[str, LabelledUnits] = {}
    pooled: list[LabelledUnits] = []
    for name, human in decisions.by_annotator(labelled).items():
        people[name] = label_units(frame, human, drawings, matched.planned)
        pooled.append(label_units(frame.pooled(), human, drawings, matched.planned))
    first = next(iter(people.values()))
    update: dict[str, Any] = {
        "labels": len(first.counted),
        "labelled": len(first.labelled),
        "next_look": first.look.next,
        "is_complete": first.is_complete,
        "is_planned": first.is_planned,
    }
    if first.counted:
        update |= _estimate_mean(people)
        words = labels_in_words(len(first.counted), len(first.labelled))
        share = covering([units.estimate() for units in pooled])
        update["pooled"] = share._replace(based_on=words)
    elif corrected.counts:
        update["remark"] = NOT_DRAWN
    if not update.get("ci95"):
        update |= _missing_labels(first, seconds)
    return corrected.model_copy(update=update)


def find_obstacle(
    matched: Sequence[MatchedLabels], frames: Iterable[UnitFrame], keys: Collection[str]
) -> dict[str, Any]:
    """Return why no label of these statements can correct a mean or a difference, as its fields.

    `matched` are the labels of one run, or of two with the same decisions. Returns {} if labels
    can.
    """
    if any(labels.is_stopped for labels in matched):
        return {"remark": BY_SCORES}
    if any(frame.share_of is None for frame in frames):
        return {"remark": NO_SHARE}
    agreement = matched[0].decisions.agreement(keys)
    if agreement and agreement.is_too_low:
        return {"remark": agreement.request, "unsettled": agreement.unsettled}
    return {}


def _missing_labels(units: LabelledUnits, seconds: float) -> dict[str, int]:
    """Return the number of labels that are missing for an interval, and their minutes."""
    if units.look.next is None:
        return {}
    total = units.look.next
    if cannot_correct(units.frame):
        total = len(units.frame.by_key)
    more = total - len(units.labelled)
    return {"needed": more, "minutes": labelling_minutes(more, seconds)}


def _estimate_mean(people: Mapping[str, LabelledUnits]) -> dict[str, Any]:
    """Return the fields of a mean with some or all statements labelled."""
    means = {name: units.estimate() for name, units in people.items()}
    mean = covering(list(means.values()))
    fields: dict[str, Any] = {
        "mean": mean.mean,
        "ci95": mean.ci95,
        "clusters": mean.clusters,
    }
    if len(means) > 1:
        fields["by_annotator"] = means
    name, first = next(iter(people.items()))
    fields |= _judge_rates(first)
    if first.is_complete:
        fields["remark"] = ONE_GROUP
        if mean.ci95:
            fields["remark"] = ALL_LABELLED
        return fields
    alones = [labels_alone(units.units, units.look.confidence) for units in people.values()]
    saved = labels_saved(means[name], alones[0], len(first.counted))
    fields["labels_saved"] = saved
    fields["labels_alone"] = covering(alones)
    fields["ppi_lambda"] = mean.ppi_lambda
    if mean.ci95 is None:
        shortage = "too few labels for an interval"
        if first.look.confidence is not None:
            groups = f"fewer than {MIN_CLUSTERS} samples (or groups of samples)"
            shortage = f"{groups} have labels: no interval"
        fields["remark"] = cannot_correct(first.frame) or shortage
    elif not saved:
        fields["remark"] = NO_SAVING
    return fields


def cannot_correct(frame: UnitFrame) -> str | None:
    """Return why labels of some statements cannot correct the mean, if so."""
    if frame.share_of is None:
        return NO_SHARE
    # A shared statement is labelled in one sample only.
    clusters = {frame.clusters[indices[0]] for indices in frame.by_key.values()}
    if len(clusters) < MIN_CLUSTERS:
        return TOO_SMALL
    return None


def _judge_rates(labelled: LabelledUnits) -> dict[str, Any]:
    """Return how often the judge is right on labels of 1 and of 0, with rates for enough labels."""
    units = labelled.units
    good = "zeros" if labelled.frame.share_of == "zeros" else "ones"
    rates: dict[str, Any] = {}
    kinds = {"ones": "sensitivity", "zeros": "specificity"}
    for kind, name in kinds.items():
        wanted = float(kind == good)  # units count as 1 if they are good
        of_kind = units.labelled & (units.human == wanted)
        right = of_kind & (units.judged == wanted)
        labels = int(of_kind.sum())
        rates[f"right_on_{kind}"] = int(right.sum()), labels
        if labels >= FEW:
            rates[name] = float(units.drawn[right].sum()) / float(units.drawn[of_kind].sum())
    return rates
