"""Answers of a check that was interrupted: the next one of the same judge takes them in place of asking.

    <state directory>/doctor/<sha256 of engine and version>.jsonl       {"key": request key, "answer": {...}}, ...

Each is written the moment it is there, and the file is deleted when a check comes to its end: so a finding rests on
answers of this machine, this model and these packages, given in this check or in one that did not finish. The folder is
open to its owner alone; what others could write to is not read. No text of anybody is in it, but the bundled cases'.
"""

import json
import os
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

from pydantic import ValidationError

from localjudge import resources
from localjudge.engine.protocol import Engine
from localjudge.progress import Progress
from localjudge.record.keys import RequestKeys, canonical_sha256
from localjudge.run.answers import ask
from localjudge.types import Answer, NoAnswer, Record, VerdictRequest

_MOST_BYTES = 1 << 22
"""Some hundred answers take some hundred bytes each."""
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class KeptAnswer(Record):
    """A line of the file."""

    key: str
    answer: Answer


class KeptAnswers:
    """What an interrupted check of this engine has left, and what this one leaves if it is interrupted.

    Where nothing can be kept, everything is asked; so too behind a server whose model's bytes are not proved, which may
    be another one next time. Errors are not kept.
    """

    def __init__(self, engine: Engine) -> None:
        identity = engine.identity
        self._keys = RequestKeys(identity)
        name = canonical_sha256({"engine": identity, "localjudge": version("localjudge")})
        self._file = resources.state_directory() / "doctor" / f"{name}.jsonl"
        self._usable = identity.get("engine") != "server" or "model_sha256" in identity
        self._known = _read(self._file) if self._usable else {}
        self.asked = 0
        """Questions that the engine was asked; answers that were there are not counted."""

    def count(self, requests: Iterable[VerdictRequest]) -> int:
        """How many answers there are to these questions; one that is asked in two places counts once."""
        return len(self._known.keys() & {self._keys.keyed(request).key for request in requests})

    def answers_in_order(
        self, engine: Engine, requests: Sequence[VerdictRequest], progress: Progress
    ) -> list[Answer | NoAnswer]:
        """One answer for each request, in their order; what is known is not asked."""
        keys = [self._keys.keyed(request).key for request in requests]
        rest = {str(place): request for place, request in enumerate(requests) if keys[place] not in self._known}
        progress.recall(len(requests) - len(rest))
        asked = ask(engine, rest, progress, on_answer=lambda place, answer: self._keep(keys[int(place)], answer))
        self.asked += len(asked)
        return [asked[str(place)] if str(place) in asked else self._known[key] for place, key in enumerate(keys)]

    def forget(self) -> None:
        """The check has come to its end: the next one asks everything."""
        try:
            self._file.unlink(missing_ok=True)
        except OSError:
            return

    def _keep(self, key: str, answer: Answer | NoAnswer) -> None:
        if not self._usable or not isinstance(answer, Answer):
            return
        # The line break stands first: a line that a kill cut off spoils no other.
        line = f"\n{json.dumps(KeptAnswer(key=key, answer=answer).model_dump())}".encode()
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._usable = resources.is_private(self._file.parent)
            if self._usable:
                descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _FLAGS, 0o600)
                with open(descriptor, "ab", buffering=0) as file:
                    file.write(line)
        except OSError:
            self._usable = False


def _read(path: Path) -> dict[str, Answer]:
    """The answers by their keys; a line that was cut off, or that nobody of ours wrote, counts for nothing."""
    try:
        if not resources.is_private(path.parent):
            return {}
        with open(os.open(path, os.O_RDONLY | _FLAGS), "rb") as file:
            lines = file.read(_MOST_BYTES).splitlines()
    except OSError:
        return {}
    found: dict[str, Answer] = {}
    for line in lines:
        try:
            one = KeptAnswer.model_validate_json(line, strict=True)
        except ValidationError:
            continue
        found[one.key] = one.answer
    return found
