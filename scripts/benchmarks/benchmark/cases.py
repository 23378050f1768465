"""Cases: two supported and two unsupported statements about a bundled passage of four sentences.

    short    the passage
    long     the passage after 15 others

Both have the same statements, so that only the context length differs. Every installation contains
them; `localjudge/judge/probes/README.md` describes their origin.
"""

from typing import NamedTuple

from localjudge.judge import probes as probe_set
from localjudge.types import Attribution

CONTEXTS = {"short": 0, "long": 15}
"""Number of other passages before the relevant one."""
MOST = len(probe_set.passages()) - 1
"""Number of samples; the last passage is for warming up."""


class Case(NamedTuple):
    """One sample, named after its passage: statements with the same question and contexts."""

    sample: str
    tasks: tuple[Attribution, ...]


def make_case(place: int, context: str) -> Case:
    """Return the sample about this passage, with contexts of this length."""
    passages = probe_set.passages()
    about = passages[place]
    others = [
        passages[(place + step) % len(passages)].whole for step in range(1, CONTEXTS[context] + 1)
    ]
    tasks = [
        probe.task.model_copy(update={"contexts": (*others, about.whole)})
        for probe in probe_set.probes()
        if probe.passage == about.title and isinstance(probe.task, Attribution)
    ]
    return Case(about.title, tuple(tasks[::2]))


def warm_up() -> Case:
    """Return one unmeasured statement that evaluates the instructions."""
    case = make_case(MOST, "short")
    return case._replace(tasks=case.tasks[:1])
