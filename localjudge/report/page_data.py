"""The samples of a report, as blocks of data for the scripts of the page.

    list          block: [id, question, group, outcomes, outcomes in the baseline] of samples,
                  a few thousand in each
    details       block: texts and verdicts of a few hundred samples, unpacked on demand

A block is gzipped JSON in base64, so no user text in it can act on the page. An outcome is a score,
"u", "f" or null.
"""

import base64
import gzip
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from localjudge.analysis.compared_run import ComparedRun
from localjudge.analysis.pairing import pair_samples, unit_changes
from localjudge.labels.labelled_statements import LabelledVerdict, labelled_statements, with_labels
from localjudge.report.evidence_views import EvidenceBySample, browser_offset
from localjudge.report.overview import Values
from localjudge.report.sample_views import describe_outcome, explain_score, remark_on
from localjudge.run_directory.jury import is_divided
from localjudge.run_directory.result_rows import ScoreRow, VerdictRow, json_line
from localjudge.run_directory.run_record import RunRecord
from localjudge.types import CONTEXT_FIELDS, Context, Sample, context_texts

_SAMPLES_OF_A_LIST = 2_000
_LETTERS_OF_DETAILS = 256 << 10
_CERTAINTY_PLACE = 5
_DIVISION_PLACE = 6
"""Positions in the entry of a sample, after its outcomes in the baseline."""
_MAX_QUESTION = 200
_SCORE_DIGITS = 6
_PROBABILITY_DIGITS = 4
"""Digits for values displayed with three digits, including differences."""


class DataBlock(NamedTuple):
    """One block: its kind, the number of its first sample, and its bytes as base64."""

    kind: str
    first: int
    content: str


def data_blocks(run: RunRecord, baseline: RunRecord | None) -> Iterator[DataBlock]:
    """Yield all samples in data order, with their state in the baseline."""
    lines: dict[str, list[str]] = {"list": [], "details": []}
    packed_samples = dict.fromkeys(lines, 0)

    def packed(kind: str) -> DataBlock:
        content = base64.b64encode(gzip.compress(f"[{','.join(lines[kind])}]".encode(), mtime=0))
        block = DataBlock(kind, packed_samples[kind], content.decode("ascii"))
        packed_samples[kind] += len(lines[kind])
        lines[kind].clear()
        return block

    letters = 0
    for row, values in _samples(run, baseline):
        lines["list"].append(json_line(row))
        lines["details"].append(json_line(values))
        letters += len(lines["details"][-1])
        if len(lines["list"]) >= _SAMPLES_OF_A_LIST:
            yield packed("list")
        if letters >= _LETTERS_OF_DETAILS:
            letters = 0
            yield packed("details")
    for kind, waiting in lines.items():
        if waiting:
            yield packed(kind)


def _samples(run: RunRecord, baseline: RunRecord | None) -> Iterator[tuple[list[Any], Values]]:
    """Yield the entry in the list and the details of each sample."""
    side = ComparedRun(run, list(run.summary.metrics))
    partners: _Baseline | None = None
    if baseline is not None:
        partners = _Baseline(baseline, side)
    statements = labelled_statements(run)
    evidence = EvidenceBySample(run)
    for position, (sample, scores) in enumerate(run.iter_scored_samples()):
        verdicts: dict[str, list[VerdictRow]] = {}
        labelled: dict[str, list[LabelledVerdict]] = {}
        details: Values = {}
        for metric, score in scores.items():
            verdicts[metric] = side.verdicts(metric, position)
            labelled[metric] = list(with_labels(run, verdicts[metric], statements))
            details[metric] = _details(sample, score, labelled[metric])
        for metric, sentences in evidence.values_of(sample, verdicts).items():
            details[metric]["evidence"] = sentences
        entry = _list_entry(run, sample, scores)
        values: Values = {"id": sample.id, "texts": _text_values(sample), "metrics": details}
        if partners:
            entry.append(partners.scores(position, run.summary.metrics))
            values["before"] = partners.values(position, sample, verdicts)
        if statements:
            _extend(entry, _CERTAINTY_PLACE)
            entry.append(
                [_largest_certainty(labelled.get(metric, ())) for metric in run.summary.metrics]
            )
        if run.manifest.judge.jury:
            _extend(entry, _DIVISION_PLACE)
            entry.append([_is_any_divided(verdicts.get(name, ())) for name in run.summary.metrics])
        yield entry, values


