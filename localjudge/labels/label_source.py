"""What is labelled: the statements of one run, or of two runs together.

    a run           its directory        the frame of each metric
    two runs        the one of both      the difference of each metric, without equal statements

Everything else about labels (drawing, rows of sheets, decisions, reading) is the same for both.

Annotators who ask for them also see the sentences that come closest to the statement. They come
from `evidence.jsonl`, without what the judge's verdict adds to them: whether they support the
statement. The finder works by words only, so they do not tell the verdict.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.errors import InputError
from localjudge.labels.drawing import Drawing
from localjudge.labels.units import (
    UnitFrame,
    first_verdicts,
    shown_texts,
    unit_frames,
)
from localjudge.run_directory.label_rows import DrawnStatement
from localjudge.run_directory.result_rows import EvidenceRow, VerdictId, VerdictRow
from localjudge.run_directory.run_record import RunRecord, as_run
from localjudge.run_directory.run_rows import texts_read
from localjudge.types import Sample
from localjudge.words import option_name, suggestion

StatementsInRun = tuple[RunRecord, Mapping[str, UnitFrame]]
"""A run, and its statements by metric."""
PREFERRED = "faithfulness"
"""The metric whose difference is labelled unless another one is named."""


class AnswerAround(NamedTuple):
    """A whole answer, split before and after a statement, and its field of the sample."""

    field: str
    before: str
    statement: str
    after: str

    @property
    def in_words(self) -> str:
        """The whole answer with the statement between >>> and <<<."""
        return f"{self.before}>>> {self.statement} <<<{self.after}"


class ClosestSentence(NamedTuple):
    """A sentence in a text that is shown with a statement.

    `field` is contexts, reference or response. `context` counts the shown contexts from 0; it is
    None in another field. `start` and `end` count code points.
    """

    field: str
    context: int | None
    start: int
    end: int
    text: str

    @property
    def in_words(self) -> str:
        """`[2] The Danube rises in the Black Forest.`; without a number outside of contexts."""
        if self.context is None:
            return self.text
        return f"[{self.context + 1}] {self.text}"


SheetRow = dict[str, Any]
"""Values of a statement by column, with the same columns in each row.

