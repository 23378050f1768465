"""The result of a check of `doctor`. Imports no library that may be missing."""

from typing import Any, Literal

from pydantic import Field

from localjudge.types import Record

ADMISSION = "admission"
ANOTHER_JUDGE = "name a larger or better trained model (--judge)"
LABELS_INSTEAD = (
    "; or label statements of a run: labels correct the mean of any judge (localjudge label)"
)
Status = Literal["ok", "warning", "failed"]


class CheckResult(Record):
    """What a check found, with its numbers for programs.

    `judge` names one of several judges, or the jury that they are.
    """

    name: str
    status: Status
    finding: str
    advice: str | None = None
    figures: dict[str, Any] = Field(default_factory=dict)
    judge: str = ""

    @property
    def title(self) -> str:
        """The name, after that of one of several judges."""
        if self.judge:
            return f"{self.judge}: {self.name}"
        return self.name


class Diagnosis(Record):
    """All results in order. `result` is the worst status, `not_made` lists skipped checks."""

    schema_version: int = 1
    judge: str
    result: Status
    checks: tuple[CheckResult, ...]
    not_made: tuple[str, ...] = ()


def ok(name: str, finding: str, /, **figures: Any) -> CheckResult:
    return CheckResult(name=name, status="ok", finding=finding, figures=figures)


def warning(name: str, finding: str, advice: str, /, **figures: Any) -> CheckResult:
    return CheckResult(name=name, status="warning", finding=finding, advice=advice, figures=figures)


def failed(name: str, finding: str, advice: str | None, /, **figures: Any) -> CheckResult:
    return CheckResult(name=name, status="failed", finding=finding, advice=advice, figures=figures)


def warn_if(
    is_problem: bool, name: str, finding: str, advice: str, /, **figures: Any
) -> CheckResult:
    """Return a warning with advice if there is a problem, else `ok`."""
    if is_problem:
        return warning(name, finding, advice, **figures)
    return ok(name, finding, **figures)
