"""The models on this machine, two lines each: what a judge is named by, and what is known of the file.

 ollama:qwen3:8b
   4.9 GiB, Q4_K_M, context 40,960, chat template, takes 6.1 GiB, sha256 a3de86cd1c13

A name has a line of its own, unbroken, because it is there to be copied.
"""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from localjudge.doctor.inventory import Inventory, ListedModel
from localjudge.engine.hardware import readable
from localjudge.report.terminal import safe, safe_text

_DIGITS = 12


def model_list(found: Inventory, *, verbose: bool) -> RenderableType:
    """The models that can judge; those that cannot and what was skipped, counted, or with their reasons."""
    judges = [model for model in found.models if model.cannot_judge is None]
    lines: list[RenderableType] = [line for model in judges for line in _block(model.name, _facts(model), model.fits)]
    if verbose:
        for name, reason in _left_out(found):
            lines += _block(name, reason, False)
    for line in _conclusion(found, len(judges), verbose=verbose):
        lines.append(Padding(safe_text(line, style="dim"), (0, 1)))
    return Group(*lines)


def _block(name: str, facts: str, usable: bool | None) -> Iterator[RenderableType]:
    style = "dim" if usable is False else "bold"
    yield Text(f" {safe(name)}", style=style, no_wrap=True, overflow="ignore")
    yield Padding(safe_text(facts, style="dim" if usable is False else ""), (0, 1, 0, 3))


def _facts(model: ListedModel) -> str:
    too_much = ", more than is free" if model.fits is False else ""
    facts = (
        readable(model.size),
        model.quantisation or "",
        f"context {model.context:,}",
        "chat template" if model.chat_template else "no chat template",
        f"takes {readable(model.needed_bytes or 0)}{too_much}",
        f"sha256 {model.sha256[:_DIGITS]}" if model.sha256 else "",
    )
    return ", ".join(fact for fact in facts if fact)


def _left_out(found: Inventory) -> Iterator[tuple[str, str]]:
    yield from ((model.name, model.cannot_judge) for model in found.models if model.cannot_judge)
    yield from ((entry.where, entry.reason) for entry in found.skipped)


def _conclusion(found: Inventory, judges: int, *, verbose: bool) -> Iterator[str]:
    free = "" if found.free_bytes is None else f"; {readable(found.free_bytes)} of memory are free"
    yield f"{judges:,} model{'s' * (judges != 1)} that can be loaded as a judge{free}"
    left_out = sum(1 for _ in _left_out(found))
    if left_out:
        advice = "" if verbose else ": --verbose says why"
        yield f"{left_out:,} more {'was' if left_out == 1 else 'were'} found and cannot be used{advice}"
