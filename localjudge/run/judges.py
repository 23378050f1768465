"""Opens a judge: a model, the profile that suits it, and the engine that runs it.

The profile hangs on the model's checksum and on what its file says of itself, not on the name or the path that it was
called by, and not on who opened it; unless the user names one.

A run has a panel: one judge, or several that are all asked the same, each in its own words. Who is named first moves
nothing.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from localjudge import model_registry
from localjudge.engine.opening import find_model, open_judging_engine, require_room, who_it_is
from localjudge.engine.protocol import DescribedEngine, Engine, EngineStats, NamedModel
from localjudge.errors import UsageError
from localjudge.judge.own_prompt import with_prompt
from localjudge.judge.panel_rule import MEAN_LOG_ODDS, Combination, PanelRule
from localjudge.judge.profile_choice import ChosenProfile, choose
from localjudge.judge.prompt_writer import PromptWriter, require
from localjudge.judge.prompts import PromptProfile
from localjudge.metrics import Metric
from localjudge.metrics.catalog import question_of, special_tasks_of, tasks_of
from localjudge.option_spelling import option, option_name
from localjudge.progress import Progress
from localjudge.record.answer_cache import open_cache
from localjudge.record.calibration import measured_part
from localjudge.record.earlier_answers import EarlierAnswers, OtherRun, judges_known_to
from localjudge.record.keys import canonical_sha256
from localjudge.record.manifest import in_lines, judge_part
from localjudge.record.panel import UNPROVED, combination_of, is_unproved, judge_card, panel_part
from localjudge.record.results import Run
from localjudge.run.settings import RunSettings
from localjudge.types import ChatEnds, JudgeCard, panel_card

DEFAULT_JUDGE = "reference"
Judges = str | Path | Sequence[str | Path]
"""A registered name, the path of a GGUF file, or the address of a server; several are a panel."""
Engines = Engine | Sequence[Engine]
_ID_DIGITS = 12
_SLOW = "; it cannot share prompts on this machine, so every verdict costs a whole prompt"


class OpenJudge(NamedTuple):
    """A judge with its engine, who it is, and one line that says so; more say where texts go, and what has no effect.

    `source` is the name or the absolute path by which its model is found again, None for an engine that was brought
    along.
    """

    judge: PromptWriter
    engine: Engine
    card: JudgeCard
    announcement: str
    source: str | None

    @property
    def id(self) -> str:
        """The beginning of its model's checksum, or of that of the engine's identity: its name in what is signed."""
        identity = self.engine.identity
        return str(identity.get("model_sha256") or canonical_sha256(identity))[:_ID_DIGITS]


class Panel(NamedTuple):
    """The judges of a run, at least one, each with a name of its own, and how the verdicts of several are combined."""

    judges: tuple[OpenJudge, ...]
    rule: PanelRule
    rules: Mapping[str, PanelRule] = MappingProxyType({})
    """Those of metrics for whose question a calibration has weights."""
    memory: EarlierAnswers | None = None
    """What they have answered while they were open, if somebody remembers it."""

    @property
    def combination(self) -> Combination | None:
        """Whose verdicts are combined, and how; None for one judge, whose verdicts stand as they are."""
        if len(self.judges) == 1:
            return None
        return Combination({judge.card.name: judge.id for judge in self.judges}, self.rule, self.rules)

    @property
    def card(self) -> JudgeCard:
        """Who judges."""
        cards = [judge.card for judge in self.judges]
        return panel_card(cards, self.combination.in_words) if self.combination else cards[0]

    @property
    def announcement(self) -> str:
        """Lines that say who judges."""
        if len(self.judges) == 1:
            return self.judges[0].announcement
        lines = [f"judge {judge.card}{'' if judge.engine.forks else _SLOW}" for judge in self.judges]
        return "\n".join([*lines, f"their verdicts are combined by {self.rule.rule}", *self.remarks])

    @property
    def remarks(self) -> list[str]:
        """Lines that say where texts go, and what has no effect."""
        return [line for judge in self.judges for line in judge.announcement.splitlines()[1:]]

    @property
    def source(self) -> str | list[str] | None:
        """The `source` of the judge, or of each; None for engines that were brought along."""
        sources = [judge.source for judge in self.judges if judge.source]
        if len(sources) < len(self.judges):
            return None
        return sources[0] if len(sources) == 1 else sources

    @property
    def stats(self) -> EngineStats:
        """Work done by all."""
        done = [judge.engine.stats.model_dump() for judge in self.judges]
        return EngineStats(**{name: sum(one[name] for one in done) for name in EngineStats.model_fields})


@contextmanager
def opened_panel(
    judges: "Judges | Panel", engines: Engines | None, settings: RunSettings, rule: PanelRule = MEAN_LOG_ODDS
) -> Iterator[Panel]:
    """The judges while they are used, all at once. Engines take the place of models, and are not closed afterwards.

    A panel that is open is asked by these settings, and stays open: its models, and their context, are as they are.

    Raises as `open_judge` does, UsageError for a judge that is named twice and for weights that are not those of these
    judges, and OutOfResource if there is too little memory for all together.
    """
    if isinstance(judges, Panel):
        again = [judge_on(one.engine, settings)._replace(source=one.source) for one in judges.judges]
        yield panel_of(again, rule)._replace(memory=judges.memory)
        return
    with ExitStack() as stack:
        if engines is not None:
            given = engines if isinstance(engines, Sequence) else [engines]
            ours = [judge_on(engine, settings) for engine in given]
        else:
            names = _names(judges)
            _refuse_together(names, settings)
            ours = []
            for name in names:
                ours.append(open_judge(name, settings))
                stack.enter_context(closing(ours[-1].engine))
        yield panel_of(ours, rule)


def _names(judges: Judges) -> list[str]:
    """What the judges are called. Raises UsageError for what is no name and no path, such as an open judge."""
    names = judges if isinstance(judges, Sequence) and not isinstance(judges, str) else [judges]
    if not all(isinstance(name, str | Path) for name in names):
        raise UsageError(
            f"a judge must be a name, a path or a list of them, got {judges!r:.80}",
            hint=f"write {option('judge', 'model.gguf')}; only localjudge.evaluate takes an open judge",
        )
    return [str(name) for name in names]


def panel_of(judges: Sequence[OpenJudge], rule: PanelRule = MEAN_LOG_ODDS) -> Panel:
    """The panel of these judges, in the order of their names. Where two have one name, their ids stand behind it.

    Raises UsageError for none, for two that are one, and for weights that are not those of these judges.
    """
    if not judges:
        raise UsageError("no judge was named", hint=f"name one with {option('judge')}")
    shared = {name for name, count in Counter(judge.card.name for judge in judges).items() if count > 1}
    named = [
        judge._replace(card=judge.card.model_copy(update={"name": f"{judge.card.name} {judge.id}"}))
        if judge.card.name in shared
        else judge
        for judge in judges
    ]
    _refuse_twice([judge.id for judge in judges])
    if rule.weights and rule.weights.keys() != {judge.id for judge in judges}:
        raise UsageError("the weights are not those of these judges", hint="leave them out, or fit them again")
    return Panel(tuple(sorted(named, key=lambda judge: (judge.card.name, judge.id))), rule)


def panel_as_in(run: Run, panel: Panel) -> Panel:
    """The panel, its judges in the order of the run. Raises UsageError if a run of several judges had others."""
    combination = combination_of(run.manifest)
    if combination is None and len(panel.judges) == 1:
        return panel
    there = {judge.id: judge for judge in panel.judges}
    needed = combination.ids if combination else {run.judge.name: ""}
    if there.keys() != set(needed.values()):
        needed_too = ", ".join(f"{name} ({one})" if one else name for name, one in needed.items())
        raise UsageError(
            f"{run.directory} was judged by {needed_too}, and not by {panel.card.name}",
            hint=f"name each of its judges with {option('judge')}",
        )
    rules = combination.rules if combination else {}
    return panel._replace(judges=tuple(there[one] for one in needed.values()), rules=rules)


def open_judge(name_or_path: str, settings: RunSettings) -> OpenJudge:
    """Open a registered judge, any GGUF file, or the model of a server. Close its engine after use.

    Raises ModelError if the model cannot be found or used, UsageError for a prompt that is no wording of a task and for
    reasons or a protocol that the judge cannot be asked for.
    """
    file = find_model(name_or_path, settings.engine)
    # What it cannot be asked is refused before gigabytes are loaded.
    profile = profile_for(file.profile, metadata_of(file, settings), settings).profile
    with ExitStack() as undo:
        opened = open_judging_engine(file, settings.engine, begin_of_text=profile.begin_of_text)
        engine = undo.enter_context(closing(opened))
        ours = judge_on(engine, settings)
        undo.pop_all()
    return ours._replace(source=file.source)


def judge_on(engine: Engine, settings: RunSettings) -> OpenJudge:
    """The judge that an open engine's model makes: in the profile that is its own, inside its own chat template.

    Raises UsageError for a prompt that is no wording of a task and for reasons or a protocol that the judge cannot be
    asked for, ModelError if the chat template cannot be rendered.
    """
    checksum = str(engine.identity.get("model_sha256"))
    registered = model_registry.registered_as(checksum)
    metadata = engine.metadata if isinstance(engine, DescribedEngine) else {}
    profile, why = profile_for(registered.profile if registered else None, metadata, settings)
    ends = chat_around(profile, engine)
    unproved = is_unproved(engine.identity)
    card = judge_card(engine.name or str(engine.identity["engine"]), engine.identity)
    note = f": {registered.note}" if registered and registered.note else ""
    advice = f"; name a larger model with {option('judge')}" if card.caution and not unproved else ""
    slow = "" if engine.forks else _SLOW
    sha256 = f"sha256 {card.sha256[:12]}, " if card.sha256 else f"{UNPROVED}, " if unproved else ""
    reads = profile.description if profile.instructions else "reads no instructions"
    asked_by = f"profile {profile.name}, {why}: " if why and not (registered and registered.note) else ""
    host = engine.identity.get("host")
    sent = f"\nthe texts go to {host}, unencrypted" if host else ""
    if engine.identity.get("engine") == "server":
        idle = [option_name(name) for name in ("threads", "gpu_layers") if getattr(settings, name) is not None]
        sent += "".join(f"\n{name} has no effect on {card.name}: its server says how it runs" for name in idle)
    announcement = f"judge {card.name}{note}{advice} ({sha256}{asked_by}{reads}{slow}){sent}"
    judge = PromptWriter(profile, ends, reasons=settings.reasons, protocol=settings.protocol)
    return OpenJudge(judge, engine, card, announcement, None)


def judge_part_of(panel: Panel, metrics: Sequence[Metric], settings: RunSettings) -> dict[str, Any]:
    """The judge's part of the signature of a run with these metrics and settings."""
    parts = _parts(panel, metrics, settings)
    return panel_part(parts, panel.rule, panel.rules) if len(parts) > 1 else parts[panel.judges[0].id]


