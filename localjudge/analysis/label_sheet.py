"""A sheet for people to label verdicts of a run, blind: what was asked and about which text, not what the judge said.

    run, seed                        whose verdicts these are, and how they were drawn
    sample_id, metric, position      which verdict it is: the key
    asks, user_input, contexts, reference, response     what a person needs to decide
    text                             what it is about
    inclusion_probability            with which probability it was drawn
    human                            empty: 1 or 0

Drawn are about equally many verdicts of each of five strata of p_yes, in their strata by their weight in the metric's
mean (`localjudge.stats.corrected`). Those of one metric stand together, in a random order: the first half of them, if
somebody stops there, is a random half. Verdicts that no judge gave, because there was no text, are not drawn.

A sheet is labelled row by row: `Labelling` knows what comes next, and what is undone. The file is replaced as a whole
after each answer: whoever is killed has lost none.
"""

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from localjudge.analysis.labels import HUMAN, UnitFrame, VerdictKey, labelled_rows, read_labels, unit_frames
from localjudge.errors import UsageError
from localjudge.metrics import Metric, catalog
from localjudge.record.manifest import kept_criteria, kept_rubrics
from localjudge.record.result_rows import VerdictRow, json_line
from localjudge.record.run import Run, as_run, unknown_sample
from localjudge.resources import write_output
from localjudge.stats.corrected import draw, even_shares
from localjudge.types import CONTEXT_FIELDS, Label, Sample, context_texts
from localjudge.words import inert, option, option_name, suggestion

DEFAULT_COUNT = 100
ENDINGS = (".jsonl", ".csv")
SHEET = ".jsonl"
_WHOLE = {"chunk", "question", "response"}
_FIELDS = ("retrieved_contexts", "reference", "response")

SheetRow = dict[str, Any]


def label_sheet(
    run: Run | str | Path,
    out: str | Path,
    *,
    n: int = DEFAULT_COUNT,
    metrics: Sequence[str] | None = None,
    seed: int = 0,
) -> Path:
    """Draw `n` verdicts of a run, in all and evenly over the metrics, and write them as .csv or .jsonl to be labelled.

    `metrics` are, if None, those that a judge was asked for and whose means labels can correct, or all that a judge was
    asked for if there are none of these. Says which file it wrote. Raises UsageError for a metric
    without verdicts of a judge, a file that is there already or of another kind; RunDirectoryError for no run.
    """
    path = Path(os.path.expanduser(out))
    refuse_taken(path)
    write_sheet(path, drawn_rows(as_run(run), n, metrics, seed))
    return path


def drawn_rows(run: Run, n: int, metrics: Sequence[str] | None, seed: int) -> list[SheetRow]:
    """The rows of the sheet. Raises UsageError as `label_sheet` does."""
    if n < 1:
        raise UsageError(f"{option_name('n')} must be at least 1, got {n}")
    frames = _judged_frames(run, metrics)
    shares = even_shares([int((~np.isnan(frame.p_yes)).sum()) for frame in frames.values()], n)
    drawn = {
        key: (name, probability)
        for (name, frame), share in zip(frames.items(), shares, strict=True)
        if share
        for key, probability in _draw(frame, name, share, seed).items()
    }
    verdicts = labelled_rows(run, drawn.keys())
    samples = _samples(run, {row.sample_id for row in verdicts.values()})
    rows = []
    for key, (name, probability) in drawn.items():
        metric, verdict = _metric(run, name), verdicts[key]
        rows.append(
            {
                "run": run.summary.signature,
                "seed": seed,
                "sample_id": verdict.sample_id,
                "metric": name,
                "position": key.position,
                "asks": about.asks if (about := getattr(metric, "about", None)) else None,
                **_needed(samples[verdict.sample_id], verdict, metric),
                "text": verdict.text,
                "inclusion_probability": probability,
                HUMAN: None,
            }
        )
    return rows


