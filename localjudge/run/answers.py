"""From questions to answers: the one loop over an engine.

How many are going to be asked is told to the progress by the caller, who knows the whole work.
"""

from collections.abc import Callable, Mapping, Sequence

from localjudge.engine.protocol import Engine
from localjudge.run.progress import Progress
from localjudge.types import Answer, NoAnswer, VerdictRequest

Answers = Mapping[str, Answer | NoAnswer]
"""Answers by the keys of their questions."""
OnAnswer = Callable[[str, Answer | NoAnswer], object]


def ask(
    engine: Engine, requests: Mapping[str, VerdictRequest], progress: Progress, *, on_answer: OnAnswer | None = None
) -> dict[str, Answer | NoAnswer]:
    """Ask an engine for the answer to each request, known by its key; `on_answer` gets each the moment it is there."""
    keys = list(requests)
    answers: dict[str, Answer | NoAnswer] = {}
    for index, answer in engine.answers(list(requests.values())):
        answers[keys[index]] = answer
        if on_answer is not None:
            on_answer(keys[index], answer)
        progress.advance()
    return answers


def answers_in_order(engine: Engine, requests: Sequence[VerdictRequest], progress: Progress) -> list[Answer | NoAnswer]:
    """One answer for each request, in their order."""
    answers = ask(engine, {str(place): request for place, request in enumerate(requests)}, progress)
    return [answers[str(place)] for place in range(len(requests))]
