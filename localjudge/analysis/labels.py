"""What people said: a file of labels, in one of three shapes, told apart by its columns.

    verdicts     sample_id, metric, unit, source, source_index, index, text, human     rows of a run's verdicts
    attribution  context (or contexts), statement, label                               is the statement in the contexts?
    relevance    question, sentences, relevant                                         which sentences answer it?

A label is 1 or 0 (also true and false, yes and no); where there is none, the row or the sentence was not labelled.
JSONL, JSON, CSV and Parquet are read as data are. Everything that is wrong with any row is said at once, and no row is
dropped in silence.

Labels of people beside the verdicts of a run: each label finds its verdict by its key, or is refused.

    labels.jsonl     s1, faithfulness, statement 0   "It rains."   human 1
    verdicts.jsonl   s1, faithfulness, statement 0   "It rains."   p_yes 0.93      -> (1, 0.93)

The texts have to be the same: a label of another text is of another run.

The verdicts that make up the mean of a metric, as arrays: what is drawn from to be labelled, and what is corrected.

    sample   units     judged      weight in the mean
    a        3         1 1 0       1/3 * 1/2
    b        1         1           1   * 1/2

Counted are the verdicts of samples that were scored. Is every score a share of its sample's verdicts, of those that are
1 or (a criterion whose good answer is no) of those that are 0, the mean is a sum over verdicts, and can be corrected by
labels of some. Average precision, F1 and scores that rest on a table of verdicts are none.
"""

import hashlib
import math
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
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
from localjudge.record.result_rows import Evaluation, JudgedUnit, VerdictRow, evaluations_of
from localjudge.record.run import Run
from localjudge.stats.corrected import STRATA, strata_by_score
from localjudge.stats.interval import Floats, Indices, LabelledScores
from localjudge.types import Label, Scored, Verdict
from localjudge.words import inert, option_name

LabelShape = Literal["verdicts", "attribution", "relevance"]
HUMAN = "human"
INCLUSION_PROBABILITY = "inclusion_probability"
_LABEL_OF: dict[Any, Label] = {1: 1, 0: 0, "1": 1, "0": 0, "true": 1, "false": 0, "yes": 1, "no": 0, "1.0": 1, "0.0": 0}
_A_LABEL = "1 or 0 (also true and false, yes and no), or nothing"
_CHUNK = 2**20
_Given = TypeVar("_Given")


@dataclass(frozen=True)
class VerdictKey:
    """Which verdict of a run a label belongs to; `against` tells several verdicts on one unit apart."""

    sample_id: str
    metric: str
    unit: str
    source: str
    source_index: int | None
    index: int
    against: int | str | None = None


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
    annotator: str | None


class LabelledStatement(NamedTuple):
    """Whether a statement can be attributed to its contexts, as a person says."""

    place: str
    columns: Mapping[str, Any]
    contexts: tuple[str, ...]
    statement: str
    label: Label
    question: str | None


class LabelledSentences(NamedTuple):
    """Which sentences of a passage are needed to answer the question, as a person says; None where not labelled."""

    place: str
    columns: Mapping[str, Any]
    question: str
    sentences: tuple[str, ...]
    relevant: tuple[Label | None, ...]


class HumanLabels(NamedTuple):
    """The labels of a file: one of the lists holds them, as `shape` says. `sha256` is that of the file, unpacked."""

    name: str
    sha256: str
    shape: LabelShape
    verdicts: tuple[LabelledVerdict, ...] = ()
    statements: tuple[LabelledStatement, ...] = ()
    passages: tuple[LabelledSentences, ...] = ()
    unlabelled: int = 0
    """Rows without a label: verdicts and statements; of passages the sentences. Statements without one are left out."""


_Found = LabelledVerdict | LabelledStatement | LabelledSentences


