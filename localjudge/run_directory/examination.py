"""Uses of a judge that `doctor` recommends, shown with the judge's numbers.

They are stored in LOCALJUDGE_HOME/examined.
"""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, NonNegativeInt, ValidationError

from localjudge import resources
from localjudge.run_directory.identity import JudgeIdentity, JuryMember
from localjudge.run_directory.request_keys import canonical_sha256
from localjudge.types import USES, JudgeCard, Record, Use

_METRICS_OF_TASKS = {"answers": "answer_relevancy"}
"""The metric that a recommendation concerns, where it is the only one."""
NOT_EXAMINED = "not examined: localjudge doctor --judge ..."


class Examination(Record):
    """Recommended uses by task, and the number of labelled items (0: failed the plain cases)."""

    uses: dict[Annotated[str, Field(pattern=r"^[a-z_]{1,40}$")], tuple[Use, ...]]
    items: NonNegativeInt
    weights: tuple[dict[str, float], ...] = ()
    """Weights of the judges of a jury in the examination."""

    def __str__(self) -> str:
        """`not recommended for: ranking, means, thresholds (doctor, 480 items)`."""
        basis = "plain cases"
        if self.items:
            basis = f"{self.items:,} items"
        uses_by_task = {name_task(task): " and ".join(uses) for task, uses in self.uses.items()}
        distinct_uses = set(uses_by_task.values())
        if not any(distinct_uses):
            recommendation = f"not recommended for: {', '.join(USES)}"
        elif len(distinct_uses) == 1:
            recommendation = f"recommended for: {distinct_uses.pop()}"
        else:
            parts = [f"{uses} ({task})" for task, uses in uses_by_task.items() if uses]
            parts += [f"not {task}" for task, uses in uses_by_task.items() if not uses]
            recommendation = f"recommended for: {', '.join(parts)}"
        return f"{recommendation} (doctor, {basis})"


def name_task(task: str) -> str:
    """Return the name of a task in recommendations: `answer_relevancy` for `answers`."""
    return _METRICS_OF_TASKS.get(task, task)


def remember_examination(judge: JudgeIdentity, examination: Examination) -> None:
    """Remember the examination of a judge, or of a jury with these weights."""
    file = _file(judge)
    if file:
        weights = tuple(dict(combination.weights) for combination in judge.combinations.values())
        examination = examination.model_copy(update={"weights": weights})
        resources.remember(file, examination.model_dump_json())


def with_examination(card: JudgeCard, judge: JudgeIdentity) -> JudgeCard:
    """Return the card with the recommended uses, or a note that they are unknown."""
    examination = find_examination(judge)
    if examination is not None:
        return card.model_copy(update={"examined": str(examination)})
    if card.caution or _file(judge) is None:
        return card.model_copy(update={"examined": None})
    return card.model_copy(update={"examined": NOT_EXAMINED})


def find_examination(judge: JudgeIdentity) -> Examination | None:
    """Return the stored examination of a judge, or of a jury with these weights."""
    file = _file(judge)
    if file is None:
        return None
    examination = _read(file)
    for combination in judge.combinations.values():
        if examination and (combination.bias or combination.weights not in examination.weights):
            return None  # of other weights
    return examination


def _read(file: Path) -> Examination | None:
    """Return the stored examination, or None without a valid one."""
    try:
        return Examination.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return None


def _file(judge: JudgeIdentity) -> Path | None:
    """Return the file of a judge or jury. None if the bytes of one of its models are unknown."""
    if not all(member.engine.model_sha256 for member in judge.judges):
        return None
    if judge.jury:
        examined: dict[str, Any] = {}
        for name, member in judge.jury.items():
            examined[name] = _examined(member)
        key = canonical_sha256({"jury": examined})
    else:
        key = canonical_sha256(_examined(judge.judges[0]))
    return resources.state_directory() / "examined" / f"{key}.json"


def _examined(member: JuryMember) -> dict[str, Any]:
    """Return the part of a judge that an examination is about: in any language."""
    prompts = member.judge.answering
    if prompts.get("nearest"):
        prompts["nearest"].pop("language")
    return {"model_sha256": member.engine.model_sha256, "judge": prompts}
