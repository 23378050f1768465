"""The README tells the truth: its commands run, and print what it shows.

A console block is a list of commands behind `$ ` with their output. A line `...` in the output stands for any lines.
Commands of `localjudge` are run, in order, in one fresh folder. The two set-up commands are what `.ci/run` runs; of the
first, the job at its end is run here.
"""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


class Example(NamedTuple):
    """A command of the README and what it shows as its output."""

    command: str
    output: str


def examples(text: str) -> list[Example]:
    """Commands of all console blocks, in order."""
    found: list[Example] = []
    for block in re.findall(r"^```console\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append(Example(command, output))
    return found


def pattern(output: str) -> str:
    """Regular expression for shown output, in which a line `...` stands for any lines.

    Other kinds of CPU round differently: there the signature is another, and a probability may differ in its digits.
    """
    parts = [re.escape(part) for part in re.split(r"^\.\.\.\n", output, flags=re.MULTILINE)]
    shown = r"(?:.*\n)*?".join(parts)
    shown = re.sub(r"(judge:|demo\\-)[0-9a-f]{8}", r"\1[0-9a-f]{8}", shown)
    return re.sub(r"^((?:\\ )+[01]\\ )[01]\\\.\d{3}", r"\1[01]\\.\\d{3}", shown, flags=re.MULTILINE)


def without_trailing_space(text: str) -> str:
    """Tables are padded to the width of the terminal, and some end with an empty line."""
    return "\n".join(line.rstrip() for line in text.split("\n")).rstrip("\n") + "\n"


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_files_that_are_named_are_there(name: str) -> None:
    """Paths inside the project, as `localjudge/types.py`; a reader goes there next."""
    named = re.findall(r"`((?:localjudge|tests|scripts|grammars|models|\.ci)/[\w./-]*)[` ]", (ROOT / name).read_text())
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_picture_of_the_rooms_is_the_layers_that_are_enforced() -> None:
    """In their order; those in parentheses need not be there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    picture = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split("```")[1].strip().splitlines()
    assert [line.partition("  ")[0] for line in picture] == [re.sub(r" \| \(.*\)", "", layer) for layer in layers]


SETUP = [example for example in examples(README) if "pip install" in example.command]
RUN = [
    Example(example.command.rpartition(".venv/bin/")[2], example.output)
    for example in examples(README)
    if example not in SETUP[1:]
]


def test_ci_runs_the_two_commands_of_the_readme() -> None:
    """What a newcomer is told to type is what must work before a change lands."""
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert len(SETUP) == 2
    for example in SETUP:
        assert f"\n{example.command}\n" in ci


def test_the_commands_of_the_readme_print_what_the_readme_shows(tmp_path: Path) -> None:
    """In the order of the README, in a fresh folder with the bundled example: later commands use what earlier left."""
    shutil.copy(ROOT / "localjudge" / "dataset" / "demo.jsonl", tmp_path / "data.jsonl")
    assert [problem for example in RUN for problem in _differences(example, tmp_path)] == []


def _differences(example: Example, folder: Path) -> list[str]:
    """What is wrong with the command, in words; nothing if all is well."""
    command = [sys.executable, "-m", "localjudge", *shlex.split(example.command)[1:]]
    done = subprocess.run(command, cwd=folder, stdout=PIPE, stderr=STDOUT, text=True, check=False)
    if done.returncode != 0:
        return [f"{example.command} ends with {done.returncode}:\n{done.stdout}"]
    shown, printed = without_trailing_space(example.output), without_trailing_space(done.stdout)
    if re.fullmatch(pattern(shown), printed):
        return []
    return [f"{example.command}: README shows:\n{shown}\nThe command prints:\n{printed}"]
