"""What a judge is worth by people's labels, and the threshold that follows: a file of its own, and part of each run.

    LOCALJUDGE_HOME/calibrations/NAME.json         every figure, and all that it came from
    manifest.json   environment.settings.calibration   the same, so that a run needs no file beside itself
                    judge.calibrations.QUESTION        its checksum, in the signature
                    judge.thresholds.METRIC            what it decides

A calibration is of a *question*: a threshold for "can it be attributed?" is none for "is it relevant?". It holds for
the judge that was measured: another model, prompt, grammar or way of asking is refused. Packages and processors that
round otherwise move the last digits of a probability, no more: a calibration is used across them, and that is said.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, FiniteFloat

from localjudge import resources
from localjudge.errors import OutOfResource, RunDirectoryError, UsageError
from localjudge.judge.combining_rule import CombiningRule
from localjudge.metrics import catalog
from localjudge.metrics.metric import Metric
from localjudge.option_spelling import option_name
from localjudge.record.keys import canonical_sha256
from localjudge.record.manifest import Difference, Manifest, answering_part, differences
from localjudge.record.untrusted import BY_HAND, read_object, shown, validated
from localjudge.suggestion import suggestion
from localjudge.types import JudgeCard, Record
from localjudge.whole_file import write_whole

CALIBRATION_VERSION = 1
_NAME = re.compile(r"\w[\w.-]{0,79}", re.ASCII)
_ROUNDING = re.compile(
    r"(judges\.\w+\.)?(versions\..*|engine\.(llama_cpp|llama_cpp_python|llguidance|system|self_check|gpu_layers|n_ubatch|flash_attention))"
)
"""Ingredients of a judge that move the last digits of a probability alone."""
_GUESSING = 0.5
"""AUC of a judge that guesses."""
_UNNAMED = {"name", "created"}
"""What moves no number of a calibration."""


class Figure(Record):
    """A number and the limits of its 95 % interval, over clusters."""

    value: FiniteFloat
    ci95: tuple[FiniteFloat, FiniteFloat]


class ReliabilityFigure(Record):
    """Verdicts with a probability from `low` to `high`: the mean of it, and the share that people labelled 1."""

    low: FiniteFloat
    high: FiniteFloat
    mean_p: FiniteFloat
    share: FiniteFloat
    ci95: tuple[FiniteFloat, FiniteFloat] | None
    """None where all of them are in one group."""
    verdicts: int


class LabelsUsed(Record):
    """The labels: their file and its checksum, how many, and how many independent groups of them."""

    file: str
    sha256: str
    shape: Literal["verdicts", "attribution", "relevance"]
    verdicts: int
    positives: int
    clusters: int
    clustered_by: str
    unlabelled: int = 0
    failed: int = 0
    """Labelled, but the judge gave no verdict."""
    weighted: bool = False
    """Whether some were likelier to be labelled than others, and count less for that."""


class Calibration(Record):
    """A judge held against people's labels on one question; `threshold` is chosen on all of them.

    `figures` are of the probabilities, `at_one_half` of the decisions at .5, `held_out` of the decisions at thresholds
    that were chosen on other clusters: what is to be expected of `threshold`. `undefined` says which figures have no
    value, and why. `fold_thresholds` are those of the folds.
    """

    model_config = ConfigDict(extra="ignore")

    schema_version: int = CALIBRATION_VERSION
    name: str
    question: str
    threshold: float = Field(ge=0, le=1)
    combining_rule: CombiningRule | None = None
    """Of a combined run, the weights that its judges' log odds get, if they were fitted; the figures are then of
    held-out probabilities."""
    judge: dict[str, Any]
    """The `measured_part` of the run in which it was asked."""
    card: JudgeCard
    run: str
    """Signature of the run in which the judge was asked."""
    labels: LabelsUsed
    figures: dict[str, Figure]
    at_one_half: dict[str, Figure]
    held_out: dict[str, Figure]
    undefined: dict[str, str] = Field(default_factory=dict)
    fold_thresholds: tuple[FiniteFloat, ...]
    seed: int
    resamples: int
    reliability: tuple[ReliabilityFigure, ...]
    remarks: tuple[str, ...] = ()
    created: str

    @property
    def sha256(self) -> str:
        """Checksum of all but its name and its date."""
        return canonical_sha256(self.model_dump(mode="json", exclude=_UNNAMED))

    @property
    def guesses(self) -> bool:
        """Whether the judge is not shown to be better than guessing."""
        auc = self.figures.get("auc")
        return auc is None or auc.ci95[0] <= _GUESSING

    def differences_of_judge(self, measured: Mapping[str, Any]) -> tuple[list[Difference], list[Difference]]:
        """Where the judge is another one than was measured: what can change its mind, and what rounds otherwise."""
        different = differences(self.judge, measured)
        rounding = [change for change in different if _ROUNDING.fullmatch(change.ingredient)]
        return [change for change in different if change not in rounding], rounding


def measured_part(judge: Mapping[str, Any], metric: Metric) -> dict[str, Any]:
    """What of a judge part makes the answers to the question of the metric: all that moves any answer, and its words.

    Of a metric that is not ours, its definition, too: a criterion of the same name may ask something else. Of combined
    runs, the same of each judge.
    """
    if "combined" in judge:
        return {"judges": {name: measured_part(part, metric) for name, part in judge["combined"]["judges"].items()}}
    special = judge["judge"].get("special_tasks", {})
    words = {task: special[task] for task in sorted(catalog.special_tasks_of([metric])) if task in special}
    own = {} if catalog.is_ours(metric.name) else {metric.name: judge["metrics"][metric.name]}
    found = {**answering_part(judge), "special_tasks": words, "metrics": own}
    return {name: part for name, part in found.items() if part}


def calibrations_of(given: object) -> tuple[Calibration, ...]:
    """Calibrations from names, files, mappings and calibrations; one, or a list of them, each of another question.

    Raises UsageError for what is none, and for two of one question.
    """
    if given is None:
        return ()
    found: dict[str, Calibration] = {}
    for one in given if isinstance(given, Sequence) and not isinstance(given, str) else [given]:
        calibration = _calibration(one)
        if found.setdefault(calibration.question, calibration) != calibration:
            raise UsageError(
                f"{found[calibration.question].name} and {calibration.name} are both calibrations of "
                f"{calibration.question}",
                hint="give one of each question",
            )
    return tuple(found.values())


def calibration_file(name: str) -> Path:
    """Where a calibration of this name is kept. Raises UsageError for what cannot be a name."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"a calibration cannot be called {name!r:.80}", hint="a name has letters, digits, _, - and ., at most 80"
        )
    return _folder() / f"{name}.json"


