"""The directory of two runs: the names of its folders, and files that others may have changed."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from localjudge import MissingRun, RunDirectoryError
from localjudge.run_directory.comparison_directory import ComparisonDirectory

COMPARISON = "comparison.json"

NAMES = {"schema_version": 1, "baseline": "answer_a", "run": "answer_b"}


def write(directory: Path, content: Any) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / COMPARISON).write_text(json.dumps(content), encoding="utf-8")
    return directory


def test_created_directory_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "cmp"
    created = ComparisonDirectory.create(path, "answer_a", "answer_b")
    assert json.loads((path / COMPARISON).read_text()) == NAMES
    assert ComparisonDirectory.find(path) == created
    assert created.baseline_path == path / "answer_a"
    assert created.run_path == path / "answer_b"
    assert ComparisonDirectory.create(path, "answer_a", "answer_b") == created


def test_directory_without_the_file_is_no_comparison(tmp_path: Path) -> None:
    assert ComparisonDirectory.find(tmp_path) is None
    assert ComparisonDirectory.find(tmp_path / "missing") is None
    with pytest.raises(MissingRun, match="--against"):
        ComparisonDirectory.open(tmp_path)


@pytest.mark.parametrize(
    ("baseline", "run", "names"),
    [
        ("answer_a", "answer_b", ("answer_a", "answer_b")),
        ("Antwort A", "Antwort B", ("Antwort-A", "Antwort-B")),
        ("out.a", "out.b", ("out.a", "out.b")),
        ("../../etc", "/tmp/x", ("etc", "tmp-x")),
        ("a", "A", ("a-a", "A-b")),
        ("a b", "a/b", ("a-b-a", "a-b-b")),
        ("?", "..", ("a", "b")),
        ("x" * 300, "y" * 300, ("x" * 60, "y" * 60)),
        ("x" * 300, "x" * 299, (f"{'x' * 60}-a", f"{'x' * 60}-b")),
        ("Stra\u00dfe", "STRASSE", ("Stra\u00dfe-a", "STRASSE-b")),
        ("caf\u00e9", "cafe\u0301", ("caf\u00e9-a", "caf\u00e9-b")),
    ],
)
def test_folders_are_safe_and_different(
    tmp_path: Path, baseline: str, run: str, names: tuple[str, str]
) -> None:
    created = ComparisonDirectory.create(tmp_path / "cmp", baseline, run)
    assert (created.baseline, created.run) == names


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../other", "/etc", "a/b", "a\\b", "a\0", "C:x", "a\n", ".git", "x" * 200, 7],
)
@pytest.mark.parametrize("key", ["baseline", "run"])
def test_name_that_is_no_plain_folder_is_refused(tmp_path: Path, key: str, name: object) -> None:
    directory = write(tmp_path, {**NAMES, key: name})
    with pytest.raises(RunDirectoryError, match=f"comparison.json cannot be read: {key}"):
        ComparisonDirectory.find(directory)


@pytest.mark.parametrize(
    "content",
    [
        [],
        "text",
        {},
        {**NAMES, "schema_version": 2},
        {**NAMES, "more": 1},
        {"schema_version": 1, "baseline": "a"},
        {**NAMES, "run": "answer_a"},
        {**NAMES, "run": "ANSWER_A"},
    ],
)
def test_damaged_file_is_refused(tmp_path: Path, content: object) -> None:
    with pytest.raises(RunDirectoryError, match=r"comparison\.json"):
        ComparisonDirectory.find(write(tmp_path, content))


def test_file_that_is_not_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / COMPARISON).write_bytes(b"\xff\xfe{")
    with pytest.raises(RunDirectoryError, match=r"comparison\.json"):
        ComparisonDirectory.find(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_links_are_refused(tmp_path: Path) -> None:
    elsewhere = write(tmp_path / "elsewhere", NAMES)
    directory = tmp_path / "cmp"
    directory.mkdir()
    (directory / COMPARISON).symlink_to(elsewhere / COMPARISON)
    with pytest.raises(RunDirectoryError, match="link"):
        ComparisonDirectory.find(directory)
    (directory / COMPARISON).unlink()
    write(directory, NAMES)
    (directory / "answer_b").symlink_to(elsewhere)
    with pytest.raises(RunDirectoryError, match=r"answer_b is a link"):
        ComparisonDirectory.find(directory)


def test_directory_with_other_content_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "manifest.json").write_text("{}")
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("text")
    file = tmp_path / "file"
    file.write_text("text")
    write(tmp_path / "cmp", NAMES)
    for path in (run, other, file, tmp_path / "cmp"):
        with pytest.raises(RunDirectoryError, match="out"):
            ComparisonDirectory.create(path, "answer_a", "answer_c")
