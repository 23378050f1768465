"""Save calibrations in LOCALJUDGE_HOME/calibrations/NAME.json, and read them by name or file."""

import re
from collections.abc import Sequence
from pathlib import Path

from localjudge import resources
from localjudge.errors import InputError
from localjudge.run_directory.calibration import Calibration
from localjudge.run_directory.directory import read_object, validated
from localjudge.words import option_name, suggestion

_NAME = re.compile(r"\w[\w.-]{0,79}", re.ASCII)

CalibrationLike = str | Path | Calibration
"""A name, a file, or a calibration."""


def read_calibrations(values: object) -> tuple[Calibration, ...]:
    """Return calibrations from names, files or calibrations.

    Raises InputError for an invalid one, or two on one question.
    """
    by_question: dict[str, Calibration] = {}
    for value in _as_list(values):
        calibration = _as_calibration(value)
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


def _as_calibration(value: object) -> Calibration:
    if isinstance(value, Calibration):
        return value
    if isinstance(value, str | Path):
        return read_calibration(value)
    name = option_name("calibration")
    raise InputError(f"{name} must be names or files of calibrations, got {value!r:.80}")


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


def save_calibration(calibration: Calibration) -> None:
    path = calibration_file(calibration.name)
    resources.make_private(path.parent)
    resources.write_output(path, [f"{calibration.model_dump_json(indent=2)}\n".encode()])
