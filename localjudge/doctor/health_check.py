"""How far a judge is looked at, and what for. It imports no library that a machine may lack.

One line of the doctor's table: what was looked at, what was found, and what to do if it is not as it should be.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, get_args

from pydantic import Field

from localjudge.errors import LocaljudgeError
from localjudge.types import Record

Use = Literal["ranking", "means", "thresholds"]
"""What a judge may be fit for, each with those before it: to compare systems, to read a mean as a share, to decide one
verdict."""
USES: tuple[Use, ...] = get_args(Use)
ADMISSION = "admission"
"""The check that says what a judge is fit for: the last one."""


def fit_for(uses: Sequence[str]) -> str:
    """`fit for ranking and means`."""
    *most, last = uses or [""]
    if not last:
        return "not fit"
    return f"fit for {', '.join(most)} and {last}" if most else f"fit for {last}"


class Extent(NamedTuple):
    """How many attempts and items are put to the judge, None: by its speed; and what it has to be fit for."""

    injections: int | None = None
    probes: int | None = None
    required: Use | None = None


Status = Literal["ok", "warning", "failed"]
_GRAVITY: dict[Status, int] = {"ok": 0, "warning": 1, "failed": 2}


class HealthCheck(Record):
    """A finding. `figures` holds the numbers behind it, for programs."""

    name: str
    status: Status
    found: str
    advice: str | None = None
    figures: dict[str, Any] = Field(default_factory=dict)


class Diagnosis(Record):
    """All findings on one judge, in the order in which they were made."""

    schema_version: int = 1
    judge: str
    result: Status
    """The gravest status of a check."""
    checks: tuple[HealthCheck, ...]
    not_made: tuple[str, ...] = ()
    """Checks that were left out, or that need what failed."""


def worst_status(checks: Iterable[HealthCheck]) -> Status:
    """The gravest status; ok for no checks."""
    return max((check.status for check in checks), key=_GRAVITY.__getitem__, default="ok")


def ok(name: str, found: str, /, **figures: Any) -> HealthCheck:
    """A finding as it should be."""
    return HealthCheck(name=name, status="ok", found=found, figures=figures)


def warning(name: str, found: str, advice: str, /, **figures: Any) -> HealthCheck:
    """A finding that a user should know of; the judge can be used."""
    return HealthCheck(name=name, status="warning", found=found, advice=advice, figures=figures)


def failed(name: str, found: str, advice: str | None, /, **figures: Any) -> HealthCheck:
    """A finding with which the judge cannot be used."""
    return HealthCheck(name=name, status="failed", found=found, advice=advice, figures=figures)


def failed_with(name: str, error: LocaljudgeError) -> HealthCheck:
    """A failure in the words of the error."""
    return failed(name, error.message, error.hint)
