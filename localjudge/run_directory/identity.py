"""The signed parts of a manifest: everything that can change a number.

    JudgeIdentity   engine (or the judges of a jury), prompts, segmenter, metrics, thresholds,
                    versions of packages
    DataIdentity    the samples and their groups

    judge:3f9a1c2e|data:77b0d4aa
          │             └── first digits of sha256 over the data: the samples, in any order and
          │                 format
          └── first digits of sha256 over the judge

Equal signatures mean equal numbers.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Self

from pydantic import Field, PlainSerializer, SerializerFunctionWrapHandler, model_serializer

from localjudge import model_registry
from localjudge.errors import InputError
from localjudge.judge.profile import reads_nearest
from localjudge.judge.profile_choice import load_profile
from localjudge.metrics import catalog
from localjudge.metrics.criterion import Criterion
from localjudge.metrics.metric import Metric, get_options
from localjudge.resources import package_version
from localjudge.run_directory.directory import canonical_sha256
from localjudge.types import NO_MODEL, Combination, JudgeCard, Record, VerdictRule

UNPROVED = "bytes not proved"
NO_DECISIONS = "not for decisions"
"""Ends the strictest caution about a judge."""
_DIGITS = 8
_CombinationAsObject = Annotated[Combination, PlainSerializer(Combination._asdict)]
"""Pydantic would write a named tuple as a list."""
_JURY: Mapping[str, str] = {"engine": "jury"}
"""Identity of a jury in the place of an engine's."""
_PACKAGES = ("localjudge", "llama-cpp-python", "llguidance", "numpy", "outlines_core", "spacy")


class ManifestPart(Record, extra="allow", strict=True):
    """Part of a manifest. Fields without a value are not written, so they are not signed either.

    Engines and metrics add fields, which follow the declared ones.
    """

    @model_serializer(mode="wrap")
    def _only_set_fields(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = serialize(self)
        return {name: value for name, value in values.items() if name in self.model_fields_set}

    @property
    def as_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    def changed(self, **values: Any) -> Self:
        """Return a copy with other values, which are validated."""
        present = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self)(**{**present, **values})


class EngineIdentity(ManifestPart):
    """Everything about an engine that can change an answer. Engines add other fields."""

    engine: str
    model: str | None = None
    model_sha256: str | None = None
    model_size: int | None = None
    quantisation: str | None = None
    n_ctx: int | None = None

    @property
    def is_unproved(self) -> bool:
        return self.model is not None and self.model_sha256 is None

    def card(self, name: str, prompts: "PromptsIdentity") -> JudgeCard:
        """Return the card of the judge with this engine that is asked by these prompts."""
        caution = None
        if self.is_unproved:
            caution = UNPROVED
        model = self.registered
        if model is not None:
            is_measured = is_asked_as_registered(model, prompts)
            if is_measured or NO_DECISIONS in model.caution:
                caution = model.caution or None
        return JudgeCard(
            name=name,
            sha256=self.model_sha256,
            size=self.model_size,
            quantisation=self.quantisation,
            caution=caution,
        )

    @property
    def registered(self) -> model_registry.RegisteredModel | None:
        """The registered model with this checksum, the packaged one first."""
        sha256 = str(self.model_sha256)
        return model_registry.packaged_as(sha256) or model_registry.registered_as(sha256)


class NearestIdentity(ManifestPart):
    """Which sentences a judge reads, for these kinds of units; without `units`, for all kinds.

    With `closer`, it reads a second time, so many letters chosen alike. The two versions count
    changes of the rules about what is near.
    """

    letters: int
    version: int
    finder_version: int
    language: str
    closer: int | None = None
    units: list[str] = Field(default_factory=list)


class PromptsIdentity(ManifestPart):
    """How the judge is asked. `special_tasks` are the questions of only some metrics.

    `nearest` says which sentences it reads; without it, a judge reads everything, in windows if it
    is long.
    """

    profile: str | None = None
    profile_sha256: str | None = None
    reasons: str | None = None
    nearest: NearestIdentity | None = None
    special_tasks: dict[str, dict[str, str]] = Field(default_factory=dict)

    @property
    def answering(self) -> dict[str, Any]:
        """The part that can change an answer to a question of every metric."""
        return self.model_dump(mode="json", exclude={"special_tasks"})


