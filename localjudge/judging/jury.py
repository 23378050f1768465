"""Several judges that make one verdict: opened one after the other, each as if it judged alone.

    sources ──open, close──> identities, names, scales ──> the run's signature
                open judge 1 ──answers──> store ──close── open judge 2 ──answers──> store ──>
                verdicts

No engine knows of a jury: verdicts are arithmetic on stored answers (`record/jury.py`,
    `run/jury_loop.py`).
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
from localjudge.judging.scales import scales_of
from localjudge.judging.settings import RunSettings
from localjudge.metrics import Metric
from localjudge.metrics.catalog import get_question, list_special_tasks, list_tasks
from localjudge.progress import Progress
from localjudge.run_directory.jury import KINDS, ScaleKind, combine_by_shares, jury_card
from localjudge.run_directory.manifest import JuryMember
from localjudge.run_directory.reuse import EarlierAnswers
from localjudge.run_directory.store import canonical_sha256
from localjudge.types import Combination, JudgeCard, VerdictRule
from localjudge.words import option_name

_DIGITS = 8
_RELEVANCE = frozenset({"relevance_chunk", "relevance_sentence", "usefulness"})
ENGINE: Mapping[str, Any] = {"engine": "jury"}
"""Identity in the place of an engine's."""


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

    `source` is the name of a registered jury.
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
        self.memory: EarlierAnswers | None = None
        self.advice = ""
        """Line after the announcement."""
        self._settings = settings
        self._keep_open = keep_open
        self._progress = progress
        self._seats: dict[int, tuple[LoadedJudge, ExitStack]] = {}
        self._finished_work = EngineStats()
        self._scales: dict[int, Mapping[ScaleKind, float]] = {}

    @property
    def names(self) -> list[str]:
        return [member.name for member in self.members]

    @property
    def sources(self) -> tuple[str, ...]:
        """Names or absolute paths of the models."""
        return tuple(member.source for member in self.members)

    @property
    def card(self) -> JudgeCard:
        """Names, size and strictest caution of the judges, or those of a registered jury."""
        cards = [member.card.model_copy(update={"name": member.name}) for member in self.members]
        registered = self._registered()
        caution = None
        if registered is not None:
            caution = registered.caution or None
        return jury_card(cards, self.source, caution)

    @property
    def announcement(self) -> str:
        """One line for the jury, and the lines of its judges."""
        lines = [
            f"jury of {len(self.members)} judges, one after the other: {', '.join(self.names)}"
        ]
        lines += [member.announcement for member in self.members]
        return "\n".join(filter(None, [*lines, self.advice]))

    @property
    def memory_bytes(self) -> int:
        """Memory of the models that are open at the same time."""
        sizes = [member.memory_bytes for member in self.members]
        return sum(sizes) if self._keep_open else max(sizes)

    @property
    def stats(self) -> EngineStats:
        """Work of all judges so far."""
        total = self._finished_work
        for opened, _ in self._seats.values():
            total = total.plus(opened.engine.stats)
        return total

    @property
    def order(self) -> list[int]:
        """Numbers of the judges in the order of asking: those in memory first."""
        return sorted(range(len(self.members)), key=lambda place: place not in self._seats)

    def open(self, place: int) -> LoadedJudge:
        """Open a judge by its number, and close the others unless they stay open.

        Raises ModelError if its model has changed, and the errors of opening a judge.
        """
        if place not in self._seats:
            if not self._keep_open:
                self.close()
            member = self.members[place]
            stack = ExitStack()
            opened = stack.enter_context(
                use_judge(member.source, None, self._settings, self._progress)
            )
            self.seat(place, opened, stack)
            if opened.engine.identity != member.engine:
                raise ModelError(
                    f"the judge {member.name} has changed while it was used",
                    hint="run the command again",
                )
        return self._seats[place][0]

    def seat(self, place: int, opened: LoadedJudge, stack: ExitStack) -> None:
        """Take over an open judge with the stack that closes it."""
        self._seats[place] = (opened, stack)

    def close(self) -> None:
        """Close the models in memory."""
        for place in list(self._seats):
            opened, stack = self._seats.pop(place)
            self._finished_work = self._finished_work.plus(opened.engine.stats)
            stack.close()

    def rule_for(
        self, metrics: Iterable[Metric], settings: RunSettings, progress: Progress
    ) -> VerdictRule:
        """Return the rule with the combination of each metric. Measures missing scales.

        Raises InputError for weights of other judges.
        """
        metrics = list(metrics)
        calibrated = {
            calibration.question: calibration.combination for calibration in settings.calibration
        }
        combinations: dict[str, Combination] = {}
        for metric in metrics:
            by_labels = calibrated.get(get_question(metric.name))
            if by_labels is not None:
                combinations[metric.name] = self._for_metric(by_labels, metric)
            elif settings.weights:
                combinations[metric.name] = self._for_metric(Combination(settings.weights), metric)
            else:
                combinations[metric.name] = self._combination_by_scales(metric, progress)
        return settings.rule_for(metrics)._replace(combinations=combinations)

    def members_for(self, metric: Metric) -> list[Member]:
        """Return the judges that can answer the metric's questions."""
        tasks = list_tasks([metric])
        return [member for member in self.members if not member.prompts.unsupported(tasks)]

    def _combination_by_scales(self, metric: Metric, progress: Progress) -> Combination:
        kind = kind_of(metric)
        able = self.members_for(metric)
        scales: dict[str, float] = {}
        for place, member in enumerate(self.members):
            if member in able:
                scales[member.name] = self._scale(place, kind, progress)
        return combine_by_shares(scales, self._registered_shares())

    def _registered_shares(self) -> Mapping[str, float] | None:
        """Return the shares of a registered jury, if its files are the registered ones."""
        registered = self._registered()
        if registered is None or not registered.shares:
            return None
        return registered.shares

    def _registered(self) -> model_registry.RegisteredJury | None:
        registered = model_registry.registered_juries().get(self.source or "")
        checksums = [member.card.sha256 for member in self.members]
        if registered is None or not model_registry.is_jury_of(registered, checksums):
            return None
        return registered

    def _for_metric(self, combination: Combination, metric: Metric) -> Combination:
        """Return the combination without judges that cannot answer the metric's questions.

        Raises InputError for weights of other judges.
        """
        if combination.weights.keys() != set(self.names):
            problem = f"weights are for {', '.join(sorted(combination.weights))}"
            hint = f"{option_name('weights')} gives each of them a weight"
            raise InputError(f"{problem}, and the judges are {', '.join(self.names)}", hint=hint)
        able = [member.name for member in self.members_for(metric)]
        return combination._replace(weights={name: combination.weights[name] for name in able})

    def _scale(self, place: int, kind: ScaleKind, progress: Progress) -> float:
        known = self._scales.get(place, {})
        if kind not in known:
            member = self.members[place]
            known = scales_of(
                member.engine, member.prompts, kind, lambda: self.open(place), progress
            )
            self._scales[place] = known
        return known[kind]

    def identities(self, metrics: Sequence[Metric]) -> dict[str, JuryMember]:
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

    def use_scales_of(self, jury: Mapping[str, JuryMember]) -> None:
        """Take the scales of a run's judges, so that none is measured."""
        for place, name in enumerate(self.names):
            if name in jury and jury[name].scales:
                self._scales[place] = {
                    kind: jury[name].scales[kind] for kind in KINDS if kind in jury[name].scales
                }


