"""The worst samples of a run for a page whose script did not run, with links to their evidence.

    1 0.741  The Danube rises in the Black Forest.        evidence [1] 1.000
    0 0.326  It does not flow into the Black Sea.         closest, not supporting [2] 0.865
                                                              │ link to an anchor
    [2]  ... The Danube flows into the Black Sea ... ◀────────┘

Of a context, only the text around the evidence is shown.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from localjudge.report.evidence_views import (
    describe_evidence,
    evidence_to_show,
    misplaced_citation,
)
from localjudge.report.sample_views import describe_outcome, remark_on
from localjudge.report.terminal import number
from localjudge.run_directory.evidence_rows import select_context
from localjudge.run_directory.result_rows import EvidenceRow, ScoreRow, VerdictRow
from localjudge.run_directory.run_record import RunRecord
from localjudge.types import Sample, context_texts
from localjudge.words import printable_lines

_ROOM = 300
"""Characters shown before and after a sentence of evidence."""
_GAP = "... "


class Link(NamedTuple):
    """A sentence of evidence below its statement. Without an anchor, it is in no context."""

    words: str
    anchor: str | None
    quote: str


class StaticVerdict(NamedTuple):
    """A judged unit with its evidence."""

    label: str
    p_yes: str
    text: str
    remark: str | None
    links: tuple[Link, ...]


class StaticMetric(NamedTuple):
    """A score with its verdicts."""

    name: str
    outcome: str
    verdicts: tuple[StaticVerdict, ...]


class ContextPart(NamedTuple):
    """A part of a context, which has an anchor if it is evidence."""

    text: Markup
    anchor: str | None


class StaticSample(NamedTuple):
    """A sample with its scores, and the parts of its contexts that are evidence, by number."""

    id: str
    question: str | None
    metrics: tuple[StaticMetric, ...]
    contexts: tuple[tuple[int, tuple[ContextPart, ...]], ...]


def static_samples(run: RunRecord, rows: Sequence[int]) -> list[StaticSample]:
    """Return the samples in these rows of the data, from 1, in this order."""
    if not rows:
        return []
    samples = {row: run.sample_at(row - 1) for row in rows}
    ids = {sample.id for sample in samples.values()}
    scores: dict[str, list[ScoreRow]] = {name: [] for name in ids}
    for score in run.iter_scores():
        if score.sample_id in ids:
            scores[score.sample_id].append(score)
    verdicts: dict[str, list[VerdictRow]] = {name: [] for name in ids}
    for verdict in run.iter_verdicts_with_evidence():
        if verdict.sample_id in ids:
            verdicts[verdict.sample_id].append(verdict)
    statics: list[StaticSample] = []
    for row, sample in samples.items():
        statics.append(_describe_sample(row, sample, scores[sample.id], verdicts[sample.id]))
    return statics


def _describe_sample(
    row: int, sample: Sample, scores: Sequence[ScoreRow], verdicts: Sequence[VerdictRow]
) -> StaticSample:
    metrics: list[StaticMetric] = []
    for score in scores:
        of_metric = [verdict for verdict in verdicts if verdict.metric == score.metric]
        described = tuple(_describe_verdict(row, verdict) for verdict in of_metric)
        metrics.append(StaticMetric(score.metric, describe_outcome(score), described))
    contexts = tuple(_contexts_with_evidence(row, sample, verdicts))
    return StaticSample(sample.id, sample.user_input, tuple(metrics), contexts)


def _describe_verdict(row: int, verdict: VerdictRow) -> StaticVerdict:
    label = "?" if verdict.label is None else str(verdict.label)
    p_yes = "" if verdict.p_yes is None else number(verdict.p_yes)
    misplaced = misplaced_citation(verdict)
    links: list[Link] = []
    for sentence in evidence_to_show(verdict):
        words = misplaced or describe_evidence(sentence)
        links.append(Link(words, _anchor(row, sentence), sentence.text))
    return StaticVerdict(label, p_yes, verdict.text, remark_on(verdict), tuple(links))


def _anchor(row: int, sentence: EvidenceRow) -> str | None:
    if sentence.context is None:
        return None
    return f"still-{row}-{sentence.context}-{sentence.start}"


def _contexts_with_evidence(
    row: int, sample: Sample, verdicts: Sequence[VerdictRow]
) -> Iterator[tuple[int, tuple[ContextPart, ...]]]:
    """Yield the number of each context with evidence, from 1, and its pieces."""
    sentences: dict[int, dict[int, EvidenceRow]] = {}
    for verdict in verdicts:
        for sentence in evidence_to_show(verdict):
            if sentence.context is not None:
                sentences.setdefault(sentence.context, {})[sentence.start] = sentence
    texts = context_texts(sample.retrieved_contexts)
    for place in sorted(sentences):
        in_order = [sentences[place][start] for start in sorted(sentences[place])]
        yield place + 1, tuple(_cut_around(select_context(texts, place), in_order, row))


def _cut_around(text: str, sentences: Sequence[EvidenceRow], row: int) -> Iterator[ContextPart]:
    """Yield the sentences in order, with the text around them, and a sign for what is left out."""
    at = 0
    for sentence in sentences:
        if sentence.start < at:
            continue
        end_of_last = min(at + _ROOM, sentence.start) if at else 0
        first = max(end_of_last, sentence.start - _ROOM)
        before = text[at:end_of_last]
        if first > end_of_last:
            before += _GAP
        yield _context_part(before + text[first : sentence.start])
        yield _context_part(text[sentence.start : sentence.end], _anchor(row, sentence))
        at = sentence.end
    after = text[at : at + _ROOM]
    if at + _ROOM < len(text):
        after += f" {_GAP.strip()}"
    yield _context_part(after)


def _context_part(text: str, anchor: str | None = None) -> ContextPart:
    return ContextPart(Markup(escape(printable_lines(text))), anchor)
