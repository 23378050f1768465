"""Views of judges: doctor findings, verifications, labels, calibrations, metrics, models."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.text import Text

from localjudge.doctor.health_check import ADMISSION, Diagnosis, HealthCheck
from localjudge.doctor.inventory import Inventory, ListedModel
from localjudge.engine.hardware import readable
from localjudge.judging.verify import REPORT, Verification
from localjudge.judging.verify_labels import LabelsCheck
from localjudge.labels.labelling import Labelling
from localjudge.labels.read_labels import LabelsRead
from localjudge.labels.recommended_uses import recommendation
from localjudge.labels.units import AnswerAround
from localjudge.metrics.catalog import MetricDescription
from localjudge.report.terminal import Table, View, number, safe_text, terminal
from localjudge.run_directory.calibration import Calibration, Figure, LabelsUsed
from localjudge.run_directory.label_rows import LABELS
from localjudge.words import call, numbered, printable, printable_lines

KEYS = {"1": "yes", "0": "no", "?": "cannot tell", "s": "skip", "u": "undo", "q": "quit"}
KEYS_LINE = ", ".join(f"{key} {what}" for key, what in KEYS.items())
_STYLE = {
    **{"ok": "green", "warning": "yellow", "failed": "red"},
    **{"bit-identical": "green", "same verdicts": "yellow", "different": "red"},
}
_STATUS_WIDTH, _NAME_WIDTH = 7, 14
"""Widths of `warning` and `reasons before`, which align separately printed checks."""
_LEGEND = (
    "* computed by default; of several metrics for one question, the first with all its columns in the data.",
    "verdicts: the parts of each sample that get a verdict.",
)
_DIGITS = 12
_PLACES_SHOWN = 3
_CHECKSUM = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
_FIGURES = {"auc": "AUC", "gain": "gain in balanced accuracy"}


def check_view(check: HealthCheck) -> Table:
    status = Text(f"{check.status:<{_STATUS_WIDTH}}", style=_STYLE[check.status])
    finding = safe_text(check.finding)
    if check.advice:
        finding.append(f"\n-> {printable(check.advice)}", style="bold")
    return Table(rows=[(status, Text(f"{check.name:<{_NAME_WIDTH}}"), finding)])


def conclusion_view(diagnosis: Diagnosis) -> View:
    counts = Counter(check.status for check in diagnosis.checks)
    lines = [
        f"{counts['ok']} ok, {numbered(counts['warning'], 'warning')}, {counts['failed']} failed",
    ]
    if diagnosis.not_made:
        lines.append(f"skipped: {', '.join(diagnosis.not_made)}")
    for check in diagnosis.checks:
        if check.name == ADMISSION and (uses := check.figures.get("uses")):
            lines.append(
                "; ".join(f"{task}: {recommendation(names)}" for task, names in uses.items())
            )
    return View([Table(), Table(notes=lines)])


def metric_list(metrics: Sequence[MetricDescription]) -> View:
    return View([*map(_metric_table, metrics), Table(notes=_LEGEND)])


def _metric_table(metric: MetricDescription) -> Table:
    remarks = ["needs a judge that follows instructions"] if metric.instructions else []
    remarks += ["lower is better"] if metric.lower_is_better else []
    lines = {
        "asks": metric.about.question,
        "needs": ", ".join(metric.fields),
        "options": ", ".join(
            f"{name}={'|'.join(values) or 'TEXT'}" for name, values in metric.options.items()
        ),
        "verdicts": metric.about.unit,
        "source": metric.about.source,
        "remark": "; ".join(remarks),
    }
    rows = [(Text(name, style="dim"), text) for name, text in lines.items() if text]
    return Table(
        rows=rows, titles=[f"{'*' if metric.default_metrics else ' '} {metric.name}"], indent=4
    )


def model_list(inventory: Inventory, *, verbose: bool) -> str:
    """List usable models in unwrapped lines and, if `verbose`, other files with reasons."""
    judges = [
        (model.name, model_facts(model)) for model in inventory.models if model.cannot_judge is None
    ]
    unusable = [
        (model.name, model.cannot_judge) for model in inventory.models if model.cannot_judge
    ]
    unusable += [(entry.where, entry.reason) for entry in inventory.skipped]
    entries = [*judges, *(unusable if verbose else ())]
    lines = [f" {printable(name)}\n   {printable(text)}" for name, text in entries]
    room = (
        "" if inventory.free_bytes is None else f"; {readable(inventory.free_bytes)} of memory free"
    )
    lines.append(f" {numbered(len(judges), 'model')} that can be loaded as a judge{room}")
    if unusable:
        advice = "" if verbose else " (--verbose shows why)"
        lines.append(f" {numbered(len(unusable), 'more file')} cannot be used{advice}")
    return "".join(f"{line}\n" for line in lines)


def model_facts(model: ListedModel) -> str:
    kind = "chat template" if model.chat_template else "no chat template"
    if model.outputs:
        kind = f"classifier ({', '.join(model.outputs)})"
    facts = (
        readable(model.size),
        model.quantisation,
        f"context {model.context:,}",
        kind,
        f"needs {readable(model.needed_bytes or 0)}{', more than is free' if model.fits is False else ''}",
        model.sha256 and f"sha256 {model.sha256[:_DIGITS]}",
    )
    return ", ".join(fact for fact in facts if fact)


def verification_view(verification: Verification) -> Table:
    changed = list(_change_lines(verification))
    name = "not verified" if verification.result == "different" else verification.result
    headline = safe_text(
        f"{name}: {_headline(verification, changed)}", style=_STYLE[verification.result]
    )
    lines: list[str | Text] = [headline, f"judge {verification.judge}"]
    if verification.other_machine:
        lines.append(
            "this machine's processor differs from the run's: equal bytes are promised only on the same kind",
        )
    for title, changes in (
        ("changed since the run", verification.judge_changes),
        ("changed in the stored data", verification.data_changes),
    ):
        said = (
            f"{title}: {item.ingredient}: {item.before} then, {item.after} now" for item in changes
        )
        lines += [_CHECKSUM.sub(r"\1", line) for line in said]
    if not changed:
        lines.append("data, requests and result files are unchanged")
    lines += _labels_lines(verification.labels)
    if verification.report.note:
        lines.append(f"{REPORT}: {verification.report.note}")
    return Table(notes=lines)


def _labels_lines(labels: LabelsCheck) -> Iterator[str]:
    if labels.problems:
        yield "labels: altered"
        return
    if labels.current is None or not labels.current.rows:
        yield "labels: none"
        return
    rows = labels.current.rows
    changes = "first verification, so earlier changes would go unnoticed"
    if labels.verified:
        added = numbered(rows - labels.verified.rows, "row")
        day = labels.verified.when[:10]
        changes = f"{added} added since the verification of {day}, the others are unchanged"
    yield f"labels: {numbered(rows, 'row')}; {changes}"
    for name, mean in labels.means.corrected.items() if labels.means else ():
        if mean.mean is not None and mean.ci95:
            low, high = mean.ci95
            yield f"corrected by {numbered(mean.labels, 'label')}: {name} {mean.mean:.3f}, {low:.3f} - {high:.3f}"


def _headline(verification: Verification, changed: Sequence[str]) -> str:
    stored, again, identical = (
        verification.stored_requests,
        verification.asked_again,
        verification.identical,
    )
    if not stored:
        return "; ".join(["the run asked its judge no questions", *changed])
    asked = f"{again:,} of {stored:,} stored answers repeated"
    if again == identical:
        repeats = f"the judge repeats {'all ' if again == stored else ''}{again:,} answers, but {'; '.join(changed)}"
        return repeats if changed else f"{asked}, every bit the same"
    moved = f"{verification.verdicts_moved:,} of {verification.verdicts:,} verdicts changed"
    largest = (
        f"probabilities moved by at most {verification.largest_move:.2g} (--json lists the rows)"
    )
    return "; ".join([f"{asked}, {identical:,} the same", f"{moved}, {largest}", *changed])


def _change_lines(verification: Verification) -> Iterator[str]:
    if verification.data_changes:
        yield "the stored data was changed"
    if verification.altered_requests:
        yield f"{verification.altered_requests:,} stored requests differ from the run's: run.sqlite was changed"
    for name, places in verification.files.items():
        more = ", ..." if len(places) > _PLACES_SHOWN else ""
        yield f"{name} was changed ({', '.join(places[:_PLACES_SHOWN])}{more})"


def row_view(row: Mapping[str, Any], labelled: int, total: int) -> View:
    answer, contexts = row.get("source_text"), row.get("contexts")
    texts = {"user_input": row.get("user_input")}
    texts |= {
        f"context {n}": text
        for n, text in enumerate(contexts if isinstance(contexts, list) else (), 1)
    }
    texts |= {
        name: row.get(name)
        for name in ("reference", "response")
        if not answer or name != answer.field
    }
    about = [
        (Text("" if number else name, style="dim"), line)
        for name, text in texts.items()
        if isinstance(text, str)
        for number, line in enumerate(filter(str.strip, text.splitlines()))
    ]
    metric, asks, unit = (str(row.get(name)) for name in ("metric", "asks", "text"))
    return View(
        [
            Table(titles=[f"{labelled:,} of {total:,} answered   {metric}"], notes=[asks]),
            Table(
                rows=[
                    *about,
                    *([(Text(answer.field, style="dim"), _marked(answer))] if answer else []),
                ]
            ),
            Table(titles=[f"> {unit}"]),
            Table(notes=[Text(KEYS_LINE, style="dim")]),
        ]
    )


def _marked(answer: AnswerAround) -> Text:
    before, statement, after = map(printable_lines, answer[1:])
    shown = statement if terminal().color_system else f"[[{statement}]]"
    return Text.assemble(before, (shown, "bold underline"), after)


def ended_view(labelling: Labelling) -> Table:
    lines = (
        [f"{len(labelling.rows):,} left: run the same command to resume"] if labelling.rows else []
    )
    if not labelling.rows and not labelling.disputed:
        lines.append(
            f"to draw more: {call('label', str(labelling.run.directory), 'sample', 2 * labelling.total)}",
        )
    title = f"{labelling.labelled:,} of {labelling.total:,} answered, stored in {labelling.run.directory / LABELS}"
    return Table(titles=[title], notes=lines)


def read_view(taken: Mapping[str, LabelsRead]) -> Table:
    lines = []
    for source, labels in taken.items():
        counts = {
            "changed": labels.changed,
            "withdrawn": labels.withdrawn,
            "already stored": labels.known,
            "older than the current label": labels.older,
        }
        parts = [
            numbered(labels.new, "new label"),
            *(f"{n:,} {words}" for words, n in counts.items() if n),
        ]
        parts += (
            [f"{numbered(labels.unlabelled, 'row')} without a label"] if labels.unlabelled else []
        )
        lines.append(f"{source}: {', '.join(parts)}")
        lines += [f"warning: {remark}" for remark in labels.remarks]
    return Table(notes=lines)


def calibrations_view(calibrations: Sequence[Calibration]) -> View:
    """Return a table of judges for each question with a recommendation, or all figures of a single judge."""
    tables = []
    for _, of_question in groupby(calibrations, key=lambda calibration: calibration.question):
        judges = list(of_question)
        tables += [
            *(calibration_view(judges[0]) if len(judges) == 1 else ()),
            _judges_table(judges),
        ]
    return View(tables)


def _judges_table(judges: Sequence[Calibration]) -> Table:
    names, best = Counter(judge.card.name for judge in judges), judges[0]
    rows = [
        (
            judge.card.name if names[judge.card.name] == 1 else judge.name,
            _figure_cell(judge.figures.get("auc"), ".2f"),
            _figure_cell(judge.at_one_half.get("bias"), "+.2f"),
            "-" if judge.worth is None or judge.guesses else f"{judge.worth.labels:,}",
            "-" if judge.seconds_per_verdict is None else f"{judge.seconds_per_verdict:.2g}",
            judge.fit_for[-1] if judge.fit_for else "none",
        )
        for judge in judges
    ]
    notes = ["bias: share judged 1 minus share labelled 1, at 0.5; seconds: per verdict"]
    if best.worth and not best.guesses:
        notes.append(
            f"saved: labels needed in addition to {best.worth.of} for the same interval width without the judge",
        )
    if len(judges) > 1:
        shared = [
            remark for remark in best.remarks if all(remark in judge.remarks for judge in judges)
        ]
        cautions = [
            f"{judge.card.name}: {judge.card.caution}" for judge in judges if judge.card.caution
        ]
        notes = [_labels_line(best.labels), *notes, *shared, *dict.fromkeys(cautions)]
    headings = ("judge", "AUC", "bias", "saved", "seconds", "use for")
    return Table(
        headings,
        rows,
        [*notes, Text(_advice(best, rows[0][0]), style="bold")],
        titles=[best.question],
    )


def _advice(best: Calibration, name: str | Text) -> str:
    if best.guesses or best.worth is None:
        return "no judge is shown to be better than guessing: try another one"
    labels, of, uses = (
        best.worth.labels,
        best.worth.of,
        f"without labels it is {recommendation(best.fit_for)}",
    )
    if not labels:
        return f"{name} is better than guessing, but saves no labels; {uses}"
    return f"use {name}: with it, {of} labels do the work of {of + labels}; {uses}"


def _figure_cell(figure: Figure | None, form: str) -> str | Text:
    if figure is None:
        return "-"
    low, high = figure.ci95
    return Text(f"{figure.value:{form}}\n[{low:{form}}, {high:{form}}]", justify="right")


def _labels_line(labels: LabelsUsed) -> str:
    return (
        f"{labels.verdicts:,} labelled verdicts, {labels.positives:,} of them 1; "
        f"{labels.clusters:,} groups ({labels.clustered_by})"
    )


def calibration_view(calibration: Calibration) -> View:
    lines = [f"judge {calibration.card}", _labels_line(calibration.labels)]
    sides, folds = (calibration.at_one_half, calibration.held_out), calibration.fold_thresholds
    decisions = [
        (_figure_name(name), *(_figure_text(side.get(name)) for side in sides))
        for name in dict.fromkeys(name for side in sides for name in side)
    ]
    threshold = (
        f"threshold {number(calibration.threshold)}, chosen on all labels; held out: thresholds of {len(folds)} folds, "
        f"{number(min(folds))} to {number(max(folds))}, each chosen on the other groups"
        if folds
        else "no threshold chosen"
    )
    notes = [
        *(f"{_figure_name(name)}: {why}" for name, why in calibration.undefined.items()),
        *calibration.remarks,
    ]
    return View(
        [
            Table(titles=[f"calibration {calibration.name}: {calibration.question}"], notes=lines),
            Table(
                rows=[
                    (_figure_name(name), _figure_text(figure))
                    for name, figure in calibration.figures.items()
                ]
            ),
            Table(("", "at 0.5", "held out"), decisions, [threshold]),
            Table(notes=notes),
        ]
    )


def _figure_text(figure: Figure | None) -> str:
    return (
        ""
        if figure is None
        else f"{number(figure.value)} [{number(figure.ci95[0])}, {number(figure.ci95[1])}]"
    )


def _figure_name(name: str) -> str:
    """Format `held_out.bias` as `bias, held out`."""
    where, _, bare = name.rpartition(".")
    words = _FIGURES.get(bare, bare.replace("_", " "))
    return f"{words}, {where.replace('_', ' ')}" if where else words
