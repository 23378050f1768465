"""A judge words tasks: it turns each task into a verdict request, in the manner its kind of model understands.

The judge knows no backend and runs no tokens; the engine beside it does.
"""

from typing import Any, Protocol

from localjudge.types import Task, VerdictRequest


class Judge(Protocol):
    """Words every task as a verdict request."""

    @property
    def identity(self) -> dict[str, Any]:
        """Hashes of the prompt profile, chat template and grammars, as JSON values."""
        ...

    def request(self, task: Task) -> VerdictRequest:
        """The verdict request for a task: a pure function of the task and the judge's identity."""
        ...
