"""A finished run on disk: written as whole files, and read back as one value.

    scores.jsonl     one row per sample and metric
    verdicts.jsonl   one row per judged unit
    summary.json     means, intervals, counts
    manifest.json    what the numbers rest on

The first three hold no times and no names of machines: an interrupted run leaves the same bytes as any other.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from localjudge.errors import RunDirectoryError
from localjudge.record.archive import stored_clusters, stored_samples
from localjudge.record.directory import MANIFEST, STORE, RunDirectory
from localjudge.record.manifest import Manifest
from localjudge.record.result_rows import ScoreRow, VerdictRow, json_line, score_rows, verdict_rows
from localjudge.record.summary import SCHEMA_VERSION, Summary
from localjudge.run.evaluate import Evaluation
from localjudge.types import Sample

_SUMMARY = "summary.json"
_SCORES = "scores.jsonl"
_VERDICTS = "verdicts.jsonl"
_BESIDE = {"settings", "sessions"}
_Object = TypeVar("_Object", Manifest, Summary)


@dataclass(frozen=True)
class Run:
    """A finished run: `summary` and `manifest` at once, scores and verdicts when they are looked at."""

    directory: Path
    summary: Summary
    manifest: Manifest

    @classmethod
    def open(cls, directory: str | Path) -> "Run":
        """Read the run in a directory. Raises RunDirectoryError if there is none, or it is not finished."""
        path = Path(directory)
        manifest = _manifest(path / MANIFEST)
        return cls(path, _read_object(path / _SUMMARY, Summary, SCHEMA_VERSION), manifest)

    @property
    def max_failed(self) -> int:
        """How many samples of a metric were allowed to fail."""
        return int(self.manifest.beside["settings"]["max_failed"])

    @cached_property
    def scores(self) -> tuple[ScoreRow, ...]:
        """One row for each sample and metric, in the order of the data, then of the metrics."""
        return tuple(ScoreRow(**_known(row, ScoreRow)) for row in _rows(self.directory / _SCORES))

    @cached_property
    def verdicts(self) -> tuple[VerdictRow, ...]:
        """One row for each judged unit, in the order of the data, then of the metrics, then of the units."""
        return tuple(VerdictRow(**_known(row, VerdictRow)) for row in _rows(self.directory / _VERDICTS))

    @cached_property
    def samples(self) -> tuple[Sample, ...]:
        """The data that was scored, in its order."""
        return stored_samples(self.directory / STORE)

    @cached_property
    def cluster_of(self) -> dict[str, str] | None:
        """The group of each sample by its id; None if each stands alone."""
        return stored_clusters(self.directory / STORE)


def write_manifest(directory: RunDirectory, manifest: Manifest) -> None:
    """Write `manifest.json`."""
    directory.write(MANIFEST, [_pretty(manifest.model_dump(mode="json"))])


def read_manifest(directory: Path) -> Manifest | None:
    """The manifest in the directory; None if there is none yet."""
    file = directory / MANIFEST
    return _manifest(file) if file.exists() else None


def write_results(directory: RunDirectory, evaluations: Sequence[Evaluation], summary: Summary) -> None:
    """Write scores, verdicts and, when they are whole, the summary."""
    for name, pieces in result_files(evaluations, summary).items():
        directory.write(name, pieces)


def result_files(evaluations: Sequence[Evaluation], summary: Summary) -> dict[str, Iterable[str]]:
    """The text of each result file in pieces, the summary last."""
    return {
        _SCORES: (json_line(vars(row)) for row in score_rows(evaluations)),
        _VERDICTS: (json_line(vars(row)) for row in verdict_rows(evaluations)),
        _SUMMARY: [_pretty(summary.model_dump(mode="json"))],
    }


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _manifest(file: Path) -> Manifest:
    manifest = _read_object(file, Manifest, SCHEMA_VERSION)
    if missing := _BESIDE - manifest.beside.keys():
        raise RunDirectoryError(
            f"{file} lacks {', '.join(sorted(missing))} in its part `beside`", hint="was it changed by hand?"
        )
    return manifest


def _read_object(file: Path, kind: type[_Object], schema_version: int) -> _Object:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        found = content.get("schema_version") if isinstance(content, dict) else None
        if found != schema_version:
            raise RunDirectoryError(
                f"{file} has schema version {found}, this localjudge reads {schema_version}",
                hint="read it with the version of localjudge that wrote it",
            )
        return kind.model_validate(content)
    except FileNotFoundError as error:
        raise _no_run(file) from error
    except (OSError, ValueError) as error:
        raise RunDirectoryError(f"{file} cannot be read: {error}", hint="was it changed by hand?") from error


def _no_run(missing: Path) -> RunDirectoryError:
    if (missing.parent / MANIFEST).exists():
        return RunDirectoryError(
            f"the run in {missing.parent} is not finished", hint="run the command that began it again to go on"
        )
    return RunDirectoryError(f"{missing.parent} holds no run", hint="give the directory that `localjudge run` made")


def _rows(file: Path) -> list[dict[str, Any]]:
    try:
        with file.open(encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]
    except (OSError, ValueError) as error:
        raise RunDirectoryError(
            f"{file} cannot be read: {error}", hint="run the same command again to write it anew"
        ) from error


def _known(row: dict[str, Any], kind: Any) -> dict[str, Any]:
    """Keys that this version knows: later versions may add some.

    Raises RunDirectoryError for a row that is not what this program writes.
    """
    needed = {field.name for field in fields(kind) if field.default is MISSING}
    if not isinstance(row, dict) or not needed <= row.keys():
        raise RunDirectoryError(
            f"a row of the results is not a whole {kind.__name__}: {row}",
            hint="run the same command again to write it anew",
        )
    return {field.name: row.get(field.name) for field in fields(kind)}
