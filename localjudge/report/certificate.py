"""Write a certificate: one printable page on a run, its checks, and how to repeat them.

It states only what is checked while it is written (`localjudge.judging.verify_files`) and the
result of the last verification. Apart from the date, the same run gives the same bytes. The page
contains no texts of the data.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.analysis.check import Check, check
from localjudge.analysis.gate_decisions import GateDecision
from localjudge.analysis.slices import slices
from localjudge.errors import InputError
from localjudge.judging.verify import REPORT
from localjudge.judging.verify_files import alterations
from localjudge.labels.corrected_mean import CorrectedMean, quote_mean
from localjudge.labels.run_labels import RunLabels
from localjudge.metrics.catalog import get_question
from localjudge.report.certificate_text import (
    count_labels,
    describe_agreement,
    describe_evidence_use,
    describe_examination,
    describe_label_check,
    describe_origin,
    describe_samples,
    translate_caution,
    translate_interval,
    translate_labels,
    translate_mean,
)
from localjudge.report.html_page import check_report
from localjudge.report.messages import Messages
from localjudge.report.overview import overview
from localjudge.report.private_page import name_run, page_parts, write_page
from localjudge.run_directory.directory import LOCK, MANIFEST, STORE, file_sha256
from localjudge.run_directory.examination import find_examination
from localjudge.run_directory.files import VERIFICATION, last_verification
from localjudge.run_directory.label_rows import LABELS, label_file, now
from localjudge.run_directory.result_rows import row_files
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.run_rows import NO_VALUE
from localjudge.run_directory.summary import SUMMARY
from localjudge.stats.interval import Basis
from localjudge.types import Language
from localjudge.words import as_typed, call, option

DEFAULT_THRESHOLD = 0.5
_OUTCOMES = {
    "pass": "certificate.gate_pass",
    "fail": "certificate.gate_fail",
    "undecided": "certificate.gate_undecided",
}
_OWN_FILES = (
    MANIFEST,
    STORE,
    SUMMARY,
    *row_files(with_evidence=True),
    LABELS,
    VERIFICATION,
    REPORT,
    LOCK,
)
"""Files of a run, which a certificate never replaces."""
_STYLES = ("base.css", "certificate.css")
_JUDGED_FIELDS = ("response", "reference", "retrieved_contexts")
_LETTERS_OF_TITLE = 120
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
    title = cut_title(title)
    if isinstance(gates, str):
        gates = [gates]
    values = _values(run, title, messages, gates, by)
    return write_values(path, "certificate.html", values, messages, when)


def write_values(
    path: Path, template: str, values: dict[str, Any], messages: Messages, when: str | None
) -> Certificate:
    """Write the values of a certificate as the page of this template."""
    parts = page_parts(
        template,
        styles=_STYLES,
        scripts=(),
        messages=messages,
        when=when or now(),
        **values,
    )
    write_page(path, parts, kind="certificate")
    return Certificate(path, values["problems"], values["decisions_of_gates"])


def cut_title(title: str | None) -> str | None:
    if title and len(title) > _LETTERS_OF_TITLE:
        return f"{title[: _LETTERS_OF_TITLE - 3]}..."
    return title


def describe_run(run: RunRecord, messages: Messages) -> dict[str, Any]:
    """Return the values of a certificate of the run, for a page on two runs."""
    return _values(run, None, messages, (), None)


def refuse_own_file(run: RunRecord, path: Path) -> None:
    """Raise InputError for a file of the run, also through a link or another spelling."""
    directory = run.directory.resolve()
    target = path.resolve()
    is_here = target.parent.exists() and directory.exists() and target.parent.samefile(directory)
    for name in _OWN_FILES:
        file = directory / name
        is_own = is_here and target.name.casefold() == name.casefold()
        if is_own or (path.exists() and file.exists() and path.samefile(file)):
            raise InputError(
                f"{path} is a file of the run", hint="name another file for the certificate"
            )


def _values(
    run: RunRecord, title: str | None, messages: Messages, gates: Sequence[str], by: str | None
) -> dict[str, Any]:
    """Return the values of the page. A run with problems is shown without results."""
    problems = alterations(run)
    is_report_checked = False
    if not problems:
        report = check_report(run)
        is_report_checked = report.is_unchanged
        if report.problem:
            problems = (f"{REPORT}: {report.problem}",)
    verification = None
    if not problems:
        verification = last_verification(run.directory)
    is_verified = verification is not None and verification.is_about(run.directory)
    if verification and is_verified and verification.result == "different":
        problems = (f"localjudge verify, {verification.when[:10]}, {verification.machine}",)
    identity = _describe_identity(run, title, messages)
    if problems:
        results = _leave_out_results(run, messages)
    else:
        with as_typed():
            checked = check(run, gates=gates)
            results = overview(run, checked, identity["title"], verification)
            _add_findings(results["metrics"], messages)
            results |= _describe_checks(run, checked, messages)
            results["slices"] = list(_slice_rows(run, by, messages))
        labels = label_file(run.directory)
        verified = verification.labels if verification else None
        results["labels_sha256"] = labels.sha256
        results["label_checks"] = describe_label_check(LABELS, labels.rows, verified, messages)
    return {
        **results,
        **identity,
        **_describe_labels(results["labels"], messages),
        **_ROOM,
        "config": {},
        "problems": problems,
        "verification": verification,
        "is_verified": is_verified,
        "is_altered": not is_verified,
        "is_report_checked": is_report_checked,
        "is_complete": verification is not None and verification.asked_again == verification.stored,
        "column": by,
        "label_count": lambda corrected: count_labels(corrected, messages),
        "commands": list(_commands(run, title, messages.language, gates, by)),
    }


def _describe_identity(run: RunRecord, title: str | None, messages: Messages) -> dict[str, Any]:
    """Return what the certificate is about: run, data, judge and versions."""
    environment = run.manifest.environment
    name = run.directory.resolve().name
    sources = [Path(source).name for source in environment.sources]
    mapping = run.manifest.environment.mapping
    columns = [f"{field}: {mapping[field]}" for field in _JUDGED_FIELDS if field in mapping]
    checked_files: list[str] = []
    for file in (MANIFEST, STORE, SUMMARY, *row_files(with_evidence=run.has_evidence), LABELS):
        if (run.directory / file).exists():
            checked_files.append(file)
    return {
        "title": title or ", ".join(sources)[:_LETTERS_OF_TITLE] or name,
        "name": name,
        "run_name": name_run(run.directory.resolve()),
        "sources": sources,
        "given": environment.samples_read + environment.skipped_rows,
        "skipped_places": [_cut_path(place) for place in environment.skipped_places],
        "source_checksums": list(zip(sources, environment.source_sha256, strict=False)),
        "columns": columns,
        "data": run.manifest.data,
        "judge": run.summary.judge,
        "checksums": _list_checksums(run),
        "caution": translate_caution(run.summary.judge, messages),
        "examined": _describe_judge_tests(run, messages),
        "signature": run.summary.signature,
        "manifest_sha256": file_sha256(run.directory / MANIFEST),
        "origins": [describe_origin(origin, messages) for origin in run.origins],
        "thresholds": list(_thresholds(run, messages)),
        "is_stopped": run.sampling.optional_stopping,
        "files": ", ".join(checked_files),
        "versions": [*run.manifest.judge.versions.items(), *_machine(environment.host)],
    }


def _describe_judge_tests(run: RunRecord, messages: Messages) -> str | None:
    """Return what doctor recommends the judge for, None if a caution replaces it."""
    examination = find_examination(run.manifest.judge)
    if examination is not None:
        return describe_examination(examination, messages)
    if run.judge.examined is None:
        return None
    return messages.plain("examined.not_yet")


def _cut_path(place: str) -> str:
    """Return the place of a row without the folder of its file."""
    return place.replace("\\", "/").rpartition("/")[2]


def _list_checksums(run: RunRecord) -> list[tuple[str, str | None]]:
    """Return the sha256 of the judge's model without a name, or of each judge of a jury."""
    jury = run.manifest.judge.jury
    if not jury:
        return [("", run.summary.judge.sha256)]
    return [(name, member.engine.model_sha256) for name, member in jury.items()]


