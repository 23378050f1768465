"""A sheet for people to label verdicts of a run, blind: what was asked and about which text, not what the judge said.

    run, seed                        whose verdicts these are, and how they were drawn
    sample_id, metric, position      which verdict it is: the key
    asks, user_input, contexts, reference, response     what a person needs to decide
    text                             what it is about
    inclusion_probability            with which probability it was drawn
    human                            empty: 1 or 0

About equally many verdicts are drawn from each of five strata of p_yes, within a stratum by their weight in the mean
(`localjudge.stats.corrected`). Those of one metric stand together, in a random order: the first half, if somebody stops
there, is a random half. Verdicts that no judge gave, because there was no text, are not drawn.

In the terminal a sheet is labelled row by row (`Labelling`). The file is replaced as a whole after each answer, so that
a kill loses none.
"""

import csv
import io
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from localjudge.analysis.labels import HUMAN, UnitFrame, VerdictKey, labelled_rows, read_labels, unit_frames
from localjudge.errors import InputError
from localjudge.metrics import catalog
from localjudge.record.manifest import kept_criteria, kept_rubrics
from localjudge.record.result_rows import VerdictRow, json_line
from localjudge.record.run import Run, as_run, unknown_sample
from localjudge.resources import write_output
from localjudge.stats.corrected import draw, even_shares
from localjudge.types import CONTEXT_FIELDS, Label, Sample, context_texts
from localjudge.words import escape_formula, option, option_name, suggestion

