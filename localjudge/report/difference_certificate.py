"""Write the certificate of a difference: one printable page on two runs of the same questions.

It states what the certificates of both runs would state (`localjudge.report.certificate`), and the
difference with the labels that correct it. Apart from the date, the same files give the same bytes.
The page contains no texts of the data.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from localjudge.analysis.check import Check, check
from localjudge.analysis.compare import compare
from localjudge.analysis.comparison import (
    CorrectedDifference,
    MetricChange,
    Outcome,
    RunComparison,
    ScoreChanges,
    SliceChange,
    decide_difference,
)
from localjudge.errors import InputError
from localjudge.judging.verify_files import Alteration, check_joint_labels
from localjudge.labels.decisions import Decisions
from localjudge.metrics import catalog
from localjudge.report.certificate import (
    Certificate,
    CertificateOptions,
    cut_title,
    describe_run,
    list_commands,
    refuse_own_file,
    write_values,
)
from localjudge.report.messages import (
    LabelCheck,
    Messages,
    describe_agreement,
    describe_label_check,
    describe_origin,
    gate_row,
    translate_difference,
    translate_mean,
)
from localjudge.run_directory.comparison_directory import COMPARISON, ComparisonDirectory
from localjudge.run_directory.directory import LOCK
from localjudge.run_directory.files import VERIFICATION, VerifiedLabels
from localjudge.run_directory.label_rows import (
    LABELS,
    LabelRow,
    label_file,
    planned_statements,
)
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.run_rows import name_slice
from localjudge.words import as_typed

_OWN_FILES = (COMPARISON, LABELS, LOCK, VERIFICATION)
_KEYS: Mapping[Outcome, str] = {
    "better": "difference.better",
    "worse": "difference.worse",
    "undecided": "difference.undecided",
    "judge only": "difference.judge_only",
    "not comparable": "difference.not_comparable",
    "no scores": "difference.no_scores",
    "equal": "difference.equal",
}


def write_difference_certificate(
    comparison: ComparisonDirectory, out: str | Path, **options: Unpack[CertificateOptions]
) -> Certificate:
    """Write the certificate of two finished runs, also of altered ones, and return it.

    Options and errors as in `write_certificate`; slices are of the data of B.
    """
    path = Path(out).expanduser()
    runs: list[RunRecord] = []
    for directory in (comparison.baseline_path, comparison.run_path):
        run = RunRecord.open(directory, check=False)
        refuse_own_file(run, path)
        runs.append(run)
    target = path.resolve()
    is_here = target.parent == comparison.path.resolve()
    if is_here and target.name.casefold() in _OWN_FILES:
        hint = "name another file for the certificate"
        raise InputError(f"{path} is a file of the comparison", hint=hint)
    gates = options.get("gates", ())
    if isinstance(gates, str):
        options["gates"] = [gates]
    messages = Messages(options.get("language", "en"))
    values = _values(comparison, runs, messages, options)
    return write_values(path, "difference.html", values, messages, options.get("when"))


def _values(
    comparison: ComparisonDirectory,
    runs: Sequence[RunRecord],
    messages: Messages,
    how: CertificateOptions,
) -> dict[str, Any]:
    """Return the values of the page. Altered runs are shown without a difference."""
    sides: list[dict[str, Any]] = []
    problems: list[Alteration] = []
    for letter, run in zip("AB", runs, strict=True):
        side = describe_run(run, messages, {})
        side["letter"] = letter
        side["origins"] = list(_describe_origins(run, comparison.baseline, messages))
        sides.append(side)
        problems += [problem._replace(side=letter) for problem in side["problems"]]
    after = sides[1]
    by = how.get("by")
    result: dict[str, Any] = {"changes": [], "decisions_of_gates": (), "gates": [], "samples": ""}
    result |= {"is_corrected": False, "slices": [], "column": by}
    label_checks: list[LabelCheck] = []
    if not problems:
        labels = check_joint_labels(comparison)
        problems += [Alteration("file", LABELS, problem) for problem in labels.problems]
        label_checks = _check_labels(comparison, sides, labels.verified, messages)
    if not problems:
        with as_typed():
            checked = check(runs[1], gates=list(how.get("gates", ())), baseline=runs[0])
        result |= _describe_difference(checked, messages)
        if by is not None:
            result["slices"] = list(_slice_rows(runs, by, messages))
    name = comparison.path.resolve().name
    return {
        **result,
        "title": cut_title(how.get("title")) or after["title"],
        "name": name,
        "sides": sides,
        "columns": [run.answer_column for run in runs],
        "is_one_judge": runs[0].summary.judge == runs[1].summary.judge,
        "is_stopped": False,
        "problems": tuple(problems),
        "label_checks": label_checks,
        "labels": _describe_labels(comparison, runs, messages),
        "commands": list(list_commands(runs[1], name, how)),
    }


def _describe_origins(run: RunRecord, baseline: str, messages: Messages) -> Iterator[str]:
    """Yield where answers are from, without the baseline: equal answers are asked once."""
    for origin in run.origins:
        if Path(origin.name).name != baseline:
            yield describe_origin(origin, messages)


def _check_labels(
    comparison: ComparisonDirectory,
    sides: Sequence[dict[str, Any]],
    verified: VerifiedLabels | None,
    messages: Messages,
) -> list[LabelCheck]:
    """Return what the verifications cover of the labels of both runs together, and of each."""
    checks: list[LabelCheck] = []
    covered = {comparison.path: verified}
    for path, side in zip((comparison.baseline_path, comparison.run_path), sides, strict=True):
        verification = side["verification"]
        covered[path] = verification.labels if verification else None
    for path, last in covered.items():
        file = (path / LABELS).relative_to(comparison.path).as_posix()
        checks += describe_label_check(file, label_file(path).rows, last, messages)
    return checks


def _describe_difference(checked: Check, messages: Messages) -> dict[str, Any]:
    comparison = checked.comparison
    assert comparison is not None
    changes = []
    for name, change in comparison.metrics.items():
        changes.append(_describe_change(comparison, name, change, messages))
    return {
        "changes": changes,
        "is_corrected": comparison.is_corrected,
        "samples": _describe_pairs(comparison, messages),
        "decisions_of_gates": checked.decisions,
        "gates": [gate_row(decision, messages) for decision in checked.decisions],
    }


def _describe_pairs(comparison: RunComparison, messages: Messages) -> str:
    """Return the numbers of pairs, of equal ones, and of statements that change the difference."""
    samples = comparison.samples
    parts = [messages.plain("difference.pairs", n=samples.paired)]
    if samples.same_content:
        parts.append(messages.plain("difference.equal_pairs", n=samples.same_content))
    for change in comparison.metrics.values():
        corrected = change.corrected
        if corrected and corrected.is_joint:
            total = corrected.statements + corrected.uncounted
            counts = {"n": corrected.statements, "total": total}
            parts.append(messages.plain("difference.statements", **counts))
            break
    return ", ".join(parts)


def _describe_change(
    comparison: RunComparison, name: str, change: MetricChange, messages: Messages
) -> dict[str, Any]:
    """Return the sentence about a metric, and its row: the quoted difference, and both means."""
    outcome = decide_difference(comparison, name)
    quoted = change.quoted
    difference, interval = _translate_quoted(change, messages)
    key = _KEYS[outcome]
    if outcome == "undecided" and quoted.mean is None:
        key = "difference.not_decided"
    sentence = messages.plain(key, metric=name, difference=difference, interval=interval)
    judged = change.judged
    judges: tuple[float | None, ...] = (None, None, None)
    if judged:
        judges = (judged.before, judged.after, judged.difference)
    return {
        "name": name,
        "sentence": sentence,
        "basis": _describe_basis(name, change, messages),
        "difference": difference,
        "interval": interval,
        "compared": change.compared,
        "before": judges[0],
        "after": judges[1],
        "judges_difference": translate_difference(judges[2], None, messages)[0],
        "is_expected": change.judged != change.scores,
        "reasons": list(_reasons(name, change, outcome, messages)),
        "obstacles": list(comparison.obstacles(name).values()),
    }


def _translate_quoted(change: SliceChange, messages: Messages) -> tuple[str, str]:
    """Return the quoted difference and its interval, without one if the texts are equal."""
    quoted = change.quoted
    difference, interval = translate_difference(quoted.mean, quoted.ci95, messages)
    if change.is_equal:
        interval = "-"
    return difference, interval


def _describe_basis(name: str, change: SliceChange, messages: Messages) -> str:
    """Return what a difference is based on: the judge, labels, or no judge."""
    if change.headline:
        labels = messages.plain("labels.count", n=change.headline.labels)
        people = messages.plain("difference.people", n=change.headline.annotators)
        given = messages.plain("difference.labels_of", labels=labels, people=people)
        return messages.plain("certificate.corrected", labels=given)
    if change.is_withheld and change.corrected:
        count = max(change.corrected.labelled, change.corrected.own_labels)
        return messages.plain("labels.count", n=count)
    if not catalog.is_judged(name):
        return messages.plain("certificate.without_judge")
    return messages.plain("certificate.judge_only")


def _slice_rows(runs: Sequence[RunRecord], by: str, messages: Messages) -> Iterator[dict[str, Any]]:
    """Yield the quoted difference of each metric in each slice by a column of the data of B."""
    changes = compare(*runs, moved=0, by=by).by
    assert changes is not None
    for part in changes.slices:
        for name, change in part.metrics.items():
            difference, interval = _translate_quoted(change, messages)
            yield {
                "value": name_slice(part.value),
                "metric": name,
                "samples": change.compared,
                "mean": difference,
                "interval": interval,
                "basis": _describe_basis(name, change, messages),
            }


def _reasons(
    name: str, change: MetricChange, outcome: Outcome, messages: Messages
) -> Iterator[str]:
    """Yield why labels do not decide a difference, the means of A and B, and why labels give none.

    The means are in the metric's words.
    """
    corrected = change.corrected
    if outcome == "undecided" and corrected:
        sides = (corrected.counts_before, corrected.counts_after)
        if corrected.unsettled:
            yield messages.plain("difference.disputed", n=corrected.unsettled)
        elif change.is_withheld and None in sides and not corrected.is_joint:
            yield messages.plain("difference.one_sided")
        elif change.is_withheld:
            yield messages.plain("difference.few_labels", n=corrected.labelled)
        elif corrected.has_gaps:
            yield messages.plain("difference.gaps", n=corrected.passed_over)
    levels: CorrectedDifference | ScoreChanges | None = change.headline
    key = "difference.levels_by_labels"
    if levels is None or levels.before is None:
        if levels is not None and levels.uncounted:
            yield messages.plain("difference.no_levels", n=levels.uncounted)
        levels = change.judged
        key = "difference.levels_by_judge"
        if not catalog.is_judged(name):
            key = "certificate.without_judge"
    if levels is None:
        return
    by = messages.plain(key)
    before = translate_mean(name, levels.before, None, messages)
    after = translate_mean(name, levels.after, None, messages)
    by = f"{by[:1].upper()}{by[1:]}"
    yield messages.plain("difference.levels", by=by, a=before, b=after)


def _describe_labels(
    comparison: ComparisonDirectory, runs: Sequence[RunRecord], messages: Messages
) -> dict[str, Any] | None:
    """Return who labelled the statements of both runs, and the files of the labels, or None."""
    files: list[tuple[str, str]] = []
    rows: list[LabelRow] = []
    for directory in (comparison.path, *(run.directory for run in runs)):
        labels = label_file(directory)
        if labels.rows:
            file = (directory / LABELS).relative_to(comparison.path).as_posix()
            files.append((file, str(labels.sha256)))
            rows += labels.rows
    if not rows:
        return None
    decisions = Decisions(rows)
    ones = decisions.count_ones()
    annotators = [(name, count, ones.get(name, 0)) for name, count in decisions.annotators.items()]
    agreement = decisions.agreement(decisions.human)
    days = sorted(row.when[:10] for row in rows)
    return {
        "annotators": annotators,
        "unsure": len(decisions.undecidable),
        "settled": None,
        "first": days[0],
        "last": days[-1],
        "agreement": agreement and describe_agreement(agreement, messages),
        "files": files,
        "plan": _describe_plan(label_file(comparison.path).rows, messages),
    }


def _describe_plan(rows: Sequence[LabelRow], messages: Messages) -> str:
    """Return how many joint labels were planned before the first was read, and how many exist."""
    labelled = len(Decisions(rows).human)
    if not planned_statements(rows):
        return messages.plain("difference.unplanned", labelled=labelled)
    planned = max(row.planned or 0 for row in rows)
    return messages.plain("difference.planned", planned=planned, labelled=labelled)
