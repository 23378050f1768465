"""Ask an engine: the only loop over its answers."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from localjudge.engine.protocol import Engine
from localjudge.progress import Progress
from localjudge.types import Answer, NoAnswer, VerdictRequest

_DIGEST_BYTES = 16

_Key = TypeVar("_Key")


def ask(
    engine: Engine,
    requests: Mapping[_Key, VerdictRequest],
    progress: Progress,
    on_answer: Callable[[_Key, Answer | NoAnswer], object] = lambda _key, _answer: None,
) -> dict[_Key, Answer | NoAnswer]:
    """Return the engine's answers by key. `on_answer` receives each as soon as it arrives."""
    keys = list(requests)
    answers: dict[_Key, Answer | NoAnswer] = {}
    for index, answer in engine.answers(list(requests.values())):
        answers[keys[index]] = answer
        on_answer(keys[index], answer)
        progress.advance()
    return answers


def answers_in_order(
    engine: Engine, requests: Sequence[VerdictRequest], progress: Progress
) -> list[Answer | NoAnswer]:
    """Return the engine's answers in the order of the requests."""
    answers = ask(engine, dict(enumerate(requests)), progress)
    return [answers[place] for place in range(len(requests))]


def digest(key: str) -> bytes:
    """Shorten a key: 1,000,000 take about 100 MB."""
    return bytes.fromhex(key)[:_DIGEST_BYTES]
