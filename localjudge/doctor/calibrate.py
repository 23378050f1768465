"""Measures a judge on human labels: what `localjudge.calibrate` and `localjudge calibrate` do.

    labels of verdicts ────────────────────────────────────┐
    statements, sentences ──samples──> a run of the judge ──┴─ labels and probabilities ──> figures, threshold

What has to be asked is asked by a run, in a run directory of its own: it goes on where it was stopped, can be verified
and looked at, and is not asked again.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from localjudge.analysis.judge_figures import judge_figures
from localjudge.analysis.labels import (
    HumanLabels,
    LabelledSentences,
    LabelledStatement,
    LabelledVerdict,
    MatchedLabels,
    VerdictLabel,
    match_labels,
    read_labels,
    verdict_key,
)
from localjudge.dataset import load
from localjudge.dataset.problems import lookup
from localjudge.engine.protocol import Engine
from localjudge.errors import InputError
from localjudge.judge.combining_rule import CombiningRule, log_odds
from localjudge.metrics import catalog
from localjudge.metrics.catalog import ATTRIBUTION_LABELS, RELEVANCE_LABELS
from localjudge.progress import Progress
from localjudge.record.manifest import (
    Calibration,
    Figure,
    LabelsUsed,
    calibration_file,
    combination_of,
    kept_criteria,
    measured_part,
    save_calibration,
)
from localjudge.record.run import Run, as_run
from localjudge.run.job import run_plan
from localjudge.run.judges import DEFAULT_JUDGE, JudgeName
from localjudge.run.plan import Plan, wanted_metrics
from localjudge.run.settings import checked
from localjudge.stats.agreement import fit_weights, roc_auc
from localjudge.stats.interval import SEED, STATISTIC_RESAMPLES, statistic_interval
from localjudge.types import Context, Label, Sample
from localjudge.words import option, option_name

_NOT_IN_NAMES = re.compile(r"[^\w.-]+", re.ASCII)
_LONGEST_STEM = 40
_DEFAULT_CLUSTERS = {"attribution": "the same contexts", "relevance": "the same passage"}
_COPIED = ("threshold", "at_one_half", "held_out", "undefined", "fold_thresholds", "reliability")
"""What a calibration says as the figures have it."""


def measure_judge(
    labels: str | Path,
    options: Mapping[str, Any],
    *,
    judge: JudgeName | None = None,
    run: Run | str | Path | None = None,
    name: str | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Calibration:
    """Measure the judge on the labels in a file, and save the result: under a name of judge and question if None.

    In addition to options of a run, `metrics` are those of a run whose labelled verdicts count, all if None; `out` is
    the run directory in which the judge is asked. With `weights`, the judges of a combined run are weighed by the
    labels. Labels of verdicts need the `run` that they are of, whose judge is measured; for others `judge` (or
    `engine`) is asked, unless a `run` names where it was.

    Raises DataError for labels that cannot be used, InputError for what does not go together, and what a run raises.
    """
    if name is not None:
        calibration_file(name)
    settings: dict[str, Any] = dict(options)
    metrics, column, out, weights = (settings.pop(key, None) for key in ("metrics", "cluster_by", "out", "weights"))
    human = read_labels(labels)
    asked = judge is not None or engine is not None or out is not None or any(settings.values())
    if asked and (run is not None or human.shape == "verdicts"):
        raise InputError(
            f"the judge of the labels in {human.name} is that of their run, and is not asked",
            hint=f"give nothing but {option('run', 'RUN')}",
        )
    if human.shape == "verdicts":
        judged, verdicts, clusters = _of_verdicts(human, run, metrics, column)
    else:
        if metrics is not None:
            raise InputError(
                f"{human.name} holds texts, not verdicts of a run: the judge is asked about them",
                hint=f"leave out {option_name('metrics')}",
            )
        planned, verdicts = _plan(human, settings, column)
        run = run or run_plan(planned, judge=judge or DEFAULT_JUDGE, out=out, engine=engine, progress=progress)
        judged, clusters = as_run(run), column or _DEFAULT_CLUSTERS[human.shape]
    calibration = _calibrate(human, judged, match_labels(judged, verdicts), clusters, name, weigh=bool(weights))
    save_calibration(calibration)
    return calibration


def _of_verdicts(
    human: HumanLabels, run: Run | str | Path | None, metrics: Sequence[str] | None, column: str | None
) -> tuple[Run, list[VerdictLabel], str]:
    """The run, the labels of its verdicts, and in words what their clusters are."""
    if run is None:
        raise InputError(f"{human.name} holds labels of verdicts of a run", hint=f"name it: {option('run', 'RUN')}")
    judged, names = as_run(run), wanted_metrics(metrics).names
    labels = [
        VerdictLabel(row.key, row.text, row.human, _cell(row, column) if column else None, row.inclusion_probability)
        for row in human.verdicts
        if row.human is not None and (names is None or row.key.metric in names)
    ]
    own = judged.manifest.environment["settings"].get("cluster_by") if judged.cluster_of is not None else None
    return judged, labels, column or str(own or "the same sample")


def _plan(human: HumanLabels, options: Mapping[str, Any], column: str | None) -> tuple[Plan, list[VerdictLabel]]:
    """A run that asks about the labelled texts, and the labels of its verdicts.

    Samples have the rows' own ids where each has one and no other has the same; else their numbers, from 1.
    """
    settings = checked(options)
    rows = human.texts
    metric = ATTRIBUTION_LABELS if human.shape == "attribution" else RELEVANCE_LABELS
    own = [row.columns.get("id") for row in rows]
    unique = len(set(map(str, own))) == len(own) and all(isinstance(key, str | int) and str(key).strip() for key in own)
    samples = []
    labels: list[VerdictLabel] = []
    for number, row in enumerate(rows, start=1):
        sample_id = str(row.columns["id"] if unique else number)
        judged: list[tuple[str, Label | None]]
        response: str | None = None
        if isinstance(row, LabelledStatement):
            texts, judged, response = row.contexts, [(row.statement, row.label)], row.statement
        else:
            texts, judged = row.sentences, [*zip(row.sentences, row.relevant, strict=True)]
        contexts = tuple(Context.model_construct(text=text) for text in texts)
        sample: Any = {"id": sample_id, "user_input": row.question, "retrieved_contexts": contexts}
        samples.append(Sample.model_construct(**sample, response=response))  # `load` says what is wrong with it
        cluster = _cell(row, column) if column else hashlib.sha256("\0".join(texts).encode()).hexdigest()
        labels += [
            VerdictLabel(verdict_key(sample_id, metric, position), text, label, cluster)
            for position, (text, label) in enumerate(judged)
            if label is not None
        ]
    dataset = load(samples, name=human.name)
    return Plan(dataset, (catalog.get(metric),), settings, len(samples)), labels


def _cell(row: LabelledVerdict | LabelledStatement | LabelledSentences, column: str) -> str:
    """What groups the row. Raises InputError where the column has nothing."""
    value = lookup(row.columns, column)
    if value is None or value == "" or isinstance(value, Mapping | list):
        raise InputError(
            f"{row.place} has no text or number in the column {column!r}",
            hint=f"{option_name('cluster_by')} needs a value for every labelled row",
        )
    return str(value)


def _calibrate(
    human: HumanLabels, run: Run, matched: MatchedLabels, clustered_by: str, name: str | None, *, weigh: bool
) -> Calibration:
    matched, weighed, gain = _weigh(run, matched) if weigh else (_by_the_base_rule(run, matched), None, {})
    figures = judge_figures(matched.rows)
    card, manifest = run.summary.judge, run.manifest
    failed = [f"{matched.failed} labelled verdicts have no probability, and are in no figure"] if matched.failed else []
    stem, question = (_NOT_IN_NAMES.sub("-", part) for part in (card.name, matched.question))
    return Calibration(
        name=name or f"{stem.strip('-.')[:_LONGEST_STEM] or 'judge'}-{question[: _LONGEST_STEM - 1]}",
        question=matched.question,
        judge=measured_part(manifest.judge, kept_criteria(manifest).get(matched.metric) or catalog.get(matched.metric)),
        card=card,
        run=manifest.signature,
        labels=LabelsUsed(
            **{field: getattr(human, field) for field in ("sha256", "shape", "unlabelled")},
            **{field: getattr(matched, field) for field in ("verdicts", "failed", "weighted")},
            file=human.name,
            positives=figures.positives,
            clusters=figures.clusters,
            clustered_by=clustered_by,
        ),
        combining_rule=weighed,
        **{field: getattr(figures, field) for field in _COPIED},
        figures=figures.figures | gain,
        seed=SEED,
        resamples=STATISTIC_RESAMPLES,
        remarks=(*figures.remarks, *failed),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _by_the_base_rule(run: Run, matched: MatchedLabels) -> MatchedLabels:
    """What the judges of a combined run gave, without the weights of an earlier calibration."""
    combination = combination_of(run.manifest)
    if combination is None or not combination.rules:
        return matched
    probabilities = [
        combination.rule.combined({combination.ids[name]: p_yes for name, p_yes in row.items() if p_yes is not None})
        for row in matched.votes
    ]
    return matched._replace(rows=matched.rows._replace(scores=probabilities))


def _weigh(run: Run, matched: MatchedLabels) -> tuple[MatchedLabels, CombiningRule, dict[str, Figure]]:
    """What rows get from weights that were fitted to other clusters, the weights for all, and the gain in AUC."""
    combination = combination_of(run.manifest)
    if combination is None:
        raise InputError(
            f"{run.directory} was judged by one judge: there is nothing to weigh",
            hint=f"combine the runs of several: localjudge combine, or leave out {option_name('weights')}",
        )
    if matched.weighted:
        raise InputError(
            "weights cannot be fitted to labels of which some were likelier to be drawn than others",
            hint=f"leave out {option_name('weights')}, or label verdicts that were all as likely",
        )
    rows = _by_the_base_rule(run, matched).rows
    odds = [[log_odds(row[judge] or 0.0, combination.rule.clip) for judge in combination.ids] for row in matched.votes]
    fit = fit_weights(rows.labels, odds, rows.clusters)
    gain = statistic_interval(
        lambda labels, scores, weights: roc_auc(labels, scores[:, 1], weights) - roc_auc(labels, scores[:, 0], weights),
        rows.labels,
        np.column_stack([np.asarray(rows.scores, dtype=np.float64), fit.held_out]),
        clusters=rows.clusters,
    )
    weights = dict(zip(combination.ids.values(), map(float, fit.weights), strict=True))
    figure = Figure(value=gain.mean, ci95=(gain.low, gain.high))
    rule = CombiningRule.weighted(weights, fit.intercept)
    return matched._replace(rows=rows._replace(scores=fit.held_out)), rule, {"auc_gain": figure}