`contexts` is a list of texts or None, `context_ids` a list of their ids or None, `source_text` an
`AnswerAround` or None, `closest` a tuple of `ClosestSentence`.
"""


class LabelSource(NamedTuple):
    """Statements by metric (`frames`), where they are, and the directory of their labels.

    A statement that several metrics judge is shown in its answer by the first of `labelled_for`.
    """

    directory: Path
    frames: dict[str, UnitFrame]
    runs: tuple[StatementsInRun, ...]
    labelled_for: tuple[str, ...] = ()

    @classmethod
    def of_run(cls, run: RunRecord | str | Path) -> "LabelSource":
        """Return the statements of a run.

        Raises InputError for a run stopped by scores, and RunDirectoryError for a folder without a
        run.
        """
        run = as_run(run)
        check_labels_allowed(run)
        frames = unit_frames(run)
        return cls(run.directory, frames, ((run, frames),))

    @property
    def is_joint(self) -> bool:
        return len(self.runs) > 1

    @property
    def has_evidence(self) -> bool:
        return all(run.has_evidence for run, _ in self.runs)

    def in_runs(self, keys: Iterable[str]) -> Iterator[tuple[RunRecord, dict[VerdictId, str]]]:
        """Yield each run with the verdicts on the statements, in the first run that has them."""
        left = set(keys)
        for run, frames in self.runs:
            names = sorted(frames, key=lambda name: name not in self.labelled_for)
            verdict_ids = first_verdicts(frames[name] for name in names)
            found = left & verdict_ids.keys()
            left -= found
            yield run, {verdict_ids[key]: key for key in found}

    def verdicts(self, keys: Iterable[str]) -> dict[str, VerdictRow]:
        """Return a verdict on each statement, by key."""
        verdicts: dict[str, VerdictRow] = {}
        for run, verdict_ids in self.in_runs(keys):
            verdicts |= run.verdicts_at(verdict_ids)
        return verdicts

    def closest_sentences(self, keys: Iterable[str]) -> dict[str, tuple[ClosestSentence, ...]]:
        """Return the evidence of the statements, by key, without what the judge says.

        A statement that shares no word with its texts has none.
        """
        sentences: dict[str, tuple[ClosestSentence, ...]] = {}
        for run, verdict_ids in self.in_runs(keys):
            if not run.has_evidence:
                continue
            for verdict in run.iter_verdicts_with_evidence():
                key = verdict_ids.get(verdict.verdict_id)
                if key is not None and verdict.evidence:
                    sentences[key] = tuple(_as_closest(verdict, row) for row in verdict.evidence)
        return sentences

    def texts_read(self, keys: Iterable[str]) -> dict[str, str]:
        """Return what a reader has read for the statements, by key."""
        read: dict[str, str] = {}
        for run, verdict_ids in self.in_runs(keys):
            verdicts: dict[str, list[VerdictRow]] = {}
            for verdict in run.verdicts_at(verdict_ids).values():
                verdicts.setdefault(verdict.sample_id, []).append(verdict)
            for sample in run.iter_samples():
                if sample.id in verdicts:
                    texts = texts_read(run, sample, verdicts[sample.id])
                    for verdict_id, text in texts.items():
                        read[verdict_ids[verdict_id]] = text
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
            verdicts = run.verdicts_at(verdict_ids)
            asked = {verdict.sample_id for verdict in verdicts.values()}
            samples = {sample.id: sample for sample in run.iter_samples() if sample.id in asked}
            metrics = run.installed_metrics
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


def name_context(row: Mapping[str, Any], number: int) -> str:
    """Return the number of a context, from 1, and its id if statements can cite it: `2, id a-7`."""
    context_ids = row.get("context_ids")
    if context_ids is None or context_ids[number - 1] is None:
        return str(number)
    return f"{number}, id {context_ids[number - 1]}"


def split_answer(sample: Sample, verdict: VerdictRow) -> AnswerAround | None:
    """Return the answer, or None if the statement is the whole answer or from contexts."""
    text = getattr(sample, verdict.source)
    if not isinstance(text, str):
        return None
    statement = text[verdict.start : verdict.end]
    if text.strip() == statement.strip():
        return None
    before = text[: verdict.start]
    after = text[verdict.end :]
    return AnswerAround(verdict.source, before, statement, after)


def _as_closest(verdict: VerdictRow, row: EvidenceRow) -> ClosestSentence:
    field = "contexts"
    context = row.context
    if context is None:
        field = str(verdict.against)
    elif isinstance(verdict.against, int):  # only this context is shown
        context = 0
    return ClosestSentence(field, context, row.start, row.end, row.text)


def require_evidence(run: RunRecord) -> None:
    """Raise InputError for a run that was made without evidence."""
    if not run.has_evidence:
        without = option_name("no_evidence")
        raise InputError(
            f"the run in {run.directory} has no evidence to show",
            hint=f"run the same command without {without}: it adds the evidence and asks nothing",
        )


def check_labels_allowed(run: RunRecord) -> None:
    """Raise InputError for a run that scores stopped: labels cannot correct it."""
    if run.sampling.optional_stopping:
        problem = f"labels cannot correct {run.directory}, because its size depends on its scores"
        raise InputError(problem, hint=how_to_label(run))


def how_to_label(run: RunRecord) -> str:
    """Return what to do instead of labelling a run that was stopped by its scores."""
    resume = "judge all samples"
    if run.manifest.environment.settings.until:
        effect = "to get ordinary intervals (it asks no more questions)"
        if run.part:
            effect = "to judge all samples"
        resume = f"run the same command without {option_name('until')} {effect}"
    return f"{resume}; for fewer samples, use {option_name('sample')} or {option_name('budget')}"
