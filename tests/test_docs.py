"""README and docs/ are correct: their commands run and print the shown output.

A `console` block has commands after `$ ` with their output; `...` matches any lines, or the rest of
a line. The commands of a page run in order in a folder with the example as `data.jsonl` and the
lexical judge as `model.gguf`, which judges by default, except on the first page.
The `python` blocks of a page are one program. Options in other blocks must exist. `.ci/run` tests
installation.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import NamedTuple

import click
import pytest

from localjudge.cli.main import command_line
from localjudge.dataset.columns import ALIASES, LOOSE_NAMES
from localjudge.metrics import catalog
from localjudge.model_registry import registered

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))))
TEXTS = {
    name: (ROOT / name).read_text(encoding="utf-8")
    for name in (*PAGES, "ARCHITECTURE.md", "CONTRIBUTING.md")
}
OPTIONS_OF_OTHERS = {
    *(
        "--find-links",
        "--force-reinstall",
        "--no-cache-dir",
        "--no-deps",
        "--no-index",
        "--wheel-dir",
    ),  # pip
    *("--extra-index-url", "--no-binary", "--only-binary"),  # pip
    "--check",  # sha256sum
    *("--again", "--data", "--write"),  # scripts/benchmarks/side-by-side and against-people
    *("--build-arg", "--network", "--rm", "--user"),  # Docker
    *("--extra", "--llama-wheel", "--native", "--portable", "--python"),  # scripts/wheelhouse
    *("--localjudge-judge", "--localjudge-out"),  # pytest with our plugin
    *("--array", "--constraint", "--cpus-per-task"),  # Slurm
    *(
        "--differences",
        "--paired",
        "--pooled",
        "--predictions",
        "--slices",
        "--together",
    ),  # scripts/simulations/coverage-table
    "--jobs",  # GNU Parallel
    *("--address", "--disable-usage-stats", "--generate", "--head", "--node-ip-address"),  # ray
    "--port",  # ray
    *("--ctstate", "--dport"),  # iptables
    # Our scripts.
    *("--again", "--corrected", "--data", "--limit", "--predict"),
    *("--questions", "--samples", "--table", "--without"),
}


class Example(NamedTuple):
    """A command of a page with its shown output."""

    command: str
    output: str


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def examples(text: str) -> list[Example]:
    shown: list[Example] = []
    for block in blocks(text, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            shown.append(Example(command, output))
    return shown


def pattern(output: str) -> str:
    """Return the regular expression for shown output.

    Other CPUs round differently, so signatures and digits of probabilities and of their means may
    differ.
    """
    parts = [re.escape(part) for part in re.split(r"^\.\.\.\n", output, flags=re.MULTILINE)]
    shown = r"(?:.*\n)*?".join(parts)
    shown = re.sub(r"\\\.\\\.\\\.(?=\\\n|$)", ".*", shown)
    shown = re.sub(r"(judge:|demo\\-)[0-9a-f]{8}", r"\1[0-9a-f]{8}", shown)
    shown = re.sub(r"(?<=\\ )([01]\\ )[01]\\\.\d{3}", r"\1[01]\\.\\d{3}", shown)
    shown = re.sub(r"(expected\\ )[01]\\\.\d{3}", r"\1[01]\\.\\d{3}", shown)
    interval = r"[01]\\\.\d{3}\\ \\-\\ [01]\\\.\d{3}"
    shown = re.sub(rf"({interval}(?:\\ )+)[01]\\\.\d{{3}}", r"\1[01]\\.\\d{3}", shown)
    of_a_judge = r"((?:lexical|reader)(?:\\ |\\\n)+)[01]\\\.\d{3}"
    return re.sub(of_a_judge, r"\1[01]\\.\\d{3}", shown)


def without_trailing_space(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n")).rstrip("\n") + "\n"


def runnable(example: Example) -> Example | None:
    """Return the example as it runs here: only the final job of an installation, or None."""
    if "pip install" not in example.command:
        return example
    job = example.command.rpartition(" && ")[2]
    return example._replace(command=job) if job.startswith(".venv/bin/localjudge ") else None


def make_folder(place: Path) -> Path:
    """Create a folder like an installed checkout, with example data and a model."""
    (place / "localjudge").symlink_to(ROOT / "localjudge")
    (place / "model.gguf").symlink_to(ROOT / "models" / "lexical.gguf")
    shutil.copy(ROOT / "localjudge" / "dataset" / "demo.jsonl", place / "data.jsonl")
    installed = place / ".venv" / "bin" / "localjudge"
    installed.parent.mkdir(parents=True)
    installed.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m localjudge "$@"\n')
    installed.chmod(0o755)
    return place


@pytest.mark.parametrize("name", [name for name in PAGES if examples(TEXTS[name])])
def test_commands_print_the_shown_output(name: str, tmp_path: Path) -> None:
    """In order, because later commands use earlier files."""
    folder = make_folder(tmp_path)
    run = [example for example in map(runnable, examples(TEXTS[name])) if example]
    judge = "bundled" if name == "README.md" else "lexical"  # which is faster
    problems = [problem for example in run for problem in _differences(example, folder, judge)]
    assert not problems, "\n".join(problems)


_FIRST_USE = re.compile(r"^first use of this model on this machine: .*\n", re.MULTILINE)
"""Printed once in a state directory, by whichever page comes first."""


def _differences(example: Example, folder: Path, judge: str) -> Iterator[str]:
    done = _run(["/bin/sh", "-c", example.command], folder, judge=judge)
    shown = without_trailing_space(example.output)
    printed = without_trailing_space(_FIRST_USE.sub("", done.stdout))
    if done.returncode != 0:
        yield f"{example.command} ends with {done.returncode}:\n{printed}"
    elif not re.fullmatch(pattern(shown), printed):
        yield f"{example.command}: the page shows:\n{shown}\nThe command prints:\n{printed}"


def _run(
    command: list[str], folder: Path, stdin: str = "", judge: str = "lexical"
) -> subprocess.CompletedProcess[str]:
    active = {
        **os.environ,
        "PATH": f"{folder}/.venv/bin:{os.environ['PATH']}",
        "LOCALJUDGE_JUDGE": judge,
    }
    return subprocess.run(
        command,
        cwd=folder,
        env=active,
        input=stdin,
        stdout=PIPE,
        stderr=STDOUT,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", [name for name in PAGES if blocks(TEXTS[name], "python")])
def test_python_blocks_run(name: str, tmp_path: Path) -> None:
    """From top to bottom, as one program."""
    done = _run(
        [sys.executable, "-"], make_folder(tmp_path), "\n".join(blocks(TEXTS[name], "python"))
    )
    assert done.returncode == 0, done.stdout


def test_judge_packages_are_named_with_the_registered_version() -> None:
    wanted = {
        f"{model.package}=={model.version}" for model in registered().values() if model.package
    }
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    pinned = {
        place: set(re.findall(r"[\w-]+==[\d.]*\d", text))
        for place, text in {**TEXTS, ".ci/run": ci}.items()
    }
    assert {place for place, names in pinned.items() if names & wanted} >= {
        "README.md",
        "docs/install.md",
        ".ci/run",
    }
    assert {
        name for names in pinned.values() for name in names if name.startswith("llm-")
    } == wanted


@pytest.mark.parametrize("name", TEXTS)
def test_links_inside_the_project_work(name: str) -> None:
    assert [
        target
        for target in _links(TEXTS[name])
        if not _is_there((ROOT / name).parent, name, target)
    ] == []


def _links(text: str) -> list[str]:
    return [
        target
        for target in re.findall(r"\]\(([^)\s]+)\)", text)
        if not re.match(r"[a-z]+:", target)
    ]


def _is_there(folder: Path, name: str, target: str) -> bool:
    path, _, anchor = target.partition("#")
    file = (folder / path).resolve() if path else ROOT / name
    return file.exists() and (not anchor or anchor in anchors(file.read_text(encoding="utf-8")))


def anchors(text: str) -> list[str]:
    without_blocks = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", without_blocks, flags=re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("name", TEXTS)
def test_mentioned_files_exist(name: str) -> None:
    """Paths in the project, such as `localjudge/types.py`."""
    paths = re.findall(
        r"`((?:localjudge|tests|scripts|grammars|models|docs|\.ci)/[\w./-]*)[` ]", TEXTS[name]
    )
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", PAGES)
def test_mentioned_options_exist(name: str) -> None:
    context = click.Context(command_line)
    names = command_line.list_commands(context)
    commands = [command_line.get_command(context, name) for name in names]
    ours = {
        option for command in commands if command for one in command.params for option in one.opts
    }
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", TEXTS[name]))
    assert options - ours - OPTIONS_OF_OTHERS - {"--help"} == set()


def test_every_metric_is_on_the_page_of_metrics() -> None:
    """`name@k` covers one metric per k."""
    names = set(re.findall(r"`([\w@]+)(?:\([^`]*\))?`", TEXTS["docs/metrics.md"]))
    assert set(filter(catalog.is_ours, catalog.names())) <= names
    assert {name for name in catalog.names() if name.endswith("@k")} <= names


def test_every_column_name_is_on_the_page_of_data() -> None:
    """For each field, both tables list exactly the accepted names."""
    rows: dict[str, set[str]] = {}
    for field, row in re.findall(r"^\| `(\w+)` \|(.*)$", TEXTS["docs/data.md"], flags=re.MULTILINE):
        names = re.sub(r"\(.*?\)", "", row)
        rows[field] = rows.get(field, set()) | set(re.findall(r"`([\w.]+)`", names))
    assert rows == {
        field: {*ALIASES[field], *LOOSE_NAMES.get(field, ())} - {field} for field in rows
    }
    assert len(rows) == 6


def test_the_layer_diagram_matches_the_enforced_layers() -> None:
    """In order; layers in parentheses are optional."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    picture = TEXTS["ARCHITECTURE.md"].split("```")[3].strip().splitlines()
    assert [line.partition("  ")[0] for line in picture] == [
        re.sub(r" \| \(.*\)", "", layer) for layer in layers
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no executable bit")
def test_every_script_is_listed_with_its_purpose_and_duration() -> None:
    scripts = ROOT / "scripts"
    rows = re.findall(
        r"^\| `([^`]+)` \| [^|]{10,} \| [^|]*(?:minute|hour)[^|]* \|$",
        (scripts / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    commands = {
        path.relative_to(ROOT).as_posix()
        for path in scripts.rglob("*")
        if path.is_file() and os.access(path, os.X_OK)
    }
    assert set(rows) == commands - {"scripts/wheelhouse_install/install"}
    assert len(rows) == len(set(rows))
