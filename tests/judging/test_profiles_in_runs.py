import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import InputError, Run, ScriptedEngine
from localjudge.engine.tokens import ChatTemplate
from localjudge.judge.profile_choice import load_profile
from localjudge.types import ChatEnds
from tests.conftest import PROFILES
from tests.judge.trained_templates import CHATML

TEXT = "It opened in 1889."
ROWS = [
    {
        "id": "a",
        "user_input": "When?",
        "retrieved_contexts": [TEXT],
        "reference": "In 1889.",
        "response": TEXT,
    }
]


class Templated(ScriptedEngine):
    """An engine with a chat template and a model name."""

    template = CHATML
    metadata: dict[str, str] = {}  # noqa: RUF012 -- each subclass and test sets its own

    @property
    def chat_ends(self) -> ChatEnds | None:
        """Return the text of the template around a message."""
        return ChatTemplate(self.template, bos="", eos="").ends

    @property
    def chat_without_ends(self) -> ChatEnds | None:
        """Return the same text for conversations."""
        return ChatTemplate(self.template, bos="", eos="").without_ends


class MiniCheck(Templated):
    """An engine with the model name of MiniCheck."""

    metadata = {"general.name": "Bespoke-MiniCheck-7B"}  # noqa: RUF012


def run(out: Path, engine: ScriptedEngine, metrics: list[str], **options: Any) -> Run:
    return localjudge.evaluate(ROWS, out=out, engine=engine, metrics=metrics, **options)


def test_a_run_uses_the_profile_made_for_its_model(tmp_path: Path) -> None:
    engine = MiniCheck({"It opened in 1889.": 0.9})
    judged = run(tmp_path / "run", engine, ["faithfulness"])
    asked = "".join(piece.text for node in engine.asked[0].path for piece in node)
    assert asked.startswith("<|im_start|>system\nDetermine whether the provided claim")
    assert asked.endswith("\nClaim: It opened in 1889.<|im_end|>\n<|im_start|>assistant\n")
    assert judged.manifest.judge.judge.profile == "minicheck"
    assert judged.manifest.judge.judge.profile_sha256 == load_profile("minicheck").sha256
    assert judged.scores[0].score == 1.0
    assert judged.verify(engine=MiniCheck({"It opened in 1889.": 0.9})).result == "bit-identical"


@pytest.mark.parametrize(
    "metric", ["context_relevancy", "context_precision", "refusal", "answer_relevancy"]
)
def test_a_metric_without_a_prompt_is_refused_before_judging(tmp_path: Path, metric: str) -> None:
    engine = MiniCheck({}, default=0.5)
    with pytest.raises(
        InputError,
        match=f"{metric}: .*prompt profile 'minicheck'",
    ):
        run(tmp_path / "run", engine, ["faithfulness", metric])
    assert not engine.asked
    assert not (tmp_path / "run").exists()


def test_a_run_stores_its_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(PROFILES / "instruct", tmp_path / "house")
    monkeypatch.chdir(tmp_path)
    script = {"It opened in 1889.": 0.9}
    judged = run(tmp_path / "run", ScriptedEngine(script), ["faithfulness"], profile="house")
    assert judged.manifest.judge.judge.profile == "house"
    shutil.rmtree("house")
    monkeypatch.chdir("/")
    assert judged.verify(engine=ScriptedEngine(script)).result == "bit-identical"
    settings = judged.manifest.environment.settings
    words = settings.as_json["profile"]
    words["files"]["attribution.toml"] += "# another\n"
    manifest = judged.manifest.with_environment(settings=settings.changed(profile=words))
    again = replace(judged, manifest=manifest).verify(engine=ScriptedEngine(script))
    assert [change.ingredient for change in again.judge_changes] == ["judge.profile_sha256"]


def test_a_profile_has_a_fixed_answer_form(tmp_path: Path) -> None:
    options = {"profile": "minicheck", "reasons": "before"}
    with pytest.raises(InputError, match="the prompt profile 'minicheck' cannot"):
        run(tmp_path / "run", Templated({}), ["faithfulness"], **options)
