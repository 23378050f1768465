"""People's labels of a judge's verdicts: read from a file, matched with a run, and used to correct its means.

A file of labels has one of three shapes, told apart by its columns:

    verdicts     sample_id, metric, position, text, human      rows of a run's verdicts, or of a sheet
    attribution  context (or contexts), statement, label       is the statement in the contexts?
    relevance    question, sentences, relevant                 which sentences answer it?

A label is 1 or 0 (also true and false, yes and no); an empty one means not labelled. Everything wrong with any row is
said at once, and no row is dropped in silence. A verdict is named by its sample, metric and position.

The verdicts that make up the mean of a metric are its frame: what labels are drawn from, and what they correct.

    sample   units     judged      weight in the mean
    a        3         1 1 0       1/3 * 1/2
    b        1         1           1   * 1/2

It counts the verdicts of samples that were scored. If every score is the share of 1 among its sample's verdicts (or of
0: a criterion whose good answer is no), the mean is a sum over verdicts, and labels of some can correct it:

    context_recall   the judge                 0.708   0.669 - 0.745
                     corrected                 0.641   0.580 - 0.702

A label of another run may have been drawn otherwise, or be of another judge: it is refused, as its sheet names another
signature, or the run has no such verdict with the same text. `localjudge.stats.corrected` says what is assumed.
"""

import hashlib
import math
from array import array
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from localjudge.analysis.human_label import HUMAN, LABEL_FORM, parse_label
from localjudge.dataset.formats import read
from localjudge.dataset.problems import Problem, Problems, describe, shown
from localjudge.dataset.rows import RawRow, read_cell
from localjudge.dataset.sources import Source
from localjudge.errors import DataError
from localjudge.metrics.catalog import question_of
from localjudge.record.directory import excerpt
from localjudge.record.result_rows import Evaluation, VerdictRow, evaluations_of
from localjudge.record.run import Run, as_run
from localjudge.stats.corrected import FEWEST_CLUSTERS, STRATA, JudgedUnits, prediction_powered, strata_by_score
from localjudge.stats.interval import Floats, Indices, LabelledScores
from localjudge.types import Label, Record, Scored, Verdict
from localjudge.words import escape_formula, option_name

LabelShape = Literal["verdicts", "attribution", "relevance"]
_LISTS = ("contexts", "sentences", "relevant")


class VerdictKey(NamedTuple):
    """Which verdict of a run: its sample and metric as they come back from a spreadsheet, and its place in both."""

    sample_id: str
    metric: str
    position: int


def verdict_key(sample_id: str, metric: str, position: int) -> VerdictKey:
    """The key of a verdict, whether its sample is named as in the run or as in a spreadsheet."""
    return VerdictKey(escape_formula(sample_id), escape_formula(metric), position)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


_Text = Annotated[str, Field(description="text")]
_Texts = Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1, description="texts")]
_HumanLabel = Annotated[Label | None, BeforeValidator(parse_label), Field(description=LABEL_FORM)]


class _Row(BaseModel):
    """A row of a file of labels; `columns` is the row as it was read, whatever else it holds."""

    model_config = ConfigDict(frozen=True)

    place: str
    columns: Mapping[str, Any]


class LabelledVerdict(_Row):
    """A verdict as a person judged it; `human` is None where nobody has yet."""

    sample_id: Annotated[_Text, BeforeValidator(lambda value: str(value) if type(value) is int else value)]
    metric: _Text
    position: int = Field(ge=0, description="a whole number")
    text: _Text
    human: _HumanLabel = None
    inclusion_probability: Annotated[
        float, BeforeValidator(lambda value: value.replace(",", ".") if isinstance(value, str) else value)
    ] = Field(default=1.0, gt=0, le=1, description="a probability above 0, at most 1")

    @property
    def key(self) -> VerdictKey:
        """Which verdict it is."""
        return verdict_key(self.sample_id, self.metric, self.position)


class LabelledStatement(_Row):
    """Whether a person attributes a statement to its contexts; None where not labelled."""

    contexts: _Texts
    statement: _Text
    label: _HumanLabel = None
    question: _Text | None = Field(default=None, description="text")


class LabelledSentences(_Row):
    """Which sentences of a passage a person needs to answer the question; None where not labelled."""

    question: _Text
    sentences: _Texts
    relevant: Annotated[tuple[_HumanLabel, ...], BeforeValidator(_listed)] = Field(
        description="1, 0 or nothing for each sentence"
    )

    @field_validator("relevant")
    @classmethod
    def _one_for_each(cls, labels: tuple[Label | None, ...], info: ValidationInfo) -> tuple[Label | None, ...]:
        if len(labels) != len(info.data.get("sentences", labels)):
            raise ValueError("one label for each sentence")
        return labels


_KINDS: dict[str, Any] = {"verdicts": LabelledVerdict, "attribution": LabelledStatement, "relevance": LabelledSentences}


