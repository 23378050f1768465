"""`localjudge metrics`: which metrics there are."""

import json

import click


@click.command("metrics")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def command(as_json: bool) -> None:
    """List all metrics: what each asks, the columns that it needs, its verdicts for a sample, and its source."""
    from localjudge.metrics.description import described
    from localjudge.report.metric_list import metric_list
    from localjudge.report.terminal import terminal

    metrics = described()
    if as_json:
        click.echo(json.dumps([{**one._asdict(), "about": one.about._asdict()} for one in metrics], indent=2))
    else:
        terminal().print(metric_list(metrics))
