"""The samples of a report, as blocks of data for the scripts of the page.

    list          block: [id, question, group, outcomes, expected scores, outcomes in the
                  baseline, certainties of verdicts that labels contradict, whether judges
                  disagree] of samples, a few thousand in each; without nulls at the end
    details       block: texts and verdicts of a few hundred samples, unpacked on demand

A block is gzipped JSON in base64, so no user text in it can act on the page. An outcome is a score,
"u", "f" or null. An expected score is null without a score.
"""

import base64
import gzip
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any

from localjudge.analysis.pairing import ComparedRun, pair_samples, sample_keys, unit_changes
from localjudge.errors import RunDirectoryError
from localjudge.labels.run_labels import (
    LabelledStatement,
    labelled_statements,
    measure_certainty,
    with_labels,
)
from localjudge.report.overview import Values
from localjudge.report.private_page import browser_offset
from localjudge.report.sample_views import (
    describe_score,
    described_evidence,
    explain_score,
    remark_on,
)
from localjudge.run_directory.directory import BY_HAND
from localjudge.run_directory.result_rows import (
    VERDICTS,
    ScoreRow,
    VerdictRow,
    json_line,
    select_context,
)
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.run_rows import iter_scored_samples, texts_read
from localjudge.run_directory.verdict_rule import is_divided
from localjudge.types import CONTEXT_FIELDS, Context, Sample, context_texts

_SAMPLES_OF_A_LIST = 2_000
_LETTERS_OF_DETAILS = 256 << 10
_LabelledVerdict = tuple[VerdictRow, LabelledStatement | None]
_MAX_QUESTION = 200
_SCORE_DIGITS = 6
_PROBABILITY_DIGITS = 4
"""Digits for values displayed with three digits, including differences."""
_NO_MORE: tuple[None, Iterator[VerdictRow]] = (None, iter(()))


def data_blocks(run: RunRecord, baseline: RunRecord | None) -> Iterator[tuple[str, int, str]]:
    """Yield all samples in data order, with their state in the baseline.

    A block is its kind, the number of its first sample, and its content as base64.
    """
    lists: list[str] = []
    details: list[str] = []
    packed_lists = 0
    packed_details = 0
    letters = 0
    for entry, values in _samples(run, baseline):
        lists.append(json_line(entry))
        details.append(json_line(values))
        letters += len(details[-1])
        if len(lists) >= _SAMPLES_OF_A_LIST:
            yield "list", packed_lists, _pack(lists)
            packed_lists += len(lists)
            lists.clear()
        if letters >= _LETTERS_OF_DETAILS:
            yield "details", packed_details, _pack(details)
            packed_details += len(details)
            details.clear()
            letters = 0
    if lists:
        yield "list", packed_lists, _pack(lists)
    if details:
        yield "details", packed_details, _pack(details)


def _pack(lines: Sequence[str]) -> str:
    packed = gzip.compress(f"[{','.join(lines)}]".encode(), mtime=0)
    return base64.b64encode(packed).decode("ascii")


def _samples(run: RunRecord, baseline: RunRecord | None) -> Iterator[tuple[list[Any], Values]]:
    """Yield the entry in the list and the details of each sample."""
    metrics = list(run.summary.metrics)
    statements = labelled_statements(run)
    compared: ComparedRun | None = None
    partners: dict[int, int] = {}  # positions in the baseline, by positions in the run
    if baseline is not None:
        compared = ComparedRun(baseline, [name for name in metrics if name in baseline])
        samples = [sample_keys(sample) for sample in run.iter_samples()]
        partners = pair_samples(compared.samples, samples)
    for position, (sample, scores, verdicts) in enumerate(_iter_judged_samples(run)):
        labelled: dict[str, list[_LabelledVerdict]] = {}
        details: Values = {}
        read = texts_read(run, sample, chain.from_iterable(verdicts.values()))
        for metric, score in scores.items():
            labelled[metric] = list(with_labels(run, verdicts[metric], statements))
            details[metric] = _details(sample, score, labelled[metric])
            if read:
                details[metric]["read"] = [read.get(row.verdict_id) for row in verdicts[metric]]
        entry = _list_entry(run, sample, scores)
        values: Values = {"id": sample.id, "texts": _text_values(sample), "metrics": details}
        before: list[float | None] | None = None
        certainties: list[float | None] | None = None
        divisions: list[bool] | None = None
        if compared is not None:
            partner = partners.get(position)
            before = [_partner_score(compared, partner, name) for name in metrics]
            values["before"] = _partner_values(compared, partner, sample, verdicts)
        if statements:
            certainties = [_largest_certainty(run, labelled.get(name, ())) for name in metrics]
        if run.manifest.judge.jury:
            divisions = [_is_any_divided(verdicts.get(name, ())) for name in metrics]
        entry += [before, certainties, divisions]
        while entry[-1] is None:
            entry.pop()
        yield entry, values


