"""Each setting is declared once; its option and its key in configuration files follow."""

from collections.abc import Callable
from inspect import signature

import pytest

import localjudge
from localjudge import Judge, Run
from localjudge.judging.settings import SETTINGS, RunSettings, neutral_settings, settings_with
from localjudge.words import FILE_ONLY, Setting


@pytest.mark.parametrize(
    ("function", "settings"),
    [
        (localjudge.evaluate, RunSettings.model_fields.keys() - {"criteria"}),
        (localjudge.calibrate, {*settings_with("calibration"), "threads"}),
        (Run.verify, set(neutral_settings())),
        (Judge.open, RunSettings.model_fields.keys() - {*settings_with("data"), "criteria"}),
    ],
)
def test_python_and_the_command_line_take_the_same_settings(
    function: Callable[..., object], settings: set[str]
) -> None:
    """Only `verify` has its own sample and seed, of answers instead of samples."""
    parameters = set(signature(function).parameters)
    if function == Run.verify:
        parameters -= {"sample", "seed"}
    assert parameters & SETTINGS.keys() == settings


def test_every_field_declares_what_it_is() -> None:
    for name, field in RunSettings.model_fields.items():
        assert [type(about) for about in field.metadata].count(Setting) == 1, name
        assert field.description, name


def test_hints_name_an_option_of_each_setting_that_has_one() -> None:
    assert {name for name, setting in SETTINGS.items() if not setting.group} == FILE_ONLY
