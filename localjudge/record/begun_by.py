"""The command that began a run, put together again from its manifest, for whoever wants to go on with it.

    localjudge run data.jsonl --judge reference --metrics context_recall --out runs/data-3f9a1c2e --threshold 0.6

Metrics and directory are always named: then the command means this run wherever its defaults come from. Settings that
are as they are by default are left out.
"""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from localjudge.printable import printable
from localjudge.record.manifest import Manifest
from localjudge.run.settings import RunSettings

_PYTHON_ROWS = "rows"
_LONGEST = 2_000
_OPTIONS = {"prompts": "--prompt", "mapping": "--map", "gates": "--gate"}
"""Options that are not called like their setting: those that may be given several times."""


def command(directory: Path, manifest: Manifest) -> str | None:
    """The command as a shell reads it, on one line.

    None for a run that Python code began, with rows or an engine of its own, and for what no line can hold.
    """
    judge, sources = manifest.beside.get("judge"), manifest.beside.get("sources")
    if not judge or not sources or sources == [_PYTHON_ROWS]:
        return None
    words = ["localjudge", "run", "--judge", judge, "--metrics", ",".join(manifest.judge["metrics"])]
    words += ["--out", str(directory), *_given(manifest.beside["settings"])]
    words += ["--", *("-" if source == "stdin" else source for source in sources)]
    line = shlex.join(words)
    return line if line == printable(line) and len(line) <= _LONGEST else None


def _given(settings: Mapping[str, Any]) -> Iterator[str]:
    """Options for settings that are not the default."""
    for name, field in RunSettings.model_fields.items():
        value = settings.get(name)
        if value is None or value == field.get_default(call_default_factory=True):
            continue
        option = _OPTIONS.get(name, f"--{name.replace('_', '-')}")
        for one in _values(value):
            yield from (option,) if one is True else (option, str(one))


def _values(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [f"{ours}={theirs}" for ours, theirs in value.items()]
    return list(value) if isinstance(value, list | tuple) else [value]
