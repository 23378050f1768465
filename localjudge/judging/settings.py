"""Settings of a run, for the command line, configuration files and `localjudge.evaluate`."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import cleandoc, signature
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any, Literal, ParamSpec, Self, TypedDict, TypeVar

from pydantic import Field, ValidationError, field_validator, model_validator

from localjudge.arguments import check_arguments
from localjudge.dataset.dataset import Shard
from localjudge.engine.protocol import EngineSettings
from localjudge.errors import InputError
from localjudge.judge.profile_choice import (
    ChosenProfile,
    ProfileFolder,
    bundled_profiles,
    choose_profile,
    no_profile,
    read_profile,
    require_reasons,
)
from localjudge.judge.wording import Reasons
from localjudge.metrics.catalog import get_question
from localjudge.metrics.metric import Metric
from localjudge.run_directory.manifest import SettingsOfResults
from localjudge.run_directory.measured_judges import Calibration, CalibrationLike
from localjudge.run_directory.run_record import RunLike, RunRecord
from localjudge.text import Segmenter
from localjudge.text.languages import read_abbreviations
from localjudge.types import ONE_HALF, JudgeWeight, Record, VerdictRule
from localjudge.words import Setting, declare, option, option_name, suggestion

_HELP_WIDTH = 100
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class VerifySettings(TypedDict, total=False):
    """Settings that `Run.verify` takes. They change no number."""

    threads: int | None
    ray: str | None


class DoctorSettings(TypedDict, total=False):
    """Settings of a judge that `localjudge doctor` takes."""

    threads: int | None
    n_ctx: int | None
    gpu_layers: int | None
    profile: str | Path | ProfileFolder | None


class _AskingSettings(DoctorSettings, total=False):
    reasons: Reasons | None
    min_valid_mass: float | None


class CalibrateSettings(_AskingSettings, total=False):
    """Settings that `localjudge.calibrate` takes."""

    cluster_by: str | None
    reuse: RunLike | Sequence[RunLike] | None


class JudgeSettings(_AskingSettings, VerifySettings, total=False):
    """Settings that `Judge.open` takes: the ones that do not describe data."""

    threshold: float | None
    calibration: CalibrationLike | Sequence[CalibrationLike] | None
    max_failed: int | None
    language: str | None
    segmenter: str | None
    abbreviations: str | Path | Sequence[str] | None
    keep_thinking: bool | None
    no_evidence: bool | None


class EvaluateSettings(JudgeSettings, CalibrateSettings, total=False):
    """All settings of `localjudge.evaluate`. `criteria` are metrics in Python."""

    mapping: Mapping[str, str] | None
    context_separator: str | None
    rows: str | None
    skip_bad_rows: bool | None
    limit: int | None
    sample: int | None
    seed: int | None
    shard: str | None
    until: str | Sequence[str] | None
    budget: str | None


class RunSettings(EngineSettings, SettingsOfResults):
    """Checked settings of a run. Each field's docstring is its help.

    They contain the contents of files, so opening a foreign run never reads files that it names.
    """

    threshold: Annotated[float, Setting("Scoring", metavar="P")] = Field(
        default=ONE_HALF, ge=0, le=1
    )
    """Decision threshold: a verdict is 1 at this probability or above."""
    min_valid_mass: Annotated[float, Setting()] = Field(default=0.01, ge=0, le=1)
    """Minimum probability on valid answers; below it the verdict counts as failed. 0 accepts any
    answer."""
    weights: Mapping[str, JudgeWeight] = Field(default_factory=dict)
    """Weights of several judges in runs of earlier versions; now, calibrations have them."""
    language: Annotated[str, Setting("Data", everyday=True)] = "en"
    """Language of the sentence rules (a spaCy language code)."""
    segmenter: Annotated[str | None, Setting()] = None
    """Installed spaCy pipeline that cuts sentences instead of the built-in rules."""
    abbreviations: Annotated[
        tuple[str, ...], Setting(path_role="word_list", read=read_abbreviations)
    ] = ()
    """Abbreviations that do not end a sentence, or a file with one per line."""
    keep_thinking: Annotated[bool, Setting()] = False
    """Judge also the thinking in responses, such as <think> ... </think>. By default it is left
    out."""
    profile: Annotated[
        str | ProfileFolder | None,
        Setting(path_role="read", bundled=bundled_profiles, read=read_profile),
    ] = None
    """How the judge is asked: a bundled prompt profile (instruct, minicheck ...), or the folder of
    your own. Default: the one made for the model."""
    reasons: Annotated[Reasons, Setting()] = "none"
    """Let the model write a reason before the verdict (which may move it) or after it (which
    cannot)."""
    mapping: Annotated[
        Mapping[str, str], Setting("Data", metavar="FIELD=COLUMN", flag="--map", everyday=True)
    ] = Field(default_factory=dict)
    """Column to use for user_input, retrieved_contexts, reference, response, reference_contexts or
    id. a.b reaches into objects, a[].b into lists of them; a,b joins columns of contexts."""
    context_separator: Annotated[str | None, Setting()] = None
    """Separator between contexts in a text column: '|' for files that DeepEval wrote."""
    rows: Annotated[str | None, Setting()] = None
    """Where the rows are inside the objects of a JSON file: experiment.items."""
    skip_bad_rows: Annotated[bool, Setting()] = False
    """Skip and count rows that cannot be used, instead of stopping."""
    no_evidence: Annotated[bool, Setting("Output")] = False
    """Do not look for the sentences behind the verdicts (evidence.jsonl)."""
    reuse: Annotated[tuple[str, ...], Setting("Judge", metavar="RUN", path_role="read")] = ()
    """Reuse the answers of runs of the same judge, such as all shards. Without data also their
    samples."""
    budget: Annotated[str | None, Setting("Evidence", metavar="TIME", stops=True)] = None
    """Judge as many samples in random order as fit in this time: 90s, 30m, 2h."""

    @field_validator("profile")
    @classmethod
    def _require_bundled(cls, profile: str | ProfileFolder | None) -> str | ProfileFolder | None:
        if isinstance(profile, str) and profile not in bundled_profiles():
            raise no_profile(profile)
        return profile

    @field_validator("reuse", mode="before")
    @classmethod
    def _name_directories(cls, runs: object) -> object:
        if isinstance(runs, RunLike):
            return (_directory_name(runs),)
        if isinstance(runs, Sequence) and all(isinstance(run, RunLike) for run in runs):
            return tuple(_directory_name(run) for run in runs)
        raise InputError(
            f"{option_name('reuse')} takes runs or their directories, got {runs!r:.80}",
            hint="such as 'runs/before'",
        )

    @field_validator("shard", mode="before")
    @classmethod
    def _normalise_shard(cls, shard: object) -> object:
        if not isinstance(shard, str):
            return shard
        return str(Shard.read(shard))

    @field_validator("until", mode="before")
    @classmethod
    def _normalise_gates(cls, gates: object) -> object:
        from localjudge.analysis.gates import parse_gate

        texts = gates
        if isinstance(gates, str):
            texts = (gates,)
        if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
            return gates
        parsed = [parse_gate(text) for text in texts]
        for gate in parsed:
            if gate.column is not None:
                problem = f"{gate} is about a slice, and {option_name('until')} decides gates"
                hint = f"give it as {option('gate', str(gate))}"
                raise InputError(f"{problem} on all samples", hint=hint)
        return tuple(dict.fromkeys(map(str, parsed)))

    @field_validator("budget")
    @classmethod
    def _require_time(cls, budget: str | None) -> str | None:
        if budget is not None:
            parse_time(budget)
        return budget

    @model_validator(mode="after")
    def _require_compatible(self) -> Self:
        draws = option_name(self.stops_by or "sample")
        if self.limit is not None and (self.stops_by or self.sample is not None):
            message = f"{option_name('limit')} and {draws} cannot both be given"
            raise InputError(message, hint=f"{draws} draws from all data")
        if self.shard and self.stops_by:
            reuse = option("reuse", "SHARD")
            hint = f"shards do not share scores: judge all, and reuse their answers with {reuse}"
            raise InputError(f"{draws} and {option_name('shard')} cannot both be given", hint=hint)
        _ = self.sentences
        return self

    @property
    def optional_stopping(self) -> bool:
        """Whether scores decide when the run stops."""
        return bool(self.until)

    @property
    def stops_by(self) -> str | None:
        """The first setting that ends the run early."""
        return next((name for name in settings_with("stops") if getattr(self, name)), None)

    def profile_for(self, registered: str | None, metadata: Mapping[str, str]) -> ChosenProfile:
        """Return a model's profile. Raises InputError if it cannot be asked so."""
        profile, why = choose_profile(self.profile, registered, metadata)
        require_reasons(profile, self.reasons)
        return profile, why

    @property
    def sentences(self) -> Segmenter:
        """The segmenter. Raises InputError for invalid abbreviations."""
        return Segmenter(self.language, self.segmenter, self.abbreviations, self.keep_thinking)

    def rule_for(self, metrics: Iterable[Metric]) -> VerdictRule:
        """Return the rule with the thresholds of the calibrated metrics."""
        thresholds: dict[str, float] = {}
        for metric in metrics:
            calibration = self.calibration_for(metric.name)
            if calibration is not None:
                thresholds[metric.name] = calibration.threshold
        return VerdictRule(self.threshold, self.min_valid_mass, thresholds)

    def threshold_for(self, metric: str) -> float:
        calibration = self.calibration_for(metric)
        if calibration is None:
            return self.threshold
        return calibration.threshold

    def calibration_for(self, metric: str) -> Calibration | None:
        """Return the calibration for the question of a metric, if there is one."""
        question = get_question(metric)
        for calibration in reversed(self.calibration):
            if calibration.question == question:
                return calibration
        return None

    def for_metrics(self, metrics: Iterable[Metric]) -> Self:
        """Return the settings with the calibrations that these metrics use."""
        questions = {get_question(metric.name) for metric in metrics}
        used = [each for each in self.calibration if each.question in questions]
        return self.model_copy(update={"calibration": tuple(used)})

    @property
    def engine(self) -> EngineSettings:
        return EngineSettings(**{name: getattr(self, name) for name in EngineSettings.model_fields})


