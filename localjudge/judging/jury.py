"""Several judges that make one verdict: opened one after the other, each like a single judge.

    judges ──open, close──> identities, names, scales ──> the run's signature
       └──open judge 1 ──answers──> store ──close──> open judge 2 ──answers──> store ──> verdicts

No engine knows of a jury: verdicts are arithmetic on stored answers (`run_directory/jury.py`,
`judging/jury_loop.py`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from localjudge import model_registry
from localjudge.engine.protocol import EngineStats
from localjudge.errors import InputError, ModelError
from localjudge.judge.wording import PromptWriter
from localjudge.judging.judges import LoadedJudge, use_judge
from localjudge.judging.scales import find_scales
from localjudge.judging.settings import RunSettings
from localjudge.metrics import Metric
from localjudge.metrics.catalog import get_question, is_judged, list_special_tasks, list_tasks
from localjudge.progress import Progress
from localjudge.run_directory.identity import JudgeIdentity, JuryMember, find_registered_jury
from localjudge.run_directory.jury import KINDS, combine_by_scales, jury_card
from localjudge.run_directory.request_keys import canonical_sha256
from localjudge.run_directory.reuse import AnswerMemory
from localjudge.types import Combination, JudgeCard, ScaleKind, VerdictRule
from localjudge.words import option_name

_DIGITS = 8
_RELEVANCE = frozenset({"relevance_chunk", "relevance_sentence", "usefulness"})
_NO_ENGINE: Mapping[str, Any] = {"engine": "jury"}
"""Identity of a jury in the place of an engine's."""


class Member(NamedTuple):
    """A judge of a jury while its model is not in memory. `engine` is its engine's identity."""

    name: str
    source: str
    prompts: PromptWriter
    engine: Mapping[str, Any]
    card: JudgeCard
    announcement: str
    memory_bytes: int


