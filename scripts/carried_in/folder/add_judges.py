"""Gives the carried judges their names: the models go into the state directory, their rows into its registry.

    python add_judges.py FOLDER

What is there already stays. A name that stands for another model is refused, and so is one whose file would take the
place of another file; before anything is copied.
"""

import filecmp
import os
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

from localjudge import model_registry, resources
from localjudge.errors import LocaljudgeError
from localjudge.local_models.model_parts import parts


def main(folder: Path) -> None:
    """Check all names and places, then copy and register what is not there."""
    models = resources.state_directory() / "models"
    known = model_registry.registered()
    rows = {path: read(path) for path in sorted((folder / "models").glob("*.toml"))}
    for row in rows.values():
        there = known.get(row["name"])
        if there and there.sha256 != row["sha256"]:
            sys.exit(
                f"the judge {row['name']!r} of this folder is another than the one that is registered here: "
                f"rename that one in {registry_file()}, or remove its row"
            )
    lacking = [row for row in rows.values() if row["name"] not in known or not is_there(row["name"])]
    for row in lacking:
        if taken := taken_places(folder / row["file"], models):
            sys.exit(
                f"the judge {row['name']!r} cannot be put into {models}: another file is there as {', '.join(taken)}; "
                "move it, or make the folder with another name for this judge: --judge NAME=JUDGE"
            )
    for path, row in rows.items():
        if row in lacking:
            copy(folder / row["file"], models)
        if row["name"] not in known:
            register(path.read_text(encoding="utf-8"))
        found = model_registry.find(row["name"])  # reads all of it: what was copied is what was pinned
        print(f"judge {row['name']}: {found.path}")


def read(path: Path) -> dict[str, Any]:
    """The one row of a file."""
    [row] = tomllib.loads(path.read_text(encoding="utf-8"))["model"]
    return dict(row)


def is_there(name: str) -> bool:
    """Whether the file of a registered judge is where it should be."""
    place = model_registry.place_of(name)
    return place is not None and place.is_file()


def registry_file() -> Path:
    """The user's own registry."""
    return resources.state_directory() / "registry.toml"


def taken_places(model: Path, models: Path) -> list[str]:
    """The names of a model's files under which there is something else already."""
    return [
        file.name
        for file in parts(model)
        if os.path.lexists(models / file.name) and not is_copy(models / file.name, file)
    ]


def is_copy(there: Path, file: Path) -> bool:
    """Whether a file with these bytes is there."""
    return there.is_file() and filecmp.cmp(there, file, shallow=False)


def copy(model: Path, models: Path) -> None:
    """All files of a model that are not there, each whole or not at all."""
    models.mkdir(parents=True, exist_ok=True)
    for file in parts(model):
        if (models / file.name).exists():
            continue
        fresh = models / f".{file.name}.part"
        shutil.copyfile(file, fresh)
        fresh.replace(models / file.name)


def register(row: str) -> None:
    """Add a row to the registry; its other rows stay as they are written."""
    registry = registry_file()
    before = registry.read_text(encoding="utf-8").rstrip("\n") + "\n\n" if registry.is_file() else ""
    fresh = registry.with_name(f".{registry.name}.part")
    fresh.write_text(before + row, encoding="utf-8")
    fresh.replace(registry)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except OSError as error:
        sys.exit(f"the judges cannot be put into {resources.state_directory()}: {error}")
    except LocaljudgeError as error:
        sys.exit(f"{error.message}\n  {error.hint or ''}")
