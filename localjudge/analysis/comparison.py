"""What a comparison of two runs finds, as values, and what may be said about a difference.

`localjudge.analysis.compare` computes the values:

RunComparison ── samples: SharedSamples      how many pairs, by which key
    │         ── judge_changes               what differs in the judges
    ├── metrics: MetricChange ── scores      the difference with its interval
    │                         ── corrected   the same by human labels
    │                         ── verdicts    statements that changed
    │                         └─ moved       samples that changed most
    └── by: SlicedChanges ── ComparedSlice ── SliceChange

The outcome of a difference:

better, worse    the whole interval is on one side of 0, corrected by labels where a judge is
                 involved
undecided        it contains 0, or labels are too few or have gaps
judge only       no labels correct the judge, which may reverse the order of two systems
not comparable   the judges, questions or references differ
no scores        no sample has a score in both runs
"""

from typing import Literal

from localjudge.analysis.pairing import SharedSamples, UnitChange
from localjudge.labels.corrected_mean import (
    NO_SHARE,
    CorrectedMean,
    labels_in_words,
    labels_waiting,
)
from localjudge.labels.matched_labels import LabelCounts, are_too_many
from localjudge.metrics import catalog
from localjudge.run_directory.differences import Difference, judges_differ, only_rounds
from localjudge.stats.interval import Mean, NoMean
from localjudge.stats.paired import labels_needed
from localjudge.stats.repeated_looks import MIN_PLANNED_LABELS
from localjudge.types import JudgeCard, Record
from localjudge.words import numbered

Obstacle = Literal["judges", "questions"]
"""Why scores of two runs are not comparable.

The judges are others, or the questions or references of paired samples are.
"""
_STATEMENTS = ("segmenter.", "metrics.")
"""Parts of a judge's identity that decide what is judged."""
Outcome = Literal[
    "better", "worse", "undecided", "judge only", "not comparable", "no scores", "equal"
]


class ScoreChanges(Record):
    """Scores of the same samples in both runs, by the judges only. Labels do not count here.

    `smallest_detectable` is the smallest true difference that these samples would detect in 80 % of
    cases, and None without an interval.
    """

    before: float
    after: float
    difference: float
    ci95: tuple[float, float] | None
    method: str
    clusters: int
    improved: int
    worsened: int
    tied: int
    smallest_detectable: float | None


class CorrectedDifference(Record):
    """Corrected means of the same samples in both runs, and their difference with its interval.

    Of the shared `statements`, `labelled` have a label; `labels` count, in at least `clusters`
    samples or groups. Both runs use the same `look`, with an equal number of labels unless all
    statements have one. `counts_before` and `counts_after` are all labels of the statements of each
    run; `own_labels` of the new run's were made in it. Statements that were `passed_over` have no
    label, but later ones of their drawing do. Disagreements are handled as in
    `CorrectedMean`. `annotators` have labelled one of the statements. `remark` explains a missing
    interval. More labels count at the `next_look`. `planned` labels were to be read first, None
    without a plan. `is_joint`: the statements were drawn from both runs together, by what each
    changes in the difference. `uncounted` ones change nothing and are never drawn, so that there
    are no means with any of them. `half_width_of_all` is then the expected half width if every
    statement had a label.
    """

    before: float | None = None
    after: float | None = None
    difference: float | None = None
    ci95: tuple[float, float] | None = None
    labels_before: int = 0
    labels_after: int = 0
    labels: int = 0
    labelled: int = 0
    look: int = 0
    next_look: int | None = None
    planned: int | None = None
    half_width_of_all: float | None = None
    unsettled: int = 0
    statements: int = 0
    uncounted: int = 0
    clusters: int = 0
    counts_before: LabelCounts | None = None
    counts_after: LabelCounts | None = None
    own_labels: int = 0
    passed_over_before: int = 0
    passed_over_after: int = 0
    annotators: int = 0
    is_joint: bool = False
    remark: str | None = None

    @property
    def passed_over(self) -> int:
        return self.passed_over_before + self.passed_over_after

    @property
    def has_gaps(self) -> bool:
        """Whether too many of the drawn statements of a run have no label to decide a gate."""
        before = are_too_many(self.passed_over_before, self.counts_before)
        return before or are_too_many(self.passed_over_after, self.counts_after)

    @property
    def contradiction(self) -> str | None:
        """How the labels of a run contradict its judge, if they do."""
        for counts in (self.counts_after, self.counts_before):
            if counts and counts.contradiction:
                return counts.contradiction
        return None

    @property
    def is_labelled(self) -> bool:
        """Whether the new run has labels, made in it or drawn from its statements."""
        return self.own_labels > 0 or self.labels_after > 0

    @property
    def waiting(self) -> str | None:
        """Which labels do not count yet, and when they will, or None."""
        return labels_waiting(self.labels, self.labelled, self.next_look)

    @property
    def in_words(self) -> str:
        """`50 labels`, or `50 of 63 labels` between two looks."""
        return labels_in_words(self.labels, self.labelled)