def _list_entry(run: RunRecord, sample: Sample, scores: Mapping[str, ScoreRow]) -> list[Any]:
    """Return the id, question, group and outcomes of a sample."""
    question = sample.user_input or sample.response or sample.reference or ""
    group: str | None = None
    if run.cluster_of is not None:
        group = run.cluster_of[sample.id]
    outcomes = [_outcome(scores.get(metric)) for metric in run.summary.metrics]
    return [sample.id, question[:_MAX_QUESTION], group, outcomes]


def _extend(entry: list[Any], length: int) -> None:
    """Add empty places up to this length."""
    entry += [None] * (length - len(entry))


def _details(sample: Sample, score: ScoreRow, verdicts: Sequence[LabelledVerdict]) -> Values:
    """Return a score in words, its explanation, and its verdicts."""
    rows: list[VerdictRow] = []
    values: list[list[Any]] = []
    for verdict in verdicts:
        rows.append(verdict.row)
        values.append(_labelled_values(sample, verdict))
    explanation = ""
    if score.status == "scored":
        explanation = explain_score(score, rows)
    return {"outcome": describe_outcome(score), "why": explanation, "verdicts": values}


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
        place = verdict.source_index
        text = "".join(context_texts(text)[place : place + 1])
    return [
        verdict.source,
        verdict.source_index,
        browser_offset(text or "", verdict.start),
        browser_offset(text or "", verdict.end),
        verdict.label,
        _rounded(verdict.p_yes),
        remark_on(verdict),
    ]


def _labelled_values(sample: Sample, verdict: LabelledVerdict) -> list[Any]:
    values = _verdict_values(sample, verdict.row)
    if verdict.remark is None:
        return values
    return [*values, verdict.remark, verdict.certainty is not None]


def _largest_certainty(verdicts: Iterable[LabelledVerdict]) -> float | None:
    """Return the largest certainty of a verdict that differs from its human label."""
    certainties = [each.certainty for each in verdicts if each.certainty is not None]
    return _rounded(max(certainties, default=None))


def _is_any_divided(verdicts: Iterable[VerdictRow]) -> bool:
    """Return whether the judges of a jury disagree on a verdict."""
    return any(verdict.judges is not None and is_divided(verdict.judges) for verdict in verdicts)


def _rounded(p_yes: float | None) -> float | None:
    if p_yes is None:
        return None
    return round(p_yes, _PROBABILITY_DIGITS)


class _Baseline:
    """Partners of a run's samples in the baseline, by position in the run."""

    def __init__(self, baseline: RunRecord, side: ComparedRun) -> None:
        shared = [metric for metric in side.scores if metric in baseline.summary.metrics]
        self._side = ComparedRun(baseline, shared)
        pairs = pair_samples(self._side.samples, side.samples)
        self._partner = {pair.after: pair.before for pair in pairs}

    def scores(self, position: int, metrics: Iterable[str]) -> list[float | None]:
        """Return the scores of the partner, None where it has none."""
        return [self._score(position, metric) for metric in metrics]

    def _score(self, position: int, metric: str) -> float | None:
        partner = self._partner.get(position)
        if partner is None:
            return None
        score = self._side.score(metric, partner)
        if score is None:
            return None
        return round(score, _SCORE_DIGITS)

    def values(
        self, position: int, sample: Sample, verdicts: Mapping[str, list[VerdictRow]]
    ) -> Values | None:
        """Return changed fields, scores and verdicts, or None without a partner."""
        partner = self._partner.get(position)
        if partner is None:
            return None
        old = self._side.run.sample_at(partner)
        changed_texts = _changed_texts(old, sample)
        metrics: Values = {}
        for metric in self._side.scores:
            old_rows = self._side.verdicts(metric, partner)
            rows = verdicts[metric]
            changes = unit_changes(old_rows, rows, same_content=not changed_texts)
            was: list[list[Any]] = []
            for change in changes[: len(rows)]:
                was.append([change.before, _rounded(change.p_before)])
            metrics[metric] = {"score": self._score(position, metric), "was": was}
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
