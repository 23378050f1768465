"""What a command says of itself: options in groups, an example that works, completion by the shell."""

import io
import logging
import os
import re
import shlex
import subprocess
import sys
from importlib import import_module

import click
import pytest

from localjudge.cli.main import COMMANDS, command_line, main


def help_of(capfd: pytest.CaptureFixture[str], *command: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert ended.value.code == 0
    return capfd.readouterr().out


def test_every_option_of_a_run_stands_in_one_group(capfd: pytest.CaptureFixture[str]) -> None:
    text = help_of(capfd, "run")
    sections = re.split(r"^(\w+):\n", text, flags=re.MULTILINE)[1:]
    bodies = zip(sections[::2], sections[1::2], strict=True)
    options = {name: re.findall(r"^  (?:-\w, )?(--[\w-]+)", body, re.MULTILINE) for name, body in bodies}
    assert list(options) == ["Data", "Judge", "Scoring", "Evidence", "Output", "Example"]
    assert options["Judge"][0] == "--judge"
    run: click.Command = import_module("localjudge.cli.run").run_command
    names = [parameter.opts[0] for parameter in run.params if isinstance(parameter, click.Option)]
    assert sorted(name for group in options.values() for name in group) == sorted([*names, "--help"])


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_of_a_command_can_be_typed(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """It parses, with all that is required and no option that does not exist."""
    shown = help_of(capfd, name).rpartition("\nExample:\n")[2].strip()
    program, command_name, *arguments = shlex.split(shown)
    assert (program, command_name) == ("localjudge", name)
    command = command_line.get_command(click.Context(command_line), name)
    assert command
    command.make_context(name, arguments)


def test_a_shell_can_complete_options() -> None:
    """As bash asks: all words, and which of them is being typed."""
    asked = {"_LOCALJUDGE_COMPLETE": "bash_complete", "COMP_WORDS": "localjudge run --ju", "COMP_CWORD": "2"}
    command = [sys.executable, "-m", "localjudge"]
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["plain,--judge", "plain,--junit"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_given_its_script(shell: str) -> None:
    asked = {**os.environ, "_LOCALJUDGE_COMPLETE": f"{shell}_source"}
    done = subprocess.run([sys.executable, "-m", "localjudge"], env=asked, capture_output=True, text=True, check=False)
    assert "localjudge" in done.stdout
    assert f"{shell}_complete" in done.stdout


def test_messages_are_written_once_to_the_stderr_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may call `main` several times: what an earlier stderr was is closed, and its log is its own."""

    def warn() -> None:
        logging.getLogger("localjudge").warning("once")

    monkeypatch.setattr(command_line, "get_command", lambda *_: click.Command("warn", callback=warn))
    before = logging.getLogger("localjudge").handlers[:]
    for _ in range(3):
        said = io.StringIO()
        monkeypatch.setattr(sys, "stderr", said)
        with pytest.raises(SystemExit):
            main(["warn"])
        assert logging.getLogger("localjudge").handlers == before
        assert said.getvalue() == "once\n"
        said.close()
