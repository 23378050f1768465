"""Means and pooled shares in the words of their metric.

in an average answer, about 69 % of the sentences are supported by the documents (59 to 78)
about 66 % of all 312 sentences are supported by the documents (57 to 74)
"""

from collections.abc import Callable

from localjudge.analysis.slices import PooledShare, pooled_shares
from localjudge.labels.corrected_mean import CorrectedMean, quote_mean
from localjudge.labels.run_labels import find_corrected, read_run_labels
from localjudge.metrics import catalog
from localjudge.metrics.metric import get_about
from localjudge.report.remarks import select_metrics
from localjudge.report.terminal import Table, number
from localjudge.run_directory.run_record import RunRecord
from localjudge.stats.interval import Mean, NoMean
from localjudge.words import percent

Limits = tuple[float, float] | None
Phrasing = Callable[[str, Mean], str]
_COUNTED = ("sentences", "documents", "citations")


def state_mean(name: str, mean: Mean) -> str:
    """Return the mean in the metric's words.

    For example, `about 9 % of the answers decline to answer (2 to 22)`.
    """
    headline = get_about(catalog.ours(name)).headline
    if headline:
        return _with_limits(headline.format(f"about {percent(mean.mean)} %"), mean.ci95, percent)
    return _with_limits(f"the mean of {name} is {number(mean.mean)}", mean.ci95, number)


def _with_limits(clause: str, ci95: Limits, show: Callable[[float], str]) -> str:
    if not ci95:
        return clause
    low, high = map(show, ci95)
    return f"{clause} ({low} to {high})"


def state_quoted(name: str, quoted: Mean | NoMean, corrected: CorrectedMean | None) -> str:
    """Return the sentence to quote for a metric, "" without a mean.

    With too few labels: `0 of 19 labelled statements are supported by the documents (19 labels, 20
    needed)`.
    """
    if isinstance(quoted, Mean):
        return state_mean(name, quoted)
    if quoted.basis == "judge" or corrected is None or corrected.counts is None:
        return ""
    says = corrected.contradiction or corrected.counts.in_words
    return f"{says} ({quoted.based_on})"


def state_pooled_share(name: str, share: Mean) -> str:
    """Return the share in the metric's words.

    For example, `about 66 % of all 312 sentences are supported (57 to 74)`.
    """
    headline = get_about(catalog.ours(name)).headline
    _, is_share, counted = headline.partition("{} of the ")
    if not is_share:
        counted = "units"
    clause = f"about {percent(share.mean)} % of all {share.n:,} {counted}"
    return _with_limits(clause, share.ci95, percent)


def pooled_for_page(name: str, share: Mean) -> str:
    """Return the share in words for the report, below the question of the metric."""
    headline = get_about(catalog.ours(name)).headline
    noun = "units"
    for counted in _COUNTED:
        if counted in headline:
            noun = counted
            break
    clause = f"counting each of the {share.n:,} {noun} once, it is about {percent(share.mean)} %"
    return _with_limits(clause, share.ci95, percent)


def pooled_sentence(
    run: RunRecord,
    name: str,
    pooled: PooledShare | None,
    corrected: CorrectedMean | None,
    words: Phrasing = state_pooled_share,
) -> str:
    """Return the sentence on a pooled share, corrected if the mean is.

    Returns "" if the share must equal the mean, or if there are labels, but too few for an
    interval.
    """
    if pooled is None or pooled.units == pooled.samples:
        return ""
    share = pooled.by_judge
    if corrected and corrected.pooled and corrected.pooled.ci95:
        share = corrected.pooled._replace(n=pooled.units)
    elif corrected and corrected.withholds_judge:
        return ""
    sentence = words(name, share)
    if run.sampling.optional_stopping:
        sentence += ", without an interval, because scores stopped the run"
    return sentence


def two_means_view(run: RunRecord, *, metric: str | None = None) -> Table:
    """Return the mean and the pooled share of each metric, or one, in words, if they can differ."""
    labels = read_run_labels(run)
    shares = pooled_shares(run)
    lines: list[str] = []
    for name, summary in select_metrics(run, metric).items():
        corrected = find_corrected(labels, name)
        quoted = quote_mean(summary, corrected)
        sentence = pooled_sentence(run, name, shares.get(name), corrected)
        if sentence and isinstance(quoted, Mean):
            lines.append(f"{name}: {state_mean(name, quoted)}; {sentence}")
    return Table(notes=lines)
