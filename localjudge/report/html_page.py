"""Write a run as one private, self-contained HTML page.

    page.html     template of `overview`, works without scripts, then with the worst samples only
    list          block: [id, question, group, outcomes, outcomes in the baseline] of samples,
                  a few thousand in each
    details       block: texts and verdicts of a few hundred samples, unpacked on demand

A block is gzipped JSON in base64, so no user text in it can act on the page. An outcome is a score,
"u", "f" or null. The same run, baseline and gates give the same bytes with the same build of zlib.
"""

import base64
import gzip
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, Self

from localjudge.analysis.check import Check
from localjudge.analysis.compared_run import ComparedRun
from localjudge.analysis.comparison import Obstacle
from localjudge.analysis.evidence_places import evidence_places
from localjudge.analysis.gate_decisions import Undecided
from localjudge.analysis.pairing import pair_samples, unit_changes
from localjudge.analysis.slices import slices
from localjudge.judging.verify import REPORT
from localjudge.labels.labelled_statements import LabelledVerdict, labelled_statements, with_labels
from localjudge.metrics import catalog
from localjudge.report.evidence_place_views import (
    ACCURACY,
    HEADINGS,
    MEANING,
    describe_places,
    place_rows,
)
from localjudge.report.evidence_views import EvidenceBySample, browser_offset
from localjudge.report.overview import Values, overview
from localjudge.report.private_page import page_parts, write_page
from localjudge.report.sample_views import describe_outcome, explain_score, remark_on
from localjudge.report.slice_views import slices_table
from localjudge.report.static_samples import static_samples
from localjudge.report.worst_samples import WorstSample, worst_samples
from localjudge.run_directory.files import NEAR
from localjudge.run_directory.jury import is_divided
from localjudge.run_directory.label_rows import label_file
from localjudge.run_directory.result_rows import ScoreRow, VerdictRow, json_line
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.verification import LastVerification, last_verification
from localjudge.types import CONTEXT_FIELDS, Context, Record, Sample, context_texts
from localjudge.words import as_typed

_STYLES = ("base.css", "page.css", "samples.css", "paper.css")
_SCRIPTS = ("elements.js", "blocks.js", "evidence.js", "details.js", "selection.js", "samples.js")
_SAMPLES_OF_A_LIST = 2_000
_WORST_ON_PAPER = 10
_LETTERS_OF_DETAILS = 256 << 10
_CERTAINTY_PLACE = 5
_DIVISION_PLACE = 6
"""Positions in the entry of a sample, after its outcomes in the baseline."""
_MAX_QUESTION = 200
_SCORE_DIGITS = 6
_PROBABILITY_DIGITS = 4
"""Digits for values displayed with three digits, including differences."""


def write_report(
    run: RunRecord,
    checked: Check,
    baseline: RunRecord | None,
    out: str | Path | None = None,
    *,
    title: str | None = None,
    by: str | None = None,
) -> Path:
    """Write the report of a finished run and return its path.

    By default, this is `report.html` in the run directory. Replaces an earlier report. Raises
    InputError if another file has this name, if the file cannot be written, or if the data has no
    suitable column `by`.
    """
    path = Path(os.path.expanduser(out or run.directory / REPORT))
    inputs = ReportInputs.collect(run, checked, baseline, title).model_copy(update={"by": by})
    write_page(path, page(run, checked, baseline, inputs), kind="report")
    return path


class ReportInputs(Record):
    """Inputs of a report besides the run, sufficient to write it again.

    `baseline` is relative to the run directory, `labels` are the checksums of both label files.
    """

    writer: str
    title: str | None
    gates: tuple[str, ...]
    undecided: Undecided
    baseline: str | None
    labels: tuple[str, ...]
    verification: LastVerification | None
    examined: str | None
    by: str | None = None
    allow_different: tuple[Obstacle, ...] = ()

    @classmethod
    def collect(
        cls, run: RunRecord, checked: Check, baseline: RunRecord | None, title: str | None
    ) -> Self:
        """Return the inputs of a report written now."""
        undecided: Undecided = "fail"
        for decision in checked.decisions:
            if decision.outcome == "undecided" and decision.passed:
                undecided = "pass"
        relative: str | None = None
        if baseline is not None:
            relative = os.path.relpath(baseline.directory, run.directory)
        return cls(
            writer=writer(),
            title=title,
            gates=tuple(decision.gate for decision in checked.decisions),
            undecided=undecided,
            baseline=relative,
            labels=hash_labels(run, baseline),
            verification=last_verification(run.directory),
            examined=run.judge.examined,
            allow_different=checked.allow_different,
        )


def writer() -> str:
    """Return what decides about the bytes of a report besides its inputs."""
    return f"localjudge {version('localjudge')}, zlib {zlib.ZLIB_RUNTIME_VERSION}"


def hash_labels(run: RunRecord, baseline: RunRecord | None) -> tuple[str, ...]:
    """Return the sha256 of the labels of each run."""
    runs = [run]
    if baseline is not None:
        runs.append(baseline)
    return tuple(label_file(each.directory).sha256 for each in runs)


