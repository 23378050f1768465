"""Answers that were given before, in another run or to this user: a run takes them in place of asking.

    questions ──own store──> missing ──--reuse RUN, ...──> missing ──cache──> missing ──engine──> answers
                                  └── copied into the own store, with where they are from ──┘

Equal keys mean equal answers only where all else that can move one is equal, too: `answering_part` says what that is,
and a run of which it differs is refused. An error is never taken: most cost nothing to find again, since the model is
not run for them, and one that it was run for may have passed.

Another run may be a stranger's. Its file is read as one (`database.py`), but nothing except asking again can tell
whether an answer in it was given: whoever names a run trusts it so far, the manifest says what came from it, and
`verify` asks for it like for any other.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from localjudge.errors import RunDirectoryError, UsageError
from localjudge.record.archive import stored_answers
from localjudge.record.directory import STORE
from localjudge.record.manifest import answering_part, differences, in_lines
from localjudge.record.results import read_manifest
from localjudge.types import Answer, NoAnswer


class EarlierAnswers(Protocol):
    """Where answers may be found."""

    @property
    def name(self) -> str:
        """What the manifest calls it."""
        ...

    def answers_to(self, keys: Iterable[str]) -> Mapping[str, Answer]:
        """The answers to the questions with these keys, as far as there are any."""
        ...

    def keep(self, key: str, answer: Answer | NoAnswer) -> None:
        """Take notice of an answer that the judge has just given."""
        ...

    def close(self) -> None:
        """Nothing more is looked for."""
        ...


class OtherRun:
    """The answers of a run, finished or not. Raises RunDirectoryError if its file cannot be read."""

    def __init__(self, directory: Path) -> None:
        self.name = str(directory)
        self._store = directory / STORE
        self.answers_to([])

    def answers_to(self, keys: Iterable[str]) -> dict[str, Answer]:
        """The answers to the questions with these keys, as far as there are any."""
        found = stored_answers(self._store, keys)
        return {key: answer for key, answer in found.items() if isinstance(answer, Answer)}

    def keep(self, key: str, answer: Answer | NoAnswer) -> None:
        """Leave it: another run's directory is never written."""

    def close(self) -> None:
        """Nothing is open."""


def check_same_judge(directory: Path, judge: Mapping[str, Any]) -> None:
    """Raise UsageError if the answers in a run are of a judge that might have answered otherwise than this judge part.

    Raises RunDirectoryError if there is no run.
    """
    manifest = read_manifest(directory)
    if manifest is None:
        raise RunDirectoryError(f"{directory} holds no run", hint="name the directory of one")
    if different := differences(answering_part(manifest.judge), answering_part(judge)):
        raise UsageError(
            f"the answers in {directory} are of another judge:{in_lines(different)}",
            hint="score the data without them: every answer is then asked for",
        )
