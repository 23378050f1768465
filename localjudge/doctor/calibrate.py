"""Measure judges on human labels (`localjudge.calibrate`, `localjudge calibrate`).

    runs with labels ───────────────────────────────────────┐
    labelled texts ──samples──> a run of each judge ────────┴─ labels and probabilities ──> figures,
    threshold, savings

All judges are measured on the same statements, to which each gave a probability.
"""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from localjudge import model_registry
from localjudge.dataset import load
from localjudge.dataset.problems import lookup
from localjudge.doctor.fitness import admission_by_labels
from localjudge.errors import DataError, InputError, LocaljudgeError
from localjudge.judging.job import run_plan
from localjudge.judging.judges import JudgeName, default_judge
from localjudge.judging.plan import Plan, wanted_metrics
from localjudge.judging.settings import checked
from localjudge.labels.drawing import labels_in
from localjudge.labels.judge_figures import judge_figures
from localjudge.labels.jury_weights import FittedJury, fit_juries
from localjudge.labels.labelled_texts import LabelledText, read_labelled_texts
from localjudge.labels.run_labels import (
    Decisions,
    check_labels_allowed,
    labels_of,
    sampling_weights,
)
from localjudge.labels.units import UnitFrame, UnitPlace, unit_frames, verdicts_at
from localjudge.metrics import catalog
from localjudge.metrics.catalog import ATTRIBUTION_LABELS, RELEVANCE_LABELS, get_question
from localjudge.progress import Progress, Silence
from localjudge.run_directory.calibration import (
    Calibration,
    LabelSavings,
    LabelsUsed,
    calibration_file,
    read_calibration,
    save_calibration,
)
from localjudge.run_directory.jury import jury_card, log_odds
from localjudge.run_directory.label_rows import LABELS
from localjudge.run_directory.result_rows import VerdictRow
from localjudge.run_directory.run_record import RunRecord, as_run, seconds_per_verdict
from localjudge.run_directory.store import canonical_sha256
from localjudge.stats.interval import LabelledScores
from localjudge.types import Context, Label, Sample
from localjudge.words import call, numbered, option_name

_NOT_IN_NAMES = re.compile(r"[^\w.-]+", re.ASCII)
_LONGEST_STEM = 40
_DEFAULT_CLUSTERS = {"attribution": "the same contexts", "relevance": "the same passage"}
_DIVIDED = 0.5


class _HumanLabel(NamedTuple):
    """A human label with the number of statements that it represents, and its cluster."""

    label: Label
    weight: float
    cluster: str


class _Answers(NamedTuple):
    """A judge's answers to the labelled statements, and its savings in the corrected mean with most labels."""

    run: RunRecord
    verdicts: Mapping[Any, VerdictRow]
    worth: LabelSavings | None = None


class _Question(NamedTuple):
    """Labels of one question with each judge's answers. `used` is part of `LabelsUsed`."""

    name: str
    labels: Mapping[Any, _HumanLabel]
    judges: Sequence[_Answers]
    used: Mapping[str, Any]
    remarks: tuple[str, ...] = ()


def measure_judges(
    sources: Sequence[RunRecord | str | Path],
    options: Mapping[str, Any],
    *,
    judges: Sequence[JudgeName] = (),
    name: str | None = None,
    progress: Progress | None = None,
) -> list[Calibration]:
    """Measure judges on each labelled question, by question, the best judge first, and save the results.

    Without a `name`, a judge that is not shown to be better than guessing is not saved.

    `sources` are runs, which share the labels of equal statements, or a file of labelled texts,
    about which each of `judges` (or `engine`) is asked in the run directory `out`. Judges
    significantly better than guessing come first, by labels saved. Raises DataError for unusable
    labels, or labels of several questions with a `name`; InputError for incompatible arguments, and
    the errors of a run.
    """
    if name is not None:
        calibration_file(name)
    settings: dict[str, Any] = dict(options)
    metrics = settings.pop("metrics", None)
    runs = [
        as_run(source)
        for source in sources
        if isinstance(source, RunRecord) or Path(source).expanduser().is_dir()
    ]
    if len(runs) < len(sources) != 1 or not sources:
        raise InputError(
            "judges are measured on runs, or on one file of labelled texts",
            hint="name only runs",
        )
    if runs and any([judges, *settings.values()]):
        problem = "runs are measured by their stored answers, without options of a judge"
        raise InputError(problem, hint="name only the runs")
    how: dict[str, Any] = {key: settings.pop(key, None) for key in ("out", "engine")}
    for option, value in {"name": name, **how}.items():
        if value is not None and (several := max(len(judges), len(runs))) > 1:
            raise InputError(
                f"{option_name(option)} is for one judge, got {several}", hint="omit it"
            )
    if runs:
        questions = _of_runs(runs, wanted_metrics(metrics).names, progress or Silence())
    elif metrics is not None:
        problem = f"{sources[0]} has labelled texts, which belong to no metric"
        raise InputError(problem, hint=f"omit {option_name('metrics')}")
    else:
        how["progress"] = progress
        questions = [
            _of_texts(
                str(sources[0]),
                settings,
                judges or model_registry.expand_jury(default_judge()),
                how,
            )
        ]
    if len(questions) > 1 and name is not None:
        problem = f"the labels are of {len(questions)} questions: {', '.join(question.name for question in questions)}"
        raise DataError(
            problem,
            hint=f"calibrate one question at a time: choose its metrics with {option_name('metrics')}",
        )
    return _saved(questions, name, progress or Silence())


