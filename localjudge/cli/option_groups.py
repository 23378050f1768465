"""The help of a command whose options are many: in groups, by what they are about, with an example at the end.

    Data:
      --map FIELD=COLUMN  Column of yours to take for ...
    Judge:
      --judge NAME|PATH   Registered name or GGUF file.

A command with few options lists them as one group. An option that no group names is listed last, under `Options`.
"""

from typing import Any

import click

_GROUPS = {
    "Data": (
        "demo",
        "suite",
        "no_suite",
        "limit",
        "sample",
        "seed",
        "shard",
        "mapping",
        "context_separator",
        "rows",
        "skip_bad_rows",
        "cluster_by",
        "language",
        "segmenter",
        "abbreviations",
    ),
    "Judge": (
        "judge",
        "profile",
        "prompts",
        "reasons",
        "protocol",
        "reuse",
        "n_ctx",
        "threads",
        "gpu_layers",
        "allow_host",
    ),
    "Cluster": ("ray", "ray_workers"),
    "Scoring": ("metrics", "criteria", "threshold", "calibration", "min_legal_mass", "max_failed"),
    "Evidence": ("baseline", "gates", "undecided", "junit", "markdown", "with_texts", "as_page"),
    "Output": ("out", "dry_run", "verbose", "quiet", "as_json"),
}


_FEW = 10


class GroupedCommand(click.Command):
    """A command whose help lists its options in groups, then an example."""

    def __init__(self, *arguments: Any, example: str, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self._example = example

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each group that the command has options of."""
        options = (parameter for parameter in self.get_params(ctx) if isinstance(parameter, click.Option))
        left = {option.name: record for option in options if (record := option.get_help_record(ctx)) is not None}
        for group, names in _GROUPS.items() if len(left) > _FEW else ():
            if records := [left.pop(name) for name in names if name in left]:
                with formatter.section(group):
                    formatter.write_dl(records)
        if left:
            with formatter.section("Options"):
                formatter.write_dl(list(left.values()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example, each command on a line of its own that can be copied."""
        with formatter.section("Example"):
            for line in self._example.splitlines():
                formatter.write(f"{' ' * formatter.current_indent}{line}\n")
