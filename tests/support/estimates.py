"""The estimate of a run with an engine, as `localjudge run --dry-run` makes it with a model."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from localjudge import ScriptedEngine
from localjudge.judging.estimate import estimate_plan
from localjudge.judging.plan import plan
from localjudge.judging.settings import checked


def estimated(
    rows: Any,
    metrics: Any,
    engine: ScriptedEngine,
    out: str | Path,
    clock: Callable[[], float] = time.monotonic,
    **options: Any,
) -> Any:
    planned = plan(rows, metrics, checked(options))
    return estimate_plan(planned, out=out, engine=engine, clock=clock)
