"""Write a run as one private, self-contained HTML page.

    page.html     template of `overview`, works without scripts
    list          block: [id, question, group, outcomes, outcomes in the baseline] of a few thousand samples
    details       block: texts and verdicts of a few hundred samples, unpacked on demand

A block is gzipped JSON in base64, so no user text appears literally in the page. An outcome is a
score, "u", "f" or null. The same run, baseline and gates give the same bytes with the same build of
zlib.
"""

import base64
import gzip
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self

from localjudge.analysis.check import Check, Undecided
from localjudge.analysis.compare import Obstacle
from localjudge.analysis.compared_run import ComparedRun
from localjudge.analysis.pairing import pair_samples, unit_changes
from localjudge.analysis.slices import slices
from localjudge.judging.verify import REPORT
from localjudge.labels.labelled_statements import LabelledVerdict, labelled_statements, with_labels
from localjudge.metrics import catalog
from localjudge.report.evidence_views import EvidenceBySample, browser_offset
from localjudge.report.overview import Values, overview
from localjudge.report.private_page import page_parts, write_page
from localjudge.report.sample_views import describe_outcome, explain_score, remark_on
from localjudge.report.slice_views import slices_table
from localjudge.report.worst_samples import worst_samples
from localjudge.run_directory.files import NEAR
from localjudge.run_directory.jury import is_divided
from localjudge.run_directory.label_rows import label_file
from localjudge.run_directory.result_rows import ScoreRow, VerdictRow, json_line
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.verification import LastVerification, last_verification
from localjudge.types import CONTEXT_FIELDS, Record, Sample, context_texts
from localjudge.words import as_typed

_STYLES = ("base.css", "page.css", "samples.css", "paper.css")
_SCRIPTS = ("elements.js", "blocks.js", "details.js", "selection.js", "samples.js")
_SAMPLES_OF_A_LIST = 2_000
_WORST_ON_PAPER = 10
_LETTERS_OF_DETAILS = 256 << 10
_PLACE_OF_DIVISION = 6  # in the row of a sample
_LETTERS_OF_A_QUESTION = 200
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
    """Write the report of a finished run and return its path, by default `report.html` in the run directory.

    Replaces an earlier report. Raises InputError if another file has this name, if the file cannot
    be written, or if the data has no suitable column `by`.
    """
    path = Path(os.path.expanduser(out or run.directory / REPORT))
    inputs = ReportInputs.of(run, checked, baseline, title).model_copy(update={"by": by})
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
    def of(
        cls, run: RunRecord, checked: Check, baseline: RunRecord | None, title: str | None
    ) -> Self:
        lenient = any(
            decision.outcome == "undecided" and decision.passed for decision in checked.decisions
        )
        return cls(
            writer=writer(),
            title=title,
            gates=tuple(decision.gate for decision in checked.decisions),
            undecided="pass" if lenient else "fail",
            baseline=None
            if baseline is None
            else os.path.relpath(baseline.directory, run.directory),
            labels=hash_labels(run, baseline),
            verification=last_verification(run.directory),
            examined=run.judge.examined,
            allow_different=checked.allow_different,
        )


def writer() -> str:
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
    inputs = inputs or ReportInputs.of(run, checked, baseline, None)
    with (
        as_typed()
    ):  # options as the command line spells them: the page does not depend on who writes it
        first_screen = overview(run, checked, inputs.title, inputs.verification, inputs.examined)
        parts = slices_table(run, slices(run, inputs.by)) if inputs.by else None
    config = {
        "inputs": inputs.model_dump(mode="json"),
        "metrics": [
            {
                "name": name,
                "lowerIsBetter": catalog.lower_is_better(name),
                "judged": catalog.is_judged(name),
            }
            for name in run.summary.metrics
        ],
        "threshold": run.summary.threshold,
        "thresholds": run.summary.thresholds,
        "near": NEAR,
        "hasGroups": run.cluster_of is not None,
        "compared": baseline is not None,
        "labelled": bool(labelled_statements(run)),
        "jury": bool(run.manifest.judge.jury),
        "samples": run.summary.samples,
        "worst": [
            [row - 1, score.metric]
            for row, _, score in worst_samples(run, list(run.summary.metrics), _WORST_ON_PAPER)
        ],
    }
    blocks = data_blocks(run, baseline)
    first_screen |= {"by": inputs.by, "slices": parts}
    return page_parts(
        "page.html",
        styles=_STYLES,
        scripts=_SCRIPTS,
        config=config,
        blocks=blocks,
        **first_screen,
    )


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
    metrics, groups, side = (
        run.summary.metrics,
        run.cluster_of,
        ComparedRun(run, run.summary.metrics),
    )
    partners = _Baseline(baseline, side) if baseline is not None else None
    statements = labelled_statements(run)
    evidence = EvidenceBySample(run)
    for position, (sample, scores) in enumerate(run.iter_scored_samples()):
        verdicts = {metric: side.verdicts(metric, position) for metric in scores}
        labelled = {
            metric: [*with_labels(run, rows, statements)] for metric, rows in verdicts.items()
        }
        question = (sample.user_input or sample.response or sample.reference or "")[
            :_LETTERS_OF_A_QUESTION
        ]
        outcomes = [_outcome(scores.get(metric)) for metric in metrics]
        row: list[Any] = [
            sample.id,
            question,
            None if groups is None else groups[sample.id],
            outcomes,
        ]
        details: dict[str, Values] = {
            name: {
                "outcome": describe_outcome(score),
                "why": explain_score(score, verdicts[name]) if score.status == "scored" else "",
                "verdicts": [_labelled_values(sample, verdict) for verdict in labelled[name]],
            }
            for name, score in scores.items()
        }
        for name, of_verdicts in evidence.values_of(sample, verdicts).items():
            details[name]["evidence"] = of_verdicts
        values: Values = {"id": sample.id, "texts": _text_values(sample), "metrics": details}
        if partners:
            row.append([partners.score(position, metric) for metric in metrics])
            values["before"] = partners.values(position, sample, verdicts)
        if statements:
            row += [None] * (not partners)
            row.append([_largest_certainty(labelled.get(metric, ())) for metric in metrics])
        if run.manifest.judge.jury:
            row += [None] * (_PLACE_OF_DIVISION - len(row))
            row.append([any(map(_is_divided, verdicts.get(metric, ()))) for metric in metrics])
        yield row, values


