"""People's labels of a judge's verdicts: read from a file, matched with a run, and weighed as its means weigh them.

    labels.jsonl     s1, faithfulness, position 0   "It rains."   human 1
    verdicts.jsonl   s1, faithfulness, position 0   "It rains."   p_yes 0.93      -> (1, 0.93)

A file of labels has one of three shapes, told apart by its columns:

    verdicts     sample_id, metric, position, text, human      rows of a run's verdicts, or of a sheet
    attribution  context (or contexts), statement, label       is the statement in the contexts?
    relevance    question, sentences, relevant                 which sentences answer it?

A label is 1 or 0 (also true and false, yes and no); an empty one means not labelled. Everything wrong with any row is
said at once, and no row is dropped in silence. A verdict is named by its sample, metric and position, and must have the
labelled text: a label of another text is of another run.

The verdicts that make up the mean of a metric are its frame: what labels are drawn from, and what they correct.

    sample   units     judged      weight in the mean
    a        3         1 1 0       1/3 * 1/2
    b        1         1           1   * 1/2

It counts the verdicts of samples that were scored. If every score is the share of 1 among its sample's verdicts (or of
0: a criterion whose good answer is no), the mean is a sum over verdicts, and labels of some can correct it. Average
precision, F1 and scores that rest on a table of verdicts are not such shares.
"""

import hashlib
import math
from array import array
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from localjudge.dataset.formats import read
from localjudge.dataset.problems import Problem, Problems, describe, shown
from localjudge.dataset.rows import RawRow, read_cell
from localjudge.dataset.sources import Source
from localjudge.errors import DataError
from localjudge.metrics.catalog import question_of
from localjudge.record.directory import excerpt
from localjudge.record.result_rows import Evaluation, VerdictRow, evaluations_of
from localjudge.record.run import Run
from localjudge.stats.corrected import STRATA, strata_by_score
from localjudge.stats.interval import Floats, Indices, LabelledScores
from localjudge.types import Label, Scored, Verdict
from localjudge.words import inert, option_name

LabelShape = Literal["verdicts", "attribution", "relevance"]
HUMAN = "human"
INCLUSION_PROBABILITY = "inclusion_probability"
_LABELS: dict[Label | None, tuple[Any, ...]] = {
    1: (1, "1", "1.0", "true", "yes"),
    0: (0, "0", "0.0", "false", "no"),
    None: (None, ""),
}
_LABEL_OF = {spelling: label for label, spellings in _LABELS.items() for spelling in spellings}
_A_LABEL = "1 or 0 (also true and false, yes and no), or nothing"
_Value = TypeVar("_Value")


class VerdictKey(NamedTuple):
    """Which verdict of a run: its sample and metric as they come back from a spreadsheet, and its place in both."""

    sample_id: str
    metric: str
    position: int


def verdict_key(sample_id: str, metric: str, position: int) -> VerdictKey:
    """The key of a verdict, whether its sample is named as in the run or as in a spreadsheet."""
    return VerdictKey(inert(sample_id), inert(metric), position)


class LabelledVerdict(NamedTuple):
    """A verdict as a person judged it; `human` is None where nobody has yet.

    `columns` is the row as it was read, whatever else it holds.
    """

    place: str
    columns: Mapping[str, Any]
    key: VerdictKey
    text: str
    human: Label | None
    inclusion_probability: float


class LabelledStatement(NamedTuple):
    """Whether a person attributes a statement to its contexts."""

    place: str
    columns: Mapping[str, Any]
    contexts: tuple[str, ...]
    statement: str
    label: Label
    question: str | None


class LabelledSentences(NamedTuple):
    """Which sentences of a passage a person needs to answer the question; None where not labelled."""

    place: str
    columns: Mapping[str, Any]
    question: str
    sentences: tuple[str, ...]
    relevant: tuple[Label | None, ...]


class HumanLabels(NamedTuple):
    """The labels of a file: one of the lists holds them, as `shape` says. `sha256` is that of the file, unpacked.

    `unlabelled` counts verdicts, statements (which are left out) and sentences of passages that have no label.
    """

    name: str
    sha256: str
    shape: LabelShape
    verdicts: tuple[LabelledVerdict, ...]
    statements: tuple[LabelledStatement, ...]
    passages: tuple[LabelledSentences, ...]
    unlabelled: int


