"""What `doctor` found a judge fit for, remembered so that it stands with every number of that judge.

    <state directory>/examined/KEY.json     {"uses": {"attribution": ["ranking"], "relevance": []}, "items": 384}
    manifest.json   environment.examined    the same by KEY, as the machine knew it that made the run

KEY is a sha256 of the model's checksum, its prompts and grammars. What this machine found comes before what a run
recorded, which may be a stranger's word; neither moves a number or a byte of a result file.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from localjudge import resources
from localjudge.record.manifest import Manifest, answering_part
from localjudge.record.store import canonical_sha256
from localjudge.types import JudgeCard, Record

NOT_EXAMINED = "not examined: localjudge doctor --judge ..."


class Examination(Record):
    """The uses that a judge is fit for in each task, and on how many labelled items; 0 if it failed the plain cases."""

    uses: dict[Literal["attribution", "relevance"], tuple[Literal["ranking", "means", "thresholds"], ...]]
    items: int = Field(ge=0)

    def __str__(self) -> str:
        """`fit for: nothing (doctor, 384 items)`."""
        tasks = {task: " and ".join(uses) or "nothing" for task, uses in self.uses.items()}
        alike = len(set(tasks.values())) == 1
        uses = next(iter(tasks.values())) if alike else ", ".join(f"{use} ({task})" for task, use in tasks.items())
        return f"fit for: {uses} (doctor, {f'{self.items:,} items' if self.items else 'plain cases'})"


def remember_examination(part: Mapping[str, Any], examination: Examination) -> None:
    """Remember it of the judge with this `engine` and `judge`; nothing of a model that no checksum proves."""
    if key := _key(part):
        resources.remember(_file(key), examination.model_dump_json())


def examinations_here(judge: Mapping[str, Any]) -> dict[str, Any]:
    """What this machine found of the judge of a judge part, by its key: for the manifest of its run."""
    key = _key(judge)
    examination = _remembered(key) if key else None
    return {key: examination.model_dump(mode="json")} if key and examination else {}


def with_examination(card: JudgeCard, manifest: Manifest) -> JudgeCard:
    """The card of a run's judge with what was found of it."""
    recorded = manifest.environment.get("examined", {})
    key, words = _key(manifest.judge), None
    if key and (examination := _remembered(key)):
        words = str(examination)
    elif key and key in recorded:
        words = f"{Examination.model_validate(recorded[key])}".removesuffix(")") + ", recorded with the run)"
    elif key and not card.caution:
        words = NOT_EXAMINED
    return card.model_copy(update={"examined": words})


def _key(part: Mapping[str, Any]) -> str | None:
    sha256 = part.get("engine", {}).get("model_sha256")
    return canonical_sha256({"model_sha256": sha256, "judge": answering_part(part)["judge"]}) if sha256 else None


def _remembered(key: str) -> Examination | None:
    try:
        return Examination.model_validate_json(_file(key).read_bytes())
    except (OSError, ValidationError):
        return None


def _file(key: str) -> Path:
    return resources.state_directory() / "examined" / f"{key}.json"
