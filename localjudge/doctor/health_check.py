"""One line of the doctor's table: what was looked at, what was found, and what to do if it is not as it should be.

Imports no library that a machine may lack.
"""

from collections.abc import Sequence
from typing import Any, Literal, get_args

from pydantic import Field

from localjudge.types import Record

Use = Literal["ranking", "means", "thresholds"]
"""What a judge may be fit for, each with those before it: to compare systems, to read a mean as a share, to decide one
verdict."""
USES: tuple[Use, ...] = get_args(Use)
ADMISSION = "admission"
"""The check that says what a judge is fit for: the last one."""
ANOTHER_JUDGE = "name a larger or better trained model (--judge)"
Status = Literal["ok", "warning", "failed"]


class HealthCheck(Record):
    """A finding. `figures` holds the numbers behind it, for programs."""

    name: str
    status: Status
    finding: str
    advice: str | None = None
    figures: dict[str, Any] = Field(default_factory=dict)


class Diagnosis(Record):
    """All findings in their order; `result` is the gravest status, `not_made` what was left out or could not be."""

    schema_version: int = 1
    judge: str
    result: Status
    checks: tuple[HealthCheck, ...]
    not_made: tuple[str, ...] = ()


def ok(name: str, finding: str, /, **figures: Any) -> HealthCheck:
    """A finding as it should be."""
    return HealthCheck(name=name, status="ok", finding=finding, figures=figures)


def warning(name: str, finding: str, advice: str, /, *, when: bool = True, **figures: Any) -> HealthCheck:
    """A finding that a user should know of, with what to do; the judge can be used. Ok unless `when`."""
    if not when:
        return ok(name, finding, **figures)
    return HealthCheck(name=name, status="warning", finding=finding, advice=advice, figures=figures)


def failed(name: str, finding: str, advice: str | None, /, **figures: Any) -> HealthCheck:
    """A finding with which the judge cannot be used."""
    return HealthCheck(name=name, status="failed", finding=finding, advice=advice, figures=figures)


def fit_for(uses: Sequence[str]) -> str:
    """`fit for ranking and means`; `not fit`."""
    *most, last = uses or [""]
    if not last:
        return "not fit"
    return f"fit for {', '.join(most)} and {last}" if most else f"fit for {last}"
