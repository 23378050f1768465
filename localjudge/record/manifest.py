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

from pydantic import ConfigDict, Field, FiniteFloat, model_validator

from localjudge import model_registry, resources
from localjudge.dataset.samples import Shard
from localjudge.errors import InputError, RunDirectoryError
from localjudge.metrics import catalog
from localjudge.metrics.criterion import Criterion, rubrics
from localjudge.metrics.metric import Metric, options_of
from localjudge.record.directory import BY_HAND, excerpt, read_object, validated
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


class Manifest(Record):
    """The file `manifest.json`."""

    model_config = ConfigDict(extra="ignore")

    schema_version: int = MANIFEST_VERSION
    signature: str
    judge: dict[str, Any]
    data: dict[str, Any]
    environment: dict[str, Any]


class Part(Record):
    """How many samples a run has of how many that the data had, and how they were chosen; a shard may be of a part."""

    samples: int = Field(ge=0)
    whole: int = Field(ge=0)
    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    shard: str | None = None

    def __str__(self) -> str:
        """`10 of 306 samples, drawn by seed 0`."""
        of = f"{self.samples:,} of {self.whole:,} samples"
        if self.shard is None:
            return f"the first {of}" if self.sample is None else f"{of}, drawn by seed {self.seed}"
        chosen = f" of {self.sample:,} drawn by seed {self.seed}" if self.sample is not None else ""
        return f"{of}, shard {self.shard}{f' of the first {self.limit:,}' if self.limit is not None else chosen}"


def chosen_part(settings: Mapping[str, Any], samples: int, whole: int) -> Part | None:
    """The part that settings of a run have chosen; None if it is all of the data."""
    if samples == whole:
        return None
    chosen = {name: settings[name] for name in Part.model_fields if name in settings}
    return validated(Part, {"samples": samples, "whole": whole, **chosen}, "manifest.json: samples_read")


class Difference(Record):
    """One ingredient that differs between two manifests; None where one of them does not have it."""

    ingredient: str
    before: Any
    after: Any