def _parts(panel: Panel, metrics: Sequence[Metric], settings: RunSettings) -> dict[str, dict[str, Any]]:
    """The part that each judge would have alone, by its id."""
    return {judge.id: _part_of_one(judge, metrics, settings) for judge in panel.judges}


def _part_of_one(ours: OpenJudge, metrics: Sequence[Metric], settings: RunSettings) -> dict[str, Any]:
    part = judge_part(
        ours.engine.identity,
        ours.judge.identity_for(special_tasks_of(metrics)),
        settings.sentences.identity,
        metrics,
        settings.rule_for(metrics),
    )
    return part | settings.calibrations_used


@contextmanager
def earlier_answers(
    panel: Panel, metrics: Sequence[Metric], settings: RunSettings
) -> Iterator[list[list[EarlierAnswers]]]:
    """What each judge has answered before, while it is used: in the runs to reuse, then in the cache if it is on.

    No answer of an engine that was brought along outlives its run unasked, nor one of a model whose bytes are not
    proved: how well its identity names it is not known. Raises as `judges_known_to`, `OtherRun` and `open_cache` do.
    """
    parts = _parts(panel, metrics, settings)
    with ExitStack() as stack:
        found: dict[str, list[EarlierAnswers]] = {one: [] for one in parts}
        for name in settings.reuse:
            known = judges_known_to(Path(name), parts)
            other = stack.enter_context(closing(OtherRun(Path(name))))
            for one in known:
                found[one].append(other)
        for judge in panel.judges:
            if panel.memory:
                found[judge.id].append(panel.memory)
            proved = "model_sha256" in judge.engine.identity
            if judge.source and proved and (cache := open_cache(parts[judge.id])):
                found[judge.id].append(stack.enter_context(closing(cache)))
        yield [found[judge.id] for judge in panel.judges]


