"""Remember the time per verdict of a model loaded on this machine, in LOCALJUDGE_HOME/paces."""

from datetime import datetime
from pathlib import Path

from pydantic import AwareDatetime, Field, FiniteFloat, ValidationError

from localjudge import resources
from localjudge.engine import hardware
from localjudge.engine.protocol import EngineStats, is_inspectable
from localjudge.record.store import canonical_sha256
from localjudge.run.judges import OpenJudge
from localjudge.run.settings import RunSettings
from localjudge.types import Record
from localjudge.words import numbered

_ENOUGH_VERDICTS = 16
_DIGITS = 16


class Pace(Record):
    """Seconds per verdict and per evaluated token, from the verdicts of a run that ended `when`."""

    seconds_per_verdict: FiniteFloat = Field(gt=0)
    seconds_per_token: FiniteFloat = Field(gt=0)
    verdicts: int = Field(ge=1)
    when: AwareDatetime

    def __str__(self) -> str:
        """`2.3 s per verdict here (300 verdicts on 2026-11-22)`."""
        seconds = float(f"{self.seconds_per_verdict:.2g}")
        return f"{seconds:g} s per verdict here ({numbered(self.verdicts, 'verdict')} on {self.when.date()})"


def pace_of(judge: OpenJudge, settings: RunSettings) -> Pace | None:
    return _read(_file_of(judge, settings))


def remember_pace(judge: OpenJudge, settings: RunSettings, verdicts: int, work: EngineStats, when: str) -> None:
    """Remember the time of a run with enough verdicts that ended `when` (ISO 8601)."""
    file, seconds = _file_of(judge, settings), work.seconds_total
    if file and verdicts >= _ENOUGH_VERDICTS and seconds > 0 and work.unique_tokens:
        pace = Pace(
            seconds_per_verdict=seconds / verdicts,
            seconds_per_token=seconds / work.unique_tokens,
            verdicts=verdicts,
            when=datetime.fromisoformat(when),
        )
        resources.remember(file, pace.model_dump_json())


def latest_pace(sha256: str) -> Pace | None:
    """Return the latest pace of a model for any settings."""
    file = _file(sha256, "*")
    return max(filter(None, map(_read, file.parent.glob(file.name))), key=lambda pace: pace.when, default=None)


def _file_of(judge: OpenJudge, settings: RunSettings) -> Path | None:
    engine = judge.engine
    if judge.source is None or not is_inspectable(engine):
        return None
    speed = [settings.engine.used_threads, engine.identity["gpu_layers"], settings.reasons]
    return _file(engine.identity["model_sha256"], canonical_sha256(speed)[:_DIGITS])


def _file(sha256: str, key: str) -> Path:
    machine = canonical_sha256(hardware.machine())[:_DIGITS]
    return resources.state_directory() / "paces" / f"{sha256[:_DIGITS]}-{machine}-{key}.json"


def _read(file: Path | None) -> Pace | None:
    try:
        return Pace.model_validate_json(file.read_bytes()) if file else None
    except (OSError, ValidationError):
        return None
