"""Each setting is declared once; its option and its key in suite files follow."""

import ast
from inspect import signature
from pathlib import Path

import pytest

import localjudge
from localjudge.run.options import CalibrateOptions, JudgeOptions, RescoreOptions, RunOptions, VerifyOptions
from localjudge.run.settings import RunSettings, settings_with
from localjudge.words import Setting

PACKAGE = Path(localjudge.__file__).parent
FEW = 2


def lists_of_settings(tree: ast.Module) -> list[set[str]]:
    """Return the collections in the code that name more than a few settings."""
    tables = [node.value for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    lists = [node for node in ast.walk(tree) if isinstance(node, ast.Tuple | ast.List | ast.Set)]
    names = [
        {item.value for item in ast.walk(node) if isinstance(item, ast.Constant) and isinstance(item.value, str)}
        for node in (*tables, *lists)
        if node is not None
    ]
    return [settings for texts in names if len(settings := texts & RunSettings.model_fields.keys()) > FEW]


def test_no_list_of_settings_is_kept_by_hand() -> None:
    lists = [
        (path.name, names)
        for path in PACKAGE.rglob("*.py")
        for names in lists_of_settings(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert lists == []


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (RunOptions, RunSettings.model_fields.keys() - {"criteria"}),
        (CalibrateOptions, {*settings_with("calibration"), "threads", "allow_host"}),
        (RescoreOptions, {*settings_with("rescorable")} - {"criteria"}),
        (VerifyOptions, set(settings_with("place"))),
        (JudgeOptions, RunSettings.model_fields.keys() - {*settings_with("data"), "criteria"}),
    ],
)
def test_python_and_the_command_line_take_the_same_settings(options: type, settings: set[str]) -> None:
    assert options.__annotations__.keys() == settings


def test_help_names_each_option_of_a_function() -> None:
    parameters = signature(localjudge.Run.rescore).parameters
    assert parameters.keys() >= RescoreOptions.__annotations__.keys()
    assert parameters["threshold"].kind is parameters["threshold"].KEYWORD_ONLY


def test_every_field_declares_what_it_is() -> None:
    for name, field in RunSettings.model_fields.items():
        assert [type(about) for about in field.metadata].count(Setting) == 1, name
        assert field.description, name
