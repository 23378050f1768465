"""Write a certificate: one printable page on a run, its checks, and how to repeat them.

It states only what is checked while it is written (`localjudge.judging.verify_files`) and the
result of the last verification. Apart from the date, the same run gives the same bytes. The page
contains no texts of the data.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Unpack

from localjudge.analysis.breakdowns import slices
from localjudge.analysis.check import check
from localjudge.analysis.gates import GateDecision
from localjudge.errors import InputError
from localjudge.judging.verify import REPORT
from localjudge.judging.verify_files import Alteration, Reason, alterations
from localjudge.labels.run_labels import disputed_statements
from localjudge.metrics import Metric
from localjudge.metrics.catalog import get_question
from localjudge.report.html_page import DIFFERS, INVALID_INPUTS, check_report
from localjudge.report.messages import (
    Messages,
    count_labels,
    describe_alteration,
    describe_examination,
    describe_label_check,
    describe_labels,
    describe_origin,
    describe_samples,
    gate_row,
    translate_caution,
    translate_estimate,
    translate_labels,
    translate_mean,
)
from localjudge.report.private_page import name_run, page_parts, write_page
from localjudge.report.quoted_metrics import (
    QuotedMetric,
    quote_metrics,
    quote_slice,
    select_findings,
)
from localjudge.run_directory.directory import LOCK, MANIFEST, STORE, file_sha256, now
from localjudge.run_directory.files import VERIFICATION, LastVerification, last_verification
from localjudge.run_directory.label_rows import LABELS, label_file
from localjudge.run_directory.measured_judges import find_examination
from localjudge.run_directory.result_rows import row_files
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.run_rows import name_slice
from localjudge.run_directory.summary import SUMMARY
from localjudge.types import ONE_HALF, Language
from localjudge.words import as_typed, call, option

_REASONS_OF_REPORT: Mapping[str, Reason] = {
    DIFFERS: "report_differs",
    INVALID_INPUTS: "report_inputs",
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
_ROOM: dict[str, Any] = {"MOST": 6, "FEW": 4}
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


class CertificateOptions(TypedDict, total=False):
    """What a certificate shows.

    `when` is a time in UTC, by default now. It has the results of the `gates`, and of slices `by` a
    column of the data. `metrics` are objects of the run's metrics that are not installed.
    """

    title: str | None
    language: Language
    when: str | None
    gates: Sequence[str]
    by: str | None
    metrics: Sequence[Metric]


def write_certificate(
    run: RunRecord, out: str | Path, **options: Unpack[CertificateOptions]
) -> Certificate:
    """Write the certificate of a finished run, also of an altered one, and return it.

    Replaces an earlier page. Raises InputError for another file of that name or a file of the run,
    for an invalid gate or column, or for a metric of another package.
    """
    path = Path(out).expanduser()
    refuse_own_file(run, path)
    gates = options.get("gates", ())
    if isinstance(gates, str):
        gates = [gates]
    options["gates"] = gates
    options["title"] = cut_title(options.get("title"))
    messages = Messages(options.get("language", "en"))
    values = describe_run(run, messages, options)
    name = run.directory.resolve().name
    page = {
        "sides": [values],
        "is_one_judge": True,
        "is_corrected": False,
        "column": options.get("by"),
        "label_count": lambda corrected: count_labels(corrected, messages),
        "commands": list(list_commands(run, name, options)),
    }
    return write_values(path, "certificate.html", {**values, **page}, messages, options.get("when"))


def write_values(
    path: Path, template: str, values: dict[str, Any], messages: Messages, when: str | None
) -> Certificate:
    """Write the values of a certificate as the page of this template.

    The page has its problems in its language, the result in English, as the terminal.
    """
    problems = values["problems"]
    shown = [describe_alteration(problem, messages) for problem in problems]
    in_english = [describe_alteration(problem, Messages()) for problem in problems]
    parts = page_parts(
        template,
        styles=_STYLES,
        scripts=(),
        config={},
        messages=messages,
        when=when or now(),
        **_ROOM,
        **{**values, "problems": shown},
    )
    write_page(path, parts, kind="certificate")
    return Certificate(path, tuple(in_english), values["decisions_of_gates"])


def cut_title(title: str | None) -> str | None:
    if title and len(title) > _LETTERS_OF_TITLE:
        return f"{title[: _LETTERS_OF_TITLE - 3]}..."
    return title


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


def describe_run(run: RunRecord, messages: Messages, how: CertificateOptions) -> dict[str, Any]:
    """Return the values of a run on its page, or on one about two runs.

    A run with problems is shown without results.
    """
    problems = alterations(run, how.get("metrics", ()))
    is_report_checked = False
    if not problems:
        report = check_report(run)
        is_report_checked = report.is_unchanged
        if report.problem:
            reason = _REASONS_OF_REPORT.get(report.problem, "file")
            problems = (Alteration(reason, REPORT, report.problem),)
    verification = None
    if not problems:
        verification = last_verification(run.directory)
    is_verified = verification is not None and verification.is_about(run.directory)
    if verification and is_verified and verification.result == "different":
        details = f"{verification.when[:10]}, {verification.machine}"
        problems = (Alteration("not_reproduced", details=details),)
    values = {
        **_describe_identity(run, how.get("title"), messages),
        "letter": "",
        "problems": problems,
        "verification": verification,
        "is_verified": is_verified,
        "is_report_checked": is_report_checked,
        "is_complete": verification is not None and verification.asked_again == verification.stored,
    }
    if not problems:
        return values | _describe_results(run, verification, messages, how)
    return values | {
        "samples": messages.plain("samples.all", n=run.summary.samples),
        "labels": None,
        "label_checks": [],
        "decisions_of_gates": (),
        "gates": [],
        "slices": [],
    }


def _describe_results(
    run: RunRecord,
    verification: LastVerification | None,
    messages: Messages,
    how: CertificateOptions,
) -> dict[str, Any]:
    """Return the means, gates, slices and labels of a run, with sentences in the language."""
    with as_typed():
        checked = check(run, gates=how.get("gates", ()))
        by = how.get("by")
        rows_of_slices: list[dict[str, Any]] = []
        if by is not None:
            rows_of_slices = list(_slice_rows(run, by, messages))
    metrics = quote_metrics(run, checked.labels)
    finding = [(metric, _finding(metric, messages)) for metric in select_findings(metrics)]
    labels = label_file(run.directory)
    verified = verification.labels if verification else None
    return {
        "samples": describe_samples(run, messages),
        "finding": finding,
        "metrics": metrics,
        "decisions_of_gates": checked.decisions,
        "gates": [gate_row(decision, messages) for decision in checked.decisions],
        "slices": rows_of_slices,
        "labels": describe_labels(checked.labels, labels.sha256, messages),
        "label_checks": describe_label_check(LABELS, labels.rows, verified, messages),
        "disputes": disputed_statements(run, run.summary.metrics),
    }


def _finding(metric: QuotedMetric, messages: Messages) -> str:
    """Return the quoted mean in the metric's words, or what too few labels say."""
    if metric.basis == "too few labels" and metric.corrected and metric.corrected.counts:
        return translate_labels(metric.corrected.counts, messages)
    return translate_mean(metric.name, metric.quoted.mean, metric.quoted.ci95, messages)


