"""A command with an example at the end of its help, and sections for its advanced options."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from localjudge.judging.settings import SETTINGS

_EVERYDAY = "Options"
_SECTIONS = ("Data", "Judge", "Scoring", "Evidence", "Output")


class Command(click.Command):
    """A command of `localjudge`.

        @command("label", "localjudge label runs/data", advanced={"seed": "Data"})

    `advanced` has the sections of options, by parameter name. Other options are listed before them.
    `rewrite` changes the typed words before they are parsed.
    """

    def __init__(
        self,
        *arguments: Any,
        example: str,
        advanced: Mapping[str, str],
        rewrite: Callable[[Sequence[str]], list[str]],
        **attributes: Any,
    ) -> None:
        super().__init__(*arguments, **attributes)
        self.advanced = advanced
        self._example = example
        self._rewrite = rewrite

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self._rewrite(args))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, list[tuple[str, str]]] = {_EVERYDAY: []}
        for section in _SECTIONS:
            rows[section] = []
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx)
            if row and isinstance(parameter, click.Option):
                section = self.advanced.get(str(parameter.name), _EVERYDAY)
                rows[section].append(row)
        for section, options in rows.items():
            title = section
            if section != _EVERYDAY:
                title = f"Advanced: {section.lower()}"
            if options:
                with formatter.section(title):
                    formatter.write_dl(options)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Example"):
            formatter.write(f"{' ' * formatter.current_indent}{self._example}\n")


def command(
    name: str,
    example: str,
    *,
    advanced: Mapping[str, str] | None = None,
    rewrite: Callable[[Sequence[str]], list[str]] = list,
) -> Callable[[Any], Any]:
    return click.command(
        name, cls=Command, example=example, advanced=advanced or {}, rewrite=rewrite
    )


def advanced_settings() -> dict[str, str]:
    """Return the sections of the settings that are not for every day."""
    sections: dict[str, str] = {}
    for name, setting in SETTINGS.items():
        if setting.group and not setting.everyday:
            sections[name] = setting.group
    return sections
