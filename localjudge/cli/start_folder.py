"""The folder of `localjudge start`: the remembered answers, the run, label pages and what was read.

runs/export/localjudge.toml     data, columns, judge and metric, for localjudge run --config
runs/export/run                 the run; run-2 after the data changed
runs/export/labels.html         a page with statements to label
runs/export/labels-read.txt     sha256 and name of each label file that was read
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from hashlib import file_digest
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.config import CONFIG_FILE, read_config
from localjudge.dataset.preview import is_label_file
from localjudge.errors import InputError, LocaljudgeError
from localjudge.judging.run_names import below_runs, data_stem
from localjudge.labels.label_sheet import read_sheet
from localjudge.labels.labelling import DEFAULT_COUNT
from localjudge.resources import write_output
from localjudge.run_directory.directory import MANIFEST
from localjudge.run_directory.label_file import LABELS
from localjudge.run_directory.result_rows import row_files
from localjudge.run_directory.summary import SUMMARY
from localjudge.words import option

_READ = "labels-read.txt"
_FIRST_RUN = "run"
_LABEL_ENDINGS = (".jsonl", ".csv", ".tsv", ".txt")
_RESULTS = (LABELS, *row_files(with_evidence=True))
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

    def label_files(self) -> Iterator[Path]:
        """Yield unread label files next to the run, next to the data, and in the working directory.

        The file that was changed first comes first, so that the newest copy of a sheet decides.
        Sheets without a label are left out: they would withdraw the labels of their filled-in
        copies.
        """
        digests = self._digests_read()
        files: list[Path] = []
        for file in self._candidates():
            if is_label_file(file) and _digest(file) not in digests and _has_label(file):
                files.append(file)
        files.sort(key=lambda file: file.stat().st_mtime_ns)
        for file in files:
            yield Path(os.path.relpath(file))

    def _candidates(self) -> Iterator[Path]:
        """Yield files with names that allow labels, without the data and the files of runs."""
        folders = [self.path, self.run]
        for data_file in self.data:
            folders.append(Path(data_file).parent)
        folders.append(Path())
        data = set(map(os.path.realpath, self.data))
        for folder in dict.fromkeys(map(os.path.realpath, folders)):
            if not os.path.isdir(folder):
                continue
            is_run = Path(folder, MANIFEST).exists()
            for file in sorted(Path(folder).iterdir()):
                is_result = is_run and file.name in _RESULTS
                is_candidate = file.suffix.lower() in _LABEL_ENDINGS and file.is_file()
                if is_candidate and not is_result and str(file) not in data:
                    yield file

    def remember_read(self, file: Path) -> None:
        """Note that the labels of a file were read, so that the same content is not read again."""
        notes = self.path / _READ
        line = f"{_digest(file)}  {file.name}\n"
        content = line.encode(errors="backslashreplace")
        if notes.exists():
            content = notes.read_bytes() + content
        write_output(notes, [content])

    def _digests_read(self) -> set[str]:
        notes = self.path / _READ
        if not notes.exists():
            return set()
        lines = notes.read_text(encoding="utf-8").splitlines()
        return {line.partition(" ")[0] for line in lines}


def _has_label(file: Path) -> bool:
    """Return whether a sheet or page has an answer.

    An unreadable one counts, because its reader then explains the problem.
    """
    try:
        labels, _ = read_sheet(file)
    except LocaljudgeError:
        return True
    return any(label.is_answered for label in labels)


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


def _toml(value: Any) -> str:
    """Return a text, list or table of texts as TOML. Strings are as in JSON, except for DEL."""
    if isinstance(value, Mapping):
        pairs = [f"{_toml(name)} = {_toml(item)}" for name, item in value.items()]
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
