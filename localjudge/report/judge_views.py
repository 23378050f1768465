"""Views of judges: doctor findings, verifications, labels, calibrations, metrics, models."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.text import Text

from localjudge.doctor.check_result import ADMISSION, CheckResult, Diagnosis
from localjudge.doctor.inventory import Inventory, ListedModel
from localjudge.engine.hardware import readable
from localjudge.judging.verify import REPORT, Verification
from localjudge.judging.verify_labels import LabelsCheck
from localjudge.labels.closest_sentences import ClosestSentence
from localjudge.labels.labelling import Labelling
from localjudge.labels.read_labels import LabelsRead
from localjudge.labels.recommended_uses import recommendation
from localjudge.labels.units import AnswerAround
from localjudge.metrics.catalog import MetricDescription
from localjudge.report.terminal import Table, View, number, safe_text, terminal
from localjudge.run_directory.calibration import Calibration, Figure, LabelsUsed
from localjudge.run_directory.differences import Difference
from localjudge.run_directory.label_rows import LABELS
from localjudge.words import call, numbered, printable, printable_lines

KEYS = {
    "1": "yes",
    "0": "no",
    "?": "cannot tell",
    "e": "evidence",
    "s": "skip",
    "u": "undo",
    "q": "quit",
}
KEYS_LINE = ", ".join(f"{key} {what}" for key, what in KEYS.items())
_STATUS_STYLE = {"ok": "green", "warning": "yellow", "failed": "red"}
_RESULT_STYLE = {"bit-identical": "green", "same verdicts": "yellow", "different": "red"}
_STATUS_WIDTH = len("warning")
_NAME_WIDTH = len("reasons before")
"""The widths align separately printed checks."""
_LEGEND = (
    "* computed by default; of several metrics for one question, the first with all its columns in "
    "the data.",
    "verdicts: the parts of each sample that get a verdict.",
)
_DIGITS = 12
_PLACES_SHOWN = 3
_CHECKSUM = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
_FIGURES = {"auc": "AUC", "gain": "gain in balanced accuracy"}


def check_view(check: CheckResult) -> Table:
    """Return one finding of doctor: status, name, and finding with advice."""
    status = Text(f"{check.status:<{_STATUS_WIDTH}}", style=_STATUS_STYLE[check.status])
    finding = safe_text(check.finding)
    if check.advice:
        finding.append(f"\n-> {printable(check.advice)}", style="bold")
    return Table(rows=[(status, Text(f"{check.name:<{_NAME_WIDTH}}"), finding)])


def conclusion_view(diagnosis: Diagnosis) -> View:
    """Return the counts of doctor's findings, skipped checks, and the recommended uses."""
    counts = Counter(check.status for check in diagnosis.checks)
    warnings = numbered(counts["warning"], "warning")
    lines = [f"{counts['ok']} ok, {warnings}, {counts['failed']} failed"]
    if diagnosis.not_made:
        lines.append(f"skipped: {', '.join(diagnosis.not_made)}")
    for check in diagnosis.checks:
        uses = check.figures.get("uses")
        if check.name == ADMISSION and uses:
            parts = [f"{task}: {recommendation(names)}" for task, names in uses.items()]
            lines.append("; ".join(parts))
    return View([Table(), Table(notes=lines)])


def metric_list(metrics: Sequence[MetricDescription]) -> View:
    """Return what each metric asks, needs and costs."""
    return View([*map(_metric_table, metrics), Table(notes=_LEGEND)])


def _metric_table(metric: MetricDescription) -> Table:
    remarks: list[str] = []
    if metric.instructions:
        remarks.append("needs a judge that follows instructions")
    if metric.lower_is_better:
        remarks.append("lower is better")
    options = [f"{name}={'|'.join(values) or 'TEXT'}" for name, values in metric.options.items()]
    lines = {
        "asks": metric.about.question,
        "needs": ", ".join(metric.fields),
        "options": ", ".join(options),
        "verdicts": metric.about.unit,
        "source": metric.about.source,
        "remark": "; ".join(remarks),
    }
    rows = [(Text(name, style="dim"), text) for name, text in lines.items() if text]
    mark = "*" if metric.default_metrics else " "
    return Table(rows=rows, titles=[f"{mark} {metric.name}"], indent=4)


