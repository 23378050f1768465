"""The wordings that are tried: `today` is the package's own, every other one a file wordings/<task>/<name>.toml.

They are read as `localjudge run --prompt FILE` reads them, so what is measured is what a run would ask.
"""

from pathlib import Path

TODAY = "today"

_FOLDER = Path(__file__).parent / "wordings"


def wordings(task: str) -> dict[str, Path | None]:
    """Names of the wordings of a task, each with its file; None for the package's own, which comes first."""
    return {TODAY: None} | {file.stem: file for file in sorted((_FOLDER / task).glob("*.toml"))}
