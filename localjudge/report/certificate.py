"""Write a certificate: one printable page on what a run measured, what was checked, and how to repeat the check.

It states only what is checked while it is written (`localjudge.run.verify_files`) and the result of the last
verification. Apart from the date, the same run gives the same bytes. The page contains no texts of the data.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.analysis.check import check
from localjudge.record.directory import MANIFEST
from localjudge.record.label_rows import label_file, now
from localjudge.record.run import Run, file_sha256
from localjudge.record.verification import last_verification
from localjudge.report.overview import overview
from localjudge.report.private_page import page_parts, write_page
from localjudge.report.translation import Words
from localjudge.run.verify_files import alterations
from localjudge.types import Language
from localjudge.words import as_typed, call, numbered, option

_STYLES = ("base.css", "certificate.css")
_LETTERS_OF_TITLE = 120
_ROOM = {"MOST": 6, "FEW": 4}
"""Entries of the longer and shorter lists on the page."""


class Certificate(NamedTuple):
    """A written certificate: its file, and any reasons not to quote the results."""

    file: Path
    problems: tuple[str, ...]


def write_certificate(
    run: Run, out: str | Path, *, title: str | None = None, language: Language = "en", when: str | None = None
) -> Certificate:
    """Write the certificate of a finished run, also of an altered one, and return it. `when` is a time in UTC.

    Replaces an earlier page. Raises InputError for another file of that name, or for a metric of another package.
    """
    path, words = Path(out).expanduser(), Words(language)
    if title and len(title) > _LETTERS_OF_TITLE:
        title = f"{title[: _LETTERS_OF_TITLE - 3]}..."
    values = _values(run, title, words)
    parts = page_parts("certificate.html", styles=_STYLES, scripts=(), words=words, when=when or now(), **values)
    write_page(path, parts, kind="certificate")
    return Certificate(path, values["problems"])


def _values(run: Run, title: str | None, words: Words) -> dict[str, Any]:
    problems = alterations(run)
    verification = None if problems else last_verification(run.directory)
    is_verified = verification is not None and verification.is_of(run.directory)
    environment, sources = run.manifest.environment, [Path(source).name for source in run.manifest.environment.sources]
    values: dict[str, Any] = {
        "title": title or ", ".join(sources)[:_LETTERS_OF_TITLE] or run.directory.resolve().name,
        "samples": numbered(run.summary.samples, "sample"),
        "skipped": run.summary.skipped_rows,
        "verification": verification,
        "is_verified": is_verified,
        "labels": None,
    }
    if verification and is_verified and verification.result == "different":
        problems = (f"localjudge verify, {verification.when[:10]}, {verification.machine}",)
    elif not problems:
        labels = label_file(run.directory)
        verified = verification.labels.rows if verification and verification.labels else 0
        values |= {"decisions": len(labels.rows), "new_labels": len(labels.rows) - verified, "label_head": labels.head}
        with as_typed():
            values |= overview(run, check(run), values["title"], verification)
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
        "origins": run.origins,
        "annotators": list(values["labels"].labellers.items()) if values["labels"] else [],
        "versions": [*run.manifest.judge.versions.items(), *_machine(environment.host)],
        "commands": list(_commands(run, title, words.language)),
        **_ROOM,
    }


def _machine(host: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if "python" in host:
        yield "Python", str(host["python"])
    if "system" in host:
        yield str(host["system"]), str(host.get("machine", ""))


def _commands(run: Run, title: str | None, language: Language) -> Iterator[str]:
    """Yield the commands for a third party to verify the run and write the page again."""
    name, judge = run.directory.resolve().name, run.manifest.environment.judge or ""
    is_file = os.sep in judge and "://" not in judge
    with as_typed():
        yield call("verify", name, *(("judge", Path(judge).name) if is_file else ()))
        values = {"title": title, "report_language": None if language == "en" else language}
        more = [option(key, value) for key, value in values.items() if value]
        yield " ".join([call("report", name, "certificate", "again.html"), *more])
