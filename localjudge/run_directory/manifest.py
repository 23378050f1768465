"""Manifest of a run: everything that affects its numbers, and a short signature.

    judge:3f9a1c2e|data:77b0d4aa
          │             └── first digits of sha256 over `data`: the samples, in any order and format
          └── first digits of sha256 over `judge`: model, processor features, prompts, grammars,
              cuts, metrics, versions

Equal signatures mean equal numbers.
"""

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from pydantic import (
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from localjudge import model_registry
from localjudge.dataset.samples import Shard
from localjudge.errors import RunDirectoryError
from localjudge.metrics import catalog
from localjudge.metrics.criterion import Criterion, rubrics
from localjudge.metrics.metric import Metric, get_options
from localjudge.run_directory.calibration import Calibration
from localjudge.run_directory.differences import differences, format_differences, other_differences
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.jury import jury_card
from localjudge.run_directory.sampling import Sampling
from localjudge.run_directory.store import canonical_sha256
from localjudge.types import Combination, JudgeCard, Record, VerdictRule
from localjudge.words import option

MANIFEST_VERSION = 1
_DIGITS = 8
_PACKAGES = ("localjudge", "llama-cpp-python", "llguidance", "numpy", "outlines_core", "spacy")
UNPROVED = "bytes not proved"


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


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that can change a number."""
    return {package: version(package) for package in _PACKAGES}


def all_versions() -> dict[str, str]:
    """Return the versions of Python and the packages."""
    return {"python": platform.python_version(), **package_versions()}


def host() -> dict[str, Any]:
    return {
        **platform.uname()._asdict(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
    }


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

    def card(self, name: str) -> JudgeCard:
        return JudgeCard(
            name=name,
            sha256=self.model_sha256,
            size=self.model_size,
            quantisation=self.quantisation,
            caution=self._caution(),
        )

    def _caution(self) -> str | None:
        sha256 = str(self.model_sha256)
        model = model_registry.packaged_as(sha256) or model_registry.registered_as(sha256)
        if model:
            return model.caution or None
        if self.is_unproved:
            return UNPROVED
        return None


class PromptsIdentity(ManifestPart):
    """How the judge is asked. `special_tasks` are the questions of only some metrics."""

    profile: str | None = None
    profile_sha256: str | None = None
    reasons: str | None = None
    special_tasks: dict[str, dict[str, str]] = Field(default_factory=dict)

    @property
    def answering(self) -> dict[str, Any]:
        """The part that can change an answer to a question of every metric."""
        return self.model_dump(mode="json", exclude={"special_tasks"})


class JuryMember(ManifestPart):
    """A judge of a jury, with its scales by kind of question if they give its weights."""

    engine: EngineIdentity
    judge: PromptsIdentity
    scales: dict[str, float] = Field(default_factory=dict)

    @property
    def answering(self) -> dict[str, Any]:
        """The part that can change an answer."""
        return {"engine": self.engine.as_json, "judge": self.judge.answering}


class CombinationIdentity(ManifestPart):
    """Weight of each judge of a jury by name, and the bias."""

    weights: dict[str, float]
    bias: float = 0.0

    @property
    def value(self) -> Combination:
        return Combination(self.weights, self.bias)


class MetricIdentity(ManifestPart):
    """Version and options of a metric, or the checksum of a criterion."""

    version: int | str
    criterion_sha256: str | None = None


class JudgeIdentity(ManifestPart):
    """Everything that can change a number, except the data.

    `jury` has the judges of a jury by name, in the order of their names, and `combinations` their
    weights by metric.
    """

    engine: EngineIdentity
    jury: dict[str, JuryMember] = Field(default_factory=dict)
    combinations: dict[str, CombinationIdentity] = Field(default_factory=dict)
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
        engine: Mapping[str, Any],
        prompts: Mapping[str, Any],
        segmenter: Mapping[str, str],
        metrics: Sequence[Metric],
        rule: VerdictRule,
        calibrations: Mapping[str, str] = MappingProxyType({}),
        jury: Mapping[str, JuryMember] = MappingProxyType({}),
    ) -> Self:
        values: dict[str, Any] = {
            "engine": engine,
            "judge": prompts,
            "segmenter": dict(segmenter),
            "metrics": {metric.name: _identify_metric(metric) for metric in metrics},
            "threshold": rule.threshold,
            "versions": package_versions(),
        }
        if jury:
            values["jury"] = dict(jury)
            values["combinations"] = {
                name: combination._asdict() for name, combination in rule.combinations.items()
            }
        if rule.thresholds:
            values["thresholds"] = dict(rule.thresholds)
        if rule.min_valid_mass:
            values["min_valid_mass"] = rule.min_valid_mass
        if calibrations:
            values["calibrations"] = dict(calibrations)
        return cls.model_validate(values)

    @property
    def answering(self) -> dict[str, Any]:
        """The part that can change an answer."""
        if self.jury:
            return {"jury": {name: member.answering for name, member in self.jury.items()}}
        return {"engine": self.engine.as_json, "judge": self.judge.answering}

    @property
    def answering_judges(self) -> list[dict[str, Any]]:
        """The part of each judge that can change an answer."""
        if self.jury:
            return [member.answering for member in self.jury.values()]
        return [self.answering]

    @property
    def engines(self) -> list[dict[str, Any]]:
        """Identity of each judge's engine."""
        if self.jury:
            return [member.engine.as_json for member in self.jury.values()]
        return [self.engine.as_json]

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
        for task in sorted(catalog.list_special_tasks([metric])):
            if task in self.judge.special_tasks:
                words[task] = self.judge.special_tasks[task]
        if words:
            measured["special_tasks"] = words
        if not catalog.is_ours(metric.name):  # a criterion of the same name may differ
            measured["metrics"] = {metric.name: self.metrics[metric.name].as_json}
        return measured


def _identify_metric(metric: Metric) -> dict[str, Any]:
    identity = {"version": metric.version, **get_options(metric)}
    if isinstance(metric, Criterion):
        identity["criterion_sha256"] = metric.sha256
    return identity


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


class KeptSettings(ManifestPart):
    """Settings of a run that are used without a judge."""

    max_failed: NonNegativeInt | None = None
    cluster_by: str | None = None
    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    shard: str | None = None
    until: tuple[str, ...] = Field(default=(), strict=False)
    width: float | None = None
    criteria: tuple[Criterion, ...] = Field(default=(), strict=False)
    calibration: tuple[Calibration, ...] = Field(default=(), strict=False)


class Effort(ManifestPart):
    """Resources used by a process."""

    seconds_total: FiniteFloat | None = Field(default=None, ge=0)


class Session(ManifestPart):
    """A process that worked on a run, with the answers and labels (by annotator) at its start.

    `reused_versions` are the versions of each run with reused answers.
    """

    started: str = ""
    versions: dict[str, str] = Field(default_factory=dict)
    reused_versions: dict[str, dict[str, str]] = Field(default_factory=dict)
    answers_before: NonNegativeInt = 0
    labels_before: dict[str, NonNegativeInt] = Field(default_factory=dict)
    finished: str | None = None
    asked: NonNegativeInt | None = None
    effort: Effort | None = None


class IndexLevel(ManifestPart):
    """Level of a pandas index."""

    column: str
    name: str | None
    dtype: str


class AnswersUsed(ManifestPart):
    """Number of requested answers, and of reused answers by source."""

    asked: int
    reused: dict[str, int]


class EvidenceIdentity(ManifestPart):
    """Everything that affects the evidence of verdicts: the finder, and its language."""

    finder: str
    version: int
    language: str


class Environment(ManifestPart):
    """Everything that cannot change a number: origin of judge and data, settings, processes.

    `shard_of` is the data of all shards, `drawn_from` the data of a stopped run.
    """

    judge: str | None = None
    judges: tuple[str, ...] = Field(default=(), strict=False)
    sources: tuple[str, ...] = Field(default=(), strict=False)
    samples_read: NonNegativeInt
    skipped_rows: NonNegativeInt = 0
    mapping: dict[str, str] = Field(default_factory=dict)
    settings: KeptSettings
    shard_of: DataIdentity | None = None
    index: tuple[IndexLevel, ...] = Field(default=(), strict=False)
    stopped: str | None = None
    drawn_from: DataIdentity | None = None
    host: dict[str, Any] = Field(default_factory=dict)
    sessions: tuple[Session, ...] = Field(strict=False)
    answers: AnswersUsed | None = None
    evidence: EvidenceIdentity | None = None
    files: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _require_whole_of_shard(self) -> Self:
        if self.settings.shard is not None and self.shard_of is None:
            raise ValueError("shard_of is missing, so the data of this shard is unknown")
        return self


class Manifest(Record):
    """The file `manifest.json`."""

    model_config = ConfigDict(extra="ignore")

    schema_version: int = MANIFEST_VERSION
    signature: str
    judge: JudgeIdentity
    data: DataIdentity
    environment: Environment

    @classmethod
    def of(cls, judge: JudgeIdentity, data: DataIdentity, environment: Mapping[str, Any]) -> Self:
        validated = Environment.model_validate(environment)
        return cls(signature=signature(judge, data), judge=judge, data=data, environment=validated)

    @property
    def card(self) -> JudgeCard:
        if self.judge.jury:
            return self._card_of_jury()
        engine = self.judge.engine
        return engine.card(engine.model or Path(self.environment.judge or engine.engine).stem)

    def _card_of_jury(self) -> JudgeCard:
        cards = [member.engine.card(name) for name, member in self.judge.jury.items()]
        registered = model_registry.registered_juries().get(self.environment.judge or "")
        name = self.environment.judge
        sums = [card.sha256 for card in cards]
        if registered is None or not model_registry.has_judges(registered, sums):
            return jury_card(cards, name, None)
        return jury_card(cards, name, registered.caution or None)

    @property
    def whole_data(self) -> DataIdentity:
        return self.environment.drawn_from or self.data

    @property
    def sampling(self) -> Sampling:
        return Sampling.of(
            self.environment.settings,
            self.data.rows,
            self.environment.samples_read,
            self.data.max_cluster_size,
        )

    @property
    def shard(self) -> Shard | None:
        """The shard. Raises InputError if invalid."""
        name = self.environment.settings.shard
        if name is None:
            return None
        return Shard.read(name)

    @property
    def criteria(self) -> dict[str, Criterion]:
        return {criterion.name: criterion for criterion in self.environment.settings.criteria}

    @property
    def rubrics(self) -> frozenset[str]:
        return rubrics(self.criteria.values())

    def metric(self, name: str) -> Metric:
        return self.criteria.get(name) or catalog.get(name)

    @property
    def versions(self) -> dict[str, str]:
        """Versions of Python and packages in the last process that worked on the run."""
        sessions = self.environment.sessions
        if not sessions:
            return {}
        return sessions[-1].versions

    def with_environment(self, **more: Any) -> Self:
        return self.model_copy(update={"environment": self.environment.changed(**more)})

    def refuse_other_run(self, directory: Path, existing: "Manifest") -> None:
        """Raise RunDirectoryError unless the `existing` run can continue as this one.

        Updated packages do not prevent it, except those of the engine.
        """
        changes = differences(existing.whole_data, self.whole_data)
        changes += other_differences(existing.judge, self.judge)
        if changes:
            signatures = f"{excerpt(existing.signature)}, not {self.signature}"
            raise RunDirectoryError(
                f"{directory} belongs to another run ({signatures}):{format_differences(changes)}",
                hint=f"name another directory with {option('out')}, or omit it",
            )


def finished_part(manifest: Manifest | None) -> dict[str, Any]:
    """Return the parts of a finished run's environment to keep when it is run again."""
    if manifest is None:
        return {}
    return manifest.environment.model_dump(mode="json", include={"answers", "files"})


def signature(judge: JudgeIdentity, data: DataIdentity) -> str:
    judge_digits = canonical_sha256(judge.as_json)[:_DIGITS]
    data_digits = canonical_sha256(data.as_json)[:_DIGITS]
    return f"judge:{judge_digits}|data:{data_digits}"
