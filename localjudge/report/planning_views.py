"""What to know before a run: metrics, models, doctor's findings, figures on labels, an estimate."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.text import Text

from localjudge.doctor.checks import ADMISSION, CheckResult, Diagnosis
from localjudge.doctor.inventory import Inventory, ListedJury, ListedModel
from localjudge.judging.estimate import Estimate, Needed
from localjudge.labels.judge_figures import recommendation
from localjudge.metrics.catalog import MetricDescription
from localjudge.report.terminal import Table, number, safe_text
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.measured_judges import Calibration, Figure, LabelsUsed, name_task
from localjudge.types import readable
from localjudge.words import numbered, printable, roughly

_STATUS_STYLE = {"ok": "green", "warning": "yellow", "failed": "red"}
_STATUS_WIDTH = len("warning")
_NAME_WIDTH = len("reasons before")
"""The widths align separately printed checks."""
_DIGITS = 12
_FIGURES = {"auc": "AUC", "gain": "gain in balanced accuracy"}
_LEGEND = (
    "* computed by default; of several metrics for one question, the first with all its columns in "
    "the data.",
    "verdicts: the parts of each sample that get a verdict.",
)


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
                parts.append(f"{name_task(task)}: {recommendation(names)}")
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


def calibrations_view(calibrations: Sequence[Calibration]) -> list[Table]:
    """Return a table of judges for each question with a recommendation.

    A single judge of a question is shown with all its figures.
    """
    tables: list[Table] = []
    for _, group in groupby(calibrations, key=lambda calibration: calibration.question):
        judges = list(group)
        if len(judges) == 1:
            tables += calibration_view(judges[0])
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
        tables.append(Table(headings, rows, notes, titles=[best.question]))
    return tables


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
    cautions: dict[str, None] = {}
    for judge in judges:
        if judge.card.caution:
            cautions[f"{judge.card.name}: {judge.card.caution}"] = None
    yield from cautions


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
        f"{labels.verdicts:,} labelled statements, {labels.positives:,} of them 1; "
        f"{labels.clusters:,} groups ({labels.clustered_by})"
    )


def calibration_view(calibration: Calibration) -> list[Table]:
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
    folds = calibration.fold_thresholds
    if not folds:
        threshold = "no threshold chosen"
    else:
        chosen = f"threshold {number(calibration.threshold)}, chosen on all labels"
        spread = f"{number(min(folds))} to {number(max(folds))}"
        by_folds = f"thresholds of {len(folds)} folds, {spread}, each chosen on the other groups"
        threshold = f"{chosen}; held out: {by_folds}"
    return [
        Table(titles=[title], notes=about),
        Table(rows=figures),
        Table(("", "at 0.5", "held out"), decisions, [threshold]),
        Table(notes=remarks),
    ]


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


def estimate_view(estimate: Estimate) -> Table:
    """Return the estimate, with what is stored already and the samples that gates need."""
    rows = [
        ("samples", f"{estimate.samples:,}"),
        ("metrics", ", ".join(estimate.metrics)),
        ("verdicts", f"{estimate.verdicts:,}, with {estimate.requests:,} distinct questions"),
    ]
    answered = _describe_answered(estimate)
    if answered:
        rows.append(("answered", answered))
    rows.append(("tokens", f"{estimate.tokens:,} distinct, each evaluated once"))
    rows.append(("time", _describe_time(estimate)))
    memory = f"about {readable(estimate.memory_bytes)}"
    if estimate.workers:
        rows.append(("on", estimate.workers))
        memory += " here, and as much for each worker"
    rows.append(("memory", memory))
    for aim in estimate.until:
        rows.append(("to judge", f"{_describe_aim(aim, estimate)} ({aim.aim})"))
    return Table(rows=rows)


def _describe_answered(estimate: Estimate) -> str:
    """Return how many questions have an answer, stored before or by this estimate, and where."""
    parts: list[str] = []
    places: list[str] = []
    for name, count in estimate.reused.items():
        if count:
            places.append(f"{count:,} in {excerpt(name)}")
    if places:
        parts.append(f"{estimate.requests - estimate.remaining:,} before ({', '.join(places)})")
    if estimate.measured:
        place = excerpt(estimate.directory)
        parts.append(f"{estimate.measured:,} now, kept in {place}, which the run uses")
    if not parts:
        return ""
    return f"{' and '.join(parts)}; {estimate.remaining - estimate.measured:,} remain"


def _describe_time(estimate: Estimate) -> str:
    """Return the time, and what it was measured on."""
    time = "none: no question remains"
    if estimate.seconds is not None:
        time = roughly(estimate.seconds, estimate.seconds_ci95)
    if not estimate.measured:
        return time
    time += f": measured on {estimate.measured:,} of {estimate.remaining:,} questions"
    if not estimate.seconds_ci95:
        time += ", too few for an interval"
    return time


def _describe_aim(aim: Needed, estimate: Estimate) -> str:
    """Return the samples and the time until a gate is decided."""
    needs = "unknown"
    if aim.samples is not None:
        needs = f"about {numbered(aim.samples, 'sample')}"
    if aim.samples is not None and aim.samples > estimate.samples:
        return f"{needs}, more than the {estimate.samples:,} of the run"
    if aim.seconds:
        return f"{needs}, {roughly(aim.seconds)}"
    return needs


def metric_list(metrics: Sequence[MetricDescription]) -> list[Table]:
    """Return what each metric asks, needs and costs."""
    tables: list[Table] = []
    for metric in metrics:
        remarks: list[str] = []
        if metric.instructions:
            remarks.append("needs a judge that follows instructions")
        if metric.lower_is_better:
            remarks.append("lower is better")
        options: list[str] = []
        for name, values in metric.options.items():
            options.append(f"{name}={'|'.join(values) or 'TEXT'}")
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
        tables.append(Table(rows=rows, titles=[f"{mark} {metric.name}"], indent=4))
    return [*tables, Table(notes=_LEGEND)]
