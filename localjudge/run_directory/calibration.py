"""Calibrations: judges measured on human labels of one question.

A calibration is refused for a judge with another model, prompt, grammar or way of asking.
Differences in packages or processors only affect rounding and are reported. Calibrations are saved
in LOCALJUDGE_HOME/calibrations/NAME.json, and read by name or file.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, FiniteFloat, SerializerFunctionWrapHandler, model_serializer

from localjudge import resources
from localjudge.errors import InputError, LocaljudgeError
from localjudge.progress import Progress
from localjudge.run_directory.differences import Difference, differences, only_rounds
from localjudge.run_directory.directory import read_object, validated
from localjudge.run_directory.request_keys import canonical_sha256
from localjudge.types import MAX_WEIGHT, Combination, JudgeCard, Record
from localjudge.words import option_name, suggestion

_NAME = re.compile(r"\w[\w.-]{0,79}", re.ASCII)
_NOT_IN_NAMES = re.compile(r"[^\w.-]+", re.ASCII)
_MAX_STEM_LENGTH = 40
_MAX_QUESTION_LENGTH = 36
_GUESSING = 0.5  # AUC of a judge that guesses


class Figure(Record):
    """A number with its clustered 95 % interval."""

    value: FiniteFloat
    ci95: tuple[FiniteFloat, FiniteFloat]


class LabelsUsed(Record):
    """The labels of a calibration. The judge gave no verdict on `failed` of them.

    `clusters` counts independent groups. `weighted`: inclusion probabilities differ.
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


class LabelSavings(Record):
    """A labels-only interval of the same width needs `labels` more than `of` labels."""

    labels: int
    of: int


FittedWeight = Annotated[float, Field(ge=-MAX_WEIGHT, le=MAX_WEIGHT, allow_inf_nan=False)]


class Calibration(Record):
    """A measured judge. `threshold` is chosen on all labels.

    `figures` describe the probabilities, `at_one_half` the decisions at 0.5, `held_out` the
    decisions at thresholds chosen on other clusters, and `undefined` the reasons for missing
    figures. `judge` is `JudgeIdentity.measured` of the run with the signature `run`. `weights` and
    `bias` are those of a jury.
    """

    model_config = ConfigDict(extra="ignore")

    schema_version: int = 1
    name: str
    question: str
    threshold: float = Field(ge=0, le=1)
    weights: dict[str, FittedWeight] = Field(default_factory=dict)
    bias: FiniteFloat = 0.0
    judge: dict[str, Any]
    card: JudgeCard
    run: str
    labels: LabelsUsed
    figures: dict[str, Figure]
    at_one_half: dict[str, Figure]
    held_out: dict[str, Figure]
    undefined: dict[str, str] = Field(default_factory=dict)
    fold_thresholds: tuple[FiniteFloat, ...]
    savings: LabelSavings | None = None
    seconds_per_verdict: FiniteFloat | None = None
    fit_for: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    created: str

    @model_serializer(mode="wrap")
    def _without_weights_of_a_single_judge(
        self, serialize: SerializerFunctionWrapHandler
    ) -> dict[str, Any]:
        values: dict[str, Any] = serialize(self)
        if not self.weights:
            values.pop("weights", None)
            values.pop("bias", None)
        return values

    @property
    def sha256(self) -> str:
        unsigned = {"name", "created", "savings", "seconds_per_verdict", "fit_for"}
        return canonical_sha256(self.model_dump(mode="json", exclude=unsigned))

    @property
    def combination(self) -> Combination | None:
        """Weights of a jury's judges, or None for a single judge."""
        if not self.weights:
            return None
        return Combination(self.weights, self.bias)

    @property
    def guesses(self) -> bool:
        """Whether the judge is not significantly better than guessing."""
        auc = self.figures.get("auc")
        return auc is None or auc.ci95[0] <= _GUESSING

    def differences_of_judge(
        self, measured: Mapping[str, Any]
    ) -> tuple[list[Difference], list[Difference]]:
        """Return the differences that can change verdicts, and the rounding ones."""
        of_verdicts = []
        of_rounding = []
        for change in differences(self.judge, measured):
            if only_rounds(change):
                of_rounding.append(change)
            else:
                of_verdicts.append(change)
        return of_verdicts, of_rounding


