"""Measures a judge on human labels: what `localjudge.calibrate` and `localjudge calibrate` do.

    labels of verdicts ────────────────────────────────────┐
    statements, sentences ──samples──> a run of the judge ──┴─ labels and probabilities ──> figures, threshold

What has to be asked is asked by a run, in a run directory of its own: it goes on where it was stopped, can be verified
and looked at, and is not asked again.
"""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

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
from localjudge.dataset import from_rows
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
from localjudge.run.settings import checked, settings_with
from localjudge.stats.agreement import fit_weights, roc_auc
from localjudge.stats.interval import SEED, STATISTIC_RESAMPLES, Floats, statistic_interval
from localjudge.types import Context, Label, Sample
from localjudge.words import option, option_name

_NOT_IN_NAMES = re.compile(r"[^\w.-]+", re.ASCII)
_LONGEST_STEM = 40


class _Judged(NamedTuple):
    """A run, the labels of its verdicts, and in words what their clusters are."""

    run: Run
    labels: list[VerdictLabel]
    clustered_by: str


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
    """Measure the judge on the labels in a file, and save what was found: under a name of judge and question if None.

    Beside options of a run, `metrics` are those of a run whose labelled verdicts count, all if None; `out` is the run
    directory in which the judge is asked. With `weights`, the judges of a combined run are weighed by the labels.

    Labels of verdicts need the `run` that they are of, whose judge is measured; for others `judge` (or `engine`) is
    asked, unless a `run` names where it was. Raises DataError for labels that cannot be used, InputError for what does
    not go together, and what a run raises.
    """
    if name is not None:
        calibration_file(name)
    settings: dict[str, Any] = dict(options)
    metrics, column, out, weights = (settings.pop(key, None) for key in ("metrics", "cluster_by", "out", "weights"))
    _check_options(settings)
    human = read_labels(labels)
    asked = judge is not None or engine is not None or out is not None or any(settings.values())
    if asked and (run is not None or human.shape == "verdicts"):
        raise InputError(
            f"the judge of the labels in {human.name} is that of their run, and is not asked",
            hint=f"give nothing but {option('run', 'RUN')}",
        )
    if human.shape == "verdicts":
        judged = _of_verdicts(human, run, metrics, column)
    else:
        if metrics is not None:
            raise InputError(
                f"{human.name} holds texts, not verdicts of a run: the judge is asked about them",
                hint=f"leave out {option_name('metrics')}",
            )
        planned, texts = _plan(human, settings, column)
        run = run or run_plan(planned, judge=judge or DEFAULT_JUDGE, out=out, engine=engine, progress=progress)
        judged = _Judged(as_run(run), texts, column or _DEFAULT_CLUSTERS[human.shape])
    calibration = _calibration(human, judged, name, weigh=bool(weights))
    save_calibration(calibration)
    return calibration


def _check_options(settings: Collection[str]) -> None:
    names = settings_with("calibration")
    for key in settings:
        if key not in names:
            hint = f"it takes {', '.join(map(option_name, names))}"
            raise InputError(f"a calibration takes no {option_name(key)}", hint=hint)


_DEFAULT_CLUSTERS = {"attribution": "the same contexts", "relevance": "the same passage"}


def _of_verdicts(
    human: HumanLabels, run: Run | str | Path | None, metrics: Sequence[str] | None, column: str | None
) -> _Judged:
    if run is None:
        raise InputError(f"{human.name} holds labels of verdicts of a run", hint=f"name it: {option('run', 'RUN')}")
    judged, names = as_run(run), wanted_metrics(metrics).names
    labels = [
        VerdictLabel(row.key, row.text, row.human, _cell(row, column) if column else None, row.inclusion_probability)
        for row in human.verdicts
        if row.human is not None and (names is None or row.key.metric in names)
    ]
    own = judged.manifest.environment["settings"].get("cluster_by") if judged.cluster_of is not None else None
    return _Judged(judged, labels, column or str(own or "the same sample"))


