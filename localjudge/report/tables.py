"""Tables and remarks on a run: summary, slices, worst samples, comparison, gates.

A mean is hidden if more samples failed than allowed.
"""

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from shlex import quote
from statistics import fmean
from types import MappingProxyType
from typing import Any

from rich.text import Text

from localjudge.analysis import compare
from localjudge.analysis.check import GateDecision, signed
from localjudge.analysis.corrected_change import CorrectedDifference
from localjudge.analysis.headline import Basis, headline_of
from localjudge.analysis.missing_scores import missing_scores
from localjudge.analysis.pooled import pooled_shares
from localjudge.analysis.slices import Slices
from localjudge.judging.estimate import Estimate
from localjudge.labels.run_labels import CorrectedMean, RunLabels, how_to_label, labels_of
from localjudge.metrics import catalog
from localjudge.metrics.catalog import get_question
from localjudge.metrics.metric import get_about
from localjudge.report.next_step import next_step
from localjudge.report.terminal import Table, View, number, safe_text
from localjudge.run_directory.archive import stored_ids, stored_sample
from localjudge.run_directory.column_values import NO_VALUE
from localjudge.run_directory.directory import STORE, excerpt
from localjudge.run_directory.files import NEAR, MetricSummary, VerdictSummary, verdict_summary
from localjudge.run_directory.result_rows import ScoreRow, VerdictRow
from localjudge.run_directory.run_record import RunRecord
from localjudge.stats.paired import decide, smallest_detectable_difference
from localjudge.stats.sequence import METHOD
from localjudge.text.folding import look_alikes
from localjudge.words import numbered, option, option_name, roughly

EACH_ALONE = (
    "each interval covers one slice; of 20 intervals, one is expected to miss the true mean"
)
ONE_LOOK = (
    "both runs use the labels of one look and the samples that they share, so a slice's means may differ "
    "from those of `localjudge show RUN --by`, which uses all labels that count for one run"
)
ALWAYS_VALID = "the intervals are confidence sequences, which are valid at any stopping point"
SCORE_HEADINGS = ("A", "B", "B - A", "95 % interval")
_LETTERS = ("A", "B")
_MOST_NEAR = 0.5
"""Share of verdicts near the threshold that causes a warning."""
_ONE_HALF = 0.5
_DIGITS = 3
_MOST_REASONS = 5
_MOST_OF_ID = 24
_QUOTED = 120
_UNITS_SHOWN = 10
_FAILED = 1.0
_GIB = 1 << 30
_STYLE = {"pass": "green", "fail": "red", "undecided": "yellow"}


def summary_view(
    run: RunRecord,
    *,
    metric: str | None = None,
    labels: RunLabels | None = None,
    details: bool = False,
    advice: bool = True,
    texts: bool = True,
) -> Table:
    """Return the summary of a run or one metric, with corrected means.

    Below the table are warnings, the judge and, as `advice`, the next command. `details` adds
    labels, calibrations, origins, clear verdicts, signature and directory. Without `texts` it has
    no text or sample id.
    """
    labels = labels or labels_of(run)
    rows = [row for name in _metrics(run, metric) for row in _mean_rows(run, name, labels)]
    label_heading = ("labels",) if labels else ()
    headings = ("metric", "mean", "95 % interval", *label_heading, "scored", "undefined", "failed")
    notes = label_remarks(labels, metric) if labels else []
    notes += reason_lines(run, metric, texts=texts)
    notes += remarks(run, metric=metric)
    notes += judge_lines(run)
    if advice:
        notes.append(f"next: {next_step(run, labels)}")
    if details:
        notes += detail_lines(run, labels, metric)
    titles = contradictions(labels, metric) if labels else []
    return Table(headings, rows, notes, titles=titles)


def contradictions(labels: RunLabels, metric: str | None = None) -> list[str]:
    """Return a line for each metric with labels that contradict the judge."""
    return [
        f"{name}: {mean.contradiction}"
        for name, mean in labels.corrected.items()
        if mean.contradiction and metric in (None, name)
    ]


