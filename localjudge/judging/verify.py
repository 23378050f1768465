"""Verify a run: judge its stored samples again and recompute its files in one pass.

    samples ──cut, word──> questions ──stored answers──> verdicts ──count──> the same files?
       │                       └──────────judge────────> verdicts            the same verdicts?
       └──sha256──> the data named in the manifest?

    data file ──read as for the run──> samples ──sha256 of each──> the stored ones?
      └──sha256──> the one in the manifest?

Questions are built from the samples; stored prompts are never sent to the judge, because the run
may be foreign. The data file may be of a run of two columns, whose rows and ids depend on both.
"""

import hashlib
import random
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from localjudge.dataset import Dataset, load, load_pair
from localjudge.dataset.samples import SampleRow, content_hash
from localjudge.engine.protocol import Engine
from localjudge.engine.scripted import NoModel
from localjudge.errors import InputError, OutOfResource
from localjudge.judging.evaluate import evaluate
from localjudge.judging.jury import JudgeNames, Jury, use_jury
from localjudge.judging.plan import Data, DataToRead, data_to_read
from localjudge.judging.settings import VerifySettings
from localjudge.judging.stored_data import find_judges, read_run_settings
from localjudge.judging.verify_answers import RepeatedAnswers, RowChange
from localjudge.judging.verify_files import (
    MAX_CHANGES,
    LabelsCheck,
    changed_rows,
    changed_values,
    check_labels,
    data_differences,
)
from localjudge.metrics import Metric
from localjudge.progress import Progress, count_with_progress
from localjudge.run_directory.comparison_directory import ComparisonDirectory
from localjudge.run_directory.differences import Difference, differences
from localjudge.run_directory.directory import STORE
from localjudge.run_directory.files import VERIFICATION, Result, write_verification
from localjudge.run_directory.identity import signature
from localjudge.run_directory.label_rows import LABELS
from localjudge.run_directory.run_record import RunRecord, as_run
from localjudge.run_directory.store_reader import stored_keys, stored_rows
from localjudge.run_directory.summary import SUMMARY
from localjudge.types import JudgeCard, Record, Sample
from localjudge.words import option_name

REPORT = "report.html"
_MACHINE = ("engine.system", "engine.gpu_layers", "engine.repack")
_VERSIONS = "versions."
_SHOWN_IDS = 5


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


class ReportCheck(Record):
    """Check of the report in the run's directory."""

    note: str = ""
    problem: str | None = None
    is_unchanged: bool = False


class Verification(Record):
    """Result of a verification.

    `judge_changes` and `data_changes` list differences from the manifest. `rows` are the changed
    answers, changed verdicts first, then by distance. `altered_requests` counts stored requests
    that differ from the recomputed ones. `files` lists altered files with the first differences.
    `data_file` says whether other data, which were named, give the samples of the run; it is no
    part of `result`. `not_stored` says why the result could not be stored in the run directory.
    """

    schema_version: int = 1
    run: str
    signature: str
    judge: JudgeCard
    result: Result = "bit-identical"
    stored_requests: int = 0
    asked_again: int = 0
    identical: int = 0
    verdicts: int = 0
    verdicts_moved: int = 0
    largest_move: float = 0.0
    rows: tuple[RowChange, ...] = ()
    altered_requests: int = 0
    files: dict[str, tuple[str, ...]]
    labels: LabelsCheck = LabelsCheck()
    report: ReportCheck = ReportCheck()
    data_file: DataFileCheck | None = None
    not_stored: str | None = None
    judge_changes: tuple[Difference, ...]
    data_changes: tuple[Difference, ...]

    def __bool__(self) -> bool:
        is_same = self.data_file is None or bool(self.data_file)
        return self.result != "different" and is_same

    @property
    def other_judge(self) -> bool:
        """Whether the judge, its prompts or the rules differ, so that other results are right."""
        for change in self.judge_changes:
            of_machine = change.ingredient.endswith(_MACHINE)
            if not of_machine and not change.ingredient.startswith(_VERSIONS):
                return True
        return False

    @property
    def other_machine(self) -> bool:
        """Whether this machine differs in kind, so that equal bytes are not promised."""
        return any(change.ingredient.endswith(_MACHINE) for change in self.judge_changes)


class PairVerification(NamedTuple):
    """The results for both runs and the labels of their difference. It is true if all hold."""

    baseline: Verification
    run: Verification
    labels: LabelsCheck

    def __bool__(self) -> bool:
        return bool(self.baseline) and bool(self.run) and not self.labels.problems


class JudgeAgain(VerifySettings, total=False):
    """Whom to ask again, and how; by default the judge of the run. `engine` replaces its model."""

    judge: JudgeNames | None
    engine: Engine | None


class AskAgain(JudgeAgain, total=False):
    """The same with the progress."""

    progress: Progress | None