def judge_part(
    engine_identity: Mapping[str, Any],
    judge_identity: Mapping[str, Any],
    segmenter_identity: Mapping[str, str],
    metrics: Sequence[Metric],
    rule: VerdictRule,
) -> dict[str, Any]:
    """All that can move a number except the data."""
    return {
        "engine": dict(engine_identity),
        "judge": dict(judge_identity),
        "segmenter": dict(segmenter_identity),
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


def answering_part(judge: Mapping[str, Any]) -> dict[str, Any]:
    """What of a judge part can move an answer: the engine, its prompts and grammars, the versions of the packages.

    The rest decides what is asked, which is in the key of a request, or what is made of an answer.
    """
    part = {name: judge.get(name) for name in ("engine", "judge", "versions")}
    if isinstance(asks := part["judge"], Mapping):
        part["judge"] = {name: value for name, value in asks.items() if name != "special_tasks"}
    return part


def data_part(
    fingerprint: str, rows: int, clusters_sha256: str | None, largest_draw: int | None = None
) -> dict[str, Any]:
    """The samples, the groups that they belong to and how they were drawn, which move the intervals."""
    part = {"sha256": fingerprint, "rows": rows, "clusters_sha256": clusters_sha256}
    return part if largest_draw is None else {**part, "largest_draw": largest_draw}


def whole_data(manifest: Manifest) -> dict[str, Any]:
    """The data part of all that a run drew its samples from: of a run that did not stop early its own."""
    return dict(manifest.environment.get("drawn_from") or manifest.data)


def part_of(manifest: Manifest) -> Part | None:
    """Which part of the data a run is about; None if it is all of it."""
    environment = manifest.environment
    return chosen_part(environment["settings"], manifest.data["rows"], environment["samples_read"])


def finished_part(manifest: Manifest | None) -> dict[str, Any]:
    """What a manifest says of a finished run: it stays there while the run is begun once more."""
    environment = manifest.environment if manifest else {}
    return {name: environment[name] for name in ("answers", "files") if name in environment}


def with_environment(manifest: Manifest, more: Mapping[str, Any]) -> Manifest:
    """The manifest, of whose environment more is known."""
    return manifest.model_copy(update={"environment": {**manifest.environment, **more}})


def signature(judge: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """Both parts on one line, eight hexadecimal digits each."""
    return f"judge:{canonical_sha256(judge)[:_DIGITS]}|data:{canonical_sha256(data)[:_DIGITS]}"


def host() -> dict[str, Any]:
    """The machine and the interpreter, to look for the reason of a difference."""
    return {**platform.uname()._asdict(), "processors": os.cpu_count(), "python": platform.python_version()}


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """Ingredients that differ between two parts of manifests, named by their path: `engine.n_ctx`."""
    old, new = _leaves(before), _leaves(after)
    return [
        Difference(ingredient=name, before=old.get(name), after=new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def only_rounds(change: Difference) -> bool:
    """Whether the ingredient moves the last digits of a probability alone."""
    return _ROUNDING.fullmatch(change.ingredient) is not None


def refuse_other_run(directory: Path, there: Manifest, here: Manifest) -> None:
    """Raise RunDirectoryError, naming what differs, unless the run in the directory is this one, or goes on as this."""
    if different := differences(whole_data(there), whole_data(here)) + differences(there.judge, here.judge):
        raise RunDirectoryError(
            f"{directory} belongs to another run ({excerpt(there.signature)}, this one is {here.signature}):"
            f"{format_differences(different)}",
            hint=f"name another directory with {option('out')}, or omit it",
        )


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
    value, and why. `judge` is the `measured_part` of the run with the signature `run`. `fit_for` are the uses that the
    labels show it fit for. These, `worth` and the time a verdict took move no number of a run.
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


def measured_part(judge: Mapping[str, Any], metric: Metric) -> dict[str, Any]:
    """What of a judge part makes the answers to the question of the metric; of combined runs, the same of each judge.

    Of a metric that is not built in, its definition, too: a criterion of the same name may ask something else.
    """
    if "combined" in judge:
        return {"judges": {name: measured_part(part, metric) for name, part in judge["combined"]["judges"].items()}}
    special = judge["judge"].get("special_tasks", {})
    words = {task: special[task] for task in sorted(catalog.special_tasks_of([metric])) if task in special}
    own = {} if catalog.is_ours(metric.name) else {metric.name: judge["metrics"][metric.name]}
    parts = {**answering_part(judge), "special_tasks": words, "metrics": own}
    return {name: part for name, part in parts.items() if part}


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


def kept_calibrations(manifest: Manifest) -> tuple[Calibration, ...]:
    """Those in a manifest. Raises RunDirectoryError for what is not one: no file is read that it may name."""
    values = manifest.environment["settings"].get("calibration", ())
    return tuple(validated(Calibration, value, "manifest.json: calibration") for value in values)


def kept_criteria(manifest: Manifest) -> dict[str, Criterion]:
    """The criteria in a manifest by their names. Raises RunDirectoryError for what is not one."""
    values, where = manifest.environment["settings"].get("criteria", ()), "manifest.json: a criterion"
    try:
        criteria = [Criterion.model_validate(words, context=where) for words in values]
    except InputError as error:
        raise RunDirectoryError(excerpt(error.message), hint=BY_HAND) from error
    return {criterion.name: criterion for criterion in criteria}


def kept_rubrics(manifest: Manifest) -> frozenset[str]:
    """Names of the run's metrics whose verdicts are levels. Raises RunDirectoryError as `kept_criteria` does."""
    return rubrics(kept_criteria(manifest).values())


class ShardedData(Record):
    """The data that all shards make, by its fingerprint and its number of samples."""

    sha256: str
    rows: int = Field(ge=0)


def shard_of(manifest: Manifest) -> ShardedData:
    """What a shard is one of. Raises RunDirectoryError if its manifest does not say."""
    return validated(ShardedData, manifest.environment.get("shard_of"), "manifest.json: shard_of")


def shard_in(manifest: Manifest) -> Shard | None:
    """Which shard a run is; None if it is not one. Raises InputError if its manifest names one that cannot be."""
    name = manifest.environment["settings"].get("shard")
    return Shard.read(name) if name is not None else None


class CombinedRun(Record):
    """A run that was combined: its directory and signature, the id of its judge, and the judge's name in results."""

    name: str
    judge: str
    run: str
    signature: str


class _JudgePart(Record):
    model_config = ConfigDict(extra="ignore", strict=True)

    engine: dict[str, Any]
    judge: dict[str, Any]


class Combination(Record):
    """Which runs were combined, and how."""

    model_config = ConfigDict(extra="ignore")

    runs: tuple[CombinedRun, ...]
    rule: Literal["mean log odds"]
    judges: dict[str, _JudgePart]

    @model_validator(mode="after")
    def _of_these_judges(self) -> Self:
        if not self.runs or {run.judge for run in self.runs} != self.judges.keys():
            raise ValueError("its runs are not those of its judges")
        return self

    @property
    def card(self) -> JudgeCard:
        """All judges as one, and what has to be said of each."""
        cards = [judge_card(run.name, self.judges[run.judge].engine) for run in self.runs]
        return JudgeCard(
            name=f"{' + '.join(card.name for card in cards)} by {self.rule}",
            caution="; ".join(f"{card.name}: {card.caution}" for card in cards if card.caution) or None,
        )

    @property
    def ids(self) -> dict[str, str]:
        """The ids of the judges by the names that results show."""
        return {run.name: run.judge for run in self.runs}


def combination_of(manifest: Manifest) -> Combination | None:
    """Which runs were combined, and how; None for another run. Raises RunDirectoryError if it is not of its judges."""
    if "combined" not in manifest.judge:
        return None
    values = {**manifest.judge["combined"], "runs": manifest.environment.get("combined")}
    return validated(Combination, values, "manifest.json: combined")


def judge_parts(judge: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The judge part of a run; of a combined run that of each of its runs."""
    return list(judge["combined"]["judges"].values()) if "combined" in judge else [judge]


def card_of(manifest: Manifest) -> JudgeCard:
    """Who judged, as the manifest says it."""
    if combination := combination_of(manifest):
        return combination.card
    engine = manifest.judge.get("engine", {})
    source = manifest.environment.get("judge") or engine.get("engine")
    return judge_card(str(engine.get("model") or Path(str(source)).stem), engine)


def judge_card(name: str, engine: Mapping[str, Any]) -> JudgeCard:
    """Who judges, as every result says it; a caution of the packaged registry comes before one of the user's own."""
    sha256 = engine.get("model_sha256")
    model = model_registry.packaged_as(str(sha256)) or model_registry.registered_as(str(sha256))
    return JudgeCard(
        name=name,
        sha256=sha256,
        size=engine.get("model_size"),
        quantisation=engine.get("quantisation"),
        caution=(model.caution or None) if model else UNPROVED if is_unproved(engine) else None,
    )


def is_unproved(engine: Mapping[str, Any]) -> bool:
    """Whether a model answers that is known by a name alone: nobody has seen its bytes."""
    return "model" in engine and "model_sha256" not in engine


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


def remember_examination(part: Mapping[str, Any], examination: Examination) -> None:
    """Remember it of the judge with this `engine` and `judge`; nothing of a model without a checksum."""
    if file := _examination_file(part):
        resources.remember(file, str(examination))


def with_examination(card: JudgeCard, manifest: Manifest) -> JudgeCard:
    """The card of a run's judge with what this machine found it fit for."""
    file, words = _examination_file(manifest.judge), None
    if file and file.exists():
        words = file.read_text()
    elif file and not card.caution:
        words = NOT_EXAMINED
    return card.model_copy(update={"examined": words})


def _examination_file(part: Mapping[str, Any]) -> Path | None:
    sha256 = part.get("engine", {}).get("model_sha256")
    key = canonical_sha256({"model_sha256": sha256, "judge": answering_part(part)["judge"]})
    return resources.state_directory() / "examined" / f"{key}.txt" if sha256 else None