def _outcome(score: ScoreRow | None) -> float | str | None:
    if score is None:
        return None
    return score.status[0] if score.score is None else round(score.score, _SCORE_DIGITS)


def _text_values(sample: Sample) -> Values:
    texts: Values = {
        field: getattr(sample, field) for field in ("user_input", "reference", "response")
    }
    for field in CONTEXT_FIELDS:
        if (contexts := getattr(sample, field)) is not None:
            include = {"text", "id", "score"}
            texts[field] = [
                context.model_dump(include=include, exclude_none=True) for context in contexts
            ]
    return {field: value for field, value in texts.items() if value is not None}


def _verdict_values(sample: Sample, verdict: VerdictRow) -> list[Any]:
    text = getattr(sample, verdict.source)
    if verdict.source_index is not None:
        text = "".join(context_texts(text)[verdict.source_index : verdict.source_index + 1])
    ends = (browser_offset(text or "", place) for place in (verdict.start, verdict.end))
    return [
        verdict.source,
        verdict.source_index,
        *ends,
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
    return _rounded(
        max((each.certainty for each in verdicts if each.certainty is not None), default=None)
    )


def _is_divided(verdict: VerdictRow) -> bool:
    return verdict.judges is not None and is_divided(verdict.judges)


def _rounded(p_yes: float | None) -> float | None:
    return None if p_yes is None else round(p_yes, _PROBABILITY_DIGITS)


class _Baseline:
    """Partners of a run's samples in the baseline, by position in the run."""

    def __init__(self, baseline: RunRecord, side: ComparedRun) -> None:
        self._side = ComparedRun(
            baseline, [metric for metric in side.scores if metric in baseline.summary.metrics]
        )
        self._partner = {
            pair.after: pair.before for pair in pair_samples(self._side.samples, side.samples)
        }

    def score(self, position: int, metric: str) -> float | None:
        partner = self._partner.get(position)
        score = None if partner is None else self._side.score(metric, partner)
        return None if score is None else round(score, _SCORE_DIGITS)

    def values(
        self, position: int, sample: Sample, verdicts: Mapping[str, list[VerdictRow]]
    ) -> Values | None:
        """Return changed fields, scores and verdicts, or None for a sample missing in the baseline."""
        if (partner := self._partner.get(position)) is None:
            return None
        old = self._side.run.sample_at(partner)
        old_texts, texts = _text_values(old), _text_values(sample)
        differ = {
            name: old_texts.get(name)
            for name in old_texts | texts
            if old_texts.get(name) != texts.get(name)
        }
        metrics = {}
        for metric in self._side.scores:
            old_rows, rows = self._side.verdicts(metric, partner), verdicts[metric]
            changes = unit_changes(old_rows, rows, same_content=not differ)
            was = [
                [change.before, _rounded(change.p_before)] for change in islice(changes, len(rows))
            ]
            metrics[metric] = {"score": self.score(position, metric), "was": was}
            if differ or len(changes) != len(rows):  # the old verdicts have other positions
                metrics[metric]["verdicts"] = [_verdict_values(old, row) for row in old_rows]
        return {"id": old.id, "texts": differ, "metrics": metrics}
