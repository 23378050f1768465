"""What the numbers of a run rest on: everything that can move one, a short signature of it, what is known of its judge.

    judge:3f9a1c2e|data:77b0d4aa
          │              └── first digits of sha256 over `data`: the samples themselves, in no order and no format
          └── first digits of sha256 over `judge`: model, processor features, prompts, grammars, cuts, metrics, versions

Equal signatures mean equal numbers. `environment`, which is not signed, holds what cannot move a number, and every word
that the signature has a checksum of.

    judge.metrics.NAME            checksum of a criterion      environment.settings.criteria
    judge.calibrations.QUESTION   checksum of a calibration    environment.settings.calibration, which is saved under
    judge.thresholds.METRIC       what it decides              LOCALJUDGE_HOME/calibrations/NAME.json
    judge.combined                judges and rule of a combined run;  environment.combined: the runs, and their names
    environment.shard_of          the data that all shards of `settings.shard` make
    environment.drawn_from        the data of which a run judged the first samples in a random order, and stopped

`data.largest_draw` is there if scores decided when to stop: intervals are then confidence sequences.

A calibration is of a *question*, and of the judge that was measured: another model, prompt, grammar or way of asking is
refused. Packages and processors that round otherwise move the last digits of a probability, which is said.

LOCALJUDGE_HOME/examined/KEY.txt has what `doctor` found a judge fit for, which is shown with all its numbers; KEY is a
sha256 of the model's checksum, its prompts and grammars.
"""