def _mean_rows(run: RunRecord, name: str, labels: RunLabels | None) -> Iterator[tuple[str, ...]]:
    summary = run.summary.metrics[name]
    judge = interval_cells(summary.mean, summary.ci95)
    counts = tuple(f"{count:,}" for count in (summary.scored, summary.undefined, summary.failed))
    corrected, blanks = labels.corrected.get(name) if labels else None, ("",) * len(counts)
    used = (_labels_cell(corrected),) if labels else ()
    headline = headline_of(summary, corrected)
    yield name, *interval_cells(headline.mean, headline.ci95), *used, *counts
    if corrected is None or headline.basis == "judge":
        return
    for annotator, mean in (corrected.by_annotator or {}).items():
        yield f"  by {excerpt(annotator)}", *interval_cells(mean.mean, mean.ci95), *used, *blanks
    yield "  judge only", *judge, "", *blanks
    if labels_only := corrected.labels_alone:
        yield "  labels only", *interval_cells(labels_only.mean, labels_only.ci95), *used, *blanks


def _labels_cell(corrected: CorrectedMean | None) -> str:
    """Return `50`, or `50 of 63` between two looks. Labels that cannot correct a mean are not counted."""
    if corrected is None:
        return ""
    return corrected.in_words.removesuffix(" labels").removesuffix(" label")


def label_remarks(labels: RunLabels, metric: str | None = None) -> list[str]:
    """Return why means are not corrected by their labels, the agreement of annotators, and warnings."""
    lines: list[str] = []
    for name, mean in labels.corrected.items():
        if metric in (None, name) and mean.ci95 is None and mean.counts:
            labelled = numbered(mean.counts.labelled, "label")
            missing = _missing_labels(mean)
            lines.append(f"{name}: not corrected by {labelled}: {missing}; {mean.counts.in_words}")
    if labels.agreement:
        pairs = [pair.line for pair in labels.agreement.pairs]
        lines += [line for line in labels.agreement.lines if line not in pairs]
    return [*lines, *(f"warning: {warning}" for warning in labels.warnings)]


def _missing_labels(mean: CorrectedMean) -> str:
    if not mean.needed:
        return mean.remark or "too few labels"
    minutes = numbered(mean.minutes or 0, "minute")
    return f"{numbered(mean.needed, 'more label')} needed, about {minutes}"


def label_lines(labels: RunLabels, metric: str | None = None) -> Iterator[str]:
    """Yield a line on the labels of each mean, then annotators and agreement."""
    for name, mean in labels.corrected.items():
        if metric in (None, name):
            yield f"{name}: {'; '.join(_mean_parts(mean))}"
    annotators = numbered(len(labels.annotators), "annotator")
    yield f"{numbered(labels.statements, 'statement')} labelled by {annotators}, {labels.last[:10]}"
    if labels.agreement:
        yield from (pair.line for pair in labels.agreement.pairs)


def _mean_parts(mean: CorrectedMean) -> Iterator[str]:
    if mean.ci95:
        yield f"corrected by {mean.in_words}"
    if mean.worth_labels:
        yield f"the judge saves about {numbered(mean.worth_labels, 'label')}"
    if mean.by_annotator:
        yield "annotators disagree, so the interval covers the mean of each"
    if mean.remark:
        yield mean.remark
    elif not mean.labels:
        yield "no labels"
    if mean.next_look:
        yield f"the interval is computed again at {mean.next_look:,} labels"
    if mean.rates_in_words:
        yield mean.rates_in_words


def summary_values(run: RunRecord) -> dict[str, Any]:
    values, labels = run.summary.model_dump(mode="json"), labels_of(run)
    values["judge"] = run.judge.model_dump(mode="json")
    for name, pooled in pooled_shares(run).items():
        values["metrics"][name]["pooled"] = pooled.model_dump(mode="json")
    values["missing_scores"] = [group.model_dump() for group in missing_scores(run)]
    if run.origins:
        values["origins"] = [str(origin) for origin in run.origins]
    if labels:
        label_values = labels.model_dump(mode="json")
        for name, corrected in label_values.pop("corrected").items():
            values["metrics"][name]["corrected"] = corrected
        for name, summary in run.summary.metrics.items():
            mean = labels.corrected.get(name)
            values["metrics"][name]["headline"] = headline_of(summary, mean)._asdict()
            values["metrics"][name]["labels_say"] = label_words(mean)
        values["labels"] = label_values
    return values