def _leave_out_results(run: RunRecord, messages: Messages) -> dict[str, Any]:
    return {
        "samples": messages.plain("samples.all", n=run.summary.samples),
        "skipped": run.summary.skipped_rows,
        "labels": None,
        "label_checks": [],
        "decisions_of_gates": (),
        "gates": [],
        "slices": [],
    }


def _add_findings(metrics: Sequence[dict[str, Any]], messages: Messages) -> None:
    """Add the mean of each metric as a sentence in the language of the page."""
    for metric in metrics:
        if metric["basis"] == "too few labels":
            metric["finding"] = translate_labels(metric["corrected"].counts, messages)
        else:
            row = metric["rows"][0]
            metric["finding"] = translate_mean(
                metric["name"], row["mean"], row["interval"], messages
            )


def _describe_checks(run: RunRecord, checked: Check, messages: Messages) -> dict[str, Any]:
    return {
        "samples": describe_samples(run, messages),
        "decisions_of_gates": checked.decisions,
        "gates": [gate_row(decision, messages) for decision in checked.decisions],
    }


def _describe_labels(labels: RunLabels | None, messages: Messages) -> dict[str, Any]:
    """Return what the labels say, who gave them, their agreement, and warnings."""
    values: dict[str, Any] = {
        "says": [],
        "annotators": [],
        "agreement": None,
        "settled": None,
        "warnings": [],
        "evidence_use": [],
    }
    if labels is None:
        return values
    for name, mean in labels.corrected.items():
        if mean.counts:
            values["says"].append((name, translate_labels(mean.counts, messages)))
        if mean.evidence_use:
            line = describe_evidence_use(mean.evidence_use, messages)
            values["evidence_use"].append((name, line))
    for name, count in labels.annotators.items():
        values["annotators"].append((name, count, labels.ones.get(name, 0)))
    if labels.passed_over:
        values["warnings"].append(messages.plain("labels.unlabelled", n=labels.passed_over))
    if labels.undrawn:
        values["warnings"].append(messages.plain("labels.undrawn", n=labels.undrawn))
    agreement = labels.agreement
    if agreement:
        values["agreement"] = describe_agreement(agreement, messages)
    if agreement and agreement.settled:
        values["settled"] = messages.plain(
            "labels.settled", n=agreement.disputed, settled=agreement.settled
        )
    return values


