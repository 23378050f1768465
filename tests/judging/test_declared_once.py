"""Each setting is declared once; its option and its key in configuration files follow."""

from collections.abc import Callable
from inspect import signature
from typing import Optional

import pytest

import localjudge
from localjudge import Judge, Run
from localjudge.judging.settings import (
    SETTINGS,
    RunSettings,
)
from localjudge.words import as_typed, option


@pytest.mark.parametrize(
    "function", [localjudge.evaluate, localjudge.calibrate, Run.verify, Judge.open]
)
def test_a_function_shows_and_explains_its_settings(function: Callable[..., object]) -> None:
    names = signature(function).parameters.keys() & SETTINGS.keys()
    assert "threads" in names
    for name in names:
        assert f"\n{name}: " in str(function.__doc__)


def test_a_setting_in_python_has_the_type_and_the_name_of_its_field() -> None:
    """A value of the field, or None for its default. Some also take the name of a file."""
    parameters = signature(localjudge.evaluate).parameters
    assert SETTINGS.keys() - parameters.keys() == {"criteria"}
    for name in SETTINGS.keys() & parameters.keys():
        field = RunSettings.model_fields[name].annotation
        if SETTINGS[name].path_role is None and name != "until":
            kind = parameters[name].annotation
            assert kind == Optional[field], name  # noqa: UP045 # the operator takes no Literal


def test_every_field_declares_what_it_is() -> None:
    """Only `weights` are no setting: they are in manifests of earlier versions."""
    for name, field in RunSettings.model_fields.items():
        assert (name in SETTINGS) == (name != "weights"), name
        assert field.description, name


def test_a_setting_without_an_option_is_named_with_its_file() -> None:
    with as_typed():
        assert option("limit", 5) == "limit = 5 in localjudge.toml"
        assert option("sample", 5) == "--sample 5"
        assert option("mapping", {"id": "key"}) == "--map id=key"
