"""Check a finished run as far as possible without its judge.

    manifest.json ──sha256──> result files        samples ──sha256──> the data in the manifest
    samples, stored answers ──rule, count again──> the same files?

`verify` also builds the questions again and asks the judge.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice

from localjudge.dataset.samples import columns_fingerprint, fingerprint
from localjudge.errors import LocaljudgeError, RunDirectoryError
from localjudge.judging.compare_files import changed_rows, changed_values
from localjudge.judging.loop import blocks
from localjudge.judging.questions import NO_CONTEXT, TaskRef
from localjudge.judging.rounds import evaluate_samples
from localjudge.judging.stored_settings import read_run_settings
from localjudge.judging.stored_verdicts import StoredAnswers, find_judges_for, stored_verdict
from localjudge.judging.verify_labels import check_labels
from localjudge.metrics import Metric
from localjudge.run_directory.archive import answers_of_units, stored_rows
from localjudge.run_directory.differences import Difference, differences
from localjudge.run_directory.directory import STORE, excerpt
from localjudge.run_directory.evaluations import Evaluation, JudgedUnit
from localjudge.run_directory.identity import DataIdentity
from localjudge.run_directory.label_file import LABELS
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.summary import SUMMARY
from localjudge.types import NoAnswer, Verdict, VerdictRule

_NOT_THERE = NoAnswer(error="its row is missing")


def alterations(run: RunRecord) -> tuple[str, ...]:
    """Return the differences in the files of a run.

    Raises InputError for a metric that is not installed, RunDirectoryError for settings that this
    version cannot read.
    """
    problems: list[str] = []
    read_run_settings(run.manifest)
    for check in (_check_data, _recompute, _check_labels):
        try:
            problems += check(run)
        except RunDirectoryError as error:
            problems.append(error.message)
        except LocaljudgeError as error:
            if not problems:
                raise
            problems.append(error.message)
    return tuple(dict.fromkeys(_without_path(problem, run) for problem in problems))


def _without_path(problem: str, run: RunRecord) -> str:
    relative = problem.replace(f"{run.directory}{os.sep}", "")
    return relative.replace(str(run.directory), "RUN")


def _check_data(run: RunRecord) -> Iterator[str]:
    """Compare the checksums in the manifest, and the stored samples."""
    RunRecord.open(run.directory)
    if data_differences(run, run.summary.samples):
        yield f"the stored data was changed: {STORE}"


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


def _recompute(run: RunRecord) -> Iterator[str]:
    """Compute the result files from the stored answers, and compare them."""
    manifest = run.manifest
    metrics = [manifest.metric(name) for name in run.summary.metrics]
    settings = read_run_settings(manifest)
    rule = run.rule(settings.min_valid_mass)
    totals = run.totals(list(run), rule)
    files = changed_rows(run, _evaluate_again(run, metrics, rule), totals, settings)
    card = manifest.card.model_copy(update={"name": run.summary.judge.name})
    summary = totals.summary(manifest.signature, card, manifest.environment.skipped_rows)
    summary = summary.model_copy(update={"stopped": manifest.environment.stopped})
    files[SUMMARY] = changed_values(run.directory / SUMMARY, summary)
    for name, places in files.items():
        if places:
            yield f"{name} does not follow from the stored answers ({', '.join(places)})"


def _evaluate_again(
    run: RunRecord, metrics: Sequence[Metric], rule: VerdictRule
) -> Iterator[list[Evaluation]]:
    """Yield the evaluations of each block of samples by the stored answers."""
    sentences = read_run_settings(run.manifest).sentences
    judges = list(run.manifest.judge.jury)
    stored = run.iter_evaluations()
    for block in blocks(run.iter_samples()):
        answers = answers_of_units(run.directory / STORE, [sample.id for sample in block])
        units: dict[tuple[str, str], Sequence[JudgedUnit]] = {}
        for evaluation in chain.from_iterable(islice(stored, len(block))):
            units[evaluation.sample_id, evaluation.metric] = evaluation.units
        verdicts = partial(_find_verdicts, answers, units, rule, judges)
        yield evaluate_samples(block, metrics, sentences, verdicts)


def _find_verdicts(
    answers: StoredAnswers,
    units: Mapping[tuple[str, str], Sequence[JudgedUnit]],
    rule: VerdictRule,
    judges: Sequence[str],
    tasks: Sequence[TaskRef],
) -> list[Verdict | NoAnswer]:
    """Return the verdicts by the stored answers. Reasons for not asking are only in the rows."""
    verdicts: list[Verdict | NoAnswer] = []
    for task in tasks:
        row: Verdict | NoAnswer = _NOT_THERE
        rows = units.get((task.sample_id, task.metric), ())
        if task.position < len(rows):
            row = rows[task.position].verdict
        places = find_judges_for(task.metric, judges, rule)
        if all(task.asked(place) in answers for place in places):
            verdicts.append(stored_verdict(task, judges, answers, {}, rule))
        elif isinstance(row, NoAnswer) or row == NO_CONTEXT:
            verdicts.append(row)
        else:
            verdicts.append(_NOT_THERE)
    return verdicts


def _check_labels(run: RunRecord) -> Iterator[str]:
    for problem in check_labels(run).problems:
        yield f"{LABELS} was changed ({excerpt(problem)})"
