"""Lines below the tables of a run: what limits its means, its judge, and details."""

from collections.abc import Iterator

from localjudge.analysis.missing_scores import missing_scores
from localjudge.labels.run_labels import RunLabels, how_to_label
from localjudge.metrics import catalog
from localjudge.metrics.catalog import get_question
from localjudge.report.label_views import label_lines
from localjudge.report.terminal import number
from localjudge.run_directory.files import NEAR, MetricSummary, VerdictSummary, verdict_summary
from localjudge.run_directory.run_record import RunRecord
from localjudge.words import numbered, option, option_name

ALWAYS_VALID = "the intervals are confidence sequences, which are valid at any stopping point"
_MOST_NEAR = 0.5
"""Share of verdicts near the threshold that causes a warning."""
_ONE_HALF = 0.5
_MOST_REASONS = 5


def remarks(run: RunRecord, *, metric: str | None = None) -> Iterator[str]:
    """Yield what limits the means: unscored samples, answers from elsewhere, and doubts about the judge."""
    withheld = run.summary.failed_beyond(run.max_failed)
    for name, summary in select_metrics(run, metric).items():
        yield from (
            f"{name}: {remark}" for remark in metric_remarks(summary, withheld=name in withheld)
        )
    if run.summary.skipped_rows:
        yield f"{numbered(run.summary.skipped_rows, 'row')} of the data could not be used and were skipped"
    if run.so_far:
        yield f"not finished: the first {run.summary.samples:,} of {run.manifest.data.rows:,} samples, in data order"
    if run.summary.how_it_ended:
        yield run.summary.how_it_ended
    elif run.part:
        yield f"part of the data: {run.part}"
    yield from (str(origin) for origin in run.origins if origin.is_notable)
    verdicts = select_verdicts(run, metric)
    is_jury = verdicts.divided is not None  # its probabilities are near one half by construction
    if (
        verdicts.near_threshold is not None
        and verdicts.near_threshold >= _MOST_NEAR
        and not is_jury
    ):
        advice = "test it with `localjudge doctor`"
        yield f"warning: most verdicts are close to the threshold; the judge may be guessing: {advice}"
    if verdicts.windowed:
        yield (
            f"warning: {numbered(verdicts.windowed, 'unit')} did not fit the judge's context together with their "
            "texts, and were judged in windows: the highest window decides, so many windows mean more false verdicts "
            f"of 1; a larger {option_name('n_ctx')} avoids windows"
        )


def metric_remarks(metric: MetricSummary, *, withheld: bool) -> Iterator[str]:
    if metric.interval is not None and metric.interval.one_cluster:
        yield (
            "warning: all samples are in one group, so there is no interval: name a column with several groups "
            f"with {option('cluster_by')}, or omit it"
        )
    if metric.failed and metric.bounds:
        low, high = map(number, metric.bounds)
        no_mean = f", more than allowed ({option_name('max_failed')}): no mean" if withheld else ""
        bounds = f"if they had scores, the mean would be between {low} and {high}"
        yield f"{metric.failed:,} failed{no_mean}; {bounds}"


def reason_lines(run: RunRecord, metric: str | None = None, *, texts: bool = True) -> list[str]:
    """Return the most frequent reasons for missing scores, with advice.

    Without `texts`, lists only built-in reasons, because others may contain a text.
    """
    groups = missing_scores(run, select_metrics(run, metric))
    if not texts:
        groups = [
            group
            for group in groups
            if group.status == "undefined" and catalog.is_ours(group.metric)
        ]
    more = numbered(len(groups) - _MOST_REASONS, "more reason")
    more_lines = [f"and {more}: localjudge show RUN --json"] if len(groups) > _MOST_REASONS else []
    return [*map(str, groups[:_MOST_REASONS]), *more_lines]


def judge_lines(run: RunRecord) -> list[str]:
    """Return the judge with its caution and any threshold other than one half, or nothing if no metric needs one."""
    if not any(map(catalog.is_judged, run.summary.metrics)):
        return []
    parts = [f"judge {run.judge.in_brief}"]
    if run.summary.threshold != _ONE_HALF:
        parts.append(f"threshold {run.summary.threshold:g}")
    parts += [
        f"threshold {number(threshold)} for {name}"
        for name, threshold in run.summary.thresholds.items()
    ]
    for calibration in run.manifest.environment.settings.calibration:
        if calibration.guesses:
            parts.append(
                f"by the calibration {calibration.name} not shown to be better than guessing"
            )
    return [", ".join(parts)]


def detail_lines(
    run: RunRecord, labels: RunLabels | None, metric: str | None = None
) -> Iterator[str]:
    """Yield the labels of each mean, calibrations, origins of answers, clearness of verdicts, and the signature."""
    if labels is not None:
        yield from label_lines(labels, metric)
    elif run.sampling.optional_stopping and run.so_far is None:
        why = "labels cannot correct this run, because its size depends on its scores"
        yield f"{why}: {how_to_label(run)}"
    if run.sampling.optional_stopping:
        yield ALWAYS_VALID
    yield from (str(origin) for origin in run.origins if not origin.is_notable)
    yield from (f"calibration {line}" for line in calibration_lines(run, metric))
    if str(run.judge) != run.judge.in_brief:
        yield f"judge {run.judge}"
    yield decidedness_line(select_verdicts(run, metric))
    yield f"signature {run.summary.signature}"
    yield f"run {run.directory}"


def calibration_lines(run: RunRecord, metric: str | None = None) -> Iterator[str]:
    names = run.summary.thresholds if metric is None else {metric} & run.summary.thresholds.keys()
    for calibration in run.manifest.environment.settings.calibration:
        if decided := [name for name in names if get_question(name) == calibration.question]:
            line = f"{calibration.name}: threshold {number(calibration.threshold)} for {', '.join(decided)}"
            if accuracy := calibration.held_out.get("balanced_accuracy"):
                low, high = map(number, accuracy.ci95)
                line += f"; balanced accuracy {number(accuracy.value)} [{low}, {high}], held out"
            guesses = "; not shown to be better than guessing" if calibration.guesses else ""
            yield f"{line}, on {calibration.labels.verdicts:,} labelled verdicts{guesses}"


def decidedness_line(verdicts: VerdictSummary) -> str:
    near = "no verdict has a probability"
    if verdicts.near_threshold is not None:
        share = f"{100 * verdicts.near_threshold:.0f} %"
        near = f"{numbered(verdicts.count, 'verdict')}: {share} within {NEAR:g} of the threshold"
    mass = (
        ""
        if verdicts.median_valid_mass is None
        else f"; median valid mass {number(verdicts.median_valid_mass)}"
    )
    divided = (
        ""
        if verdicts.divided is None
        else f"; the judges disagree on {100 * verdicts.divided:.0f} %"
    )
    return near + divided + mass


def select_verdicts(run: RunRecord, metric: str | None) -> VerdictSummary:
    if metric is None:
        return run.summary.verdicts
    rows = (row for row in run.iter_verdicts() if row.metric == metric)
    threshold = None if metric in run.manifest.rubrics else run.summary.threshold_of(metric)
    return verdict_summary(rows, threshold)


def select_metrics(run: RunRecord, metric: str | None) -> dict[str, MetricSummary]:
    return run.summary.metrics if metric is None else {metric: run.summary.metrics[metric]}
