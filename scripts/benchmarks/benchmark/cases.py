"""What is judged: four statements about a bundled passage of four sentences, two that hold and two that do not.

    short    the passage
    long     the passage behind 15 others

The statements are the same in both, so that only the length of the context differs. Any installation has them:
`localjudge/doctor/probes/README.md` says how they were written.
"""

from typing import NamedTuple

from localjudge.doctor import probes as probe_set
from localjudge.types import Attribution

CONTEXTS = {"short": 0, "long": 15}
"""How many other passages stand before the one that is asked about."""
MOST = len(probe_set.passages()) - 1
"""Samples that there are; the last passage is for warming up."""


class Case(NamedTuple):
    """One sample, named after its passage: statements that share a question and contexts."""

    sample: str
    tasks: tuple[Attribution, ...]


def make_case(place: int, context: str) -> Case:
    """The sample about the passage at this place, with contexts of this length."""
    passages = probe_set.passages()
    about = passages[place]
    others = [passages[(place + step) % len(passages)].whole for step in range(1, CONTEXTS[context] + 1)]
    tasks = [
        probe.task.model_copy(update={"contexts": (*others, about.whole)})
        for probe in probe_set.probes()
        if probe.passage == about.title and isinstance(probe.task, Attribution)
    ]
    return Case(about.title, tuple(tasks[::2]))


def warm_up() -> Case:
    """One statement of a sample that is not measured: it has the instructions evaluated."""
    case = make_case(MOST, "short")
    return case._replace(tasks=case.tasks[:1])
