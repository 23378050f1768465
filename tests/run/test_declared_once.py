"""Each setting is declared once; its option and its key in suite files follow."""

import pytest

from localjudge.run.options import CalibrateOptions, JudgeOptions, RunOptions, VerifyOptions
from localjudge.run.settings import SETTINGS, RunSettings, settings_with
from localjudge.words import FILE_ONLY, Setting


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (RunOptions, RunSettings.model_fields.keys() - {"criteria"}),
        (CalibrateOptions, {*settings_with("calibration"), "threads"}),
        (VerifyOptions, set(settings_with("place"))),
        (JudgeOptions, RunSettings.model_fields.keys() - {*settings_with("data"), "criteria"}),
    ],
)
def test_python_and_the_command_line_take_the_same_settings(options: type, settings: set[str]) -> None:
    assert options.__annotations__.keys() == settings


def test_every_field_declares_what_it_is() -> None:
    for name, field in RunSettings.model_fields.items():
        assert [type(about) for about in field.metadata].count(Setting) == 1, name
        assert field.description, name


def test_hints_name_an_option_of_each_setting_that_has_one() -> None:
    assert {name for name, setting in SETTINGS.items() if not setting.group} == FILE_ONLY
