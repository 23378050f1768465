"""One judge, or several that make one verdict: opened one after the other, and reported.

    name, path, engine or open jury ──use_jury──> Jury ──announce──> the run's signature

    judges ──open, close──> identities, names, scales ──> the run's signature
       └──open judge 1 ──answers──> store ──close──> open judge 2 ──answers──> store ──> verdicts

No engine knows of a jury: verdicts are arithmetic on answers (`run_directory/verdict_rule.py`).
"""

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from localjudge import model_registry
from localjudge.engine.cluster import joined
from localjudge.engine.protocol import Engine, EngineStats
from localjudge.engine.scripted import NoModel
from localjudge.errors import InputError
from localjudge.judging.judges import (
    JudgeName,
    SingleJudge,
    announce_calibrations,
    default_judge,
    find_scales,
    open_judge,
    other_judges,
    scale_kind,
    wrap_engine,
)
from localjudge.judging.settings import RunSettings
from localjudge.metrics import Metric
from localjudge.metrics.catalog import is_judged, list_tasks
from localjudge.progress import Progress
from localjudge.run_directory.directory import canonical_sha256
from localjudge.run_directory.identity import (
    JudgeIdentity,
    JuryMember,
    card_of_jury,
    find_registered_jury,
)
from localjudge.run_directory.verdict_rule import KINDS, combine_by_scales
from localjudge.types import Answer, Combination, JudgeCard, NoAnswer, ScaleKind, VerdictRule
from localjudge.words import option

JudgeNames = JudgeName | Sequence[JudgeName]
"""A judge, or several that make one verdict together."""
MAX_ANSWERS = 65_536
"""Answers that an open judge remembers, of about a kilobyte each."""
_DIGITS = 8


class AnswerMemory:
    """The last answers of an open judge, without errors."""

    name = "an open judge"

    def __init__(self) -> None:
        self._answers: OrderedDict[str, Answer] = OrderedDict()

    def answers_to(self, keys: Iterable[str]) -> dict[str, Answer]:
        """Return the remembered answers by key."""
        return {key: self._answers[key] for key in keys if key in self._answers}

    def add(self, key: str, answer: Answer | NoAnswer) -> None:
        if isinstance(answer, Answer):
            self._answers[key] = answer
        while len(self._answers) > MAX_ANSWERS:
            self._answers.popitem(last=False)