def label_words(mean: CorrectedMean | None) -> str | None:
    """Return what the labels of a metric say, as a contradiction of the judge if it is one."""
    if mean is None or mean.counts is None:
        return None
    return mean.contradiction or mean.counts.in_words


def slices_view(run: RunRecord, slices: Slices, *, metric: str | None = None) -> Table:
    """Return the metrics, or one, by the values of a column, with the judge."""
    table = slices_table(run, slices, metric)
    return replace(table, notes=[*table.notes, *judge_lines(run)])


def slices_table(run: RunRecord, slices: Slices, metric: str | None = None) -> Table:
    """Return the metrics, or one, by the values of a column. Omits columns of counts that are all 0."""
    parts = [summary for part in slices.slices for summary in part.metrics.values()]
    counted = [
        name for name in ("undefined", "failed") if any(getattr(summary, name) for summary in parts)
    ]
    rows, is_labelled = list[tuple[str, ...]](), any(part.corrected for part in slices.slices)
    notes = [EACH_ALONE, *([ALWAYS_VALID] if run.sampling.optional_stopping else ())]
    for values in look_alikes(part.value for part in slices.slices if part.value)[:_MOST_REASONS]:
        shown = " and ".join(f"{_slice_name(value)} ({excerpt(ascii(value))})" for value in values)
        notes.append(f"values look alike and are different slices: {shown}")
    for name in _metrics(run, metric):
        means = [(part.value, part.corrected.get(name)) for part in slices.slices]
        notes += [f"{name}: {line}" for line in _uncorrected_slices(means)]
        for part in slices.slices:
            corrected = part.corrected.get(name)
            headline = headline_of(part.metrics[name], corrected)
            by = [_slice_basis(headline.basis, corrected)] if is_labelled else []
            rows.append(
                (
                    "" if rows and part is not slices.slices[0] else name,
                    _slice_name(part.value),
                    f"{part.samples:,}",
                    *interval_cells(headline.mean, headline.ci95),
                    *by,
                    *(f"{getattr(part.metrics[name], count):,}" for count in counted),
                )
            )
    based_on = ["corrected by"] if is_labelled else []
    headings = (
        "metric",
        excerpt(slices.column),
        "samples",
        "mean",
        "95 % interval",
        *based_on,
        *counted,
    )
    titles = [
        f"{name}, {_slice_name(part.value)}: {corrected.contradiction}"
        for part in slices.slices
        for name, corrected in part.corrected.items()
        if corrected.contradiction and metric in (None, name)
    ]
    return Table(headings, rows, notes, names=2, titles=titles)


def _slice_basis(basis: Basis, corrected: CorrectedMean | None) -> str:
    if basis == "judge" or corrected is None:
        return "judge only"
    return corrected.in_words if basis == "labels" else corrected.shortage or "no labels"


