"""A configuration file or manifest from an untrusted repository cannot reach files outside."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import InputError
from localjudge.cli.gates import GateOptions
from localjudge.config import KEYS, read_config
from localjudge.judging.settings import RunSettings

MANIFEST = "manifest.json"

ROW = {"id": "a", "retrieved_contexts": ["x", "y"], "reference_contexts": ["x"]}
CONFIG_FILE = {
    "data": "data.jsonl",
    "metrics": "hit_rate@1",
    "gates": "hit_rate@1>=0.01",
    "report": True,
}
SECRETS = ("words.txt", "run/manifest.json", "profile/profile.toml")
PLACES = ["{outside}/{file}", "../outside/{file}", "link/{file}", "~/{file}"]
CASES = [
    (key, place)
    for place in PLACES
    for key in KEYS
    if KEYS[key].path_role in ("read", "written") or place is PLACES[0]
]
_watched: list[Path] = []
_opened: list[str] = []


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _watched and isinstance(arguments[0], str):
        path = os.path.realpath(arguments[0])
        if path.startswith(str(_watched[0])):
            _opened.append(path)


sys.addaudithook(_note)


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the user next to the repository, which is the working directory."""
    repository = tmp_path / "repository"
    outside = tmp_path / "outside"
    for file in SECRETS:
        (outside / file).parent.mkdir(parents=True, exist_ok=True)
        (outside / file).write_text("Geheimrat\n", encoding="utf-8")
    repository.mkdir()
    (repository / "data.jsonl").write_text(json.dumps(ROW) + "\n", encoding="utf-8")
    (repository / "link").symlink_to(outside)
    monkeypatch.chdir(repository)
    _watched.append(outside)
    yield outside
    _watched.clear()
    _opened.clear()


def written(**says: Any) -> None:
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in {**CONFIG_FILE, **says}.items()]
    Path("localjudge.toml").write_text("".join(lines), encoding="utf-8")


def refusal_of_config() -> str:
    """Return the error of the configuration file or of a run with it; "" on success."""
    try:
        config = read_config("localjudge.toml", named=False)
        run = localjudge.evaluate(
            **{"out": "run"} | config.evaluation, engine=localjudge.ScriptedEngine({})
        )
        run.check(**config.checks)
    except InputError as refused:
        return str(refused)
    return ""


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


@pytest.mark.parametrize(("key", "place"), CASES)
def test_no_key_reads_or_writes_outside(
    outside: Path, key: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For existing and missing paths; no error quotes a file there."""
    monkeypatch.setenv("HOME", str(outside))
    before = tree(outside)
    for file in ("words.txt", "profile", "new"):
        path = place.format(outside=outside, file=file)
        _opened.clear()
        for value in (path, [path]):
            written(**{key: value})
            refused = refusal_of_config()
            assert "Geheimrat" not in refused
            assert (
                refused
                or KEYS[key].path_role in (None, "judge")
                or (key, value) == ("abbreviations", [path])
            )
            assert not _opened
    assert tree(outside) == before


def test_control_opened_files_are_recorded(outside: Path) -> None:
    (outside / "words.txt").read_text(encoding="utf-8")
    assert _opened == [str(outside / "words.txt")]


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("key", [key for key in KEYS if KEYS[key].path_role == "written"])
@pytest.mark.parametrize(
    "value", [".git/hooks/new", ".hidden", "a/../b", "..", "/", "~", "a\0b", "a" * 5000]
)
def test_hidden_files_are_not_written(key: str, value: str) -> None:
    """Hidden folders such as .git belong to the user."""
    Path(".git/hooks").mkdir(parents=True)
    before = tree(Path())
    written(**{key: value})
    assert refusal_of_config()
    assert tree(Path()).keys() - before.keys() == {"localjudge.toml"}


def test_the_file_of_a_killed_run_may_be_replaced(outside: Path) -> None:
    """A marker is written while the run continues."""
    files = {"markdown": "table.md", "junit": "gates.xml"}
    GateOptions({"gates": ["hit_rate@1>=0.5"], **files}).begin()
    written(**files)
    assert read_config("localjudge.toml", named=False).arguments["markdown"] == "table.md"


def test_a_link_to_outside_is_refused(outside: Path) -> None:
    Path("house").mkdir()
    Path("house/profile.toml").symlink_to(outside / "words.txt")
    written(profile="house")
    assert "outside the configuration file's folder" in refusal_of_config()
    assert not _opened


@pytest.mark.parametrize("text", ["x = " + "[" * 100_000, ".".join(["mapping"] * 5_000) + " = 1"])
def test_a_too_deeply_nested_suite_is_refused(outside: Path, text: str) -> None:
    Path("localjudge.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="nested"):
        read_config("localjudge.toml")


@pytest.mark.parametrize("named", [True, False])
def test_a_configuration_file_cannot_name_other_machines(outside: Path, named: bool) -> None:
    """Not even one that the user has named: texts would leave this machine."""
    written(ray="stranger.example:6379")
    with pytest.raises(InputError, match="would send texts to other machines"):
        read_config("localjudge.toml", named=named)


@pytest.mark.usefixtures("outside")
def test_a_manifest_cannot_name_other_machines() -> None:
    engine = localjudge.ScriptedEngine({})
    run = localjudge.evaluate([ROW], metrics=["hit_rate@1"], engine=engine, out="run")
    manifest = json.loads((run.directory / MANIFEST).read_text())
    manifest["environment"]["settings"]["ray"] = "stranger.example:6379"
    (run.directory / MANIFEST).write_text(json.dumps(manifest))
    read = localjudge.Run.open(run.directory)
    assert read.verify(engine=engine).result == "bit-identical"
    again = localjudge.evaluate(reuse=read, engine=engine, out="again")
    assert "stranger" not in (again.directory / MANIFEST).read_text()


@pytest.mark.parametrize("name", RunSettings.model_fields)
def test_settings_of_a_manifest_are_never_read_as_paths(outside: Path, name: str) -> None:
    """The manifest stores the content of profiles and prompts."""
    engine = localjudge.ScriptedEngine({})
    run = localjudge.evaluate([ROW], metrics=["hit_rate@1"], engine=engine, out="run")
    words = str(outside / "words.txt")
    profile = str(outside / "profile")
    for value in (words, [words], profile, {"path": profile, "files": {}}):
        manifest = json.loads((run.directory / MANIFEST).read_text())
        manifest["environment"]["settings"][name] = value
        (run.directory / MANIFEST).write_text(json.dumps(manifest))
        with suppress(InputError):
            changed = localjudge.Run.open(run.directory)
            changed.verify(engine=engine)
            localjudge.evaluate(reuse=changed, engine=engine, out="again")
    assert not _opened
