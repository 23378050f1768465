"""The folder of `localjudge start`: the remembered answers, the run and the label pages.

runs/export/localjudge.toml     data, columns, judge and metric, for localjudge run --config
runs/export/run                 the run; run-2 after the data changed
runs/export/labels.html         a page with statements to label
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.config import CONFIG_FILE, read_config
from localjudge.errors import InputError
from localjudge.judging.run_names import below_runs, data_stem
from localjudge.labels.labelling import DEFAULT_COUNT
from localjudge.resources import write_output
from localjudge.run_directory.summary import SUMMARY
from localjudge.words import option

_FIRST_RUN = "run"
_HEADER = "# Written by localjudge start, which asks again with --ask. To judge once more:\n"


class StartFolder(NamedTuple):
    """The folder for some data files."""

    path: Path
    data: tuple[str, ...]

    @classmethod
    def find(cls, data: Sequence[str], out: Path | None) -> "StartFolder":
        """Return the folder `out`, or the first one that has no other data.

        The names are `runs/<data>`, `runs/<data>-2` and so on. Raises InputError for a folder with
        other data or without a `localjudge.toml`.
        """
        if out is not None:
            folder = cls(out, tuple(data))
            if not folder._is_free():
                hint = f"name another folder with {option('out')}"
                raise InputError(
                    f"{out} contains other files, or answers for other data", hint=hint
                )
            return folder
        stem = data_stem(data[0])
        name = stem
        number = 1
        while True:
            folder = cls(below_runs(name), tuple(data))
            if folder._is_free():
                return folder
            number += 1
            name = f"{stem}-{number}"

    def _is_free(self) -> bool:
        if not self.path.exists():
            return True
        if not self.path.is_dir():
            return False
        if not self.config_file.is_file():
            return not any(self.path.iterdir())
        stored = self.answers.get("data", ())
        return [*map(os.path.realpath, stored)] == [*map(os.path.realpath, self.data)]

    @property
    def config_file(self) -> Path:
        return self.path / CONFIG_FILE

    @property
    def answers(self) -> Mapping[str, Any]:
        """The remembered answers and the names of data and run, none before the first call."""
        if not self.config_file.is_file():
            return {}
        return read_config(self.config_file).arguments

    @property
    def run(self) -> Path:
        """The current run directory, which may not exist yet."""
        out = self.answers.get("out", _FIRST_RUN)
        return self.path / Path(out).name

    def other_runs(self) -> list[Path]:
        """Return the directories of earlier runs, with other data or another judge."""
        places = sorted(self.path.glob(f"{_FIRST_RUN}*/{SUMMARY}"))
        return [place.parent for place in places if place.parent != self.run]

    def next_run(self) -> str:
        """Return the name of the next run directory that does not exist."""
        number = 2
        while (self.path / f"{_FIRST_RUN}-{number}").exists():
            number += 1
        return f"{_FIRST_RUN}-{number}"

    def write_config(self, answers: Mapping[str, Any]) -> None:
        """Store answers as a configuration file, with paths relative to the folder.

        Raises InputError.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        data = [os.path.relpath(file, self.path) for file in self.data]
        values = {"data": data, "out": self.run.name, **answers}
        text = f"{_HEADER}#   localjudge run --config {json.dumps(str(self.config_file))}\n"
        for name, value in values.items():
            if value:
                text += f"{name} = {_toml(value)}\n"
        try:
            content = text.encode()
        except UnicodeEncodeError as error:
            problem = "the name of a data file is not valid text, so it cannot be stored"
            raise InputError(problem, hint="rename the file") from error
        write_output(self.config_file, [content])

    def page(self, count: int, kind: str = "labels") -> Path:
        """Return the page for the first `count` statements of the current run."""
        run = self.run.name.removeprefix(_FIRST_RUN)
        number = ""
        if count != DEFAULT_COUNT:
            number = f"-{count}"
        return self.path / f"{kind}{run}{number}.html"


def _toml(value: Any) -> str:
    """Return a text, list or table of texts as TOML. Strings are as in JSON, except for DEL."""
    if isinstance(value, Mapping):
        pairs = [f"{_toml(name)} = {_toml(item)}" for name, item in value.items()]
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
