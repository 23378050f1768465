"""Measure judges on the human labels of one question: figures, thresholds, juries, the best first.

    labels and probabilities ──> figures and threshold of each judge ──┐
                             ──> weights of juries, and their figures ─┴─> calibrations, ranked

    key           label   judge A    judge B
    statement 1   1       p = .81    p = .93
    statement 2   0       p = .34    failed

The key of a statement is the hash of its texts, or names its place in a run over labelled texts.
All judges are measured on the same statements: each judge gave each of them a probability. Judges
that are significantly better than guessing come first, by labels saved.

The juries are the one of all judges, and the smallest one that labels do not show to be worse.
Juries and single judges are compared by the log loss of their held-out probabilities, each
calibrated on the same folds, by a paired interval over clusters.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from localjudge.errors import DataError
from localjudge.labels.judge_figures import admit_by_labels, judge_figures
from localjudge.progress import Progress
from localjudge.run_directory.directory import STORE, now
from localjudge.run_directory.identity import jury_card
from localjudge.run_directory.measured_judges import Calibration, LabelSavings, LabelsUsed
from localjudge.run_directory.result_rows import VerdictRow
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.store_reader import questions_per_verdict
from localjudge.run_directory.verdict_rule import log_odds
from localjudge.stats import stacking
from localjudge.stats.agreement import LabelledScores
from localjudge.stats.interval import Floats
from localjudge.types import Combination, Label
from localjudge.words import numbered, signed_difference

_MAX_COMBINED_JUDGES = 4
"""Maximum number of judges for trying all combinations. Of more, all and each single one are."""
_ANSWERING = ("engine", "judge")
"""Parts of a judge's identity that can change its answers."""


class JudgeAnswers(NamedTuple):
    """A judge's answers to the labelled statements.

    `savings` are those in the corrected mean with most labels.
    """

    run: RunRecord
    verdicts: Mapping[str, VerdictRow]
    savings: LabelSavings | None = None

    def probability(self, key: str) -> float | None:
        """Return the probability of 1 for a statement, None if the judge gave none."""
        verdict = self.verdicts.get(key)
        if verdict is None:
            return None
        return verdict.p_yes


class LabelledQuestion(NamedTuple):
    """Labels of one question with each judge's answers.

    `labels`, `weights` (numbers of statements that each label represents) and `clusters` have the
    same keys. `labels_used` has fields of `LabelsUsed`.
    """

    name: str
    labels: Mapping[str, Label]
    weights: Mapping[str, float]
    clusters: Mapping[str, str]
    judges: Sequence[JudgeAnswers]
    labels_used: Mapping[str, Any]
    remarks: tuple[str, ...] = ()

    def shared_keys(self) -> list[str]:
        """Return the labelled statements with a probability by every judge.

        Raises DataError without any.
        """
        keys = []
        for key in self.labels:
            if all(judge.probability(key) is not None for judge in self.judges):
                keys.append(key)
        if keys:
            return keys
        advice = "check its failures"
        several = "several judges are measured on statements that all of them judged"
        raise DataError(
            f"the judge gave no labelled statement a probability in {self.judges[0].run.directory}",
            hint=f"{advice}; {several}",
        )


def calibrate_judges(question: LabelledQuestion, progress: Progress) -> list[Calibration]:
    """Return a calibration of each judge and jury, the best first.

    With several judges, the juries are all of them, and the smallest jury that is not shown to be
    worse. Raises DataError for unusable labels.
    """
    keys = question.shared_keys()
    judges = [_calibrate(question, judge, keys) for judge in question.judges]
    juries = _calibrate_juries(question, judges, keys, progress)
    return sorted([*judges, *juries], key=_rank)


def _rank(calibration: Calibration) -> tuple[bool, float, float]:
    share_saved = 0.0
    if calibration.savings:
        share_saved = calibration.savings.labels / calibration.savings.of
    auc = 0.0
    if "auc" in calibration.figures:
        auc = calibration.figures["auc"].value
    return calibration.guesses, -share_saved, -auc