Corrected = CorrectedMean | CorrectedDifference
"""A mean or a difference corrected by labels."""


class SampleChange(Record):
    """A sample with another score, and its changed units."""

    sample_id: str
    baseline_id: str
    before: float
    after: float
    units: tuple[UnitChange, ...]


class VerdictChanges(Record):
    """Verdicts on the same text in both runs, and the numbers that changed to 1 and to 0.

    `difference` is the change in the share of 1. Its interval is None if scores stopped a run.
    """

    paired: int
    unpaired: int
    up: int
    down: int
    difference: float
    ci95: tuple[float, float] | None


class SliceChange(Record):
    """One metric on the samples of a slice with a score in both runs.

    `scores` and `expected` are by the judges only, with labels and with probabilities. `quoted` is
    the difference to quote. If labels of the new run are too few for an interval, it has no number
    (`is_withheld`): the judges' difference is never quoted against labels. If the texts and scores
    of all pairs are the same (`is_equal`), these samples have no difference; the interval is about
    other samples then, and only gates use it.
    """

    compared: int
    scores: ScoreChanges | None
    expected: ScoreChanges | None = None
    corrected: CorrectedDifference | None = None
    is_withheld: bool = False
    is_equal: bool = False

    @property
    def quoted(self) -> Mean | NoMean:
        """The difference by labels; without labels, by the judges; with too few, none."""
        by_judge = self.by_judge
        by_labels = self.headline
        if by_judge and by_labels and by_labels.difference is not None:
            return by_judge._replace(
                mean=by_labels.difference,
                ci95=by_labels.ci95,
                clusters=by_labels.clusters,
                basis="labels",
                based_on=by_labels.in_words,
            )
        if self.is_withheld:
            return NoMean("too few labels", self.shortage)
        return by_judge or NoMean()

    @property
    def judged(self) -> ScoreChanges | None:
        """The difference by the judges that views, gates and intervals use: of expected scores.

        Of faithfulness, it is decided with fewer samples than the counted one.
        """
        return self.expected or self.scores

    @property
    def shortage(self) -> str:
        """Why labels give no interval: `7 labels in one run, 20 needed`."""
        if self.corrected is None:
            return "no labels"
        if self.corrected.unsettled:
            return f"{numbered(self.corrected.unsettled, 'disputed statement')} to settle"
        if self.corrected.is_joint:
            return f"{numbered(self.corrected.labelled, 'label')}, {MIN_PLANNED_LABELS} needed"
        fewest = min(self.corrected.labels_before, self.corrected.labels_after)
        if fewest >= MIN_PLANNED_LABELS:
            return "too few labels"
        return f"{numbered(fewest, 'label')} in one run, {MIN_PLANNED_LABELS} needed"

    @property
    def headline(self) -> CorrectedDifference | None:
        """Corrected difference, if it has an interval."""
        if self.corrected and self.corrected.ci95:
            return self.corrected
        return None

    @property
    def by_judge(self) -> Mean | None:
        if self.judged is None:
            return None
        return Mean(
            mean=self.judged.difference,
            ci95=self.judged.ci95,
            method=self.judged.method,
            n=self.compared,
            clusters=self.judged.clusters,
            range=(-1.0, 1.0),
        )


class MetricChange(SliceChange):
    """One metric in both runs. `scores` covers the `compared` samples.

    `counted_by` says by what samples are `improved`, `worsened` and `tied`, also with labels.

    `unpaired` samples are in one run only. `unscored` samples are in both, but undefined or failed
    in at least one.
    """

    unpaired: int
    unscored: int
    failed_in_baseline: int
    allowed_in_baseline: int
    verdicts: VerdictChanges | None
    moved: tuple[SampleChange, ...]
    counted_by: Literal["judge", "rules"] = "judge"
    withheld: str | None = None
    """Why no scores are compared: more samples of a run failed than it allows."""


class ComparedSlice(Record):
    """Samples of the new run with one value in the column, and their pairs.

    `other_question` as in SharedSamples.
    """

    value: str | None
    samples: int
    paired: int
    other_question: int
    metrics: dict[str, SliceChange]


class SlicedChanges(Record):
    """Changes by the values of a column of the new run, largest slice first."""

    column: str
    slices: tuple[ComparedSlice, ...]


