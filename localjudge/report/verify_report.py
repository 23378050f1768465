"""Check that the report in a run directory equals the page generated from the run, byte for byte.

The page stores its other inputs (`html_page.ReportInputs`), including its lines on verification and
examination.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from localjudge.analysis.check import check
from localjudge.errors import LocaljudgeError
from localjudge.judging.verify import REPORT, ReportCheck
from localjudge.report.html_page import ReportInputs, hash_labels, page, writer
from localjudge.run_directory.directory import (
    MAX_OBJECT_BYTES,
    decoded_object,
    excerpt,
    open_regular,
)
from localjudge.run_directory.run_record import RunRecord, as_run

_CONFIG = re.compile(rb'<script type="application/json" id="config">(.*?)</script>', re.DOTALL)


def check_report(run: RunRecord) -> ReportCheck:
    """Return whether the report in the run directory is unchanged."""
    path = run.directory / REPORT
    if not os.path.lexists(path):
        return ReportCheck(note="none in the run directory")
    try:
        return _compare(run, path)
    except LocaljudgeError as error:
        return ReportCheck(problem=f"it cannot be written again: {excerpt(error.message)}")
    except ValidationError:
        return ReportCheck(problem="its inputs are missing or invalid")


def _compare(run: RunRecord, path: Path) -> ReportCheck:
    with open_regular(path) as file:
        config = _CONFIG.search(file.read(MAX_OBJECT_BYTES))
    if config is None:
        inputs = ReportInputs.model_validate(None)
    else:
        inputs = ReportInputs.model_validate(decoded_object(config[1], path).get("inputs"))
    baseline: RunRecord | None = None
    if inputs.baseline:
        baseline = as_run(run.directory / inputs.baseline)
    if inputs.writer != writer():
        written = f"written by {excerpt(inputs.writer)}, this is {writer()}"
        return ReportCheck(note=f"not checked: {written}")
    if inputs.labels != hash_labels(run, baseline):
        return ReportCheck(note="not checked: written with other labels; write it again")
    checked = check(
        run,
        gates=inputs.gates,
        baseline=baseline,
        undecided=inputs.undecided,
        allow_different=inputs.allow_different,
    )
    if not _has_parts(path, page(run, checked, baseline, inputs)):
        return ReportCheck(problem="it differs from the page of the run")
    note = "unchanged; its lines on verification and examination cannot be checked"
    return ReportCheck(note=note, is_unchanged=True)


def _has_parts(path: Path, parts: Iterator[str]) -> bool:
    """Return whether the file consists of these parts."""
    with open_regular(path) as file:
        for part in parts:
            content = part.encode()
            if file.read(len(content)) != content:
                return False
        return not file.read(1)
