"""The summary of a run: tables of means, by the values of a column, and of where evidence was.

With its remarks, the next command, and values for JSON. A mean is hidden if more samples failed
than allowed.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from localjudge.analysis.breakdowns import (
    EvidenceRanks,
    RankCounts,
    Slice,
    Slices,
    evidence_ranks,
    missing_scores,
    pooled_shares,
)
from localjudge.analysis.comparison import CorrectedDifference
from localjudge.labels.corrected_mean import CorrectedMean
from localjudge.labels.run_labels import RunLabels, read_run_labels
from localjudge.report.conclusions import next_step
from localjudge.report.label_views import label_remarks
from localjudge.report.quoted_metrics import (
    QuotedMetric,
    pooled_sentence,
    quote_metrics,
    quote_slice,
    state_mean,
)
from localjudge.report.remarks import (
    ALWAYS_VALID,
    Shown,
    detail_lines,
    has_expected,
    judge_lines,
    reason_lines,
    remarks,
)
from localjudge.report.terminal import Table, interval_cells, number
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.run_rows import name_slice
from localjudge.run_directory.summary import MetricSummary
from localjudge.stats.interval import Mean
from localjudge.text.names import look_alikes
from localjudge.words import call, numbered, percent

EACH_ALONE = (
    "each interval covers one slice; of 20 intervals, one is expected to miss the true mean"
)

_LONGEST_NAME = 20
"""Letters of a metric's name beside all columns, in 80 letters."""
_LABELS_COLUMN = 3
"""Position of the number of labels, or of the expected mean, after the interval."""
_MAX_LISTED = 5
_MAX_RANKS = 10
"""Ranks with a row of their own. The others share one."""
ABOUT_EVIDENCE = (
    "share: of all judged statements, by the context with the closest sentence that supports them",
    "nowhere: the verdict is 0, or no sentence comes close; with a wrong citation, a context that "
    "is not cited counts if one of its sentences has most words of the statement",
    "without evidence: contexts with none of the sentences found, at most two for a statement",
    "the sentences are found by comparing words: on public data with labelled evidence, the first "
    "one is right for 75 % (HotpotQA), 83 % (FEVER), 95 % (WiCE) and 97 % (SQuAD) of the "
    "statements",
)


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
    no text, sample id or name of an annotator.
    """
    shown = _select_metrics(run, metric)
    labels = labels or read_run_labels(run)
    if labels and not texts:
        labels = labels.without_names
    labels_shown = labels
    headings = ["metric", "mean", "95 % interval", "scored", "undefined", "failed"]
    longest = max(map(len, shown), default=0)
    with_expected = labels is None and longest <= _LONGEST_NAME and has_expected(shown)
    notes: list[str] = []
    titles: list[str] = []
    if labels:
        headings.insert(_LABELS_COLUMN, "labels")
        means = {name: mean for name, mean in labels.corrected.items() if name in shown}
        labels_shown = labels.model_copy(update={"corrected": means})
        notes += label_remarks(labels_shown)
        if labels.are_of_baseline:
            read = call("label", str(run.directory), read="BASELINE")
            notes.append(f"the labels are those of the baseline; to keep them here: {read}")
        titles = list(_contradictions(means))
    if with_expected:
        headings.insert(_LABELS_COLUMN, "expected")
    rows: list[tuple[str, ...]] = []
    for quote in quote_metrics(run, labels):
        if quote.name in shown:
            rows += _mean_rows(quote, with_labels=labels is not None, with_expected=with_expected)
    notes += reason_lines(run, shown, texts=texts)
    notes += remarks(run, shown)
    notes += judge_lines(run)
    if advice:
        notes.append(f"next: {next_step(run, labels)}")
    if details:
        notes += detail_lines(run, labels_shown, shown)
    return Table(headings, rows, notes, titles=titles)


def _select_metrics(run: RunRecord, metric: str | None) -> Shown:
    """Return all metrics of a run, or one."""
    if metric is None:
        return run.summary.metrics
    return {metric: run.summary.metrics[metric]}


def _contradictions(means: Mapping[str, CorrectedMean]) -> Iterator[str]:
    """Yield a line for each metric with labels that contradict the judge."""
    for name, mean in means.items():
        if mean.contradiction:
            yield f"{name}: {mean.contradiction}"


def _mean_rows(
    metric: QuotedMetric, *, with_labels: bool, with_expected: bool
) -> Iterator[tuple[str, ...]]:
    """Yield the mean to quote of a metric, then other means if labels correct it."""
    summary = metric.summary
    counts = (f"{summary.scored:,}", f"{summary.undefined:,}", f"{summary.failed:,}")
    more: list[str] = []
    label_cell = ""
    if metric.corrected is not None:  # labels that cannot correct a mean are not counted
        label_cell = metric.corrected.in_words.removesuffix(" labels").removesuffix(" label")
    if with_labels:
        more.append(label_cell)
    elif with_expected:
        more.append(number(summary.expected))
    yield metric.name, *interval_cells(metric.quoted), *more, *counts
    blanks = ("",) * len(counts)
    for other in metric.other_means():
        name = f"{other.by} only"
        labels = label_cell
        if other.by == "annotator":
            name = f"by {excerpt(other.annotator)}"
        elif other.by == "judge":
            labels = ""
        yield f"  {name}", *interval_cells(other.mean), labels, *blanks


def two_means_view(run: RunRecord, *, metric: str | None = None) -> Table:
    """Return the mean and the pooled share of each metric, or one, in words, if they can differ."""
    shares = pooled_shares(run)
    lines: list[str] = []
    for quote in quote_metrics(run, read_run_labels(run)):
        name = quote.name
        if metric not in (None, name) or not isinstance(quote.quoted, Mean):
            continue
        sentence = pooled_sentence(run, quote, shares.get(name))
        if sentence:
            lines.append(f"{name}: {state_mean(name, quote.quoted)}; {sentence}")
    return Table(notes=lines)


def summary_values(run: RunRecord) -> dict[str, Any]:
    """Return the summary with its judge, shares, missing scores and labels, for JSON."""
    values = run.summary.model_dump(mode="json")
    values["judge"] = run.judge.model_dump(mode="json")
    for name, pooled in pooled_shares(run).items():
        values["metrics"][name]["pooled"] = pooled.model_dump(mode="json")
    for name, ranks in evidence_ranks(run).items():
        values["metrics"][name]["evidence_places"] = ranks.model_dump()
    values["missing_scores"] = [group.model_dump() for group in missing_scores(run)]
    if run.origins:
        values["origins"] = [str(origin) for origin in run.origins]
    labels = read_run_labels(run)
    if labels:
        label_values = labels.model_dump(mode="json")
        if labels.altered:
            label_values["altered"] = labels.altered
        for name, corrected in label_values.pop("corrected").items():
            values["metrics"][name]["corrected"] = corrected
        for metric in quote_metrics(run, labels):
            quoted = metric.quoted
            headline = {"mean": quoted.mean, "ci95": quoted.ci95, "basis": quoted.basis}
            values["metrics"][metric.name]["headline"] = headline
            values["metrics"][metric.name]["labels_say"] = metric.labels_say
        values["labels"] = label_values
    return values


def slices_view(run: RunRecord, slices: Slices, metric: str | None) -> Table:
    """Return the metrics, or one, by the values of a column, with the judge."""
    table = slices_table(run, slices, metric)
    return replace(table, notes=[*table.notes, *judge_lines(run)])


def slices_table(run: RunRecord, slices: Slices, metric: str | None = None) -> Table:
    """Return the metrics, or one, by the values of a column.

    Omits columns of counts that are all 0.
    """
    names = list(_select_metrics(run, metric))
    is_labelled = any(part.corrected for part in slices.slices)
    counted = list(_counted_kinds(slices))
    rows: list[tuple[str, ...]] = []
    for name in names:
        first_cell = name
        for part in slices.slices:
            cells = _slice_cells(part, name, counted, with_basis=is_labelled)
            rows.append((first_cell, *cells))
            first_cell = ""
    headings = ["metric", excerpt(slices.column), "samples", "mean", "95 % interval"]
    if is_labelled:
        headings.append("corrected by")
    headings += counted
    notes = list(_slice_notes(run, slices, names))
    titles: list[str] = []
    for part in slices.slices:
        for name, corrected in part.corrected.items():
            if corrected.contradiction and name in names:
                titles.append(f"{name}, {shown_slice(part.value)}: {corrected.contradiction}")
    return Table(headings, rows, notes, names=2, titles=titles)


def _counted_kinds(slices: Slices) -> Iterator[str]:
    """Yield the kinds of samples without a score that any slice has: undefined, failed."""
    summaries: list[MetricSummary] = []
    for part in slices.slices:
        summaries += part.metrics.values()
    for kind in ("undefined", "failed"):
        if any(map(attrgetter(kind), summaries)):
            yield kind


def _slice_cells(
    part: Slice, metric: str, counted: Iterable[str], *, with_basis: bool
) -> Iterator[str]:
    """Yield the cells of a metric in a slice, except for the name of the metric."""
    quote = quote_slice(part)[metric]
    yield shown_slice(part.value)
    yield f"{part.samples:,}"
    yield from interval_cells(quote.quoted)
    if with_basis:
        yield quote.quoted.based_on
    for count in counted:
        yield f"{getattr(quote.summary, count):,}"


def _slice_notes(run: RunRecord, slices: Slices, metrics: Iterable[str]) -> Iterator[str]:
    yield EACH_ALONE
    if run.sampling.optional_stopping:
        yield ALWAYS_VALID
    values = [part.value for part in slices.slices if part.value]
    for group in look_alikes(values)[:_MAX_LISTED]:
        shown: list[str] = []
        for value in group:
            shown.append(f"{shown_slice(value)} ({excerpt(ascii(value))})")
        yield f"values look alike and are different slices: {' and '.join(shown)}"
    for name in metrics:
        means = [(part.value, part.corrected.get(name)) for part in slices.slices]
        for line in uncorrected_slices(means):
            yield f"{name}: {line}"


def uncorrected_slices(
    means: Iterable[tuple[str | None, CorrectedMean | CorrectedDifference | None]],
) -> Iterator[str]:
    """Yield why slices are not corrected, with the numbers of missing labels."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for value, mean in means:
        if isinstance(mean, CorrectedMean) and mean.needed:
            reasons["more labels needed"].append(f"{shown_slice(value)} {mean.needed:,}")
        elif mean and not mean.ci95:
            reasons[mean.remark or "no labels"].append(shown_slice(value))
    for reason, values in reasons.items():
        listed = ", ".join(values[:_MAX_LISTED])
        if len(values) > _MAX_LISTED:
            listed += f" and {len(values) - _MAX_LISTED:,} more"
        yield f"not corrected, {reason}: {listed}"