class RunComparison(Record):
    """Shared samples, differences of the judges, and changes of each metric, also `by` a column.

    `directory` has both runs if they judged two columns (`ComparisonDirectory`).
    """

    schema_version: int = 1
    baseline: str
    run: str
    baseline_signature: str
    signature: str
    baseline_judge: JudgeCard
    judge: JudgeCard
    samples: SharedSamples
    judge_changes: tuple[Difference, ...]
    warnings: tuple[str, ...]
    metrics: dict[str, MetricChange]
    by: SlicedChanges | None = None
    directory: str | None = None

    @property
    def is_corrected(self) -> bool:
        """Whether labels correct the difference of every metric, and there is one."""
        changes = self.metrics.values()
        return bool(changes) and all(change.headline for change in changes)

    def judge_changes_for(self, metric: str) -> tuple[Difference, ...]:
        """Return the differences of the judges that can change a metric, except by rounding."""
        built_in = catalog.ours(metric)
        if built_in is None:
            tasks: frozenset[str] | None = None
        else:
            tasks = catalog.list_tasks([built_in])
        changes = []
        for change in self.judge_changes:
            part, _, name = change.ingredient.partition(".")
            match part:
                case "metrics" | "thresholds":
                    concerns_metric = name == metric or name.startswith(f"{metric}.")
                case "calibrations":  # they act through `thresholds`
                    concerns_metric = False
                case "segmenter":
                    concerns_metric = True
                case "judge" if name.startswith("special_tasks.") and tasks is not None:
                    concerns_metric = name.split(".")[1] in tasks
                case _:  # a metric without tasks asks no judge
                    concerns_metric = tasks is None or bool(tasks)
            if concerns_metric and not only_rounds(change):
                changes.append(change)
        return tuple(changes)

    def obstacles(self, metric: str, part: ComparedSlice | None = None) -> dict[Obstacle, str]:
        """Return why the scores are not comparable, by kind of reason. Intervals do not matter.

        Labels of both runs also correct for the difference of two judges, unless they judge other
        statements.
        """
        counts: SharedSamples | ComparedSlice = self.samples
        change: SliceChange = self.metrics[metric]
        if part is not None:
            counts = part
            change = part.metrics[metric]
        names = []
        for difference in self.judge_changes_for(metric):
            if change.headline is None or difference.ingredient.startswith(_STATEMENTS):
                names.append(difference.ingredient)
        obstacles: dict[Obstacle, str] = {}
        if names:
            obstacles["judges"] = judges_differ(names)
        if counts.other_question:
            pairs = f"{counts.other_question:,} of {numbered(counts.paired, 'pair')}"
            obstacles["questions"] = f"another question or reference in {pairs}"
        return obstacles


def decide_difference(comparison: RunComparison, name: str) -> Outcome:
    """Return the outcome for a metric."""
    change = comparison.metrics[name]
    obstacles = comparison.obstacles(name)
    quoted = change.quoted
    outcome: Outcome = "undecided"
    if change.scores is None:
        outcome = "no scores"
    elif obstacles:
        outcome = "not comparable"
    elif change.is_equal:
        outcome = "equal"
    elif isinstance(quoted, NoMean):
        return outcome
    elif quoted.basis == "judge" and catalog.is_judged(name):
        outcome = "judge only"
    elif quoted.excludes_zero and not (change.headline and change.headline.has_gaps):
        is_better = quoted.low > 0
        if catalog.lower_is_better(name):
            is_better = quoted.low < 0
        outcome = "better" if is_better else "worse"
    return outcome


def can_be_corrected(name: str, change: MetricChange) -> bool:
    """Return whether labels can correct the difference."""
    if change.scores is None or not catalog.is_judged(name):
        return False
    return change.corrected is None or change.corrected.remark != NO_SHARE


def count_labels_to_decide(
    threshold: float, mean: Mean, judge: Mean, corrected: Corrected
) -> int | None:
    """Return the number of labels that would decide the gate at the same mean, or None."""
    labels = corrected.labels
    look = labels
    planned = None
    half_width = None
    if isinstance(corrected, CorrectedDifference):
        # A difference uses equal numbers of labels of each run, which may share a statement.
        look = corrected.look
        planned = corrected.planned
        half_width = corrected.half_width_of_all
        if half_width is not None:
            limits = (mean.mean - half_width, mean.mean + half_width)
            judge = judge._replace(mean=mean.mean, ci95=limits)
    elif corrected.is_planned:
        planned = labels
    statements_of_look = round(corrected.statements * look / labels)
    needed = labels_needed(mean, judge, threshold, look, statements_of_look, planned)
    if needed is not None:
        return round(needed * labels / look)
    if half_width is not None and abs(mean.mean - threshold) > half_width:
        return corrected.statements  # with labels of all, the interval is an ordinary one
    return None


def count_missing_labels(change: MetricChange) -> int | None:
    """Return how many more labels would decide the difference, None if it is or none would."""
    quoted = change.quoted
    judge = change.by_judge
    labels = change.headline
    if isinstance(quoted, NoMean) or judge is None or labels is None or quoted.excludes_zero:
        return None
    needed = count_labels_to_decide(0, quoted, judge, labels)
    if needed is None:
        return None
    return max(1, needed - labels.labelled)