def model_list(inventory: Inventory, *, verbose: bool) -> str:
    """List usable models in unwrapped lines and, if `verbose`, other files with reasons."""
    judges: list[tuple[str, str]] = []
    unusable: list[tuple[str, str]] = []
    for model in inventory.models:
        if model.cannot_judge is None:
            judges.append((model.name, model_facts(model)))
        elif model.cannot_judge:
            unusable.append((model.name, model.cannot_judge))
    unusable += [(entry.where, entry.reason) for entry in inventory.skipped]
    entries = list(judges)
    if verbose:
        entries += unusable
    lines = [f" {printable(name)}\n   {printable(text)}" for name, text in entries]
    count = f" {numbered(len(judges), 'model')} that can be loaded as a judge"
    if inventory.free_bytes is not None:
        count += f"; {readable(inventory.free_bytes)} of memory free"
    lines.append(count)
    if unusable:
        line = f" {numbered(len(unusable), 'more file')} cannot be used"
        if not verbose:
            line += " (--verbose shows why)"
        lines.append(line)
    return "".join(f"{line}\n" for line in lines)


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


def verification_view(verification: Verification) -> Table:
    """Return the result of a verification, with everything that changed since the run."""
    changes = list(_change_lines(verification))
    name: str = verification.result
    if verification.result == "different":
        name = "not verified"
    headline = f"{name}: {_headline(verification, changes)}"
    lines: list[str | Text] = [safe_text(headline, style=_RESULT_STYLE[verification.result])]
    lines.append(f"judge {verification.judge}")
    if verification.other_machine:
        lines.append(
            "this machine's processor differs from the run's: equal bytes are promised only on the "
            "same kind",
        )
    lines += _difference_lines("changed since the run", verification.judge_changes)
    lines += _difference_lines("changed in the stored data", verification.data_changes)
    if not changes:
        lines.append("data, requests and result files are unchanged")
    lines += _labels_lines(verification.labels)
    if verification.report.note:
        lines.append(f"{REPORT}: {verification.report.note}")
    return Table(notes=lines)


def _difference_lines(title: str, differences: Sequence[Difference]) -> Iterator[str]:
    """Yield what was changed, with shortened checksums."""
    for item in differences:
        line = f"{title}: {item.ingredient}: {item.before} then, {item.after} now"
        yield _CHECKSUM.sub(r"\1", line)


def _labels_lines(labels: LabelsCheck) -> Iterator[str]:
    """Yield whether the labels are unchanged, and the means that they correct."""
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
    if not labels.means:
        return
    for name, mean in labels.means.corrected.items():
        if mean.mean is not None and mean.ci95:
            low, high = mean.ci95
            value = f"{mean.mean:.3f}, {low:.3f} - {high:.3f}"
            yield f"corrected by {numbered(mean.labels, 'label')}: {name} {value}"


def _headline(verification: Verification, changes: Sequence[str]) -> str:
    """Return the number of repeated answers, and what else was changed."""
    stored = verification.stored_requests
    again = verification.asked_again
    identical = verification.identical
    if not stored:
        return "; ".join(["the run asked its judge no questions", *changes])
    if again == identical and changes:
        answers = f"{again:,} answers"
        if again == stored:
            answers = f"all {answers}"
        return f"the judge repeats {answers}, but {'; '.join(changes)}"
    repeated = f"{again:,} of {stored:,} stored answers repeated"
    if again == identical:
        return f"{repeated}, every bit the same"
    moved = f"{verification.verdicts_moved:,} of {verification.verdicts:,} verdicts changed"
    largest = f"probabilities moved by at most {verification.largest_move:.2g}"
    listed = f"{moved}, {largest} (--json lists the rows)"
    return "; ".join([f"{repeated}, {identical:,} the same", listed, *changes])


def _change_lines(verification: Verification) -> Iterator[str]:
    """Yield what was changed in the run directory."""
    if verification.data_changes:
        yield "the stored data was changed"
    if verification.altered_requests:
        altered = f"{verification.altered_requests:,} stored requests"
        yield f"{altered} differ from the run's: run.sqlite was changed"
    for name, places in verification.files.items():
        listed = ", ".join(places[:_PLACES_SHOWN])
        if len(places) > _PLACES_SHOWN:
            listed += ", ..."
        yield f"{name} was changed ({listed})"