def kind_of(metric: Metric) -> ScaleKind:
    """Return which scale a metric's questions have: that of relevance, or of statements."""
    return "relevance" if set(list_tasks([metric])) <= _RELEVANCE else "attribution"


@contextmanager
def use_jury(
    sources: Sequence[str],
    settings: RunSettings,
    progress: Progress | None = None,
    *,
    name: str | None = None,
    keep_open: bool = False,
) -> Iterator[LoadedJury]:
    """Open each judge once to learn what it is. The last one, the largest model, stays open.

    Raises InputError for the same judge twice, and the errors of opening a judge.
    """
    files = sorted(sources, key=_size)
    opened_judges: list[tuple[Member, LoadedJudge, ExitStack]] = []
    with ExitStack() as undo:
        for source in files:
            if opened_judges and not keep_open:
                opened_judges[-1][2].close()
            stack = ExitStack()
            opened = stack.enter_context(use_judge(source, None, settings, progress))
            undo.callback(stack.close)
            opened_judges.append((_member(source, opened), opened, stack))
        members = _named([member for member, _, _ in opened_judges])
        jury = LoadedJury(members, settings, source=name, keep_open=keep_open, progress=progress)
        undo.callback(jury.close)
        seated = zip(members, opened_judges, strict=True)
        for member, (_, opened, stack) in (
            list(seated) if keep_open else [(members[-1], opened_judges[-1])]
        ):
            jury.seat(jury.members.index(member), opened, stack)
        yield jury


def _size(source: str) -> int:
    file = model_registry.place_of(source)
    return file.stat().st_size if file and file.is_file() else 0


def _member(source: str, opened: LoadedJudge) -> Member:
    engine = opened.engine
    found = opened.source or source
    return Member(
        opened.card.name,
        found,
        opened.prompts,
        engine.identity,
        opened.card,
        opened.announcement,
        engine.memory_bytes,
    )


def _named(members: Sequence[Member]) -> list[Member]:
    """Give judges with the same name the beginning of their checksum. Raises InputError for the same judge twice."""
    identities = [
        canonical_sha256({"engine": dict(member.engine), **member.prompts.identity})
        for member in members
    ]
    for member, identity in zip(members, identities, strict=True):
        if identities.count(identity) > 1:
            hint = "name each judge once: two equal judges have the verdicts of one"
            raise InputError(f"the judge {member.name} is named twice", hint=hint)
    counts = Counter(member.name for member in members)
    named = []
    for member, identity in zip(members, identities, strict=True):
        checksum = str(member.engine.get("model_sha256") or identity)
        is_unique = counts[member.name] == 1
        name = member.name if is_unique else f"{member.name}-{checksum[:_DIGITS]}"
        named.append(member._replace(name=name))
    return named
