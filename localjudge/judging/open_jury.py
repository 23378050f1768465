"""Open a judge or several, and report them.

name, path, engine or open jury ──> Jury ──identity──> the run's signature
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from localjudge import model_registry
from localjudge.engine.cluster import joined
from localjudge.engine.protocol import Engine
from localjudge.engine.scripted import NoModel
from localjudge.errors import InputError
from localjudge.judging.judges import (
    JudgeName,
    SingleJudge,
    announce_calibrations,
    default_judge,
    no_judge,
    open_judge,
    other_judges,
    wrap_engine,
)
from localjudge.judging.jury import Jury
from localjudge.judging.settings import RunSettings
from localjudge.metrics import Metric
from localjudge.metrics.catalog import list_tasks
from localjudge.progress import Progress
from localjudge.run_directory.identity import JudgeIdentity
from localjudge.run_directory.request_keys import canonical_sha256
from localjudge.words import option

JudgeNames = JudgeName | Sequence[JudgeName]
"""A judge, or several that make one verdict together."""
_DIGITS = 8


@contextmanager
def use_jury(
    judge: JudgeNames | Jury | None,
    engine: Engine | None,
    settings: RunSettings,
    progress: Progress | None = None,
    *,
    keep_open: bool = False,
) -> Iterator[Jury]:
    """Open one judge or several, by default the bundled ones, and close them at the end.

    An open jury gets the prompts of these settings and stays open, as does an `engine`, which
    replaces the model. Raises ModelError if a model cannot be found or used, InputError for an
    invalid judge, the same judge twice, or a cluster with an engine of the caller.
    """
    if isinstance(judge, Jury):
        yield judge.with_settings(settings)
    elif engine is not None:
        if settings.ray is not None and not isinstance(engine, NoModel):
            hint = "name a judge, or omit ray"
            raise InputError("a cluster opens judges by name, and not an open engine", hint=hint)
        yield Jury([wrap_engine(engine, settings)], settings)
    else:
        jury_name, names = _expand_jury(_list_names(judge))
        with joined(settings.ray), ExitStack() as undo:
            judges = _open_each(names, settings, progress, undo, keep_open=keep_open)
            jury = Jury(judges, settings, name=jury_name, keep_open=keep_open, progress=progress)
            if judge is None:
                jury.advice = other_judges()
            yield jury


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


def _open_each(
    names: Sequence[str],
    settings: RunSettings,
    progress: Progress | None,
    undo: ExitStack,
    *,
    keep_open: bool,
) -> list[SingleJudge]:
    """Open each judge to identify it. The last one, the largest model, stays open.

    With `keep_open`, all stay open.
    """
    judges: list[SingleJudge] = []
    for name in sorted(names, key=_file_size):
        if judges and not keep_open:
            judges[-1].close()
        judge = open_judge(name, settings, progress)
        undo.callback(judge.close)
        judges.append(judge)
    identities: list[str] = []
    for judge in judges:
        identity = canonical_sha256({"engine": dict(judge.identity), **judge.prompts.identity})
        if identity in identities:
            hint = "name each judge once: two equal judges have the verdicts of one"
            raise InputError(f"the judge {judge.name} is named twice", hint=hint)
        identities.append(identity)
    counts = Counter(judge.name for judge in judges)
    for judge, identity in zip(judges, identities, strict=True):
        if counts[judge.name] > 1:
            checksum = str(judge.identity.get("model_sha256") or identity)
            judge.name = f"{judge.name}-{checksum[:_DIGITS]}"
    return judges


def _file_size(source: str) -> int:
    file = model_registry.locate(source)
    if file is None or not file.is_file():
        return 0
    return file.stat().st_size


def announce(
    jury: Jury, metrics: Sequence[Metric], settings: RunSettings, progress: Progress
) -> JudgeIdentity:
    """Report the judges and calibrations, and return their part of the signature.

    Measures missing scales of a jury. Raises InputError for a metric that a judge cannot answer,
    and for a calibration of another judge or question.
    """
    for line in jury.announcement.splitlines():
        progress.note(line)
    unanswerable: list[str] = []
    for metric in metrics:
        tasks = list_tasks([metric])
        if all(judge.prompts.unsupported(tasks) for judge in jury.judges):
            unanswerable.append(metric.name)
    if unanswerable:
        listed = ", ".join(unanswerable)
        reasons = " and ".join(dict.fromkeys(judge.prompts.why_not_asked for judge in jury.judges))
        judges = " and ".join(judge.card.name for judge in jury.judges)
        message = f"the judge {judges} cannot answer the questions of {listed}: {reasons}"
        raise InputError(
            message, hint=f"name another model with {option('judge')}, or omit {listed}"
        )
    metrics_by_judges: dict[str, list[str]] = {}
    for metric in metrics:
        able = [judge.name for judge in jury.judges_for(metric)]
        if len(able) < len(jury.judges) and list_tasks([metric]):
            metrics_by_judges.setdefault(" and ".join(able), []).append(metric.name)
    for judges, names in metrics_by_judges.items():
        progress.note(f"judged by {judges} only: {', '.join(names)}")
    identity = jury.identify(metrics, settings, progress)
    announce_calibrations(identity, metrics, settings, progress)
    return identity