def write_sheet(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write the rows, the file whole or not at all, for its owner alone. Raises UsageError for another ending."""
    lines = _csv_lines(rows, path) if path.suffix == ".csv" else map(json_line, rows)
    if path.suffix not in ENDINGS:
        raise UsageError(f"{path} is not a sheet", hint=f"name a file that ends in {' or '.join(ENDINGS)}")
    write_output(path, (line.encode() for line in lines))


def refuse_taken(path: Path) -> None:
    """Raise UsageError if there is something at the path: it may hold labels."""
    if path.exists() or path.is_symlink():
        raise UsageError(f"{path} is there already, and may hold labels", hint=f"name another with {option('out')}")


def _judged_frames(run: Run, metrics: Sequence[str] | None) -> dict[str, UnitFrame]:
    """The frames of the metrics that a judge gave labels for. Raises UsageError for a named one that has none."""
    for name in metrics or ():
        if name not in run.summary.metrics:
            raise UsageError(
                f"the run has no metric {name!r}", hint=suggestion(name, run.summary.metrics, "its metrics")
            )
    rubrics = kept_rubrics(run.manifest)
    names = [name for name in metrics or run.summary.metrics if name not in rubrics]
    frames = unit_frames(run, names)
    judged = {name: frame for name, frame in frames.items() if not np.isnan(frame.p_yes).all()}
    for name in metrics or ():
        if name not in judged:
            why = "its answers are levels" if name in rubrics else "no judge gave any"
            raise UsageError(f"{name} has no verdicts of 1 or 0 to label: {why}", hint="name another metric")
    shares = {name: frame for name, frame in judged.items() if frame.share_of}
    if not judged:
        raise UsageError(f"the run in {run.directory} has no verdict to label", hint="label a run with a judged metric")
    return shares if shares and not metrics else judged


def _draw(frame: UnitFrame, name: str, count: int, seed: int) -> dict[VerdictKey, float]:
    """Keys of the drawn verdicts in the order of the sheet, each with its probability."""
    asked = np.flatnonzero(~np.isnan(frame.p_yes))
    drawing = draw(frame.weights[asked], frame.strata(count), count, seed)
    keys = frame.keys(name, asked[drawing.taken].tolist())
    return dict(zip(keys, drawing.probabilities[drawing.taken].tolist(), strict=True))


def _samples(run: Run, ids: set[str]) -> dict[str, Sample]:
    samples = {sample.id: sample for sample in run.iter_samples() if sample.id in ids}
    if lost := ids - samples.keys():
        raise unknown_sample(run, min(lost))
    return samples


def _metric(run: Run, name: str) -> Metric | None:
    """What computed it; None for a metric of a package that is not installed."""
    try:
        return kept_criteria(run.manifest).get(name) or catalog.get(name)
    except UsageError:
        return None


def _needed(sample: Sample, verdict: VerdictRow, metric: Metric | None) -> dict[str, Any]:
    """What the unit is held against, as far as it is not the unit itself; None where it is nothing of the kind."""
    contexts = context_texts(sample.retrieved_contexts)
    needed = _FIELDS if metric is None else tuple(sorted(metric.required_fields))
    match verdict.against:
        case int(number):
            needed, contexts = ("retrieved_contexts",), contexts[number : number + 1]
        case "reference" if verdict.unit == "statement":
            needed = ("reference",)
        case "response" if verdict.unit == "statement":
            needed = ("response",)
        case "cited":
            needed = ("retrieved_contexts",)
        case _:
            alone = verdict.unit in _WHOLE or verdict.unit == "statement"
            needed = tuple(field for field in needed if not (alone and field == verdict.source))
    return {
        "user_input": sample.user_input,
        "contexts": list(contexts) if set(CONTEXT_FIELDS) & set(needed) else None,
        "reference": sample.reference if "reference" in needed else None,
        "response": sample.response if "response" in needed else None,
    }


def _csv_lines(rows: Iterable[Mapping[str, Any]], path: Path) -> Iterator[str]:
    """A table for spreadsheets: contexts in one cell, numbered; no text in it is a formula."""
    for number, row in enumerate(rows):
        if number == 0:
            yield _csv_line(row)
        line = _csv_line(inert(_cell(value)) for value in row.values())
        if "\0" in line or any("\ud800" <= letter <= "\udfff" for letter in line):
            raise UsageError(
                f"{path} cannot hold a text of {row['sample_id']!r:.40}: CSV has no such character",
                hint="name a file that ends in .jsonl",
            )
        yield line


def _csv_line(cells: Iterable[Any]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text).writerow(cells)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return "\n\n".join(f"[{number}] {text}" for number, text in enumerate(value, start=1))
    return value


class Labelling:
    """The rows of a sheet in the order in which they are shown, and where somebody is in them."""

    def __init__(self, path: Path, rows: list[SheetRow]) -> None:
        self.path = path
        self._rows = rows
        self._open = [number for number, row in enumerate(rows) if row[HUMAN] is None]
        self._answered = [number for number, row in enumerate(rows) if row[HUMAN] is not None]

    @classmethod
    def begin(cls, path: Path, run: Run, given: dict[str, Any]) -> "Labelling":
        """Go on with the sheet at the path, or draw one: `given` are `n`, `metrics` and `seed` as far as they are said.

        Raises UsageError for a sheet of another run, or that was drawn otherwise than is said now; DataError for none.
        """
        if path.suffix != SHEET:
            raise UsageError(f"{path} cannot be labelled here", hint=f"name a file that ends in {SHEET}")
        if path.exists() or path.is_symlink():
            return cls(path, _rows_of(path, run, given))
        drawn = drawn_rows(run, given.get("n", 100), given.get("metrics"), given.get("seed", 0))
        write_sheet(path, drawn)
        return cls(path, drawn)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def labelled(self) -> int:
        """How many rows have a label."""
        return sum(row[HUMAN] is not None for row in self._rows)

    @property
    def current(self) -> SheetRow | None:
        """The row that is to be answered; None if there is none left."""
        return self._rows[self._open[0]] if self._open else None

    def answer(self, label: Label) -> None:
        """Label the current row, and save."""
        self._rows[self._open[0]][HUMAN] = label
        self._answered.append(self._open.pop(0))
        write_sheet(self.path, self._rows)

    def skip(self) -> None:
        """Leave the current row without a label for now."""
        self._answered.append(self._open.pop(0))

    def undo(self) -> bool:
        """Go back to the row that was answered or skipped last, and save; False if there is none."""
        if not self._answered:
            return False
        number = self._answered.pop()
        self._open.insert(0, number)
        if self._rows[number][HUMAN] is not None:
            self._rows[number][HUMAN] = None
            write_sheet(self.path, self._rows)
        return True


def default_path(run: Run) -> Path:
    """Where labels are kept if nobody says otherwise: beside the directory of the run, not in it, as it is a record."""
    directory = run.directory.resolve()
    return run.directory.parent / f"labels-{directory.name}{SHEET}"


def _rows_of(path: Path, run: Run, given: dict[str, Any]) -> list[SheetRow]:
    labels = read_labels(path)
    if labels.shape != "verdicts":
        raise UsageError(f"{path} is not a sheet of verdicts", hint=f"name another with {option('out')}")
    rows = [{**row.columns, HUMAN: row.human} for row in labels.verdicts]
    drawn = {
        "n": len(rows),
        "metrics": list(dict.fromkeys(row["metric"] for row in rows)),
        "seed": rows[0].get("seed"),
    }
    if any(row.get("run") != run.summary.signature for row in rows):
        raise UsageError(f"{path} is a sheet of another run", hint=f"name another with {option('out')}")
    for name, value in given.items():
        if drawn[name] != value:
            raise UsageError(
                f"{path} was drawn with {name} {drawn[name]}, not {value}",
                hint=f"leave it out to go on with the sheet, or name another with {option('out')}",
            )
    return rows
