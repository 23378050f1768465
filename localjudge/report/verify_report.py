"""Check that the report in a run directory equals the page generated from the run, byte for byte.

The page stores its other inputs (`html_page.ReportInputs`), including its lines on verification and
examination.
"""

import os
import re
from pathlib import Path

from pydantic import ValidationError

from localjudge.analysis.check import check
from localjudge.errors import LocaljudgeError
from localjudge.judging.verify import REPORT, ReportCheck
from localjudge.report.html_page import ReportInputs, hash_labels, page, writer
from localjudge.run_directory.directory import (
    MOST_BYTES_OF_OBJECT,
    decoded_object,
    excerpt,
    open_regular,
)
from localjudge.run_directory.run_record import RunRecord, as_run

_CONFIG = re.compile(rb'<script type="application/json" id="config">(.*?)</script>', re.DOTALL)


def check_report(run: RunRecord) -> ReportCheck:
    path = run.directory / REPORT
    if not os.path.lexists(path):
        return ReportCheck(note="none in the run directory")
    try:
        return _compared(run, path)
    except LocaljudgeError as error:
        return ReportCheck(problem=f"it cannot be written again: {excerpt(error.message)}")
    except ValidationError:
        return ReportCheck(problem="its inputs are missing or invalid")


def _compared(run: RunRecord, path: Path) -> ReportCheck:
    with open_regular(path) as file:
        config = _CONFIG.search(file.read(MOST_BYTES_OF_OBJECT))
    inputs = ReportInputs.model_validate(
        (decoded_object(config[1], path) if config else {}).get("inputs")
    )
    baseline = as_run(run.directory / inputs.baseline) if inputs.baseline else None
    if inputs.writer != (now := writer()):
        return ReportCheck(note=f"not checked: written by {excerpt(inputs.writer)}, this is {now}")
    if inputs.labels != hash_labels(run, baseline):
        return ReportCheck(note="not checked: written with other labels; write it again")
    checked = check(
        run,
        gates=inputs.gates,
        baseline=baseline,
        undecided=inputs.undecided,
        allow_different=inputs.allow_different,
    )
    with open_regular(path) as file:
        parts = (part.encode() for part in page(run, checked, baseline, inputs))
        if all(file.read(len(part)) == part for part in parts) and not file.read(1):
            return ReportCheck(
                note="unchanged; its lines on verification and examination cannot be checked",
                is_unchanged=True,
            )
    return ReportCheck(problem="it differs from the page of the run")