def _uncorrected_slices(
    means: Iterable[tuple[str | None, CorrectedMean | CorrectedDifference | None]],
) -> Iterator[str]:
    """Yield why slices are not corrected, with the numbers of missing labels."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for value, mean in means:
        if isinstance(mean, CorrectedMean) and mean.needed:
            reasons["more labels needed"].append(f"{_slice_name(value)} {mean.needed:,}")
        elif mean and not mean.ci95:
            reasons[mean.remark or "no labels"].append(_slice_name(value))
    for reason, values in reasons.items():
        more = f" and {len(values) - _MOST_REASONS:,} more" if len(values) > _MOST_REASONS else ""
        yield f"not corrected, {reason}: {', '.join(values[:_MOST_REASONS])}{more}"


def _slice_name(value: str | None) -> str:
    return NO_VALUE if value is None else excerpt(value)


def interval_cells(mean: float | None, ci95: tuple[float, float] | None) -> tuple[str, str]:
    return number(mean), " - ".join(map(number, ci95)) if ci95 else "-"


def remarks(run: RunRecord, *, metric: str | None = None) -> Iterator[str]:
    """Yield what limits the means: unscored samples, answers from elsewhere, and doubts about the judge."""
    withheld = run.summary.failed_beyond(run.max_failed)
    for name, summary in _metrics(run, metric).items():
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
    verdicts = _verdicts(run, metric)
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
    yield decidedness_line(_verdicts(run, metric))
    yield f"signature {run.summary.signature}"
    yield f"run {run.directory}"


def _verdicts(run: RunRecord, metric: str | None) -> VerdictSummary:
    if metric is None:
        return run.summary.verdicts
    rows = (row for row in run.iter_verdicts() if row.metric == metric)
    threshold = None if metric in run.manifest.rubrics else run.summary.threshold_of(metric)
    return verdict_summary(rows, threshold)


def _metrics(run: RunRecord, metric: str | None) -> dict[str, MetricSummary]:
    return run.summary.metrics if metric is None else {metric: run.summary.metrics[metric]}


def reason_lines(run: RunRecord, metric: str | None = None, *, texts: bool = True) -> list[str]:
    """Return the most frequent reasons for missing scores, with advice.

    Without `texts`, lists only built-in reasons, because others may contain a text.
    """
    groups = missing_scores(run, _metrics(run, metric))
    if not texts:
        groups = [
            group
            for group in groups
            if group.status == "undefined" and catalog.is_ours(group.metric)
        ]
    more = numbered(len(groups) - _MOST_REASONS, "more reason")
    more_lines = [f"and {more}: localjudge show RUN --json"] if len(groups) > _MOST_REASONS else []
    return [*map(str, groups[:_MOST_REASONS]), *more_lines]


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
        if verdicts.median_legal_mass is None
        else f"; median valid mass {number(verdicts.median_legal_mass)}"
    )
    divided = (
        ""
        if verdicts.divided is None
        else f"; the judges disagree on {100 * verdicts.divided:.0f} %"
    )
    return near + divided + mass


def estimate_view(estimate: Estimate) -> Table:
    rows = [
        ("samples", f"{estimate.samples:,}"),
        ("metrics", ", ".join(estimate.metrics)),
        ("verdicts", f"{estimate.verdicts:,}, with {estimate.requests:,} distinct questions"),
    ]
    if estimate.reused:
        places = ", ".join(
            f"{count:,} in {excerpt(name)}" for name, count in estimate.reused.items()
        )
        stored = f"{estimate.requests - estimate.remaining:,} of these questions ({places})"
        rows.append(("answered", f"{stored}; {estimate.remaining:,} remain"))
    time = "none: no question remains"
    if estimate.seconds is not None:
        time = roughly(estimate.seconds, estimate.seconds_ci95)
    if estimate.measured:
        few = "" if estimate.seconds_ci95 else ", too few for an interval"
        time += f": measured on {estimate.measured:,} of {estimate.remaining:,} questions{few}"
    if estimate.measured:
        measured = f"{numbered(estimate.measured, 'answer')} in {excerpt(estimate.directory)}, which the run uses"
        rows.append(("stored", measured))
    rows += [
        ("tokens", f"{estimate.tokens:,} distinct, each evaluated once"),
        ("time", time),
        ("memory", f"about {estimate.memory_bytes / _GIB:.1f} GiB"),
    ]
    for aim in estimate.until:
        needs = "unknown" if aim.samples is None else f"about {numbered(aim.samples, 'sample')}"
        if (aim.samples or 0) > estimate.samples:
            needs += f", more than the {estimate.samples:,} of the run"
        elif aim.seconds:
            needs += f", {roughly(aim.seconds)}"
        rows.append(("to judge", f"{needs} ({aim.aim})"))
    return Table(rows=rows)


def why(score: ScoreRow, verdicts: Sequence[VerdictRow]) -> str:
    """Return the counts in the metric's words, with the first unit that lowers a share, or the useful ranks."""
    detail = score.detail or ""
    if score.status != "scored":
        return detail
    counted = get_about(catalog.ours(score.metric)).counted
    if score.numerator is None or score.denominator is None:
        return _at_ranks(verdicts, counted) if counted and verdicts else detail
    line = f"{score.numerator:g} of {score.denominator:g} {counted}".rstrip()
    negative = [verdict.text for verdict in verdicts if verdict.label == 0]
    of_pairs = any(isinstance(verdict.against, int) for verdict in verdicts)
    if negative and counted and not of_pairs:
        quoted = (
            negative[0] if len(negative[0]) <= _QUOTED else f"{negative[0][:_QUOTED].rstrip()} ..."
        )
        line += f'; not {counted}: "{quoted}"' + (
            f" and {len(negative) - 1:,} more" if len(negative) > 1 else ""
        )
    return f"{line} ({detail})" if detail else line


