"""What the numbers rest on: everything that can move one, and a short signature of it.

    judge:3f9a1c2e|data:77b0d4aa
          │              └── first digits of sha256 over `data`: the samples themselves, in no order and no format
          └── first digits of sha256 over `judge`: model, processor features, prompts, grammars, cuts, metrics, versions

Equal signatures mean equal numbers. `environment` holds what cannot move a number: names of files, columns, threads,
times, the host. It is not part of the signature.
"""

import os
import platform
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field

from localjudge.errors import RunDirectoryError
from localjudge.metrics.criterion import Criterion
from localjudge.metrics.metric import Metric
from localjudge.metrics.naming import options_of
from localjudge.option_spelling import option
from localjudge.record.keys import canonical_sha256
from localjudge.record.untrusted import shown, validated
from localjudge.types import Record, VerdictRule

MANIFEST_VERSION = 1
WHEN_FINISHED = ("answers", "extras_sha256", "files")
"""What the environment says of a finished run alone."""
_DIGITS = 8
_SHOWN = 5
CHOOSE_A_PART = {"limit", "sample", "seed", "shard"}
"""Settings that choose a part of the data."""
_METRIC = re.compile(r"metrics\.(.+)\.version")
_DATA = {"sha256": "the data differ", "clusters_sha256": "the groups of the samples differ"}
_PACKAGES = ("localjudge", "llama-cpp-python", "llguidance", "numpy", "outlines_core", "spacy")


class Manifest(Record):
    """The file `manifest.json`."""

    model_config = ConfigDict(extra="ignore")

    schema_version: int = MANIFEST_VERSION
    signature: str
    judge: dict[str, Any]
    data: dict[str, Any]
    environment: dict[str, Any]


class Part(Record):
    """How many samples a run has of how many that the data had, and how they were chosen.

    A shard may be one of a part: then this has been chosen by `limit` or `sample` before.
    """

    samples: int = Field(ge=0)
    whole: int = Field(ge=0)
    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    shard: str | None = None

    def __str__(self) -> str:
        """`10 of 306 samples, drawn by seed 0`."""
        of = f"{self.samples:,} of {self.whole:,} samples"
        if self.shard is None:
            return f"the first {of}" if self.sample is None else f"{of}, drawn by seed {self.seed}"
        chosen = f" of {self.sample:,} drawn by seed {self.seed}" if self.sample is not None else ""
        return f"{of}, shard {self.shard}{f' of the first {self.limit:,}' if self.limit is not None else chosen}"


def chosen_part(settings: Mapping[str, Any], samples: int, whole: int) -> Part | None:
    """The part that settings of a run have chosen; None if it is all of the data."""
    if samples == whole:
        return None
    chosen = {name: settings[name] for name in CHOOSE_A_PART if name in settings}
    values = {"samples": samples, "whole": whole, **chosen}
    return validated(Part, values, "manifest.json: samples_read")


class Difference(Record):
    """One ingredient that differs between two manifests; None where one of them does not have it."""

    ingredient: str
    before: Any
    after: Any


def judge_part(
    engine_identity: Mapping[str, Any],
    judge_identity: Mapping[str, Any],
    segmenter_identity: Mapping[str, str],
    metrics: Sequence[Metric],
    rule: VerdictRule,
) -> dict[str, Any]:
    """All that can move a number except the data."""
    return {
        "engine": dict(engine_identity),
        "judge": dict(judge_identity),
        "segmenter": dict(segmenter_identity),
        "metrics": {metric.name: _definition(metric) for metric in metrics},
        "threshold": rule.threshold,
        **({"thresholds": dict(rule.thresholds)} if rule.thresholds else {}),
        **({"min_legal_mass": rule.min_legal_mass} if rule.min_legal_mass else {}),
        "versions": {package: version(package) for package in _PACKAGES},
    }


def _definition(metric: Metric) -> dict[str, Any]:
    """What says how a metric counts, and of a criterion also what it asks."""
    content = {"criterion_sha256": metric.sha256} if isinstance(metric, Criterion) else {}
    return {"version": metric.version, **options_of(metric), **content}


