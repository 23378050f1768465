"""Check a finished run as far as possible without its judge.

    manifest.json ──sha256──> result files               samples ──sha256──> the data in the manifest
    samples, verdicts ──count again──> the same files?   stored answers ──rule──> the same verdicts?

`verify` also builds the questions again and asks the judge.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice

from localjudge.dataset.samples import fingerprint
from localjudge.errors import LocaljudgeError, RunDirectoryError
from localjudge.metrics.criterion import rubrics
from localjudge.record.archive import answers_of_units
from localjudge.record.differences import differences
from localjudge.record.directory import STORE, excerpt
from localjudge.record.files import SUMMARY, VERDICTS, Totals
from localjudge.record.label_rows import LABELS
from localjudge.record.manifest import DataIdentity
from localjudge.record.result_rows import Evaluation, JudgedUnit
from localjudge.record.run import Run
from localjudge.run.loop import NO_CONTEXT, TaskRef, blocks, evaluate_samples, verdict_of
from localjudge.run.settings import settings_of
from localjudge.run.verify import changed_rows, changed_values
from localjudge.run.verify_labels import check_labels
from localjudge.types import NoAnswer, Verdict, VerdictRule

_NOT_THERE = NoAnswer(error="its row is missing")
_SAMPLES_AT_ONCE = 256


def alterations(run: Run) -> tuple[str, ...]:
    """Return what differs in the files of a run, or nothing. Raises InputError for a metric that is not installed."""
    problems = list[str]()
    for check in (_unlike_manifest, _recomputed, _unlike_answers, _labels):
        try:
            problems += check(run)
        except LocaljudgeError as error:
            if not problems and not isinstance(error, RunDirectoryError):
                raise
            problems.append(error.message)
    return tuple(dict.fromkeys(problem.replace(f"{run.directory}{os.sep}", "") for problem in problems))


def _unlike_manifest(run: Run) -> Iterator[str]:
    Run.open(run.directory)
    data = DataIdentity.of(
        fingerprint(run.iter_samples()), run.summary.samples, run.cluster_of, run.sampling.largest_draw
    )
    if differences(run.manifest.data, data):
        yield f"the stored data was changed: {STORE}"


def _recomputed(run: Run) -> Iterator[str]:
    manifest, settings = run.manifest, settings_of(run.manifest)
    metrics = [manifest.metric(name) for name in run.summary.metrics]
    names, sampling = list(run.summary.metrics), run.sampling
    totals = Totals(names, run.summary, run.cluster_of, rubrics(metrics), sampling, run.max_failed)
    rows = run.iter_evaluations()

    def evaluated() -> Iterator[list[Evaluation]]:
        for block in blocks(run.iter_samples()):
            stored = {row[:2]: row.units for of_sample in islice(rows, len(block)) for row in of_sample}
            yield evaluate_samples(block, metrics, settings.sentences, partial(_verdicts, stored))

    files = changed_rows(run.directory, evaluated(), totals)
    card = manifest.card.model_copy(update={"name": run.summary.judge.name})
    summary = totals.summary(manifest.signature, card, manifest.environment.skipped_rows)
    files[SUMMARY] = changed_values(
        run.directory / SUMMARY, summary.model_copy(update={"stopped": manifest.environment.stopped})
    )
    yield from (f"{name} does not follow from the verdicts ({', '.join(at)})" for name, at in files.items() if at)


def _verdicts(
    stored: Mapping[tuple[str, str], Sequence[JudgedUnit]], tasks: Sequence[TaskRef]
) -> list[Verdict | NoAnswer]:
    units = [stored.get((task.sample_id, task.metric), ())[task.position : task.position + 1] for task in tasks]
    return [unit[0].verdict if unit else _NOT_THERE for unit in units]


def _unlike_answers(run: Run) -> Iterator[str]:
    """Name the first verdict that does not follow from the stored answers."""
    settings, rows = settings_of(run.manifest), run.iter_evaluations()
    rule = VerdictRule(run.summary.threshold, settings.min_legal_mass, run.summary.thresholds)
    while block := list(chain.from_iterable(islice(rows, _SAMPLES_AT_ONCE))):
        answers = answers_of_units(run.directory / STORE, {row.sample_id for row in block})
        for row in block:
            for position, (_, verdict) in enumerate(row.units):
                stored = answers.get((row.sample_id, row.metric, position))
                expected = verdict_of([(answer, None) for answer in stored], rule.of(row.metric)) if stored else None
                if expected is None and (verdict == NO_CONTEXT or isinstance(verdict, NoAnswer)):
                    continue  # it was not asked
                if expected != (
                    verdict.model_copy(update={"window": None}) if isinstance(verdict, Verdict) else verdict
                ):
                    place = f"{row.sample_id}, {row.metric}, unit {position + 1}"
                    yield f"{VERDICTS} differs from the answers in {STORE} ({excerpt(place)})"
                    return


def _labels(run: Run) -> Iterator[str]:
    labels = check_labels(run)
    return (f"{LABELS} was changed ({excerpt(problem)})" for problem in labels.problems)
