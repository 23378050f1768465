"""What a record says of who judged: of the judge of a run, or of those whose runs were combined.

    a run            judge.engine, judge.judge                 who, and how it is asked
    a combined run   judge.combined.judges.ID                  the judge part of each run
                     judge.combined.rule, .rules.METRIC        how their verdicts were combined
                     environment.combined                      the runs, and the names that results show

An id is the beginning of a model's checksum. Names and their order move no number, so they are not signed.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import ConfigDict, Field, model_validator

from localjudge import model_registry
from localjudge.judge.combining_rule import CombiningRule
from localjudge.record.manifest import Manifest
from localjudge.record.untrusted import shown, validated
from localjudge.types import JudgeCard, Record

UNPROVED = "bytes not proved"


class CombinedRun(Record):
    """A run that was combined: its directory and signature, the id of its judge, and the judge's name in results."""

    name: str
    judge: str
    run: str
    signature: str


class _JudgePart(Record):
    model_config = ConfigDict(extra="ignore", strict=True)

    engine: dict[str, Any]
    judge: dict[str, Any]


class Combination(Record):
    """Which runs were combined, and how; `rules` are those of metrics for whose question a calibration has weights."""

    runs: tuple[CombinedRun, ...]
    rule: CombiningRule
    rules: dict[str, CombiningRule] = Field(default_factory=dict)
    judges: dict[str, _JudgePart]

    @model_validator(mode="after")
    def _rules_for_these_judges(self) -> Self:
        weighed = [rule.weights for rule in (self.rule, *self.rules.values()) if rule.weights]
        if not self.runs or any(
            sorted(ids) != sorted(self.judges) for ids in ([run.judge for run in self.runs], *weighed)
        ):
            raise ValueError("its runs or its weights are not those of its judges")
        return self

    @property
    def card(self) -> JudgeCard:
        """All judges as one, and what has to be said of each."""
        cards = [judge_card(run.name, self.judges[run.judge].engine) for run in self.runs]
        weighed = [f"{metric} by {rule.rule}" for metric, rule in sorted(self.rules.items())]
        return JudgeCard(
            name=f"{' + '.join(card.name for card in cards)} by {', '.join([self.rule.rule, *weighed])}",
            caution="; ".join(f"{card.name}: {card.caution}" for card in cards if card.caution) or None,
        )

    @property
    def ids(self) -> dict[str, str]:
        """The ids of the judges by the names that results show."""
        return {run.name: run.judge for run in self.runs}

    def rule_of(self, metric: str) -> CombiningRule:
        """The rule of one metric."""
        return self.rules.get(metric, self.rule)


def combination_of(manifest: Manifest) -> Combination | None:
    """Which runs were combined, and how; None for a run that asked its judge itself.

    Raises RunDirectoryError if the runs or the rules are not those of the judges.
    """
    if "combined" not in manifest.judge:
        return None
    values = {**manifest.judge["combined"], "runs": manifest.environment.get("combined")}
    return validated(Combination, values, "manifest.json: combined")


def judge_parts(judge: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The judge part of a run; of a combined run that of each of its runs."""
    return list(judge["combined"]["judges"].values()) if "combined" in judge else [judge]


def card_of(manifest: Manifest) -> JudgeCard:
    """Who judged, as far as a manifest says it."""
    if combination := combination_of(manifest):
        return combination.card
    engine = manifest.judge.get("engine", {})
    source = manifest.environment.get("judge") or engine.get("engine")
    return judge_card(str(engine.get("model") or Path(str(source)).stem), engine)


def judge_card(name: str, engine: Mapping[str, Any]) -> JudgeCard:
    """Who judges, as every result says it: a name, and what the identity of the engine says."""
    return JudgeCard(
        name=name,
        sha256=engine.get("model_sha256"),
        size=engine.get("model_size"),
        quantisation=engine.get("quantisation"),
        caution=_caution(engine),
    )


def _caution(engine: Mapping[str, Any]) -> str | None:
    """What must stand beside every number of a judge: that of the packaged registry before the user's own."""
    sha256 = str(engine.get("model_sha256"))
    model = model_registry.packaged_as(sha256) or model_registry.registered_as(sha256)
    if model is not None:
        return model.caution or None
    return UNPROVED if is_unproved(engine) else None


def is_unproved(engine: Mapping[str, Any]) -> bool:
    """Whether a server answers whose model's bytes nobody has seen."""
    return engine.get("engine") == "server" and "model_sha256" not in engine


def in_the_judge(card: JudgeCard, manifest: Manifest) -> Iterator[str]:
    """Whether a summary has the checksum of the judge that the manifest has, and a packaged judge its caution.

    Any name will do, since a user may give a model another; of a caution only that there is one, since its wording may
    become another.
    """
    sha256 = manifest.judge["engine"].get("model_sha256")
    if card.sha256 != sha256:
        yield f"judge: sha256 {shown(card.sha256)} in summary.json, {shown(sha256)} in manifest.json"
    packaged = model_registry.packaged_as(str(sha256))
    if packaged and packaged.caution and not card.caution:
        yield f"judge: no caution in summary.json, and its checksum is that of {packaged.name} ({packaged.caution})"