def _at_ranks(verdicts: Sequence[VerdictRow], counted: str) -> str:
    ranks = [str(rank) for rank, verdict in enumerate(verdicts, 1) if verdict.label == 1]
    listed = " and ".join(", ".join(ranks).rsplit(", ", 1))
    place = f", at rank{'s' if len(ranks) > 1 else ''} {listed}" if ranks else ""
    return f"{len(ranks)} of {len(verdicts)} {counted}{place}"


def worst_samples(
    run: RunRecord, metrics: Collection[str], count: int
) -> list[tuple[int, str | None, ScoreRow]]:
    """Return data row (from 1), question and worst score of the `count` worst samples, without perfect ones."""
    scores = worst_scores(run.iter_scores(), metrics, count)
    store, names = run.directory / STORE, {score.sample_id for score in scores}
    rows = (
        {name: row for row, name in enumerate(stored_ids(store), 1) if name in names}
        if names
        else {}
    )
    samples = ((score, stored_sample(store, score.sample_id)) for score in scores)
    return [
        (rows[score.sample_id], sample.user_input, score) for score, sample in samples if sample
    ]


def worst_scores(
    scores: Iterable[ScoreRow], metrics: Collection[str], count: int
) -> list[ScoreRow]:
    """Return the worst score of each of the worst samples. Holds few rows in memory.

    Samples with failures come first, then those with the largest mean distance from the best
    possible score.
    """
    best = {metric: 0.0 if catalog.lower_is_better(metric) else 1.0 for metric in metrics}

    def distance(score: ScoreRow) -> float:
        return _FAILED if score.score is None else abs(best[score.metric] - score.score)

    of_samples = (
        [row for row in rows if row.metric in best and row.status != "undefined"]
        for _, rows in groupby(scores, key=lambda row: row.sample_id)
    )
    worst = heapq.nlargest(
        count,
        (rows for rows in of_samples if any(map(distance, rows))),
        key=lambda rows: (any(row.status == "failed" for row in rows), fmean(map(distance, rows))),
    )
    return [max(rows, key=lambda row: (row.status == "failed", distance(row))) for rows in worst]


def worst_view(run: RunRecord, *, metric: str | None = None, count: int) -> Table:
    samples = worst_samples(run, [metric] if metric else list(run.summary.metrics), count)
    if not samples:
        return Table(notes=["no sample failed, and all have the best possible score"])
    rows: list[list[str | Text]] = []
    for row, question, score in samples:
        id_cell = safe_text(score.sample_id)
        id_cell.truncate(_MOST_OF_ID, overflow="ellipsis")
        question_cell = safe_text(question or "(no question)", style="" if question else "dim")
        for text in (id_cell, question_cell):
            text.no_wrap, text.overflow = True, "ellipsis"
        value = Text(score.status, style="red") if score.status == "failed" else number(score.score)
        rows.append([str(row), id_cell, value, *([] if metric else [score.metric]), question_cell])
    return Table(
        rows=rows,
        titles=[f"worst samples (to see one: localjudge show {quote(str(run.directory))} ROW)"],
    )


