"""The command that began a run, put together again from its manifest, for whoever wants to go on with it.

    localjudge run --judge reference --metrics context_recall --out runs/data-3f9a1c2e --threshold 0.5 ... -- data.jsonl

Everything that has a value is named, even where it is the default: another version may have another default. The
manifest may be a stranger's, and the command is advice: it holds settings that can neither send a text anywhere nor
write outside the run's directory. A run that needs another option is continued by what its user typed.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from localjudge.metrics.labelled import ATTRIBUTION_LABELS, RELEVANCE_LABELS
from localjudge.option_spelling import flag
from localjudge.printable import printable
from localjudge.record.manifest import Manifest

_PYTHON_ROWS = "rows"
_LONGEST = 2_000
_SAFE = {
    *("threshold", "min_legal_mass", "language", "segmenter", "profile", "reasons", "protocol", "mapping", "rows"),
    *("context_separator", "skip_bad_rows", "cluster_by", "max_failed", "reuse", "limit", "sample", "seed", "shard"),
    *("n_ctx", "gpu_layers", "threads"),
}
"""Settings that a command printed here may name: those that a run's files hold as they were typed."""
_SERVER = re.compile("https?://|unix:", re.IGNORECASE)


def command(directory: Path, manifest: Manifest) -> str | None:
    """The command as a shell reads it, on one line.

    None for a run that Python code began, with rows or an engine of its own, for one with a setting that is not safe to
    advise or of which the manifest holds the words and not the file, for one whose judge is a server, for one that asks
    about labels of people, and for what no line can hold.
    """
    judges, sources = manifest.environment.get("judge"), manifest.environment.get("sources")
    settings = manifest.environment["settings"]
    if not judges or not sources or sources == [_PYTHON_ROWS]:
        return None
    if not {ATTRIBUTION_LABELS, RELEVANCE_LABELS}.isdisjoint(manifest.judge["metrics"]):
        return None
    own_profile = isinstance(settings.get("profile"), Mapping)
    if own_profile or any(_values(value) for name, value in settings.items() if name not in _SAFE):
        return None
    words = ["localjudge", "run"]
    for judge in judges if isinstance(judges, list) else [judges]:
        if _SERVER.match(judge):
            return None
        words += ["--judge", judge]
    words += ["--metrics", ",".join(manifest.judge["metrics"])]
    words += ["--out", str(directory), *_options(settings)]
    words += ["--", *("-" if source == "stdin" else source for source in sources)]
    line = shlex.join(words)
    return line if line == printable(line) and len(line) <= _LONGEST else None


def _options(settings: Mapping[str, Any]) -> Iterator[str]:
    for name, value in settings.items():
        for one in _values(value):
            yield from (flag(name),) if one is True else (flag(name), str(one))


def _values(value: Any) -> list[Any]:
    """What is given with one option each; nothing for a setting that is off."""
    if isinstance(value, Mapping):
        return [f"{ours}={theirs}" for ours, theirs in value.items()]
    if isinstance(value, list):
        return value
    return [] if value is None or value is False else [value]
