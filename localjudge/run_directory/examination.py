"""Uses of a judge that `doctor` recommends, stored in LOCALJUDGE_HOME/examined and shown with the judge's numbers."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, NonNegativeInt, ValidationError

from localjudge import resources
from localjudge.run_directory.manifest import EngineIdentity, JudgeIdentity, PromptsIdentity
from localjudge.run_directory.store import canonical_sha256
from localjudge.types import USES, JudgeCard, Record, Use

NOT_EXAMINED = "not examined: localjudge doctor --judge ..."


class Examination(Record):
    """Recommended uses by task, and the number of labelled items (0: failed the plain cases)."""

    uses: dict[Annotated[str, Field(pattern=r"^[a-z_]{1,40}$")], tuple[Use, ...]]
    items: NonNegativeInt

    def __str__(self) -> str:
        """`not recommended for: ranking, means, thresholds (doctor, 384 items)`."""
        tasks = {task: " and ".join(uses) for task, uses in self.uses.items()}
        if not any(tasks.values()):
            words = f"not recommended for: {', '.join(USES)}"
        elif len(set(tasks.values())) == 1:
            words = f"recommended for: {next(iter(tasks.values()))}"
        else:
            by_task = (
                f"{uses} ({task})" if uses else f"not {task}" for task, uses in tasks.items()
            )
            words = f"recommended for: {', '.join(by_task)}"
        return f"{words} (doctor, {f'{self.items:,} items' if self.items else 'plain cases'})"


def remember_examination(
    engine: EngineIdentity, prompts: PromptsIdentity, examination: Examination
) -> None:
    file = _examination_file(engine, prompts)
    if file:
        resources.remember(file, examination.model_dump_json())


def with_examination(card: JudgeCard, judge: JudgeIdentity) -> JudgeCard:
    file = _examination_file(judge.engine, judge.judge)
    examination = None if file is None else _read(file)
    if examination is not None:
        return card.model_copy(update={"examined": str(examination)})
    return card.model_copy(update={"examined": NOT_EXAMINED if file and not card.caution else None})


def _read(file: Path) -> Examination | None:
    """Return the stored examination, or None without a valid one."""
    try:
        return Examination.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return None


def _examination_file(engine: EngineIdentity, prompts: PromptsIdentity) -> Path | None:
    key = canonical_sha256({"model_sha256": engine.model_sha256, "judge": prompts.of_answers})
    return resources.state_directory() / "examined" / f"{key}.json" if engine.model_sha256 else None
