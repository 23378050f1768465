import json
from pathlib import Path

import pytest

from localjudge import resources
from localjudge.model_registry import registered
from tests.cli.conftest import Call
from tests.local_models.conftest import gguf, manifest, pulled, user

__all__ = ["user"]


@pytest.fixture
def machine(user: Path, tmp_path: Path) -> Path:
    """Two Ollama models, one with a damaged manifest, and an embedding model in a folder."""
    store = user / ".ollama" / "models"
    pulled(store, "registry.ollama.ai/library/qwen3/8b", gguf(tmp_path / "a.gguf"))
    pulled(store, "registry.ollama.ai/library/base/1b", gguf(tmp_path / "b.gguf", template=False))
    manifest(store, "registry.ollama.ai/library/broken/1b", "no JSON")
    return gguf(tmp_path / "folder" / "embed.gguf", "bert").parent


def test_listed_names_can_be_typed(machine: Path, call: Call) -> None:
    code, printed, errors = call("models", machine)
    lines = [line.strip() for line in printed.splitlines()]
    assert (code, errors) == (0, "")
    facts = lines[lines.index("ollama:qwen3:8b") + 1]
    assert "Q4_K_M, context 4,096, chat template, needs" in facts
    assert "Q4_K_M, context 4,096, no chat template" in lines[lines.index("ollama:base:1b") + 1]
    assert "cannot be used (--verbose" in printed
    assert "embed" not in printed


def test_the_default_judge_is_listed_with_its_parts(
    user: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`bundled` could be typed after --judge, but was not in the list."""
    monkeypatch.delenv("LOCALJUDGE_JUDGE", raising=False)
    lines = call("models")[1].splitlines()
    facts = lines[lines.index(" bundled") + 1]
    assert "reader and lexical" in facts
    assert "default" in facts
    [jury] = json.loads(call("models", "--json")[1])["juries"]
    sizes = [registered()[name].size for name in ("reader", "lexical")]
    assert jury["name"] == "bundled"
    assert jury["judges"] == ["reader", "lexical"]
    assert jury["size"] == sum(sizes)
    assert jury["missing"] is None


def test_a_jury_with_a_missing_judge_is_not_offered(user: Path, call: Call) -> None:
    (resources.state_directory() / "registry.toml").parent.mkdir(parents=True, exist_ok=True)
    (resources.state_directory() / "registry.toml").write_text(
        f'[[model]]\nname = "away"\npath = "away.gguf"\nsize = 1\nsha256 = "{"0" * 64}"\n'
        '[[jury]]\nname = "pair"\njudges = ["lexical", "away"]\n'
    )
    printed = call("models")[1]
    assert " pair" not in printed.splitlines()
    juries = {jury["name"]: jury for jury in json.loads(call("models", "--json")[1])["juries"]}
    assert juries["pair"]["missing"] == "away"


def test_omitted_models_are_explained_on_request(machine: Path, call: Call) -> None:
    printed = " ".join(call("models", machine, "--verbose")[1].split())
    assert "embed.gguf cannot judge" in printed
    assert "ollama:broken:1b" in printed
    assert "--verbose" not in printed


def test_json_lists_the_same_models(machine: Path, call: Call) -> None:
    found = json.loads(call("models", machine, "--json")[1])
    models = {model["name"]: model for model in found["models"]}
    assert models["ollama:qwen3:8b"]["chat_template"] is True
    assert len(models["ollama:qwen3:8b"]["sha256"]) == 64
    assert models[str(machine / "embed.gguf")]["cannot_judge"].startswith(
        "cannot judge: a bert model"
    )
    assert "ollama:broken:1b" in {entry["where"] for entry in found["skipped"]}


def test_control_characters_in_names_are_escaped(user: Path, tmp_path: Path, call: Call) -> None:
    gguf(tmp_path / "x\x1b[2J\n[bold]y.gguf")
    gguf(tmp_path / "z\x1b[2J.gguf", "bert")
    _, printed, _ = call("models", tmp_path, "--verbose")
    assert "\x1b" not in printed
    assert r"x\x1b[2J\n[bold]y.gguf" in printed


def test_a_hint_is_a_command_that_can_be_typed(machine: Path, call: Call) -> None:
    code, _, errors = call("run", "--demo", "--judge", "qwen3:8b", "--out", machine / "run")
    assert code == 1
    assert "no judge is called 'qwen3:8b'" in errors
    assert "did you mean --judge ollama:qwen3:8b?" in errors
