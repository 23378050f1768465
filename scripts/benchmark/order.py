"""What a process is told that judges one sample in one way, and what it reports."""

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from .cases import Case, case


class Wording(NamedTuple):
    """How localjudge would ask the statements of a case: whole prompts, inside the model's chat template."""

    prompts: list[str]
    tokens: int
    """Of the longest prompt with its answer."""


@dataclass(frozen=True)
class Order:
    """One sample of one way, on one model."""

    way: str
    judge: str
    """What `--judge` takes."""
    path: str
    threads: int
    n_ctx: int | None = None
    gpu_layers: int = 0
    place: int = 0
    context: str = "short"
    warm_up: list[str] = field(default_factory=list)
    """The prompt that has the instructions evaluated."""
    prompts: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    """The legal ones; none if they cannot be listed."""
    tokens: int = 0
    """How many ours evaluated: for raw prefill."""
    server: str = ""
    """The llama-server to start."""

    @property
    def case(self) -> Case:
        """What is judged."""
        return case(self.place, self.context)


class Work(NamedTuple):
    """What came of a sample, in numbers of verdicts and tokens. A token that was generated was evaluated, too."""

    verdicts: int
    evaluated: int
    generated: int


class Way(Protocol):
    """A way of asking, ready: its model is loaded and its instructions are evaluated."""

    def ask(self) -> Work:
        """Judge the sample. This is what is timed."""
        ...

    def close(self) -> None:
        """Free the model."""
        ...


def gbnf(answers: list[str]) -> str:
    """The legal answers as a grammar of llama.cpp. Raises ValueError if there are none to list."""
    if not answers:
        raise ValueError("this judge's answers cannot be listed, so a completion cannot be held to them")
    return "root ::= " + " | ".join(f'"{_escaped(answer)}"' for answer in answers)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