def refuse_unaskable(panel: Panel, metrics: Sequence[Metric]) -> None:
    """Raise UsageError for a metric whose questions a judge has no words for, before anything is asked."""
    for judge in panel.judges:
        unaskable = [metric.name for metric in metrics if judge.judge.cannot_be_asked(tasks_of([metric]))]
        if unaskable:
            names = ", ".join(unaskable)
            raise UsageError(
                f"the judge {judge.card.name} cannot be asked what {names} asks: {judge.judge.why_not_asked}",
                hint=f"name a model that can with {option('judge')}, or leave out {names}",
            )


def _refuse_twice(judges: Sequence[str]) -> None:
    if len(set(judges)) < len(judges):
        raise UsageError(
            "a judge of the panel is named twice: it would only count double", hint="leave one of them out"
        )


def _refuse_together(named: Sequence[str], settings: RunSettings) -> None:
    """Refuse several judges before gigabytes are loaded: one that cannot be asked so, and all if they do not fit."""
    if len(named) <= 1:
        return
    files = [find_model(name, settings.engine) for name in named]
    _refuse_twice([file.sha256 or file.source for file in files])
    for name, file in zip(named, files, strict=True):
        try:
            profile_for(file.profile, metadata_of(file, settings), settings)
        except UsageError as error:
            raise UsageError(f"{name}, a judge of the panel: {error.message}", hint=error.hint) from error
    require_room(files, settings.engine)


