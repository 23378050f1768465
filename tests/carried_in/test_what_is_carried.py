"""The tests that travel need what travels with them, and the container file keeps what it promises."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from carried_in.smoke_tests import TESTS, put_tests

ROOT = Path(__file__).resolve().parents[2]
CONTAINERFILE = (ROOT / "scripts" / "Containerfile").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def carried(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("carried")
    return [file.relative_to(folder) for file in put_tests(ROOT, folder)]


def test_tests_that_travel_import_nothing_that_does_not(carried: list[Path]) -> None:
    modules = {file.with_suffix("").as_posix().replace("/", ".") for file in carried}
    allowed = sys.stdlib_module_names | {"localjudge", "pytest"}
    imported: set[str] = set()
    for file in carried:
        if file.suffix == ".py":
            for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                imported |= {*names, str(node.module)} if isinstance(node, ast.ImportFrom) else set(names)
    assert len(modules) > len(TESTS)
    assert {name for name in imported - modules if name.partition(".")[0] not in allowed} == set()


def test_tests_that_travel_are_collected_where_they_arrive(tmp_path: Path) -> None:
    """With no other file of the project beside them. That they pass is tried where a whole folder is installed."""
    list(put_tests(ROOT, tmp_path))
    command = [sys.executable, "-m", "pytest", "-c", "tests/pytest.ini", "--rootdir", ".", "--collect-only", "-q"]
    collected = subprocess.run([*command, "tests"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert collected.returncode == 0, collected.stdout
    assert int(re.findall(r"(\d+) tests collected", collected.stdout)[0]) > 100


def stages() -> list[list[str]]:
    """The instructions of the container file, stage by stage, without comments."""
    lines = [line for line in CONTAINERFILE.splitlines() if line and not line.startswith("#")]
    starts = [number for number, line in enumerate(lines) if line.startswith("FROM ")]
    return [lines[start:end] for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]


def test_the_image_installs_without_a_network_and_runs_as_nobody() -> None:
    _, image = stages()
    [installs] = [line for line in image if "/wheelhouse/install" in line]
    assert installs.startswith("RUN --network=none --mount=type=bind,from=build,")
    assert [line for line in image if re.search(r"\b(apt|pip|curl|wget)\b", line)] == []
    assert image.index("USER judge") > image.index(installs)
    assert "--shell /usr/sbin/nologin judge" in "\n".join(image)


def test_the_image_starts_no_shell() -> None:
    [entry] = [line for line in stages()[1] if line.startswith("ENTRYPOINT ")]
    assert json.loads(entry.removeprefix("ENTRYPOINT ")) == ["/opt/localjudge/bin/localjudge"]


def test_the_first_stage_calls_the_script_with_options_that_it_has() -> None:
    shown = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "wheelhouse"), "--help"], capture_output=True, text=True, check=True
    )
    used = set(re.findall(r"(?<=[ \"])--[a-z-]+(?= )", "\n".join(stages()[0]))) - {"--no-install-recommends"}
    assert used
    assert [option for option in used if option not in shown.stdout and not option.startswith("--mount")] == []


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    """What is not ordered is removed from the folder: it has to be one that was made for this."""
    (tmp_path / "thesis.tex").write_text("", encoding="utf-8")
    made = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "wheelhouse"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 1
    assert "is not empty, and was not made by this" in made.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("version", ["3", "3.12.1", ""])
def test_a_python_is_named_by_its_minor_version(version: str, tmp_path: Path) -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "wheelhouse"), str(tmp_path / "new"), "--python", version],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (made.returncode, "must be a version such as 3.12" in made.stderr) == (2, True)
