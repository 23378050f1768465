"""The worst samples of a run for a page whose script did not run, with links to their evidence.

    1 0.741  The Danube rises in the Black Forest.        evidence [1] 1.000
    0 0.326  It does not flow into the Black Sea.         closest, not supporting [2] 0.865
                                                              │ link to an anchor
    [2]  ... The Danube flows into the Black Sea ... ◀────────┘

Of a context, only the text around the evidence is shown. What a reader has read for a statement is
shown whole, closed at first.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from localjudge.report.evidence_views import described_evidence, evidence_to_show
from localjudge.report.sample_views import describe_score, remark_on
from localjudge.report.terminal import number
from localjudge.run_directory.result_rows import EvidenceRow, ScoreRow, VerdictRow, select_context
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.run_rows import UnitPlace, texts_read
from localjudge.types import Sample, context_texts
from localjudge.words import printable_lines

_ROOM = 300
"""Characters shown before and after a sentence of evidence."""
_GAP = "... "
_Values = dict[str, Any]
_Part = tuple[Markup, str | None]
"""A part of a context, and its anchor if it is evidence."""


def static_samples(run: RunRecord, rows: Sequence[int]) -> list[_Values]:
    """Return the samples in these rows of the data, from 1, as values of the template.

    Each has its scores with their verdicts, and the contexts with evidence by their numbers.
    """
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
    values: list[_Values] = []
    for row, sample in samples.items():
        judged = verdicts[sample.id]
        read = texts_read(run, sample, judged)
        values.append(_sample_values(row, sample, scores[sample.id], judged, read))
    return values


def _sample_values(
    row: int,
    sample: Sample,
    scores: Sequence[ScoreRow],
    verdicts: Sequence[VerdictRow],
    read: Mapping[UnitPlace, str],
) -> _Values:
    metrics: list[_Values] = []
    for score in scores:
        judged: list[_Values] = []
        for verdict in verdicts:
            if verdict.metric == score.metric:
                text = read.get((verdict.metric, verdict.position or 0), "")
                judged.append({**_verdict_values(row, verdict), "read": _escape(text)})
        outcome = describe_score(score)
        metrics.append({"name": score.metric, "outcome": outcome, "verdicts": judged})
    contexts: list[tuple[int, list[_Part]]] = []
    sentences: dict[int, dict[int, EvidenceRow]] = {}
    for verdict in verdicts:
        for sentence in evidence_to_show(verdict):
            if sentence.context is not None:
                sentences.setdefault(sentence.context, {})[sentence.start] = sentence
    texts = context_texts(sample.retrieved_contexts)
    for place in sorted(sentences):
        in_order = [sentences[place][start] for start in sorted(sentences[place])]
        contexts.append((place + 1, list(_cut_around(select_context(texts, place), in_order, row))))
    return {
        "id": sample.id,
        "question": sample.user_input,
        "metrics": metrics,
        "contexts": contexts,
    }


def _verdict_values(row: int, verdict: VerdictRow) -> _Values:
    """Return a verdict with its evidence. The evidence has an anchor if it is in a context."""
    label = "?"
    if verdict.label is not None:
        label = str(verdict.label)
    p_yes = ""
    if verdict.p_yes is not None:
        p_yes = number(verdict.p_yes)
    links: list[_Values] = []
    for sentence, words in described_evidence(verdict):
        links.append({"words": words, "anchor": _anchor(row, sentence), "quote": sentence.text})
    return {
        "label": label,
        "p_yes": p_yes,
        "text": verdict.text,
        "remark": remark_on(verdict),
        "links": links,
    }


def _anchor(row: int, sentence: EvidenceRow) -> str | None:
    if sentence.context is None:
        return None
    return f"still-{row}-{sentence.context}-{sentence.start}"


def _cut_around(text: str, sentences: Sequence[EvidenceRow], row: int) -> Iterator[_Part]:
    """Yield the sentences in order, with the text around them, and a sign for what is left out."""
    end = 0  # of the last sentence
    for sentence in sentences:
        if sentence.start < end:
            continue
        end_of_first = end
        if end:
            end_of_first = min(end + _ROOM, sentence.start)
        start_of_second = max(end_of_first, sentence.start - _ROOM)
        shown = text[end:end_of_first]
        if start_of_second > end_of_first:
            shown += _GAP
        between = shown + text[start_of_second : sentence.start]
        yield _escape(between), None
        yield _escape(text[sentence.start : sentence.end]), _anchor(row, sentence)
        end = sentence.end
    after = text[end : end + _ROOM]
    if end + _ROOM < len(text):
        after += f" {_GAP.strip()}"
    yield _escape(after), None


def _escape(text: str) -> Markup:
    return Markup(escape(printable_lines(text)))
