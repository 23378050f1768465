"""One judge, or several that make one verdict: what a run needs of either."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from localjudge import model_registry
from localjudge.engine.cluster import joined
from localjudge.engine.protocol import Engine
from localjudge.engine.scripted import NoModel
from localjudge.errors import InputError
from localjudge.judging.judges import (
    JudgeName,
    LoadedJudge,
    announce_calibrations,
    default_judge,
    no_judge,
    other_judges,
    use_judge,
)
from localjudge.judging.jury import LoadedJury, use_jury
from localjudge.judging.jury_loop import JuryBlocks, jury_evaluations_in_memory
from localjudge.judging.loop import Blocks
from localjudge.judging.settings import RunSettings
from localjudge.metrics import Metric
from localjudge.metrics.catalog import list_tasks
from localjudge.progress import Progress
from localjudge.run_directory.evaluations import Evaluation
from localjudge.run_directory.identity import JudgeIdentity
from localjudge.run_directory.reuse import EarlierAnswers
from localjudge.run_directory.store import Store
from localjudge.types import Sample
from localjudge.words import option, option_name

JudgeOrJury = LoadedJudge | LoadedJury
JudgeNames = JudgeName | Sequence[JudgeName]
"""A judge, or several that make one verdict together."""
Judging = Blocks | JuryBlocks
"""The loop over the engines of a judge or a jury."""


@contextmanager
def use_judge_or_jury(
    judge: JudgeNames | JudgeOrJury | None,
    engine: Engine | None,
    settings: RunSettings,
    progress: Progress | None = None,
    *,
    keep_open: bool = False,
) -> Iterator[JudgeOrJury]:
    """Open a judge or a jury, by default the bundled one, and close it at the end.

    A loaded one stays open. Raises the errors of `use_judge`, and InputError for the same judge
    twice, for weights of one judge, or for a cluster with an engine of the caller.
    """
    if isinstance(judge, LoadedJury):
        yield judge
        return
    if isinstance(judge, LoadedJudge):
        with use_judge(judge, None, settings, progress) as opened:
            yield opened
        return
    if engine is not None:
        if settings.ray is not None and not isinstance(engine, NoModel):
            hint = "name a judge, or omit ray"
            raise InputError("a cluster opens judges by name, and not an open engine", hint=hint)
        with use_judge(None, engine, settings, progress) as opened:
            yield opened
        return
    with joined(settings.ray), _open_by_name(judge, settings, progress, keep_open) as by_name:
        yield by_name


@contextmanager
def _open_by_name(
    judge: JudgeNames | None, settings: RunSettings, progress: Progress | None, keep_open: bool
) -> Iterator[JudgeOrJury]:
    jury_name, names = _expand_jury(_list_names(judge))
    if len(names) > 1:
        with use_jury(names, settings, progress, name=jury_name, keep_open=keep_open) as jury:
            if judge is None:
                jury.advice = other_judges()
            yield jury
        return
    if settings.weights:
        hint = f"name several judges, or omit {option_name('weights')}"
        raise InputError(f"{option_name('weights')} is for several judges", hint=hint)
    only_name = None if judge is None else names[0]
    with use_judge(only_name, None, settings, progress) as opened:
        yield opened


def _list_names(judge: JudgeNames | None) -> list[str]:
    """Return the names of the judges. Raises InputError for other values."""
    if judge is None:
        return [default_judge()]
    names: list[object] = []
    if isinstance(judge, str | Path):
        names = [judge]
    elif isinstance(judge, Sequence):
        names = list(judge)
    if not names or not all(isinstance(name, str | Path) for name in names):
        raise no_judge(judge, "a judge must be a name or a path, or several of them")
    return [str(name) for name in names]


def _expand_jury(names: list[str]) -> tuple[str | None, list[str]]:
    """Return the name of a registered jury and its judges, or None and the same names."""
    if len(names) > 1:
        return None, names
    jury = model_registry.registered_juries().get(names[0])
    if jury is None:
        return None, names
    return jury.name, list(jury.judges)


def announce(
    judge: JudgeOrJury, metrics: Sequence[Metric], settings: RunSettings, progress: Progress
) -> JudgeIdentity:
    """Report the judges and calibrations, and return their part of the signature.

    Measures missing scales of a jury. Raises InputError for a metric that a judge cannot answer,
    and for a calibration of another judge or question.
    """
    for line in judge.announcement.splitlines():
        progress.note(line)
    _require_answerable(judge, metrics)
    if isinstance(judge, LoadedJury):
        _note_absent_judges(judge, metrics, progress)
    identity = judge.identify(metrics, settings, progress)
    announce_calibrations(identity, metrics, settings, progress)
    return identity


def _require_answerable(judge: JudgeOrJury, metrics: Sequence[Metric]) -> None:
    """Raise InputError for metrics with questions that no judge can answer."""
    unanswerable: list[str] = []
    for metric in metrics:
        tasks = list_tasks([metric])
        if all(member.prompts.unsupported(tasks) for member in judge.members):
            unanswerable.append(metric.name)
    if not unanswerable:
        return
    names = ", ".join(unanswerable)
    reasons = " and ".join(dict.fromkeys(member.prompts.why_not_asked for member in judge.members))
    judges = " and ".join(member.card.name for member in judge.members)
    message = f"the judge {judges} cannot answer the questions of {names}: {reasons}"
    raise InputError(message, hint=f"name another model with {option('judge')}, or omit {names}")


def _note_absent_judges(jury: LoadedJury, metrics: Sequence[Metric], progress: Progress) -> None:
    """Say which metrics are judged by some of the judges only."""
    metrics_by_judges: dict[str, list[str]] = {}
    for metric in metrics:
        able = [member.name for member in jury.members_for(metric)]
        if len(able) < len(jury.members) and list_tasks([metric]):
            metrics_by_judges.setdefault(" and ".join(able), []).append(metric.name)
    for judges, names in metrics_by_judges.items():
        progress.note(f"judged by {judges} only: {', '.join(names)}")


def make_loop(
    judge: JudgeOrJury,
    store: Store,
    metrics: Sequence[Metric],
    settings: RunSettings,
    progress: Progress,
    earlier: Sequence[EarlierAnswers] = (),
) -> Judging:
    """Return the loop over the engines of the judges."""
    if isinstance(judge, LoadedJudge):
        return Blocks(judge, store, metrics, settings, progress, earlier)
    rule = judge.rule_for(metrics, settings, progress)
    return JuryBlocks(judge, store, metrics, settings, progress, rule, earlier)


def evaluations_in_memory(
    judge: JudgeOrJury,
    metrics: Sequence[Metric],
    settings: RunSettings,
    earlier: Sequence[EarlierAnswers],
) -> Callable[[Sequence[Sample]], Iterator[list[Evaluation]]]:
    """Return a function that evaluates samples without a store, by open models."""
    if isinstance(judge, LoadedJudge):
        return Blocks(judge, None, metrics, settings, Progress(), earlier).evaluations
    return jury_evaluations_in_memory(judge, metrics, settings, earlier)