def row_view(row: Mapping[str, Any], labelled: int, total: int) -> View:
    """Return a statement to label, below the texts to compare it with."""
    answer: AnswerAround | None = row.get("source_text")
    cells: list[tuple[Text, str | Text]] = []
    for name, text in _texts_to_compare(row, answer):
        cells += _field_cells(name, text)
    if answer:
        cells.append((Text(answer.field, style="dim"), _marked(answer)))
    metric = str(row.get("metric"))
    return View(
        [
            Table(
                titles=[f"{labelled:,} of {total:,} answered   {metric}"],
                notes=[str(row.get("asks"))],
            ),
            Table(rows=cells),
            Table(titles=[f"> {row.get('text')}"]),
            Table(notes=[Text(KEYS_LINE, style="dim")]),
        ]
    )


def closest_view(sentences: Sequence[ClosestSentence]) -> Table:
    """Return the sentences that come closest to a statement to label."""
    if not sentences:
        return Table(notes=["no evidence of this statement"])
    notes = [sentence.in_words for sentence in sentences]
    return Table(titles=["closest sentences by their words, without the judge"], notes=notes)


def _texts_to_compare(
    row: Mapping[str, Any], answer: AnswerAround | None
) -> Iterator[tuple[str, Any]]:
    """Yield the question, the contexts, and the answers except for the one around the statement."""
    yield "user_input", row.get("user_input")
    contexts = row.get("contexts")
    if isinstance(contexts, list):
        for number, text in enumerate(contexts, start=1):
            yield f"context {number}", text
    for name in ("reference", "response"):
        if not answer or name != answer.field:
            yield name, row.get(name)


def _field_cells(name: str, text: Any) -> Iterator[tuple[Text, str]]:
    """Yield the lines of a text without blank ones, the first with its name."""
    if not isinstance(text, str):
        return
    heading = name
    for line in text.splitlines():
        if line.strip():
            yield Text(heading, style="dim"), line
            heading = ""


def _marked(answer: AnswerAround) -> Text:
    """Return the answer with its statement in bold, or in brackets without colours."""
    before, statement, after = map(printable_lines, answer[1:])
    if not terminal().color_system:
        statement = f"[[{statement}]]"
    return Text.assemble(before, (statement, "bold underline"), after)


def ended_view(labelling: Labelling) -> Table:
    """Return the number of answers, and how to label more."""
    file = labelling.run.directory / LABELS
    title = f"{labelling.labelled:,} of {labelling.total:,} answered, stored in {file}"
    lines: list[str] = []
    if labelling.rows:
        lines.append(f"{len(labelling.rows):,} left: run the same command to resume")
    elif not labelling.disputed:
        command = call("label", str(labelling.run.directory), "sample", 2 * labelling.total)
        lines.append(f"to draw more: {command}")
    return Table(titles=[title], notes=lines)


def read_view(taken: Mapping[str, LabelsRead]) -> Table:
    """Return the numbers of labels read from each source."""
    lines: list[str] = []
    for source, labels in taken.items():
        lines.append(f"{source}: {', '.join(_describe_labels_read(labels))}")
        lines += [f"warning: {remark}" for remark in labels.remarks]
    return Table(notes=lines)


def _describe_labels_read(labels: LabelsRead) -> Iterator[str]:
    yield numbered(labels.new, "new label")
    counts = {
        "changed": labels.changed,
        "withdrawn": labels.withdrawn,
        "already stored": labels.known,
        "older than the current label": labels.older,
    }
    for words, count in counts.items():
        if count:
            yield f"{count:,} {words}"
    if labels.unlabelled:
        yield f"{numbered(labels.unlabelled, 'row')} without a label"


def calibrations_view(calibrations: Sequence[Calibration]) -> View:
    """Return a table of judges for each question with a recommendation.

    A single judge of a question is shown with all its figures.
    """
    tables: list[Table] = []
    for _, group in groupby(calibrations, key=lambda calibration: calibration.question):
        judges = list(group)
        if len(judges) == 1:
            tables += calibration_view(judges[0])
        tables.append(_judges_table(judges))
    return View(tables)