import os
import platform
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pydantic import (
    ConfigDict,
    Field,
    FiniteFloat,
    ModelWrapValidatorHandler,
    NonNegativeInt,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from localjudge import model_registry, resources
from localjudge.dataset.samples import Shard
from localjudge.errors import InputError, RunDirectoryError
from localjudge.metrics import catalog
from localjudge.metrics.criterion import Criterion, rubrics
from localjudge.metrics.metric import Metric, options_of
from localjudge.record.directory import excerpt, read_object, validated
from localjudge.record.sampling import Sampling
from localjudge.record.store import canonical_sha256
from localjudge.types import JudgeCard, Record, VerdictRule
from localjudge.words import option, option_name, suggestion

MANIFEST_VERSION = 1
_DIGITS = 8
_SHOWN = 5
_METRIC = re.compile(r"metrics\.(.+)\.version")
_DATA = {"sha256": "the data differ", "clusters_sha256": "the groups of the samples differ"}
_PACKAGES = ("localjudge", "llama-cpp-python", "llguidance", "numpy", "outlines_core", "spacy")
_NAME = re.compile(r"\w[\w.-]{0,79}", re.ASCII)
_ROUNDING = re.compile(
    r"(judges\.\w+\.)?(versions\..*|engine\.(llama_cpp|llama_cpp_python|llguidance|system|self_check|gpu_layers|n_ubatch|flash_attention))"
)
"""Ingredients of a judge that move the last digits of a probability alone."""
_GUESSING = 0.5  # AUC of a judge that guesses
UNPROVED = "bytes not proved"
MEAN_LOG_ODDS: Literal["mean log odds"] = "mean log odds"
NOT_EXAMINED = "not examined: localjudge doctor --judge ..."


class AsWritten(Record, extra="allow", strict=True):
    """A part of a manifest. It is written with the names that it was made with, in their order, unknown ones too."""

    _names: tuple[str, ...] = PrivateAttr(default=())

    @model_validator(mode="wrap")
    @classmethod
    def _with_names(cls, values: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        part = validate(values)
        if isinstance(values, Mapping):
            part._names = tuple(values)
        return part

    @model_serializer(mode="wrap")
    def _in_order(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values = serialize(self)
        return {name: values[name] for name in self._names}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsWritten) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def as_json(self) -> dict[str, Any]:
        """The JSON values that a manifest has of it."""
        return self.model_dump(mode="json")

    def changed(self, **values: Any) -> Self:
        """The same with other values."""
        return type(self)(**{name: getattr(self, name) for name in self._names} | values)


class Difference(Record):
    """One ingredient that differs between two manifests; None where one of them does not have it."""

    ingredient: str
    before: Any
    after: Any


def host() -> dict[str, Any]:
    """The machine and the interpreter, to look for the reason of a difference."""
    return {**platform.uname()._asdict(), "processors": os.cpu_count(), "python": platform.python_version()}


def differences(before: Mapping[str, Any] | AsWritten, after: Mapping[str, Any] | AsWritten) -> list[Difference]:
    """Ingredients that differ between two parts of manifests, named by their path: `engine.n_ctx`."""
    old, new = (_leaves(part.as_json if isinstance(part, AsWritten) else part) for part in (before, after))
    return [
        Difference(ingredient=name, before=old.get(name), after=new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def only_rounds(change: Difference) -> bool:
    """Return whether the ingredient only affects the last digits of a probability."""
    return _ROUNDING.fullmatch(change.ingredient) is not None


def format_differences(different: Sequence[Difference]) -> str:
    """The first of them, each on a line of its own with what it is on either side; how many more there are."""
    lines = list(dict.fromkeys(map(_in_words, different)))
    more = len(lines) - _SHOWN
    return "".join(f"\n  {line}" for line in lines[:_SHOWN]) + (f"\n  and {more} more" if more > 0 else "")


def _in_words(change: Difference) -> str:
    """A metric that one run lacks and other data are said as such; checksums of data tell nobody anything."""
    metric = _METRIC.fullmatch(change.ingredient)
    if metric and None in (change.before, change.after):
        has, lacks = ("that run", "this one") if change.after is None else ("this run", "that one")
        return f"{has} has {excerpt(metric[1])}, {lacks} does not"
    if (part := _DATA.get(change.ingredient.removeprefix("data."))) is not None:
        return part
    return f"{excerpt(change.ingredient)}: {excerpt(change.before)} there, {excerpt(change.after)} now"


def _leaves(part: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for name, value in part.items():
        leaves |= _leaves(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return leaves


class Figure(Record):
    """A number and the limits of its 95 % interval, over clusters."""

    value: FiniteFloat
    ci95: tuple[FiniteFloat, FiniteFloat]


class LabelsUsed(Record):
    """The labels: their file and its checksum, how many, and how many independent groups of them.

    On `failed` of them the judge gave no verdict; if `weighted`, some were likelier to be labelled than others.
    """

    file: str
    sha256: str
    shape: Literal["verdicts", "attribution", "relevance"]
    verdicts: int
    positives: int
    clusters: int
    clustered_by: str
    unlabelled: int = 0
    failed: int = 0
    weighted: bool = False


class Worth(Record):
    """What a judge saves: labels alone would need `labels` more than `of` for an interval as narrow as with it."""

    labels: int
    of: int


class Calibration(Record):
    """A judge measured on human labels of one question; `threshold` is chosen on all of them.

    `figures` are of the probabilities, `at_one_half` of the decisions at .5, `held_out` of the decisions at thresholds
    that were chosen on other clusters: what is to be expected of `threshold`. `undefined` says which figures have no
    value, and why. `judge` is `JudgeIdentity.measured` of the run with the signature `run`. `fit_for` are the uses that
    the labels show it fit for. These, `worth` and the time a verdict took move no number of a run.
    """

    model_config = ConfigDict(extra="ignore")

    schema_version: int = 1
    name: str
    question: str
    threshold: float = Field(ge=0, le=1)
    judge: dict[str, Any]
    card: JudgeCard
    run: str
    labels: LabelsUsed
    figures: dict[str, Figure]
    at_one_half: dict[str, Figure]
    held_out: dict[str, Figure]
    undefined: dict[str, str] = Field(default_factory=dict)
    fold_thresholds: tuple[FiniteFloat, ...]
    worth: Worth | None = None
    seconds_per_verdict: FiniteFloat | None = None
    fit_for: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    created: str

    @property
    def sha256(self) -> str:
        """Checksum of all that was measured but the time that it took."""
        left_out = {"name", "created", "worth", "seconds_per_verdict", "fit_for"}
        return canonical_sha256(self.model_dump(mode="json", exclude=left_out))

    @property
    def guesses(self) -> bool:
        """Whether the judge is not shown to be better than guessing, of which the AUC is .5."""
        auc = self.figures.get("auc")
        return auc is None or auc.ci95[0] <= _GUESSING

    def differences_of_judge(self, measured: Mapping[str, Any]) -> tuple[list[Difference], list[Difference]]:
        """Where the judge is another one than was measured: what can change its mind, and what rounds otherwise."""
        different = differences(self.judge, measured)
        rounding = list(filter(only_rounds, different))
        return [change for change in different if change not in rounding], rounding


def calibrations_of(values: object) -> tuple[Calibration, ...]:
    """Calibrations from names, files and calibrations; one, or a list of them, each of another question.

    Raises InputError for what is not one, and for two of one question.
    """
    listed = values if isinstance(values, Sequence) and not isinstance(values, str) else [values]
    by_question: dict[str, Calibration] = {}
    for value in () if values is None else listed:
        if not isinstance(value, str | Path | Calibration):
            raise InputError(f"{option_name('calibration')} must be names or files of calibrations, got {value!r:.80}")
        calibration = value if isinstance(value, Calibration) else read_calibration(value)
        other = by_question.setdefault(calibration.question, calibration)
        if other != calibration:
            problem = f"{other.name} and {calibration.name} are both calibrations of {calibration.question}"
            raise InputError(problem, hint="name one for each question")
    return tuple(by_question.values())


def calibration_file(name: str) -> Path:
    """Where a calibration of this name is kept. Raises InputError for what cannot be a name."""
    if not _NAME.fullmatch(name):
        hint = "a name has letters, digits, _, - and ., at most 80"
        raise InputError(f"a calibration cannot be called {name!r:.80}", hint=hint)
    return resources.state_directory() / "calibrations" / f"{name}.json"


def saved_calibrations() -> list[str]:
    """Names of those that are saved."""
    return sorted(file.stem for file in calibration_file("x").parent.glob("*.json"))


def read_calibration(name_or_file: str | Path) -> Calibration:
    """A saved calibration by its name, or one in any file. Raises InputError if there is none, or it is none."""
    named = calibration_file(str(name_or_file)) if _NAME.fullmatch(str(name_or_file)) else None
    path = named if named and named.is_file() else Path(name_or_file)
    if not path.is_file():
        saved, how = saved_calibrations(), "make one: localjudge calibrate LABELS --judge NAME|PATH"
        raise InputError(
            f"there is no calibration {str(name_or_file)!r:.80}, neither by that name nor as a file",
            hint=suggestion(str(name_or_file), saved, "saved") if saved else how,
        )
    return validated(Calibration, read_object(path.resolve()), str(path))


def save_calibration(calibration: Calibration) -> None:
    """Write it under its name, whole or not at all, for this user alone; one that was there is replaced.

    Raises InputError where it cannot be written, OutOfResource where there is no room.
    """
    path = calibration_file(calibration.name)
    resources.make_private(path.parent)
    resources.write_output(path, [f"{calibration.model_dump_json(indent=2)}\n".encode()])


class EngineIdentity(AsWritten):
    """What an engine says of itself: all that can move an answer, of which these names are known to all."""

    engine: str
    model: str | None = None
    model_sha256: str | None = None
    model_size: int | None = None
    quantisation: str | None = None
    n_ctx: int | None = None
    batching: str | None = None
    host: str | None = None

    @property
    def is_unproved(self) -> bool:
        """Whether a model answers that is known by a name alone: nobody has seen its bytes."""
        return self.model is not None and self.model_sha256 is None

    def card(self, name: str) -> JudgeCard:
        """Who judges, as every result says it; a caution of the packaged registry comes before one of the user's."""
        sha256 = str(self.model_sha256)
        model = model_registry.packaged_as(sha256) or model_registry.registered_as(sha256)
        return JudgeCard(
            name=name,
            sha256=self.model_sha256,
            size=self.model_size,
            quantisation=self.quantisation,
            caution=(model.caution or None) if model else UNPROVED if self.is_unproved else None,
        )


class PromptsIdentity(AsWritten):
    """How the judge is asked; `special_tasks` are the words and answers of questions that only some metrics ask."""

    profile: str | None = None
    profile_sha256: str | None = None
    reasons: str | None = None
    protocol: str | None = None
    special_tasks: dict[str, dict[str, str]] = Field(default_factory=dict)

    @property
    def of_answers(self) -> dict[str, Any]:
        """What can move an answer: special tasks are in the keys of their requests."""
        return {name: value for name, value in self.as_json.items() if name != "special_tasks"}


class MetricIdentity(AsWritten):
    """A metric: its version and its options; of a criterion the checksum."""

    version: int | str
    criterion_sha256: str | None = None


class JudgeIdentity(AsWritten):
    """All that can move a number except the data."""

    engine: EngineIdentity
    judge: PromptsIdentity = Field(default_factory=PromptsIdentity)
    segmenter: dict[str, str] = Field(default_factory=dict)
    metrics: dict[str, MetricIdentity]
    threshold: float
    thresholds: dict[str, float] = Field(default_factory=dict)
    min_legal_mass: float = 0.0
    versions: dict[str, str] = Field(default_factory=dict)
    calibrations: dict[str, str] = Field(default_factory=dict)
    combined: "CombinedJudges | None" = None

    @classmethod
    def of(
        cls,
        engine: Mapping[str, Any],
        prompts: Mapping[str, Any],
        segmenter: Mapping[str, str],
        metrics: Sequence[Metric],
        rule: VerdictRule,
        **more: Any,
    ) -> Self:
        """The identity of an engine that is asked by these prompts; `more` are calibrations or the judges combined."""
        values: dict[str, Any] = {
            "engine": engine,
            "judge": prompts,
            "segmenter": dict(segmenter),
            "metrics": {
                metric.name: {
                    "version": metric.version,
                    **options_of(metric),
                    **({"criterion_sha256": metric.sha256} if isinstance(metric, Criterion) else {}),
                }
                for metric in metrics
            },
            "threshold": rule.threshold,
            **({"thresholds": dict(rule.thresholds)} if rule.thresholds else {}),
            **({"min_legal_mass": rule.min_legal_mass} if rule.min_legal_mass else {}),
            "versions": {package: version(package) for package in _PACKAGES},
        }
        return cls.model_validate(values | more)

    @property
    def answering(self) -> dict[str, Any]:
        """What can move an answer: the engine, its prompts and grammars, the versions of the packages.

        The rest decides what is asked, which is in the key of a request, or what is made of an answer.
        """
        return {"engine": self.engine.as_json, "judge": self.judge.of_answers, "versions": self.versions}

    @property
    def each(self) -> dict[str, "JudgeIdentity"]:
        """The judges of a combined run by their ids; of another run nothing."""
        return self.combined.judges if self.combined else {}

    def measured(self, metric: Metric) -> dict[str, Any]:
        """What makes the answers to the question of the metric; of combined runs, the same of each judge.

        Of a metric that is not built in, its definition, too: a criterion of the same name may ask something else.
        """
        if self.each:
            return {"judges": {name: judge.measured(metric) for name, judge in self.each.items()}}
        special = self.judge.special_tasks
        words = {task: special[task] for task in sorted(catalog.special_tasks_of([metric])) if task in special}
        own = {} if catalog.is_ours(metric.name) else {metric.name: self.metrics[metric.name].as_json}
        parts = {**self.answering, "special_tasks": words, "metrics": own}
        return {name: part for name, part in parts.items() if part}


class CombinedJudges(AsWritten):
    """The judges of combined runs by their ids, and the rule that makes one verdict of theirs."""

    rule: Literal["mean log odds"]
    judges: dict[str, JudgeIdentity]


class DataIdentity(AsWritten):
    """The samples, the groups that they belong to and how they were drawn, which move the intervals."""

    sha256: str
    rows: int = Field(ge=0)
    clusters_sha256: str | None = None
    largest_draw: int | None = Field(default=None, ge=1)

    @classmethod
    def of(cls, sha256: str, rows: int, groups: Mapping[str, str] | None, largest_draw: int | None = None) -> Self:
        """The identity of samples with this fingerprint."""
        clusters = None if groups is None else canonical_sha256(groups)
        drawn = {} if largest_draw is None else {"largest_draw": largest_draw}
        return cls(sha256=sha256, rows=rows, clusters_sha256=clusters, **drawn)


class KeptSettings(AsWritten):
    """The settings of a run, of which these are used without a judge."""

    max_failed: NonNegativeInt
    cluster_by: str | None = None
    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    shard: str | None = None
    until: tuple[str, ...] = Field(default=(), strict=False)
    width: float | None = None
    criteria: tuple[Criterion, ...] = Field(default=(), strict=False)
    calibration: tuple[Calibration, ...] = Field(default=(), strict=False)


class Effort(AsWritten):
    """What a process spent."""

    seconds_total: FiniteFloat | None = Field(default=None, ge=0)


class Session(AsWritten):
    """One process that worked on a run; one that was killed says nothing of what it did.

    `answers_before` were in the directory when it began, and so were `labels_before`, counted by annotator.
    """

    started: str = ""
    answers_before: NonNegativeInt = 0
    labels_before: dict[str, NonNegativeInt] = Field(default_factory=dict)
    finished: str | None = None
    asked: NonNegativeInt | None = None
    effort: Effort | None = None


class IndexLevel(AsWritten):
    """A level of the index of a pandas frame that was evaluated: the column that it became, its name and its type."""

    column: str
    name: str | None
    dtype: str


class AnswersUsed(AsWritten):
    """How many answers the run asked for, and how many came from elsewhere."""

    asked: int
    reused: dict[str, int]


class CombinedRun(AsWritten):
    """A run that was combined: its directory and signature, the id of its judge, and the judge's name in results."""

    name: str
    judge: str
    run: str
    signature: str


class Environment(AsWritten):
    """What moves no number: where the judge and the data came from, the settings, the machine, the processes.

    `combined` are the runs of a combined run, `shard_of` is the data that all shards make.
    """

    judge: str | None = None
    combined: tuple[CombinedRun, ...] = Field(default=(), strict=False)
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
    files: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names_its_whole(self) -> Self:
        if self.settings.shard is not None and self.shard_of is None:
            raise ValueError("shard_of is missing: it is a shard of unknown data")
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
        """The manifest of these parts, with its signature."""
        made = Environment.model_validate(environment)
        return cls(signature=signature(judge, data), judge=judge, data=data, environment=made)

    @model_validator(mode="after")
    def _of_these_judges(self) -> Self:
        if {run.judge for run in self.environment.combined} != self.judge.each.keys():
            raise ValueError("combined: its runs are not those of its judges")
        return self

    @property
    def card(self) -> JudgeCard:
        """Who judged: of a combined run all judges as one, and what has to be said of each."""
        engine, environment = self.judge.engine, self.environment
        if self.judge.combined is None:
            return engine.card(engine.model or Path(environment.judge or engine.engine).stem)
        cards = [self.judge.each[run.judge].engine.card(run.name) for run in environment.combined]
        return JudgeCard(
            name=f"{' + '.join(card.name for card in cards)} by {self.judge.combined.rule}",
            caution="; ".join(f"{card.name}: {card.caution}" for card in cards if card.caution) or None,
        )

    @property
    def whole_data(self) -> DataIdentity:
        """The data that a run drew its samples from: of a run that did not stop early its own."""
        return self.environment.drawn_from or self.data

    @property
    def sampling(self) -> Sampling:
        """How the samples of the run were chosen."""
        data, environment = self.data, self.environment
        return Sampling.of(environment.settings, data.rows, environment.samples_read, data.largest_draw)

    @property
    def shard(self) -> Shard | None:
        """Which shard a run is; None if it is not one. Raises InputError if its manifest names one that cannot be."""
        name = self.environment.settings.shard
        return None if name is None else Shard.read(name)

    @property
    def criteria(self) -> dict[str, Criterion]:
        """The criteria of the run by their names."""
        return {criterion.name: criterion for criterion in self.environment.settings.criteria}

    @property
    def rubrics(self) -> frozenset[str]:
        """Names of the run's metrics whose verdicts are levels."""
        return rubrics(self.criteria.values())

    def metric(self, name: str) -> Metric:
        """The metric of this name: a criterion of the run, or one that the catalogue finds. Raises InputError."""
        return self.criteria.get(name) or catalog.get(name)

    def with_environment(self, **more: Any) -> Self:
        """The manifest, with more known of its environment."""
        return self.model_copy(update={"environment": self.environment.changed(**more)})

    def refuse_other_run(self, directory: Path, there: "Manifest") -> None:
        """Raise RunDirectoryError, naming what differs, unless the run there is this one, or goes on as this."""
        if different := differences(there.whole_data, self.whole_data) + differences(there.judge, self.judge):
            raise RunDirectoryError(
                f"{directory} belongs to another run ({excerpt(there.signature)}, this one is {self.signature}):"
                f"{format_differences(different)}",
                hint=f"name another directory with {option('out')}, or omit it",
            )


def finished_part(manifest: Manifest | None) -> dict[str, Any]:
    """What a manifest says of a finished run: it stays there while the run is begun once more."""
    environment = manifest.environment.as_json if manifest else {}
    return {name: environment[name] for name in ("answers", "files") if name in environment}


def signature(judge: JudgeIdentity, data: DataIdentity) -> str:
    """Both parts on one line, eight hexadecimal digits each."""
    return f"judge:{canonical_sha256(judge.as_json)[:_DIGITS]}|data:{canonical_sha256(data.as_json)[:_DIGITS]}"


class Examination(NamedTuple):
    """The uses that a judge is fit for in each task, and on how many labelled items; 0 if it failed the plain cases."""

    uses: Mapping[str, Sequence[str]]
    items: int

    def __str__(self) -> str:
        """`fit for: nothing (doctor, 384 items)`."""
        tasks = {task: " and ".join(uses) or "nothing" for task, uses in self.uses.items()}
        alike = len(set(tasks.values())) == 1
        uses = next(iter(tasks.values())) if alike else ", ".join(f"{use} ({task})" for task, use in tasks.items())
        return f"fit for: {uses} (doctor, {f'{self.items:,} items' if self.items else 'plain cases'})"


def remember_examination(engine: EngineIdentity, prompts: PromptsIdentity, examination: Examination) -> None:
    """Remember it of the judge; nothing of a model without a checksum."""
    if file := _examination_file(engine, prompts):
        resources.remember(file, str(examination))


def with_examination(card: JudgeCard, judge: JudgeIdentity) -> JudgeCard:
    """The card of a run's judge with what this machine found it fit for."""
    file, words = _examination_file(judge.engine, judge.judge), None
    if file and file.exists():
        words = file.read_text()
    elif file and not card.caution:
        words = NOT_EXAMINED
    return card.model_copy(update={"examined": words})


def _examination_file(engine: EngineIdentity, prompts: PromptsIdentity) -> Path | None:
    key = canonical_sha256({"model_sha256": engine.model_sha256, "judge": prompts.of_answers})
    return resources.state_directory() / "examined" / f"{key}.txt" if engine.model_sha256 else None
