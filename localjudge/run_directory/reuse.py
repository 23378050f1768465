"""Reuse answers of another run. Errors are never reused.

questions ──own store──> missing ──reuse=RUN──> missing ──engine──> answers
                              └── copied into the own store, with their origin
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from localjudge.errors import InputError, MissingRun
from localjudge.run_directory.archive import stored_answers
from localjudge.run_directory.differences import differences, format_differences, updates
from localjudge.run_directory.directory import STORE
from localjudge.run_directory.environment import all_versions
from localjudge.run_directory.identity import JudgeIdentity
from localjudge.run_directory.run_record import read_manifest
from localjudge.types import Answer, NoAnswer


class EarlierAnswers(Protocol):
    """A source of answers. The manifest records its `name`."""

    name: str

    def answers_to(self, keys: Iterable[str]) -> Mapping[str, Answer]:
        """Return the available answers by key."""

    def keep(self, key: str, answer: Answer | NoAnswer) -> None:
        """Store a new answer."""


class OtherRun:
    """Answers of another run, finished or not. `updates` are packages with another version there.

    Raises RunDirectoryError if the run is missing or unreadable, InputError if its judge differs.
    """

    def __init__(self, directory: Path, judge: JudgeIdentity) -> None:
        self.name = str(directory)
        self._store = directory / STORE
        manifest = read_manifest(directory)
        if manifest is None:
            raise MissingRun(f"{directory} contains no run", hint="name the directory of a run")
        self.versions = manifest.versions
        self.updates = updates({"versions": manifest.versions}, {"versions": all_versions()})
        shared = [
            part for part in manifest.judge.answering_judges if part in judge.answering_judges
        ]
        if not shared:
            changes = differences(manifest.judge.answering, judge.answering)
            raise InputError(
                f"the answers in {directory} are from another judge:{format_differences(changes)}",
                hint="omit this run, so that all questions are asked",
            )
        self.answers_to([])

    def answers_to(self, keys: Iterable[str]) -> dict[str, Answer]:
        answers = stored_answers(self._store, keys)
        return {key: answer for key, answer in answers.items() if isinstance(answer, Answer)}

    def keep(self, key: str, answer: Answer | NoAnswer) -> None:
        """Do nothing."""
