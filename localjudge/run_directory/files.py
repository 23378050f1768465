"""Write the result files of a run.

`so-far.json` has the bytes of each part file up to the last complete sample.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import NonNegativeInt

from localjudge.run_directory.directory import (
    MANIFEST,
    PartFile,
    read_object,
    remove_file,
    validated,
    write_file,
)
from localjudge.run_directory.evidence_rows import EVIDENCE
from localjudge.run_directory.manifest import Manifest
from localjudge.run_directory.result_rows import (
    Evaluation,
    EvidenceRow,
    json_line,
    score_rows,
    verdict_rows,
)
from localjudge.run_directory.summary import SUMMARY, Summary
from localjudge.types import Record

SCORES = "scores.jsonl"
VERDICTS = "verdicts.jsonl"
ROW_FILES = (SCORES, VERDICTS)
_SO_FAR = "so-far.json"


class RowsSoFar(Record):
    """The file `so-far.json`."""

    sizes: dict[str, NonNegativeInt]


class ResultFiles:
    """Writes the row files as results arrive, and the summary at the end.

    Without evidence, a file of evidence that is already there is removed.
    """

    def __init__(self, directory: Path, *, with_evidence: bool) -> None:
        self._directory = directory
        self._with_evidence = with_evidence
        remove_file(directory / _SO_FAR)
        names = row_files(with_evidence=with_evidence)
        self._parts = {name: PartFile(directory / name) for name in names}

    def add(
        self, evaluations: Sequence[Evaluation], evidence: Iterable[EvidenceRow] | None
    ) -> None:
        for name, lines in row_lines(evaluations, evidence).items():
            self._parts[name].write(lines)
        so_far = RowsSoFar(sizes={name: part.size for name, part in self._parts.items()})
        write_file(self._directory / _SO_FAR, so_far.model_dump_json(), durable=False)

    def finish(self, summary: Summary, manifest: Manifest) -> Manifest:
        """Replace the previous files, the summary last.

        Returns the manifest with their checksums.
        """
        text = summary_text(summary)
        files = {name: part.sha256.hexdigest() for name, part in self._parts.items()}
        files[SUMMARY] = hashlib.sha256(text.encode()).hexdigest()
        manifest = manifest.with_environment(files=files)
        for part in self._parts.values():
            part.finish()
        if not self._with_evidence:
            remove_file(self._directory / EVIDENCE)
        write_manifest(self._directory, manifest)
        write_file(self._directory / SUMMARY, text)
        remove_file(self._directory / _SO_FAR)
        return manifest

    def close(self) -> None:
        for part in self._parts.values():
            part.close()


def rows_so_far(directory: Path) -> RowsSoFar | None:
    file = directory / _SO_FAR
    if not os.path.lexists(file):
        return None
    return validated(RowsSoFar, read_object(file), str(file))


def write_manifest(directory: Path, manifest: Manifest) -> None:
    write_file(directory / MANIFEST, _pretty(manifest.model_dump(mode="json")))


def row_files(*, with_evidence: bool) -> tuple[str, ...]:
    """Return the names of a run's row files."""
    if with_evidence:
        return (*ROW_FILES, EVIDENCE)
    return ROW_FILES


def row_lines(
    evaluations: Sequence[Evaluation], evidence: Iterable[EvidenceRow] | None
) -> dict[str, Iterator[str]]:
    """Return the lines of each row file. `evidence` is None for a run without."""
    lines: dict[str, Iterator[str]] = {
        SCORES: (json_line(vars(row)) for row in score_rows(evaluations)),
        VERDICTS: (json_line(row.values) for row in verdict_rows(evaluations)),
    }
    if evidence is not None:
        lines[EVIDENCE] = (json_line(vars(row)) for row in evidence)
    return lines


def summary_text(summary: Summary) -> str:
    return _pretty(summary.model_dump(mode="json"))


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
