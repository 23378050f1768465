"""Write a certificate: one printable page on a run, its checks, and how to repeat them.

It states only what is checked while it is written (`localjudge.judging.verify_files`) and the
result of the last verification. Apart from the date, the same run gives the same bytes. The page
contains no texts of the data.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.analysis.check import GateDecision, check
from localjudge.analysis.headline import Headline, choose_headline
from localjudge.analysis.slices import slices
from localjudge.errors import InputError
from localjudge.judging.verify import REPORT
from localjudge.judging.verify_files import alterations
from localjudge.labels.annotator_agreement import Agreement
from localjudge.labels.corrected_mean import CorrectedMean
from localjudge.labels.evidence_use import EvidenceUse
from localjudge.labels.label_counts import LabelCounts
from localjudge.labels.run_labels import RunLabels
from localjudge.metrics.catalog import get_question
from localjudge.report.messages import Messages
from localjudge.report.overview import overview
from localjudge.report.private_page import page_parts, write_page
from localjudge.report.verify_report import check_report
from localjudge.run_directory.calibration import Calibration
from localjudge.run_directory.column_values import NO_VALUE
from localjudge.run_directory.directory import LOCK, MANIFEST, STORE
from localjudge.run_directory.files import SUMMARY, row_files
from localjudge.run_directory.label_rows import LABELS, label_file, now
from localjudge.run_directory.manifest import UNPROVED
from localjudge.run_directory.run_record import Origin, RunRecord, file_sha256
from localjudge.run_directory.verification import VERIFICATION, last_verification
from localjudge.types import JudgeCard, Language
from localjudge.words import as_typed, call, option

DEFAULT_THRESHOLD = 0.5
_OUTCOMES = {
    "pass": "certificate.gate_pass",
    "fail": "certificate.gate_fail",
    "undecided": "certificate.gate_undecided",
}
_OWN_FILES = {
    name.casefold()
    for name in (
        MANIFEST,
        STORE,
        SUMMARY,
        *row_files(with_evidence=True),
        LABELS,
        VERIFICATION,
        REPORT,
        LOCK,
    )
}
_STYLES = ("base.css", "certificate.css")
_LETTERS_OF_TITLE = 120
Limits = tuple[float, float] | None
_ROOM = {"MOST": 6, "FEW": 4}
"""Entries of the longer and shorter lists on the page."""


class Certificate(NamedTuple):
    """A written certificate: its file, reasons not to quote the results, and decisions of gates."""

    file: Path
    problems: tuple[str, ...]
    decisions: tuple[GateDecision, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing was altered and all gates passed."""
        return not self.problems and all(decision.passed for decision in self.decisions)


def write_certificate(
    run: RunRecord,
    out: str | Path,
    *,
    title: str | None = None,
    language: Language = "en",
    when: str | None = None,
    gates: Sequence[str] = (),
    by: str | None = None,
) -> Certificate:
    """Write the certificate of a finished run, also of an altered one, and return it.

    `when` is a time in UTC. It has the results of the `gates`, and of slices `by` a column of the
    data. Replaces an earlier page. Raises InputError for another file of that name or a file of
    the run, for an invalid gate or column, or for a metric of another package.
    """
    path = Path(out).expanduser()
    refuse_own_file(run, path)
    messages = Messages(language)
    if title and len(title) > _LETTERS_OF_TITLE:
        title = f"{title[: _LETTERS_OF_TITLE - 3]}..."
    gates = [gates] if isinstance(gates, str) else gates
    values = _values(run, title, messages, gates, by)
    parts = page_parts(
        "certificate.html",
        styles=_STYLES,
        scripts=(),
        messages=messages,
        when=when or now(),
        **values,
    )
    write_page(path, parts, kind="certificate")
    return Certificate(path, values["problems"], values["decisions_of_gates"])


def refuse_own_file(run: RunRecord, path: Path) -> None:
    """Raise InputError for a file of the run, also through a link or another spelling."""
    directory = run.directory.resolve()
    target = path.resolve()
    is_here = target.parent.exists() and directory.exists() and target.parent.samefile(directory)
    is_own = is_here and target.name.casefold() in _OWN_FILES
    if not is_own and path.exists():
        own = [directory / name for name in _OWN_FILES]
        is_own = any(file.exists() and path.samefile(file) for file in own)
    if is_own:
        raise InputError(
            f"{path} is a file of the run", hint="name another file for the certificate"
        )