def _describe_identity(run: RunRecord, title: str | None, messages: Messages) -> dict[str, Any]:
    """Return what the certificate is about: run, data and judge."""
    environment = run.manifest.environment
    name = run.directory.resolve().name
    sources = [Path(source).name for source in environment.sources]
    mapping = run.manifest.environment.mapping
    columns = [f"{field}: {mapping[field]}" for field in _JUDGED_FIELDS if field in mapping]
    skipped_places: list[str] = []
    for place in environment.skipped_places:  # without the folder of the file
        skipped_places.append(place.replace("\\", "/").rpartition("/")[2])
    checked_files: list[str] = []
    for file in (MANIFEST, STORE, SUMMARY, *row_files(with_evidence=run.has_evidence), LABELS):
        if (run.directory / file).exists():
            checked_files.append(file)
    return {
        "title": title or ", ".join(sources)[:_LETTERS_OF_TITLE] or name,
        "name": name,
        "run_name": name_run(run.directory.resolve()),
        "sources": sources,
        "skipped": run.summary.skipped_rows,
        "given": environment.samples_read + environment.skipped_rows,
        "skipped_places": skipped_places,
        "source_checksums": list(zip(sources, environment.source_sha256, strict=False)),
        "columns": columns,
        "data": run.manifest.data,
        "signature": run.summary.signature,
        "manifest_sha256": file_sha256(run.directory / MANIFEST),
        "origins": [describe_origin(origin, messages) for origin in run.origins],
        "is_stopped": run.sampling.optional_stopping,
        "files": ", ".join(checked_files),
        **_describe_judge(run, messages),
    }