def calibrated(panel: Panel, metrics: Sequence[Metric], settings: RunSettings, progress: Progress) -> Panel:
    """The panel, with the weights of its calibrations where they have any; the progress is told what they decide.

    Raises UsageError for a calibration of another judge, or of what no metric asks.
    """
    rules: dict[str, PanelRule] = {}
    judge = judge_part_of(panel, metrics, settings)
    for calibration in settings.calibration:
        decided = [metric for metric in metrics if question_of(metric.name) == calibration.question]
        if not decided:
            raise UsageError(
                f"the calibration {calibration.name} is of {calibration.question}, which no metric of this run asks",
                hint=f"leave out {option('calibration', calibration.name)}, or calibrate what is asked",
            )
        different, rounding = calibration.differences_of_judge(measured_part(judge, decided[0]))
        if different:
            raise UsageError(
                f"the calibration {calibration.name} was made with another judge:{in_lines(different)}",
                hint="calibrate this judge: localjudge calibrate LABELS --judge NAME|PATH",
            )
        names = ", ".join(metric.name for metric in decided)
        elsewhere = f"; made where rounding differs:{in_lines(rounding)}" if rounding else ""
        weights = calibration.panel_rule
        if weights:
            rules |= {metric.name: weights for metric in decided}
        how = f"{weights.rule}, " if weights else ""
        progress.note(
            f"calibration {calibration.name}: {how}threshold {calibration.threshold:.3g} for {names}{elsewhere}"
        )
    return panel._replace(rules=rules)


def metadata_of(model: NamedModel, settings: RunSettings) -> Mapping[str, str]:
    """What the model says of who it is, before it is loaded; nothing where its profile is known without.

    Raises ModelError for a file that is no model, or is damaged.
    """
    return who_it_is(model) if settings.profile is None and model.profile is None else {}


def profile_for(registered: str | None, metadata: Mapping[str, str], settings: RunSettings) -> ChosenProfile:
    """The profile that the user names, that the model is registered with, or that is made for what it says of itself.

    With the user's own wordings in it. Raises UsageError for a profile that there is not, a wording that words no task
    or that the judge cannot read, and for reasons or a protocol that the profile cannot ask for.
    """
    chosen = choose(settings.profile, registered, metadata)
    profile = chosen.profile
    for own in settings.prompts:
        profile = with_prompt(profile, own)
    require(profile, settings.reasons, settings.protocol)
    return chosen._replace(profile=profile)


def chat_around(profile: PromptProfile, engine: Engine) -> ChatEnds | None:
    """What the model's chat template puts around a prompt; None without a template, or for a profile that uses none.

    Raises ModelError if the template cannot be rendered.
    """
    if profile.converses and isinstance(engine, DescribedEngine):
        return engine.chat_without_ends
    return engine.chat_ends if profile.chat else None