def _values(
    run: RunRecord, title: str | None, messages: Messages, gates: Sequence[str], by: str | None
) -> dict[str, Any]:
    problems = alterations(run)
    report = None if problems else check_report(run)
    if report and report.problem:
        problems = (f"{REPORT}: {report.problem}",)
    verification = None if problems else last_verification(run.directory)
    is_verified = verification is not None and verification.is_of(run.directory)
    environment = run.manifest.environment
    sources = [Path(source).name for source in environment.sources]
    values: dict[str, Any] = {
        "title": title or ", ".join(sources)[:_LETTERS_OF_TITLE] or run.directory.resolve().name,
        "samples": messages.plain("samples.all", n=run.summary.samples),
        "skipped": run.summary.skipped_rows,
        "verification": verification,
        "is_verified": is_verified,
        "labels": None,
        "decisions_of_gates": (),
        "gates": [],
        "slices": [],
        "column": by,
    }
    if verification and is_verified and verification.result == "different":
        problems = (f"localjudge verify, {verification.when[:10]}, {verification.machine}",)
    elif not problems:
        labels = label_file(run.directory)
        verified = verification.labels.rows if verification and verification.labels else 0
        values |= {
            "decisions": len(labels.rows),
            "new_labels": len(labels.rows) - verified,
            "labels_sha256": labels.sha256,
        }
        with as_typed():
            checked = check(run, gates=gates)
            values |= overview(run, checked, values["title"], verification)
            values["slices"] = _slice_rows(run, by, messages) if by else []
        values["decisions_of_gates"] = checked.decisions
        values["gates"] = [_gate_row(decision, messages) for decision in checked.decisions]
        values["samples"] = describe_samples(run, messages)
        for metric in values["metrics"]:
            row = metric["rows"][0]
            metric["finding"] = translate_mean(metric["name"], row.mean, row.interval, messages)
            if metric["basis"] == "too few labels":
                metric["finding"] = translate_labels(metric["corrected"].counts, messages)
        is_whole = verification is not None and verification.asked_again == verification.stored
        values["is_complete"] = is_whole and not values["new_labels"]
    return values | {
        "config": {},
        "problems": problems,
        "is_altered": not is_verified,
        "name": run.directory.resolve().name,
        "sources": sources,
        "data": run.manifest.data,
        "judge": run.summary.judge,
        "signature": run.summary.signature,
        "manifest_sha256": file_sha256(run.directory / MANIFEST),
        "caution": translate_caution(run.summary.judge, messages),
        "origins": [describe_origin(origin, messages) for origin in run.origins],
        "label_count": lambda corrected: count_labels(corrected, messages),
        **_label_values(values["labels"], messages),
        "annotators": _annotator_rows(values["labels"]),
        "says": _what_labels_say(values["labels"], messages),
        "thresholds": list(_thresholds(run, messages)),
        "examined": run.judge.examined,
        "is_stopped": run.sampling.optional_stopping,
        "files": ", ".join(_checked_files(run)),
        "is_report_checked": bool(report and report.is_unchanged),
        "versions": [*run.manifest.judge.versions.items(), *_machine(environment.host)],
        "commands": list(_commands(run, title, messages.language, gates, by)),
        **_ROOM,
    }


def translate_labels(counts: LabelCounts, messages: Messages) -> str:
    """Return `0 of 19 labelled statements are supported by the documents`.

    Other languages have general words.
    """
    if messages.language == "en":
        return counts.contradiction or counts.in_words
    numbers = {
        "supported": counts.supported,
        "n": counts.labelled,
        "judge": counts.supported_by_judge,
    }
    says = messages.plain("labels.say", **numbers)
    if not counts.contradiction:
        return says
    return messages.plain("labels.contradict", says=says)


def _what_labels_say(labels: RunLabels | None, messages: Messages) -> list[tuple[str, str]]:
    """Return each labelled metric with what its labels say."""
    if labels is None:
        return []
    return [
        (name, translate_labels(mean.counts, messages))
        for name, mean in labels.corrected.items()
        if mean.counts
    ]