def _thresholds(run: RunRecord, messages: Messages) -> Iterator[str]:
    """Yield the threshold of a verdict, and calibrations with another one for some metrics."""
    threshold = run.summary.threshold
    line = messages.plain("certificate.threshold_value", threshold=threshold)
    if threshold != DEFAULT_THRESHOLD:
        line = messages.plain("certificate.threshold_changed", line=line)
    yield line
    names: dict[str, str] = {}
    for calibration in run.manifest.environment.settings.calibration:
        names[calibration.question] = calibration.name
    for metric, calibrated in run.summary.thresholds.items():
        name = names.get(get_question(metric), "-")
        yield messages.plain(
            "certificate.calibrated", metric=metric, threshold=calibrated, name=name
        )


def gate_row(decision: GateDecision, messages: Messages) -> dict[str, Any]:
    basis = "certificate.judge_only"
    if decision.corrected or decision.labels is not None:
        basis = "certificate.by_labels"
    return {
        "gate": decision.gate,
        "outcome": messages.plain(_OUTCOMES[decision.outcome]),
        "value": decision.value,
        "interval": translate_interval(decision.ci95, messages),
        "basis": messages.plain(basis, n=decision.labels or 0),
    }


def _slice_rows(run: RunRecord, by: str | None, messages: Messages) -> Iterator[dict[str, Any]]:
    """Yield the quoted mean of each metric in each slice by a column, if there is one."""
    if by is None:
        return
    for part in slices(run, by).slices:
        value = part.value
        if value is None:
            value = NO_VALUE
        for name, summary in part.metrics.items():
            corrected = part.corrected.get(name)
            quoted = quote_mean(summary, corrected)
            yield {
                "value": value,
                "metric": name,
                "samples": part.samples,
                "mean": quoted.mean,
                "interval": translate_interval(quoted.ci95, messages),
                "basis": _slice_basis(quoted.basis, corrected, messages),
            }


def _slice_basis(basis: Basis, corrected: CorrectedMean | None, messages: Messages) -> str:
    """Return what the mean of a slice is based on: the judge, or labels."""
    if corrected and basis == "labels":
        labels = count_labels(corrected, messages)
        return messages.plain("certificate.corrected", labels=labels)
    if corrected and basis == "too few labels":
        labelled = 0
        if corrected.counts:
            labelled = corrected.counts.labelled
        return messages.plain("certificate.by_labels", n=labelled)
    return messages.plain("certificate.judge_only")


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
    with as_typed():
        yield verify_command(run, name)
        parts = [call("report", name, "certificate", "again.html")]
        if title:
            parts.append(option("title", title))
        if language != "en":
            parts.append(option("language", language))
        for gate in gates:
            parts.append(option("gate", gate))
        if by:
            parts.append(option("by", by))
        yield " ".join(parts)


def verify_command(run: RunRecord, name: str) -> str:
    """Return the command that verifies a directory of this name, with the judge of the run."""
    judge = run.manifest.environment.judge or ""
    if os.sep in judge and "://" not in judge:
        return call("verify", name, "judge", Path(judge).name)
    return call("verify", name)
