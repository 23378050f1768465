"""The doctor's findings, the metrics and models that there are, and what came of judging a run again.

ok       model file      reference-judge.gguf, 10.7 MiB, sha256 4844085b4a92 as pinned in the registry
warning  plain cases     9 of 16 obvious cases right ...; a coin does as well
                         -> name a larger ... model (--judge)

same verdicts: 2,318 of 2,318 stored answers asked for again, 2,290 the same; 0 of 2,318 verdicts moved, ...
changed since: engine.system: ...
data, requests and result files are as the run left them
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.text import Text

from localjudge.doctor.health_check import ADMISSION, Diagnosis, HealthCheck, fit_for
from localjudge.doctor.machine import Inventory, ListedModel
from localjudge.engine.hardware import readable
from localjudge.metrics.catalog import MetricDescription
from localjudge.report.tables import label_cell
from localjudge.report.terminal import Table, View, safe_text
from localjudge.run.verify import RowChange, Verification
from localjudge.words import numbered, printable

_STATUS_STYLE = {"ok": "green", "warning": "yellow", "failed": "red"}
_STATUS_WIDTH, _NAME_WIDTH = 7, 14
"""Of `warning` and of `reasons before`: each check is printed by itself, and they stand below each other."""
_LEGEND = (
    "* computed where no metric is named: the first of those for one question whose columns the data has.",
    "verdicts: the judge gives one for each of these, in every sample.",
)
_DIGITS = 12
_RESULT = {
    "bit-identical": ("bit-identical", "green"),
    "same verdicts": ("same verdicts", "yellow"),
    "different": ("not verified", "red"),
}
_ROWS_SHOWN = 20
_PLACES_SHOWN = 3
_CHECKSUM = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")


def check_view(check: HealthCheck) -> Table:
    """One row: status, name, what was found, and under that what to do."""
    status = Text(f"{check.status:<{_STATUS_WIDTH}}", style=_STATUS_STYLE[check.status])
    finding = safe_text(check.found)
    if check.advice:
        finding.append(f"\n-> {printable(check.advice)}", style="bold")
    return Table(rows=[(status, Text(f"{check.name:<{_NAME_WIDTH}}"), finding)])


def conclusion_view(diagnosis: Diagnosis) -> View:
    """The count of each status, what was not looked at, and last what the judge is fit for in each task."""
    counts = Counter(check.status for check in diagnosis.checks)
    lines = [f"{counts['ok']} ok, {numbered(counts['warning'], 'warning')}, {counts['failed']} failed"]
    if diagnosis.not_made:
        lines.append(f"not made: {', '.join(diagnosis.not_made)}")
    for check in diagnosis.checks:
        if check.name == ADMISSION and (uses := check.figures.get("uses")):
            lines.append("; ".join(f"{task}: {fit_for(names)}" for task, names in uses.items()))
    return View([Table(), Table(notes=lines)])


def metric_list(metrics: Sequence[MetricDescription]) -> View:
    """A table for each metric, and what the marks mean."""
    legend = [safe_text(text, style="dim") for text in _LEGEND]
    return View([*map(_metric, metrics), Table(notes=legend)])


def _metric(metric: MetricDescription) -> Table:
    options = ", ".join(f"{name}={'|'.join(values) or 'TEXT'}" for name, values in metric.options.items())
    remarks = ["only a judge that reads instructions can be asked"] if metric.instructions else []
    remarks += ["lower is better"] if metric.lower_is_better else []
    lines = {
        "asks": metric.about.asks,
        "needs": ", ".join(metric.fields),
        "options": options,
        "verdicts": metric.about.verdicts,
        "source": metric.about.source,
        "remark": "; ".join(remarks),
    }
    rows = [(Text(name, style="dim"), text) for name, text in lines.items() if text]
    return Table(rows=rows, titles=[f"{'*' if metric.default_metrics else ' '} {metric.name}"], indent=4)


def model_list(inventory: Inventory, *, verbose: bool) -> str:
    """The models that can judge, two lines each; those that cannot and what was skipped, counted, or with the reasons.

    Plain lines, which no table cuts or folds: a name is there to be copied.
    """
    judges = [(model.name, _facts(model)) for model in inventory.models if model.cannot_judge is None]
    left_out = [(model.name, model.cannot_judge) for model in inventory.models if model.cannot_judge is not None]
    left_out += [(entry.where, entry.reason) for entry in inventory.skipped]
    lines = [
        f" {indent}{printable(text)}"
        for entry in (*judges, *(left_out if verbose else ()))
        for indent, text in zip(("", "  "), entry, strict=True)
    ]
    room = "" if inventory.free_bytes is None else f"; {readable(inventory.free_bytes)} of memory are free"
    lines.append(f" {numbered(len(judges), 'model')} that can be loaded as a judge{room}")
    if left_out:
        advice = "" if verbose else ": --verbose says why"
        lines.append(
            f" {len(left_out):,} more {'was' if len(left_out) == 1 else 'were'} found and cannot be used{advice}"
        )
    return "".join(f"{line}\n" for line in lines)


def _facts(model: ListedModel) -> str:
    facts = (
        readable(model.size),
        model.quantisation,
        f"context {model.context:,}",
        "chat template" if model.chat_template else "no chat template",
        f"takes {readable(model.needed_bytes or 0)}{', more than is free' if model.fits is False else ''}",
        model.sha256 and f"sha256 {model.sha256[:_DIGITS]}",
    )
    return ", ".join(fact for fact in facts if fact)


def verification_view(verification: Verification) -> View:
    """The result, what it rests on, which ingredients changed, and the rows that differ."""
    name, style = _RESULT[verification.result]
    headline = safe_text(f"{name}: {_headline(verification)}", style=style)
    rows = [_row(row) for row in verification.rows[:_ROWS_SHOWN]]
    more = len(verification.rows) - _ROWS_SHOWN
    notes = [f"and {more:,} more rows (--json lists all)"] if more > 0 else []
    return View(
        [Table(notes=[headline, *_verification_lines(verification)]), *([Table((), rows, notes)] if rows else [])]
    )


def _headline(verification: Verification) -> str:
    changed = list(_changed(verification))
    if verification.combined_from:
        return "; ".join(["the same runs were combined again", *changed])
    stored, again, identical = verification.stored_requests, verification.asked_again, verification.identical
    if not stored:
        return "; ".join(["the run asked its judge nothing", *changed])
    if again == identical and verification.result == "different":
        return f"the judge repeats {'all ' if again == stored else ''}{again:,} answers, but {'; '.join(changed)}"
    asked = f"{again:,} of {stored:,} stored answers asked for again"
    if again == identical:
        return f"{asked}, every bit the same" if again else asked
    moved = f"{verification.verdicts_moved:,} of {verification.verdicts:,} verdicts moved"
    largest = f"probabilities by at most {verification.largest_move:.2g}"
    return "; ".join([f"{asked}, {identical:,} the same", f"{moved}, {largest}", *changed])


def _changed(verification: Verification) -> Iterator[str]:
    """What in the directory is not as the run left it."""
    if verification.data_changes:
        yield "the stored data was changed"
    if verification.altered_requests:
        yield f"{verification.altered_requests:,} stored requests are not what was asked: run.sqlite was changed"
    for name, places in verification.files.items():
        more = ", ..." if len(places) > _PLACES_SHOWN else ""
        yield f"{name} was changed ({', '.join(places[:_PLACES_SHOWN])}{more})"


def _verification_lines(verification: Verification) -> Iterator[str]:
    yield f"judge {verification.judge}"
    if verification.other_machine:
        yield (
            "this machine is of another kind than the run's: bytes are promised per kind of processor, not across; "
            f"{verification.verdicts_moved:,} of {verification.verdicts:,} verdicts moved"
        )
    if not verification.isolated and verification.identical < verification.asked_again:
        yield (
            "its judge is not isolated: bits may depend on what else a server is asked; --accept verdicts is content "
            "with the same verdicts"
        )
    for change in verification.judge_changes:
        yield f"changed since: {change.ingredient}: {_cut(change.before)} then, {_cut(change.after)} now"
    for change in verification.data_changes:
        there, stored = _cut(change.before), _cut(change.after)
        yield f"stored data is not the manifest's: {change.ingredient}: {there} there, {stored} stored"
    if not any(_changed(verification)):
        yield "data, requests and result files are as the run left them"
    if verification.combined_from:
        yield f"combined from {' and '.join(verification.combined_from)}: verify each of them, too"
    yield f"signature {verification.signature}"


def _row(row: RowChange) -> tuple[str | Text, ...]:
    labels = Text(f"{label_cell(row.before)} -> {label_cell(row.after)}", style="red" if row.moved else "")
    before, after = ("-" if p_yes is None else f"{p_yes:.6f}" for p_yes in (row.p_before, row.p_after))
    return labels, f"{before} -> {after}", f"{row.sample_id} {row.metric} {row.position}: {row.text}"


def _cut(value: object) -> str:
    """The value, of checksums the beginning."""
    return _CHECKSUM.sub(r"\1", str(value))