class _Cells:
    """The values of one row, each read as what it has to be; what is wrong with them is collected."""

    def __init__(self, row: RawRow) -> None:
        self.row = row
        self.problems: list[Problem] = []

    def value(self, column: str) -> Any:
        """The value of a column; null where there is none: also for an empty cell of CSV and for NaN."""
        value = self.row.values.get(column)
        empty = value == "" or (isinstance(value, float) and math.isnan(value))
        return None if empty else value

    def text(self, column: str) -> str:
        value = self.value(column)
        if isinstance(value, int) and not isinstance(value, bool) and column == "sample_id":
            return str(value)
        return value if isinstance(value, str) else self._wrong(column, value, "text", "")

    def optional_text(self, column: str) -> str | None:
        return None if self.value(column) is None else self.text(column)

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
        number = self.optional_whole(column)
        return self._wrong(column, None, "a whole number", 0) if number is None else number

    def optional_whole(self, column: str) -> int | None:
        value = self.value(column)
        if value is None:
            return None
        number = self._number(value)
        if number is None or number < 0 or not number.is_integer():
            return self._wrong(column, value, "a whole number", 0)
        return int(number)

    def against(self) -> int | str | None:
        value = self.value("against")
        return value if isinstance(value, str) and not value.strip().isdecimal() else self.optional_whole("against")

    def label(self, column: str) -> Label | None:
        return self.label_of(column, self.value(column))

    def label_of(self, column: str, value: Any) -> Label | None:
        bare = value.strip().lower() if isinstance(value, str) else value
        if bare is None or bare == "":
            return None
        if isinstance(bare, str | bool | int | float) and bare in _LABEL_OF:
            return _LABEL_OF[bare]
        return self._wrong(column, value, _A_LABEL, None)

    def probability(self, column: str) -> float:
        """A probability above 0; 1 where there is none."""
        value = self.value(column)
        number = 1.0 if value is None else self._number(value)
        if number is None or not 0 < number <= 1:
            return self._wrong(column, value, "a probability above 0, at most 1", 1.0)
        return number

    def _number(self, value: Any) -> float | None:
        if (
            isinstance(value, bool)
            or not isinstance(value, str | int | float)
            or (self.row.typed and value == str(value))
        ):
            return None
        try:
            return float(value.replace(",", ".") if isinstance(value, str) else value)
        except (ValueError, OverflowError):
            return None

    def _wrong(self, column: str, value: Any, expected: str, instead: _Given) -> _Given:
        self._report(column, describe(value), expected)
        return instead

    def _report(self, column: str, found: str, expected: str) -> None:
        self.problems.append(Problem.at(self.row.place, column, found, expected))


def read_labels(file: str | Path) -> HumanLabels:
    """The labels of a file, or of standard input (`-`).

    Raises DataError for a file that cannot be read, has none of the shapes or any row that is not as it should be (all
    of them are named), and for a verdict that is labelled twice.
    """
    with closing(Source(str(file))) as source:
        sha256 = _sha256(source)
        rows = [*read(source, {})]
    shape = _shape(rows, source.name)
    found, problems = _checked(rows, _READERS[shape])
    if problems.count:
        raise problems.error(f"{problems.bad_rows} of {len(rows)} labelled rows cannot be used", "mend the rows")
    verdicts = tuple(row for row in found if isinstance(row, LabelledVerdict))
    statements = tuple(row for row in found if isinstance(row, LabelledStatement))
    passages = tuple(row for row in found if isinstance(row, LabelledSentences))
    bare = len(rows) - len(found) + sum(row.human is None for row in verdicts)
    bare += sum(label is None for row in passages for label in row.relevant)
    return HumanLabels(source.name, sha256, shape, verdicts, statements, passages, bare)


def key_of(row: VerdictRow) -> VerdictKey:
    """The key under which a person's label of this verdict is found."""
    return VerdictKey(row.sample_id, row.metric, row.unit, row.source, row.source_index, row.index, row.against)


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
    found = ", ".join(shown(str(column)) for column in columns)
    raise DataError(
        f"{name} holds no labels that are known (columns: {found})",
        hint=f"either verdicts of a run with a column {HUMAN!r}, or context, statement and label, "
        "or question, sentences and relevant",
    )


def _checked(
    rows: Sequence[RawRow | Problem], reader: Callable[[_Cells], _Found | None]
) -> tuple[list[_Found], Problems]:
    found: list[_Found] = []
    problems = Problems()
    first: dict[VerdictKey, str] = {}
    for row in rows:
        if isinstance(row, Problem):
            problems.add_row([row])
            continue
        cells = _Cells(row)
        labelled = reader(cells)
        if isinstance(labelled, LabelledVerdict) and not cells.problems:
            if labelled.key in first:
                again = f"the verdict of {first[labelled.key]} again"
                cells.problems.append(Problem.at(row.place, None, again, "each verdict once"))
            first.setdefault(labelled.key, labelled.place)
        if cells.problems:
            problems.add_row(cells.problems)
        elif labelled is not None:
            found.append(labelled)
    return found, problems


def _verdict(cells: _Cells) -> LabelledVerdict:
    return LabelledVerdict(
        place=str(cells.row.place),
        columns=cells.row.values,
        key=VerdictKey(
            sample_id=cells.text("sample_id"),
            metric=cells.text("metric"),
            unit=cells.text("unit"),
            source=cells.text("source"),
            source_index=cells.optional_whole("source_index"),
            index=cells.whole("index"),
            against=cells.against(),
        ),
        text=cells.text("text"),
        human=cells.label(HUMAN),
        inclusion_probability=cells.probability(INCLUSION_PROBABILITY),
        annotator=cells.optional_text("annotator"),
    )