def saved_calibrations() -> list[str]:
    """Names of those that are saved."""
    return sorted(file.stem for file in _folder().glob("*.json"))


def read_calibration(name_or_file: str | Path) -> Calibration:
    """A saved calibration by its name, or one in any file. Raises UsageError if there is none, or it is none."""
    named = _folder() / f"{name_or_file}.json"
    path = named if _NAME.fullmatch(str(name_or_file)) and named.is_file() else Path(name_or_file)
    if not path.is_file():
        saved = saved_calibrations()
        raise UsageError(
            f"there is no calibration {str(name_or_file)!r:.80}, neither by that name nor as a file",
            hint=suggestion(str(name_or_file), saved, "saved")
            if saved
            else "make one: localjudge calibrate LABELS --judge NAME|PATH",
        )
    return validated(Calibration, read_object(path.resolve()), str(path))


def save_calibration(calibration: Calibration) -> Path:
    """Write it under its name, whole or not at all, for this user alone; one that was there is replaced.

    Raises OutOfResource where it cannot be written.
    """
    path = calibration_file(calibration.name)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, [f"{calibration.model_dump_json(indent=2)}\n".encode()])
    except OSError as error:
        raise OutOfResource(
            f"{path} cannot be written: {error.strerror or error}",
            hint="make it writable, or name another LOCALJUDGE_HOME",
        ) from error
    return path


def kept_calibrations(manifest: Manifest) -> tuple[Calibration, ...]:
    """Those that a manifest keeps. Raises RunDirectoryError for what is none: no file is read that it may name."""
    kept = manifest.environment["settings"].get("calibration", [])
    if not isinstance(kept, list) or not all(isinstance(one, dict) for one in kept):
        raise RunDirectoryError("manifest.json cannot be read: calibration is not a list of them", hint=BY_HAND)
    return tuple(validated(Calibration, one, "manifest.json: calibration") for one in kept)


def other_calibrations(manifest: Manifest) -> Iterator[str]:
    """One line for each calibration that the run's signature names and that is not kept, or is another."""
    sums = manifest.judge.get("calibrations", {})
    kept = {one.question: one for one in kept_calibrations(manifest)}
    for question, sha256 in sums.items() if isinstance(sums, dict) else ():
        if question not in kept or kept[question].sha256 != sha256:
            yield f"the calibration of {shown(question)} in manifest.json is not that of its checksum there"
    thresholds = manifest.judge.get("thresholds", {})
    if set(thresholds.values()) - {one.threshold for one in kept.values()}:
        yield "a threshold in manifest.json is of no calibration there"


def _calibration(given: object) -> Calibration:
    match given:
        case Calibration():
            return given
        case str() | Path():
            return read_calibration(given)
        case Mapping():
            return validated(Calibration, dict(given), "the calibration")
    raise UsageError(f"{option_name('calibration')} must be names or files of calibrations, got {given!r:.80}")


def _folder() -> Path:
    return resources.state_directory() / "calibrations"
