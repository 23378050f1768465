"""Puts the probe set to a judge: as many passages as its speed allows, and what came of it as plain rows."""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from localjudge.doctor.probe_set import PER_PASSAGE, Probe, Rearranged, passages, probes, rearranged
from localjudge.engine.protocol import Engine
from localjudge.judge.prompt_writer import PromptWriter
from localjudge.progress import Progress
from localjudge.run.answers import answers_in_order
from localjudge.types import Answer, Task

FEWEST_PASSAGES = 8
"""One of each domain. Intervals that are clustered by fewer passages promise more than they keep."""
PROBE_SECONDS = 300
"""So long the items may take, by the speed of the plain cases; a user may name their number instead."""


class ProbeChoice(NamedTuple):
    """The first so many passages, and why not all; "" if they are all."""

    passages: int
    why: str

    @property
    def tasks(self) -> list[Task]:
        """All that is asked about them, nothing twice."""
        items = (probe.task for probe in probes(self.passages))
        arranged = (task for one in rearranged(self.passages) for task in (one.before, one.after))
        return list(dict.fromkeys([*items, *arranged]))


class JudgedProbe(NamedTuple):
    """An item and the probability of label 1; None where the judge gave no answer."""

    probe: Probe
    p_yes: float | None


class JudgedArrangement(NamedTuple):
    """A statement in two arrangements, with the probability of label 1 in each."""

    one: Rearranged
    p_before: float
    p_after: float


class ProbeAnswers(NamedTuple):
    """What a judge said. Arrangements that lack an answer are left out; `masses` are of the items' answers."""

    choice: ProbeChoice
    items: tuple[JudgedProbe, ...]
    arrangements: tuple[JudgedArrangement, ...]
    masses: tuple[float, ...]


NO_PROBES = ProbeChoice(0, "")


def at_most_probes(wanted: int | None) -> ProbeChoice:
    """So many items as are wanted, in whole passages; all if None."""
    every = len(passages())
    count = every if wanted is None else min(ceil(wanted / PER_PASSAGE), every)
    return ProbeChoice(count, "as asked for" if count < every else "")


def chosen_probes(wanted: int | None, judge: PromptWriter, engine: Engine, seconds_per_token: float) -> ProbeChoice:
    """The same, but if None, as many as take about five minutes.

    Which they are depends on their number alone, and no verdict depends on which others are asked.
    """
    most = at_most_probes(wanted)
    if wanted is not None:
        return most
    seconds = engine.distinct_tokens([judge.request(task) for task in most.tasks]) * seconds_per_token
    if seconds <= PROBE_SECONDS:
        return most
    why = f"because all would take this judge about {seconds / 60:.0f} minutes (--probes all)"
    return ProbeChoice(max(FEWEST_PASSAGES, int(most.passages * PROBE_SECONDS / seconds)), why)


def probe_answers(judge: PromptWriter, engine: Engine, progress: Progress, choice: ProbeChoice) -> ProbeAnswers:
    """Ask about the chosen passages, at least one."""
    tasks = choice.tasks
    requests = [judge.request(task) for task in tasks]
    answers = dict(zip(tasks, answers_in_order(engine, requests, progress), strict=True))
    given = {task: answer for task, answer in answers.items() if isinstance(answer, Answer)}
    items = tuple(
        JudgedProbe(probe, given[probe.task].p_yes if probe.task in given else None)
        for probe in probes(choice.passages)
    )
    arrangements = tuple(
        JudgedArrangement(one, given[one.before].p_yes, given[one.after].p_yes)
        for one in rearranged(choice.passages)
        if one.before in given and one.after in given
    )
    return ProbeAnswers(choice, items, arrangements, _masses(given, items))


def _masses(given: dict[Task, Answer], items: Sequence[JudgedProbe]) -> tuple[float, ...]:
    return tuple(given[item.probe.task].legal_mass for item in items if item.probe.task in given)
