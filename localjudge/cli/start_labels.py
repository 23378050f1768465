"""Read the labels of `localjudge start`, write its pages, and state the result."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import click

from localjudge.analysis.headline import Headline, choose_headline
from localjudge.cli.start_folder import StartFolder
from localjudge.cli.start_steps import run_step
from localjudge.errors import InputError
from localjudge.labels.corrected_mean import CorrectedMean
from localjudge.labels.drawing import DrawingOptions
from localjudge.labels.labelling import DEFAULT_COUNT, Labelling
from localjudge.labels.labelling_time import SECONDS_A_LABEL
from localjudge.labels.run_labels import RunLabels, find_corrected, read_run_labels
from localjudge.report.sentences import state_mean
from localjudge.report.terminal import number
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.summary import MetricSummary
from localjudge.types import Language
from localjudge.words import numbered, printable, printable_lines


def read_labels(folder: StartFolder, run: RunRecord, named_files: Sequence[Path]) -> None:
    """Read the named files, in one command, and labels of earlier runs.

    Parts of one sheet count as one plan if they are read together.
    """
    if named_files:
        step = ["label", str(run.directory)]
        for file in named_files:
            step += ["--read", str(file)]
        run_step(step)
    if read_run_labels(run) is None:
        for other in folder.other_runs():
            if read_run_labels(other) is not None:
                _try_to_read(run, other)


def _try_to_read(run: RunRecord, earlier: Path) -> None:
    """Read the labels of an earlier run, unless no statement is the same."""
    try:
        run_step(["label", str(run.directory), "--read", str(earlier)])
    except InputError as error:
        click.echo(printable_lines(f"not read: {error}"), err=True)


def write_page(
    folder: StartFolder, run: RunRecord, metric: str, labels: RunLabels | None
) -> str | None:
    """Write the page of the next statements to label, and return how to label them.

    Returns None if no label is needed or helps.
    """
    mean = find_corrected(labels, metric)
    if mean and mean.unsettled:
        labelling = Labelling(run, options=DrawingOptions(metrics=[metric], disputed=True))
        page = folder.page(len(labelling.rows), "disputed")
        drawing = ["--disputed"]
    elif mean and (mean.ci95 or not mean.needed):
        return None
    else:
        count = _choose_count(labels, mean)
        try:
            labelling = Labelling(run, options=DrawingOptions(metrics=[metric], sample=count))
        except InputError:  # no verdicts
            return None
        page = folder.page(count)
        drawing = ["--sample", str(count)]
    for remark in labelling.remarks:
        click.echo(printable(remark), err=True)
    if labelling.remarks or not labelling.rows:
        return None
    if not page.exists():
        directory = str(run.directory)
        language = _choose_language(folder)
        run_step(
            ["label", directory, "--metrics", metric, *drawing, "--page", str(page), *language]
        )
    return _instruct(page, len(labelling.rows), is_first=not labels)


def _instruct(page: Path, count: int, *, is_first: bool) -> str:
    noun = "more statement"
    if is_first:
        noun = "statement"
    minutes = numbered(math.ceil(count * SECONDS_A_LABEL / 60), "minute")
    return f"label {numbered(count, noun)} (about {minutes}): open {page} in a browser"


def _choose_count(labels: RunLabels | None, mean: CorrectedMean | None) -> int:
    """Return how many statements to draw in all: the first 50, then as many as are needed."""
    if labels is None:
        return DEFAULT_COUNT
    answered = labels.statements + labels.unsure
    if answered < DEFAULT_COUNT:
        return DEFAULT_COUNT
    if mean and mean.needed:
        return answered + mean.needed
    return answered + DEFAULT_COUNT


def _choose_language(folder: StartFolder) -> list[str]:
    language = str(folder.answers.get("language"))
    if language in get_args(Language):
        return ["--language", language]
    return []


def describe_result(
    run: RunRecord, metric: str, labels_before: RunLabels | None, labels: RunLabels | None
) -> str:
    """Return the mean in words, and what new labels changed. Too few labels leave no mean."""
    summary = run.summary.metrics[metric]
    corrected = find_corrected(labels, metric)
    headline = choose_headline(summary, corrected)
    if headline.basis == "too few labels" and corrected:
        return f"{metric}: {corrected.shortage or 'too few labels'}"
    if headline.mean is None:
        return f"{metric} has no mean"
    line = state_mean(metric, headline.mean, headline.ci95)
    if labels is None:
        return f"{line}, by the judge only; no label yet"
    if headline.basis == "judge" or corrected is None:
        return f"{line}, by the judge only; {numbered(labels.statements, 'label')} so far"
    change = _describe_change(summary, headline, find_corrected(labels_before, metric))
    return f"{line}, by {corrected.in_words}{change}"


def _describe_change(
    summary: MetricSummary, headline: Headline, corrected_before: CorrectedMean | None
) -> str:
    """Return the mean before the new labels, or nothing if they did not change it."""
    before = choose_headline(summary, corrected_before)
    if before.basis != "labels":
        return f"; {number(summary.mean)} is the mean by the judge only"
    if before.mean != headline.mean:
        return f"; it was {number(before.mean)} before the new labels"
    return ""
