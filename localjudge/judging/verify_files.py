"""Check a finished run as far as possible without its judge.

    manifest.json ──sha256──> result files        samples ──sha256──> the data in the manifest
    samples, stored answers ──rule, count again──> the same files?
    data file ──read as for the run──> samples ──sha256 of each──> the stored ones?
      └──sha256──> the one in the manifest?

`verify` also builds the questions again and asks the judge. The data file may be of a run of two
columns, whose rows and ids depend on both.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain, islice
from typing import BinaryIO, Literal, NamedTuple

from localjudge.dataset import Dataset, load, load_pair
from localjudge.dataset.samples import (
    SampleRow,
    columns_fingerprint,
    content_hash,
    fingerprint,
)
from localjudge.errors import ChangedFile, LocaljudgeError, RunDirectoryError
from localjudge.judging.evaluate import StoredAnswers, evaluate
from localjudge.judging.evidence import find_evidence
from localjudge.judging.plan import DataToRead
from localjudge.judging.questions import NO_CONTEXT, TaskRef
from localjudge.judging.settings import RunSettings
from localjudge.judging.stored_data import read_run_settings
from localjudge.judging.verify_labels import check_labels
from localjudge.metrics import Metric
from localjudge.progress import Progress
from localjudge.run_directory import directory as run_directory
from localjudge.run_directory.comparison_directory import ComparisonDirectory
from localjudge.run_directory.differences import Difference, differences
from localjudge.run_directory.directory import STORE, excerpt, open_regular
from localjudge.run_directory.files import object_text, row_lines
from localjudge.run_directory.identity import DataIdentity
from localjudge.run_directory.label_rows import LABELS
from localjudge.run_directory.result_rows import Evaluation, VerdictRow, row_files
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.store_reader import stored_rows
from localjudge.run_directory.summary import SUMMARY, Summary, Totals
from localjudge.types import NoAnswer, Record, Sample, Verdict

MAX_CHANGES = 20
"""Differences of a file that are listed."""
_SHOWN_IDS = 5
_UNREADABLE = "it cannot be read"
Reason = Literal[
    "checksum",
    "stored_data",
    "results",
    "labels",
    "labelled_run",
    "report_differs",
    "report_inputs",
    "file",
    "not_reproduced",
    "error",
]
_NOT_THERE = NoAnswer(error="its row is missing")


class Alteration(NamedTuple):
    """What was changed in a run, as a reason for which the report has a sentence.

    `details` are rows, names of values, or the message of an error. `side` is A or B on a page
    about two runs.
    """

    reason: Reason
    file: str = ""
    details: str = ""
    side: str = ""


def alterations(run: RunRecord, metrics: Sequence[Metric] = ()) -> tuple[Alteration, ...]:
    """Return the differences in the files of a run, of which some `metrics` are not installed.

    Raises InputError for a metric that is not installed, RunDirectoryError for settings that this
    version cannot read.
    """
    altered: list[Alteration] = []
    read_run_settings(run.manifest)
    for check in (_check_data, partial(_recompute, metrics=metrics), _check_labels):
        try:
            altered += check(run)
        except ChangedFile as error:
            altered.append(Alteration("checksum", error.file))
        except RunDirectoryError as error:
            altered.append(Alteration("error", details=error.message))
        except LocaljudgeError as error:
            if not altered:
                raise
            altered.append(Alteration("error", details=error.message))
    without_paths: list[Alteration] = []
    for each in altered:
        details = each.details.replace(f"{run.directory}{os.sep}", "")
        details = details.replace(str(run.directory), "RUN")
        without_paths.append(each._replace(details=details))
    return tuple(dict.fromkeys(without_paths))


def _check_data(run: RunRecord) -> Iterator[Alteration]:
    """Compare the checksums in the manifest, and the stored samples."""
    RunRecord.open(run.directory)
    if data_differences(run, run.summary.samples):
        yield Alteration("stored_data", STORE)


def data_differences(run: RunRecord, samples: int) -> list[Difference]:
    """Compare the stored samples and their columns with the manifest."""
    data = DataIdentity.of(
        fingerprint(run.iter_samples()),
        samples,
        run.cluster_of,
        run.sampling.max_cluster_size,
    )
    before = run.manifest.data.as_json
    before["columns_sha256"] = run.manifest.environment.columns_sha256
    after = data.as_json
    after["columns_sha256"] = columns_fingerprint(stored_rows(run.directory / STORE))
    return differences(before, after)


def _recompute(run: RunRecord, metrics: Sequence[Metric]) -> Iterator[Alteration]:
    """Compute the result files from the stored answers, and compare them."""
    manifest = run.manifest
    computed = run.find_metrics(metrics)
    settings = read_run_settings(manifest)
    totals = run.totals(run)
    answers = _StoredVerdicts(run)
    evaluated = evaluate(run.iter_samples(), computed, answers, settings.sentences)
    files = changed_rows(run, evaluated, totals, settings)
    card = manifest.card.model_copy(update={"name": run.summary.judge.name})
    environment = manifest.environment
    summary = totals.summary(
        manifest.signature, card, environment.skipped_rows, environment.stopped
    )
    files[SUMMARY] = changed_values(run, summary)
    for name, changes in files.items():
        if changes:
            yield Alteration("results", name, ", ".join(changes))


class _StoredVerdicts(StoredAnswers):
    """The stored answers, and the stored verdicts without a question."""

    def __init__(self, run: RunRecord) -> None:
        super().__init__(run)
        self._evaluations = run.iter_evaluations()
        self._rows: dict[tuple[str, str], Sequence[VerdictRow]] = {}

    def begin(self, block: Sequence[Sample]) -> None:
        """Read the answers and the verdicts about these samples."""
        super().begin(block)
        self._rows = {}
        for evaluation in chain.from_iterable(islice(self._evaluations, len(block))):
            self._rows[evaluation.sample_id, evaluation.metric] = evaluation.verdicts

    def verdicts(self, tasks: Sequence[TaskRef]) -> list[Verdict | NoAnswer]:
        """Return the verdicts by the stored answers.

        Reasons for not asking are only in the rows.
        """
        verdicts = super().verdicts(tasks)
        for index, task in enumerate(tasks):
            judges = self.choose_judges(task.metric)
            if all(task.asked(judge) in self.stored for judge in judges):
                continue
            verdicts[index] = _NOT_THERE
            rows = self._rows.get((task.sample_id, task.metric), ())
            if task.position < len(rows):
                row = rows[task.position]
                if row.label is None:
                    verdicts[index] = NoAnswer(error=row.error or "", valid_mass=row.valid_mass)
                elif row.label == NO_CONTEXT.label and row.p_yes is None:
                    verdicts[index] = NO_CONTEXT
        return verdicts


def _check_labels(run: RunRecord) -> Iterator[Alteration]:
    check = check_labels(run)
    reason: Reason = "labels" if check.is_file_altered else "labelled_run"
    for problem in check.problems:
        yield Alteration(reason, LABELS, excerpt(problem))


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
                    if not is_same and len(changes[name]) < MAX_CHANGES:
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


class DataFileCheck(Record):
    """Whether data files give the samples of a run. It is true if they do.

    `missing` stored samples are not in the files, of which `examples` names the first by id. The
    files have `rows` usable rows, and the run read `rows_read`. `has_same_bytes` is None without
    checksums of files in the manifest.
    """

    files: tuple[str, ...]
    sha256: tuple[str, ...]
    has_same_bytes: bool | None
    samples: int
    missing: int
    examples: tuple[str, ...]
    rows: int
    rows_read: int

    def __bool__(self) -> bool:
        return not self.missing and self.rows == self.rows_read


def compare_data(run: RunRecord, to_read: DataToRead, progress: Progress) -> DataFileCheck:
    """Read the data as for the run, and look for each stored sample with its columns.

    Raises DataError for unusable data, InputError for missing columns.
    """
    dataset = _read_again(run, to_read, progress)
    hashes = set(map(_hash_row, dataset.table.rows()))
    missing: list[str] = []
    for row in stored_rows(run.directory / STORE):
        if _hash_row(row) not in hashes:
            missing.append(row.id)
    environment = run.manifest.environment
    has_same_bytes = None
    if environment.source_sha256 and dataset.source_sha256:
        has_same_bytes = environment.source_sha256 == dataset.source_sha256
    return DataFileCheck(
        files=dataset.sources,
        sha256=dataset.source_sha256,
        has_same_bytes=has_same_bytes,
        samples=run.summary.samples,
        missing=len(missing),
        examples=tuple(missing[:_SHOWN_IDS]),
        rows=len(dataset.samples),
        rows_read=environment.samples_read,
    )


def _read_again(run: RunRecord, to_read: DataToRead, progress: Progress) -> Dataset:
    directory = run.directory.resolve()
    comparison = ComparisonDirectory.find(directory.parent)
    if comparison is None or directory.name not in (comparison.baseline, comparison.run):
        return load(to_read.rows, **to_read.options, progress=progress)
    baseline = RunRecord.open(comparison.baseline_path, check=False)
    column = baseline.manifest.environment.mapping["response"]
    pair = load_pair(to_read.rows, column, **to_read.options, progress=progress)
    if directory.name == comparison.baseline:
        return pair.baseline
    return pair.run


def _hash_row(row: SampleRow) -> bytes:
    """Return the sha256 of the id, the fields and the other columns."""
    fields = content_hash(Sample.model_validate_json(row.content))
    return hashlib.sha256(f"{fields} {row.id} {row.extras}".encode()).digest()