def _saved(
    questions: Sequence[_Question], name: str | None, progress: Progress
) -> list[Calibration]:
    calibrations: list[Calibration] = []
    for question in questions:
        judges = [_calibrate(question, judge) for judge in question.judges]
        for measured in sorted([*judges, *_juries(question, judges, progress)], key=_rank):
            chosen = name or _free_name(measured, {other.name for other in calibrations}, progress)
            calibration = measured.model_copy(update={"name": chosen})
            if is_saved(calibration, name) and _is_of_another(chosen, calibration):
                progress.note(
                    f"replacing the calibration {chosen}, which has other labels or answers"
                )
            calibrations.append(calibration)
            if is_saved(calibration, name):
                save_calibration(calibration)
    return calibrations


def is_saved(calibration: Calibration, name: str | None) -> bool:
    """Return whether a calibration is saved: if its judge is better than guessing, or under an explicit name."""
    return name is not None or not calibration.guesses


def _free_name(calibration: Calibration, taken: Collection[str], progress: Progress) -> str:
    judge, question = (
        _NOT_IN_NAMES.sub("-", name) for name in (calibration.card.name, calibration.question)
    )
    stem = judge.strip("-.")[:_LONGEST_STEM] or "judge"
    names = (
        f"{stem}{f'-{number}' if number > 1 else ''}-{question[: _LONGEST_STEM - 4]}"
        for number in count(1)
    )
    for name in (name for name in names if name not in taken):
        if not _is_of_another(name, calibration):
            break
        progress.note(f"keeping the calibration {name}, which has other labels or answers")
    return name


def _is_of_another(name: str, calibration: Calibration) -> bool:
    if not calibration_file(name).exists():
        return False
    with suppress(LocaljudgeError):
        saved = read_calibration(name)
        return (saved.run, saved.labels.sha256) != (calibration.run, calibration.labels.sha256)
    return True


def _rank(calibration: Calibration) -> tuple[bool, float, float]:
    saved, auc = calibration.worth, calibration.figures.get("auc")
    return (
        calibration.guesses,
        -saved.labels / saved.of if saved else 0.0,
        -auc.value if auc else 0.0,
    )


def _of_runs(
    runs: Sequence[RunRecord], names: Sequence[str] | None, progress: Progress
) -> list[_Question]:
    for run in runs:
        check_labels_allowed(run)
    frames, questions = [unit_frames(run) for run in runs], list[_Question]()
    decisions = Decisions(
        row for run, of_run in zip(runs, frames, strict=True) for row in labels_in(run, of_run)
    )
    drawn = next(filter(None, map(decisions.drawings, frames)), dict[str, Any]())
    metrics = list(
        dict.fromkeys(
            name for of_run in frames for name in of_run if names is None or name in names
        )
    )
    for asked in dict.fromkeys(map(get_question, metrics)):
        names_of = {name for name in metrics if get_question(name) == asked}
        of_runs = [
            [frame for name, frame in of_run.items() if name in names_of] for of_run in frames
        ]
        labelled = [
            any(frame.by_key.keys() & decisions.human.keys() for frame in of_run)
            for of_run in of_runs
        ]
        if all(labelled):
            questions.append(
                _of_verdicts(asked, [*zip(runs, of_runs, strict=True)], decisions, drawn)
            )
        elif any(labelled):
            progress.note(f"{asked} skipped: not every run has labelled statements for it")
    if not questions:
        where = ", ".join(str(run.directory) for run in runs)
        problem = f"no labelled statements{' of ' if names else ''}{', '.join(names or ())} in each of {where}"
        raise DataError(problem, hint=f"label some: {call('label', str(runs[0].directory))}")
    return questions


