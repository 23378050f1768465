"""Asks an engine and gives the answers in the order of the requests, telling the progress of each.

How many are going to be asked is told by the caller, who knows the whole work.
"""

from collections.abc import Sequence

from localjudge.engine.protocol import Engine
from localjudge.run.progress import Progress
from localjudge.types import Answer, NoAnswer, VerdictRequest


def answers_in_order(engine: Engine, requests: Sequence[VerdictRequest], progress: Progress) -> list[Answer | NoAnswer]:
    """One answer for each request."""
    found: dict[int, Answer | NoAnswer] = {}
    for place, answer in engine.answers(requests):
        found[place] = answer
        progress.advance()
    return [found[place] for place in range(len(requests))]
