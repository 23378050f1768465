"""Settings of a run, for the command line, configuration files and `localjudge.evaluate`."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, FiniteFloat, ValidationError, field_validator, model_validator

from localjudge import model_registry
from localjudge.dataset.samples import Shard
from localjudge.engine.protocol import EngineSettings
from localjudge.errors import InputError, ModelError
from localjudge.judge.profile import ChosenProfile, ProfileFolder, choose, no_profile, read_profile
from localjudge.judge.profile import bundled as bundled_profiles
from localjudge.judge.wording import Reasons, require
from localjudge.metrics.catalog import get_question
from localjudge.metrics.criterion import Criterion, read_criteria
from localjudge.metrics.metric import Metric
from localjudge.resources import criterion_files
from localjudge.run_directory.calibration import Calibration, calibrations_of, saved_calibrations
from localjudge.run_directory.directory import MANIFEST, excerpt, validated
from localjudge.run_directory.manifest import Manifest
from localjudge.run_directory.run_record import RunLike, RunRecord
from localjudge.text import Segmenter
from localjudge.text.languages import read_abbreviations
from localjudge.types import Record, VerdictRule
from localjudge.words import Setting, option, option_name, suggestion

ONE_HALF = 0.5


class RunSettings(EngineSettings):
    """Checked settings of a run. Each field's docstring is the help of its option.

    They contain the contents of files, so opening a foreign run never reads files that it names.
    """

    criteria: Annotated[
        tuple[Criterion, ...],
        Setting("Scoring", "FILE", "read", criterion_files, read_criteria),
    ] = ()
    """Your own question as a metric: a file, or formal_register, names_its_source, refuses (may be repeated)."""
    threshold: Annotated[float, Setting("Scoring", metavar="P")] = Field(
        default=ONE_HALF, ge=0, le=1
    )
    """Decision threshold: a verdict is 1 at this probability or above."""
    calibration: Annotated[
        tuple[Calibration, ...],
        Setting("Scoring", "NAME|FILE", "read", saved_calibrations, calibrations_of),
    ] = ()
    """Use the threshold of a calibration for the metrics that ask its question (may be repeated)."""
    min_valid_mass: Annotated[float, Setting(calibration=True)] = Field(default=0.01, ge=0, le=1)
    """Minimum probability on valid answers; below it the verdict counts as failed. 0 accepts any answer."""
    weights: Annotated[
        Mapping[str, FiniteFloat], Setting("Judge", metavar="JUDGE=W", calibration=True)
    ] = Field(default_factory=dict)
    """Weight of each of several judges (may be repeated). Default: equal influence, by their scales."""
    language: Annotated[str, Setting("Data", everyday=True)] = "en"
    """Language of the sentence rules (a spaCy language code)."""
    segmenter: Annotated[str | None, Setting()] = None
    """Installed spaCy pipeline that cuts sentences instead of the built-in rules."""
    abbreviations: Annotated[
        tuple[str, ...], Setting(path_role="word_list", read=read_abbreviations)
    ] = ()
    """Abbreviations that do not end a sentence, or a file with one per line."""
    keep_thinking: Annotated[bool, Setting()] = False
    """Judge also the thinking in responses, such as <think> ... </think>. By default it is left out."""
    profile: Annotated[
        str | ProfileFolder | None,
        Setting(
            path_role="read",
            bundled=bundled_profiles,
            read=read_profile,
            calibration=True,
            doctor=True,
        ),
    ] = None
    """How the judge is asked: a bundled prompt profile (instruct, minicheck ...), or the folder of your own. Default:
    the one made for the model."""
    reasons: Annotated[Reasons, Setting(calibration=True)] = "none"
    """Let the model write a reason before the verdict (which may move it) or after it (which cannot)."""
    mapping: Annotated[
        Mapping[str, str], Setting("Data", "FIELD=COLUMN", data=True, everyday=True)
    ] = Field(default_factory=dict)
    """Column to use for user_input, retrieved_contexts, reference, response, reference_contexts or id (may be
    repeated). a.b reaches into objects, a[].b into lists of them; a,b joins columns of contexts."""
    context_separator: Annotated[str | None, Setting(data=True)] = None
    """Separator between contexts in a text column: '|' for files that DeepEval wrote."""
    rows: Annotated[str | None, Setting(data=True)] = None
    """Where the rows are inside the objects of a JSON file: experiment.items."""
    skip_bad_rows: Annotated[bool, Setting(data=True)] = False
    """Skip and count rows that cannot be used, instead of stopping."""
    cluster_by: Annotated[str | None, Setting("Data", "COLUMN", data=True, calibration=True)] = (
        Field(default=None, min_length=1)
    )
    """Column that groups samples, such as a document: intervals are then over the groups."""
    max_failed: Annotated[int | None, Setting()] = Field(default=None, ge=0)
    """Failed samples tolerated per metric before its mean is withheld. Default: 1 % of the samples."""
    reuse: Annotated[
        tuple[str, ...],
        Setting("Judge", metavar="RUN", path_role="read", data=True, calibration=True),
    ] = ()
    """Reuse the answers of runs of the same judge, such as all shards. Without DATA also their samples."""
    limit: Annotated[int | None, Setting(data=True, part=True)] = Field(default=None, ge=1)
    """Use only the first N samples."""
    sample: Annotated[int | None, Setting("Data", data=True, part=True, everyday=True)] = Field(
        default=None, ge=1
    )
    """Use N samples drawn at random by id; a larger N includes the samples of a smaller N."""
    seed: Annotated[int, Setting(data=True, part=True)] = 0
    """Seed of the random draw."""
    until: Annotated[
        tuple[str, ...], Setting("Evidence", metavar="GATE", data=True, stops=True)
    ] = ()
    """A gate: judge samples in random order, and stop when every such gate is decided (may be repeated)."""
    width: Annotated[float | None, Setting("Evidence", metavar="W", data=True, stops=True)] = Field(
        default=None, ge=0.001, le=1
    )
    """Judge samples in random order until the interval of every metric is at most this wide."""
    budget: Annotated[str | None, Setting("Evidence", metavar="TIME", data=True, stops=True)] = None
    """Judge as many samples in random order as fit in this time: 90s, 30m, 2h."""
    shard: Annotated[str | None, Setting("Data", metavar="I/N", data=True, part=True)] = None
    """Use part I of N, by the ids of the samples: several processes judge one part each, and --reuse with all parts
    gives the whole run."""

    @field_validator("profile")
    @classmethod
    def _is_bundled(cls, profile: str | ProfileFolder | None) -> str | ProfileFolder | None:
        if isinstance(profile, str) and profile not in bundled_profiles():
            raise no_profile(profile)
        return profile

    @field_validator("reuse", mode="before")
    @classmethod
    def _expanded(cls, runs: object) -> object:
        paths = (runs,) if isinstance(runs, RunLike) else runs
        if not isinstance(paths, Sequence) or not all(isinstance(path, RunLike) for path in paths):
            hint = "such as 'runs/before'"
            raise InputError(
                f"{option_name('reuse')} takes runs or their directories, got {runs!r:.80}",
                hint=hint,
            )
        return tuple(
            str(path.directory) if isinstance(path, RunRecord) else os.path.expanduser(path)
            for path in paths
        )

    @field_validator("shard", mode="before")
    @classmethod
    def _i_of_n(cls, shard: object) -> object:
        return str(Shard.read(shard)) if isinstance(shard, str) else shard

    @field_validator("until", mode="before")
    @classmethod
    def _are_gates(cls, gates: object) -> object:
        from localjudge.analysis.check import parse_gate

        texts = (gates,) if isinstance(gates, str) else gates
        if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
            return gates
        parsed = [parse_gate(text) for text in texts]
        if of_slice := next((gate for gate in parsed if gate.column is not None), None):
            problem = f"{of_slice} is about a slice, and {option_name('until')} decides gates on all samples"
            raise InputError(problem, hint=f"give it as {option('gate', str(of_slice))}")
        return tuple(dict.fromkeys(map(str, parsed)))

    @field_validator("budget")
    @classmethod
    def _is_a_time(cls, budget: str | None) -> str | None:
        if budget is not None:
            seconds_of(budget)
        return budget

    @model_validator(mode="after")
    def _go_together(self) -> Self:
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
        return bool(self.until) or self.width is not None

    @property
    def stops_by(self) -> str | None:
        return next((name for name in settings_with("stops") if getattr(self, name)), None)

    def profile_for(self, registered: str | None, metadata: Mapping[str, str]) -> ChosenProfile:
        """Return a model's profile. Raises InputError if it cannot be asked so."""
        chosen = choose(self.profile, registered, metadata)
        require(chosen.profile, self.reasons)
        return chosen

    @property
    def sentences(self) -> Segmenter:
        """The segmenter. Raises InputError for invalid abbreviations."""
        return Segmenter(self.language, self.segmenter, self.abbreviations, self.keep_thinking)

    def rule_for(self, metrics: Iterable[Metric]) -> VerdictRule:
        questions = {calibration.question for calibration in self.calibration}
        names = [metric.name for metric in metrics if get_question(metric.name) in questions]
        return VerdictRule(
            self.threshold,
            self.min_valid_mass,
            {name: self.threshold_of(name) for name in names},
        )

    def threshold_of(self, metric: str) -> float:
        thresholds = {
            calibration.question: calibration.threshold for calibration in self.calibration
        }
        return thresholds.get(get_question(metric) or "", self.threshold)

    def for_metrics(self, metrics: Iterable[Metric]) -> Self:
        questions = {get_question(metric.name) for metric in metrics}
        used = tuple(
            calibration for calibration in self.calibration if calibration.question in questions
        )
        return self.model_copy(update={"calibration": used})

    @property
    def engine(self) -> EngineSettings:
        return EngineSettings(**{name: getattr(self, name) for name in EngineSettings.model_fields})


