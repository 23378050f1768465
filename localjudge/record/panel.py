"""What a record says of the judges of a run: of one, or of a panel.

    one judge    judge.engine, judge.judge                                        who, and how it is asked
    a panel      judge.panel.judges.ID.engine, judge.panel.judges.ID.judge        the same of each
                 judge.panel.rule, judge.panel.rules.METRIC                       how their verdicts are combined
                 environment.panel                                                the names of the ids

An id is the beginning of a model's checksum. Names and their order move no number, so they are not signed; results show
them, so they are kept.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import ConfigDict, Field, model_validator

from localjudge import model_registry
from localjudge.judge.panel_rule import Combination, PanelRule
from localjudge.record.manifest import Manifest
from localjudge.record.untrusted import shown, validated
from localjudge.types import JudgeCard, Record, panel_card

UNPROVED = "bytes not proved"
_OF_A_JUDGE = ("engine", "judge")


class _OneJudge(Record):
    model_config = ConfigDict(extra="ignore", strict=True)

    engine: dict[str, Any]
    judge: dict[str, Any]


class PanelPart(Record):
    """What this program relies on in the part of a panel."""

    model_config = ConfigDict(extra="ignore", strict=True)

    rule: dict[str, Any]
    rules: dict[str, dict[str, Any]] = Field(default_factory=dict)
    judges: dict[str, _OneJudge] = Field(min_length=2)


class _NamedPanel(PanelPart):
    names: dict[str, str]

    @model_validator(mode="after")
    def _names_each_judge(self) -> Self:
        if sorted(self.names.values()) != sorted(self.judges):
            raise ValueError("environment.panel does not name the judges of judge.panel")
        for rule in (self.rule, *self.rules.values()):
            weights = rule.get("weights")
            if weights and sorted(weights) != sorted(self.judges):
                raise ValueError("the weights of judge.panel.rule are not those of its judges")
        return self


def panel_part(
    parts: Mapping[str, Mapping[str, Any]], rule: PanelRule, rules: Mapping[str, PanelRule]
) -> dict[str, Any]:
    """The judge part of a panel, from the part that each of its judges would have alone, by their ids.

    `rules` are those of metrics that have one of their own; nothing is said of none.
    """
    of_metrics = {"rules": {metric: one.model_dump() for metric, one in sorted(rules.items())}} if rules else {}
    common = next(iter(parts.values()))
    judges = {one: {name: part[name] for name in _OF_A_JUDGE} for one, part in sorted(parts.items())}
    return {
        **common,
        "engine": {"engine": "panel"},
        "judge": {},
        "panel": {"rule": rule.model_dump(), **of_metrics, "judges": judges},
    }


def parts_by_judge(judge: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The part that each judge of a panel would have alone, by its id; of one judge its own, under an empty id."""
    if (panel := judge.get("panel")) is None:
        return {"": dict(judge)}
    common = {name: value for name, value in judge.items() if name != "panel"}
    return {one: {**common, **part} for one, part in panel["judges"].items()}


def combination_of(manifest: Manifest) -> Combination | None:
    """Whose verdicts were combined, by the names that results show, and how; None for a run of one judge.

    Raises RunDirectoryError if the names are not those of the judges, or the rule is none for them.
    """
    if (panel := manifest.judge.get("panel")) is None:
        return None
    rule = validated(PanelRule, panel["rule"], "manifest.json: judge.panel.rule")
    found = validated(_NamedPanel, {"names": manifest.environment.get("panel"), **panel}, "manifest.json: panel")
    rules = {
        metric: validated(PanelRule, one, f"manifest.json: judge.panel.rules.{metric}")
        for metric, one in found.rules.items()
    }
    return Combination(found.names, rule, rules)


def card_of(manifest: Manifest) -> JudgeCard:
    """Who judged, as far as a manifest says it."""
    parts = parts_by_judge(manifest.judge)
    if (combination := combination_of(manifest)) is not None:
        cards = [judge_card(name, parts[one]["engine"]) for name, one in combination.ids.items()]
        return panel_card(cards, combination.in_words)
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
    combination, parts = combination_of(manifest), parts_by_judge(manifest.judge)
    if combination is None:
        yield from _on_a_card(card, parts[""]["engine"])
        return
    if [one.name for one in card.panel] != list(combination.ids):
        yield f"judge: {shown(card.name)} in summary.json, {shown(' + '.join(combination.ids))} in manifest.json"
        return
    for one, part in zip(card.panel, combination.ids.values(), strict=True):
        yield from _on_a_card(one, parts[part]["engine"])


def _on_a_card(card: JudgeCard, engine: Mapping[str, Any]) -> Iterator[str]:
    sha256 = engine.get("model_sha256")
    if card.sha256 != sha256:
        yield f"judge: sha256 {shown(card.sha256)} in summary.json, {shown(sha256)} in manifest.json"
    packaged = model_registry.packaged_as(str(sha256))
    if packaged and packaged.caution and not card.caution:
        yield f"judge: no caution in summary.json, and its checksum is that of {packaged.name} ({packaged.caution})"
