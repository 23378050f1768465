import os
import shutil
from pathlib import Path

import pytest

from localjudge import InputError
from localjudge.judge.profile_choice import choose_profile, load_profile
from tests.conftest import PROFILES

ANSWER = "grammar = 'attributed'\n"
NAMES = {
    "Bespoke-MiniCheck-7B": "minicheck",
    "Granite Guardian 3.3 8b": "granite-guardian",
    "Granite Guardian 3.1 8b": "instruct",
    "Granite Guardian 4.1 8b": "instruct",
    "Granite 3.3 8b Instruct": "instruct",
    "Qwen3 Reranker 0.6B": "qwen3-reranker",
    "Qwen3 8B": "instruct",
    "Meta Llama 3 8B Instruct": "instruct",
    "": "instruct",
}


@pytest.mark.parametrize("key", ["general.name", "general.basename"])
@pytest.mark.parametrize(("name", "profile"), NAMES.items())
def test_a_profile_is_matched_by_the_name_in_the_model_file(
    key: str, name: str, profile: str
) -> None:
    chosen, why = choose_profile(None, None, {"general.architecture": "llama", key: name})
    assert chosen.name == profile
    assert why == ("" if profile == "instruct" else f"made for it, by its {key}")


def test_profile_of_the_user_beats_registry_beats_metadata() -> None:
    metadata = {"general.name": "Bespoke-MiniCheck-7B"}
    by_user, _ = choose_profile("qwen3-reranker", "reference", metadata)
    by_registry, _ = choose_profile(None, "instruct", metadata)
    assert (by_user.name, by_registry.name) == ("qwen3-reranker", "instruct")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PROFILES / "minicheck", tmp_path / "house"))


def test_a_user_folder_is_a_profile(folder: Path) -> None:
    wording = folder / "attribution.toml"
    wording.write_bytes(wording.read_bytes().replace(b"Yes = 1, No = 0", b"Ja = 1, Nein = 0"))
    profile, _ = choose_profile(str(folder), None, {})
    assert profile.name == "house"
    assert profile.sha256 != load_profile("minicheck").sha256
    answer = profile.tasks["attribution"].grammar
    assert not isinstance(answer, str)
    assert answer.grammar("attribution").pattern == "(Ja|Nein)"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name")
@pytest.mark.parametrize("kind", ["pipe", "link to itself", "folder"])
def test_a_profile_has_regular_files(folder: Path, kind: str) -> None:
    """A pipe without a writer would be waited for."""
    file = folder / "attribution.toml"
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        file.symlink_to(file.name)
    with pytest.raises(InputError, match=r"attribution\.toml is not a regular file"):
        load_profile(str(folder))


def test_a_byte_order_mark_is_no_part_of_a_profile(folder: Path) -> None:
    """Editors of Windows write one."""
    file = folder / "attribution.toml"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert load_profile(str(folder)).tasks["attribution"]


@pytest.mark.parametrize(
    ("file", "content", "complaint"),
    [
        ("attribution.toml", "", "attribution.node: Field required"),
        (
            "attribution.toml",
            "node = [{text = '{unit}'}]\n[grammar]\nlabels = {'' = 1, No = 0}",
            "must have a character",
        ),
        (
            "atribution.toml",
            'grammar = "attributed"\nnode = [{text = "{unit}"}]',
            "no task is called atribution",
        ),
        (
            "attribution.toml",
            "node = [{text = '{unit}'}]\n[grammar]\nlabels = {Yes = 1}",
            "two values",
        ),
        (
            "attribution.toml",
            ANSWER + "node = [{text = 'x'}, {role = 'user', text = '{unit}'}]",
            "must have a role",
        ),
        (
            "attribution.toml",
            ANSWER + "template = {a = 1}\nnode = [{text = '{unit}'}]",
            "nodes with roles",
        ),
        (
            "attribution.toml",
            ANSWER + "node = [{text = 'x'}]",
            "never shows the text that is judged",
        ),
        (
            "attribution.toml",
            "grammar = 'approved'\nnode = [{text = '{unit}'}]",
            "no grammar is called 'approved'",
        ),
        (
            "attribution.toml",
            ANSWER
            + "reasons = {before = 'why', after = 'attributed_reason', form = ''}\n"
            + "node = [{text = '{unit}'}]",
            "no grammar is called 'why'",
        ),
        (
            "attribution.toml",
            ANSWER
            + "reasons = {before = 'reason_attributed', after = 'none', form = ''}\n"
            + "node = [{text = '{unit}'}]",
            "no grammar is called 'none'",
        ),
        ("attribution.toml", "grammar = ", "house"),
        ("attribution.toml", ANSWER + "colour = 'red'", "house"),
        ("profile.toml", "description = 'x'\nchat = 'perhaps'", "house"),
        ("profile.toml", "description = 'x'\nchat = false", "need chat = true"),
        ("profile.toml", "description = 'x'\nchat = true\nmade_for = [{}]", "at least 1 item"),
        (
            "profile.toml",
            "description = 'x'\nchat = true\nmade_for = [{'general.name' = '('}]",
            "regular expression",
        ),
    ],
)
def test_an_unusable_profile_folder_is_named_with_the_reason(
    folder: Path, file: str, content: str, complaint: str
) -> None:
    (folder / file).write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=complaint) as refused:
        load_profile(str(folder))
    assert str(folder) in str(refused.value)
    assert "\n" not in refused.value.message
    assert "pydantic" not in refused.value.message
    assert refused.value.hint
    with pytest.raises(InputError):
        load_profile(str(folder.parent))
