"""What the doctor found, as a person reads it.

ok       model file      reference-judge.gguf, 10.7 MiB, sha256 4844085b4a92 as pinned in the registry
warning  plain cases     9 of 16 obvious cases right ...; a coin does as well
                         -> name a larger ... model (--judge)

13 ok, 1 warning, 0 failed
attribution: fit for ranking; relevance: not fit
"""

from collections import Counter

from rich.console import Group, RenderableType
from rich.text import Text

from localjudge.doctor.extent import ADMISSION, fit_for
from localjudge.doctor.health_check import Diagnosis, HealthCheck
from localjudge.report.table_layout import Table, line
from localjudge.report.terminal import safe, safe_text

_STYLE = {"ok": "green", "warning": "yellow", "failed": "red"}
_STATUS_WIDTH, _NAME_WIDTH = 7, 14
"""Of `warning` and of `reasons before`: each check is printed by itself, and they stand below each other."""


def check_view(check: HealthCheck) -> RenderableType:
    """One row: status, name, what was found, and under that what to do."""
    status = Text(f"{check.status:<{_STATUS_WIDTH}}", style=_STYLE[check.status])
    return Table((), [(status, f"{check.name:<{_NAME_WIDTH}}", _finding(check))])


def conclusion_view(found: Diagnosis) -> RenderableType:
    """The count of each status, what was not looked at, and last what the judge is fit for."""
    counted = Counter(check.status for check in found.checks)
    warnings = "1 warning" if counted["warning"] == 1 else f"{counted['warning']} warnings"
    lines = [f"{counted['ok']} ok, {warnings}, {counted['failed']} failed"]
    if found.not_made:
        lines.append(f"not made: {', '.join(found.not_made)}")
    lines += [fit for check in found.checks if check.name == ADMISSION and (fit := _fit(check))]
    return Group(Text(), *map(line, lines))


def _fit(admission: HealthCheck) -> str:
    """The uses of each task in one line; "" where they are undecided."""
    uses: dict[str, list[str]] = admission.figures.get("uses") or {}
    return "; ".join(f"{task}: {fit_for(names)}" for task, names in uses.items())


def _finding(check: HealthCheck) -> Text:
    text = safe_text(check.found)
    if check.advice:
        text.append(f"\n-> {safe(check.advice)}", style="bold")
    return text
