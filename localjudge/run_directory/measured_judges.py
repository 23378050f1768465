"""What was measured about a judge, kept in LOCALJUDGE_HOME.

    calibration    on human labels of one question: calibrations/NAME.json, by `calibrate`
    examination    on bundled items: examined/SHA256.json, by `doctor`

A calibration is refused for a judge with another model, prompt, grammar or way of asking.
Differences in packages or processors only affect rounding and are reported. It is read by name or
file. An examination recommends uses, which are shown with the judge's numbers.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from localjudge import resources
from localjudge.errors import InputError, LocaljudgeError
from localjudge.progress import Progress
from localjudge.run_directory.differences import Difference, differences, only_rounds
from localjudge.run_directory.directory import canonical_sha256, read_object, validated
from localjudge.run_directory.identity import JudgeIdentity, JuryMember
from localjudge.types import MAX_WEIGHT, USES, Combination, JudgeCard, Record, Use
from localjudge.words import option_name, suggestion

_NAME = re.compile(r"\w[\w.-]{0,79}", re.ASCII)
_NOT_IN_NAMES = re.compile(r"[^\w.-]+", re.ASCII)
_MAX_STEM_LENGTH = 40
_MAX_QUESTION_LENGTH = 36
_GUESSING = 0.5  # AUC of a judge that guesses
_METRICS_OF_TASKS = {"answers": "answer_relevancy"}
"""The metric that a recommendation concerns, where it is the only one."""
NOT_EXAMINED = "not examined: localjudge doctor --judge ..."


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


class Examination(Record):
    """Recommended uses by task, and the number of labelled items (0: failed the plain cases)."""

    uses: dict[Annotated[str, Field(pattern=r"^[a-z_]{1,40}$")], tuple[Use, ...]]
    items: NonNegativeInt
    weights: tuple[dict[str, float], ...] = ()
    """Weights of the judges of a jury in the examination."""

    def __str__(self) -> str:
        """`not recommended for: ranking, means, thresholds (doctor, 480 items)`."""
        basis = "plain cases"
        if self.items:
            basis = f"{self.items:,} items"
        uses_by_task = {name_task(task): " and ".join(uses) for task, uses in self.uses.items()}
        distinct_uses = set(uses_by_task.values())
        if not any(distinct_uses):
            recommendation = f"not recommended for: {', '.join(USES)}"
        elif len(distinct_uses) == 1:
            recommendation = f"recommended for: {distinct_uses.pop()}"
        else:
            parts = [f"{uses} ({task})" for task, uses in uses_by_task.items() if uses]
            parts += [f"not {task}" for task, uses in uses_by_task.items() if not uses]
            recommendation = f"recommended for: {', '.join(parts)}"
        return f"{recommendation} (doctor, {basis})"


def name_task(task: str) -> str:
    """Return the name of a task in recommendations: `answer_relevancy` for `answers`."""
    return _METRICS_OF_TASKS.get(task, task)


def remember_examination(judge: JudgeIdentity, examination: Examination) -> None:
    """Remember the examination of a judge, or of a jury with these weights."""
    file = _examination_file(judge)
    if file:
        weights = tuple(dict(combination.weights) for combination in judge.combinations.values())
        examination = examination.model_copy(update={"weights": weights})
        resources.remember(file, examination.model_dump_json())


def with_examination(card: JudgeCard, judge: JudgeIdentity) -> JudgeCard:
    """Return the card with the recommended uses, or a note that they are unknown."""
    examination = find_examination(judge)
    if examination is not None:
        return card.model_copy(update={"examined": str(examination)})
    if card.caution or _examination_file(judge) is None:
        return card.model_copy(update={"examined": None})
    return card.model_copy(update={"examined": NOT_EXAMINED})


def find_examination(judge: JudgeIdentity) -> Examination | None:
    """Return the stored examination of a judge, or of a jury with these weights."""
    file = _examination_file(judge)
    if file is None:
        return None
    try:
        examination = Examination.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return None
    for combination in judge.combinations.values():
        if combination.bias or combination.weights not in examination.weights:
            return None  # of other weights
    return examination


def _examination_file(judge: JudgeIdentity) -> Path | None:
    """Return the file of a judge or jury. None if the bytes of one of its models are unknown."""
    if not all(member.engine.model_sha256 for member in judge.judges):
        return None
    if judge.jury:
        examined: dict[str, Any] = {}
        for name, member in judge.jury.items():
            examined[name] = _examined(member)
        key = canonical_sha256({"jury": examined})
    else:
        key = canonical_sha256(_examined(judge.judges[0]))
    return resources.state_directory() / "examined" / f"{key}.json"


def _examined(member: JuryMember) -> dict[str, Any]:
    """Return the part of a judge that an examination is about: in any language."""
    prompts = member.judge.answering
    if prompts.get("nearest"):
        prompts["nearest"].pop("language")
    return {"model_sha256": member.engine.model_sha256, "judge": prompts}
