"""Default names of run directories: `runs/answers-3f9a1c2e`."""

import os
import re
from pathlib import Path

from localjudge.dataset.shards import Shard
from localjudge.errors import InputError
from localjudge.judging.plan import Plan
from localjudge.run_directory.identity import JudgeIdentity
from localjudge.run_directory.request_keys import canonical_sha256
from localjudge.words import option

RUNS = Path("runs")
FIRST_RUN = "run"
"""Each run in a folder of `localjudge start` has this name: run, run-2, ..."""
_NOT_IN_NAMES = re.compile(r"[^\w.-]+")
_ENDINGS = re.compile(r"(\.(gz|jsonl|ndjson|json|csv|tsv|parquet))+$", re.IGNORECASE)
_DIGITS = 8


def default_directory(planned: Plan, judge: JudgeIdentity) -> Path:
    """Return `runs/<stem of the first source>-<short hash of data and judge>`.

    The name of a shard ends in `-shard-2-of-4`.
    """
    data = planned.identity.as_json
    ending = ""
    if planned.parent and planned.settings.shard:
        data = {**planned.parent.as_json, "cluster_by": planned.settings.cluster_by}
        shard = Shard.read(planned.settings.shard)
        ending = f"-shard-{shard.number}-of-{shard.of}"
    stem = data_stem(planned.dataset.sources[0])
    checksum = canonical_sha256([judge.without_updates, data])
    return below_runs(f"{stem}-{checksum[:_DIGITS]}{ending}")


def pair_directory(baseline: Plan, run: Plan, judge: JudgeIdentity) -> Path:
    """Return `runs/<stem of the first source>-<short hash of both data and judge>`."""
    values = [judge.without_updates, baseline.identity.as_json, run.identity.as_json]
    stem = data_stem(run.dataset.sources[0])
    return below_runs(f"{stem}-{canonical_sha256(values)[:_DIGITS]}")


def data_stem(source: str) -> str:
    """Return the name of a data file without endings, as part of a directory's name."""
    name = _ENDINGS.sub("", Path(source).name)
    return _NOT_IN_NAMES.sub("-", name).strip("-.") or "data"


def below_runs(name: str) -> Path:
    """Return a directory in `runs`. Raises InputError for a link."""
    path = RUNS / name
    for place in (RUNS, path):
        if place.is_symlink():
            target = os.path.realpath(place)
            raise InputError(
                f"{place} is a link: the run and its texts would be written to {target}",
                hint=f"if you want that, name the directory: {option('out', str(path))}",
            )
    return path
