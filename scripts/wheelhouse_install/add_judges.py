"""Register the judges of a folder: copy their files and rows into the state directory.

python add_judges.py FOLDER
"""

import shutil
import sys
import tomllib
from pathlib import Path

from localjudge import model_registry, resources
from localjudge.errors import LocaljudgeError


def main(folder: Path) -> None:
    """Register new judges. Refuses a name that belongs to another model before copying anything."""
    state = resources.state_directory()
    rows = {
        path: tomllib.loads(path.read_text(encoding="utf-8"))["model"][0]
        for path in folder.glob("models/*/judge.toml")
    }
    registered = model_registry.registered()
    for row in rows.values():
        there = registered.get(row["name"])
        if there and there.sha256 != row["sha256"]:
            registry = state / "registry.toml"
            sys.exit(f"another judge is registered as {row['name']!r}: rename it in {registry}")
    for path, row in rows.items():
        for file in path.parent.glob("*.gguf"):
            target = state / "models" / path.parent.name / file.name
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target.with_suffix(".part"))
                target.with_suffix(".part").replace(target)
        if row["name"] not in registered:
            with (state / "registry.toml").open("a", encoding="utf-8") as registry:
                registry.write("\n" + path.read_text(encoding="utf-8"))
        print(
            f"judge {row['name']}: {model_registry.find(row['name']).path}"
        )  # which reads and checks all of it


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except (OSError, LocaljudgeError) as error:
        sys.exit(f"the judges cannot be added: {error}")