def _judges_table(judges: Sequence[Calibration]) -> Table:
    """Return a row for each judge of a question, the best one first, and a recommendation."""
    best = judges[0]
    names = Counter(judge.card.name for judge in judges)
    rows: list[tuple[str | Text, ...]] = []
    for judge in judges:
        name = judge.card.name
        if names[name] > 1:
            name = judge.name
        rows.append((name, *_judge_cells(judge)))
    notes: list[str | Text] = list(_judges_notes(judges))
    notes.append(Text(_advice(best, rows[0][0]), style="bold"))
    headings = ("judge", "AUC", "bias", "saved", "seconds", "use for")
    return Table(headings, rows, notes, titles=[best.question])


def _judge_cells(judge: Calibration) -> Iterator[str | Text]:
    yield _figure_cell(judge.figures.get("auc"), ".2f")
    yield _figure_cell(judge.at_one_half.get("bias"), "+.2f")
    if judge.savings is None or judge.guesses:
        yield "-"
    else:
        yield f"{judge.savings.labels:,}"
    if judge.seconds_per_verdict is None:
        yield "-"
    else:
        yield f"{judge.seconds_per_verdict:.2g}"
    if judge.fit_for:
        yield judge.fit_for[-1]
    else:
        yield "none"


def _judges_notes(judges: Sequence[Calibration]) -> Iterator[str]:
    """Yield what the columns mean. For several judges, also the labels, remarks and cautions."""
    best = judges[0]
    is_comparison = len(judges) > 1
    if is_comparison:
        yield _labels_line(best.labels)
    yield "bias: share judged 1 minus share labelled 1, at 0.5; seconds: per verdict"
    if best.savings and not best.guesses:
        extra = f"labels needed in addition to {best.savings.of}"
        yield f"saved: {extra} for the same interval width without the judge"
    if not is_comparison:
        return
    for remark in best.remarks:
        if all(remark in judge.remarks for judge in judges):
            yield remark
    cautions = [
        f"{judge.card.name}: {judge.card.caution}" for judge in judges if judge.card.caution
    ]
    yield from dict.fromkeys(cautions)


def _advice(best: Calibration, name: str | Text) -> str:
    if best.guesses or best.savings is None:
        return "no judge is shown to be better than guessing: try another one"
    saved = best.savings.labels
    labels = best.savings.of
    uses = f"without labels it is {recommendation(best.fit_for)}"
    if not saved:
        return f"{name} is better than guessing, but saves no labels; {uses}"
    return f"use {name}: with it, {labels} labels do the work of {labels + saved}; {uses}"


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
    """Return all figures of a judge: of its probabilities, and of its decisions at thresholds."""
    title = f"calibration {calibration.name}: {calibration.question}"
    about = [f"judge {calibration.card}", _labels_line(calibration.labels)]
    figures: list[tuple[str, str]] = []
    for name, figure in calibration.figures.items():
        figures.append((_figure_name(name), _figure_text(figure)))
    at_one_half = calibration.at_one_half
    held_out = calibration.held_out
    decisions: list[tuple[str, str, str]] = []
    for name in dict.fromkeys([*at_one_half, *held_out]):
        half = _figure_text(at_one_half.get(name))
        decisions.append((_figure_name(name), half, _figure_text(held_out.get(name))))
    remarks: list[str] = []
    for name, reason in calibration.undefined.items():
        remarks.append(f"{_figure_name(name)}: {reason}")
    remarks += calibration.remarks
    return View(
        [
            Table(titles=[title], notes=about),
            Table(rows=figures),
            Table(("", "at 0.5", "held out"), decisions, [_describe_threshold(calibration)]),
            Table(notes=remarks),
        ]
    )


def _describe_threshold(calibration: Calibration) -> str:
    folds = calibration.fold_thresholds
    if not folds:
        return "no threshold chosen"
    chosen = f"threshold {number(calibration.threshold)}, chosen on all labels"
    spread = f"{number(min(folds))} to {number(max(folds))}"
    held_out = f"thresholds of {len(folds)} folds, {spread}, each chosen on the other groups"
    return f"{chosen}; held out: {held_out}"


def _figure_text(figure: Figure | None) -> str:
    if figure is None:
        return ""
    low, high = map(number, figure.ci95)
    return f"{number(figure.value)} [{low}, {high}]"


def _figure_name(name: str) -> str:
    """Format `held_out.bias` as `bias, held out`."""
    where, _, bare = name.rpartition(".")
    words = _FIGURES.get(bare, bare.replace("_", " "))
    if not where:
        return words
    return f"{words}, {where.replace('_', ' ')}"