def _of_verdicts(
    asked: str,
    runs: Sequence[tuple[RunRecord, list[UnitFrame]]],
    decisions: Decisions,
    drawn: Mapping[str, Any],
) -> _Question:
    """Return the labels of one question. Statements with a tie between annotators have none."""
    labels, judges, undecided = dict[Any, _HumanLabel](), list[_Answers](), set[str]()
    frames = [frame for _, of_run in runs for frame in of_run]
    every = all(frame.by_key.keys() <= decisions.human.keys() for frame in frames)
    metrics = {} if every else dict.fromkeys(frame.metric for frame in frames)
    weights = {
        key: chance
        for metric in metrics
        for key, chance in sampling_weights(drawn.get(metric, ())).items()
    }
    for run, of_run in runs:
        groups, places = run.cluster_of or {}, dict[UnitPlace, Any]()
        for frame in of_run:
            for key in [key for key in frame.by_key if decisions.of.get(key)]:
                place, share = (
                    frame.places[frame.by_key[key][0]],
                    decisions.human.get(key, _DIVIDED),
                )
                if share == _DIVIDED:
                    undecided.add(key)
                    continue
                label: Label = 1 if share > _DIVIDED else 0
                cluster = groups.get(place.sample_id, place.sample_id)
                labels.setdefault(key, _HumanLabel(label, weights.get(key, 1.0), cluster))
                places[place] = key
        corrected = of_labels.corrected if (of_labels := labels_of(run, decisions.rows)) else {}
        means = [corrected[frame.metric] for frame in of_run if frame.metric in corrected]
        savings = [
            LabelSavings(labels=mean.worth_labels, of=mean.labels)
            for mean in means
            if mean.worth_labels is not None
        ]
        judges.append(
            _Answers(
                run,
                verdicts_at(run, places),
                max(savings, key=lambda saved: saved.of, default=None),
            )
        )
    undrawn = 0 if every else len(labels.keys() - weights.keys())
    remark = f"{undrawn} of {len(labels)} labels were not drawn from these statements, so each counts once"
    run = runs[0][0]
    column = run.manifest.environment.settings.cluster_by if run.cluster_of is not None else None
    used = {
        "file": ", ".join(
            str(run.directory / LABELS) for run, _ in runs if (run.directory / LABELS).exists()
        ),
        "sha256": canonical_sha256({str(key): label[:2] for key, label in labels.items()}),
        "shape": "verdicts",
        "unlabelled": len(undecided),
        "clustered_by": str(column or "the same sample"),
    }
    return _Question(asked, labels, judges, used, (remark,) if undrawn else ())


def _of_texts(
    file: str, options: Mapping[str, Any], judges: Sequence[JudgeName], how: Mapping[str, Any]
) -> _Question:
    """Return the labels of a file. Sample ids are the rows' ids if complete and unique, otherwise numbers from 1."""
    human, settings = read_labelled_texts(file), checked({**options, "cluster_by": None})
    column, samples, labels = options.get("cluster_by"), list[Sample](), dict[Any, _HumanLabel]()
    metric = ATTRIBUTION_LABELS if human.shape == "attribution" else RELEVANCE_LABELS
    ids = [row.columns.get("id") for row in human.texts]
    unique = len(set(map(str, ids))) == len(ids) and all(
        isinstance(key, str | int) and str(key).strip() for key in ids
    )
    for number, row in enumerate(human.texts, start=1):
        contexts = tuple(Context.model_construct(text=text) for text in row.texts)
        words: Any = {
            "user_input": row.question,
            "retrieved_contexts": contexts,
            "response": row.statement,
        }
        samples.append(
            Sample.model_construct(id=str(row.columns["id"] if unique else number), **words)
        )
        cluster = (
            _cell(row, column)
            if column
            else hashlib.sha256("\0".join(row.texts).encode()).hexdigest()
        )
        for position, label in enumerate(row.labels):
            if label is not None:
                labels[UnitPlace(samples[-1].id, metric, position)] = _HumanLabel(
                    label, 1.0, cluster
                )
    if not labels:
        raise DataError(
            "the file has no labels",
            hint="fill in the labels, 1 or 0, and run the command again",
        )
    dataset = load(samples, name=human.name)  # raises for invalid samples
    planned = Plan(dataset, (catalog.get(metric),), settings, len(samples))
    runs = [run_plan(planned, judge=judge, **how) for judge in judges]
    answers = [_Answers(run, verdicts_at(run, {place: place for place in labels})) for run in runs]
    used = {field: getattr(human, field) for field in ("sha256", "shape", "unlabelled")}
    used |= {"file": human.name, "clustered_by": column or _DEFAULT_CLUSTERS[human.shape]}
    return _Question(get_question(metric), labels, answers, used)


