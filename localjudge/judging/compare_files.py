"""Compare the result files of a run with what its samples and answers lead to."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import BinaryIO

from localjudge.errors import RunDirectoryError
from localjudge.judging.evidence import find_evidence
from localjudge.judging.settings import RunSettings
from localjudge.run_directory import directory as run_directory
from localjudge.run_directory.differences import differences
from localjudge.run_directory.directory import excerpt, open_regular
from localjudge.run_directory.evaluations import Evaluation
from localjudge.run_directory.files import object_text, row_lines
from localjudge.run_directory.result_rows import row_files
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.summary import SUMMARY, Summary
from localjudge.run_directory.totals import Totals

MAX_PLACES = 20
"""Differences of a file that are listed."""
_UNREADABLE = "it cannot be read"


def changed_rows(
    run: RunRecord,
    evaluated: Iterable[Sequence[Evaluation]],
    totals: Totals,
    settings: RunSettings,
) -> dict[str, list[str]]:
    """Return the first rows of each file that differ from the evaluations, and add these up."""
    names = row_files(with_evidence=run.has_evidence)
    changes: dict[str, list[str]] = {name: [] for name in names}
    counts = dict.fromkeys(names, 0)
    samples = run.iter_samples()
    with ExitStack() as stack:
        files: dict[str, BinaryIO] = {}
        for name in names:
            try:
                files[name] = stack.enter_context(open_regular(run.directory / name))
            except RunDirectoryError:
                changes[name].append(_UNREADABLE)
        for evaluations in evaluated:
            totals.add(evaluations)
            evidence = None
            if run.has_evidence:
                evidence = find_evidence(
                    evaluations, samples, settings, run.manifest.judge.letters_read
                )
            lines_by_file = row_lines(evaluations, evidence, with_expected=run.has_expected)
            for name, file in files.items():
                for line in lines_by_file[name]:
                    counts[name] += 1
                    is_same = file.readline(run_directory.MAX_VALUE_BYTES) == line.encode()
                    if not is_same and len(changes[name]) < MAX_PLACES:
                        changes[name].append(f"row {counts[name]}")
        for name, file in files.items():
            if file.read(1):
                changes[name].append(f"row {counts[name] + 1}")
    return changes


def changed_values(run: RunRecord, summary: Summary) -> list[str]:
    """Return the names of values that differ in `summary.json`, such as `judge.caution`.

    Returns "formatting" if only bytes differ.
    """
    path = run.directory / SUMMARY
    values = summary.model_dump(mode="json")
    if not run.has_expected:
        for metric in values["metrics"].values():
            del metric["expected"], metric["expected_ci95"]
    try:
        with open_regular(path) as file:
            content = file.read(run_directory.MAX_OBJECT_BYTES)
        if content == object_text(values).encode():
            return []
        changes = differences(run_directory.read_object(path), values)
    except RunDirectoryError:
        return [_UNREADABLE]
    if not changes:
        return ["formatting"]
    return [excerpt(change.ingredient) for change in changes]