def shown_slice(value: str | None) -> str:
    """Return the name of a slice, safe to print."""
    return excerpt(name_slice(value))


def evidence_view(run: RunRecord, metric: str | None) -> list[Table]:
    """Return where the evidence of each metric was, or of one; nothing if no statement counts.

    Below the last table is what a share is a share of, and how accurate the finder is.
    """
    tables: list[Table] = []
    for name, table in evidence_tables(run).items():
        if metric in (None, name):
            tables.append(replace(table, titles=[f"{name}: {table.titles[0]}"]))
    if tables:
        tables.append(Table(notes=ABOUT_EVIDENCE))
    return tables


def evidence_tables(run: RunRecord) -> dict[str, Table]:
    """Return where the evidence was by metric, which helps to decide how much to retrieve.

    context   statements   share   up to here   contexts   without evidence
    1                 60    60 %         60 %         80          15 (19 %)
    2                 25    25 %         85 %         80          41 (51 %)
    nowhere           15    15 %
    """
    headings = ("context", "statements", "share", "up to here", "contexts", "without evidence")
    tables: dict[str, Table] = {}
    for name, counts in evidence_ranks(run).items():
        statements = numbered(counts.statements, "statement")
        contexts = numbered(counts.contexts, "context")
        title = f"where the evidence of {statements} was, in {contexts}"
        tables[name] = Table(headings, list(_evidence_rows(counts)), titles=[title])
    return tables


