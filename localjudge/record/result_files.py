"""The result files of a run while they are written, and where they go on after a stop.

    scores.jsonl     one row per sample and metric
    verdicts.jsonl   one row per judged unit
    summary.json     means, intervals, counts
    manifest.json    what the numbers rest on

    block judged ──> rows in NAME.part ──> resume.json        samples, answers; bytes and sha256 of each part

The first three hold no times and no names of machines: an interrupted run leaves the same bytes as any other. A run
that is begun again keeps the rows that `resume.json` vouches for, and works out the rest from the stored answers. If
one byte of them is another, if the store lacks an answer or the data come in another order, it works out all of them.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from pydantic import Field

from localjudge.errors import RunDirectoryError
from localjudge.record.directory import MANIFEST, PartFile, RunDirectory, Written
from localjudge.record.evaluation import Evaluation
from localjudge.record.manifest import Manifest
from localjudge.record.result_rows import (
    SCORE_ROWS,
    VERDICT_ROWS,
    evaluations_of,
    json_line,
    row_values,
    score_rows,
    verdict_rows,
)
from localjudge.record.summary import Summary
from localjudge.record.untrusted import read_object, read_rows, validated
from localjudge.types import Record

SCORES = "scores.jsonl"
VERDICTS = "verdicts.jsonl"
SUMMARY = "summary.json"
ROW_FILES = (SCORES, VERDICTS)
_RESUME = "resume.json"


class ResumePoint(Record):
    """How far a run has come: so many samples are in the parts, and rest on so many answers in the store."""

    samples: int = Field(ge=1)
    answers: int = Field(ge=0)
    parts: dict[str, Written]


class ResultFiles:
    """The files with rows, as the rows come, and the summary when all of them are there."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._parts: dict[str, PartFile] = {}
        self._opened = ExitStack()

    def begin(self) -> None:
        """Write from the first row on, whatever is there."""
        self.close()
        self._directory.remove(_RESUME)
        self._take({name: self._directory.part(name) for name in ROW_FILES})

    def resume(self, answers: int) -> ResumePoint | None:
        """Go on where the parts are as they were left, and the store has the answers that they rest on.

        None if there is no such place: then `begin`.
        """
        point = resume_point(self._directory.path)
        if point is None or answers < point.answers:
            return None
        parts = {name: self._directory.part_after(name, point.parts[name]) for name in ROW_FILES}
        self._take({name: part for name, part in parts.items() if part is not None})
        return point if None not in parts.values() else None

    def evaluations(self) -> Iterator[Evaluation]:
        """What the rows say that are there, in their order.

        Raises RunDirectoryError for rows that localjudge does not write.
        """
        path = self._directory.part_path
        return evaluations_of(read_rows(path(SCORES), SCORE_ROWS), read_rows(path(VERDICTS), VERDICT_ROWS))

    def add(self, evaluations: Sequence[Evaluation], samples: int, answers: int) -> None:
        """Write the rows of some more samples: so many are there now, and rest on so many stored answers."""
        for name, lines in row_lines(evaluations).items():
            self._parts[name].write(lines)
        written = {name: part.written for name, part in self._parts.items()}
        point = ResumePoint(samples=samples, answers=answers, parts=written)
        self._directory.write(_RESUME, [point.model_dump_json()], durable=False)

    def finish(self, summary: Summary, manifest: Manifest) -> Manifest:
        """Let all take the place of what was there, the summary last. The manifest gets their checksums."""
        text = summary_text(summary)
        files = {name: part.written.sha256 for name, part in self._parts.items()}
        files[SUMMARY] = hashlib.sha256(text.encode()).hexdigest()
        manifest = manifest.model_copy(update={"environment": {**manifest.environment, "files": files}})
        for part in self._parts.values():
            part.finish()
        write_manifest(self._directory, manifest)
        self._directory.write(SUMMARY, [text])
        self._directory.remove(_RESUME)
        return manifest

    def close(self) -> None:
        """Write no more."""
        self._opened.close()

    def _take(self, parts: Mapping[str, PartFile]) -> None:
        self._parts = dict(parts)
        for part in parts.values():
            self._opened.enter_context(closing(part))


def resume_point(directory: Path) -> ResumePoint | None:
    """What `resume.json` says; None if it is not there, or not as it was written."""
    file = directory / _RESUME
    try:
        point = validated(ResumePoint, read_object(file), str(file))
    except RunDirectoryError:
        return None
    return point if point.parts.keys() == set(ROW_FILES) else None


def write_manifest(directory: RunDirectory, manifest: Manifest) -> None:
    """Write `manifest.json`."""
    directory.write(MANIFEST, [_pretty(manifest.model_dump(mode="json"))])


def row_lines(evaluations: Sequence[Evaluation]) -> dict[str, Iterator[str]]:
    """Lines of the files that hold rows, by the file's name."""
    return {
        SCORES: (json_line(row_values(row)) for row in score_rows(evaluations)),
        VERDICTS: (json_line(row_values(row)) for row in verdict_rows(evaluations)),
    }


def summary_text(summary: Summary) -> str:
    """The file `summary.json`."""
    return _pretty(summary.model_dump(mode="json"))


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
