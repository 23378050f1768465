"""Answers of models to labelled questions, kept in a file the moment they are there: asked once, whatever stops.

    answers.jsonl    {"key", "model", "mib", "task", "wording", "id", "source", "cluster", "label", "p_yes"}

The key is the request's own, as in a run's store: an engine, a model or a word that changes is asked again.
"""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from localjudge import model_registry
from localjudge.engine.opening import open_engine
from localjudge.engine.protocol import Engine
from localjudge.judge import profile as prompts
from localjudge.judge.wording import PromptWriter
from localjudge.record.store import RequestKeys
from localjudge.run.judges import judge_on
from localjudge.run.settings import RunSettings, checked
from localjudge.types import Answer

from .items import Item

ANSWERS = "answers.jsonl"
TODAY = "today"
"""The wording of the package."""


class Trial(NamedTuple):
    """One wording of one task, and the questions to ask in it."""

    task: str
    wording: str
    prompt: Path | None
    items: Sequence[Item]


class OpenModel:
    """A model that answers labelled questions, and keeps its answers in a folder."""

    def __init__(self, engine: Engine, name: str, folder: Path) -> None:
        self.engine = engine
        self.name = name
        self._keys = RequestKeys(engine.identity)
        self._file = folder / ANSWERS
        self._stored = {row["key"] for row in read_rows(self._file)}

    @property
    def reads_instructions(self) -> bool:
        """Whether it can be asked in other words than its own."""
        registered = model_registry.registered_as(str(self.engine.identity.get("model_sha256")))
        return prompts.load_profile((registered and registered.profile) or prompts.DEFAULT_PROFILE).instructions

    def judge(self, prompt: Path | None = None) -> PromptWriter:
        """The judge that this model is with a wording of one task."""
        return judge_on(self.engine, checked({"prompts": prompt} if prompt else {})).judge

    def answer(self, trial: Trial) -> None:
        """Ask what is not answered yet. A question without an answer is kept with p_yes null.

        One answer may stand for several items and wordings that word it alike; each has a row.
        """
        judge = self.judge(trial.prompt)
        mib = int(self.engine.identity.get("model_size", 0)) >> 20
        pending = []
        for item in trial.items:
            request = judge.request(item.task)
            key = f"{self._keys.keyed(request).key}/{trial.wording}/{item.id}"
            if key not in self._stored:
                head = {"key": key, "model": self.name, "mib": mib, "task": trial.task, "wording": trial.wording}
                row = head | {name: getattr(item, name) for name in ("id", "source", "cluster", "label")}
                pending.append((request, row))
        start = time.monotonic()
        for done, (index, answer) in enumerate(self.engine.answers([request for request, _ in pending]), start=1):
            row = pending[index][1] | {"p_yes": answer.p_yes if isinstance(answer, Answer) else None}
            with self._file.open("ab") as file:  # the line break first: a line that was cut off spoils no other
                file.write(f"\n{json.dumps(row, ensure_ascii=False)}".encode())
            self._stored.add(row["key"])
            left = (time.monotonic() - start) / done * (len(pending) - done) / 60
            progress = f"{trial.task} {trial.wording}: {done} of {len(pending)}, {left:.0f} min left"
            print(f"\r{self.name} {progress}", end="\n" if done == len(pending) else "", file=sys.stderr)


@contextmanager
def open_model(name_or_path: str, folder: Path, threads: int | None) -> Iterator[OpenModel]:
    """A model while it is asked. Raises ModelError as `localjudge run` does."""
    folder.mkdir(parents=True, exist_ok=True)
    file = model_registry.find(name_or_path)
    with closing(open_engine(file, RunSettings(threads=threads).engine)) as engine:
        yield OpenModel(engine, engine.name, folder)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of a file that may not be there; a line that a kill cut off counts for nothing."""
    rows = []
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows
