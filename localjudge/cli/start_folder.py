"""The folder of `localjudge start`, and its steps, each of which prints the command that it runs.

runs/export/localjudge.toml     data, columns, judge and metric, for localjudge run --config
runs/export/run                 the run; run-2 after the data changed
runs/export/labels.html         a page with statements to label
"""

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import click

from localjudge.cli.command import STEP
from localjudge.cli.main import ExitCode, command_line
from localjudge.config import CONFIG_FILE, read_config
from localjudge.errors import InputError
from localjudge.judging.estimate import Estimate
from localjudge.judging.plan import FIRST_RUN, below_runs, data_stem
from localjudge.labels.decisions import labelling_minutes
from localjudge.labels.labelling import DEFAULT_COUNT
from localjudge.report.terminal import put
from localjudge.resources import obstacle, write_output
from localjudge.run_directory.comparison_directory import COMPARISON
from localjudge.run_directory.label_rows import stored_labels
from localjudge.run_directory.summary import SUMMARY
from localjudge.types import Language
from localjudge.words import numbered, option, printable, printable_lines, roughly

_HEADER = "# Written by localjudge start, which asks again with --ask. To judge once more:\n"
_DOCTOR_MINUTES = 10
_REMEMBERED = ("mapping", "against", "language", "judge", "metrics")


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
            hint = f"name another folder with {option('out')}"
            in_the_way = obstacle(out)
            if in_the_way is not None:
                raise InputError(in_the_way, hint=hint)
            if not folder._is_free():
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
        out = self.answers.get("out", FIRST_RUN)
        return self.path / Path(out).name

    def other_runs(self) -> list[Path]:
        """Return the directories of earlier runs and comparisons, with other data or judges."""
        files = sorted(self.path.glob(f"{FIRST_RUN}*/{SUMMARY}"))
        files += sorted(self.path.glob(f"{FIRST_RUN}*/{COMPARISON}"))
        return [file.parent for file in files if file.parent != self.run]

    def next_run(self) -> str:
        """Return the name of the next run directory that does not exist."""
        number = 2
        while (self.path / f"{FIRST_RUN}-{number}").exists():
            number += 1
        return f"{FIRST_RUN}-{number}"

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
        run = self.run.name.removeprefix(FIRST_RUN)
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


def format_step(step: Sequence[str]) -> str:
    return printable(shlex.join(["localjudge", *step]))


def run_step(step: Sequence[str]) -> int:
    """Print and run a command of `localjudge`, and return its exit code."""
    put(f"\n$ {format_step(step)}\n")
    command = command_line.get_command(click.get_current_context(), step[0])
    assert command
    code: int | None = command.main(list(step[1:]), standalone_mode=False, obj=STEP)
    return code or ExitCode.DONE


def begin_again(folder: StartFolder) -> None:
    """Let the next run judge the changed data, with the answers of the last one."""
    stored = folder.answers
    answers = {name: stored.get(name) for name in _REMEMBERED}
    last = folder.run
    name = folder.next_run()
    click.echo(
        f"the data changed since {last}: judging it again in {folder.path / name}",
        err=True,
    )
    folder.write_config({**answers, "out": name, "reuse": [last.name]})


def read_labels(folder: StartFolder, directory: Path, named_files: Sequence[Path]) -> None:
    """Read the named files, in one command, and without labels the ones of earlier runs.

    The directory has a run, or two that are compared. Parts of one sheet count as one plan if they
    are read together.
    """
    if named_files:
        step = ["label", str(directory)]
        for file in named_files:
            step += ["--read", str(file)]
        run_step(step)
    if not stored_labels(directory):
        for other in folder.other_runs():
            if stored_labels(other):
                try:
                    run_step(["label", str(directory), "--read", str(other)])
                except InputError as error:  # no statement is the same
                    click.echo(printable_lines(f"not read: {error}"), err=True)


def print_total(estimate: Estimate, *, is_new_judge: bool) -> None:
    """Print how long everything takes: judging, labelling and, for a new judge, doctor."""
    seconds = estimate.seconds or 0
    judging = "no time"
    if seconds:
        judging = roughly(seconds, estimate.seconds_ci95)
    minutes = labelling_minutes(min(DEFAULT_COUNT, estimate.verdicts))
    parts = [f"{judging} for judging", f"{numbered(minutes, 'minute')} for labels"]
    if is_new_judge:
        minutes += _DOCTOR_MINUTES
        parts.append(f"up to about {_DOCTOR_MINUTES} minutes for doctor")
    put(f"\n in total {roughly(seconds + 60 * minutes)}: {', '.join(parts)}\n")
    click.echo("Ctrl-C stops; the same command resumes", err=True)


def choose_language(language: str | None) -> list[str]:
    """Return the option of a page in the language of the texts, if pages have it."""
    if language in get_args(Language):
        return ["--language", str(language)]
    return []


def ask_for_labels(folder: StartFolder, instruction: str) -> None:
    """Print how to label, and the command that reads the labels."""
    start = ["localjudge", "start", *folder.data]
    if folder != StartFolder.find(folder.data, None):
        start += ["--out", str(folder.path)]
    command = f"{shlex.join([*start, '--labels'])} FILE"
    put(printable(f" next: {instruction}") + "\n")
    put(printable(f" then, with the file that the page saves: {command}") + "\n")
