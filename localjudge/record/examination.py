"""Uses of a judge that `doctor` recommends, stored in LOCALJUDGE_HOME/examined and shown with the judge's numbers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from localjudge import resources
from localjudge.record.manifest import EngineIdentity, JudgeIdentity, PromptsIdentity
from localjudge.record.store import canonical_sha256
from localjudge.types import USES, JudgeCard

NOT_EXAMINED = "not examined: localjudge doctor --judge ..."


class Examination(NamedTuple):
    """Recommended uses by task, and the number of labelled items (0: failed the plain cases)."""

    uses: Mapping[str, Sequence[str]]
    items: int

    def __str__(self) -> str:
        """`not recommended for: ranking, means, thresholds (doctor, 384 items)`."""
        tasks = {task: " and ".join(uses) for task, uses in self.uses.items()}
        if not any(tasks.values()):
            words = f"not recommended for: {', '.join(USES)}"
        elif len(set(tasks.values())) == 1:
            words = f"recommended for: {next(iter(tasks.values()))}"
        else:
            by_task = (f"{uses} ({task})" if uses else f"not {task}" for task, uses in tasks.items())
            words = f"recommended for: {', '.join(by_task)}"
        return f"{words} (doctor, {f'{self.items:,} items' if self.items else 'plain cases'})"


def remember_examination(engine: EngineIdentity, prompts: PromptsIdentity, examination: Examination) -> None:
    if file := _examination_file(engine, prompts):
        resources.remember(file, str(examination))


def with_examination(card: JudgeCard, judge: JudgeIdentity) -> JudgeCard:
    file = _examination_file(judge.engine, judge.judge)
    if file and file.exists():
        return card.model_copy(update={"examined": file.read_text()})
    return card.model_copy(update={"examined": NOT_EXAMINED if file and not card.caution else None})


def _examination_file(engine: EngineIdentity, prompts: PromptsIdentity) -> Path | None:
    key = canonical_sha256({"model_sha256": engine.model_sha256, "judge": prompts.of_answers})
    return resources.state_directory() / "examined" / f"{key}.txt" if engine.model_sha256 else None
