"""A suite as the defaults of a command's options: what the command line names takes its place.

click looks up an option that was not given in the context's `default_map`. Settings of a run are taken as Python takes
them, since a suite may say more of them than can be typed.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from localjudge.errors import UsageError

if TYPE_CHECKING:
    from localjudge.suite import Suite

_Command = TypeVar("_Command", bound=Callable[..., Any])
_LEFT_OUT = "localjudge.no_suite"
_CALLED = {"report": "as_page"}
"""Keys of a suite whose option has another name in the command."""


def suite_options(command: _Command) -> _Command:
    """Give a command the options `--suite` and `--no-suite`; it gets the suite that was read, or None, as `suite`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _leave_out(context: click.Context, _parameter: click.Parameter, given: bool) -> None:
    """Options that are given are looked at in their order, before those that are not."""
    if given and context.params.get("suite"):
        raise _contradiction()
    context.meta[_LEFT_OUT] = given


def _take(context: click.Context, _parameter: click.Parameter, given: Path | None) -> "Suite | None":
    from localjudge.suite import read_suite, suite_here

    left_out = context.meta.get(_LEFT_OUT, False) or context.params.get("demo", False)
    if left_out and given:
        raise _contradiction()
    file = given or (None if left_out else suite_here())
    if file is None:
        return None
    suite = read_suite(file, found=given is None)
    settings = suite.settings
    context.default_map = {_CALLED.get(key, key): one for key, one in suite.arguments.items() if key not in settings}
    return suite


def settings_given(options: Mapping[str, Any], suite: "Suite | None") -> dict[str, Any]:
    """The settings that the command line names, and those of the suite in the place of all others.

    A threshold that is typed takes the place of the suite's calibration, and a calibration that of its threshold.
    """
    context = click.get_current_context()
    typed = {
        name: value
        for name, value in options.items()
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    }
    said = suite.settings if suite else {}
    for one, other in (("threshold", "calibration"), ("calibration", "threshold")):
        if one in typed:
            said.pop(other, None)
    return {**said, **typed}


def _contradiction() -> UsageError:
    return UsageError("--suite cannot be given beside --no-suite or --demo", hint="leave one of them out")


_OPTIONS = (
    click.option(
        "--no-suite",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_leave_out,
        help="Take nothing from localjudge.toml.",
    ),
    click.option(
        "--suite",
        is_eager=True,
        callback=_take,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Take what is not named here from this file (docs/comparing.md). Default: localjudge.toml, if it is here.",
    ),
)
