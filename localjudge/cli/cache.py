"""`localjudge cache`: whether answers are kept for later runs, and where."""

import click

from localjudge.cli.option_groups import GroupedCommand
from localjudge.printable import printable


@click.command("cache", cls=GroupedCommand, example="localjudge cache on")
@click.argument("turn", required=False, metavar="[on|off]", type=click.Choice(["on", "off"]))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(turn: str | None, as_json: bool) -> None:
    """Keep the answers of all runs in one place, so that none is asked for twice: say whether, or turn it on or off.

    With the cache on, every run takes the answers that it finds there and adds those that its judge gives. It is off
    until it is turned on, and `off` deletes it. Only you can open it; it holds answers, with the reasons that a model
    gave, and hashes of what was asked.
    """
    from localjudge.record import answer_cache

    if turn == "on":
        answer_cache.turn_on()
    elif turn == "off":
        answer_cache.turn_off()
    found = answer_cache.state()
    if as_json:
        click.echo(found.model_dump_json(indent=2))
    elif found.on:
        click.echo(
            f"the cache is on: {found.answers:,} answers, {found.size / 2**20:.1f} MiB, in {printable(found.folder)}"
        )
    else:
        click.echo("the cache is off: `localjudge cache on` keeps answers for later runs")
