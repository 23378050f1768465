"""Options that are settings: declared once, as fields, and read there by the command line."""

import click
import pytest
from click.testing import CliRunner

from localjudge.cli.options import settings
from localjudge.cli.run import run_command
from localjudge.errors import UsageError
from localjudge.run.settings import RunSettings, checked

OPTIONS = {parameter.name: parameter for parameter in run_command.params if isinstance(parameter, click.Option)}


@pytest.mark.parametrize("name", RunSettings.model_fields)
def test_every_setting_is_an_option_with_its_default_and_its_words(name: str) -> None:
    """What is left out on the command line is what Python leaves out."""
    field = RunSettings.model_fields[name]
    assert str(OPTIONS[name].help).startswith(str(field.description))
    given = CliRunner().invoke(_printing(name), []).output.strip()
    assert checked({name: eval(given)}) == RunSettings()


def _printing(name: str) -> click.Command:
    """A command with one option, which prints its value."""

    @click.command()
    @settings(name)
    def command(**options: object) -> None:
        click.echo(repr(options[name]))

    return command


def test_every_setting_has_words() -> None:
    assert [name for name, field in RunSettings.model_fields.items() if not field.description] == []


@pytest.mark.parametrize(
    ("name", "arguments", "value"),
    [
        ("threshold", ["--threshold", "0.25"], 0.25),
        ("n_ctx", ["--n-ctx", "512"], 512),
        ("reasons", ["--reasons", "after"], "after"),
        ("skip_bad_rows", ["--skip-bad-rows"], True),
        ("reuse", ["--reuse", "a", "--reuse", "b"], ("a", "b")),
        ("mapping", ["--map", "reference=gold", "--map", "id=nr"], {"reference": "gold", "id": "nr"}),
    ],
)
def test_a_value_arrives_as_the_field_takes_it(name: str, arguments: list[str], value: object) -> None:
    given = CliRunner().invoke(_printing(name), arguments).output.strip()
    assert getattr(checked({name: eval(given)}), name) == value


def test_a_bound_is_told_and_kept() -> None:
    """By the field alone: the option only says it."""
    assert "From 0 to 1." in str(OPTIONS["threshold"].help)
    assert "At least 64." in str(OPTIONS["n_ctx"].help)
    with pytest.raises(UsageError, match=r"^n_ctx must be at least 64, got 63"):
        checked({"n_ctx": 63})
