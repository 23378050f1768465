"""Answers of models to labelled questions, kept in a file the moment they are there: asked once, whatever stops.

    answers.jsonl    {"key", "model", "task", "wording", "id", "source", "cluster", "label", "p_yes", "legal_mass"}
    costs.jsonl      {"model", "task", "wording", "items", "tokens"}          tokens to evaluate, shared ones once

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
from localjudge.types import Answer, VerdictRequest

from .items import Item

ANSWERS = "answers.jsonl"
COSTS = "costs.jsonl"


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
        self.size = int(engine.identity.get("model_size", 0))
        """Bytes of the model's file."""
        self._keys = RequestKeys(engine.identity)
        self._folder = folder
        self._known = {row["key"] for row in rows_of(folder / ANSWERS)}

    @property
    def reads_instructions(self) -> bool:
        """Whether it can be asked in other words than its own."""
        registered = model_registry.registered_as(str(self.engine.identity.get("model_sha256")))
        return prompts.load_profile((registered and registered.profile) or prompts.DEFAULT_PROFILE).instructions

    def judge(self, prompt: Path | None) -> PromptWriter:
        """The judge that this model is with a wording of one task."""
        return judge_on(self.engine, checked({"prompts": prompt} if prompt else {})).judge

    def answer(self, trial: Trial) -> None:
        """Ask what is not answered yet. A question without an answer is kept with p_yes null."""
        judge = self.judge(trial.prompt)
        requests = [judge.request(item.task) for item in trial.items]
        keys = [self._keyed(request, item, trial) for request, item in zip(requests, trial.items, strict=True)]
        rest = [place for place, key in enumerate(keys) if key not in self._known]
        cost = {"model": self.name, "task": trial.task, "wording": trial.wording, "items": len(trial.items)}
        append(self._folder / COSTS, cost | {"tokens": self.engine.distinct_tokens(requests)})
        start = time.monotonic()
        for done, (index, answer) in enumerate(self.engine.answers([requests[place] for place in rest]), start=1):
            place = rest[index]
            item = trial.items[place]
            append(
                self._folder / ANSWERS,
                {
                    "key": keys[place],
                    "model": self.name,
                    "task": trial.task,
                    "wording": trial.wording,
                    "id": item.id,
                    "source": item.source,
                    "cluster": item.cluster,
                    "label": item.label,
                    "p_yes": answer.p_yes if isinstance(answer, Answer) else None,
                    "legal_mass": answer.legal_mass,
                },
            )
            self._known.add(keys[place])
            each = (time.monotonic() - start) / done
            left = each * (len(rest) - done)
            print(f"{self.name} {trial.task} {trial.wording}: {done} of {len(rest)}, {each:.2f} s each, "
                  f"{left / 60:.0f} min left", end="", file=sys.stderr)  # fmt: skip
        if rest:
            print(file=sys.stderr)

    def _keyed(self, request: VerdictRequest, item: Item, trial: Trial) -> str:
        """One answer may stand for several items and wordings that word it alike; each has a row."""
        return f"{self._keys.keyed(request).key}/{trial.wording}/{item.id}"


@contextmanager
def opened(name_or_path: str, folder: Path, threads: int | None) -> Iterator[OpenModel]:
    """A model while it is asked. Raises ModelError as `localjudge run` does."""
    file = model_registry.find(name_or_path)
    settings = RunSettings(threads=threads)
    folder.mkdir(parents=True, exist_ok=True)
    profile = prompts.load_profile(file.profile or prompts.DEFAULT_PROFILE)
    with closing(open_engine(file, settings.engine, begin_of_text=profile.begin_of_text)) as engine:
        yield OpenModel(engine, engine.name, folder)


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Rows of a file that may not be there; a line that a kill cut off counts for nothing."""
    if not path.exists():
        return []
    found = []
    for line in path.read_bytes().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def append(path: Path, row: dict[str, Any]) -> None:
    """One row more. The line break stands first: a line that was cut off spoils no other."""
    with path.open("ab") as file:
        file.write(f"\n{json.dumps(row, ensure_ascii=False)}".encode())
