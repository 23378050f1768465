import io
import logging
import os
import re
import shlex
import subprocess
import sys

import click
import pytest

from localjudge.cli.main import command_line, main
from localjudge.judging.settings import SETTINGS, RunSettings, checked
from tests.cli.conftest import Call

RUN = command_line.get_command(click.Context(command_line), "run")
assert RUN
COMMANDS = command_line.list_commands(click.Context(command_line))
OPTIONS = {
    parameter.name: parameter for parameter in RUN.params if isinstance(parameter, click.Option)
}
TYPED = [name for name, setting in SETTINGS.items() if setting.group]


def test_everyday_options_come_first_and_each_option_is_listed_once(call: Call) -> None:
    text = call("run", "--help")[1]
    sections = re.split(r"^(\w[\w: ]*):\n", text, flags=re.MULTILINE)[1:]
    bodies = zip(sections[::2], sections[1::2], strict=True)
    options = {
        name: re.findall(r"^  (?:-\w, )?(--[\w-]+)", body, re.MULTILINE) for name, body in bodies
    }
    assert next(iter(options)) == "Options"
    assert {"--judge", "--metrics", "--out", "--dry-run"} <= set(options["Options"])
    assert len(options["Options"]) <= len(OPTIONS) // 2 + 1
    assert all(name.startswith("Advanced: ") for name in list(options)[1:-1])
    listed = [name for group in options.values() for name in group]
    assert sorted(listed) == sorted(["--help", *(option.opts[0] for option in OPTIONS.values())])


def test_everyday_commands_come_before_advanced_ones(call: Call) -> None:
    text = call("--help")[1]
    everyday, advanced = text.split("Commands:\n")[1].split("Advanced:\n")
    first = re.findall(r"^  (\w+) ", everyday, re.MULTILINE)
    then = re.findall(r"^  (\w+) ", advanced, re.MULTILINE)
    assert [*first, *then] == COMMANDS
    assert {"start", "run", "show", "report", "label", "verify"} <= {*first}
    assert "calibrate" in then


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_listed_and_its_example_can_be_typed(name: str, call: Call) -> None:
    """The example parses, with all required options."""
    assert f"  {name} " in call("--help")[1]
    text = call(name, "--help")[1]
    assert f"Usage: localjudge {name}" in text
    program, command_name, *arguments = shlex.split(text.rpartition("\nExample:\n")[2].strip())
    assert (program, command_name) == ("localjudge", name)
    command = command_line.get_command(click.Context(command_line), name)
    assert command
    command.make_context(name, arguments)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_section_has_options_of_its_command(name: str) -> None:
    command = command_line.get_command(click.Context(command_line), name)
    assert command
    options = {option.name for option in command.params if isinstance(option, click.Option)}
    advanced: dict[str, str] = vars(command)["advanced"]
    assert advanced.keys() - SETTINGS.keys() <= options


@pytest.mark.parametrize(
    ("name", "arguments", "value"),
    [
        *(
            (name, [], RunSettings.model_fields[name].get_default(call_default_factory=True))
            for name in TYPED
        ),
        ("threshold", ["--threshold", "0.25"], 0.25),
        ("threads", ["--threads", "2"], 2),
        ("reuse", ["--reuse", "a", "--reuse", "b"], ("a", "b")),
        (
            "mapping",
            ["--map", "reference=gold", "--map", "id=nr"],
            {"reference": "gold", "id": "nr"},
        ),
    ],
)
def test_a_value_arrives_as_the_field_takes_it(
    name: str, arguments: list[str], value: object
) -> None:
    """An omitted option is omitted in Python too."""
    assert RUN
    typed = RUN.make_context("run", ["data.jsonl", *arguments]).params
    assert getattr(checked({name: typed[name]}), name) == value


def test_a_shell_can_complete_options() -> None:
    """With the words and cursor position that bash passes."""
    asked = {
        "_LOCALJUDGE_COMPLETE": "bash_complete",
        "COMP_WORDS": "localjudge run --ju",
        "COMP_CWORD": "2",
    }
    command = [sys.executable, "-m", "localjudge"]
    done = subprocess.run(
        command, env={**os.environ, **asked}, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["plain,--judge", "plain,--junit"]


def test_each_call_of_main_logs_once_to_the_current_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier stderr may be closed."""

    def warn() -> None:
        logging.getLogger("localjudge").warning("once")

    monkeypatch.setattr(
        command_line, "get_command", lambda *_: click.Command("warn", callback=warn)
    )
    before = logging.getLogger("localjudge").handlers[:]
    for _ in range(3):
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        with pytest.raises(SystemExit):
            main(["warn"])
        assert logging.getLogger("localjudge").handlers == before
        assert stream.getvalue() == "once\n"
        stream.close()


@pytest.mark.parametrize("command", [("show", "runs/x"), ("label", "runs/x"), ("run", "x.jsonl")])
@pytest.mark.parametrize("names", [",", "", " , "])
def test_an_option_without_the_name_of_a_metric_is_refused(
    command: tuple[str, str], names: str, call: Call
) -> None:
    code, _, error = call(*command, "--metrics", names)
    assert code == 1
    assert "no metric is named: omit the option for all metrics" in error