def _directory_name(run: RunLike) -> str:
    if isinstance(run, RunRecord):
        return str(run.directory)
    return os.path.expanduser(run)


_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)(s|m|h)")
_UNITS = {"s": 1, "m": 60, "h": 3_600}


def parse_time(time: str) -> float:
    """Return the seconds of a time such as `30m`. Raises InputError for an invalid one or zero."""
    match = _TIME.fullmatch(time)
    seconds = 0.0
    if match:
        seconds = float(match[1]) * _UNITS[match[2]]
    if not seconds:
        raise InputError(
            f"{option_name('budget')} must be a time, got {time!r:.80}",
            hint="such as 90s, 30m or 2h",
        )
    return seconds


def declared_settings(fields: type[Record]) -> dict[str, Setting]:
    """Return the `Setting` of each field that has one."""
    settings: dict[str, Setting] = {}
    for name, field in fields.model_fields.items():
        for annotation in field.metadata:
            if isinstance(annotation, Setting):
                settings[name] = annotation
    return settings


SETTINGS: Mapping[str, Setting] = declare(declared_settings(RunSettings))
"""All settings of a run by name."""
DATA_SETTINGS = EvaluateSettings.__annotations__.keys() - JudgeSettings.__annotations__.keys()
"""The names of the settings that describe the data or choose samples."""


