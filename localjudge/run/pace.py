"""How long a verdict of a model takes on this machine, by the last run that asked enough of them.

    LOCALJUDGE_HOME/paces/MODEL-MACHINE-SPEED.json      first digits of checksums

Kept of models that this process loads: a server, the workers of a cluster and an engine that was brought along have
clocks of their own. `seconds_per_verdict` of `localjudge.record.run` is that of one run, whoever judged.
"""

from pathlib import Path

from pydantic import AwareDatetime, Field, FiniteFloat, ValidationError

from localjudge import resources
from localjudge.engine import hardware
from localjudge.engine.protocol import EngineStats, ParallelEngine, is_inspectable
from localjudge.record.store import canonical_sha256
from localjudge.run.judges import OpenJudge
from localjudge.run.settings import RunSettings
from localjudge.types import Record
from localjudge.words import numbered

_ENOUGH_VERDICTS = 16
_DIGITS = 16


class Pace(Record):
    """Seconds a verdict, and a token that has to be evaluated; over so many verdicts of a run that ended `when`."""

    seconds_per_verdict: FiniteFloat = Field(gt=0)
    seconds_per_token: FiniteFloat = Field(gt=0)
    verdicts: int = Field(ge=1)
    when: AwareDatetime

    def __str__(self) -> str:
        """`2.3 s a verdict here (300 verdicts on 2026-11-22)`."""
        seconds = float(f"{self.seconds_per_verdict:.2g}")
        return f"{seconds:g} s a verdict here ({numbered(self.verdicts, 'verdict')} on {self.when.date()})"


def pace_of(judge: OpenJudge, settings: RunSettings) -> Pace | None:
    """That of the judge when it is asked by these settings, if it is remembered."""
    return _read(_file_of(judge, settings))


def remember_pace(judge: OpenJudge, settings: RunSettings, verdicts: int, work: EngineStats, when: str) -> None:
    """Remember how long so many verdicts took, if they are enough; `when` is the end of the run (ISO 8601)."""
    file, seconds = _file_of(judge, settings), work.seconds_total
    if file and verdicts >= _ENOUGH_VERDICTS and seconds > 0 and work.unique_tokens:
        each = {"seconds_per_verdict": seconds / verdicts, "seconds_per_token": seconds / work.unique_tokens}
        pace = Pace.model_validate({**each, "verdicts": verdicts, "when": when})
        resources.remember(file, pace.model_dump_json())


def latest_pace(sha256: str) -> Pace | None:
    """The last one of a model with this checksum on this machine, by whatever settings."""
    file = _file(sha256, "*")
    return max(filter(None, map(_read, file.parent.glob(file.name))), key=lambda pace: pace.when, default=None)


def _file_of(judge: OpenJudge, settings: RunSettings) -> Path | None:
    """Where the pace of a judge is kept, by what moves it; None for one that is not timed."""
    engine = judge.engine
    if judge.source is None or not is_inspectable(engine) or isinstance(engine, ParallelEngine):
        return None
    speed = [settings.engine.used_threads, engine.identity["gpu_layers"], settings.reasons, settings.protocol]
    return _file(engine.identity["model_sha256"], canonical_sha256(speed)[:_DIGITS])


def _file(sha256: str, key: str) -> Path:
    machine = canonical_sha256(hardware.machine())[:_DIGITS]
    return resources.state_directory() / "paces" / f"{sha256[:_DIGITS]}-{machine}-{key}.json"


def _read(file: Path | None) -> Pace | None:
    try:
        return Pace.model_validate_json(file.read_bytes()) if file else None
    except (OSError, ValidationError):
        return None