def comparison_view(comparison: compare.RunComparison) -> View:
    scores = []
    for name, change in comparison.metrics.items():
        scores.append((name, *score_cells(change.headline or change.scores)))
        scores += [("  judge only", *score_cells(change.scores))] if change.headline else []
    counts = [(name, *count_cells(name, change)) for name, change in comparison.metrics.items()]
    count_headings = ("metric", "better", "worse", "same", "missing", "0 -> 1", "1 -> 0")
    return View(
        [
            Table(("metric", *SCORE_HEADINGS), scores),
            Table(count_headings, counts),
            *(_by_column(comparison.by) if comparison.by else ()),
            Table(notes=list(comparison_lines(comparison))),
            *(
                _moved_sample(name, sample)
                for name, change in comparison.metrics.items()
                for sample in change.moved
            ),
        ]
    )


def _by_column(changes: compare.SlicedChanges) -> Iterator[Table]:
    column = excerpt(changes.column)
    for metric in changes.slices[0].metrics if changes.slices else ():
        parts = [(part, part.metrics[metric]) for part in changes.slices]
        is_labelled = any(change.corrected for _, change in parts)
        rows = [
            (
                _slice_name(part.value),
                f"{change.compared:,}/{part.samples:,}",
                *score_cells(change.headline or change.scores),
                *(
                    [change.headline.in_words if change.headline else "judge only"]
                    if is_labelled
                    else []
                ),
            )
            for part, change in parts
        ]
        notes = list(_uncorrected_slices((part.value, change.corrected) for part, change in parts))
        headings = (column, "compared", *SCORE_HEADINGS, *(["corrected by"] if is_labelled else []))
        yield Table(headings, rows, notes, titles=[f"{metric} by {column}"])
    notes = [f"slices are from the data of B; {EACH_ALONE}"]
    corrected = [change.corrected for part in changes.slices for change in part.metrics.values()]
    if any(corrected):
        notes.append(ONE_LOOK)
    yield Table(notes=notes)


def score_cells(scores: compare.ScoreChanges | CorrectedDifference | None) -> tuple[str, ...]:
    if scores is None or scores.difference is None:
        return ("-",) * len(SCORE_HEADINGS)
    interval = " to ".join(map(signed, scores.ci95)) if scores.ci95 else "-"
    return number(scores.before), number(scores.after), signed(scores.difference), interval


def count_cells(name: str, change: compare.MetricChange) -> tuple[str, ...]:
    scores, verdicts = change.scores, change.verdicts
    better, worse, tied = (scores.improved, scores.worsened, scores.tied) if scores else (0, 0, 0)
    if catalog.lower_is_better(name):
        better, worse = worse, better
    flipped = (f"{verdicts.up:,}", f"{verdicts.down:,}") if verdicts else ("-", "-")
    return (
        *(f"{count:,}" for count in (better, worse, tied, change.unpaired + change.unscored)),
        *flipped,
    )


def comparison_lines(comparison: compare.RunComparison) -> Iterator[str]:
    for name, change in comparison.metrics.items():
        remarks = change_remarks(name, change, obstacles=comparison.obstacles(name))
        yield from (f"{name}: {remark}" for remark in remarks)
    yield from comparison_notes(comparison)
    if comparison.baseline_judge.in_brief == comparison.judge.in_brief:
        yield f"judge {comparison.judge.in_brief}"
        return
    yield f"A: judge {comparison.baseline_judge.in_brief}"
    yield f"B: judge {comparison.judge.in_brief}"


def comparison_notes(
    comparison: compare.RunComparison, runs: tuple[str, str] = _LETTERS
) -> Iterator[str]:
    samples = comparison.samples
    grounds = {"id": samples.by_id, "content": samples.by_content, "question": samples.by_question}
    by = ", ".join(f"{count:,} by {ground}" for ground, count in grounds.items() if count)
    unpaired = (
        f"; {samples.only_baseline:,} only in {runs[0]}, {samples.only_new:,} only in {runs[1]}"
    )
    yield (
        f"samples: {samples.paired:,} paired ({by}), {samples.same_content:,} with the same content"
        f"{unpaired if samples.only_baseline or samples.only_new else ''}"
    )
    if any(
        change.scores and change.scores.method == METHOD for change in comparison.metrics.values()
    ):
        yield ALWAYS_VALID
    yield from (f"warning: {warning}" for warning in comparison.warnings)