class HumanLabels(NamedTuple):
    """The labels of a file, of verdicts or of texts, as `shape` says. `sha256` is that of the file, unpacked.

    `unlabelled` counts verdicts, statements (which are left out) and sentences of passages that have no label.
    """

    name: str
    sha256: str
    shape: LabelShape
    verdicts: tuple[LabelledVerdict, ...]
    texts: tuple[LabelledStatement | LabelledSentences, ...]
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
    verdicts: dict[VerdictKey, LabelledVerdict] = {}
    texts: list[LabelledStatement | LabelledSentences] = []
    problems, unlabelled = Problems(), 0
    for row in rows:
        wrong: list[Problem] = [row] if isinstance(row, Problem) else []
        label = None if isinstance(row, Problem) else _labelled(row, _KINDS[shape], wrong)
        match label:
            case LabelledVerdict():
                if (first := verdicts.setdefault(label.key, label)) is not label:
                    again = f"the verdict of {first.place} again"
                    wrong.append(Problem(place=label.place, field=None, value=again, expected="each verdict once"))
                unlabelled += label.human is None
            case LabelledSentences():
                unlabelled += label.relevant.count(None)
                texts.append(label)
            case LabelledStatement():
                unlabelled += label.label is None
                texts += [label] if label.label is not None else []
        if wrong:
            problems.add_row(wrong)
    if problems.count:
        raise problems.error(f"{problems.bad_rows} of {len(rows)} labelled rows cannot be used", "correct the rows")
    return HumanLabels(source.name, sha256.hexdigest(), shape, tuple(verdicts.values()), tuple(texts), unlabelled)


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


def _labelled(row: RawRow, kind: type[_Row], problems: list[Problem]) -> _Row | None:
    """The row as its shape has it; what is wrong with it is added to the problems."""

    def report(column: str, problem: str, expected: str) -> None:
        problems.append(Problem.at(row.place, column, problem, expected))

    filled = {name: value for name, value in row.values.items() if value not in (None, "")}  # NaN in a pandas table
    cells = {name: value for name, value in filled.items() if not (isinstance(value, float) and math.isnan(value))}
    if "context" in cells:
        cells["contexts"] = cells.pop("context")
    if not row.typed:
        cells |= {name: read_cell(cells[name], name, report) for name in _LISTS if name in cells}
    try:
        return kind.model_validate({**cells, "place": str(row.place), "columns": row.values})
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            column = str(problem["loc"][0])
            value = None if problem["type"] == "missing" else problem["input"]
            report(column, describe(value), kind.model_fields[column].description or "")
        return None


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
    rows = labelled_rows(run, {label.key: label.text for label in labels})
    if others := [label.key for label in labels if label.key not in rows]:
        example = ", ".join(excerpt(str(value)) for value in others[0])
        raise DataError(
            f"{len(others)} of {len(labels)} labels are not of verdicts in {run.directory}, such as {example}",
            hint="name the run whose verdicts were labelled",
        )
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
    clusters = [label.cluster or groups.get(row.sample_id, row.sample_id) for label, row, _ in judged]
    return MatchedLabels(
        question=questions[0],
        metric=rows[labels[0].key].metric,
        rows=LabelledScores([label.label for label, *_ in judged], [p for *_, p in judged], weights, clusters),
        votes=[dict(row.judges or {}) for _, row, _ in judged],
        verdicts=len(judged),
        failed=len(labels) - len(judged),
        weighted=len(set(weights)) > 1,
    )


def labelled_rows(run: Run, texts: Mapping[VerdictKey, str | None]) -> dict[VerdictKey, VerdictRow]:
    """The verdicts of the run with these keys and texts (None: any), as a spreadsheet has them; others are left out."""
    rows = {}
    for (sample_id, metric), verdicts in groupby(run.iter_verdicts(), key=lambda row: (row.sample_id, row.metric)):
        for position, row in enumerate(verdicts):
            key = verdict_key(sample_id, metric, position)
            if key in texts and ((text := texts[key]) is None or escape_formula(row.text) == escape_formula(text)):
                rows[key] = row
    return rows


ShareOf = Literal["ones", "zeros"]
NO_SHARE = "its scores are no shares of its verdicts, so that labels of some cannot correct them"
FEW = f"no interval: fewer than {FEWEST_CLUSTERS} samples (or groups of samples) have labels"


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
            self._places[escape_formula(evaluation.sample_id)] = range(
                len(self._judged), len(self._judged) + len(labels)
            )
            self._judged.extend(labels)
            self._p_yes.extend(math.nan if verdict.p_yes is None else verdict.p_yes for verdict in verdicts)
            self._sizes.append(len(verdicts))
            self._clusters.append(cluster)

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
        return next((name for name in ("ones", "zeros") if self._judged and name in self._shares), None)

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
        return strata_by_score(self.p_yes[~np.isnan(self.p_yes)], min(STRATA, labels))

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
    groups, numbers = run.cluster_of, dict[str, int]()
    for evaluation in evaluations_of(run.iter_scores(), run.iter_verdicts()):
        cluster = evaluation.sample_id if groups is None else groups[evaluation.sample_id]
        number = numbers.setdefault(cluster, len(numbers))
        if evaluation.metric in frames:
            frames[evaluation.metric].add(evaluation, number)
    return frames


