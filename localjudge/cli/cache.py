"""`localjudge cache`: whether answers are kept for later runs, and where."""

import click

from localjudge.cli.option_groups import GroupedCommand
from localjudge.printable import printable


@click.command("cache", cls=GroupedCommand, example="localjudge cache on")
@click.argument("turn", required=False, metavar="[on|off]", type=click.Choice(["on", "off"]))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(turn: str | None, as_json: bool) -> None:
    """Show, turn on or turn off the answer cache.

    With the cache on, every run takes the answers that it finds there and adds those that its judge gives. It is off
    until it is turned on, and `off` deletes it. Only you can open it; it holds answers, with the reasons that a model
    gave, and hashes of what was asked.
    """
    from localjudge.record import answer_cache

    if turn == "on":
        answer_cache.turn_on()
    elif turn == "off":
        answer_cache.turn_off()
    state = answer_cache.state()
    if as_json:
        click.echo(state.model_dump_json(indent=2))
    elif state.on:
        click.echo(
            f"the cache is on: {state.answers:,} answers, {state.size / 2**20:.1f} MiB, in {printable(state.folder)}"
        )
    else:
        click.echo("the cache is off: `localjudge cache on` keeps answers for later runs")
