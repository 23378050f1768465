import hashlib
import json
import os
from pathlib import Path

import pytest
from command_line import printed

from localjudge import ModelError, model_registry


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"weights")
    return path


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def register(home: Path, model: Path, digest: str, name: str = "mine") -> None:
    row = (
        f'[[model]]\nname = "{name}"\npath = "{model}"\n'
        f'sha256 = "{digest}"\nsize = 7\nprofile = "instruct"\n'
    )
    (home / "registry.toml").write_text(row, encoding="utf-8")


def test_a_path_is_a_judge_named_after_its_file(home: Path, model: Path) -> None:
    file = model_registry.find(str(model))
    assert (file.name, file.path, file.size, file.sha256) == ("model", model, 7, sha256(b"weights"))


def test_a_registered_name_wins_over_a_file_of_that_name(
    home: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(home, model, sha256(b"weights"))
    monkeypatch.chdir(model.parent)
    (model.parent / "mine").write_bytes(b"something else")
    assert model_registry.find("mine").path == model


def test_the_users_registry_wins_over_the_packaged_one(home: Path, model: Path) -> None:
    register(home, model, sha256(b"weights"), "lexical")
    assert model_registry.find("lexical").path == model


def test_a_pinned_file_that_changed_is_refused_with_both_checksums(home: Path, model: Path) -> None:
    register(home, model, sha256(b"weights"))
    assert model_registry.find("mine").sha256 == sha256(b"weights")
    model.write_bytes(b"WEIGHTS")
    with pytest.raises(ModelError, match="pinned") as caught:
        model_registry.find("mine")
    assert all(sha256(content) in str(caught.value) for content in (b"weights", b"WEIGHTS"))
    assert caught.value.hint


def test_a_checksum_is_remembered_for_an_unchanged_file(home: Path, model: Path) -> None:
    """Hashing 8 GB takes half a minute."""
    model_registry.find(str(model))
    sums = json.loads((home / "sha256.json").read_text(encoding="utf-8"))
    (home / "sha256.json").write_text(json.dumps(dict.fromkeys(sums, "0" * 64)), encoding="utf-8")
    assert model_registry.find(str(model)).sha256 == "0" * 64


@pytest.mark.parametrize("damage", ["", "[]", "{", "null", '"text"'])
def test_a_damaged_checksum_cache_is_ignored(home: Path, model: Path, damage: str) -> None:
    (home / "sha256.json").write_text(damage, encoding="utf-8")
    assert model_registry.find(str(model)).sha256 == sha256(b"weights")


@pytest.mark.parametrize("name", ["nobody", "x" * 5_000, "a\0b", "no/such/folder/x.gguf"])
def test_an_unknown_name_is_refused_with_the_registered_names(home: Path, name: str) -> None:
    with pytest.raises(ModelError, match="no judge is called") as caught:
        model_registry.find(name)
    assert "lexical" in (caught.value.hint or "")
    with pytest.raises(ModelError, match="is not a file"):
        model_registry.find(str(home))


def test_an_incomplete_registered_model_does_not_break_the_list(
    home: Path, parts: list[Path]
) -> None:
    register(home, parts[1], "0" * 64)
    assert model_registry.known_checksums([parts[1], home / "gone.gguf"]) == {}
    skipped = json.loads(printed("models", "--json"))["skipped"]
    assert "is part 2" in {entry["where"]: entry["reason"] for entry in skipped}["mine"]


def test_a_missing_registered_file_is_named(home: Path, model: Path) -> None:
    register(home, model, sha256(b"weights"))
    model.unlink()
    with pytest.raises(ModelError, match=r"'mine' is missing: .*model\.gguf"):
        model_registry.find("mine")


@pytest.mark.parametrize(
    "content",
    ["[[model]", '[[model]]\nname = "x"', 'model = "x"', '[[model]]\nname = "x"\ncolour = "red"'],
    ids=["not TOML", "a key is missing", "not a table", "an unknown key"],
)
def test_an_unreadable_registry_is_named(home: Path, content: str) -> None:
    (home / "registry.toml").write_text(content, encoding="utf-8")
    with pytest.raises(ModelError, match=r"registry .*registry\.toml cannot be read") as refused:
        model_registry.find("lexical")
    assert "\n" not in refused.value.message
    assert "pydantic" not in refused.value.message


@pytest.mark.parametrize("kinds", [("model", "model"), ("jury", "jury"), ("model", "jury")])
def test_two_rows_with_one_name_are_refused(
    home: Path, model: Path, kinds: tuple[str, str]
) -> None:
    """Else the later row would win silently."""
    rows = {
        "model": f'[[model]]\nname = "mine"\npath = "{model}"\nsize = 7\nprofile = "instruct"\n'
        f'sha256 = "{sha256(b"weights")}"\n',
        "jury": '[[jury]]\nname = "mine"\njudges = ["lexical", "reader"]\n',
    }
    (home / "registry.toml").write_text("".join(rows[kind] for kind in kinds), encoding="utf-8")
    with pytest.raises(ModelError, match=r"registry\.toml .*two rows .* mine"):
        model_registry.find("mine")


def test_a_users_model_wins_over_the_packaged_jury_of_that_name(home: Path, model: Path) -> None:
    register(home, model, sha256(b"weights"), "bundled")
    assert model_registry.find("bundled").path == model
    assert model_registry.expand_jury("bundled") == ["bundled"]


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    parts = [tmp_path / f"big-{part:05d}-of-00003.gguf" for part in (1, 2, 3)]
    for number, file in enumerate(parts):
        file.write_bytes(bytes([number]) * 4)
    return parts


def test_a_split_model_has_the_checksum_and_size_of_all_parts(
    home: Path, parts: list[Path]
) -> None:
    file = model_registry.find(str(parts[0]))
    assert (file.sha256, file.size) == (sha256(b"\0\0\0\0\1\1\1\1\2\2\2\2"), 12)


def test_missing_parts_are_named_and_a_later_part_points_to_the_first(
    home: Path, parts: list[Path]
) -> None:
    with pytest.raises(ModelError, match="is part 2 of a model in 3 files") as caught:
        model_registry.find(str(parts[1]))
    assert str(parts[0]) in (caught.value.hint or "")
    parts[1].unlink()
    with pytest.raises(ModelError, match=r"big-00002-of-00003\.gguf"):
        model_registry.find(str(parts[0]))


def test_a_changed_file_with_its_old_time_is_hashed_again(home: Path, model: Path) -> None:
    """Same size, inode and modification time; changed at the end or in the middle."""
    model.write_bytes(b"w" * 300_000)
    for place in (299_999, 150_000):
        model_registry.find(str(model))
        before = model.stat()
        with model.open("r+b") as file:
            file.seek(place)
            file.write(b"x")
        os.utime(model, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (model.stat().st_mtime_ns, model.stat().st_ino) == (
            before.st_mtime_ns,
            before.st_ino,
        )
        assert model_registry.find(str(model)).sha256 == sha256(model.read_bytes())
