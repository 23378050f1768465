"""What the doctor found, as a person reads it.

ok       model file      reference-judge.gguf, 10.7 MiB, sha256 4844085b4a92 as pinned in the registry
warning  plain cases     9 of 16 obvious cases right ...; a coin does as well
                         -> name a larger ... model (--judge)

13 ok, 1 warning, 0 failed
attribution: fit for ranking; relevance: not fit

The metrics that there are, one block each: what it asks, what it needs and costs, where it comes from.

* context_recall
    asks      sentence of the reference: can it be attributed to the retrieved contexts?
    needs     reference, retrieved_contexts
    verdicts  sentences of the reference
    source    RAGAS context_recall

The models on this machine, two lines each: what a judge is named by, and what is known of the file.

 ollama:qwen3:8b
   4.9 GiB, Q4_K_M, context 40,960, chat template, takes 6.1 GiB, sha256 a3de86cd1c13

Plain lines, which no table cuts or folds: a name is there to be copied.

What came of judging a run again.

same verdicts: 2,318 of 2,318 stored answers asked for again, 2,290 the same; 0 of 2,318 verdicts moved, ...
this machine is of another kind than the run's: bytes are promised per kind of processor, not across; ...
changed since: engine.system: ...
data, requests and result files are as the run left them
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from localjudge.doctor.health_check import ADMISSION, Diagnosis, HealthCheck, fit_for
from localjudge.doctor.inventory import Inventory, ListedModel
from localjudge.engine.hardware import readable
from localjudge.metrics.catalog import MetricDescription
from localjudge.report.terminal import Table, line, safe, safe_text
from localjudge.run.verify import RowChange, Verification

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


_LEGEND = (
    "* computed where no metric is named: the first of those for one question whose columns the data has.",
    "verdicts: the judge gives one for each of these, in every sample.",
)


def metric_list(metrics: Sequence[MetricDescription]) -> RenderableType:
    """A block for each metric, and what the marks mean."""
    return Group(*map(_block, metrics), *(line(text, "dim") for text in _LEGEND))


def _block(metric: MetricDescription) -> RenderableType:
    rows = [(Text(name, style="dim"), text) for name, text in _lines(metric)]
    heading = line(f"{'*' if metric.first_picture else ' '} {metric.name}", "bold")
    return Group(heading, Padding(Table((), rows), (0, 0, 1, 4)))


def _lines(metric: MetricDescription) -> Iterator[tuple[str, str]]:
    options = ", ".join(f"{name}={'|'.join(values) or 'TEXT'}" for name, values in metric.options.items())
    remarks = {
        "only a judge that reads instructions can be asked": metric.instructions,
        "lower is better": metric.lower_is_better,
    }
    lines = {
        "asks": metric.about.asks,
        "needs": ", ".join(metric.fields),
        "options": options,
        "verdicts": metric.about.verdicts,
        "source": metric.about.source,
        "remark": "; ".join(remark for remark, holds in remarks.items() if holds),
    }
    return ((name, text) for name, text in lines.items() if text)


_DIGITS = 12


def model_list(found: Inventory, *, verbose: bool) -> str:
    """The models that can judge; those that cannot and what was skipped, counted, or with their reasons."""
    judges = [(model.name, _facts(model)) for model in found.models if model.cannot_judge is None]
    left_out = [(model.name, model.cannot_judge) for model in found.models if model.cannot_judge is not None]
    left_out += [(entry.where, entry.reason) for entry in found.skipped]
    blocks = [*judges, *left_out] if verbose else judges
    lines = [line for name, said in blocks for line in (f" {safe(name)}", f"   {safe(said)}")]
    lines += [f" {line}" for line in _conclusion(len(judges), len(left_out), found.free_bytes, verbose=verbose)]
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


def _conclusion(judges: int, left_out: int, free: int | None, *, verbose: bool) -> Iterator[str]:
    room = "" if free is None else f"; {readable(free)} of memory are free"
    yield f"{judges:,} model{'s' * (judges != 1)} that can be loaded as a judge{room}"
    if left_out:
        advice = "" if verbose else ": --verbose says why"
        yield f"{left_out:,} more {'was' if left_out == 1 else 'were'} found and cannot be used{advice}"


_VERIFICATION_STYLE = {"bit-identical": "green", "same verdicts": "yellow", "different": "red"}
_RESULT = {"bit-identical": "bit-identical", "same verdicts": "same verdicts", "different": "not verified"}
_ROWS_SHOWN = 20
_PLACES_SHOWN = 3
_CHECKSUM = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")


def verification_view(found: Verification) -> RenderableType:
    """The result, what it rests on, which ingredients changed, and the rows that differ."""
    parts: list[RenderableType] = [
        line(f"{_RESULT[found.result]}: {_headline(found)}", _VERIFICATION_STYLE[found.result])
    ]
    parts += map(line, _verification_lines(found))
    if found.rows:
        parts += [Text(), Table((), [_row(row) for row in found.rows[:_ROWS_SHOWN]])]
    if len(found.rows) > _ROWS_SHOWN:
        parts.append(line(f"and {len(found.rows) - _ROWS_SHOWN:,} more rows (--json lists all)"))
    return Group(*parts)


def _headline(found: Verification) -> str:
    if found.combined_from:
        return "; ".join(["the same runs were combined again", *_changed(found)])
    if not found.stored_requests:
        return "; ".join(["the run asked its judge nothing", *_changed(found)])
    repeats = found.asked_again == found.identical
    if repeats and found.result == "different":
        every = f"all {found.asked_again:,}" if found.asked_again == found.stored_requests else f"{found.asked_again:,}"
        return f"the judge repeats {every} answers, but {'; '.join(_changed(found))}"
    asked = f"{found.asked_again:,} of {found.stored_requests:,} stored answers asked for again"
    if repeats:
        return f"{asked}, every bit the same" if found.asked_again else asked
    moved = (
        f"{asked}, {found.identical:,} the same; {found.verdicts_moved:,} of {found.verdicts:,} verdicts moved, "
        f"probabilities by at most {found.largest_move:.2g}"
    )
    return "; ".join([moved, *_changed(found)])


def _changed(found: Verification) -> Iterator[str]:
    """What in the directory is not as the run left it."""
    if found.data_changes:
        yield "the stored data was changed"
    if found.altered_requests:
        yield f"{found.altered_requests:,} stored requests are not what was asked: run.sqlite was changed"
    for name, places in found.files.items():
        more = ", ..." if len(places) > _PLACES_SHOWN else ""
        yield f"{name} was changed ({', '.join(places[:_PLACES_SHOWN])}{more})"


def _verification_lines(found: Verification) -> Iterator[str]:
    yield f"judge {found.judge}"
    if found.other_machine:
        yield (
            "this machine is of another kind than the run's: bytes are promised per kind of processor, not across; "
            f"{found.verdicts_moved:,} of {found.verdicts:,} verdicts moved"
        )
    if not found.isolated and found.identical < found.asked_again:
        yield (
            "its judge is not isolated: bits may depend on what else a server is asked; --accept verdicts is content "
            "with the same verdicts"
        )
    for change in found.judge_changes:
        yield f"changed since: {change.ingredient}: {_cut(change.before)} then, {_cut(change.after)} now"
    for change in found.data_changes:
        there, stored = _cut(change.before), _cut(change.after)
        yield f"stored data is not the manifest's: {change.ingredient}: {there} there, {stored} stored"
    if not any(_changed(found)):
        yield "data, requests and result files are as the run left them"
    if found.combined_from:
        yield f"combined from {' and '.join(found.combined_from)}: verify each of them, too"
    yield f"signature {found.signature}"


def _row(row: RowChange) -> tuple[str | Text, ...]:
    labels = Text(f"{_shown(row.before)} -> {_shown(row.after)}", style="red" if row.moved else "")
    probabilities = f"{_shown(row.p_before)} -> {_shown(row.p_after)}"
    return labels, probabilities, f"{row.sample_id} {row.metric} {row.position}: {row.text}"


def _cut(value: object) -> str:
    """The value, of checksums the beginning."""
    return _CHECKSUM.sub(r"\1", str(value))


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.6f}"
