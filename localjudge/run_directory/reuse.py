"""Reuse answers of other runs, and of an open judge. Errors are never reused.

questions ──own store──> missing ──reuse=RUN──> missing ──engine──> answers
                              └── copied into the own store, with their origin
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path

from localjudge.errors import InputError, MissingRun
from localjudge.progress import Progress
from localjudge.run_directory.differences import (
    differences,
    format_differences,
    format_updates,
    updates,
)
from localjudge.run_directory.directory import STORE
from localjudge.run_directory.environment import all_versions
from localjudge.run_directory.files import read_manifest
from localjudge.run_directory.identity import JudgeIdentity
from localjudge.run_directory.store_reader import stored_answers
from localjudge.types import Answer, NoAnswer

MAX_ANSWERS = 65_536
"""About a kilobyte each."""


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
        judges = judge.answering_judges
        if judge.has_no_model or manifest.judge.has_no_model:
            judges = manifest.judge.answering_judges  # there are no answers to mix up
        if not any(other in judges for other in manifest.judge.answering_judges):
            changes = differences(manifest.judge.answering, judge.answering)
            raise InputError(
                f"the answers in {directory} are from another judge:{format_differences(changes)}",
                hint="omit this run, so that all questions are asked",
            )
        self.answers_to([])

    def answers_to(self, keys: Iterable[str]) -> dict[str, Answer]:
        """Return the stored answers by key, without errors."""
        answers = stored_answers(self._store, keys)
        return {key: answer for key, answer in answers.items() if isinstance(answer, Answer)}


class AnswerMemory:
    """The last answers of an open judge, without errors."""

    name = "an open judge"

    def __init__(self) -> None:
        self._answers: OrderedDict[str, Answer] = OrderedDict()

    def answers_to(self, keys: Iterable[str]) -> dict[str, Answer]:
        """Return the remembered answers by key."""
        return {key: self._answers[key] for key in keys if key in self._answers}

    def add(self, key: str, answer: Answer | NoAnswer) -> None:
        if isinstance(answer, Answer):
            self._answers[key] = answer
        while len(self._answers) > MAX_ANSWERS:
            self._answers.popitem(last=False)


EarlierAnswers = OtherRun | AnswerMemory
"""A source of answers. The manifest records its `name`."""


def earlier_answers(
    memory: AnswerMemory | None, judge: JudgeIdentity, runs: Sequence[str], progress: Progress
) -> list[EarlierAnswers]:
    """Return the sources of earlier answers: runs to reuse, and the memory of an open judge.

    Reports runs that were made with other versions.
    """
    sources: list[EarlierAnswers] = []
    for name in runs:
        run = OtherRun(Path(name), judge)
        if run.updates:
            versions = format_updates(run.updates)
            progress.note(f"{run.name} was made with other versions ({versions})")
        sources.append(run)
    if memory is not None:
        sources.append(memory)
    return sources
