"""What the progress of a run passes on."""

import inspect
from typing import Any

import pytest

from localjudge.progress import NotedProgress, Progress

METHODS = [name for name in vars(Progress) if inspect.isfunction(getattr(Progress, name))]
ARGUMENTS: dict[str, Any] = {
    "text": "a note",
    "doing": "reading",
    "done": 2,
    "total": None,
    "seconds": 1.5,
    "expected": 3.0,
    "count": 7,
    "name": "judging",
    "counted": False,
}


class Received(Progress):
    """Keeps each call by the name of its method."""

    def __init__(self) -> None:
        self.calls: dict[str, dict[str, Any]] = {}

    def __getattribute__(self, name: str) -> Any:
        if name not in METHODS:
            return super().__getattribute__(name)
        form = inspect.signature(getattr(Progress, name).__get__(self))

        def keep(*arguments: Any, **options: Any) -> None:
            self.calls[name] = dict(form.bind(*arguments, **options).arguments)

        return keep


@pytest.mark.parametrize("name", METHODS)
def test_a_progress_that_keeps_notes_passes_everything_on(name: str) -> None:
    """Each call arrives once, with the same arguments; without a receiver, nothing happens."""
    parameters = inspect.signature(getattr(Progress(), name)).parameters
    arguments = {parameter: ARGUMENTS[parameter] for parameter in parameters}
    getattr(NotedProgress(None), name)(**arguments)
    received = Received()
    getattr(NotedProgress(received), name)(**arguments)
    assert received.calls == {name: arguments}