def verify_run(
    run: RunRecord | str | Path,
    *,
    sample: int | None = None,
    seed: int = 0,
    metrics: Sequence[Metric] = (),
    data: Data | None = None,
    check_report: Callable[[RunRecord], ReportCheck] = lambda _: ReportCheck(),
    **how: Unpack[AskAgain],
) -> Verification:
    """Ask the judge again, all questions of the run or `sample` drawn by `seed`, and check files.

    `check_report` checks the report of an otherwise unchanged run. `data` are compared with the
    stored samples, which does not change the result of the run. Stores the result in the run
    directory if it is writable.
    """
    run = as_run(run, check=False)  # files that contradict each other are what it looks for
    progress = how.pop("progress", None) or Progress()
    judge = how.pop("judge", None)
    engine = how.pop("engine", None)
    with closing(progress):
        keys = stored_keys(run.directory / STORE)
        drawn = _draw_keys(keys, sample, seed)
        computed = run.find_metrics(metrics)
        how.setdefault("threads", None)  # those of this machine, not of the run's
        settings = read_run_settings(run.manifest, **how)
        settings = settings.model_copy(update={"threshold": run.summary.threshold})
        data_file = None
        if data is not None:
            data_file = _compare_data(run, data_to_read(data, computed, settings), progress)
        if engine is None and run.manifest.judge.has_no_model:
            engine = NoModel()
        if not judge and engine is None:
            judge = find_judges(run)
        labels = check_labels(run)
        with use_jury(judge, engine, settings, progress) as jury:
            jury.introduce(progress)
            repeated = RepeatedAnswers(run, computed, settings, drawn, progress)
            repeated.let_answer(jury)
            verification = _compare(repeated, jury, labels)
        results = {"stored_requests": len(keys), "data_file": data_file}
        return _finish(run, verification.model_copy(update=results), check_report, progress)


def _draw_keys(keys: Sequence[str], sample: int | None, seed: int) -> list[str]:
    """Return the questions to ask again. Raises InputError."""
    if sample is not None and sample < 1:
        hint = "omit it to repeat all answers"
        raise InputError(f"{option_name('sample')} must be at least 1, got {sample}", hint=hint)
    drawn = sorted(keys)
    if sample is not None and sample < len(drawn):
        drawn = random.Random(seed).sample(drawn, sample)
    return drawn


def _compare(repeated: RepeatedAnswers, jury: Jury, labels: LabelsCheck) -> Verification:
    """Compare questions, answers, data and result files with what the judges repeated."""
    run = repeated.run
    metrics = repeated.metrics
    totals = run.totals(metric.name for metric in metrics)
    samples = count_with_progress(
        run.iter_samples(), repeated.progress, "recomputing", run.summary.samples
    )
    evaluated = evaluate(samples, metrics, repeated, repeated.settings.sentences)
    files = changed_rows(run, evaluated, totals, repeated.settings)
    parts = signature(run.manifest.judge, run.manifest.data)
    files[SUMMARY] = changed_values(run, totals, parts, _name_judge(run, jury))
    files[LABELS] = list(labels.problems)
    data_changes = tuple(data_differences(run, totals.samples))
    identity = jury.identify(metrics, repeated.settings, Progress())
    rows = sorted(repeated.rows, key=lambda row: (not row.moved, -row.distance))
    moved = sum(row.moved for row in rows)
    altered = repeated.count_altered_requests()
    result: Result = "bit-identical"
    if moved or altered or any(files.values()) or data_changes:
        result = "different"
    elif repeated.changed:
        result = "same verdicts"
    return Verification(
        run=str(run.directory),
        signature=run.manifest.signature,
        judge=jury.card,
        result=result,
        asked_again=repeated.asked,
        identical=repeated.asked - len(repeated.changed),
        verdicts=repeated.repeated,
        verdicts_moved=moved,
        largest_move=max((row.distance for row in rows), default=0.0),
        rows=tuple(rows),
        altered_requests=altered,
        files={name: tuple(changes[:MAX_CHANGES]) for name, changes in files.items() if changes},
        labels=labels,
        judge_changes=tuple(differences(run.manifest.judge, identity)),
        data_changes=data_changes,
    )


def _name_judge(run: RunRecord, jury: Jury) -> str:
    """Return the name of the judge that the summary of the run should have."""
    name = run.manifest.card.name
    is_same_source = jury.source and jury.source == run.manifest.environment.judge
    if is_same_source or run.summary.judge.name != name:
        return jury.card.name
    return name


def _finish(
    run: RunRecord,
    verification: Verification,
    check_report: Callable[[RunRecord], ReportCheck],
    progress: Progress,
) -> Verification:
    """Check the report of an unchanged run, and store the result in the run directory."""
    report = ReportCheck(note="not checked, because the run differs")
    if verification.result != "different":
        report = check_report(run)
    changes: dict[str, Any] = {"report": report}
    if report.problem:
        changes["result"] = "different"
        changes["files"] = verification.files | {REPORT: (report.problem,)}
    verification = verification.model_copy(update=changes)
    verified = verification.labels.verified
    if verification.result != "different":
        verified = verification.labels.current
    try:
        write_verification(
            run.directory,
            verification.result,
            asked_again=verification.asked_again,
            stored=verification.stored_requests,
            labels=verified,
        )
    except (InputError, OutOfResource) as error:
        remedy = "make the directory writable, or verify a copy of it"
        if isinstance(error, OutOfResource) and error.hint:
            remedy = error.hint
        problem = f"{error.message}; the result is as stated; to store it, {remedy}"
        progress.note(f"{VERIFICATION} cannot be stored: {problem}")
        return verification.model_copy(update={"not_stored": problem})
    return verification


def _compare_data(run: RunRecord, to_read: DataToRead, progress: Progress) -> DataFileCheck:
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
