"""Which profile a model is asked by: named, registered, made for it by its metadata, or the common one."""

import re
import shutil
from pathlib import Path

import pytest

from localjudge.errors import InputError
from localjudge.judge import profile as prompts
from localjudge.judge.profile import choose

BUNDLED = Path(prompts.__file__).parent / "prompts"
NAMES = {
    "Bespoke-MiniCheck-7B": "minicheck",
    "Bespoke MiniCheck 7B": "minicheck",
    "Granite Guardian 3.3 8b": "granite-guardian",
    "granite-guardian-3.3-8b": "granite-guardian",
    "Granite Guardian 3.1 8b": "instruct",
    "Granite Guardian 4.1 8b": "instruct",
    "Granite 3.3 8b Instruct": "instruct",
    "Qwen3 Reranker 0.6B": "qwen3-reranker",
    "Qwen3-Reranker-8B": "qwen3-reranker",
    "Qwen3 8B": "instruct",
    "Llama 3 Patronus Lynx 8B Instruct": "lynx",
    "Patronus-Lynx-8B-Instruct-v1.1": "lynx",
    "Meta Llama 3 8B Instruct": "instruct",
    "Prometheus 7b v2.0": "prometheus",
    "prometheus-8x7b-v2.0": "prometheus",
    "Prometheus 13b v1.0": "instruct",
    "": "instruct",
}


@pytest.mark.parametrize("key", ["general.name", "general.basename"])
@pytest.mark.parametrize(("name", "profile"), NAMES.items())
def test_a_model_is_known_by_what_its_file_calls_it(key: str, name: str, profile: str) -> None:
    found = choose(None, None, {"general.architecture": "llama", key: name})
    assert found.profile.name == profile
    assert found.why == ("" if profile == "instruct" else f"made for it, by its {key}")


def test_no_name_fits_two_profiles() -> None:
    for name in NAMES:
        fitting = [
            profile
            for profile in prompts.bundled()
            for row in prompts.load_profile(profile).made_for
            if all(re.search(pattern, name, re.IGNORECASE) for pattern in row.values())
        ]
        assert len(set(fitting)) <= 1, name


def test_what_the_user_names_wins_over_the_registry_and_that_over_metadata() -> None:
    metadata = {"general.name": "Bespoke-MiniCheck-7B"}
    assert choose("lynx", "reference", metadata).profile.name == "lynx"
    assert choose("lynx", "reference", metadata).why == "as profile says"
    assert choose(None, "instruct", metadata)[1:] == ("as it is registered",)
    assert choose(None, "instruct", metadata).profile.name == "instruct"


def test_a_folder_of_one_s_own_is_a_profile(tmp_path: Path) -> None:
    folder = tmp_path / "house"
    shutil.copytree(BUNDLED / "minicheck", folder)
    (folder / "attribution.toml").write_text(
        (folder / "attribution.toml").read_text(encoding="utf-8").replace("Yes = 1, No = 0", "Ja = 1, Nein = 0"),
        encoding="utf-8",
    )
    found = choose(str(folder), None, {}).profile
    assert found.name == "house"
    assert found.sha256 != prompts.load_profile("minicheck").sha256
    answer = found.tasks["attribution"].grammar
    assert not isinstance(answer, str)
    assert answer.grammar("attribution").pattern == "(Ja|Nein)"


@pytest.mark.parametrize(
    ("file", "content", "complaint"),
    [
        ("atribution.toml", 'grammar = "attributed"\nnode = [{text = "{unit}"}]', "no task is called atribution"),
        ("attribution.toml", "node = [{text = '{unit}'}]\n[grammar]\nlabels = {Yes = 1}", "two values"),
        (
            "attribution.toml",
            "grammar = 'attributed'\n[[node]]\ntext = 'x'\n[[node]]\nrole = 'user'\ntext = '{unit}'",
            "first node has no role",
        ),
        ("attribution.toml", "grammar = ", "house"),
        ("attribution.toml", 'node = [{text = "x"}]', "house"),
        ("attribution.toml", 'grammar = "attributed"\ncolour = "red"', "house"),
        ("profile.toml", 'description = "x"', "house"),
        ("profile.toml", 'description = "x"\nchat = "perhaps"', "house"),
        ("profile.toml", "description = 'x'\nchat = false", "need chat = true"),
        ("profile.toml", "description = 'x'\nchat = true\nmade_for = [{}]", "at least 1 item"),
        ("profile.toml", "description = 'x'\nchat = true\nmade_for = [{'general.name' = '('}]", "unterminated"),
    ],
)
def test_a_folder_that_cannot_be_used_is_named_with_the_reason(
    tmp_path: Path, file: str, content: str, complaint: str
) -> None:
    folder = tmp_path / "house"
    shutil.copytree(BUNDLED / "minicheck", folder)
    (folder / file).write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=complaint) as refused:
        prompts.load_profile(str(folder))
    assert str(folder) in str(refused.value)
    assert refused.value.hint


def test_an_empty_folder_is_no_profile(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not valid"):
        prompts.load_profile(str(tmp_path))


def test_every_profile_names_the_source_of_its_prompt() -> None:
    for name in set(prompts.bundled()) - {"instruct", "reference"}:
        assert "# Source: " in (BUNDLED / name / "profile.toml").read_text(encoding="utf-8")
        assert "ot confirmed" in (BUNDLED / name / "profile.toml").read_text(encoding="utf-8") or name == "minicheck"
