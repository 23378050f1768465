"""Write a run as one private, self-contained HTML page.

    page.html     template of `overview`, works without scripts, then with the worst samples only
    page_data     all samples, for the scripts

The same run, baseline and gates give the same bytes with the same build of zlib, in any directory
of the same name.

`check_report` compares the page with one generated again, byte for byte. The page stores its other
inputs (`overview.ReportInputs`), including its lines on verification and examination.
"""

import os
import re
import zlib
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from pydantic import ValidationError

from localjudge.analysis.breakdowns import slices
from localjudge.analysis.check import Check, Undecided, check
from localjudge.errors import LocaljudgeError
from localjudge.judging.verify import REPORT, ReportCheck
from localjudge.labels.run_labels import labelled_statements, read_run_labels
from localjudge.metrics import catalog
from localjudge.report.overview import ReportInputs, Values, list_metrics, overview
from localjudge.report.page_data import data_blocks
from localjudge.report.private_page import name_run, page_parts, write_page
from localjudge.report.quoted_metrics import quote_metrics
from localjudge.report.summary_views import ABOUT_EVIDENCE, evidence_tables, slices_table
from localjudge.report.worst_samples import WorstSample, static_samples, worst_samples
from localjudge.run_directory.comparison_directory import ComparisonDirectory
from localjudge.run_directory.directory import (
    MAX_OBJECT_BYTES,
    decoded_object,
    excerpt,
    open_regular,
)
from localjudge.run_directory.files import last_verification
from localjudge.run_directory.label_rows import label_file
from localjudge.run_directory.run_record import RunRecord, as_run
from localjudge.run_directory.summary import NEAR
from localjudge.words import as_typed, call

_CONFIG = re.compile(rb'<script type="application/json" id="config">(.*?)</script>', re.DOTALL)
_STYLES = ("base.css", "page.css", "samples.css", "paper.css")
_SCRIPTS = ("elements.js", "blocks.js", "evidence.js", "details.js", "selection.js", "samples.js")
_WORST_ON_PAPER = 10
DIFFERS = "it differs from the page of the run"
INVALID_INPUTS = "its inputs are missing or invalid"


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
    inputs = _collect_inputs(run, checked, baseline, title, by)
    write_page(path, page(run, checked, baseline, inputs), kind="report")
    return path


def _collect_inputs(
    run: RunRecord,
    checked: Check,
    baseline: RunRecord | None,
    title: str | None,
    by: str | None,
) -> ReportInputs:
    """Return the inputs of a report written now."""
    undecided: Undecided = "fail"
    for decision in checked.decisions:
        if decision.outcome == "undecided" and decision.passed:
            undecided = "pass"
    relative: str | None = None
    if baseline is not None:
        relative = os.path.relpath(baseline.directory, run.directory)
    named = _directory_of_both(run, baseline) or run.directory
    return ReportInputs(
        writer=writer(),
        title=title,
        gates=tuple(decision.gate for decision in checked.decisions),
        undecided=undecided,
        baseline=relative,
        labels=hash_labels(run, baseline),
        verification=last_verification(run.directory),
        examined=run.judge.examined,
        by=by,
        allow_different=checked.allow_different,
        name=name_run(named.resolve()),
    )


def writer() -> str:
    """Return what decides about the bytes of a report besides its inputs."""
    return f"localjudge {version('localjudge')}, zlib {zlib.ZLIB_RUNTIME_VERSION}"


def hash_labels(run: RunRecord, baseline: RunRecord | None) -> tuple[str, ...]:
    """Return the sha256 of the labels of each run, and of those of both together."""
    directories = [run.directory]
    if baseline is not None:
        directories.append(baseline.directory)
    both = _directory_of_both(run, baseline)
    if both is not None:
        directories.append(both)
    return tuple(label_file(directory).sha256 for directory in directories)


def _directory_of_both(run: RunRecord, baseline: RunRecord | None) -> Path | None:
    """Return the directory of a run and its baseline if they judge two columns of one file."""
    if baseline is None:
        return None
    comparison = ComparisonDirectory.of_runs(baseline.directory, run.directory)
    if comparison is None:
        return None
    return comparison.path


def page(
    run: RunRecord,
    checked: Check,
    baseline: RunRecord | None,
    inputs: ReportInputs,
) -> Iterator[str]:
    """Yield the page in parts. The `inputs` of an earlier report reproduce it."""
    # Options are spelled as on the command line, so that the page does not depend on its writer.
    with as_typed():
        values = overview(run, checked, inputs)
        values["metric_tables"] = [("", values["metrics"])]
        if baseline is not None and checked.comparison and checked.comparison.directory:
            before = quote_metrics(baseline, read_run_labels(baseline))
            values["metric_tables"] = [
                (run.answer_column, values["metrics"]),
                (f"{baseline.answer_column}, the baseline", list_metrics(baseline, before)),
            ]
        values["slices"] = None
        values["evidence_tables"] = evidence_tables(run)
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
        about_evidence=ABOUT_EVIDENCE,
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


def check_report(run: RunRecord) -> ReportCheck:
    """Return whether the report in the run directory is unchanged."""
    path = run.directory / REPORT
    if not os.path.lexists(path):
        note = "none in the run directory"
        directory = run.directory.resolve()
        comparison = ComparisonDirectory.find(directory.parent)
        if comparison is not None and directory.name == comparison.baseline:
            note += f": the page of both runs is in {comparison.run}"
        return ReportCheck(note=note)
    try:
        return _compare(run, path)
    except LocaljudgeError as error:
        return ReportCheck(problem=f"it cannot be written again: {excerpt(error.message)}")
    except ValidationError:
        return ReportCheck(problem=INVALID_INPUTS)


def _compare(run: RunRecord, path: Path) -> ReportCheck:
    with open_regular(path) as file:
        config = _CONFIG.search(file.read(MAX_OBJECT_BYTES))
    if config is None:
        return ReportCheck(problem=INVALID_INPUTS)
    inputs = ReportInputs.model_validate(decoded_object(config[1], path).get("inputs"))
    baseline: RunRecord | None = None
    if inputs.baseline:
        baseline = as_run(run.directory / inputs.baseline)
    if inputs.writer != writer():
        written = f"written by {excerpt(inputs.writer)}, this is {writer()}"
        return ReportCheck(note=f"not checked: {written}")
    if inputs.labels != hash_labels(run, baseline):
        note = (
            f"not checked: it is older than the labels; write it again: {_command(run, baseline)}"
        )
        return ReportCheck(note=note)
    checked = check(
        run,
        gates=inputs.gates,
        baseline=baseline,
        undecided=inputs.undecided,
        allow_different=inputs.allow_different,
    )
    if not _has_parts(path, page(run, checked, baseline, inputs)):
        return ReportCheck(problem=DIFFERS)
    note = "unchanged; its lines on verification and examination cannot be checked"
    return ReportCheck(note=note, is_unchanged=True)


def _command(run: RunRecord, baseline: RunRecord | None) -> str:
    """Return the command that writes the report again."""
    both = _directory_of_both(run, baseline)
    if both is not None:
        return call("report", str(both), opened="RunPair")
    if baseline is None:
        return call("report", str(run.directory))
    return call("report", str(run.directory), baseline=str(baseline.directory))


def _has_parts(path: Path, parts: Iterator[str]) -> bool:
    """Return whether the file consists of these parts."""
    with open_regular(path) as file:
        for part in parts:
            content = part.encode()
            if file.read(len(content)) != content:
                return False
        return not file.read(1)
