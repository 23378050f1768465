"""What was measured, one line of JSON for each sample of each way, written the moment it is there.

Whatever stops the bench, the lines stay, and the same command goes on with what is missing. Lines of another model,
another build or other settings may stand in the same file: they are other tables.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

Outcome = Literal["done", "not done", "failed"]


@dataclass(frozen=True, order=True)
class Measured:
    """What all ways of a table have in common."""

    judge: str
    sha256: str
    mib: int
    """Of the model's file."""
    threads: int
    n_ctx: int
    build: str
    """The libraries, the server and the processor that it ran on."""


@dataclass(frozen=True)
class Measurement(Measured):
    """One sample of one way. `seconds` are those that it was given, if it is not done."""

    way: str
    context: str
    sample: str
    outcome: Outcome
    seconds: float
    asked: int
    """Verdicts that were asked for; `verdicts` are those that came."""
    prompt_tokens: int
    """Of the longest prompt of ours."""
    verdicts: int = 0
    evaluated: int = 0
    generated: int = 0
    peak_mib: int = 0
    why: str = ""
    """It failed."""

    @property
    def on(self) -> Measured:
        """The table that it belongs to."""
        return Measured(**{field.name: getattr(self, field.name) for field in fields(Measured)})


def read(file: Path) -> list[Measurement]:
    """All that is in the file, the last of each sample and way; a line that a kill cut off counts for nothing."""
    found: dict[tuple[Measured, str, str, str], Measurement] = {}
    known = {field.name for field in fields(Measurement)}
    for line in file.read_bytes().splitlines() if file.exists() else []:
        try:
            one = Measurement(**{name: value for name, value in json.loads(line).items() if name in known})
        except (ValueError, TypeError, AttributeError):
            continue
        found[one.on, one.way, one.context, one.sample] = one
    return list(found.values())


def append(file: Path, one: Measurement) -> None:
    """One line more. The line break stands first: a line that was cut off spoils no other."""
    with file.open("ab") as opened:
        opened.write(f"\n{json.dumps(asdict(one), ensure_ascii=False)}".encode())
        opened.flush()
        os.fsync(opened.fileno())


def time_for(sample: str, there: Sequence[Measurement], limit: float) -> float:
    """Seconds that a way may take for this sample, of `limit` for all samples; 0 if it is not to be asked.

    `there` is what the way has done about contexts of this length. What was not done in time is tried again, on this
    sample or another, only with more time; what failed is asked again.
    """
    if any(one.sample == sample and one.outcome == "done" for one in there):
        return 0
    left = limit - sum(one.seconds for one in there if one.outcome == "done")
    not_enough = max((one.seconds for one in there if one.outcome == "not done"), default=0)
    return left if left > not_enough else 0
