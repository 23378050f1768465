"""One line of the doctor's table: what was checked, the finding, and the advice.

Imports no library that may be missing.
"""

from collections.abc import Sequence
from typing import Any, Literal, get_args

from pydantic import Field

from localjudge.types import Record

Use = Literal["ranking", "means", "thresholds"]
"""Uses of a judge, each including those before it: compare systems, read a mean as a share, decide one verdict."""
USES: tuple[Use, ...] = get_args(Use)
ADMISSION = "admission"
"""Name of the last check, which lists the recommended uses."""
ANOTHER_JUDGE = "name a larger or better trained model (--judge)"
LABELS_INSTEAD = "; or label statements of a run: labels correct the mean of any judge (localjudge label)"
Status = Literal["ok", "warning", "failed"]


class HealthCheck(Record):
    """A finding. `figures` contains its numbers for programs."""

    name: str
    status: Status
    finding: str
    advice: str | None = None
    figures: dict[str, Any] = Field(default_factory=dict)


class Diagnosis(Record):
    """All findings in order. `result` is the worst status, `not_made` lists checks that were skipped or impossible."""

    schema_version: int = 1
    judge: str
    result: Status
    checks: tuple[HealthCheck, ...]
    not_made: tuple[str, ...] = ()


def ok(name: str, finding: str, /, **figures: Any) -> HealthCheck:
    """Create a finding without problems."""
    return HealthCheck(name=name, status="ok", finding=finding, figures=figures)


def warning(name: str, finding: str, advice: str, /, *, when: bool = True, **figures: Any) -> HealthCheck:
    """Create a warning with advice; the judge remains usable. Creates an ok finding unless `when`."""
    if not when:
        return ok(name, finding, **figures)
    return HealthCheck(name=name, status="warning", finding=finding, advice=advice, figures=figures)


def failed(name: str, finding: str, advice: str | None, /, **figures: Any) -> HealthCheck:
    """Create a finding that makes the judge unusable."""
    return HealthCheck(name=name, status="failed", finding=finding, advice=advice, figures=figures)


def fit_for(uses: Sequence[str]) -> str:
    """Format `fit for ranking and means`, or `not fit` without uses."""
    *most, last = uses or [""]
    if not last:
        return "not fit"
    return f"fit for {', '.join(most)} and {last}" if most else f"fit for {last}"
