"""Types of the settings as keyword arguments. None keeps a default; `localjudge.evaluate` explains them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from localjudge.judge.profile import ProfileFolder
from localjudge.judge.wording import Reasons
from localjudge.record.calibration import Calibration
from localjudge.record.run import Run

_Calibrations = str | Path | Calibration
_Runs = Run | str | Path


class VerifyOptions(TypedDict, total=False):
    """Where a judge works."""

    threads: int | None


class _Answers(VerifyOptions, total=False):
    min_legal_mass: float | None


class _Scoring(_Answers, total=False):
    threshold: float | None
    calibration: _Calibrations | Sequence[_Calibrations] | None
    weights: Mapping[str, float] | None
    max_failed: int | None


class _Asking(_Answers, total=False):
    profile: str | Path | ProfileFolder | None
    reasons: Reasons | None
    n_ctx: int | None
    gpu_layers: int | None


class _Reusing(TypedDict, total=False):
    cluster_by: str | None
    reuse: _Runs | Sequence[_Runs] | None


class CalibrateOptions(_Asking, _Reusing, total=False):
    """Options of a calibration."""


class JudgeOptions(_Scoring, _Asking, total=False):
    """Options of an open judge."""

    language: str | None
    segmenter: str | None
    abbreviations: str | Path | Sequence[str] | None
    keep_thinking: bool | None


class RunOptions(JudgeOptions, _Reusing, total=False):
    """Options of a run. In Python, criteria are metrics."""

    mapping: Mapping[str, str] | None
    context_separator: str | None
    rows: str | None
    skip_bad_rows: bool | None
    limit: int | None
    sample: int | None
    seed: int | None
    shard: str | None
    until: str | Sequence[str] | None
    width: float | None
    budget: str | None


def drop_unset(options: Mapping[str, object]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