def _iter_judged_samples(
    run: RunRecord,
) -> Iterator[tuple[Sample, dict[str, ScoreRow], dict[str, list[VerdictRow]]]]:
    """Yield each sample with its scores, and its verdicts with their evidence, by metric.

    Raises RunDirectoryError for a verdict without a score.
    """
    groups = groupby(run.iter_verdicts_with_evidence(), key=lambda row: row.sample_id)
    judged_id, rows = next(groups, _NO_MORE)
    for sample, scores in iter_scored_samples(run):
        verdicts: dict[str, list[VerdictRow]] = {metric: [] for metric in scores}
        if judged_id == sample.id:
            for row in rows:
                if row.metric not in scores:
                    raise _missing_score()
                verdicts[row.metric].append(row)
            judged_id, rows = next(groups, _NO_MORE)
        yield sample, scores, verdicts
    if judged_id is not None:
        raise _missing_score()


def _missing_score() -> RunDirectoryError:
    return RunDirectoryError(f"a row of {VERDICTS} has no score", hint=BY_HAND)


def _list_entry(run: RunRecord, sample: Sample, scores: Mapping[str, ScoreRow]) -> list[Any]:
    """Return the id, question, group, outcomes and expected scores of a sample."""
    question = sample.user_input or sample.response or sample.reference or ""
    group: str | None = None
    if run.cluster_of is not None:
        group = run.cluster_of[sample.id]
    outcomes = [_outcome(scores.get(metric)) for metric in run.summary.metrics]
    expected: list[float | None] = []
    for metric in run.summary.metrics:
        score = scores.get(metric)
        if score is None or score.expected is None:
            expected.append(None)
        else:
            expected.append(round(score.expected, _SCORE_DIGITS))
    return [sample.id, question[:_MAX_QUESTION], group, outcomes, expected]


def _details(sample: Sample, score: ScoreRow, verdicts: Sequence[_LabelledVerdict]) -> Values:
    """Return a score in words, its explanation, and its verdicts, with evidence if there is any."""
    rows = [row for row, _ in verdicts]
    explanation = ""
    if score.status == "scored":
        explanation = explain_score(score, rows)
    labelled: list[list[Any]] = []
    for row, statement in verdicts:
        values = _verdict_values(sample, row)
        if statement is not None:
            values += [statement.remark_on(row), statement.contradicts(row)]
        labelled.append(values)
    details: Values = {
        "outcome": describe_score(score),
        "why": explanation,
        "verdicts": labelled,
    }
    if any(row.evidence for row in rows):
        texts = context_texts(sample.retrieved_contexts)
        details["evidence"] = [_evidence_values(row, texts) for row in rows]
    return details


def _evidence_values(verdict: VerdictRow, texts: Sequence[str]) -> list[list[Any]]:
    """Return the sentences to show of a verdict.

    A sentence is its context (or None), start and end in UTF-16 code units, whether it supports the
    statement, a description, and its text.
    """
    sentences: list[list[Any]] = []
    for row, description in described_evidence(verdict):
        text = ""
        if row.context is not None:
            text = select_context(texts, row.context)
        start = browser_offset(text, row.start)
        end = browser_offset(text, row.end)
        supports = row.supports and verdict.label != 0
        sentences.append([row.context, start, end, supports, description, row.text])
    return sentences