def _calibrate(question: LabelledQuestion, judge: JudgeAnswers, keys: Sequence[str]) -> Calibration:
    """Measure one judge on the statements with these keys."""
    rows = _labelled_scores(question, judge, keys)
    figures = judge_figures(rows)
    figures["remarks"] += question.remarks
    excluded = len(question.labels) - len(keys)
    if excluded:
        statements = numbered(excluded, "labelled statement")
        reason = "that a judge or a run has no verdict with a probability for"
        figures["remarks"] += (f"excluded: {statements} {reason}",)
    if _have_savings(question):
        figures["savings"] = judge.savings
    card = judge.run.summary.judge
    manifest = judge.run.manifest
    metric = judge.verdicts[keys[0]].metric
    seconds = manifest.environment.seconds_per_question
    if seconds is not None:
        seconds *= questions_per_verdict(judge.run.directory / STORE, metric)
    calibration = Calibration(
        **figures,
        name=card.name,
        question=question.name,
        judge=manifest.judge.measured(manifest.metric(metric)),
        card=card,
        run=manifest.signature,
        labels=_describe_labels(question, rows),
        seconds_per_verdict=seconds,
        created=now(),
    )
    return _with_recommended_uses(calibration)


def _labelled_scores(
    question: LabelledQuestion, judge: JudgeAnswers, keys: Sequence[str]
) -> LabelledScores:
    return LabelledScores(
        labels=[question.labels[key] for key in keys],
        scores=[judge.probability(key) or 0.0 for key in keys],
        weights=[question.weights[key] for key in keys],
        clusters=[question.clusters[key] for key in keys],
    )


def _have_savings(question: LabelledQuestion) -> bool:
    """Return whether all judges have savings in a corrected mean, so that these are comparable."""
    return all(judge.savings for judge in question.judges)


def _describe_labels(question: LabelledQuestion, rows: LabelledScores) -> LabelsUsed:
    return LabelsUsed(
        **question.labels_used,
        verdicts=len(rows.labels),
        failed=len(question.labels) - len(rows.labels),
        weighted=len(np.unique(rows.weights)) > 1,
        positives=int(rows.labels.sum()),
        clusters=len(set(np.asarray(rows.clusters))),
    )


def _with_recommended_uses(calibration: Calibration) -> Calibration:
    uses = admit_by_labels(calibration).uses
    return calibration.model_copy(update={"fit_for": uses})


def _calibrate_juries(
    question: LabelledQuestion,
    judges: Sequence[Calibration],
    keys: Sequence[str],
    progress: Progress,
) -> list[Calibration]:
    """Return the calibrations of the jury of all judges, and of the smallest that is not worse."""
    if len(judges) == 1:
        return []
    if any("jury" in calibration.judge for calibration in judges):
        progress.note(
            "no jury is fitted, because one of the judges is a jury itself: name its judges"
        )
        return []
    names = [calibration.card.name for calibration in judges]
    if len(set(names)) < len(names):
        progress.note("no jury is fitted, because two judges have the same name")
        return []
    rows = _labelled_scores(question, question.judges[0], keys)
    values = _log_odds_by_judge(question, keys)
    try:
        juries, remarks = choose_juries(names, values, rows)
        columns = [values[:, list(jury)] for jury in juries]
        solutions = [stacking.fit(column, rows.labels, rows.weights) for column in columns]
    except DataError as error:
        progress.note(f"no jury is fitted: {error.message}")
        return []
    calibrations = []
    for jury, (judge_weights, bias) in zip(juries, solutions, strict=True):
        members = [judges[number] for number in jury]
        names_of_jury = [names[number] for number in jury]
        weights_by_name = dict(zip(names_of_jury, judge_weights.tolist(), strict=True))
        combination = Combination(weights_by_name, bias)
        held_out = rows.with_scores(juries[jury])
        calibrations.append(_calibrate_jury(question, members, combination, held_out, remarks))
    return calibrations