def change_remarks(
    name: str,
    change: compare.MetricChange,
    runs: tuple[str, str] = _LETTERS,
    *,
    obstacles: Mapping[compare.Obstacle, str] = MappingProxyType({}),
) -> Iterator[str]:
    interval = change.interval
    if interval is None:
        yield change.withheld or "no sample has a score in both runs"
        return
    compared = numbered(change.compared, "sample")
    if corrected := change.headline:
        compared += f" and {numbered(corrected.labels, 'label')}"
        before, after = (
            numbered(corrected.labels_before, "label"),
            numbered(corrected.labels_after, "label"),
        )
        yield f"corrected by {before} for {runs[0]} and {after} for {runs[1]}"
    elif change.corrected:
        yield f"not corrected by labels: {change.corrected.remark}"
    if change.corrected and change.corrected.contradiction:
        yield f"warning: {change.corrected.contradiction}"
    smallest = smallest_detectable_difference(interval)
    is_significant = interval.low > 0 or interval.high < 0
    if interval.limits is None:
        yield "significance unknown: all samples are in one group"
    elif is_significant and obstacles:
        which = (
            "the judges differ" if "judges" in obstacles else "the questions or references differ"
        )
        yield f"significant, but {which} and may cause the difference, so neither run is called better"
    elif is_significant:
        better = (interval.low > 0) != catalog.lower_is_better(name)
        yield f"{runs[1]} is {'better' if better else 'worse'} than {runs[0]} on samples like these"
    elif round(smallest, _DIGITS) == 0:
        yield f"no difference, with {compared}"
    else:
        detectable = (
            "no difference" if smallest > 1 else f"differences of {number(smallest)} or more"
        )
        needed = decide(interval, ">" if interval.mean > 0 else "<", 0).samples_needed
        labels = " with proportionally more labels" if corrected else ""
        more = f"; about {needed or 0:,} samples{labels} would show a difference of this size"
        more = more if needed and round(interval.mean, 3) else ""
        yield f"not significant; with {compared}, {detectable} can be detected{more}"
    if change.unscored:
        yield f"{numbered(change.unscored, 'shared sample')} without a score in both runs"


def _moved_sample(metric: str, sample: compare.SampleChange) -> Table:
    baseline_id = "" if sample.sample_id == sample.baseline_id else f" (in A: {sample.baseline_id})"
    heading = f"{sample.sample_id}{baseline_id}: {metric} {number(sample.before)} -> {number(sample.after)}"
    style = "green" if (sample.after > sample.before) != catalog.lower_is_better(metric) else "red"
    rows = [
        (
            " -> ".join(
                "-" if label is None else str(label) for label in (unit.before, unit.after)
            ),
            Text(f"{number(unit.p_before)} -> {number(unit.p_after)}", style="dim"),
            unit.text,
        )
        for unit in sample.units[:_UNITS_SHOWN]
    ]
    if len(sample.units) > _UNITS_SHOWN:
        rows.append(("", Text(), f"and {len(sample.units) - _UNITS_SHOWN:,} more"))
    return Table(rows=rows, titles=[safe_text(heading, style=f"bold {style}")], indent=2)


def gates_view(decisions: Sequence[GateDecision]) -> Table:
    rows = [
        (Text(gate.outcome, style=_STYLE[gate.outcome]), gate.gate, reason_of(gate))
        for gate in decisions
    ]
    return Table(("outcome", "gate", "why"), rows, names=3)


def reason_of(decision: GateDecision) -> str:
    """Return the reason, and for an undecided gate whether it counts as passed."""
    counts_as = (
        f" (counts as {'passed' if decision.passed else 'failed'})"
        if decision.outcome == "undecided"
        else ""
    )
    return f"{decision.reason}{counts_as}"