def _statement(cells: _Cells) -> LabelledStatement | None:
    contexts = "contexts" if cells.value("context") is None else "context"
    texts, statement, label = cells.texts(contexts), cells.text("statement"), cells.label("label")
    question = cells.optional_text("question")
    if label is None:
        return None
    return LabelledStatement(str(cells.row.place), cells.row.values, texts, statement, label, question)


def _passage(cells: _Cells) -> LabelledSentences:
    question, sentences = cells.text("question"), cells.texts("sentences")
    labels = [cells.label_of("relevant", value) for value in cells.listed("relevant")]
    if sentences and len(labels) != len(sentences):
        found = f"{len(labels)} labels for {len(sentences)} sentences"
        cells.problems.append(Problem.at(cells.row.place, "relevant", found, "one for each sentence"))
    return LabelledSentences(str(cells.row.place), cells.row.values, question, sentences, tuple(labels))


_READERS: dict[LabelShape, Callable[[_Cells], _Found | None]] = {
    "verdicts": _verdict,
    "attribution": _statement,
    "relevance": _passage,
}


def _sha256(source: Source) -> str:
    whole = hashlib.sha256()
    with source.open() as opened:
        while chunk := opened.stream.read(_CHUNK):
            whole.update(chunk)
    return whole.hexdigest()


class WantedLabel(NamedTuple):
    """A label and which verdict it is of; `cluster` names what the sample was drawn with."""

    key: VerdictKey
    text: str
    label: Label
    cluster: str
    inclusion_probability: float = 1.0


class MatchedLabels(NamedTuple):
    """Labels and probabilities of the verdicts on one question; `failed` were labelled and have no probability."""

    question: str
    metric: str
    """One of those that ask it."""
    rows: LabelledScores
    votes: list[dict[str, float | None]]
    """Of each row of a combined run what its judges gave, by their names; empty for one judge."""
    verdicts: int
    failed: int
    weighted: bool


def matched(run: Run, wanted: Sequence[WantedLabel]) -> MatchedLabels:
    """The labels with their probabilities.

    Raises DataError for labels of verdicts that the run does not have, of another text, or of several questions.
    """
    if not wanted:
        raise DataError("nothing is labelled", hint="fill in the labels, 1 or 0, and give the file once more")
    found = _found(run, wanted)
    questions = sorted({question_of(one.key.metric) for one in wanted})
    if len(questions) > 1:
        raise DataError(
            f"the labels are of {len(questions)} questions: {', '.join(questions)}",
            hint=f"a calibration is of one: choose its metrics with {option_name('metrics')}",
        )
    judged = [(one, row, row.p_yes) for one in wanted if (row := found[one.key]).p_yes is not None]
    if not judged:
        raise DataError("none of the labelled verdicts has a probability", hint="look at the run's failures")
    weights = [1 / one.inclusion_probability for one, *_ in judged]
    rows = LabelledScores(
        labels=[one.label for one, *_ in judged],
        scores=[p_yes for *_, p_yes in judged],
        weights=weights,
        clusters=[one.cluster for one, *_ in judged],
    )
    return MatchedLabels(
        question=questions[0],
        metric=wanted[0].key.metric,
        rows=rows,
        votes=[dict(row.judges or {}) for _, row, _ in judged],
        verdicts=len(judged),
        failed=len(wanted) - len(judged),
        weighted=len(set(weights)) > 1,
    )


def _found(run: Run, wanted: Sequence[WantedLabel]) -> dict[VerdictKey, VerdictRow]:
    texts = {one.key: one.text for one in wanted}
    found: dict[VerdictKey, VerdictRow] = {}
    other = []
    for row in run.iter_verdicts():
        if (key := key_of(row)) in texts:
            found[key] = row
            if row.text != texts[key]:
                other.append(key)
    missing = [one.key for one in wanted if one.key not in found]
    if missing or other:
        what = f"{len(missing)} are of verdicts that it does not have" if missing else ""
        texts_differ = f"{len(other)} are of another text" if other else ""
        raise DataError(
            f"these are labels of another run than {run.directory}: of {len(wanted)}, "
            f"{' and '.join(filter(None, (what, texts_differ)))}, such as {_in_words([*missing, *other][0])}",
            hint="name the run whose verdicts were labelled",
        )
    return found


def _in_words(key: VerdictKey) -> str:
    return ", ".join(excerpt(str(value)) for value in vars(key).values() if value is not None)


ShareOf = Literal["ones", "zeros"]


