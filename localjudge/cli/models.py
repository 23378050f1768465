"""`localjudge models`: which models there are on this machine."""

import click

from localjudge.cli.option_groups import GroupedCommand


@click.command("models", cls=GroupedCommand, example="localjudge models ~/models")
@click.argument("folders", nargs=-1, metavar="[FOLDER]...")
@click.option("--verbose", is_flag=True, help="Also what cannot judge or was skipped, and why.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(folders: tuple[str, ...], verbose: bool, as_json: bool) -> None:
    """List the models on this machine: registered ones, those that other programs keep, and those in each FOLDER.

    Ollama, LM Studio, the caches of Hugging Face and llama.cpp, GPT4All, Jan and installed Python packages are looked
    through, where their own environment variables say. A name is what --judge takes. Only headers of files are read,
    and no network is used: that a model is listed does not say that it judges well. That is asked of localjudge doctor.
    """
    from localjudge.doctor.inventory import inventory
    from localjudge.report.model_list import model_list
    from localjudge.report.terminal import put

    found = inventory(folders)
    if as_json:
        put(f"{found.model_dump_json(indent=2)}\n")
    else:
        put(model_list(found, verbose=verbose))