class CorrectedMean(Record):
    """A mean with its 95 % interval, None where there is none; `remark` says why."""

    mean: float | None
    ci95: tuple[float, float] | None
    remark: str | None = None


class CorrectedMetric(Record):
    """One metric: the judge's mean and the corrected one, by labels of `clusters` samples or groups of samples."""

    judged: CorrectedMean
    corrected: CorrectedMean
    verdicts: int
    labelled: int
    clusters: int
    power: float | None = None
    """Lambda: how much weight the judge's verdicts get, from 0 (labels alone) to 1."""


class CorrectedMeans(Record):
    """The means of a run, and what they are once labels have corrected them."""

    schema_version: int = 1
    run: str
    signature: str
    labels: str
    labels_sha256: str
    unlabelled: int
    warnings: tuple[str, ...]
    metrics: dict[str, CorrectedMetric]


def corrected_means(run: Run | str | Path, labels: str | Path) -> CorrectedMeans:
    """Correct the means of a run by a file of labels, such as `label_sheet` makes and people fill in.

    Raises DataError for a file that holds no labels of verdicts, and for labels of another run.
    """
    run = as_run(run)
    file = read_labels(labels)
    people = {row.key: row for row in file.verdicts if row.human is not None}
    if not people:
        raise DataError(
            f"{labels} holds no labels of verdicts yet",
            hint="a sheet of a run is made by: localjudge label RUN --out FILE; fill in its column human: 1 or 0",
        )
    own = labelled_rows(run, {key: row.text for key, row in people.items()})
    signatures = (None, "", run.summary.signature)
    others = [row for key, row in people.items() if key not in own or row.columns.get("run") not in signatures]
    if others:
        raise DataError(
            f"{len(others):,} of {len(people):,} labels in {labels} are not of the run in {run.directory}, "
            f"the first at {others[0].place}: another run, verdict or text",
            hint="label this run: localjudge label RUN --out FILE",
        )
    labelled = {key.metric for key in people}
    frames = unit_frames(run, [name for name in run.summary.metrics if escape_formula(name) in labelled])
    left = f"{file.unlabelled:,} rows of the sheet have no label: the corrected means hold if these are no harder"
    return CorrectedMeans(
        run=str(run.directory),
        signature=run.summary.signature,
        labels=str(labels),
        labels_sha256=file.sha256,
        unlabelled=file.unlabelled,
        warnings=(f"{left} than the others",) if file.unlabelled else (),
        metrics={name: _corrected(run, name, frame, people) for name, frame in frames.items()},
    )


def _corrected(run: Run, name: str, frame: UnitFrame, people: Mapping[VerdictKey, LabelledVerdict]) -> CorrectedMetric:
    summary = run.summary.metrics[name]
    withheld = name in run.summary.failed_beyond(run.max_failed)
    judged = CorrectedMean(mean=None, ci95=None) if withheld else CorrectedMean(mean=summary.mean, ci95=summary.ci95)
    places = {frame.index(key): label for key, label in people.items() if key.metric == escape_formula(name)}
    p_yes = frame.p_yes
    labels = {index: label for index, label in places.items() if index is not None and not np.isnan(p_yes[index])}
    counts = {"verdicts": len(p_yes), "labelled": len(labels)}
    if withheld or not labels or not frame.share_of:
        remark = NO_SHARE if labels else "none of its verdicts is labelled"
        remark = "too many of its samples failed" if withheld else remark
        corrected = CorrectedMean(mean=None, ci95=None, remark=remark)
        return CorrectedMetric(judged=judged, corrected=corrected, clusters=0, **counts)
    powered = prediction_powered(_units(frame, labels))
    corrected = CorrectedMean(mean=powered.mean, ci95=powered.limits, remark=None if powered.limits else FEW)
    return CorrectedMetric(judged=judged, corrected=corrected, clusters=powered.clusters, power=powered.power, **counts)


def _units(frame: UnitFrame, labels: Mapping[int, LabelledVerdict]) -> JudgedUnits:
    size = len(frame.judged)
    human, drawn = np.zeros(size), np.zeros(size)
    for position, row in labels.items():
        human[position] = row.human or 0
        drawn[position] = frame.weights[position] / row.inclusion_probability
    certain = np.isnan(frame.p_yes)
    human[certain], drawn[certain] = frame.judged[certain], frame.weights[certain]
    strata = np.zeros(size, dtype=np.intp)
    strata[~certain] = frame.strata(len(labels)) + int(certain.any())
    units = JudgedUnits(frame.judged, frame.weights, human, drawn, strata, frame.clusters, certain)
    if frame.share_of == "zeros":
        return units._replace(judged=1 - units.judged, human=1 - units.human)
    return units