def _log_odds_by_judge(question: LabelledQuestion, keys: Sequence[str]) -> Floats:
    """Return the log odds of each labelled statement for each judge (statements, judges)."""
    values = np.zeros((len(keys), len(question.judges)))
    for column, judge in enumerate(question.judges):
        for row, key in enumerate(keys):
            values[row, column] = log_odds(judge.probability(key) or 0.0)
    return values


def _calibrate_jury(
    question: LabelledQuestion,
    judges: Sequence[Calibration],
    combination: Combination,
    rows: LabelledScores,
    remarks: Sequence[str],
) -> Calibration:
    """Measure a jury by its held-out probabilities, the scores of `rows`."""
    members = sorted(judges, key=lambda judge: judge.card.name)
    answering: dict[str, object] = {}
    for member in members:
        answering[member.card.name] = {part: member.judge[part] for part in _ANSWERING}
    identity: dict[str, object] = {"jury": answering}
    if "metrics" in members[0].judge:
        identity["metrics"] = members[0].judge["metrics"]
    figures = judge_figures(rows)
    weights = [f"{name} {weight:.2f}" for name, weight in combination.weights.items()]
    described = f"weights: {', '.join(weights)}; bias {combination.bias:+.2f}"
    figures["remarks"] += (described, *remarks)
    if not _have_savings(question):
        figures["savings"] = None
    calibration = Calibration(
        **figures,
        name=" + ".join(answering),
        question=question.name,
        weights=dict(combination.weights),
        bias=combination.bias,
        judge=identity,
        card=jury_card([member.card for member in members], None, None),
        run="; ".join(member.run for member in members),
        labels=members[0].labels,
        created=members[0].created,
    )
    return _with_recommended_uses(calibration)


def choose_juries(
    names: Sequence[str], log_odds: Floats, rows: LabelledScores
) -> tuple[dict[tuple[int, ...], Floats], list[str]]:
    """Return the held-out probabilities (n,) of the jury of all judges and of a recommended one.

    A jury is the numbers of its judges, from 0.

    `log_odds` are of shape (n, judges). The remarks recommend the smallest jury, or judge, that is
    not shown to be worse than all together. Raises DataError if weights cannot be fitted or tested.
    """
    everyone = tuple(range(len(names)))
    count = len(names)
    candidates: list[tuple[int, ...]] = []
    sizes: Iterable[int] = range(1, count + 1)
    if count > _MAX_COMBINED_JUDGES:
        sizes = (1, count)
    for size in sizes:
        candidates.extend(combinations(range(count), size))
    held_out = {jury: stacking.held_out(log_odds[:, list(jury)], rows) for jury in candidates}
    recommended = _smallest(candidates, held_out, rows)
    remarks = []
    for judge in everyone:
        difference = stacking.loss_difference(rows, held_out[everyone], held_out[judge,])
        limits = (difference.low, difference.high)
        value, low, high = signed_difference(difference.mean, limits)
        loss = f"log loss of the jury minus that of {names[judge]}, calibrated"
        remarks.append(f"{loss}: {value} [{low}, {high}]")
    smallest = " + ".join(names[judge] for judge in recommended)
    remarks.append(f"smallest that is not shown to be worse: {smallest}")
    juries = {jury: held_out[jury] for jury in (everyone, recommended) if len(jury) > 1}
    return juries, remarks


def _smallest(
    candidates: Sequence[tuple[int, ...]],
    held_out: Mapping[tuple[int, ...], Floats],
    rows: LabelledScores,
) -> tuple[int, ...]:
    """Return the smallest jury not shown to be worse than all judges, the best one of its size."""
    everyone = candidates[-1]
    for size in range(1, len(everyone)):
        losses: dict[tuple[int, ...], float] = {}
        for jury in candidates:
            if len(jury) == size:
                difference = stacking.loss_difference(rows, held_out[jury], held_out[everyone])
                if difference.low <= 0:
                    losses[jury] = difference.mean
        if losses:
            return min(losses, key=losses.__getitem__)
    return everyone