def _plan(human: HumanLabels, options: Mapping[str, Any], column: str | None) -> tuple[Plan, list[VerdictLabel]]:
    """A run that asks about the labelled texts, and the labels of its verdicts."""
    settings = checked(options)
    rows: tuple[LabelledStatement | LabelledSentences, ...] = human.statements or human.passages
    metric = ATTRIBUTION_LABELS if human.shape == "attribution" else RELEVANCE_LABELS
    samples = []
    labels: list[VerdictLabel] = []
    for sample_id, row in zip(_ids(rows), rows, strict=True):
        judged: list[tuple[str, Label | None]]
        response: str | None = None
        if isinstance(row, LabelledStatement):
            texts, judged, response = row.contexts, [(row.statement, row.label)], row.statement
        else:
            texts, judged = row.sentences, [*zip(row.sentences, row.relevant, strict=True)]
        contexts = tuple(Context.model_construct(text=text) for text in texts)
        samples.append(  # not checked yet: `from_rows` says what is wrong, and takes the texts of samples as they are
            Sample.model_construct(
                id=sample_id, user_input=row.question, retrieved_contexts=contexts, response=response
            )
        )
        cluster = _cell(row, column) if column else hashlib.sha256("\0".join(texts).encode()).hexdigest()
        labels += [
            VerdictLabel(verdict_key(sample_id, metric, position), text, label, cluster)
            for position, (text, label) in enumerate(judged)
            if label is not None
        ]
    dataset = from_rows(samples, name=human.name)
    return Plan(dataset, (catalog.get(metric),), settings, len(samples)), labels


def _ids(rows: Sequence[LabelledStatement | LabelledSentences]) -> list[str]:
    """The rows' own ids where each has one and no other has the same; else their numbers, from 1."""
    own = [row.columns.get("id") for row in rows]
    if len(set(map(str, own))) == len(own) and all(
        isinstance(value, str | int) and str(value).strip() for value in own
    ):
        return [str(value) for value in own]
    return [str(number) for number in range(1, len(rows) + 1)]


def _cell(row: LabelledVerdict | LabelledStatement | LabelledSentences, column: str) -> str:
    """What groups the row. Raises InputError where the column has nothing."""
    value = lookup(row.columns, column)
    if value is None or value == "" or isinstance(value, Mapping | list):
        raise InputError(
            f"{row.place} has no text or number in the column {column!r}",
            hint=f"{option_name('cluster_by')} needs a value for every labelled row",
        )
    return str(value)


def _calibration(human: HumanLabels, judged: _Judged, name: str | None, *, weigh: bool) -> Calibration:
    matched = _by_the_base_rule(judged.run, match_labels(judged.run, judged.labels))
    weighed = _weigh(judged.run, matched) if weigh else None
    figures = judge_figures(matched.rows if weighed is None else matched.rows._replace(scores=weighed.held_out))
    card, manifest = judged.run.summary.judge, judged.run.manifest
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
            clustered_by=judged.clustered_by,
        ),
        combining_rule=weighed.rule if weighed else None,
        **{field: getattr(figures, field) for field in _SAME},
        figures=figures.figures | ({"auc_gain": weighed.gain} if weighed else {}),
        seed=SEED,
        resamples=STATISTIC_RESAMPLES,
        remarks=(*figures.remarks, *failed),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


_SAME = ("threshold", "at_one_half", "held_out", "undefined", "fold_thresholds", "reliability")
"""What a calibration says as the figures have it."""


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


class _Weighed(NamedTuple):
    """Weights for the judges of a combined run, what rows get from those of other clusters, and the gain in AUC."""

    rule: CombiningRule
    held_out: Floats
    gain: Figure


def _weigh(run: Run, matched: MatchedLabels) -> _Weighed:
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
    clip = combination.rule.clip
    odds = [[log_odds(row[judge] or 0.0, clip) for judge in combination.ids] for row in matched.votes]
    fit = fit_weights(matched.rows.labels, odds, matched.rows.clusters)
    both = np.column_stack([np.asarray(matched.rows.scores, dtype=np.float64), fit.held_out])
    gain = statistic_interval(
        lambda labels, scores, weights: roc_auc(labels, scores[:, 1], weights) - roc_auc(labels, scores[:, 0], weights),
        matched.rows.labels,
        both,
        clusters=matched.rows.clusters,
    )
    weights = dict(zip(combination.ids.values(), map(float, fit.weights), strict=True))
    return _Weighed(
        CombiningRule.weighted(weights, fit.intercept),
        fit.held_out,
        Figure(value=gain.mean, ci95=(gain.low, gain.high)),
    )