def read_labels(file: str | Path) -> HumanLabels:
    """The labels of a file, or of standard input (`-`).

    Raises DataError for a file that cannot be read, has none of the shapes or any row that is not as it should be (all
    of them are named), and for a verdict that is labelled twice.
    """
    with closing(Source(str(file))) as source:
        sha256 = hashlib.sha256()
        with source.open() as opened:
            for chunk in iter(lambda: opened.stream.read(2**20), b""):
                sha256.update(chunk)
        rows = [*read(source, {})]
    shape = _shape(rows, source.name)
    labelled, problems = _labelled(rows, _READERS[shape])
    if problems.count:
        raise problems.error(f"{problems.bad_rows} of {len(rows)} labelled rows cannot be used", "correct the rows")
    verdicts = tuple(row for row in labelled if isinstance(row, LabelledVerdict))
    statements = tuple(row for row in labelled if isinstance(row, LabelledStatement))
    passages = tuple(row for row in labelled if isinstance(row, LabelledSentences))
    unlabelled = len(rows) - len(labelled) + sum(row.human is None for row in verdicts)
    unlabelled += sum(row.relevant.count(None) for row in passages)
    return HumanLabels(source.name, sha256.hexdigest(), shape, verdicts, statements, passages, unlabelled)


def _shape(rows: Sequence[RawRow | Problem], name: str) -> LabelShape:
    """The shape of the first rows' columns. A file whose rows cannot be read at all counts as verdicts."""
    columns = {column: None for row in rows[:100] if isinstance(row, RawRow) for column in row.values}
    if not rows:
        raise DataError(f"{name} has no rows")
    if HUMAN in columns or not columns:
        return "verdicts"
    if "statement" in columns and "label" in columns and columns.keys() & {"context", "contexts"}:
        return "attribution"
    if columns.keys() >= {"question", "sentences", "relevant"}:
        return "relevance"
    raise DataError(
        f"{name} holds no labels that are known (columns: {', '.join(shown(str(column)) for column in columns)})",
        hint=f"either verdicts of a run with a column {HUMAN!r}, or context, statement and label, "
        "or question, sentences and relevant",
    )


class _Cells:
    """The values of one row, each read as what it has to be; `problems` collects what is wrong."""

    def __init__(self, row: RawRow) -> None:
        self.row = row
        self.problems: list[Problem] = []

    def value(self, column: str) -> Any:
        """The value of a column; None also for an empty cell of CSV and for NaN."""
        value = self.row.values.get(column)
        return None if value == "" or (isinstance(value, float) and math.isnan(value)) else value

    def text(self, column: str) -> str:
        value = self.value(column)
        if isinstance(value, int) and not isinstance(value, bool) and column == "sample_id":
            return str(value)
        return value if isinstance(value, str) else self._wrong(column, value, "text", "")

    def texts(self, column: str) -> tuple[str, ...]:
        items = self.listed(column)
        if items and all(isinstance(item, str) for item in items):
            return tuple(items)
        return self._wrong(column, self.value(column), "texts", ())

    def listed(self, column: str) -> list[Any]:
        """A list; one text is a list of one. In CSV it is written as JSON."""
        value = self.value(column)
        if isinstance(value, str):
            value = value if self.row.typed else read_cell(value, column, self._report)
        return list(value) if isinstance(value, list | tuple) else [value]

    def whole(self, column: str) -> int:
        number = self._number(value := self.value(column))
        if number is None or number < 0 or not number.is_integer():
            return self._wrong(column, value, "a whole number", 0)
        return int(number)

    def label(self, column: str, value: Any) -> Label | None:
        bare = value.strip().lower() if isinstance(value, str) else value
        if isinstance(bare, str | bool | int | float | None) and bare in _LABEL_OF:
            return _LABEL_OF[bare]
        return self._wrong(column, value, _A_LABEL, None)

    def probability(self, column: str) -> float:
        """A probability above 0; 1 for an empty cell."""
        value = self.value(column)
        number = 1.0 if value is None else self._number(value)
        if number is None or not 0 < number <= 1:
            return self._wrong(column, value, "a probability above 0, at most 1", 1.0)
        return number

    def _number(self, value: Any) -> float | None:
        if isinstance(value, bool) or not isinstance(value, int | float if self.row.typed else str | int | float):
            return None
        try:
            return float(value.replace(",", ".") if isinstance(value, str) else value)
        except (ValueError, OverflowError):
            return None

    def _wrong(self, column: str, value: Any, expected: str, instead: _Value) -> _Value:
        self._report(column, describe(value), expected)
        return instead

    def _report(self, column: str, problem: str, expected: str) -> None:
        self.problems.append(Problem.at(self.row.place, column, problem, expected))


_LabelledRow = LabelledVerdict | LabelledStatement | LabelledSentences


def _labelled(
    rows: Sequence[RawRow | Problem], reader: Callable[[_Cells], _LabelledRow | None]
) -> tuple[list[_LabelledRow], Problems]:
    labelled: list[_LabelledRow] = []
    problems = Problems()
    first: dict[VerdictKey, str] = {}
    for row in rows:
        if isinstance(row, Problem):
            problems.add_row([row])
            continue
        cells = _Cells(row)
        label = reader(cells)
        key = label.key if isinstance(label, LabelledVerdict) and not cells.problems else None
        if key in first:
            cells.problems.append(
                Problem.at(row.place, None, f"the verdict of {first[key]} again", "each verdict once")
            )
        elif key:
            first[key] = str(row.place)
        if cells.problems:
            problems.add_row(cells.problems)
        elif label is not None:
            labelled.append(label)
    return labelled, problems


