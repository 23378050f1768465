"""Means and pooled shares in the words of their metric.

in an average answer, about 69 % of the sentences are supported by the documents (59 to 78)
about 66 % of all 312 sentences are supported by the documents (57 to 74)
"""

from collections.abc import Callable

from localjudge.analysis.headline import Headline, headline_of, withholds_mean
from localjudge.analysis.pooled import PooledShare, pooled_shares
from localjudge.labels.corrected_mean import CorrectedMean
from localjudge.labels.run_labels import labels_of
from localjudge.metrics import catalog
from localjudge.metrics.metric import get_about
from localjudge.report.terminal import Table, number
from localjudge.run_directory.run_record import RunRecord

Limits = tuple[float, float] | None
Words = Callable[[str, int, float, Limits], str]


def state_mean(name: str, mean: float, ci95: Limits) -> str:
    """Return the mean in the metric's words: `about 9 % of the answers decline to answer (2 to 22)`."""
    words = get_about(catalog.ours(name)).headline
    value, *ends = (
        f"{100 * value:.0f}" if words else number(value) for value in (mean, *(ci95 or ()))
    )
    clause = words.format(f"about {value} %") if words else f"the mean of {name} is {value}"
    return f"{clause} ({' to '.join(ends)})" if ends else clause


def state_headline(name: str, headline: Headline, corrected: CorrectedMean | None) -> str:
    """Return the sentence to quote for a metric, "" without a mean.

    With too few labels: `0 of 19 labelled statements are supported by the documents (19 labels, 20
        needed)`.
    """
    if headline.basis == "too few labels" and corrected and corrected.counts:
        says = corrected.contradiction or corrected.counts.in_words
        return f"{says} ({corrected.shortage})"
    if headline.mean is None:
        return ""
    return state_mean(name, headline.mean, headline.ci95)


def state_pooled_share(name: str, units: int, share: float, ci95: Limits) -> str:
    """Return the share in the metric's words: `about 66 % of all 312 sentences are supported (57 to 74)`."""
    _, is_share, rest = get_about(catalog.ours(name)).headline.partition("{} of the ")
    return _with_limits(
        f"about {100 * share:.0f} % of all {units:,} {rest if is_share else 'units'}", ci95
    )


def pooled_for_page(name: str, units: int, share: float, ci95: Limits) -> str:
    """Return the share in words for the report, below the question of the metric."""
    headline = get_about(catalog.ours(name)).headline
    noun = next(
        (noun for noun in ("sentences", "documents", "citations") if noun in headline), "units"
    )
    return _with_limits(
        f"counting each of the {units:,} {noun} once, it is about {100 * share:.0f} %", ci95
    )


def _with_limits(clause: str, ci95: Limits) -> str:
    return f"{clause} ({' to '.join(f'{100 * end:.0f}' for end in ci95)})" if ci95 else clause


def pooled_sentence(
    run: RunRecord,
    name: str,
    pooled: PooledShare | None,
    corrected: CorrectedMean | None,
    words: Words = state_pooled_share,
) -> str:
    """Return the sentence on a pooled share, corrected if the mean is, or "" if it must equal the mean.

    Also "" if there are labels, but too few for an interval.
    """
    if pooled is None or pooled.units == pooled.samples:
        return ""
    share, ci95 = pooled.share, pooled.ci95
    if corrected and corrected.pooled and corrected.pooled.ci95:
        share, ci95 = corrected.pooled.mean, corrected.pooled.ci95
    elif corrected and withholds_mean(corrected):
        return ""
    sentence = words(name, pooled.units, share, ci95)
    return (
        f"{sentence}, without an interval, because scores stopped the run"
        if run.sampling.optional_stopping
        else sentence
    )


def two_means_view(run: RunRecord, *, metric: str | None = None) -> Table:
    """Return the mean and the pooled share of each metric, or one, in words, if they can differ."""
    labels, shares, lines = labels_of(run), pooled_shares(run), list[str]()
    for name in run.summary.metrics if metric is None else [metric]:
        summary, corrected = (
            run.summary.metrics[name],
            labels.corrected.get(name) if labels else None,
        )
        if sentence := pooled_sentence(run, name, shares.get(name), corrected):
            headline = headline_of(summary, corrected)
            lines.append(
                f"{name}: {state_mean(name, headline.mean or 0.0, headline.ci95)}; {sentence}"
            )
    return Table(notes=lines)