def _evidence_rows(counts: EvidenceRanks) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each rank, of all higher ranks together, of no context, and of all."""
    groups: list[tuple[str, Sequence[RankCounts]]] = []
    for rank in counts.ranks[:_MAX_RANKS]:
        groups.append((str(rank.rank), [rank]))
    others = counts.ranks[_MAX_RANKS:]
    if len(others) == 1:
        groups.append((str(others[0].rank), others))
    elif others:
        groups.append((f"{others[0].rank} to {others[-1].rank}", others))
    so_far = 0
    for name, ranks in groups:
        statements = sum(rank.statements for rank in ranks)
        contexts = sum(rank.contexts for rank in ranks)
        empty = sum(rank.without_evidence for rank in ranks)
        so_far += statements
        yield (
            name,
            f"{statements:,}",
            _percent(statements, counts.statements),
            _percent(so_far, counts.statements),
            f"{contexts:,}",
            _counted(empty, contexts),
        )
    nowhere = _percent(counts.nowhere, counts.statements)
    yield "nowhere", f"{counts.nowhere:,}", nowhere, "", "", ""
    without = _counted(counts.contexts_without, counts.contexts)
    yield "all", f"{counts.statements:,}", "", "", f"{counts.contexts:,}", without


def _counted(count: int, total: int) -> str:
    """Return `15 (19 %)`, or the count of nothing without a share."""
    if not total:
        return f"{count:,}"
    return f"{count:,} ({_percent(count, total)})"


def _percent(count: int, total: int) -> str:
    return f"{percent(count / total)} %"
