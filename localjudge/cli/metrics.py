"""`localjudge metrics`: which metrics there are."""

import json

import click

from localjudge.cli.option_groups import GroupedCommand


@click.command("metrics", cls=GroupedCommand, example="localjudge metrics")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def command(as_json: bool) -> None:
    """List all metrics: what each asks, the columns that it needs, its verdicts for a sample, and its source."""
    from localjudge.metrics.description import described
    from localjudge.report.metric_list import metric_list
    from localjudge.report.terminal import put, show

    metrics = described()
    if as_json:
        listed = [{**one._asdict(), "about": one.about._asdict()} for one in metrics]
        put(f"{json.dumps(listed, indent=2)}\n")
    else:
        show(metric_list(metrics))
