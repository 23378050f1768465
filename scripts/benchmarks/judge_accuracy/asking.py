"""Runs of judges on the same rows. Each has a directory, so the same command resumes."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import localjudge
from localjudge import model_registry
from localjudge.errors import LocaljudgeError
from localjudge.metrics import Metric
from localjudge.stats.interval import Floats

from .rows import LabelledRow

TOGETHER = "+"
"""Joins the names of judges that make one verdict."""


def members(judge: str) -> list[str]:
    """Return the names in `a+b`."""
    return judge.split(TOGETHER)


def short_name(judge: str) -> str:
    """Return a judge's name for the table and for its directory: files without their folder."""
    names = [Path(name).name.removesuffix(".gguf") for name in members(judge)]
    return f" {TOGETHER} ".join(names)


def probabilities(
    judge: str,
    rows: Sequence[LabelledRow],
    metric: Metric,
    folder: Path,
    threads: int | None,
) -> Floats:
    """Return the judge's probability of yes for each row (n,).

    Judges that answer together, also under one registered name, reuse the answers of runs of one of
    them. Raises LocaljudgeError, also for a row without a verdict.
    """
    names = members(judge)
    asked = [name for part in names for name in model_registry.expand_jury(part)]
    alone = [_directory(folder, name) for name in asked if name != judge]
    judges: str | list[str] = judge
    if len(names) > 1:
        judges = names
    run = localjudge.evaluate(
        [row.sample for row in rows],
        judge=judges,
        metrics=[metric],
        out=_directory(folder, judge),
        reuse=[directory for directory in alone if directory.exists()] or None,
        threads=threads,
        cluster_by=None,
    )
    by_id = {verdict.sample_id: verdict for verdict in run.verdicts}
    values: list[float] = []
    for row in rows:
        verdict = by_id.get(row.sample["id"])
        if verdict is None or verdict.p_yes is None:
            reason = None if verdict is None else verdict.error
            raise LocaljudgeError(f"{run.directory}, {row.sample['id']}: {reason or 'no verdict'}")
        values.append(verdict.p_yes)
    return np.array(values)


def _directory(folder: Path, judge: str) -> Path:
    return folder / re.sub(r"[^\w.+-]", "", short_name(judge))