def settings_with(trait: Literal["stops", "typed"]) -> tuple[str, ...]:
    """Return the names of the settings with a property of `Setting`."""
    return tuple(name for name, setting in SETTINGS.items() if getattr(setting, trait))


def takes_settings(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Check the arguments of a function with `**settings`, and add these to its help."""
    checking = check_arguments(function)
    lines = [cleandoc(function.__doc__ or ""), "", "Settings:", ""]
    for name in signature(checking).parameters:
        if name in SETTINGS:
            field = RunSettings.model_fields[name]
            words = " ".join((field.description or "").split())
            if isinstance(field.default, int | float | str):
                words = f"{words} ({field.default!r})"
            lines += wrap(f"{name}: {words}", _HELP_WIDTH, subsequent_indent="    ")
    checking.__doc__ = "\n".join(lines)
    return checking


def without_defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are not None, which keeps a default."""
    return {name: value for name, value in settings.items() if value is not None}


def override(earlier: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return earlier settings, replaced by given ones.

    A given threshold also replaces earlier calibrations, and given calibrations an earlier
    threshold. `checked` refuses both together.
    """
    settings = dict(earlier)
    if "threshold" in given:
        settings.pop("calibration", None)
    if "calibration" in given:
        settings.pop("threshold", None)
    return {**settings, **given}


def checked(options: Mapping[str, Any]) -> RunSettings:
    """Build settings from keywords and read their files.

    Raises InputError for the first invalid one.
    """
    for name in options:
        if name not in SETTINGS:
            hint = suggestion(name, SETTINGS, "the options")
            raise InputError(f"there is no option {name!r}", hint=hint)
    if "threshold" in options and options.get("calibration"):
        threshold = option_name("threshold")
        calibration = option_name("calibration")
        message = f"{threshold} and {calibration} cannot both be given"
        raise InputError(message, hint=f"{calibration} sets the threshold")
    try:
        values: dict[str, Any] = {}
        for name, value in options.items():
            read = SETTINGS[name].read
            if read is None:
                values[name] = value
            else:
                values[name] = read(value)
        return RunSettings(**values)
    except ValidationError as error:
        raise _explain(error) from error


def _explain(error: ValidationError) -> InputError:
    """Return an error that names the option as the reader knows it."""
    problem = error.errors()[0]
    name, *keys = problem["loc"]
    name_of_value = ".".join([option_name(str(name)), *map(str, keys)])
    words = problem["msg"].replace("Input should be", f"{name_of_value} must be", 1)
    if words.startswith("String"):
        words = f"{name_of_value}: {words}"
    words = words.replace("less than or equal to", "at most")
    words = words.replace("greater than or equal to", "at least")
    return InputError(f"{words}, got {problem['input']!r:.80}")
