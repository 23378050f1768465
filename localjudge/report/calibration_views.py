"""Judges measured on human labels: a table for each question, and all figures of one judge."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.text import Text

from localjudge.labels.recommended_uses import recommendation
from localjudge.report.terminal import Table, number
from localjudge.run_directory.calibration import Calibration, Figure, LabelsUsed

_FIGURES = {"auc": "AUC", "gain": "gain in balanced accuracy"}


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
    yield "bias: share judged 1 minus share labelled 1, at 0.5; seconds: per answer"
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
