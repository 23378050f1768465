"""The samples of a run that failed or scored worst, also for a page whose script did not run.

    1 0.741  The Danube rises in the Black Forest.        evidence [1] 1.000
    0 0.326  It does not flow into the Black Sea.         closest, not supporting [2] 0.865
                                                              │ link to an anchor
    [2]  ... The Danube flows into the Black Sea ... ◀────────┘

Of a context, only the text around the evidence is shown. What a reader has read for a statement is
shown whole, closed at first.
"""

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from statistics import fmean
from typing import Any

from markupsafe import Markup, escape
from rich.text import Text

from localjudge.metrics import catalog
from localjudge.report.sample_views import (
    describe_score,
    described_evidence,
    evidence_to_show,
    remark_on,
)
from localjudge.report.terminal import Table, number, safe_text
from localjudge.run_directory.directory import STORE
from localjudge.run_directory.result_rows import (
    EvidenceRow,
    ScoreRow,
    VerdictId,
    VerdictRow,
    select_context,
)
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.run_rows import texts_read
from localjudge.run_directory.store_reader import stored_ids, stored_sample
from localjudge.types import Sample, context_texts
from localjudge.words import printable_lines, typed_path

_ROOM = 300
"""Characters shown before and after a sentence of evidence."""
_GAP = "... "
_Values = dict[str, Any]
_Part = tuple[Markup, str | None]
"""A part of a context, and its anchor if it is evidence."""
_ID_WIDTH = 24
_DISTANCE_OF_FAILURE = 1.0


def worst_view(run: RunRecord, *, metric: str | None = None, count: int) -> Table:
    """Return the worst samples of a run, or by one metric: row, id, score and question."""
    metrics = list(run.summary.metrics)
    if metric:
        metrics = [metric]
    samples = worst_samples(run, metrics, count)
    if not samples:
        return Table(notes=["no sample failed, and all have the best possible score"])
    rows: list[list[str | Text]] = []
    for row, question, score in samples:
        id_cell = _on_one_line(safe_text(score.sample_id))
        id_cell.truncate(_ID_WIDTH, overflow="ellipsis")
        if score.status == "failed":
            score_cell: str | Text = Text(score.status, style="red")
        else:
            score_cell = Text(number(score.score))
            if score.expected is not None and score.expected != score.score:
                score_cell.append(f"  expected {number(score.expected)}", style="dim")
        cells: list[str | Text] = [str(row), id_cell, score_cell]
        if not metric:
            cells.append(score.metric)
        if question:
            question_cell = _on_one_line(safe_text(question))
        else:
            question_cell = _on_one_line(safe_text("(no question)", style="dim"))
        cells.append(question_cell)
        rows.append(cells)
    command = f"localjudge show {typed_path(run.directory)} ROW"
    return Table(rows=rows, titles=[f"worst samples (to see one: {command})"])


def _on_one_line(cell: Text) -> Text:
    cell.no_wrap = True
    cell.overflow = "ellipsis"
    return cell


WorstSample = tuple[int, str | None, ScoreRow]
"""Row of the data from 1, question, and worst score."""


def worst_samples(run: RunRecord, metrics: Collection[str], count: int) -> list[WorstSample]:
    """Return the `count` worst samples, without perfect ones.

    Each has its row in the data (from 1), its question, and its worst score.
    """
    scores = worst_scores(run.iter_scores(), metrics, count)
    if not scores:
        return []
    store = run.directory / STORE
    ids = {score.sample_id for score in scores}
    rows = {name: row for row, name in enumerate(stored_ids(store), start=1) if name in ids}
    worst: list[WorstSample] = []
    for score in scores:
        sample = stored_sample(store, score.sample_id)
        if sample:
            worst.append((rows[score.sample_id], sample.user_input, score))
    return worst


def worst_scores(
    scores: Iterable[ScoreRow], metrics: Collection[str], count: int
) -> list[ScoreRow]:
    """Return the worst score of each of the worst samples. Holds few rows in memory.

    Samples with failures come first, then those with the largest mean distance of the expected
    scores from the best possible one.
    """
    best: dict[str, float] = {}
    for metric in metrics:
        best[metric] = float(not catalog.lower_is_better(metric))

    def score_badness(row: ScoreRow) -> tuple[bool, bool, float]:
        is_imperfect = _distance(row.score, best[row.metric]) > 0
        return row.status == "failed", is_imperfect, _distance(row.expected, best[row.metric])

    def sample_badness(rows: Sequence[ScoreRow]) -> tuple[bool, float]:
        failures = [row.status == "failed" for row in rows]
        return any(failures), fmean(_distance(row.expected, best[row.metric]) for row in rows)

    worst = heapq.nlargest(count, _imperfect_samples(scores, best), key=sample_badness)
    return [max(rows, key=score_badness) for rows in worst]


def _imperfect_samples(
    scores: Iterable[ScoreRow], best: Mapping[str, float]
) -> Iterator[list[ScoreRow]]:
    """Yield the scored and failed rows of each sample that is not perfect."""
    for _, sample_rows in groupby(scores, key=lambda row: row.sample_id):
        rows: list[ScoreRow] = []
        for row in sample_rows:
            if row.metric in best and row.status != "undefined":
                rows.append(row)
        if any(_distance(row.score, best[row.metric]) for row in rows):
            yield rows


def _distance(score: float | None, best: float) -> float:
    """Return the distance of a score, or an expected score, from the best possible one."""
    if score is None:
        return _DISTANCE_OF_FAILURE
    return abs(best - score)


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
    read: Mapping[VerdictId, str],
) -> _Values:
    metrics: list[_Values] = []
    for score in scores:
        judged: list[_Values] = []
        for verdict in verdicts:
            if verdict.metric == score.metric:
                text = read.get(verdict.verdict_id, "")
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
    for context in sorted(sentences):
        in_order = [sentences[context][start] for start in sorted(sentences[context])]
        contexts.append(
            (context + 1, list(_cut_around(select_context(texts, context), in_order, row)))
        )
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