def _verdict(cells: _Cells) -> LabelledVerdict:
    return LabelledVerdict(
        place=str(cells.row.place),
        columns=cells.row.values,
        key=verdict_key(cells.text("sample_id"), cells.text("metric"), cells.whole("position")),
        text=cells.text("text"),
        human=cells.label(HUMAN, cells.value(HUMAN)),
        inclusion_probability=cells.probability(INCLUSION_PROBABILITY),
    )


def _statement(cells: _Cells) -> LabelledStatement | None:
    contexts = "contexts" if cells.value("context") is None else "context"
    texts, statement, label = cells.texts(contexts), cells.text("statement"), cells.label("label", cells.value("label"))
    question = None if cells.value("question") is None else cells.text("question")
    if label is None:
        return None
    return LabelledStatement(str(cells.row.place), cells.row.values, texts, statement, label, question)


def _passage(cells: _Cells) -> LabelledSentences:
    question, sentences = cells.text("question"), cells.texts("sentences")
    labels = tuple(cells.label("relevant", value) for value in cells.listed("relevant"))
    if sentences and len(labels) != len(sentences):
        counts = f"{len(labels)} labels for {len(sentences)} sentences"
        cells.problems.append(Problem.at(cells.row.place, "relevant", counts, "one for each sentence"))
    return LabelledSentences(str(cells.row.place), cells.row.values, question, sentences, labels)


_READERS: dict[LabelShape, Callable[[_Cells], _LabelledRow | None]] = {
    "verdicts": _verdict,
    "attribution": _statement,
    "relevance": _passage,
}


class VerdictLabel(NamedTuple):
    """A label and which verdict it is of; `cluster` names what its sample was drawn with: its group or id if None."""

    key: VerdictKey
    text: str
    label: Label
    cluster: str | None
    inclusion_probability: float = 1.0


class MatchedLabels(NamedTuple):
    """Labels and probabilities of the verdicts on one question; `metric` is one of those that ask it.

    `votes` has what each judge of a combined run gave, row by row, by its name; empty for one judge. `failed` verdicts
    were labelled and have no probability.
    """

    question: str
    metric: str
    rows: LabelledScores
    votes: list[dict[str, float | None]]
    verdicts: int
    failed: int
    weighted: bool


def match_labels(run: Run, labels: Sequence[VerdictLabel]) -> MatchedLabels:
    """The labels with their probabilities.

    Raises DataError for labels of verdicts that the run does not have, of another text, or of several questions.
    """
    if not labels:
        raise DataError("nothing is labelled", hint="fill in the labels, 1 or 0, and give the file once more")
    rows = labelled_rows(run, {label.key for label in labels})
    _check_same_run(run, labels, rows)
    questions = sorted({question_of(row.metric) for row in rows.values()})
    if len(questions) > 1:
        raise DataError(
            f"the labels are of {len(questions)} questions: {', '.join(questions)}",
            hint=f"a calibration is of one: choose its metrics with {option_name('metrics')}",
        )
    judged = [(label, row, row.p_yes) for label in labels if (row := rows[label.key]).p_yes is not None]
    if not judged:
        raise DataError("none of the labelled verdicts has a probability", hint="look at the run's failures")
    weights = [1 / label.inclusion_probability for label, *_ in judged]
    groups = run.cluster_of or {}
    return MatchedLabels(
        question=questions[0],
        metric=rows[labels[0].key].metric,
        rows=LabelledScores(
            labels=[label.label for label, *_ in judged],
            scores=[p_yes for *_, p_yes in judged],
            weights=weights,
            clusters=[label.cluster or groups.get(row.sample_id, row.sample_id) for label, row, _ in judged],
        ),
        votes=[dict(row.judges or {}) for _, row, _ in judged],
        verdicts=len(judged),
        failed=len(labels) - len(judged),
        weighted=len(set(weights)) > 1,
    )


def labelled_rows(run: Run, keys: Collection[VerdictKey]) -> dict[VerdictKey, VerdictRow]:
    """The verdicts of the run with these keys; a key that it does not have is left out."""
    rows = {}
    for (sample_id, metric), verdicts in groupby(run.iter_verdicts(), key=lambda row: (row.sample_id, row.metric)):
        for position, row in enumerate(verdicts):
            if (key := verdict_key(sample_id, metric, position)) in keys:
                rows[key] = row
    return rows


def same_text(row: VerdictRow, text: str) -> bool:
    """Whether the verdict is of this text, as it comes back from a spreadsheet."""
    return bool(inert(row.text) == inert(text))


