"""`localjudge cache`: whether answers, and states of prompts, are kept for later runs, and where."""

import json
import math

import click

from localjudge.cli.option_groups import GroupedCommand
from localjudge.errors import UsageError
from localjudge.printable import printable

_GIB = 1 << 30


@click.command("cache", cls=GroupedCommand, example="localjudge cache on")
@click.argument("turn", required=False, metavar="[on|off]", type=click.Choice(["on", "off"]))
@click.option(
    "--states",
    type=click.FloatRange(min=0.01, max=1 << 20),
    metavar="GIB",
    help="With on: also keep what models make of contexts, so many GiB of it, so that another metric or another "
    "wording is judged without evaluating them again.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(turn: str | None, states: float | None, as_json: bool) -> None:
    """Keep the answers of all runs in one place, so that none is asked for twice: say whether, or turn it on or off.

    With the cache on, every run takes the answers that it finds there and adds those that its judge gives. It is off
    until it is turned on, and `off` deletes it. Only you can open it; it holds answers, with the reasons that a model
    gave, and hashes of what was asked; with --states, from which contexts could be worked out, states of models.
    """
    from localjudge.engine import prefix_states
    from localjudge.record import answer_cache

    if states is not None and math.isnan(states):
        raise UsageError("--states is not a number", hint="give GiB: localjudge cache on --states 8")
    if states is not None and turn != "on":
        raise UsageError(
            "--states says how much is kept, and nothing is turned on", hint="localjudge cache on --states 8"
        )
    if turn == "on":
        answer_cache.turn_on()
        if states is not None:
            prefix_states.turn_on(int(states * _GIB))
    elif turn == "off":
        answer_cache.turn_off()
        prefix_states.turn_off()
    found, kept = answer_cache.state(), prefix_states.state()
    if as_json:
        click.echo(json.dumps({**found.model_dump(), "prefix_states": kept.model_dump()}, indent=2))
        return
    if found.on:
        click.echo(
            f"the cache is on: {found.answers:,} answers, {found.size / 2**20:.1f} MiB, in {printable(found.folder)}"
        )
    else:
        click.echo("the cache is off: `localjudge cache on` keeps answers for later runs")
    if kept.on:
        click.echo(
            f"states of prompts are kept: {kept.states:,}, {kept.size / 2**20:,.1f} MiB of at most "
            f"{kept.most / _GIB:g} GiB, in {printable(kept.folder)}"
        )