class UnitPlace(NamedTuple):
    """Where a unit stands in its frame (None if it counts in no mean), and its text."""

    position: int | None
    text: str


class UnitFrame:
    """The counted verdicts of one metric, in the order of the run."""

    def __init__(self) -> None:
        self._judged = array("b")
        self._p_yes = array("d")
        self._sizes = array("i")
        self._clusters = array("i")
        self._all_ones = self._all_zeros = True
        self.places: dict[VerdictKey, UnitPlace] = {}
        """Of the units that were looked for, by their keys as `comparable` gives them."""

    def add(self, evaluation: Evaluation, cluster: int, wanted: Collection[VerdictKey]) -> None:
        """Count the verdicts of one more sample, of this cluster."""
        units = counted_units(evaluation)
        if units and wanted:
            self._look_for(evaluation, wanted, len(self._judged))
        elif wanted:
            self._look_for(evaluation, wanted, None)
        labels = [unit.verdict.label for unit in units if isinstance(unit.verdict, Verdict)]
        if isinstance(evaluation.outcome, Scored):
            found = evaluation.outcome.numerator, evaluation.outcome.denominator
            self._all_ones &= found == (sum(labels), len(labels))
            self._all_zeros &= found == (len(labels) - sum(labels), len(labels))
        if units:
            self._judged.extend(labels)
            self._p_yes.extend(_p_yes(unit) for unit in units)
            self._sizes.append(len(units))
            self._clusters.append(cluster)

    def __len__(self) -> int:
        return len(self._judged)

    @property
    def share_of(self) -> ShareOf | None:
        """Which verdicts its scores are shares of; None where they are something else."""
        if not len(self):
            return None
        return "ones" if self._all_ones else "zeros" if self._all_zeros else None

    @property
    def judged(self) -> Floats:
        """Labels of the judge (units,)."""
        return np.array(self._judged, dtype=np.float64)

    @property
    def p_yes(self) -> Floats:
        """Probabilities of 1 (units,), NaN where a label follows without a judge."""
        return np.array(self._p_yes, dtype=np.float64)

    def strata(self, labels: int) -> Indices:
        """Stratum of each verdict of a judge (judged units,), from which so many labels are drawn, or were."""
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

    def _look_for(self, evaluation: Evaluation, wanted: Collection[VerdictKey], first: int | None) -> None:
        for number, judged in enumerate(evaluation.units):
            key = comparable(unit_key(evaluation, judged))
            if key in wanted:
                self.places[key] = UnitPlace(None if first is None else first + number, judged.unit.span.text)


def unit_frames(run: Run, metrics: Sequence[str], wanted: Collection[VerdictKey] = ()) -> dict[str, UnitFrame]:
    """The frame of each of the metrics, with the places of the units whose keys, `comparable`, are wanted."""
    found = {name: UnitFrame() for name in metrics}
    for number, evaluation in clustered_evaluations(run):
        if evaluation.metric in found:
            found[evaluation.metric].add(evaluation, number, wanted)
    return found


def clustered_evaluations(run: Run) -> Iterator[tuple[int, Evaluation]]:
    """Every evaluation of the run with the number of its sample's cluster."""
    group_of = run.cluster_of if run.manifest.data["clusters_sha256"] is not None else None
    numbers: dict[str, int] = {}
    for evaluation in evaluations_of(run.iter_scores(), run.iter_verdicts()):
        sample_id = evaluation.sample_id
        yield numbers.setdefault(sample_id if group_of is None else group_of[sample_id], len(numbers)), evaluation


def counted_units(evaluation: Evaluation) -> Sequence[JudgedUnit]:
    """The units that count in the mean: all of a sample that was scored, none of another."""
    judged = all(isinstance(unit.verdict, Verdict) for unit in evaluation.units)
    return evaluation.units if judged and isinstance(evaluation.outcome, Scored) else ()


def unit_key(evaluation: Evaluation, judged: JudgedUnit) -> VerdictKey:
    """The key of the unit's verdict."""
    unit = judged.unit
    return VerdictKey(
        sample_id=evaluation.sample_id,
        metric=evaluation.metric,
        unit=unit.kind,
        source=unit.source,
        source_index=unit.source_index,
        index=unit.index,
        against=unit.against,
    )


def comparable(key: VerdictKey) -> VerdictKey:
    """The key as it comes back from a spreadsheet."""
    return replace(key, sample_id=inert(key.sample_id), metric=inert(key.metric))


def _p_yes(judged: JudgedUnit) -> float:
    verdict = judged.verdict
    return verdict.p_yes if isinstance(verdict, Verdict) and verdict.p_yes is not None else float("nan")
