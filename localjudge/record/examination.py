"""Uses of a judge that `doctor` recommends on this machine, shown with the judge's numbers.

Stored in LOCALJUDGE_HOME/examined/KEY.txt. KEY is a sha256 of the model's checksum, its prompts and grammars.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from localjudge import resources
from localjudge.record.manifest import EngineIdentity, JudgeIdentity, PromptsIdentity
from localjudge.record.store import canonical_sha256
from localjudge.types import JudgeCard

NOT_EXAMINED = "not examined: localjudge doctor --judge ..."


class Examination(NamedTuple):
    """Recommended uses of a judge for each task, and the number of labelled items (0: failed the plain cases)."""

    uses: Mapping[str, Sequence[str]]
    items: int

    def __str__(self) -> str:
        """`fit for: nothing (doctor, 384 items)`."""
        tasks = {task: " and ".join(uses) or "nothing" for task, uses in self.uses.items()}
        alike = len(set(tasks.values())) == 1
        uses = next(iter(tasks.values())) if alike else ", ".join(f"{use} ({task})" for task, use in tasks.items())
        return f"fit for: {uses} (doctor, {f'{self.items:,} items' if self.items else 'plain cases'})"


def remember_examination(engine: EngineIdentity, prompts: PromptsIdentity, examination: Examination) -> None:
    """Store the examination of the judge. Does nothing for a model without a checksum."""
    if file := _examination_file(engine, prompts):
        resources.remember(file, str(examination))


def with_examination(card: JudgeCard, judge: JudgeIdentity) -> JudgeCard:
    """Add the uses recommended on this machine to the card of a run's judge."""
    file, words = _examination_file(judge.engine, judge.judge), None
    if file and file.exists():
        words = file.read_text()
    elif file and not card.caution:
        words = NOT_EXAMINED
    return card.model_copy(update={"examined": words})


def _examination_file(engine: EngineIdentity, prompts: PromptsIdentity) -> Path | None:
    key = canonical_sha256({"model_sha256": engine.model_sha256, "judge": prompts.of_answers})
    return resources.state_directory() / "examined" / f"{key}.txt" if engine.model_sha256 else None
