"""A claim about a registered judge belongs to its file and its prompts, by their checksums."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import InputError, Run, ScriptedEngine, model_registry
from localjudge.judge.profile_choice import load_profile
from localjudge.judge.wording import PromptWriter
from localjudge.judging.judges import find_scales
from localjudge.progress import Progress
from tests.conftest import PROFILES, ScriptedRun
from tests.run_directory.conftest import judged_by

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


class Judged:
    """Runs that state in their manifest which file and which prompts judged."""

    def __init__(self, scripted_run: ScriptedRun) -> None:
        self.runs = {
            name: scripted_run(name, ROWS, {}, metrics="faithfulness", profile=name)
            for name in ("reader", "lexical", "instruct")
        }

    def part(self, sha256: str, profile: str, **prompts: Any) -> dict[str, Any]:
        """Return a judge as a manifest states it."""
        asked = self.runs[profile].manifest.judge.judge.as_json
        return {"engine": {"engine": "x", "model_sha256": sha256}, "judge": {**asked, **prompts}}

    def read(self, **judge: Any) -> Run:
        self.runs["reader"] = judged_by(self.runs["reader"], **judge)
        return self.runs["reader"]

    def caution(self, sha256: str, profile: str, **prompts: Any) -> str | None:
        return self.read(**self.part(sha256, profile, **prompts)).manifest.card.caution


@pytest.fixture
def judged(scripted_run: ScriptedRun) -> Judged:
    return Judged(scripted_run)


def test_reasons_and_another_file_end_the_claim_and_a_caution_against_decisions_stays(
    judged: Judged,
) -> None:
    assert judged.caution(READER.sha256, "reader") == READER.caution
    assert judged.caution(READER.sha256, "lexical") is None
    assert judged.caution("0" * 64, "reader") is None
    assert judged.caution(LEXICAL.sha256, "instruct") == LEXICAL.caution
    assert judged.caution(READER.sha256, "reader", reasons="before") is None


@pytest.mark.parametrize(
    ("profile", "found"), [("reader", True), ("lexical", False), ("instruct", False)]
)
def test_a_claim_of_a_jury_needs_the_prompts_of_each_judge(
    judged: Judged, profile: str, found: bool
) -> None:
    """Without the claim, the jury has the strictest caution of its judges."""
    lexical = judged.part(LEXICAL.sha256, "lexical")
    judges = {"lexical": lexical, "reader": judged.part(READER.sha256, profile)}
    claim = model_registry.registered_juries()["bundled"].caution
    assert claim != LEXICAL.caution
    expected = LEXICAL.caution
    if found:
        expected = claim
    assert judged.read(jury=judges, name="bundled").manifest.card.caution == expected
    alone = judged.read(jury={"lexical": lexical}, name="bundled")
    assert alone.manifest.card.caution == LEXICAL.caution
    assert judged.read(jury=judges, name="other").manifest.card.caution == LEXICAL.caution


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