def is_asked_as_registered(model: model_registry.RegisteredModel, prompts: PromptsIdentity) -> bool:
    """Return whether prompts are those of a registered model, for which its claims were measured.

    The checksum of the profile decides, not its name. A model registered without a profile claims
    nothing about prompts.
    """
    if model.profile is None:
        return True
    if prompts.reasons not in (None, "none"):
        return False
    try:
        return prompts.profile_sha256 == _checksum_of_profile(model.profile)
    except InputError:  # its folder is missing or damaged
        return False


@cache
def _checksum_of_profile(name: str) -> str:
    return load_profile(name).sha256


def find_registered_jury(
    name: str | None, judges: Collection["JuryMember"]
) -> model_registry.RegisteredJury | None:
    """Return the registered jury of this name, if files and prompts of its judges are its own."""
    jury = model_registry.registered_juries().get(name or "")
    checksums = [judge.engine.model_sha256 for judge in judges]
    if jury is None or not model_registry.has_judges(jury, checksums):
        return None
    for judge in judges:
        model = judge.engine.registered
        if model is None or not is_asked_as_registered(model, judge.judge):
            return None
    return jury


def card_of_jury(judges: Mapping[str, "JuryMember"], name: str | None) -> JudgeCard:
    """Return the card of these judges, with the caution of the registered jury of this name."""
    cards = [member.engine.card(judge, member.judge) for judge, member in judges.items()]
    registered = find_registered_jury(name, judges.values())
    caution = None
    if registered is not None:
        caution = registered.caution or None
    return jury_card(cards, name, caution)


def jury_card(cards: Sequence[JudgeCard], name: str | None, caution: str | None) -> JudgeCard:
    """Return the card of a jury from the cards of its judges, sorted by name.

    `name` and `caution` belong to a registered jury; by default, the names joined, and the
    strictest caution.
    """
    sizes = [card.size for card in cards if card.size is not None]
    size = None
    if len(sizes) == len(cards):
        size = sum(sizes)
    if not name:
        name = " + ".join(card.name for card in cards)
    if not caution:
        caution = strictest_caution([card.caution for card in cards])
    return JudgeCard(name=name, size=size, caution=caution)


def strictest_caution(cautions: Sequence[str | None]) -> str | None:
    """Return the first caution against decisions, otherwise all cautions."""
    distinct = list(dict.fromkeys(filter(None, cautions)))
    for caution in distinct:
        if NO_DECISIONS in caution:
            return caution
    return "; ".join(distinct) or None


class JuryMember(ManifestPart):
    """A judge of a jury, with its scales by kind of question if they give its weights."""

    engine: EngineIdentity
    judge: PromptsIdentity
    scales: dict[str, float] = Field(default_factory=dict)

    @property
    def answering(self) -> dict[str, Any]:
        """The part that can change an answer."""
        return {"engine": self.engine.as_json, "judge": self.judge.answering}


class MetricIdentity(ManifestPart):
    """Version and options of a metric, or the checksum of a criterion."""

    version: int | str
    criterion_sha256: str | None = None

    @classmethod
    def of(cls, metric: Metric) -> Self:
        if isinstance(metric, Criterion):
            return cls(version=metric.version, criterion_sha256=metric.sha256)
        values: dict[str, Any] = {"version": metric.version, **get_options(metric)}
        return cls(**values)


