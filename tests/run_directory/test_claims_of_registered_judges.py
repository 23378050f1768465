"""A claim about a registered judge belongs to its file and its prompts, by their checksums."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import InputError, ScriptedEngine, model_registry
from localjudge.judge.profile_choice import load_profile
from localjudge.judge.wording import PromptWriter
from localjudge.judging.judges import find_scales
from localjudge.progress import Progress
from localjudge.run_directory.identity import (
    EngineIdentity,
    JuryMember,
    PromptsIdentity,
    find_registered_jury,
)
from tests.conftest import PROFILES

READER = model_registry.registered()["reader"]
LEXICAL = model_registry.registered()["lexical"]
ROWS = [{"id": "a", "retrieved_contexts": ["It rains."], "response": "It rains."}]


class Reader(ScriptedEngine):
    """An engine with the checksum of the bundled reader."""

    @property
    def identity(self) -> dict[str, Any]:
        return {**super().identity, "model_sha256": READER.sha256, "model_size": 1 << 20}


def copy_profile(name: str, folder: Path, change: tuple[str, str] | None) -> Path:
    shutil.copytree(PROFILES / name, folder)
    if change is not None:
        file = folder / "attribution.toml"
        text = file.read_text(encoding="utf-8")
        assert change[0] in text
        file.write_text(text.replace(*change), encoding="utf-8")
    return folder


def prompts(profile: str | Path, reasons: str = "none") -> PromptsIdentity:
    loaded = load_profile(str(profile))
    return PromptsIdentity(profile=loaded.name, profile_sha256=loaded.sha256, reasons=reasons)


@pytest.mark.parametrize(
    ("change", "claims"),
    [(None, True), (("{unit}", "{unit} "), False), (("grammar", "# own\ngrammar"), False)],
)
def test_a_replaced_profile_has_no_claim_also_with_the_same_name(
    tmp_path: Path, change: tuple[str, str] | None, claims: bool
) -> None:
    folder = copy_profile("reader", tmp_path / "reader", change)
    run = localjudge.evaluate(
        ROWS,
        out=tmp_path / "run",
        metrics="faithfulness",
        engine=Reader({}, default=0.9),
        profile=folder,
    )
    if claims:
        assert run.judge.caution == READER.caution
        return
    assert run.judge.caution is None
    assert "not examined" in str(run.judge.examined)
    for language in ("en", "de"):
        certificate = tmp_path / f"{language}.html"
        run.certificate(certificate, language=language)
        text = certificate.read_text(encoding="utf-8")
        assert "AUC" not in text
    assert run.verify(engine=Reader({}, default=0.9)).result == "bit-identical"


def test_reasons_and_another_file_end_the_claim_and_a_caution_against_decisions_stays() -> None:
    reader = EngineIdentity(engine="x", model_sha256=READER.sha256)
    lexical = EngineIdentity(engine="x", model_sha256=LEXICAL.sha256)
    other = EngineIdentity(engine="x", model_sha256="0" * 64)
    assert reader.card("reader", prompts("reader")).caution == READER.caution
    assert reader.card("reader", prompts("reader", "before")).caution is None
    assert reader.card("reader", prompts("lexical")).caution is None
    assert other.card("reader", prompts("reader")).caution is None
    assert lexical.card("lexical", prompts("instruct")).caution == LEXICAL.caution


@pytest.mark.parametrize(
    ("profile", "found"), [("reader", True), ("lexical", False), ("instruct", False)]
)
def test_a_claim_of_a_jury_needs_the_prompts_of_each_judge(profile: str, found: bool) -> None:
    def member(model: model_registry.RegisteredModel, asked: str) -> JuryMember:
        engine = EngineIdentity(engine="x", model_sha256=model.sha256)
        return JuryMember(engine=engine, judge=prompts(asked))

    judges = [member(LEXICAL, "lexical"), member(READER, profile)]
    assert (find_registered_jury("bundled", judges) is not None) is found
    assert find_registered_jury("bundled", judges[:1]) is None
    assert find_registered_jury("other", judges) is None


def test_a_scale_belongs_to_the_checksum_of_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replaced profile has the name of the registered one; a scale of it is measured."""
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    folder = copy_profile("lexical", tmp_path / "lexical", ("{unit}", "{unit} "))
    engine = {"model_sha256": LEXICAL.sha256}
    measured: list[str] = []

    def open_judge() -> Any:
        measured.append("opened")
        raise InputError("opened")

    registered = PromptWriter(load_profile("lexical"))
    scales = find_scales(engine, registered, "attribution", open_judge, Progress())
    assert scales == LEXICAL.scales
    assert not measured
    replaced = PromptWriter(load_profile(str(folder)))
    with pytest.raises(InputError, match="opened"):
        find_scales(engine, replaced, "attribution", open_judge, Progress())
