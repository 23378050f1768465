"""The bench: one judge, or several that make one verdict. What a run needs of either."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from localjudge import model_registry
from localjudge.engine.protocol import Engine, EngineStats
from localjudge.errors import InputError
from localjudge.judging.judges import (
    JudgeName,
    LoadedJudge,
    announce_calibrations,
    default_judge,
    identity_of,
    other_judges,
    use_judge,
)
from localjudge.judging.jury import ENGINE, LoadedJury, use_jury
from localjudge.judging.jury_loop import JuryBlocks, jury_evaluations_in_memory
from localjudge.judging.loop import Blocks
from localjudge.judging.settings import RunSettings
from localjudge.metrics import Metric
from localjudge.metrics.catalog import list_tasks
from localjudge.progress import Progress, Silence
from localjudge.run_directory.manifest import JudgeIdentity
from localjudge.run_directory.result_rows import Evaluation
from localjudge.run_directory.reuse import EarlierAnswers
from localjudge.run_directory.store import Store
from localjudge.types import Sample, VerdictRequest
from localjudge.words import option, option_name

Bench = LoadedJudge | LoadedJury
JudgeNames = JudgeName | Sequence[JudgeName]
"""A judge, or several that make one verdict together."""
Judging = Blocks | JuryBlocks


@contextmanager
def use_bench(
    judge: JudgeNames | Bench | None,
    engine: Engine | None,
    settings: RunSettings,
    progress: Progress | None = None,
    *,
    keep_open: bool = False,
) -> Iterator[Bench]:
    """Open a judge or a jury, by default the bundled one, and close it at the end. An open one stays open.

    Raises the errors of `use_judge`, and InputError for the same judge twice or for weights of one
    judge.
    """
    if isinstance(judge, LoadedJury):
        yield judge
        return
    if engine is not None or isinstance(judge, LoadedJudge):
        with use_judge(
            judge if isinstance(judge, LoadedJudge) else None, engine, settings, progress
        ) as opened:
            yield opened
        return
    names = judges_named(judge)
    name = None
    jury = model_registry.registered_juries().get(str(names[0])) if len(names) == 1 else None
    if jury is not None:
        name, names = jury.name, list(jury.judges)
    if len(names) == 1:
        if settings.weights:
            hint = f"name several judges, or omit {option_name('weights')}"
            raise InputError(f"{option_name('weights')} is for several judges", hint=hint)
        with use_judge(None if judge is None else names[0], None, settings, progress) as opened:
            yield opened
        return
    sources = [str(source) for source in names]
    with use_jury(sources, settings, progress, name=name, keep_open=keep_open) as opened_jury:
        if judge is None:
            opened_jury.advice = other_judges()
        yield opened_jury


def judges_named(judge: JudgeNames | None) -> list[str | Path]:
    """Return the names of the judges. Raises InputError for other values."""
    if judge is None:
        return [default_judge()]
    names = (
        [judge] if isinstance(judge, str | Path) or not isinstance(judge, Sequence) else list(judge)
    )
    if not names or not all(isinstance(name, str | Path) for name in names):
        hint = (
            f"use {option('judge', 'model.gguf')}; only localjudge.evaluate accepts an open judge"
        )
        raise InputError(
            f"a judge must be a name or a path, or several of them, got {judge!r:.80}",
            hint=hint,
        )
    return names


def announce_bench(
    bench: Bench, metrics: Sequence[Metric], settings: RunSettings, progress: Progress
) -> JudgeIdentity:
    """Report the judges and calibrations, and return their part of the signature. Measures missing scales of a jury.

    Raises InputError for a metric that a judge cannot answer, and for a calibration of another
    judge or question.
    """
    for line in bench.announcement.splitlines():
        progress.note(line)
    _require_answerable(bench, metrics)
    if isinstance(bench, LoadedJury):
        _note_absent_judges(bench, metrics, progress)
    part = identity_of_bench(bench, metrics, settings, progress)
    announce_calibrations(part, metrics, settings, progress)
    return part


def _require_answerable(bench: Bench, metrics: Sequence[Metric]) -> None:
    """Raise InputError for metrics whose questions no judge can answer."""
    judges = bench.members if isinstance(bench, LoadedJury) else [bench]
    unanswerable: list[str] = []
    for metric in metrics:
        tasks = list_tasks([metric])
        if all(judge.prompts.unsupported(tasks) for judge in judges):
            unanswerable.append(metric.name)
    if not unanswerable:
        return
    names = ", ".join(unanswerable)
    reasons = " and ".join(dict.fromkeys(judge.prompts.why_not_asked for judge in judges))
    who = " and ".join(judge.card.name for judge in judges)
    message = f"the judge {who} cannot answer the questions of {names}: {reasons}"
    raise InputError(message, hint=f"name another model with {option('judge')}, or omit {names}")


def _note_absent_judges(jury: LoadedJury, metrics: Sequence[Metric], progress: Progress) -> None:
    """Say which metrics are judged by some of the judges only."""
    by_judges: dict[str, list[str]] = {}
    for metric in metrics:
        able = [member.name for member in jury.members_for(metric)]
        if len(able) < len(jury.members) and list_tasks([metric]):
            by_judges.setdefault(" and ".join(able), []).append(metric.name)
    for who, names in by_judges.items():
        progress.note(f"judged by {who} only: {', '.join(names)}")


def identity_of_bench(
    bench: Bench,
    metrics: Sequence[Metric],
    settings: RunSettings,
    progress: Progress | None = None,
) -> JudgeIdentity:
    """Return the judges' part of the signature."""
    if isinstance(bench, LoadedJudge):
        return identity_of(bench, metrics, settings)
    rule = bench.rule_for(metrics, settings, progress or Silence())
    calibrations = {
        calibration.question: calibration.sha256 for calibration in settings.calibration
    }
    sentences = settings.sentences.identity
    jury = bench.identities(metrics)
    return JudgeIdentity.of(ENGINE, {}, sentences, metrics, rule, calibrations, jury)