def _check_same_run(run: Run, labels: Sequence[VerdictLabel], rows: Mapping[VerdictKey, VerdictRow]) -> None:
    missing = [label.key for label in labels if label.key not in rows]
    other = [label.key for label in labels if label.key in rows and not same_text(rows[label.key], label.text)]
    if missing or other:
        parts = [f"{len(missing)} are of verdicts that it does not have"] if missing else []
        parts += [f"{len(other)} are of another text"] if other else []
        example = ", ".join(excerpt(str(value)) for value in [*missing, *other][0])
        raise DataError(
            f"these are labels of another run than {run.directory}: of {len(labels)}, {' and '.join(parts)}, "
            f"such as {example}",
            hint="name the run whose verdicts were labelled",
        )


ShareOf = Literal["ones", "zeros"]


class UnitFrame:
    """The counted verdicts of one metric, in the order of the run."""

    def __init__(self) -> None:
        self._judged = array("b")
        self._p_yes = array("d")
        self._sizes = array("i")
        self._clusters = array("i")
        self._places: dict[str, range] = {}
        self._shares: set[ShareOf] = {"ones", "zeros"}

    def add(self, evaluation: Evaluation, cluster: int) -> None:
        """Count the verdicts of one more sample, of this cluster: all if it was scored, none otherwise."""
        if not isinstance(evaluation.outcome, Scored):
            return
        verdicts = [unit.verdict for unit in evaluation.units if isinstance(unit.verdict, Verdict)]
        if len(verdicts) < len(evaluation.units):
            verdicts = []
        labels = [verdict.label for verdict in verdicts]
        share = evaluation.outcome.numerator, evaluation.outcome.denominator
        counts: dict[ShareOf, int] = {"ones": sum(labels), "zeros": len(labels) - sum(labels)}
        self._shares -= {name for name, count in counts.items() if share != (count, len(labels))}
        if verdicts:
            self._places[inert(evaluation.sample_id)] = range(len(self._judged), len(self._judged) + len(labels))
            self._judged.extend(labels)
            self._p_yes.extend(math.nan if verdict.p_yes is None else verdict.p_yes for verdict in verdicts)
            self._sizes.append(len(verdicts))
            self._clusters.append(cluster)

    def __len__(self) -> int:
        return len(self._judged)

    def index(self, key: VerdictKey) -> int | None:
        """Where a verdict of the metric stands in the frame; None if it counts in no mean."""
        places = self._places.get(key.sample_id, range(0))
        return places[key.position] if key.position < len(places) else None

    def keys(self, metric: str, indices: Sequence[int]) -> list[VerdictKey]:
        """The keys of the verdicts of the metric at these indices, in their order."""
        samples, starts = list(self._places), [places.start for places in self._places.values()]
        of_sample = ((bisect_right(starts, index) - 1, index) for index in indices)
        return [verdict_key(samples[sample], metric, index - starts[sample]) for sample, index in of_sample]

    @property
    def share_of(self) -> ShareOf | None:
        """Which verdicts its scores are shares of; None where they are something else."""
        return next((name for name in ("ones", "zeros") if len(self) and name in self._shares), None)

    @property
    def judged(self) -> Floats:
        """Labels of the judge (units,)."""
        return np.array(self._judged, dtype=np.float64)

    @property
    def p_yes(self) -> Floats:
        """Probabilities of 1 (units,), NaN where a label follows without a judge."""
        return np.array(self._p_yes, dtype=np.float64)

    def strata(self, labels: int) -> Indices:
        """Stratum of each verdict of a judge (judged units,), to draw this number of labels and correct by them."""
        p_yes = self.p_yes
        return strata_by_score(p_yes[~np.isnan(p_yes)], min(STRATA, labels))

    @property
    def weights(self) -> Floats:
        """Shares of the units (units,) in the mean of the metric, 1 in all."""
        sizes = np.array(self._sizes, dtype=np.float64)
        return np.repeat(1 / (sizes * len(sizes)), self._sizes)

    @property
    def clusters(self) -> Indices:
        """Number of each unit's cluster (units,): its sample, or the group of that."""
        numbers = np.array(self._clusters, dtype=np.intp)
        return np.repeat(np.unique(numbers, return_inverse=True)[1], self._sizes)


def unit_frames(run: Run, metrics: Collection[str]) -> dict[str, UnitFrame]:
    """The frame of each of the metrics."""
    frames = {name: UnitFrame() for name in metrics}
    groups = run.cluster_of
    numbers: dict[str, int] = {}
    for evaluation in evaluations_of(run.iter_scores(), run.iter_verdicts()):
        cluster = evaluation.sample_id if groups is None else groups[evaluation.sample_id]
        number = numbers.setdefault(cluster, len(numbers))
        if evaluation.metric in frames:
            frames[evaluation.metric].add(evaluation, number)
    return frames