def page(
    run: RunRecord,
    checked: Check,
    baseline: RunRecord | None = None,
    inputs: ReportInputs | None = None,
) -> Iterator[str]:
    """Yield the page in parts. The `inputs` of an earlier report reproduce it."""
    inputs = inputs or ReportInputs.collect(run, checked, baseline, None)
    # Options are spelled as on the command line, so that the page does not depend on its writer.
    with as_typed():
        values = overview(run, checked, inputs.title, inputs.verification, inputs.examined)
        values["slices"] = None
        values["places"] = list(evidence_places(run).values())
        if inputs.by:
            values["slices"] = slices_table(run, slices(run, inputs.by))
    values["by"] = inputs.by
    worst = worst_samples(run, list(run.summary.metrics), _WORST_ON_PAPER)
    return page_parts(
        "page.html",
        styles=_STYLES,
        scripts=_SCRIPTS,
        config=_config(run, baseline, inputs, worst),
        static_samples=static_samples(run, [row for row, _, _ in worst]),
        blocks=data_blocks(run, baseline),
        place_headings=HEADINGS,
        place_rows=place_rows,
        describe_places=describe_places,
        about_places=(*MEANING, ACCURACY),
        **values,
    )


def _config(
    run: RunRecord,
    baseline: RunRecord | None,
    inputs: ReportInputs,
    worst: Sequence[WorstSample],
) -> Values:
    """Return what the scripts of the page need besides samples."""
    metrics: list[Values] = []
    for name in run.summary.metrics:
        is_lower_better = catalog.lower_is_better(name)
        is_judged = catalog.is_judged(name)
        metrics.append({"name": name, "lowerIsBetter": is_lower_better, "judged": is_judged})
    return {
        "inputs": inputs.model_dump(mode="json"),
        "metrics": metrics,
        "threshold": run.summary.threshold,
        "thresholds": run.summary.thresholds,
        "near": NEAR,
        "hasGroups": run.cluster_of is not None,
        "compared": baseline is not None,
        "labelled": bool(labelled_statements(run)),
        "jury": bool(run.manifest.judge.jury),
        "samples": run.summary.samples,
        "worst": [[row - 1, score.metric] for row, _, score in worst],
    }


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
    yield from (packed(kind) for kind in lines if lines[kind])


def _samples(run: RunRecord, baseline: RunRecord | None) -> Iterator[tuple[list[Any], Values]]:
    """Yield the entry in the list and the details of each sample."""
    metrics = list(run.summary.metrics)
    groups = run.cluster_of
    side = ComparedRun(run, metrics)
    partners: _Baseline | None = None
    if baseline is not None:
        partners = _Baseline(baseline, side)
    statements = labelled_statements(run)
    evidence = EvidenceBySample(run)
    for position, (sample, scores) in enumerate(run.iter_scored_samples()):
        verdicts = {metric: side.verdicts(metric, position) for metric in scores}
        labelled: dict[str, list[LabelledVerdict]] = {}
        for metric, rows in verdicts.items():
            labelled[metric] = list(with_labels(run, rows, statements))
        question = sample.user_input or sample.response or sample.reference or ""
        entry: list[Any] = [sample.id, question[:_MAX_QUESTION]]
        entry.append(None if groups is None else groups[sample.id])
        entry.append([_outcome(scores.get(metric)) for metric in metrics])
        details: Values = {}
        for metric, score in scores.items():
            details[metric] = _details(sample, score, labelled[metric])
        for name, sentences in evidence.values_of(sample, verdicts).items():
            details[name]["evidence"] = sentences
        values: Values = {"id": sample.id, "texts": _text_values(sample), "metrics": details}
        if partners:
            entry.append([partners.score(position, metric) for metric in metrics])
            values["before"] = partners.values(position, sample, verdicts)
        if statements:
            _extend(entry, _CERTAINTY_PLACE)
            entry.append([_largest_certainty(labelled.get(metric, ())) for metric in metrics])
        if run.manifest.judge.jury:
            _extend(entry, _DIVISION_PLACE)
            entry.append([any(map(_is_divided, verdicts.get(metric, ()))) for metric in metrics])
        yield entry, values


def _extend(entry: list[Any], length: int) -> None:
    """Add empty places up to this length."""
    entry += [None] * (length - len(entry))


def _details(sample: Sample, score: ScoreRow, verdicts: Sequence[LabelledVerdict]) -> Values:
    """Return a score in words, its explanation, and its verdicts."""
    explanation = ""
    if score.status == "scored":
        explanation = explain_score(score, [verdict.row for verdict in verdicts])
    return {
        "outcome": describe_outcome(score),
        "why": explanation,
        "verdicts": [_labelled_values(sample, verdict) for verdict in verdicts],
    }


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
            texts[field] = [_context_values(context) for context in contexts]
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


def _is_divided(verdict: VerdictRow) -> bool:
    return verdict.judges is not None and is_divided(verdict.judges)


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

    def score(self, position: int, metric: str) -> float | None:
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
            was = [[change.before, _rounded(change.p_before)] for change in changes[: len(rows)]]
            metrics[metric] = {"score": self.score(position, metric), "was": was}
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
