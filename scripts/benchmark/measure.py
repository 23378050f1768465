"""Lets every way of asking judge every sample, in turns, and puts what they cost side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from localjudge import model_registry
from localjudge.engine.engine_settings import EngineSettings
from localjudge.engine.llamacpp.engine import LlamaCppEngine
from localjudge.judge import prompts
from localjudge.judge.prompt_writer import PromptWriter
from localjudge.types import Piece

from .cases import Case, bundled
from .cost import Cost
from .ours import Ours
from .peers import ByOutlines, Joint, OneByOne, Prefill


class Setup(NamedTuple):
    """What is the same for every way of asking."""

    model: Path
    n_ctx: int
    threads: int

    def engine(self) -> LlamaCppEngine:
        """The engine on the model."""
        settings = EngineSettings(n_ctx=self.n_ctx, threads=self.threads)
        return LlamaCppEngine(model_registry.find(str(self.model)), settings)

    def judges(self, engine: LlamaCppEngine) -> "Judges":
        """The ways of wording, in the model's chat template."""
        profile, ends = prompts.load("instruct"), engine.chat_ends
        return Judges(
            none=PromptWriter(profile, ends),
            before=PromptWriter(profile, ends, reasons="before"),
            joint=PromptWriter(profile, ends, protocol="joint"),
        )


class Judges(NamedTuple):
    """Ways of wording the same tasks."""

    none: PromptWriter
    before: PromptWriter
    joint: PromptWriter


def measure(setup: Setup, cases: Sequence[Case]) -> dict[str, Any]:
    """Rows of costs and the figures that follow from them, for each source and for all samples at once."""
    turns = _in_turns(setup, cases)
    by_source = {
        source: [case for case in cases if case.source == source] for source in dict.fromkeys(c.source for c in cases)
    }
    return {
        "in_turns": {source: _compared(turns, source, len(found)) for source, found in by_source.items()},
        "at_once": {source: _at_once(setup, found, turns.joint.costs[source]) for source, found in by_source.items()},
    }


class _Turns(NamedTuple):
    """Every way of asking, after its turns."""

    ours: Ours
    ours_reasoned: Ours
    ours_joint: Ours
    prefill: Prefill
    joint: Joint
    outlines: ByOutlines
    one_by_one: OneByOne


def _in_turns(setup: Setup, cases: Sequence[Case]) -> _Turns:
    """Every way judges a sample before any judges the next, so that a busy machine slows them alike.

    Each has a model of its own and begins with its instructions evaluated.
    """
    engines = [setup.engine() for _ in Judges._fields]
    judges = setup.judges(engines[0])
    like = {"n_ctx": setup.n_ctx, "threads": setup.threads}
    turns = _Turns(
        Ours("ours", engines[0], judges.none),
        Ours("ours, a reason before each verdict", engines[1], judges.before),
        Ours("ours, one answer for all statements", engines[2], judges.joint),
        Prefill("raw prefill of as many tokens as ours", str(setup.model), **like),
        Joint("(a) a chat completion for a sample", str(setup.model), **like),
        ByOutlines("(b) the same through Outlines", str(setup.model), **like),
        OneByOne("(c) a chat completion for a statement", str(setup.model), **like),
    )
    ours, peers = turns[:3], turns[4:]
    for warm in (*ours, turns.joint, turns.one_by_one):
        warm.warm_up(bundled()[0])
    for case in cases:
        evaluated = turns.ours.ask([case], case.source)
        turns.prefill.evaluate(_prompt_text(judges.none, case), evaluated, case.source)
        for our in ours[1:]:
            our.ask([case], case.source)
        for peer in peers:
            peer.ask(case)
    for engine in engines:
        engine.close()
    for way in (turns.prefill, *peers):
        way.close()
    return turns


def _compared(turns: _Turns, source: str, samples: int) -> dict[str, Any]:
    ours, reasoned, joint = (way.costs[source] for way in (turns.ours, turns.ours_reasoned, turns.joint))
    return {
        "samples": samples,
        "rows": [way.costs[source].row(way.name, samples, ours) for way in turns],
        "figures": {
            "(a) / ours": joint.times(ours),
            "(a) / ours with reasons": joint.times(reasoned),
            "ours / raw prefill": ours.times(turns.prefill.costs[source]),
            "time outside llama.cpp": 1 - ours.seconds_inside / ours.seconds,
            "time outside llama.cpp, reasons": 1 - reasoned.seconds_inside / reasoned.seconds,
        },
    }


def _at_once(setup: Setup, cases: Sequence[Case], joint: Cost) -> dict[str, Any]:
    """All samples of a source in one call, from a cold start."""
    engine = setup.engine()
    judges = setup.judges(engine)
    ways = [Ours("ours", engine, judges.none), Ours("ours, reasons", engine, judges.before)]
    for way in ways:
        way.ask(cases, "all")
    engine.close()
    plain, reasoned = (way.costs["all"] for way in ways)
    return {
        "samples": len(cases),
        "rows": [way.costs["all"].row(way.name, len(cases), plain) for way in ways],
        "figures": {
            "evaluated / unique": plain.evaluated / plain.unique,
            "evaluated / unique, reasons": reasoned.evaluated / reasoned.unique,
            "(a) / ours": joint.times(plain),
            "(a) / ours with reasons": joint.times(reasoned),
        },
    }


def _prompt_text(judge: PromptWriter, case: Case) -> str:
    """The text of the sample's prompts, each shared node once."""
    nodes: dict[tuple[Piece, ...], None] = {}
    for request in judge.requests(case.tasks):
        nodes.update(dict.fromkeys(request.path))
    return "".join(piece.text for node in nodes for piece in node)
