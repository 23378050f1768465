from contextlib import closing
from pathlib import Path

import pytest

from localjudge.errors import RunDirectoryError
from localjudge.record.directory import MANIFEST, RunDirectory
from localjudge.record.files import write_manifest
from localjudge.record.manifest import Manifest, signature
from localjudge.record.run import read_manifest

FILES = sorted((Path(__file__).parent / "manifests").glob("*.json"))


def read(file: Path, directory: Path) -> Manifest:
    (directory / MANIFEST).write_bytes(file.read_bytes())
    manifest = read_manifest(directory)
    assert manifest is not None
    return manifest


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_manifests_of_earlier_versions_round_trip_byte_for_byte(file: Path, tmp_path: Path) -> None:
    manifest = read(file, tmp_path)
    with closing(RunDirectory(tmp_path)) as directory:
        write_manifest(directory, manifest)
    assert (tmp_path / MANIFEST).read_bytes() == file.read_bytes()
    assert signature(manifest.judge, manifest.data) == manifest.signature


def test_unknown_ingredients_are_kept_and_signed(tmp_path: Path) -> None:
    """A later version may sign more ingredients; their order in the file is kept."""
    file = tmp_path / "later.json"
    text = (FILES[0].parent / "reference.json").read_text(encoding="utf-8")
    file.write_text(
        text.replace('"segmenter": {', '"later": {"b": 1, "a": 2.50},\n    "segmenter": {'), encoding="utf-8"
    )
    manifest = read(file, tmp_path)
    assert list(manifest.judge.as_json)[:3] == ["engine", "judge", "later"]
    assert signature(manifest.judge, manifest.data) != manifest.signature


def test_a_run_of_several_judges_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "combined.json"
    text = (FILES[0].parent / "reference.json").read_text(encoding="utf-8")
    file.write_text(text.replace('"engine": "llama.cpp"', '"engine": "combined"'), encoding="utf-8")
    with pytest.raises(RunDirectoryError, match="combines several judges"):
        read(file, tmp_path)
