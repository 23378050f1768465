"""Measure judges on human labels, and save the results (`localjudge.calibrate`).

    runs with labels ─────────────────────────────────────┐
    labelled texts ──samples──> a run of each judge ──────┴─ labels and probabilities ──┐
    LOCALJUDGE_HOME/calibrations/NAME.json <── figures, threshold, labels saved ────────┘

The arithmetic is in `localjudge.labels.judge_comparison`.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from localjudge import model_registry
from localjudge.dataset import load
from localjudge.dataset.paths import lookup
from localjudge.dataset.rows import group_name, is_blank
from localjudge.dataset.sources import Source
from localjudge.engine.protocol import Engine
from localjudge.errors import DataError, InputError
from localjudge.judging.job import open_job
from localjudge.judging.judges import JudgeName, default_judge
from localjudge.judging.metric_choice import requested_names
from localjudge.judging.plan import Plan
from localjudge.judging.settings import checked
from localjudge.labels.calibration_labels import (
    LabelledText,
    hash_content,
    read_labelled_runs,
    read_labelled_texts,
)
from localjudge.labels.judge_comparison import JudgeAnswers, LabelledQuestion, calibrate_judges
from localjudge.metrics import catalog
from localjudge.metrics.attribution import ATTRIBUTION_LABELS
from localjudge.metrics.catalog import get_question
from localjudge.metrics.relevancy import RELEVANCE_LABELS
from localjudge.progress import Progress
from localjudge.run_directory.measured_judges import Calibration, calibration_file, name_and_save
from localjudge.run_directory.result_rows import VerdictId
from localjudge.run_directory.run_record import RunRecord, as_run
from localjudge.types import Context, Label, Sample
from localjudge.words import option_name

_METRICS = {"attribution": ATTRIBUTION_LABELS, "relevance": RELEVANCE_LABELS}
_DEFAULT_CLUSTERS = {"attribution": "the same contexts", "relevance": "the same passage"}


def measure_judges(
    sources: Sequence[RunRecord | str | Path],
    options: Mapping[str, Any],
    *,
    judges: Sequence[JudgeName] = (),
    name: str | None = None,
    progress: Progress | None = None,
) -> list[Calibration]:
    """Measure judges on each labelled question, by question, the best first, and save the results.

    Without a `name`, a judge that is not shown to be better than guessing is not saved.

    `sources` are runs, which share the labels of equal statements, or a file of labelled texts,
    about which each of `judges` (or `engine`) is asked in the run directory `out`. The judges of a
    registered jury are asked one by one, so that their weights can be fitted. Judges significantly
    better than guessing come first, by labels saved. Raises DataError for unusable labels, or
    labels of several questions with a `name`; InputError for incompatible arguments, and the errors
    of a run.
    """
    if name is not None:
        calibration_file(name)  # raises for an invalid name
    progress = progress or Progress()
    runs = _open_runs(sources)
    if runs:
        questions = _read_runs(runs, judges, options, name, progress)
    else:
        questions = [_judge_texts(str(sources[0]), judges, options, name, progress)]
    if len(questions) > 1 and name is not None:
        names = ", ".join(question.name for question in questions)
        chosen = f"choose its metrics with {option_name('metrics')}"
        raise DataError(
            f"the labels are of {len(questions)} questions: {names}",
            hint=f"calibrate one question at a time: {chosen}",
        )
    calibrations: list[Calibration] = []
    for question in questions:
        for calibration in calibrate_judges(question, progress):
            taken = {other.name for other in calibrations}
            calibrations.append(name_and_save(calibration, name, taken, progress))
    return calibrations


def _open_runs(sources: Sequence[RunRecord | str | Path]) -> list[RunRecord]:
    """Open the run directories. Raises InputError unless all sources are runs, or one is a file."""
    runs = []
    for source in sources:
        if isinstance(source, RunRecord) or Path(source).expanduser().is_dir():
            runs.append(as_run(source))
    is_one_file = len(sources) == 1 and not runs
    if not sources or (len(runs) < len(sources) and not is_one_file):
        raise InputError(
            "judges are measured on runs, or on one file of labelled texts",
            hint="name only runs",
        )
    return runs


def _read_runs(
    runs: Sequence[RunRecord],
    judges: Sequence[JudgeName],
    options: Mapping[str, Any],
    name: str | None,
    progress: Progress,
) -> list[LabelledQuestion]:
    """Read the labels of runs, with the stored answers of their judges."""
    judge_options = dict(options)
    metrics = judge_options.pop("metrics", None)
    if judges or any(judge_options.values()):
        raise InputError(
            "runs are measured by their stored answers, without options of a judge",
            hint="name only the runs",
        )
    _refuse_for_several(runs, {"name": name})
    return read_labelled_runs(runs, requested_names(metrics), progress)


def _refuse_for_several(judges: Sequence[object], options: Mapping[str, object]) -> None:
    for option, value in options.items():
        if value is not None and len(judges) > 1:
            problem = f"{option_name(option)} is for one judge, got {len(judges)}"
            if not isinstance(judges[0], RunRecord):
                problem = f"{problem}: {', '.join(map(str, judges))}"
            raise InputError(problem, hint="omit it")


def _expand_juries(
    judges: Sequence[JudgeName], engine: Engine | None
) -> Sequence[JudgeName | None]:
    """Return the judges to ask, and for a registered jury each of its judges.

    Without judges they are those of the default judge, or None for an engine.
    """
    if engine is not None:
        return judges or [None]
    expanded: list[JudgeName] = []
    for judge in judges or [default_judge()]:
        names: list[JudgeName] = [judge]
        if isinstance(judge, str):
            names = [*model_registry.expand_jury(judge)]
        expanded += [name for name in names if name not in expanded]
    return expanded


def _judge_texts(
    file: str,
    judges: Sequence[JudgeName],
    options: Mapping[str, Any],
    name: str | None,
    progress: Progress,
) -> LabelledQuestion:
    """Ask the judges about the labelled texts of a file."""
    settings = dict(options)
    out = settings.pop("out", None)
    engine = settings.pop("engine", None)
    column = settings.pop("cluster_by", None)
    metrics = settings.pop("metrics", None)
    expanded = _expand_juries(judges, engine)
    _refuse_for_several(expanded, {"name": name, "out": out, "engine": engine})
    if metrics is not None:
        raise InputError(
            f"{file} has labelled texts, which belong to no metric",
            hint=f"omit {option_name('metrics')}",
        )
    with Source(file) as source:
        sha256 = hash_content(source)
        texts, unlabelled = read_labelled_texts(source)
    run_settings = checked(settings)
    shape = texts[0].shape
    metric = _METRICS[shape]
    samples = _make_samples(texts)
    labels, clusters = _read_labels(texts, samples, metric, column)
    dataset = load(samples, name=source.name)  # raises for invalid samples
    plan = Plan(dataset, (catalog.get(metric),), run_settings, len(samples))
    keys = {verdict_id: str(verdict_id) for verdict_id in labels}
    answers = []
    for judge in expanded:
        with open_job(plan, judge=judge, out=out, engine=engine, progress=progress) as job:
            run = job.run()
        answers.append(JudgeAnswers(run, run.verdicts_at(keys)))
    labels_used = {
        "file": source.name,
        "sha256": sha256,
        "shape": shape,
        "unlabelled": unlabelled,
        "clustered_by": column or _DEFAULT_CLUSTERS[shape],
    }
    return LabelledQuestion(
        name=get_question(metric),
        labels={key: labels[verdict_id] for verdict_id, key in keys.items()},
        weights=dict.fromkeys(keys.values(), 1.0),
        clusters={key: clusters[verdict_id] for verdict_id, key in keys.items()},
        judges=answers,
        labels_used=labels_used,
    )


def _make_samples(texts: Sequence[LabelledText]) -> list[Sample]:
    """Return a sample of each row.

    Ids are the rows' ids if complete and unique, otherwise numbers from 1.
    """
    ids = [row.columns.get("id") for row in texts]
    is_complete = all(isinstance(key, str | int) and str(key).strip() for key in ids)
    is_unique = len(set(map(str, ids))) == len(ids)
    if not (is_complete and is_unique):
        ids = list(range(1, len(ids) + 1))
    samples = []
    for sample_id, row in zip(ids, texts, strict=True):
        contexts = tuple(Context.model_construct(text=text) for text in row.texts)
        fields: dict[str, Any] = {
            "user_input": row.question,
            "retrieved_contexts": contexts,
            "response": row.statement,
        }
        samples.append(Sample.model_construct(id=str(sample_id), **fields))
    return samples


def _read_labels(
    texts: Sequence[LabelledText], samples: Sequence[Sample], metric: str, column: str | None
) -> tuple[dict[VerdictId, Label], dict[VerdictId, str]]:
    """Return the labels of the samples, and their clusters by the texts or by a column."""
    labels: dict[VerdictId, Label] = {}
    clusters: dict[VerdictId, str] = {}
    for row, sample in zip(texts, samples, strict=True):
        cluster = hashlib.sha256("\0".join(row.texts).encode()).hexdigest()
        if column:
            value = lookup(row.columns, column)
            if is_blank(value) or isinstance(value, Mapping | list):
                raise InputError(
                    f"{row.place} has no text or number in the column {column!r}",
                    hint=f"{option_name('cluster_by')} needs a value for every labelled row",
                )
            cluster = group_name(value)
        for position, label in enumerate(row.labels):
            if label is not None:
                verdict_id = VerdictId(sample.id, metric, position)
                labels[verdict_id] = label
                clusters[verdict_id] = cluster
    return labels, clusters