def _describe_judge(run: RunRecord, messages: Messages) -> dict[str, Any]:
    """Return the judge with its tests and thresholds, and versions of packages and system.

    `checksums` are those of the judge's model, without a name, or of each judge of a jury.
    `examined` is what doctor recommends the judge for, None if a caution replaces it.
    """
    manifest = run.manifest
    checksums = [("", run.summary.judge.sha256)]
    if manifest.judge.jury:
        jury = manifest.judge.jury.items()
        checksums = [(name, member.engine.model_sha256) for name, member in jury]
    examined: str | None = None
    examination = find_examination(manifest.judge)
    if examination is not None:
        examined = describe_examination(examination, messages)
    elif run.judge.examined is not None:
        examined = messages.plain("examined.not_yet")
    host = manifest.environment.host
    versions = list(manifest.judge.versions.items())
    if "python" in host:
        versions.append(("Python", str(host["python"])))
    if "system" in host:
        versions.append((str(host["system"]), str(host.get("machine", ""))))
    return {
        "judge": run.summary.judge,
        "checksums": checksums,
        "caution": translate_caution(run.summary.judge, messages),
        "examined": examined,
        "thresholds": list(_thresholds(run, messages)),
        "versions": versions,
    }


def _thresholds(run: RunRecord, messages: Messages) -> Iterator[str]:
    """Yield the threshold of a verdict, and calibrations with another one for some metrics."""
    threshold = run.summary.threshold
    line = messages.plain("certificate.threshold_value", threshold=threshold)
    if threshold != ONE_HALF:
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


def _slice_rows(run: RunRecord, by: str, messages: Messages) -> Iterator[dict[str, Any]]:
    """Yield the quoted mean of each metric in each slice by a column."""
    for part in slices(run, by).slices:
        for metric in quote_slice(part).values():
            corrected = metric.corrected
            basis = messages.plain("certificate.judge_only")
            if corrected and metric.basis == "labels":
                labels = count_labels(corrected, messages)
                basis = messages.plain("certificate.corrected", labels=labels)
            elif corrected and metric.basis == "too few labels":
                labelled = corrected.counts.labelled if corrected.counts else 0
                basis = messages.plain("labels.count", n=labelled)
            mean, interval = translate_estimate(metric.quoted.mean, metric.quoted.ci95, messages)
            yield {
                "value": name_slice(part.value),
                "metric": metric.name,
                "samples": part.samples,
                "mean": mean,
                "interval": interval,
                "basis": basis,
            }


def list_commands(run: RunRecord, name: str, how: CertificateOptions) -> Iterator[str]:
    """Yield the commands for a third party to verify a directory, and to write the page again.

    `name` is the one of the directory, with the run or with two.
    """
    title = how.get("title")
    language = how.get("language", "en")
    by = how.get("by")
    judge = run.manifest.environment.judge or ""
    with as_typed():
        if os.sep in judge and "://" not in judge:
            yield call("verify", name, judge=Path(judge).name)
        else:
            yield call("verify", name)
        parts = [call("report", name, certificate="again.html")]
        if title:
            parts.append(option("title", title))
        if language != "en":
            parts.append(option("language", language))
        for gate in how.get("gates", ()):
            parts.append(option("gate", gate))
        if by:
            parts.append(option("by", by))
        yield " ".join(parts)