class Jury:
    """One judge, or several by name.

    One model is in memory at a time, or all of them with `keep_open`. `source` is the name of a
    registered jury, or the source of the only judge. `memory` has answers of earlier runs. `advice`
    is shown after the announcement.
    """

    def __init__(
        self,
        judges: Sequence[SingleJudge],
        settings: RunSettings,
        *,
        name: str | None = None,
        keep_open: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self.judges = tuple(sorted(judges, key=lambda judge: judge.name))
        self.is_single = len(judges) == 1
        self.source = name
        if self.is_single:
            self.source = judges[0].source
        self.memory: AnswerMemory | None = None
        self.advice = ""
        self._settings = settings
        self._keep_open = keep_open
        self._progress = progress
        self._scales: dict[int, Mapping[ScaleKind, float]] = {}

    @property
    def names(self) -> list[str]:
        return [judge.name for judge in self.judges]

    @property
    def origin(self) -> dict[str, object]:
        """Where the models came from, for the environment of a run."""
        if self.is_single:
            return {"judge": self.source}
        return {"judge": self.source, "judges": [judge.source for judge in self.judges]}

    @property
    def card(self) -> JudgeCard:
        """Names, size and strictest caution of the judges, or the registered ones of a jury."""
        if self.is_single:
            return self.judges[0].card
        return card_of_jury(self._identify_judges([]), self.source)

    def introduce(self, progress: Progress) -> None:
        """Report the judges, and before them that they are several."""
        if not self.is_single:
            count = len(self.judges)
            names = ", ".join(self.names)
            progress.note(f"jury of {count} judges, one after the other: {names}")
        for judge in self.judges:
            for line in judge.announcement.splitlines():
                progress.note(line)
        if self.advice:
            progress.note(self.advice)

    @property
    def memory_bytes(self) -> int:
        """Estimated memory of the models that are open at the same time."""
        sizes = [judge.memory_bytes for judge in self.judges]
        if self._keep_open:
            return sum(sizes)
        return max(sizes)

    @property
    def stats(self) -> EngineStats:
        """Work of all judges so far."""
        total = EngineStats()
        for judge in self.judges:
            total = total.plus(judge.stats)
        return total

    @property
    def is_in_memory(self) -> bool:
        """Whether all models are open."""
        return all(judge.opened is not None for judge in self.judges)

    @property
    def order(self) -> list[int]:
        """Numbers of the judges in the order of asking: judges in memory first."""
        return sorted(range(len(self.judges)), key=lambda number: not self.judges[number].opened)

    def open(self, number: int) -> SingleJudge:
        """Open a judge by its number, and close the others unless they stay open.

        Raises ModelError if its model has changed, and the errors of opening a judge.
        """
        judge = self.judges[number]
        if judge.opened is None:
            if not self._keep_open:
                for other in self.judges:
                    other.close()
            judge.open(self._settings, self._progress)
        return judge

    def with_settings(self, settings: RunSettings) -> "Jury":
        """Return the jury with the prompts of these settings. Its models must be open."""
        judges: list[SingleJudge] = []
        for judge in self.judges:
            wrapped = wrap_engine(judge.engine, settings)
            judges.append(replace(wrapped, name=judge.name, source=judge.source))
        jury = Jury(judges, settings, name=self.source, keep_open=True)
        jury.memory = self.memory
        return jury

    def judges_for(self, metric: Metric) -> list[SingleJudge]:
        """Return the judges that can answer the metric's questions."""
        tasks = list_tasks([metric])
        return [judge for judge in self.judges if not judge.prompts.unsupported(tasks)]

    def identify(
        self, metrics: Sequence[Metric], settings: RunSettings, progress: Progress
    ) -> JudgeIdentity:
        """Return the judges' part of the signature. Measures missing scales."""
        rule = self.rule_for(metrics, settings, progress)
        return JudgeIdentity.of(
            self._identify_judges(list_tasks(metrics)),
            settings.sentences.identity,
            metrics,
            rule,
            {calibration.question: calibration.sha256 for calibration in settings.calibration},
        )

    def _identify_judges(self, tasks: Collection[str]) -> dict[str, JuryMember]:
        """Return each judge's part of the signature by name, with the scales in use.

        Of the tasks, those in `special/` of a profile are part of it.
        """
        identities: dict[str, JuryMember] = {}
        for number, judge in enumerate(self.judges):
            values: dict[str, Any] = {
                "engine": judge.identity,
                "judge": judge.prompts.identity(tasks),
            }
            if number in self._scales:
                values["scales"] = dict(self._scales[number])
            identities[judge.name] = JuryMember.model_validate(values)
        return identities

    def rule_for(
        self, metrics: Iterable[Metric], settings: RunSettings, progress: Progress
    ) -> VerdictRule:
        """Return the rule, of several judges with the combination of each judged metric.

        Measures missing scales. Raises InputError for weights of other judges.
        """
        metrics = list(metrics)
        rule = settings.rule_for(metrics)
        if self.is_single:
            return rule
        combinations: dict[str, Combination] = {}
        for metric in metrics:
            if is_judged(metric.name):
                combinations[metric.name] = self._combine(metric, settings, progress)
        return rule._replace(combinations=combinations)

    def _combine(self, metric: Metric, settings: RunSettings, progress: Progress) -> Combination:
        """Return the weights of a calibration, an earlier run or the registry, else by scales."""
        calibration = settings.calibration_for(metric.name)
        if calibration is not None and calibration.combination is not None:
            return self._restrict(calibration.combination, metric)
        if settings.weights:
            return self._restrict(Combination(settings.weights), metric)
        kind = scale_kind(metric, self.judges)
        registered = find_registered_jury(self.source, self._identify_judges([]).values())
        if registered is not None and kind in registered.weights:
            combination = self._restrict(Combination(registered.weights[kind]), metric)
            # A judge with weight 0 is not asked
            asked = {name: weight for name, weight in combination.weights.items() if weight}
            return combination._replace(weights=asked)
        able = self.judges_for(metric)
        scales: dict[str, float] = {}
        for number, judge in enumerate(self.judges):
            if judge not in able:
                continue
            if kind not in self._scales.get(number, {}):
                reopen = partial(self.open, number)
                self._scales[number] = find_scales(
                    judge.identity, judge.prompts, kind, reopen, progress
                )
            scales[judge.name] = self._scales[number][kind]
        return combine_by_scales(scales)

    def _restrict(self, combination: Combination, metric: Metric) -> Combination:
        """Return the combination without judges that cannot answer the metric's questions.

        Raises InputError for weights of other judges, or if no weight remains.
        """
        if combination.weights.keys() != set(self.names):
            problem = f"weights are for {', '.join(sorted(combination.weights))}"
            hint = "name the judges of the calibration or the run"
            raise InputError(f"{problem}, and the judges are {', '.join(self.names)}", hint=hint)
        able = [judge.name for judge in self.judges_for(metric)]
        weights = {name: combination.weights[name] for name in able}
        if not any(weights.values()):
            names = " and ".join(able)
            raise InputError(
                f"the weight of {names} is 0, and no other judge can answer {metric.name}",
                hint=f"omit {metric.name}, or use another calibration",
            )
        return combination._replace(weights=weights)

    def adopt_scales(self, jury: Mapping[str, JuryMember]) -> None:
        """Take the scales of a run's judges, so that none is measured."""
        for number, name in enumerate(self.names):
            if name in jury and jury[name].scales:
                scales = jury[name].scales
                self._scales[number] = {kind: scales[kind] for kind in KINDS if kind in scales}


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
        names = _list_names(judge)
        jury_name = None
        registered = model_registry.registered_juries().get(names[0])
        if len(names) == 1 and registered is not None:
            jury_name = registered.name
            names = list(registered.judges)
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
        example = option("judge", "model.gguf")
        raise InputError(
            f"a judge must be a name or a path, or several of them, got {judge!r:.80}",
            hint=f"use {example}; only localjudge.evaluate accepts an open judge",
        )
    return [str(name) for name in names]


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
        identity = canonical_sha256({"engine": dict(judge.identity), **judge.prompts.identity()})
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
    jury.introduce(progress)
    unanswerable = [metric.name for metric in metrics if not jury.judges_for(metric)]
    if unanswerable:
        listed = ", ".join(unanswerable)
        reasons = " and ".join(dict.fromkeys(judge.prompts.why_not_asked for judge in jury.judges))
        judges = " and ".join(judge.card.name for judge in jury.judges)
        message = f"the judge {judges} cannot answer the questions of {listed}: {reasons}"
        raise InputError(
            message, hint=f"name another model with {option('judge')}, or omit {listed}"
        )
    identity = jury.identify(metrics, settings, progress)
    metrics_by_judges: dict[str, list[str]] = {}
    for name, combination in identity.combinations.items():
        if len(combination.weights) < len(jury.judges):
            metrics_by_judges.setdefault(" and ".join(combination.weights), []).append(name)
    for judges, names in metrics_by_judges.items():
        progress.note(f"judged by {judges} only: {', '.join(names)}")
    announce_calibrations(identity, metrics, settings, progress)
    return identity