def _annotator_rows(labels: RunLabels | None) -> list[tuple[str, int, int]]:
    """Return each annotator with the number of labels, and of labels of 1."""
    if labels is None:
        return []
    return [(name, count, labels.ones.get(name, 0)) for name, count in labels.annotators.items()]


def _thresholds(run: RunRecord, messages: Messages) -> Iterator[str]:
    """Yield the threshold of a verdict, and calibrations with another one for some metrics."""
    threshold = run.summary.threshold
    line = messages.plain("certificate.threshold_value", threshold=threshold)
    if threshold != DEFAULT_THRESHOLD:
        line = messages.plain("certificate.threshold_changed", line=line)
    yield line
    names = {calibration.question: calibration.name for calibration in _calibrations(run)}
    for metric, calibrated in run.summary.thresholds.items():
        name = names.get(get_question(metric), "-")
        yield messages.plain(
            "certificate.calibrated", metric=metric, threshold=calibrated, name=name
        )


def _calibrations(run: RunRecord) -> Sequence[Calibration]:
    return run.manifest.environment.settings.calibration


def _gate_row(decision: GateDecision, messages: Messages) -> dict[str, Any]:
    basis = "certificate.judge_only"
    if decision.corrected or decision.labels is not None:
        basis = "certificate.by_labels"
    return {
        "gate": decision.gate,
        "outcome": messages.plain(_OUTCOMES[decision.outcome]),
        "value": decision.value,
        "interval": _interval(decision.ci95, messages),
        "basis": messages.plain(basis, n=decision.labels or 0),
    }


def _slice_rows(run: RunRecord, by: str, messages: Messages) -> list[dict[str, Any]]:
    """Return the headline of each metric in each slice."""
    rows = []
    for part in slices(run, by).slices:
        for name, summary in part.metrics.items():
            corrected = part.corrected.get(name)
            headline = choose_headline(summary, corrected)
            rows.append(
                {
                    "value": NO_VALUE if part.value is None else part.value,
                    "metric": name,
                    "samples": part.samples,
                    "mean": headline.mean,
                    "interval": _interval(headline.ci95, messages),
                    "basis": _slice_basis(headline, corrected, messages),
                }
            )
    return rows


def _slice_basis(headline: Headline, corrected: CorrectedMean | None, messages: Messages) -> str:
    """Return what the mean of a slice is based on: the judge, or labels."""
    if corrected and headline.basis == "labels":
        labels = count_labels(corrected, messages)
        return messages.plain("certificate.corrected", labels=labels)
    if corrected and headline.basis == "too few labels":
        labelled = corrected.counts.labelled if corrected.counts else 0
        return messages.plain("certificate.by_labels", n=labelled)
    return messages.plain("certificate.judge_only")


def _interval(ci95: Limits, messages: Messages) -> str:
    if not ci95:
        return "-"
    low, high = map(messages.number, ci95)
    return messages.plain("certificate.range", low=low, high=high)


def _checked_files(run: RunRecord) -> Iterator[str]:
    for name in (MANIFEST, STORE, SUMMARY, *run.row_files, LABELS):
        if (run.directory / name).exists():
            yield name


def translate_mean(name: str, mean: float | None, ci95: Limits, messages: Messages) -> str:
    """Return the mean in the metric's words.

    For example, `about 9 % of the answers decline to answer (2 to 22)`.
    """
    if mean is None:
        return ""
    headline = messages.headline(name)
    if headline:
        share = messages.plain("finding.share", share=_percent(mean))
        clause = headline.format(share=share)
        show: Callable[[float], str] = _percent
    else:
        clause = messages.plain("finding.mean", name=name, mean=mean)
        show = messages.number
    if not ci95:
        return clause
    low, high = map(show, ci95)
    return messages.plain("finding.with_limits", clause=clause, low=low, high=high)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def describe_samples(run: RunRecord, messages: Messages) -> str:
    """Return how many samples were scored, and how they were chosen."""
    part = run.part
    if part is None:
        return messages.plain("samples.all", n=run.summary.samples)
    counts = {"n": part.samples, "total": part.whole}
    if run.summary.stopped is not None:
        return messages.plain("samples.random", **counts, seed=str(part.seed))
    if part.shard is not None:
        return messages.plain("samples.shard", **counts, shard=part.shard)
    if part.sample is not None:
        return messages.plain("samples.drawn", **counts, seed=str(part.seed))
    return messages.plain("samples.first", **counts)