class LoadedJury:
    """Judges by name. One model is in memory at a time, or all of them with `keep_open`.

    `source` is the name of a registered jury. `advice` is shown after the announcement.
    """

    def __init__(
        self,
        members: Sequence[Member],
        settings: RunSettings,
        *,
        source: str | None,
        keep_open: bool,
        progress: Progress | None,
    ) -> None:
        self.members = tuple(sorted(members, key=lambda member: member.name))
        self.source = source
        self.memory: AnswerMemory | None = None
        self.advice = ""
        self._settings = settings
        self._keep_open = keep_open
        self._progress = progress
        self._open_models: dict[int, tuple[LoadedJudge, ExitStack]] = {}
        """Judges in memory, with the stacks that close them."""
        self._finished_work = EngineStats()
        self._scales: dict[int, Mapping[ScaleKind, float]] = {}

    @property
    def names(self) -> list[str]:
        return [member.name for member in self.members]

    @property
    def origin(self) -> dict[str, object]:
        """Where the models came from, for the environment of a run."""
        sources = [member.source for member in self.members]
        return {"judge": self.source, "judges": sources}

    @property
    def card(self) -> JudgeCard:
        """Names, size and strictest caution of the judges, or the registered ones of a jury."""
        cards = [member.card.model_copy(update={"name": member.name}) for member in self.members]
        registered = self._find_registered()
        caution = None
        if registered is not None:
            caution = registered.caution or None
        return jury_card(cards, self.source, caution)

    @property
    def announcement(self) -> str:
        """One line for the jury, and the lines of its judges."""
        count = len(self.members)
        lines = [f"jury of {count} judges, one after the other: {', '.join(self.names)}"]
        lines += [member.announcement for member in self.members]
        if self.advice:
            lines.append(self.advice)
        return "\n".join(lines)

    @property
    def memory_bytes(self) -> int:
        """Memory of the models that are open at the same time."""
        sizes = [member.memory_bytes for member in self.members]
        if self._keep_open:
            return sum(sizes)
        return max(sizes)

    @property
    def stats(self) -> EngineStats:
        """Work of all judges so far."""
        total = self._finished_work
        for judge, _ in self._open_models.values():
            total = total.plus(judge.stats)
        return total

    @property
    def order(self) -> list[int]:
        """Numbers of the judges in the order of asking: judges in memory first."""
        return sorted(range(len(self.members)), key=lambda place: place not in self._open_models)

    def open(self, place: int) -> LoadedJudge:
        """Open a judge by its number, and close the others unless they stay open.

        Raises ModelError if its model has changed, and the errors of opening a judge.
        """
        if place in self._open_models:
            judge, _ = self._open_models[place]
            return judge
        if not self._keep_open:
            self.close()
        member = self.members[place]
        stack = ExitStack()
        judge = stack.enter_context(use_judge(member.source, None, self._settings, self._progress))
        self.take_over(place, judge, stack)
        if judge.engine.identity != member.engine:
            problem = f"the judge {member.name} has changed while it was used"
            raise ModelError(problem, hint="run the command again")
        return judge

    def take_over(self, place: int, judge: LoadedJudge, stack: ExitStack) -> None:
        """Take over an open judge with the stack that closes it."""
        self._open_models[place] = (judge, stack)

    def close(self) -> None:
        """Close the models in memory."""
        while self._open_models:
            _, (judge, stack) = self._open_models.popitem()
            self._finished_work = self._finished_work.plus(judge.stats)
            stack.close()

    def members_for(self, metric: Metric) -> list[Member]:
        """Return the judges that can answer the metric's questions."""
        tasks = list_tasks([metric])
        return [member for member in self.members if not member.prompts.unsupported(tasks)]

    def identify(
        self, metrics: Sequence[Metric], settings: RunSettings, progress: Progress
    ) -> JudgeIdentity:
        """Return the judges' part of the signature. Measures missing scales."""
        rule = self.rule_for(metrics, settings, progress)
        return JudgeIdentity.of(
            _NO_ENGINE,
            {},
            settings.sentences.identity,
            metrics,
            rule,
            settings.calibration_checksums,
            self._identify_members(metrics),
        )

    def _identify_members(self, metrics: Sequence[Metric]) -> dict[str, JuryMember]:
        """Return each judge's part of the signature by name, with the scales in use."""
        special = list_special_tasks(metrics)
        identities: dict[str, JuryMember] = {}
        for place, member in enumerate(self.members):
            values: dict[str, Any] = {
                "engine": member.engine,
                "judge": member.prompts.identity_for(special),
            }
            if place in self._scales:
                values["scales"] = dict(self._scales[place])
            identities[member.name] = JuryMember.model_validate(values)
        return identities

    def rule_for(
        self, metrics: Iterable[Metric], settings: RunSettings, progress: Progress
    ) -> VerdictRule:
        """Return the rule with the combination of each judged metric. Measures missing scales.

        Raises InputError for weights of other judges.
        """
        metrics = list(metrics)
        combinations: dict[str, Combination] = {}
        for metric in metrics:
            if not is_judged(metric.name):
                continue
            combination = _find_combination(metric, settings) or self._registered_weights(metric)
            if combination is None:
                combinations[metric.name] = self._combine_by_scales(metric, progress)
            else:
                combinations[metric.name] = self._restrict(combination, metric)
        return settings.rule_for(metrics)._replace(combinations=combinations)

    def _restrict(self, combination: Combination, metric: Metric) -> Combination:
        """Return the combination without judges that cannot answer the metric's questions.

        Raises InputError for weights of other judges, or if no weight remains.
        """
        if combination.weights.keys() != set(self.names):
            problem = f"weights are for {', '.join(sorted(combination.weights))}"
            hint = f"{option_name('weights')} gives each of them a weight"
            raise InputError(f"{problem}, and the judges are {', '.join(self.names)}", hint=hint)
        able = [member.name for member in self.members_for(metric)]
        weights = {name: combination.weights[name] for name in able}
        if not any(weights.values()):
            names = " and ".join(able)
            raise InputError(
                f"the weight of {names} is 0, and no other judge can answer {metric.name}",
                hint=f"give a judge a weight above 0, or omit {metric.name}",
            )
        return combination._replace(weights=weights)

    def _registered_weights(self, metric: Metric) -> Combination | None:
        """Return the weights in the registry of this jury for the metric's kind of question."""
        registered = self._find_registered()
        if registered is None:
            return None
        weights = registered.weights.get(scale_kind(metric))
        if weights is None:
            return None
        return Combination(weights)

    def _combine_by_scales(self, metric: Metric, progress: Progress) -> Combination:
        kind = scale_kind(metric)
        able = self.members_for(metric)
        scales: dict[str, float] = {}
        for place, member in enumerate(self.members):
            if member in able:
                scales[member.name] = self._find_scale(place, kind, progress)
        return combine_by_scales(scales)

    def _find_scale(self, place: int, kind: ScaleKind, progress: Progress) -> float:
        if kind not in self._scales.get(place, {}):
            member = self.members[place]
            self._scales[place] = find_scales(
                member.engine, member.prompts, kind, lambda: self.open(place), progress
            )
        return self._scales[place][kind]

    def adopt_scales(self, jury: Mapping[str, JuryMember]) -> None:
        """Take the scales of a run's judges, so that none is measured."""
        for place, name in enumerate(self.names):
            if name in jury and jury[name].scales:
                scales = jury[name].scales
                self._scales[place] = {kind: scales[kind] for kind in KINDS if kind in scales}

    def _find_registered(self) -> model_registry.RegisteredJury | None:
        """Return the registered jury of this name, if its files and prompts are the registered."""
        judges = self._identify_members([]).values()
        return find_registered_jury(self.source, judges)


