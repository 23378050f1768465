"""What doctor finds, and the models on this machine."""

from rich.text import Text

from localjudge.doctor.check_result import ADMISSION, CheckResult, Diagnosis
from localjudge.doctor.inventory import Inventory, ListedJury, ListedModel
from localjudge.labels.recommended_uses import recommendation
from localjudge.report.terminal import Table, safe_text
from localjudge.types import readable
from localjudge.words import numbered, printable

_STATUS_STYLE = {"ok": "green", "warning": "yellow", "failed": "red"}
_STATUS_WIDTH = len("warning")
_NAME_WIDTH = len("reasons before")
"""The widths align separately printed checks."""
_DIGITS = 12


def check_view(check: CheckResult) -> Table:
    """Return one finding of doctor: status, name, and finding with advice."""
    status = Text(f"{check.status:<{_STATUS_WIDTH}}", style=_STATUS_STYLE[check.status])
    finding = safe_text(check.finding)
    if check.advice:
        finding.append(f"\n-> {printable(check.advice)}", style="bold")
    return Table(rows=[(status, Text(f"{check.name:<{_NAME_WIDTH}}"), finding)])


def conclusion_view(diagnosis: Diagnosis) -> Table:
    """Return the counts of doctor's findings, skipped checks, and the recommended uses."""
    statuses = [check.status for check in diagnosis.checks]
    warnings = numbered(statuses.count("warning"), "warning")
    lines = [f"{statuses.count('ok')} ok, {warnings}, {statuses.count('failed')} failed"]
    if diagnosis.not_made:
        lines.append(f"skipped: {', '.join(diagnosis.not_made)}")
    for check in diagnosis.checks:
        uses = check.figures.get("uses")
        if check.name == ADMISSION and uses:
            parts: list[str] = []
            for task, names in uses.items():
                parts.append(f"{task}: {recommendation(names)}")
            line = "; ".join(parts)
            if check.judge:
                line = f"{check.judge}: {line}"
            lines.append(line)
    return Table(notes=lines)


def model_list(inventory: Inventory, *, verbose: bool) -> str:
    """List usable models in unwrapped lines and, if `verbose`, other files with reasons."""
    juries = [(jury.name, jury_facts(jury)) for jury in inventory.juries if not jury.missing]
    judges: list[tuple[str, str]] = []
    unusable: list[tuple[str, str]] = []
    for model in inventory.models:
        if model.cannot_judge is None:
            judges.append((model.name, model_facts(model)))
        elif model.cannot_judge:
            unusable.append((model.name, model.cannot_judge))
    for entry in inventory.skipped:
        unusable.append((entry.where, entry.reason))
    entries = [*juries, *judges]
    if verbose:
        entries += unusable
    lines: list[str] = []
    for name, text in entries:
        lines += [f" {printable(name)}", f"   {printable(text)}"]
    count = f" {numbered(len(judges), 'model')} that can be loaded as a judge"
    if inventory.free_bytes is not None:
        count += f"; {readable(inventory.free_bytes)} of memory free"
    lines.append(count)
    if unusable:
        line = f" {numbered(len(unusable), 'more model')} cannot be used"
        if not verbose:
            line += " (--verbose shows why)"
        lines.append(line)
    return "\n".join(lines) + "\n"


def jury_facts(jury: ListedJury) -> str:
    """Return what a jury consists of, its size and memory."""
    parts = f"{' and '.join(jury.judges)} together"
    if jury.is_default:
        parts += ", the default"
    sizes = f"{readable(jury.size or 0)}, needs {readable(jury.needed_bytes or 0)}"
    return f"{parts}: {sizes}, one at a time"


def model_facts(model: ListedModel) -> str:
    """Return the size, format, kind and memory of a model."""
    if model.outputs:
        kind = f"classifier ({', '.join(model.outputs)})"
    elif model.chat_template:
        kind = "chat template"
    else:
        kind = "no chat template"
    memory = f"needs {readable(model.needed_bytes or 0)}"
    if model.fits is False:
        memory += ", more than is free"
    facts = [readable(model.size)]
    if model.quantisation:
        facts.append(model.quantisation)
    facts += [f"context {model.context:,}", kind, memory]
    if model.sha256:
        facts.append(f"sha256 {model.sha256[:_DIGITS]}")
    return ", ".join(facts)