def answering_part(judge: Mapping[str, Any]) -> dict[str, Any]:
    """What of a judge part can move an answer: the engine, its prompts and grammars, the versions of the packages.

    The rest cannot: metrics, the tasks that only some of them ask, and cuts decide what is asked, and every word of
    that is in the key of a request; the threshold and the smallest legal mass decide what is made of an answer. So an
    answer is as good in any run whose part this is the same, and in no other: a key does not name the packages that
    turned a request into an answer.
    """
    part = {name: judge.get(name) for name in ("engine", "judge", "versions")}
    if isinstance(asks := part["judge"], Mapping):
        part["judge"] = {name: value for name, value in asks.items() if name != "special_tasks"}
    return part


def data_part(fingerprint: str, rows: int, clusters_sha256: str | None) -> dict[str, Any]:
    """The samples, and the groups that they belong to, which move the intervals."""
    return {"sha256": fingerprint, "rows": rows, "clusters_sha256": clusters_sha256}


def part_of(manifest: Manifest) -> Part | None:
    """Which part of the data a run is about; None if it is all of it."""
    environment = manifest.environment
    return chosen_part(environment["settings"], manifest.data["rows"], environment["samples_read"])


def finished_part(manifest: Manifest | None) -> dict[str, Any]:
    """What a manifest says of a finished run: it stays there while the run is begun once more."""
    environment = manifest.environment if manifest else {}
    return {name: environment[name] for name in WHEN_FINISHED if name in environment}


def with_environment(manifest: Manifest, more: Mapping[str, Any]) -> Manifest:
    """The manifest, of whose environment more is known."""
    return manifest.model_copy(update={"environment": {**manifest.environment, **more}})


def signature(judge: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """Both parts on one line, eight hexadecimal digits each."""
    return f"judge:{canonical_sha256(judge)[:_DIGITS]}|data:{canonical_sha256(data)[:_DIGITS]}"


def host() -> dict[str, Any]:
    """The machine and the interpreter, for whoever looks for the reason of a difference."""
    return {
        "node": platform.node(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
    }


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """Ingredients that differ between two parts of manifests, named by their path: `engine.n_ctx`."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    return [
        Difference(ingredient=name, before=old.get(name), after=new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def refuse_other_run(directory: Path, there: Manifest, ours: Manifest) -> None:
    """Raise RunDirectoryError, naming what differs, unless the run in the directory is this one."""
    different = differences(there.data, ours.data) + differences(there.judge, ours.judge)
    if not different:
        return
    raise RunDirectoryError(
        f"{directory} belongs to another run ({shown(there.signature)}, this one is {ours.signature}):"
        f"{in_lines(different)}",
        hint=f"name another directory with {option('out')}, or omit it",
    )


def in_lines(different: Sequence[Difference]) -> str:
    """The first of them, each on a line of its own with what it is on either side; how many more there are."""
    lines = list(dict.fromkeys(map(_in_words, different)))
    more = len(lines) - _SHOWN
    return "".join(f"\n  {line}" for line in lines[:_SHOWN]) + (f"\n  and {more} more" if more > 0 else "")


def _in_words(change: Difference) -> str:
    """A metric that one run lacks and other data are said as such; checksums of data tell nobody anything."""
    metric = _METRIC.fullmatch(change.ingredient)
    if metric and None in (change.before, change.after):
        has, lacks = ("that run", "this one") if change.after is None else ("this run", "that one")
        return f"{has} has {shown(metric[1])}, {lacks} does not"
    if (part := _DATA.get(change.ingredient.removeprefix("data."))) is not None:
        return part
    return f"{shown(change.ingredient)}: {shown(change.before)} there, {shown(change.after)} now"


def _leaves(part: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    leaves: list[tuple[str, Any]] = []
    for name, value in part.items():
        if isinstance(value, Mapping):
            leaves += _leaves(value, f"{prefix}{name}.")
        else:
            leaves.append((f"{prefix}{name}", value))
    return leaves