def count_labels(corrected: CorrectedMean, messages: Messages) -> str:
    """Return `50 labels`, or `50 of 63 labels` between two looks."""
    if corrected.labels < corrected.labelled:
        return messages.plain(
            "labels.counted", counted=corrected.labels, labelled=corrected.labelled
        )
    return messages.plain("labels.count", n=corrected.labels)


def translate_caution(judge: JudgeCard, messages: Messages) -> str | None:
    """Return the caution about a registered judge, or about one without a checksum."""
    name = "unproved" if judge.caution == UNPROVED else judge.name
    if judge.caution and name in messages.section("caution"):
        return messages.plain(f"caution.{name}")
    return judge.caution


def describe_origin(origin: Origin, messages: Messages) -> str:
    return messages.plain(
        f"origin.{origin.kind}", count=origin.count, total=origin.total, name=origin.name
    )


def _label_values(labels: RunLabels | None, messages: Messages) -> dict[str, Any]:
    """Return the lines on agreement and the warnings."""
    if labels is None:
        return {"agreement": None, "settled": None, "warnings": (), "evidence_use": ()}
    warnings = []
    if labels.passed_over:
        warnings.append(messages.plain("labels.unlabelled", n=labels.passed_over))
    if labels.undrawn:
        warnings.append(messages.plain("labels.undrawn", n=labels.undrawn))
    agreement = labels.agreement
    settled = None
    if agreement and agreement.settled:
        settled = messages.plain("labels.settled", n=agreement.disputed, settled=agreement.settled)
    line = describe_agreement(agreement, messages) if agreement else None
    evidence_use = []
    for name, mean in labels.corrected.items():
        if mean.evidence_use:
            evidence_use.append((name, describe_evidence_use(mean.evidence_use, messages)))
    return {
        "agreement": line,
        "settled": settled,
        "warnings": warnings,
        "evidence_use": evidence_use,
    }


def describe_evidence_use(use: EvidenceUse, messages: Messages) -> str:
    """Return the line of `EvidenceUse.in_words` in the language of the page."""
    counted = messages.plain("labels.evidence_open", n=use.open + use.closed, open=use.open)
    if use.shown:
        counted = messages.plain("labels.evidence_shown", counted=counted, shown=use.shown)
    if not use.closed:
        return messages.plain(
            "labels.evidence_agreement", counted=counted, agreeing=use.open_agreeing
        )
    return messages.plain(
        "labels.evidence_agreement_of_others",
        counted=counted,
        agreeing=use.open_agreeing,
        others=use.closed,
        others_agreeing=use.closed_agreeing,
    )


def describe_agreement(agreement: Agreement, messages: Messages) -> str:
    """Return `14 statements with several labels: 86 % agreement, Krippendorff's alpha 0.713`."""
    share = f"{100 * agreement.share:.0f}"
    line = messages.plain("labels.agreement", n=agreement.statements, share=share)
    if agreement.alpha is None:
        return line
    return messages.plain("labels.alpha", agreement=line, alpha=agreement.alpha)


def _machine(host: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if "python" in host:
        yield "Python", str(host["python"])
    if "system" in host:
        yield str(host["system"]), str(host.get("machine", ""))


def _commands(
    run: RunRecord, title: str | None, language: Language, gates: Sequence[str], by: str | None
) -> Iterator[str]:
    """Yield the commands for a third party to verify the run and write the page again."""
    name = run.directory.resolve().name
    judge = run.manifest.environment.judge or ""
    is_file = os.sep in judge and "://" not in judge
    with as_typed():
        if is_file:
            yield call("verify", name, "judge", Path(judge).name)
        else:
            yield call("verify", name)
        parts = [call("report", name, "certificate", "again.html")]
        if title:
            parts.append(option("title", title))
        if language != "en":
            parts.append(option("language", language))
        parts += [option("gate", gate) for gate in gates]
        if by:
            parts.append(option("by", by))
        yield " ".join(parts)
