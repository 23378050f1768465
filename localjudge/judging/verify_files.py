"""Check a finished run as far as possible without its judge.

    manifest.json ──sha256──> result files               samples ──sha256──> the data in the manifest
    samples, stored answers ──rule, count again──> the same files?

`verify` also builds the questions again and asks the judge.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

from localjudge.dataset.samples import fingerprint
from localjudge.errors import LocaljudgeError, RunDirectoryError
from localjudge.judging.jury_loop import StoredAnswers, stored_verdict
from localjudge.judging.loop import NO_CONTEXT, TaskRef, blocks, evaluate_samples, verdict_of
from localjudge.judging.settings import settings_of
from localjudge.judging.verify import changed_rows, changed_values
from localjudge.judging.verify_labels import check_labels
from localjudge.metrics.criterion import rubrics
from localjudge.run_directory.archive import answers_of_units
from localjudge.run_directory.differences import differences
from localjudge.run_directory.directory import STORE, excerpt
from localjudge.run_directory.files import SUMMARY, Totals
from localjudge.run_directory.label_rows import LABELS
from localjudge.run_directory.manifest import DataIdentity
from localjudge.run_directory.result_rows import Evaluation, JudgedUnit
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.store import AskedUnit
from localjudge.types import NoAnswer, Verdict, VerdictRule

_UNANSWERED = NoAnswer(error="no answer is stored")
_NOT_THERE = NoAnswer(error="its row is missing")


def alterations(run: RunRecord) -> tuple[str, ...]:
    """Return what differs in the files of a run, or nothing.

    Raises InputError for a metric that is not installed, RunDirectoryError for settings that this
    version cannot read.
    """
    problems = list[str]()
    settings_of(run.manifest)
    for check in (_unlike_manifest, _recomputed, _labels):
        try:
            problems += check(run)
        except LocaljudgeError as error:
            if not problems and not isinstance(error, RunDirectoryError):
                raise
            problems.append(error.message)
    shown = (problem.replace(f"{run.directory}{os.sep}", "") for problem in problems)
    return tuple(dict.fromkeys(problem.replace(str(run.directory), "RUN") for problem in shown))


def _unlike_manifest(run: RunRecord) -> Iterator[str]:
    RunRecord.open(run.directory)
    data = DataIdentity.of(
        fingerprint(run.iter_samples()),
        run.summary.samples,
        run.cluster_of,
        run.sampling.max_cluster_size,
    )
    if differences(run.manifest.data, data):
        yield f"the stored data was changed: {STORE}"


def _recomputed(run: RunRecord) -> Iterator[str]:
    manifest, settings = run.manifest, settings_of(run.manifest)
    metrics = [manifest.metric(name) for name in run.summary.metrics]
    rule = run.rule(settings.min_valid_mass)
    judges = list(manifest.judge.jury)
    totals = Totals(
        list(run),
        rule,
        run.cluster_of,
        rubrics(metrics),
        run.sampling,
        run.manifest.environment.settings.max_failed,
    )
    rows = run.iter_evaluations()

    def evaluated() -> Iterator[list[Evaluation]]:
        for block in blocks(run.iter_samples()):
            answers = answers_of_units(run.directory / STORE, [sample.id for sample in block])
            units = {
                row[:2]: row.units for of_sample in islice(rows, len(block)) for row in of_sample
            }
            yield evaluate_samples(
                block,
                metrics,
                settings.sentences,
                partial(_verdicts, answers, units, rule, judges),
            )

    files = changed_rows(run.directory, evaluated(), totals)
    card = manifest.card.model_copy(update={"name": run.summary.judge.name})
    summary = totals.summary(manifest.signature, card, manifest.environment.skipped_rows)
    summary = summary.model_copy(update={"stopped": manifest.environment.stopped})
    files[SUMMARY] = changed_values(run.directory / SUMMARY, summary)
    yield from (
        f"{name} does not follow from the stored answers ({', '.join(at)})"
        for name, at in files.items()
        if at
    )


def _verdicts(
    answers: StoredAnswers,
    units: Mapping[tuple[str, str], Sequence[JudgedUnit]],
    rule: VerdictRule,
    judges: Sequence[str],
    tasks: Sequence[TaskRef],
) -> list[Verdict | NoAnswer]:
    """Return the verdicts by the stored answers. Windows, and reasons for not asking, are only in the rows."""
    verdicts = list[Verdict | NoAnswer]()
    for task in tasks:
        unit = units.get((task.sample_id, task.metric), ())[task.position : task.position + 1]
        row = unit[0].verdict if unit else _NOT_THERE
        asked = [
            AskedUnit(task.sample_id, task.metric, task.position, place)
            for place in range(max(1, len(judges)))
        ]
        if judges and all(each in answers for each in asked):
            row = stored_verdict(task, judges, answers, {}, rule)
        elif not judges and asked[0] in answers:
            stored = [window.answer or _UNANSWERED for window in answers[asked[0]]]
            row = verdict_of(
                [(answer, getattr(row, "window", None)) for answer in stored],
                rule.of(task.metric),
            )
        elif row != NO_CONTEXT and isinstance(row, Verdict):
            row = _NOT_THERE
        verdicts.append(row)
    return verdicts


def _labels(run: RunRecord) -> Iterator[str]:
    return (f"{LABELS} was changed ({excerpt(problem)})" for problem in check_labels(run).problems)