_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)(s|m|h)")
_UNITS = {"s": 1, "m": 60, "h": 3_600}


def seconds_of(time: str) -> float:
    """Return the seconds of a time such as `30m`. Raises InputError for an invalid one or zero."""
    match = _TIME.fullmatch(time)
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not seconds:
        raise InputError(
            f"{option_name('budget')} must be a time, got {time!r:.80}",
            hint="such as 90s, 30m or 2h",
        )
    return seconds


def declared(fields: type[Record]) -> dict[str, Setting]:
    entries = fields.model_fields.items()
    return {
        name: about
        for name, field in entries
        for about in field.metadata
        if isinstance(about, Setting)
    }


SETTINGS: Mapping[str, Setting] = declared(RunSettings)
"""All settings of a run by name."""
Trait = Literal["part", "data", "calibration", "doctor", "stops"]


def settings_with(trait: Trait) -> tuple[str, ...]:
    return tuple(name for name, setting in SETTINGS.items() if getattr(setting, trait))


def neutral_settings() -> tuple[str, ...]:
    """Return the settings that change no number."""
    return tuple(name for name, setting in SETTINGS.items() if not setting.affects_results)


def settings_among(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings among the arguments of a function. None keeps a default."""
    settings: dict[str, Any] = {}
    for name, value in arguments.items():
        if name in SETTINGS and value is not None:
            settings[name] = value
    return settings


def checked(options: Mapping[str, Any]) -> RunSettings:
    """Build settings from keywords and read their files. Raises InputError for the first invalid one."""
    for name in options:
        if name not in SETTINGS:
            raise InputError(
                f"there is no option {name!r}", hint=suggestion(name, SETTINGS, "the options")
            )
    if "threshold" in options and options.get("calibration"):
        threshold, calibration = option_name("threshold"), option_name("calibration")
        hint = f"{calibration} sets the threshold"
        raise InputError(f"{threshold} and {calibration} cannot both be given", hint=hint)
    try:
        values = {
            name: read(value) if (read := SETTINGS[name].read) else value
            for name, value in options.items()
        }
        return RunSettings(**values)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join([option_name(str(problem["loc"][0])), *map(str, problem["loc"][1:])])
        words = problem["msg"].replace("Input should be", f"{place} must be", 1)
        words = f"{place}: {words}" if words.startswith("String") else words
        words = words.replace("less than or equal to", "at most").replace(
            "greater than or equal to", "at least"
        )
        raise InputError(f"{words}, got {problem['input']!r:.80}") from error


def settings_of(manifest: Manifest, **changed: Any) -> RunSettings:
    """Return the settings of a run with changes. Reads no file that the run names, because it may be foreign.

    Raises RunDirectoryError for invalid or unsupported ones.
    """
    # With calibrations, the run's threshold is one half.
    calibrated = changed.get("calibration")
    changes = checked(
        {name: value for name, value in changed.items() if name != "threshold" or not calibrated},
    )
    stored = dict(manifest.environment.settings)
    values = {name: stored[name] for name in SETTINGS if name in stored}
    if not manifest.judge.jury:
        values["n_ctx"] = manifest.judge.engine.n_ctx or values.get("n_ctx")
    values |= {name: getattr(changes, name) for name in changed}
    return validated(RunSettings, values, f"{MANIFEST}: settings")


def judges_of(run: RunRecord) -> str | list[str]:
    """Return the judge or judges named in the manifest. Raises InputError without one, ModelError if it is gone."""
    environment = run.manifest.environment
    if environment.judges:
        if environment.judge in model_registry.registered_juries():
            return str(environment.judge)
        return [_present(run, judge) for judge in environment.judges]
    return _present(run, environment.judge)


def _present(run: RunRecord, judge: str | None) -> str:
    if judge is None:
        message = f"{run.directory} does not name its judge"
        raise InputError(message, hint=f"name it with {option('judge')}")
    if not ((file := model_registry.place_of(judge)) and file.is_file()):
        model = (
            f"{Path(judge).stem}, sha256 {excerpt((run.summary.judge.sha256 or 'unknown')[:12])}"
        )
        problem = f"the model of this run ({model}) is no longer {f'at {file}' if file else 'where it was'}"
        raise ModelError(problem, hint=f"give its new path with {option('judge', 'PATH')}")
    return judge
