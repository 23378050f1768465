"""The file `needs`: what a machine must have for a folder; a word and its values a line, as a shell reads it."""

from collections.abc import Mapping
from pathlib import Path

NEEDS = "needs"


def read_needs(folder: Path) -> dict[str, str]:
    """What the folder says; nothing if it says nothing yet."""
    file = folder / NEEDS
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return {word: values for word, _, values in (line.partition(" ") for line in lines)}


def write_needs(folder: Path, needs: Mapping[str, str]) -> None:
    """Say it, in the order given."""
    text = "".join(f"{word} {values}\n" for word, values in needs.items())
    (folder / NEEDS).write_text(text, encoding="utf-8")
