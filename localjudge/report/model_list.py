"""The models on this machine, two lines each: what a judge is named by, and what is known of the file.

 ollama:qwen3:8b
   4.9 GiB, Q4_K_M, context 40,960, chat template, takes 6.1 GiB, sha256 a3de86cd1c13

Plain lines, which no table cuts or folds: a name is there to be copied.
"""

from collections.abc import Iterator

from localjudge.doctor.inventory import Inventory, ListedModel
from localjudge.engine.hardware import readable
from localjudge.report.terminal import safe

_DIGITS = 12


def model_list(found: Inventory, *, verbose: bool) -> str:
    """The models that can judge; those that cannot and what was skipped, counted, or with their reasons."""
    judges = [(model.name, _facts(model)) for model in found.models if model.cannot_judge is None]
    left_out = [(model.name, model.cannot_judge) for model in found.models if model.cannot_judge is not None]
    left_out += [(entry.where, entry.reason) for entry in found.skipped]
    blocks = [*judges, *left_out] if verbose else judges
    lines = [line for name, said in blocks for line in (f" {safe(name)}", f"   {safe(said)}")]
    lines += [f" {line}" for line in _conclusion(len(judges), len(left_out), found.free_bytes, verbose=verbose)]
    return "".join(f"{line}\n" for line in lines)


def _facts(model: ListedModel) -> str:
    facts = (
        readable(model.size),
        model.quantisation,
        f"context {model.context:,}",
        "chat template" if model.chat_template else "no chat template",
        f"takes {readable(model.needed_bytes or 0)}{', more than is free' if model.fits is False else ''}",
        model.sha256 and f"sha256 {model.sha256[:_DIGITS]}",
    )
    return ", ".join(fact for fact in facts if fact)


def _conclusion(judges: int, left_out: int, free: int | None, *, verbose: bool) -> Iterator[str]:
    room = "" if free is None else f"; {readable(free)} of memory are free"
    yield f"{judges:,} model{'s' * (judges != 1)} that can be loaded as a judge{room}"
    if left_out:
        advice = "" if verbose else ": --verbose says why"
        yield f"{left_out:,} more {'was' if left_out == 1 else 'were'} found and cannot be used{advice}"
