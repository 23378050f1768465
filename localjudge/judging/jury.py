"""One judge, or several that make one verdict: opened one after the other.

    judges ──open, close──> identities, names, scales ──> the run's signature
       └──open judge 1 ──answers──> store ──close──> open judge 2 ──answers──> store ──> verdicts

No engine knows of a jury: verdicts are arithmetic on answers (`judging/answers.py`,
`run_directory/jury.py`).

A scale says how far apart the log odds of a judge are on the bundled labelled items. It belongs to
the judge and its prompts, never to the data of a run. Bundled judges have theirs in the registry.
Others are measured once, and remembered in LOCALJUDGE_HOME/scales.
"""

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from localjudge import model_registry, resources
from localjudge.engine.protocol import EngineStats
from localjudge.errors import InputError
from localjudge.judge.probes import probes
from localjudge.judge.wording import PromptWriter
from localjudge.judging.judges import SingleJudge, wrap_engine
from localjudge.judging.questions import answers_in_order
from localjudge.judging.settings import RunSettings
from localjudge.metrics import Metric
from localjudge.metrics.catalog import get_question, is_judged, list_special_tasks, list_tasks
from localjudge.progress import Progress
from localjudge.run_directory.identity import (
    JudgeIdentity,
    JuryMember,
    PromptsIdentity,
    find_registered_jury,
    is_asked_as_registered,
)
from localjudge.run_directory.jury import (
    KINDS,
    SMALLEST_SCALE,
    combine_by_scales,
    compute_scale,
    jury_card,
)
from localjudge.run_directory.request_keys import canonical_sha256
from localjudge.run_directory.reuse import AnswerMemory
from localjudge.types import (
    Answer,
    Attribution,
    Combination,
    JudgeCard,
    ScaleKind,
    Task,
    VerdictRule,
)
from localjudge.words import numbered, roughly

_PASSAGES = 8
"""Passages of twelve items: 64 statements and 32 items of relevance."""
_MIN_ANSWERS = 8
_TIMED = 2
"""Items after which the time of the others is known."""
_RELEVANCE = frozenset({"relevance_chunk", "relevance_sentence", "usefulness"})


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
        cards = [judge.card.model_copy(update={"name": judge.name}) for judge in self.judges]
        registered = self._find_registered()
        caution = None
        if registered is not None:
            caution = registered.caution or None
        return jury_card(cards, self.source, caution)

    @property
    def announcement(self) -> str:
        """One line for a jury of several, and the lines of the judges."""
        lines: list[str] = []
        if not self.is_single:
            count = len(self.judges)
            lines.append(f"jury of {count} judges, one after the other: {', '.join(self.names)}")
        lines += [judge.announcement for judge in self.judges]
        if self.advice:
            lines.append(self.advice)
        return "\n".join(lines)

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
            self._identify_judges(list_special_tasks(metrics)),
            settings.sentences.identity,
            metrics,
            rule,
            settings.calibration_checksums,
        )

    def _identify_judges(self, special: Collection[str]) -> dict[str, JuryMember]:
        """Return each judge's part of the signature by name, with the scales in use."""
        identities: dict[str, JuryMember] = {}
        for number, judge in enumerate(self.judges):
            values: dict[str, Any] = {
                "engine": judge.identity,
                "judge": judge.prompts.identity_for(special),
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
        kind = scale_kind(metric)
        calibrated = {each.question: each.combination for each in settings.calibration}
        combination = calibrated.get(get_question(metric.name) or "")
        if combination is None and settings.weights:
            combination = Combination(settings.weights)
        registered = self._find_registered()
        if combination is None and registered is not None and kind in registered.weights:
            combination = Combination(registered.weights[kind])
        if combination is not None:
            return self._restrict(combination, metric)
        able = self.judges_for(metric)
        scales: dict[str, float] = {}
        for number, judge in enumerate(self.judges):
            if judge not in able:
                continue
            if kind not in self._scales.get(number, {}):
                open_judge = partial(self.open, number)
                self._scales[number] = find_scales(
                    judge.identity, judge.prompts, kind, open_judge, progress
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

    def _find_registered(self) -> model_registry.RegisteredJury | None:
        """Return the registered jury of this name, if its files and prompts are the registered."""
        judges = self._identify_judges([]).values()
        return find_registered_jury(self.source, judges)


def scale_kind(metric: Metric) -> ScaleKind:
    """Return which scale a metric's questions have: relevance, or attribution.

    A metric that does not say what it asks counts as attribution.
    """
    tasks = list_tasks([metric])
    if tasks and tasks <= _RELEVANCE:
        return "relevance"
    return "attribution"


def find_scales(
    engine: Mapping[str, Any],
    prompts: PromptWriter,
    kind: ScaleKind,
    open_judge: Callable[[], SingleJudge],
    progress: Progress,
) -> Mapping[ScaleKind, float]:
    """Return a judge's known scales, including this kind: registered, remembered, or measured now.

    `engine` is the identity of its engine. Raises InputError if it gives too few answers.
    """
    identity = PromptsIdentity(**prompts.identity)
    registered = model_registry.registered_as(str(engine.get("model_sha256")))
    if registered is not None and registered.profile is not None:
        has_scale = kind in registered.scales
        if has_scale and is_asked_as_registered(registered, identity):
            return registered.scales
    checksum = engine.get("model_sha256")
    file: Path | None = None
    if checksum:
        key = canonical_sha256({"model_sha256": checksum, "judge": identity.answering})
        file = resources.state_directory() / "scales" / f"{key}.json"
    scales = _read_scales(file)
    if kind not in scales:
        scales[kind] = _measure_scale(open_judge(), kind, progress)
        if file is not None:
            resources.remember(file, json.dumps(scales, sort_keys=True))
    return scales


def _measure_scale(judge: SingleJudge, kind: ScaleKind, progress: Progress) -> float:
    """Ask a judge about the bundled items. Raises InputError if it gives too few answers."""
    tasks: list[Task] = []
    for probe in probes(_PASSAGES):
        is_statement = isinstance(probe.task, Attribution)
        if is_statement == (kind == "attribution") and judge.prompts.has_words_for(probe.task):
            tasks.append(probe.task)
    items = numbered(len(tasks), "bundled item")
    progress.note(
        f"measuring the scale of {judge.card.name} on {items} of {kind}, once on this machine",
    )
    progress.expect(len(tasks))
    requests = judge.prompts.requests(tasks)
    first = requests[:_TIMED]
    others = requests[_TIMED:]
    started = monotonic()
    answers = answers_in_order(judge.engine, first, progress)
    if others:
        seconds = (monotonic() - started) / len(first) * len(others)
        progress.note(f"this takes {roughly(seconds)}")
        answers += answers_in_order(judge.engine, others, progress)
    probabilities = [answer.p_yes for answer in answers if isinstance(answer, Answer)]
    if len(probabilities) < _MIN_ANSWERS:
        problem = f"the judge {judge.card.name} answered {len(probabilities)} of {items} of {kind}"
        hint = "omit this judge, or register it with its scale (docs/judges.md)"
        raise InputError(f"{problem}, so it has no scale", hint=hint)
    return compute_scale(probabilities)


def _read_scales(file: Path | None) -> dict[ScaleKind, float]:
    """Return the remembered scales, without invalid ones."""
    if file is None:
        return {}
    try:
        values = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    scales: dict[ScaleKind, float] = {}
    if isinstance(values, dict):
        for kind in KINDS:
            scale = values.get(kind)
            if isinstance(scale, float) and SMALLEST_SCALE <= scale < math.inf:
                scales[kind] = scale
    return scales