CalibrationLike = str | Path | Calibration
"""A name, a file, or a calibration."""


def read_calibrations(values: object) -> tuple[Calibration, ...]:
    """Return calibrations from names, files or calibrations.

    Raises InputError for an invalid one, or two on one question.
    """
    by_question: dict[str, Calibration] = {}
    for value in _as_list(values):
        if isinstance(value, Calibration):
            calibration = value
        elif isinstance(value, str | Path):
            calibration = read_calibration(value)
        else:
            name = option_name("calibration")
            raise InputError(f"{name} must be names or files of calibrations, got {value!r:.80}")
        question = calibration.question
        other = by_question.setdefault(question, calibration)
        if other != calibration:
            names = f"{other.name} and {calibration.name}"
            raise InputError(
                f"{names} are both calibrations for {question}",
                hint="name one for each question",
            )
    return tuple(by_question.values())


def _as_list(values: object) -> Sequence[object]:
    if values is None:
        return ()
    if isinstance(values, Sequence) and not isinstance(values, str):
        return values
    return [values]


def calibration_file(name: str) -> Path:
    """Return the path of a saved calibration. Raises InputError for an invalid name."""
    if not _NAME.fullmatch(name):
        hint = "use at most 80 letters, digits, _, - and ."
        raise InputError(f"invalid name of a calibration: {name!r:.80}", hint=hint)
    return resources.state_directory() / "calibrations" / f"{name}.json"


def saved_calibrations() -> list[str]:
    return sorted(file.stem for file in calibration_file("x").parent.glob("*.json"))


def read_calibration(name_or_file: str | Path) -> Calibration:
    """Read a saved calibration by name, or from any file.

    Raises InputError if missing or invalid.
    """
    name = str(name_or_file)
    path = Path(name_or_file)
    if _NAME.fullmatch(name) and calibration_file(name).is_file():
        path = calibration_file(name)
    if not path.is_file():
        hint = "make one: localjudge calibrate LABELS --judge NAME|PATH"
        saved = saved_calibrations()
        if saved:
            hint = suggestion(name, saved, "saved")
        raise InputError(f"there is no calibration or file called {name!r:.80}", hint=hint)
    return validated(Calibration, read_object(path.resolve()), str(path))


def is_saved(calibration: Calibration, name: str | None) -> bool:
    """Return whether a calibration is saved: a named one, or of a judge better than guessing."""
    return name is not None or not calibration.guesses


def name_and_save(
    calibration: Calibration, name: str | None, taken: Collection[str], progress: Progress
) -> Calibration:
    """Save a calibration by its name, else as judge-question.

    If a calibration of that name has other labels or answers: judge-2-question, and so on.
    """
    judge = _NOT_IN_NAMES.sub("-", calibration.card.name)
    stem = judge.strip("-.")[:_MAX_STEM_LENGTH] or "judge"
    question = _NOT_IN_NAMES.sub("-", calibration.question)[:_MAX_QUESTION_LENGTH]
    chosen = name or f"{stem}-{question}"
    number = 1
    while name is None and (chosen in taken or _is_used(chosen, calibration)):
        if chosen not in taken:
            progress.note(f"keeping the calibration {chosen}, which has other labels or answers")
        number += 1
        chosen = f"{stem}-{number}-{question}"
    calibration = calibration.model_copy(update={"name": chosen})
    if is_saved(calibration, name):
        if _is_used(chosen, calibration):
            progress.note(f"replacing the calibration {chosen}, which has other labels or answers")
        path = calibration_file(chosen)
        resources.make_private(path.parent)
        resources.write_output(path, [f"{calibration.model_dump_json(indent=2)}\n".encode()])
    return calibration


def _is_used(name: str, calibration: Calibration) -> bool:
    """Return whether the name is of an unreadable calibration or of other labels or answers."""
    if not calibration_file(name).exists():
        return False
    try:
        saved = read_calibration(name)
    except LocaljudgeError:
        return True
    return (saved.run, saved.labels.sha256) != (calibration.run, calibration.labels.sha256)
