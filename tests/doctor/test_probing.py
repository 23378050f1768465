"""How many items a judge is asked, and what becomes of its answers."""

from collections.abc import Sequence

import pytest

from localjudge.doctor.probes import at_most_probes, chosen_probes, probe_answers, probes
from localjudge.engine.scripted import ScriptedEngine
from localjudge.judge import profile as prompts
from localjudge.judge.wording import PromptWriter
from localjudge.progress import Silence
from localjudge.types import VerdictRequest
from tests.doctor.conftest import users_text

JUDGE = PromptWriter(prompts.load_profile("instruct"))
EVERY = len(at_most_probes(None).tasks)


class Slow(ScriptedEngine):
    """Takes 100 tokens for each request, however they are asked."""

    def distinct_tokens(self, requests: Sequence[VerdictRequest]) -> int:
        """As if nothing was shared."""
        return 100 * len(requests)


@pytest.mark.parametrize(("wanted", "taken"), [(0, 0), (1, 1), (12, 1), (13, 2), (96, 8), (384, 32), (10**9, 32)])
def test_a_number_of_items_is_asked_in_whole_passages(wanted: int, taken: int) -> None:
    choice = chosen_probes(wanted, JUDGE, ScriptedEngine({}), 60.0)
    assert (choice.passages, choice.why) == (taken, "as asked for" if taken < 32 else "")


def test_nothing_is_asked_twice() -> None:
    """384 items, and 8 passages x 4 statements x (leading, last, swapped, twice): 384 + 128."""
    tasks = at_most_probes(None).tasks
    assert len(tasks) == len(set(tasks)) == EVERY == 384 + 128
    assert at_most_probes(0).tasks == []


@pytest.mark.parametrize(
    ("seconds_each", "taken"), [(0.0, 32), (300 / 512, 32), (1.0, 18), (2.0, 9), (10.0, 8), (600.0, 8)]
)
def test_a_slow_judge_is_asked_what_takes_five_minutes_and_never_less_than_eight_passages(
    seconds_each: float, taken: int
) -> None:
    """512 questions of 1 s: 32 x 300 / 512 = 18.75 passages; of 2 s: 9.4; of 10 s: 1.9, so the eight that it takes."""
    choice = chosen_probes(None, JUDGE, Slow({}), seconds_each / 100)
    assert choice.passages == taken
    assert (choice.why == "") == (taken == 32)


def test_answers_stand_beside_their_items_and_what_has_none_is_told_apart() -> None:
    """It does not answer about the sourdough: its 12 items, and no arrangement of other passages."""
    engine = ScriptedEngine(lambda request: "too long" if "rye flour" in users_text(request) else 0.25)
    found = probe_answers(JUDGE, engine, Silence(), at_most_probes(None))
    assert [item.probe for item in found.items] == probes()
    assert {item.probe.passage for item in found.items if item.p_yes is None} == {"sourdough"}
    assert len(found.masses) == 384 - 12
    assert all(one.p_before == one.p_after == 0.25 for one in found.arrangements)
    assert len(engine.asked) == EVERY
