"""A judge words tasks: it turns each into a verdict request, in the manner that its kind of model understands.

    judge = model + prompt profile + grammar

The judge knows no backend and runs no tokens; the engine beside it does.
"""

import hashlib
from typing import Any, Protocol

from localjudge.judge import grammars, prompts
from localjudge.judge.chat import ChatEnds
from localjudge.types import Piece, Task, VerdictRequest

_PLAIN = ChatEnds(head="", tail="", sha256="")


class Judge(Protocol):
    """Words every task as a verdict request."""

    @property
    def identity(self) -> dict[str, Any]:
        """Hashes of the prompt profile, chat template and grammars, as JSON values."""
        ...

    def request(self, task: Task) -> VerdictRequest:
        """The verdict request for a task: a pure function of the task and the judge's identity."""
        ...


class PromptJudge:
    """A judge that asks by a prompt profile, inside a model's chat template if there is one."""

    def __init__(self, profile: prompts.PromptProfile, chat: ChatEnds | None = None) -> None:
        self._profile = profile
        self._chat = chat if profile.chat else None
        self._ends = self._chat or _PLAIN._replace(tail=profile.bare_answer)

    @property
    def identity(self) -> dict[str, Any]:
        """Name and hash of the profile, hashes of the chat template and of each task's grammar."""
        patterns = {name: grammars.load(task.grammar).pattern for name, task in sorted(self._profile.tasks.items())}
        return {
            "profile": self._profile.name,
            "profile_sha256": self._profile.sha256,
            "chat_template_sha256": self._chat.sha256 if self._chat else None,
            "chat_ends_sha256": hashlib.sha256("\0".join(self._ends[:2]).encode()).hexdigest(),
            "grammars_sha256": {n: hashlib.sha256(pattern.encode()).hexdigest() for n, pattern in patterns.items()},
        }

    def request(self, task: Task) -> VerdictRequest:
        """The task's nodes, between the ends of the chat template."""
        prompt = self._profile.tasks[prompts.task_name(task)]
        first, *rest = prompts.render(prompt, task)
        path = [_before(self._ends.head, first), *rest]
        path[-1] = _after(path[-1], self._ends.tail)
        return VerdictRequest(path=tuple(path), grammar=grammars.load(prompt.grammar))


def _before(text: str, node: tuple[Piece, ...]) -> tuple[Piece, ...]:
    return _join(Piece(text=text, trusted=True), *node)


def _after(node: tuple[Piece, ...], text: str) -> tuple[Piece, ...]:
    return _join(*node, Piece(text=text, trusted=True))


def _join(*pieces: Piece) -> tuple[Piece, ...]:
    """Neighbouring pieces of our own text become one, so that they are tokenised as one."""
    joined: list[Piece] = []
    for piece in pieces:
        if joined and joined[-1].trusted and piece.trusted:
            joined[-1] = Piece(text=joined[-1].text + piece.text, trusted=True)
        elif piece.text:
            joined.append(piece)
    return tuple(joined)