class JudgeIdentity(ManifestPart):
    """Everything that can change a number, except the data.

    `jury` has the judges of a jury by name, in the order of their names, and `combinations` their
    weights by metric.
    """

    engine: EngineIdentity
    jury: dict[str, JuryMember] = Field(default_factory=dict)
    combinations: dict[str, _CombinationAsObject] = Field(default_factory=dict)
    judge: PromptsIdentity = Field(default_factory=PromptsIdentity)
    segmenter: dict[str, str] = Field(default_factory=dict)
    metrics: dict[str, MetricIdentity]
    threshold: float
    thresholds: dict[str, float] = Field(default_factory=dict)
    min_valid_mass: float = 0.0
    versions: dict[str, str] = Field(default_factory=dict)
    calibrations: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def of(
        cls,
        judges: Mapping[str, JuryMember],
        segmenter: Mapping[str, str],
        metrics: Sequence[Metric],
        rule: VerdictRule,
        calibrations: Mapping[str, str] = MappingProxyType({}),
    ) -> Self:
        """Return the identity of one judge, or of several with the rule of their jury."""
        values: dict[str, Any] = {
            "engine": _JURY,
            "judge": {},
            "segmenter": dict(segmenter),
            "metrics": {metric.name: MetricIdentity.of(metric) for metric in metrics},
            "threshold": rule.threshold,
            "versions": package_versions(),
        }
        if len(judges) == 1:
            (judge,) = judges.values()
            values["engine"] = judge.engine
            values["judge"] = judge.judge
        else:
            values["jury"] = dict(judges)
            values["combinations"] = dict(rule.combinations)
        if rule.thresholds:
            values["thresholds"] = dict(rule.thresholds)
        if rule.min_valid_mass:
            values["min_valid_mass"] = rule.min_valid_mass
        if calibrations:
            values["calibrations"] = dict(calibrations)
        return cls.model_validate(values)

    @property
    def has_no_model(self) -> bool:
        """Whether the metrics ask no question, so that no model was opened."""
        return self.engine.engine == NO_MODEL

    @property
    def rule(self) -> VerdictRule:
        """How answers were turned into verdicts."""
        return VerdictRule(self.threshold, self.min_valid_mass, self.thresholds, self.combinations)

    @property
    def judges(self) -> list[JuryMember]:
        """The judges of a jury, or the only judge."""
        if self.jury:
            return list(self.jury.values())
        return [JuryMember(engine=self.engine, judge=self.judge)]

    def profiles(self, metric: str) -> set[str | None]:
        """Return the prompt profiles of the judges that answer a metric's questions."""
        if not self.jury:
            return {self.judge.profile}
        answering = list(self.jury)
        if metric in self.combinations:
            answering = list(self.combinations[metric].weights)
        return {self.jury[name].judge.profile for name in answering}

    @property
    def letters_read(self) -> tuple[int, ...]:
        """Return how many letters judges read for a statement in each reading, the most first.

        It is empty if one of them reads everything.
        """
        letters: list[int] = []
        closer: set[int] = set()
        for judge in self.judges:
            nearest = judge.judge.nearest
            if nearest is None or not reads_nearest(nearest.units, "statement"):
                return ()
            letters.append(nearest.letters)
            if nearest.closer is not None:
                closer.add(nearest.closer)
        return (max(letters), *sorted(closer, reverse=True))

    @property
    def answering(self) -> dict[str, Any]:
        """The part that can change an answer."""
        if self.jury:
            return {"jury": {name: member.answering for name, member in self.jury.items()}}
        return {"engine": self.engine.as_json, "judge": self.judge.answering}

    @property
    def answering_judges(self) -> list[dict[str, Any]]:
        """The part of each judge that can change an answer."""
        return [judge.answering for judge in self.judges]

    @property
    def without_updates(self) -> dict[str, Any]:
        """The part that no update of a package changes, except of the engine."""
        parts = self.as_json
        del parts["versions"]
        for name in ("version", "rules"):
            parts["segmenter"].pop(name, None)
        for metric in parts["metrics"].values():
            del metric["version"]
        return parts

    def measured(self, metric: Metric) -> dict[str, Any]:
        """Return the part that a calibration of this metric's question measures."""
        measured = {name: part for name, part in self.answering.items() if part}
        words = {}
        for task in sorted(catalog.list_tasks([metric])):
            if task in self.judge.special_tasks:
                words[task] = self.judge.special_tasks[task]
        if words:
            measured["special_tasks"] = words
        if not catalog.is_ours(metric.name):  # a criterion of the same name may differ
            measured["metrics"] = {metric.name: self.metrics[metric.name].as_json}
        return measured


class DataIdentity(ManifestPart):
    """The samples and their groups. `max_cluster_size` as in `Sampling`."""

    sha256: str
    rows: int = Field(ge=0)
    clusters_sha256: str | None = None
    max_cluster_size: int | None = Field(default=None, ge=1)

    @classmethod
    def of(
        cls,
        sha256: str,
        rows: int,
        groups: Mapping[str, str] | None,
        max_cluster_size: int | None = None,
    ) -> Self:
        values: dict[str, Any] = {"sha256": sha256, "rows": rows, "clusters_sha256": None}
        if groups is not None:
            values["clusters_sha256"] = canonical_sha256(groups)
        if max_cluster_size is not None:
            values["max_cluster_size"] = max_cluster_size
        return cls(**values)


def signature(judge: JudgeIdentity, data: DataIdentity) -> str:
    judge_digits = canonical_sha256(judge.as_json)[:_DIGITS]
    data_digits = canonical_sha256(data.as_json)[:_DIGITS]
    return f"judge:{judge_digits}|data:{data_digits}"


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that can change a number."""
    return {package: package_version(package) for package in _PACKAGES}