def _outcome(score: ScoreRow | None) -> float | str | None:
    if score is None:
        return None
    if score.score is None:
        return score.status[0]
    return round(score.score, _SCORE_DIGITS)


def _text_values(sample: Sample) -> Values:
    """Return the texts of a sample by field, without missing ones."""
    texts: Values = {}
    for field in ("user_input", "reference", "response"):
        text = getattr(sample, field)
        if text is not None:
            texts[field] = text
    for field in CONTEXT_FIELDS:
        contexts = getattr(sample, field)
        if contexts is not None:
            texts[field] = list(map(_context_values, contexts))
    return texts


def _context_values(context: Context) -> Values:
    return context.model_dump(include={"text", "id", "score"}, exclude_none=True)


def _verdict_values(sample: Sample, verdict: VerdictRow) -> list[Any]:
    text = getattr(sample, verdict.source)
    if verdict.source_index is not None:
        number = verdict.source_index
        text = "".join(context_texts(text)[number : number + 1])
    return [
        verdict.source,
        verdict.source_index,
        browser_offset(text or "", verdict.start),
        browser_offset(text or "", verdict.end),
        verdict.label,
        _rounded(verdict.p_yes),
        remark_on(verdict),
    ]


def _largest_certainty(run: RunRecord, verdicts: Iterable[_LabelledVerdict]) -> float | None:
    """Return the largest certainty of a verdict that differs from its human label."""
    certainties = []
    for row, statement in verdicts:
        if statement and statement.contradicts(row):
            certainties.append(measure_certainty(run, row))
    return _rounded(max(certainties, default=None))


def _is_any_divided(verdicts: Iterable[VerdictRow]) -> bool:
    """Return whether the judges of a jury disagree on a verdict."""
    return any(verdict.judges is not None and is_divided(verdict.judges) for verdict in verdicts)


def _rounded(p_yes: float | None) -> float | None:
    if p_yes is None:
        return None
    return round(p_yes, _PROBABILITY_DIGITS)


def _partner_score(compared: ComparedRun, partner: int | None, metric: str) -> float | None:
    """Return the score of a sample's partner in the baseline, None without one."""
    if partner is None:
        return None
    score = compared.score(metric, partner)
    if score is None:
        return None
    return round(score, _SCORE_DIGITS)


def _partner_values(
    compared: ComparedRun,
    partner: int | None,
    sample: Sample,
    verdicts: Mapping[str, Sequence[VerdictRow]],
) -> Values | None:
    """Return changed fields, scores and verdicts, or None without a partner."""
    if partner is None:
        return None
    old = compared.run.sample_at(partner)
    changed_texts = _changed_texts(old, sample)
    metrics: Values = {}
    for metric in compared.scores:
        old_rows = compared.verdicts(metric, partner)
        rows = verdicts[metric]
        changes = unit_changes(old_rows, rows, same_content=not changed_texts)
        was = [[change.before, _rounded(change.p_before)] for change in changes[: len(rows)]]
        metrics[metric] = {"score": _partner_score(compared, partner, metric), "was": was}
        # The old verdicts have other positions.
        if changed_texts or len(changes) != len(rows):
            metrics[metric]["verdicts"] = [_verdict_values(old, row) for row in old_rows]
    return {"id": old.id, "texts": changed_texts, "metrics": metrics}


def _changed_texts(old: Sample, new: Sample) -> Values:
    """Return the old texts of the fields that differ, None for a missing one."""
    old_texts = _text_values(old)
    new_texts = _text_values(new)
    changed: Values = {}
    for name in old_texts | new_texts:
        if old_texts.get(name) != new_texts.get(name):
            changed[name] = old_texts.get(name)
    return changed