DEFAULT_COUNT = 100
ENDINGS = (".jsonl", ".csv")
SHEET = ".jsonl"

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

    `metrics` defaults to those that a judge was asked for and whose means labels can correct, or if there are none, to
    all that a judge was asked for. Returns the path of the file. Raises InputError for a metric without verdicts of a
    judge, a file that exists already or of another kind; RunDirectoryError for a directory without a run.
    """
    path = Path(os.path.expanduser(out))
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} is there already, and may hold labels", hint=f"name another with {option('out')}")
    _write_sheet(path, draw_rows(as_run(run), n, metrics, seed))
    return path


def draw_rows(run: Run, n: int, metrics: Sequence[str] | None, seed: int) -> list[SheetRow]:
    """The rows of the sheet. Raises InputError as `label_sheet` does."""
    if n < 1:
        raise InputError(f"{option_name('n')} must be at least 1, got {n}")
    frames = _judged_frames(run, metrics)
    judged = {name: np.flatnonzero(~np.isnan(frame.p_yes)) for name, frame in frames.items()}
    shares = even_shares([len(indices) for indices in judged.values()], n)
    probability_of: dict[VerdictKey, float] = {}
    for (name, frame), share in zip(frames.items(), shares, strict=True):
        if share:
            drawing = draw(frame.weights[judged[name]], frame.strata(share), share, seed)
            keys = frame.keys(name, judged[name][drawing.taken].tolist())
            probability_of |= zip(keys, drawing.probabilities[drawing.taken].tolist(), strict=True)
    verdicts = labelled_rows(run, dict.fromkeys(probability_of))
    ids = {row.sample_id for row in verdicts.values()}
    samples = {sample.id: sample for sample in run.iter_samples() if sample.id in ids}
    if missing := ids - samples.keys():
        raise unknown_sample(run, min(missing))
    rows = []
    for key, probability in probability_of.items():
        verdict = verdicts[key]
        rows.append(
            {
                "run": run.summary.signature,
                "seed": seed,
                "sample_id": verdict.sample_id,
                "metric": verdict.metric,
                "position": key.position,
                **_evidence(run, samples[verdict.sample_id], verdict),
                "text": verdict.text,
                "inclusion_probability": probability,
                HUMAN: None,
            }
        )
    return rows


def _judged_frames(run: Run, metrics: Sequence[str] | None) -> dict[str, UnitFrame]:
    """The frames of the metrics that a judge gave labels for. Raises InputError for a named one that has none."""
    rubrics = kept_rubrics(run.manifest)
    names = [name for name in run.summary.metrics if name not in rubrics and (metrics is None or name in metrics)]
    judged = {name: frame for name, frame in unit_frames(run, names).items() if not np.isnan(frame.p_yes).all()}
    for name in metrics or ():
        if name not in judged:
            problem = f"the run has no verdicts of 1 or 0 of {name!r} to label"
            raise InputError(problem, hint=suggestion(name, run.summary.metrics, "its metrics"))
    if not judged:
        raise InputError(f"the run in {run.directory} has no verdict to label", hint="label a run with a judged metric")
    shares = {name: frame for name, frame in judged.items() if frame.share_of}
    return shares if shares and not metrics else judged


def _evidence(run: Run, sample: Sample, verdict: VerdictRow) -> dict[str, Any]:
    """The question, and what a person compares the unit with, without the unit itself; None for what has no part."""
    contexts, metric = context_texts(sample.retrieved_contexts), None
    needed: Collection[str] = ("retrieved_contexts", "reference", "response")
    with suppress(InputError):  # the metric of a package that is not installed
        metric = kept_criteria(run.manifest).get(verdict.metric) or catalog.get(verdict.metric)
        needed = metric.required_fields
    match verdict.against:
        case int(number):
            needed, contexts = ("retrieved_contexts",), contexts[number : number + 1]
        case "reference" | "response" as field if verdict.unit == "statement":
            needed = (field,)
        case "cited":
            needed = ("retrieved_contexts",)
        case _ if verdict.unit in {"chunk", "question", "response", "statement"}:
            needed = {field for field in needed if field != verdict.source}
    return {
        "asks": about.asks if (about := getattr(metric, "about", None)) else None,
        "user_input": sample.user_input,
        "contexts": list(contexts) if set(CONTEXT_FIELDS) & set(needed) else None,
        "reference": sample.reference if "reference" in needed else None,
        "response": sample.response if "response" in needed else None,
    }


def _write_sheet(path: Path, rows: Sequence[SheetRow]) -> None:
    """Write the rows, the file whole or not at all, for its owner alone. Raises InputError for another ending."""
    if path.suffix not in ENDINGS:
        raise InputError(f"{path} is not a sheet", hint=f"name a file that ends in {' or '.join(ENDINGS)}")
    if path.suffix == SHEET:
        write_output(path, (json_line(row).encode() for row in rows))
        return
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    writer.writerows(rows[:1])
    for row in rows:  # contexts in one cell, numbered; no text is a formula
        contexts = row["contexts"] and "\n\n".join(f"[{place}] {text}" for place, text in enumerate(row["contexts"], 1))
        writer.writerow(map(escape_formula, (row | {"contexts": contexts}).values()))
    write_output(path, [table.getvalue().encode()])


class Labelling:
    """The rows of a sheet in the order in which they are presented, and which of them is next."""

    def __init__(self, path: Path, rows: list[SheetRow]) -> None:
        self.path = path
        self._rows = rows
        self._open = [number for number, row in enumerate(rows) if row[HUMAN] is None]
        self._answered = [number for number, row in enumerate(rows) if row[HUMAN] is not None]

    @classmethod
    def begin(cls, path: Path, run: Run, drawing: Mapping[str, Any]) -> "Labelling":
        """Continue the sheet at the path, or draw one: `drawing` may name `n`, `metrics` and `seed`.

        Raises InputError for a sheet of another run, or that was drawn otherwise; DataError for a file without labels.
        """
        if path.suffix != SHEET:
            raise InputError(f"{path} cannot be labelled here", hint=f"name a file that ends in {SHEET}")
        if path.exists() or path.is_symlink():
            rows = [{**row.columns, HUMAN: row.human} for row in read_labels(path).verdicts]
            other = f"name another with {option('out')}"
            if not rows or any(row.get("run") != run.summary.signature for row in rows):
                raise InputError(f"{path} is not a sheet of this run", hint=other)
            metrics = list(dict.fromkeys(row["metric"] for row in rows))
            drawn = {"n": len(rows), "metrics": metrics, "seed": rows[0].get("seed")}
            for name, value in drawing.items():
                if drawn[name] != value:
                    problem = f"{path} was drawn with {name} {drawn[name]}, not {value}"
                    raise InputError(problem, hint=f"leave it out to go on with the sheet, or {other}")
            return cls(path, rows)
        rows = draw_rows(run, drawing.get("n", DEFAULT_COUNT), drawing.get("metrics"), drawing.get("seed", 0))
        _write_sheet(path, rows)
        return cls(path, rows)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def labelled(self) -> int:
        """How many rows have a label."""
        return sum(row[HUMAN] is not None for row in self._rows)

    @property
    def current(self) -> SheetRow | None:
        """The row to be answered next; None after the last."""
        return self._rows[self._open[0]] if self._open else None

    def answer(self, label: Label) -> None:
        """Label the current row, and save."""
        self._rows[self._open[0]][HUMAN] = label
        self.skip()
        _write_sheet(self.path, self._rows)

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
            _write_sheet(self.path, self._rows)
        return True


def default_path(run: Run) -> Path:
    """Where labels are saved by default: next to the directory of the run, not in it, as that is a record."""
    return run.directory.parent / f"labels-{run.directory.resolve().name}{SHEET}"