def _cell(row: LabelledText, column: str) -> str:
    value = lookup(row.columns, column)
    if value is None or value == "" or isinstance(value, Mapping | list):
        problem = f"{row.place} has no text or number in the column {column!r}"
        raise InputError(
            problem, hint=f"{option_name('cluster_by')} needs a value for every labelled row"
        )
    return str(value)


def _calibrate(question: _Question, judge: _Answers) -> Calibration:
    rows, verdicts = _rows(question, judge)
    figures, card, manifest = judge_figures(rows), judge.run.summary.judge, judge.run.manifest
    metric = verdicts[0].metric
    failed, remarks = len(question.labels) - len(verdicts), [*figures["remarks"], *question.remarks]
    if failed:
        statements = numbered(failed, "labelled statement")
        remarks.append(
            f"excluded: {statements} that a judge or a run has no verdict with a probability for",
        )
    if all(each.worth for each in question.judges):
        figures["worth"] = judge.worth
    calibration = Calibration(
        **figures | {"remarks": tuple(remarks)},
        name=card.name,
        question=question.name,
        judge=manifest.judge.measured(manifest.metric(metric)),
        card=card,
        run=manifest.signature,
        labels=LabelsUsed(
            **question.used,
            verdicts=len(verdicts),
            failed=failed,
            weighted=len(set(np.asarray(rows.weights))) > 1,
            positives=int(np.sum(rows.labels)),
            clusters=len(set(np.asarray(rows.clusters))),
        ),
        seconds_per_verdict=seconds_per_verdict(judge.run),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return calibration.model_copy(update={"fit_for": admission_by_labels(calibration).uses})


def _juries(
    question: _Question, measured: Sequence[Calibration], progress: Progress
) -> list[Calibration]:
    """Return the calibration of the jury of all judges, and of the smallest one that is not worse."""
    cards = [calibration.card.name for calibration in measured]
    if len(question.judges) == 1:
        return []
    if any("jury" in calibration.judge for calibration in measured):
        progress.note(
            "no jury is fitted, because one of the judges is a jury itself: name its judges"
        )
        return []
    if len(set(cards)) < len(cards):
        progress.note("no jury is fitted, because two judges have the same name")
        return []
    rows = _rows(question, question.judges[0])[0]
    columns = [_rows(question, judge)[0].scores for judge in question.judges]
    odds = np.array(
        [[log_odds(float(score)) for score in np.asarray(column)] for column in columns]
    ).T
    try:
        juries = fit_juries(cards, odds, rows)
    except DataError as error:
        progress.note(f"no jury is fitted: {error.message}")
        return []
    return [_calibration_of_jury(question, measured, jury, rows) for jury in juries]


def _calibration_of_jury(
    question: _Question,
    measured: Sequence[Calibration],
    jury: FittedJury,
    rows: LabelledScores,
) -> Calibration:
    members = {
        calibration.card.name: calibration
        for calibration in measured
        if calibration.card.name in jury.weights
    }
    names = sorted(members)
    first = members[names[0]]
    answering = {
        name: {part: members[name].judge[part] for part in ("engine", "judge")} for name in names
    }
    definition = {part: first.judge[part] for part in ("metrics",) if part in first.judge}
    figures = judge_figures(rows._replace(scores=jury.held_out))
    figures["remarks"] = (*figures["remarks"], *jury.remarks)
    if not all(each.worth for each in question.judges):
        figures["worth"] = None
    calibration = Calibration(
        **figures,
        name=" + ".join(names),
        question=question.name,
        weights=dict(jury.weights),
        bias=jury.bias,
        judge={"jury": answering, **definition},
        card=jury_card([members[name].card for name in names], None, None),
        run="; ".join(members[name].run for name in names),
        labels=first.labels,
        created=first.created,
    )
    return calibration.model_copy(update={"fit_for": admission_by_labels(calibration).uses})


def _rows(question: _Question, judge: _Answers) -> tuple[LabelledScores, list[VerdictRow]]:
    everywhere = [
        {key for key, row in other.verdicts.items() if row.p_yes is not None}
        for other in question.judges
    ]
    keys = [key for key in question.labels if all(key in answered for answered in everywhere)]
    if not keys:
        problem = f"no labelled verdict has a probability in {judge.run.directory}"
        hint = (
            "check its failures; several judges are measured on statements that all of them judged"
        )
        raise DataError(problem, hint=hint)
    verdicts = [judge.verdicts[key] for key in keys]
    scores = [row.p_yes or 0.0 for row in verdicts]
    labels, weights, clusters = zip(*(question.labels[key] for key in keys), strict=True)
    return LabelledScores(labels, scores, weights, clusters), verdicts