def judging_by(
    bench: Bench,
    store: Store,
    metrics: Sequence[Metric],
    settings: RunSettings,
    progress: Progress,
    earlier: Sequence[EarlierAnswers] = (),
    *,
    watch: Callable[[VerdictRequest], object] = lambda _request: None,
) -> Judging:
    """Return the loop over the judges of a run."""
    if isinstance(bench, LoadedJudge):
        return Blocks(bench, store, metrics, settings, progress, earlier, watch=watch)
    rule = bench.rule_for(metrics, settings, progress)
    return JuryBlocks(bench, store, metrics, settings, progress, rule, earlier, watch)


def stats_of(bench: Bench) -> EngineStats:
    """Return the work of all judges so far."""
    return bench.engine.stats if isinstance(bench, LoadedJudge) else bench.stats


def sources_of(bench: Bench) -> dict[str, object]:
    """Return the origin of the judges for the environment of a run."""
    if isinstance(bench, LoadedJudge):
        return {"judge": bench.source}
    return {"judge": bench.source, "judges": list(bench.sources)}


def with_memory(bench: Bench, memory: EarlierAnswers) -> Bench:
    """Return the judges with a memory for answers."""
    if isinstance(bench, LoadedJudge):
        return bench._replace(memory=memory)
    bench.memory = memory
    return bench


def evaluations_in_memory(
    bench: Bench,
    metrics: Sequence[Metric],
    settings: RunSettings,
    earlier: Sequence[EarlierAnswers],
) -> Callable[[Sequence[Sample]], Iterator[list[Evaluation]]]:
    """Return a function that evaluates samples without a store, by open models."""
    if isinstance(bench, LoadedJudge):
        return Blocks(bench, None, metrics, settings, Silence(), earlier).evaluations
    return jury_evaluations_in_memory(bench, metrics, settings, earlier)
