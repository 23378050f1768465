"""Lets every way of asking judge every sample, in turns, and puts what they cost side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from localjudge import model_registry
from localjudge.engine.llamacpp import LlamaCppEngine
from localjudge.engine.settings import EngineSettings
from localjudge.judge import chat, prompts
from localjudge.judge.judge import PromptJudge
from localjudge.types import Piece

from .cases import Case, bundled
from .cost import Cost
from .ours import Ours
from .peers import ByOutlines, Joint, OneByOne, Prefill

_THRESHOLD = 0.5


class Setup(NamedTuple):
    """What is the same for every way of asking."""

    model: Path
    n_ctx: int
    threads: int

    def engine(self, *, batching: bool) -> LlamaCppEngine:
        """The engine on the model."""
        settings = EngineSettings(n_ctx=self.n_ctx, threads=self.threads, batching=batching)
        return LlamaCppEngine(model_registry.find(str(self.model)), settings)

    def judges(self, engine: LlamaCppEngine) -> "Judges":
        """The ways of wording, in the model's chat template."""
        bos, eos = engine.special_texts
        ends = chat.chat_ends(engine.chat_template, bos=bos, eos=eos) if engine.chat_template else None
        profile = prompts.load("instruct")
        return Judges(
            none=PromptJudge(profile, ends),
            before=PromptJudge(profile, ends, reasons="before"),
            joint=PromptJudge(profile, ends, protocol="joint"),
        )


class Judges(NamedTuple):
    """Ways of wording the same tasks."""

    none: PromptJudge
    before: PromptJudge
    joint: PromptJudge


def measure(setup: Setup, cases: Sequence[Case]) -> dict[str, Any]:
    """Rows of costs and the figures that follow from them, as JSON values."""
    ours, others = _in_turns(setup, cases)
    batched = _at_once(setup, cases)
    plain, reasoned = ours[0].cost, ours[1].cost
    prefill, joint = others[0], others[1]
    return {
        "samples": len(cases),
        "statements": sum(len(case.tasks) for case in cases),
        "rows": [
            cost.row(len(cases), plain)
            for cost in (*(way.cost for way in ours), *others, *(way.cost for way in batched.values()))
        ],
        "figures": {
            "(a) / ours": joint.times(plain),
            "(a) / ours with reasons": joint.times(reasoned),
            "ours / raw prefill": plain.times(prefill),
            "isolated / batching": batched["isolated"].cost.times(batched["batching"].cost),
            "isolated / batching, reasons": batched["isolated, reasons"].cost.times(batched["batching, reasons"].cost),
            "evaluated / unique": batched["isolated"].cost.evaluated / batched["isolated"].unique,
            "evaluated / unique, reasons": (
                batched["isolated, reasons"].cost.evaluated / batched["isolated, reasons"].unique
            ),
            "time outside llama.cpp": 1 - ours[0].seconds_inside / plain.seconds,
            "time outside llama.cpp, reasons": 1 - ours[1].seconds_inside / reasoned.seconds,
            "batching": _apart(batched["isolated"], batched["batching"]),
            "batching, reasons": _apart(batched["isolated, reasons"], batched["batching, reasons"]),
        },
    }


def _in_turns(setup: Setup, cases: Sequence[Case]) -> tuple[list[Ours], list[Cost]]:
    """Every way judges a sample before any judges the next, so that a busy machine slows them alike.

    Each has a model of its own and begins with its instructions evaluated.
    """
    engines = [setup.engine(batching=False) for _ in Judges._fields]
    judges = setup.judges(engines[0])
    ours = [
        Ours("ours", engines[0], judges.none),
        Ours("ours, a reason before each verdict", engines[1], judges.before),
        Ours("ours, one answer for all statements", engines[2], judges.joint),
    ]
    like = {"n_ctx": setup.n_ctx, "threads": setup.threads}
    prefill = Prefill("raw prefill of as many tokens as ours", str(setup.model), **like)
    joint = Joint("(a) a chat completion for a sample", str(setup.model), **like)
    outlines = ByOutlines("(b) the same through Outlines", str(setup.model), **like)
    one_by_one = OneByOne("(c) a chat completion for a statement", str(setup.model), **like)
    for way in (*ours, joint, one_by_one):
        way.warm_up(bundled()[0])
    for case in cases:
        prefill.evaluate(_prompt_text(judges.none, case), ours[0].ask([case]))
        for way in ours[1:]:
            way.ask([case])
        for peer in (joint, outlines, one_by_one):
            peer.ask(case)
    for closing in (*engines, prefill, joint, outlines, one_by_one):
        closing.close()
    return ours, [prefill.cost, joint.cost, outlines.cost, one_by_one.cost]


def _at_once(setup: Setup, cases: Sequence[Case]) -> dict[str, Ours]:
    """All samples in one call, isolated and batching."""
    ways = {}
    for name, batching in (("isolated", False), ("batching", True)):
        engine = setup.engine(batching=batching)
        judges = setup.judges(engine)
        for suffix, judge in (("", judges.none), (", reasons", judges.before)):
            ways[name + suffix] = Ours(f"ours, all samples at once, {name}{suffix}", engine, judge)
            ways[name + suffix].ask(cases)
        engine.close()
    return ways


def _apart(isolated: Ours, batched: Ours) -> dict[str, float]:
    """How far batching moves verdicts: share of flipped labels, and the largest difference of a probability."""
    one, other = np.array(isolated.probabilities), np.array(batched.probabilities)
    flipped = (one >= _THRESHOLD) != (other >= _THRESHOLD)
    return {"flipped": float(flipped.mean()), "largest_difference": float(np.abs(one - other).max())}


def _prompt_text(judge: PromptJudge, case: Case) -> str:
    """The text of the sample's prompts, each shared node once."""
    nodes: dict[tuple[Piece, ...], None] = {}
    for request in judge.requests(case.tasks):
        nodes.update(dict.fromkeys(request.path))
    return "".join(piece.text for node in nodes for piece in node)
