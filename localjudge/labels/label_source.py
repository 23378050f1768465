"""What is labelled: the statements of one run, or of two runs together.

    a run           its directory        the frame of each metric
    two runs        the one of both      the difference of each metric, without equal statements

Everything else about labels (drawing, rows of sheets, decisions, reading) is the same for both.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from localjudge.errors import InputError
from localjudge.labels.drawing import Drawing
from localjudge.labels.label_sheet import SheetRow
from localjudge.labels.run_labels import check_labels_allowed
from localjudge.labels.shown_texts import (
    ClosestSentence,
    closest_sentences,
    find_metrics,
    shown_texts,
    split_answer,
)
from localjudge.labels.units import UnitFrame, first_verdicts, unit_frames, verdicts_at
from localjudge.run_directory.label_rows import DrawnStatement, VerdictId
from localjudge.run_directory.result_rows import VerdictRow
from localjudge.run_directory.run_record import RunRecord, as_run
from localjudge.run_directory.run_rows import texts_read
from localjudge.words import suggestion

StatementsInRun = tuple[RunRecord, Mapping[str, VerdictId]]
"""A run, and the first verdict on each of its statements, by key."""
PREFERRED = "faithfulness"
"""The metric whose difference is labelled unless another one is named."""


class LabelSource(NamedTuple):
    """Statements by metric (`frames`), where they are, and the directory of their labels."""

    directory: Path
    frames: dict[str, UnitFrame]
    runs: tuple[StatementsInRun, ...]

    @classmethod
    def of_run(cls, run: RunRecord | str | Path) -> "LabelSource":
        """Return the statements of a run.

        Raises InputError for a run stopped by scores, and RunDirectoryError for a folder without a
        run.
        """
        run = as_run(run)
        check_labels_allowed(run)
        frames = unit_frames(run)
        return cls(run.directory, frames, ((run, first_verdicts(frames.values())),))

    @property
    def is_joint(self) -> bool:
        return len(self.runs) > 1

    @property
    def has_evidence(self) -> bool:
        return all(run.has_evidence for run, _ in self.runs)

    def in_runs(self, keys: Iterable[str]) -> Iterator[tuple[RunRecord, dict[VerdictId, str]]]:
        """Yield each run with the verdicts on the statements, in the first run that has them."""
        left = set(keys)
        for run, verdict_ids in self.runs:
            found = left & verdict_ids.keys()
            left -= found
            yield run, {verdict_ids[key]: key for key in found}

    def verdicts(self, keys: Iterable[str]) -> dict[str, VerdictRow]:
        """Return a verdict on each statement, by key."""
        verdicts: dict[str, VerdictRow] = {}
        for run, verdict_ids in self.in_runs(keys):
            verdicts |= verdicts_at(run, verdict_ids)
        return verdicts

    def closest_sentences(self, keys: Iterable[str]) -> dict[str, tuple[ClosestSentence, ...]]:
        """Return the evidence of the statements, by key, without what the judge says."""
        sentences: dict[str, tuple[ClosestSentence, ...]] = {}
        for run, verdict_ids in self.in_runs(keys):
            sentences |= closest_sentences(run, verdict_ids)
        return sentences

    def texts_read(self, keys: Iterable[str]) -> dict[str, str]:
        """Return what a reader has read for the statements, by key."""
        read: dict[str, str] = {}
        for run, verdict_ids in self.in_runs(keys):
            verdicts: dict[str, list[VerdictRow]] = {}
            for verdict in verdicts_at(run, verdict_ids).values():
                verdicts.setdefault(verdict.sample_id, []).append(verdict)
            for sample in run.iter_samples():
                if sample.id in verdicts:
                    texts = texts_read(run, sample, verdicts[sample.id])
                    for (metric, position), text in texts.items():
                        read[verdict_ids[VerdictId(sample.id, metric, position)]] = text
        return read

    def correctable(self, metrics: Collection[str] | None = None) -> dict[str, UnitFrame]:
        """Return the frames of the named metrics, or of all that labels can correct.

        Raises InputError without verdicts.
        """
        judged: dict[str, UnitFrame] = {}
        shares: dict[str, UnitFrame] = {}
        for name, frame in self.frames.items():
            if (metrics is None or name in metrics) and frame.by_key:
                judged[name] = frame
                if frame.share_of:
                    shares[name] = frame
        for name in metrics or ():
            if name not in judged:
                problem = f"{self.directory} has no verdicts of {name!r} to label"
                raise InputError(problem, hint=suggestion(name, self.frames, "its metrics"))
        if not judged and self.is_joint:
            raise InputError(
                f"no statement in {self.directory} can change the difference",
                hint="the answers of both are equal, or no metric has verdicts",
            )
        if not judged:
            raise InputError(
                f"{self.directory} has no verdicts to label",
                hint="label a run with a judged metric",
            )
        if metrics is None and shares:
            judged = shares
        if metrics is None and self.is_joint:
            # The labels of a difference are few, so they are for one metric.
            name = PREFERRED if PREFERRED in judged else next(iter(judged))
            return {name: judged[name]}
        return judged

    def sheet_rows(self, drawing: Drawing, statements: Sequence[DrawnStatement]) -> list[SheetRow]:
        """Return a row of a sheet, without a label, for each statement."""
        rows: dict[str, SheetRow] = {}
        for run, verdict_ids in self.in_runs(statement.key for statement in statements):
            verdicts = verdicts_at(run, verdict_ids)
            asked = {verdict.sample_id for verdict in verdicts.values()}
            samples = {sample.id: sample for sample in run.iter_samples() if sample.id in asked}
            metrics = find_metrics(run)
            for verdict_id, key in verdict_ids.items():
                sample = samples[verdict_id.sample_id]
                verdict = verdicts[key]
                rows[key] = {
                    "label_id": key,
                    "draw": drawing.name,
                    **verdict_id._asdict(),
                    **shown_texts(metrics, sample, verdict),
                    "text": verdict.text,
                    "source_text": split_answer(sample, verdict),
                    "human": None,
                    "annotator": None,
                }
        return [rows[statement.key] for statement in statements]