def _find_combination(metric: Metric, settings: RunSettings) -> Combination | None:
    """Return the weights of a calibration of the metric's question, or of the settings."""
    question = get_question(metric.name)
    for calibration in reversed(settings.calibration):
        if calibration.question == question:
            if calibration.combination is not None:
                return calibration.combination
            break
    if settings.weights:
        return Combination(settings.weights)
    return None


def scale_kind(metric: Metric) -> ScaleKind:
    """Return which scale a metric's questions have: relevance, or attribution.

    A metric that does not say what it asks counts as attribution.
    """
    tasks = list_tasks([metric])
    if tasks and tasks <= _RELEVANCE:
        return "relevance"
    return "attribution"


@contextmanager
def use_jury(
    sources: Sequence[str],
    settings: RunSettings,
    progress: Progress | None = None,
    *,
    name: str | None = None,
    keep_open: bool = False,
) -> Iterator[LoadedJury]:
    """Open each judge once to identify it. The last one, the largest model, stays open.

    Raises InputError for the same judge twice, and the errors of opening a judge.
    """
    members: list[Member] = []
    judges: list[LoadedJudge] = []
    stacks: list[ExitStack] = []
    with ExitStack() as undo:
        for source in sorted(sources, key=_file_size):
            if stacks and not keep_open:
                stacks[-1].close()
            stack = ExitStack()
            judge = stack.enter_context(use_judge(source, None, settings, progress))
            undo.callback(stack.close)
            members.append(_make_member(source, judge))
            judges.append(judge)
            stacks.append(stack)
        members = _distinguish_names(members)
        jury = LoadedJury(members, settings, source=name, keep_open=keep_open, progress=progress)
        undo.callback(jury.close)
        for member, judge, stack in zip(members, judges, stacks, strict=True):
            if keep_open or stack is stacks[-1]:
                jury.take_over(jury.members.index(member), judge, stack)
        yield jury


def _file_size(source: str) -> int:
    file = model_registry.locate(source)
    if file is None or not file.is_file():
        return 0
    return file.stat().st_size


def _make_member(source: str, judge: LoadedJudge) -> Member:
    return Member(
        judge.card.name,
        judge.source or source,
        judge.prompts,
        judge.engine.identity,
        judge.card,
        judge.announcement,
        judge.memory_bytes,
    )


def _distinguish_names(members: Sequence[Member]) -> list[Member]:
    """Give judges with the same name the beginning of their checksum.

    Raises InputError for the same judge twice.
    """
    identities: list[str] = []
    for member in members:
        identity = canonical_sha256({"engine": dict(member.engine), **member.prompts.identity})
        if identity in identities:
            hint = "name each judge once: two equal judges have the verdicts of one"
            raise InputError(f"the judge {member.name} is named twice", hint=hint)
        identities.append(identity)
    counts = Counter(member.name for member in members)
    renamed: list[Member] = []
    for member, identity in zip(members, identities, strict=True):
        name = member.name
        if counts[name] > 1:
            checksum = str(member.engine.get("model_sha256") or identity)
            name = f"{name}-{checksum[:_DIGITS]}"
        renamed.append(member._replace(name=name))
    return renamed
