"""Words tasks: turns each into a verdict request, in the manner that its kind of model understands.

    judge = prompt writer (profile, chat template, grammars) + engine (model)

It knows no backend and runs no tokens; the engine beside it does.

    protocol      independent   one request for a task, whatever else is asked
                  joint         one answer for all statements about the same contexts and question, as RAGAS asks
    reasons       none          the verdict alone
                  before        a reason, then the verdict, which may move with it
                  after         the verdict of `none`, bit for bit, then an explanation of it
"""

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, Literal, cast

from localjudge.errors import SampleError, UsageError
from localjudge.judge import profile as grammars
from localjudge.judge import profile as prompts
from localjudge.judge.profile import AnswerForm, Skeleton, in_skeleton, skeleton
from localjudge.types import Attribution, ChatEnds, Grammar, Piece, Task, VerdictRequest
from localjudge.words import option, option_name

Reasons = Literal["none", "before", "after"]
JudgingProtocol = Literal["independent", "joint"]

_USER = "user"
_PLAIN = ChatEnds(head="", tail="", sha256="")
_SKELETONS_KEPT = 256


class PromptWriter:
    """A judge that asks by a prompt profile, inside a model's chat template if there is one.

    Raises UsageError if the profile cannot ask for reasons, or for one answer to several statements, or needs a chat
    template where there is none; ModelError if the template is not one that the profile can use.
    """

    def __init__(
        self,
        profile: prompts.PromptProfile,
        chat: ChatEnds | None = None,
        *,
        reasons: Reasons = "none",
        protocol: JudgingProtocol = "independent",
    ) -> None:
        require(profile, reasons, protocol)
        self._profile = profile
        self._chat = chat if profile.chat else None
        self._ends = self._chat or _PLAIN._replace(tail=profile.bare_answer)
        self._reasons: Reasons = reasons
        self._protocol: JudgingProtocol = protocol
        self._skeleton = lru_cache(maxsize=_SKELETONS_KEPT)(partial(_rendered_skeleton, profile, self._chat))
        self._whole = [
            self._skeleton(name, tuple(node.role for node in task.node if node.role) or (_USER,))
            for name, task in sorted(profile.tasks.items())
            if task.is_conversation
        ]

    @property
    def identity(self) -> dict[str, Any]:
        """Name and hash of the profile, hashes of the chat template and of each task's grammar, and how it asks.

        Of special tasks there is nothing: `identity_for` has those that are asked.
        """
        common = sorted(self._profile.tasks.keys() - self._profile.special.keys() - {prompts.JOINT})
        answers = {name: self._answer_shape(name) for name in common}
        if self._protocol == "joint":
            answers[prompts.JOINT] = [grammars.for_statements(["statement"])]
        ends = [gap for one in self._whole for gap in one.gaps] or self._ends[:2]
        return {
            "profile": self._profile.name,
            "profile_sha256": self._profile.sha256,
            "chat_template_sha256": self._chat.sha256 if self._chat else None,
            "chat_ends_sha256": hashlib.sha256("\0".join(ends).encode()).hexdigest(),
            "grammars_sha256": {name: _digest(shape) for name, shape in answers.items()},
            "reasons": self._reasons,
            "protocol": self._protocol,
        }

    def identity_for(self, special_tasks: Iterable[str]) -> dict[str, Any]:
        """The identity of a judge that is also asked these special tasks: with hashes of their words and answers."""
        asked = {
            name: {"sha256": self._profile.special[name], "grammar_sha256": _digest(self._answer_shape(name))}
            for name in sorted(special_tasks)
            if name in self._profile.special
        }
        return self.identity | ({"special_tasks": asked} if asked else {})

    def cannot_be_asked(self, tasks: Iterable[str]) -> list[str]:
        """Which of the tasks the profile has no words for."""
        return sorted(set(tasks) - self._profile.tasks.keys())

    @property
    def why_not_asked(self) -> str:
        """Why there are tasks that it cannot be asked."""
        if not self._profile.instructions:
            return "it does not read instructions"
        words = ", ".join(sorted(self._profile.tasks.keys() - {prompts.JOINT}))
        return f"its prompt profile {self._profile.name!r} has words for {words} alone"

    def has_words_for(self, task: Task) -> bool:
        """Whether the profile can ask this."""
        return not self.cannot_be_asked([prompts.task_name(task)])

    def request(self, task: Task) -> VerdictRequest:
        """The request for a task that is judged on its own: a pure function of the task and the judge's identity.

        Raises SampleError for a task that the profile has no words for.
        """
        name = prompts.task_name(task)
        if not self.has_words_for(task):
            raise SampleError(f"the prompt profile {self._profile.name!r} has no words for the task {name}")
        grammar, *explanation = self._answer_shape(name)
        prompt = self._profile.tasks[name]
        unshown = prompts.not_shown(prompt, task)
        if unshown:
            raise SampleError(
                f"the prompt profile {self._profile.name!r} has no place for {', '.join(unshown)} in the task {name}"
            )
        return VerdictRequest(
            path=self._path(prompt, [task], form=self._form(prompt)),
            grammar=grammar,
            explanation=explanation[0] if explanation else None,
        )

    def requests(self, tasks: Sequence[Task]) -> list[VerdictRequest]:
        """One request for each task: a pure function of the tasks and the judge's identity.

        Give the tasks of one metric on one sample: in the joint protocol, statements among them that share contexts
        and question are judged in one answer, and depend on each other. In any other, `tasks` may be cut anywhere.
        Raises SampleError for a statement that a joint answer cannot hold, and as `request` does.
        """
        if self._protocol == "independent":
            return [self.request(task) for task in tasks]
        found: dict[int, VerdictRequest] = {}
        groups: dict[tuple[tuple[str, ...], str | None], list[int]] = {}
        for index, task in enumerate(tasks):
            if isinstance(task, Attribution):
                groups.setdefault((task.contexts, task.user_input), []).append(index)
            else:
                found[index] = self.request(task)
        for indices in groups.values():
            joint = self._joint_request([cast(Attribution, tasks[index]) for index in indices])
            found |= {index: joint._replace(entry=entry) for entry, index in enumerate(indices)}
        return [found[index] for index in range(len(tasks))]

    def _joint_request(self, tasks: Sequence[Attribution]) -> VerdictRequest:
        prompt = self._profile.tasks[prompts.JOINT]
        grammar = grammars.for_statements([task.unit.span.text for task in tasks])
        return VerdictRequest(path=self._path(prompt, tasks, form=prompt.form), grammar=grammar)

    def _path(self, prompt: prompts.TaskPrompt, tasks: Sequence[Task], *, form: str) -> tuple[tuple[Piece, ...], ...]:
        """The nodes, between the ends of the chat template, or between what it writes around each message."""
        if prompt.is_conversation:
            nodes = prompts.render_with_roles(prompt, tasks, form=form)
            roles = tuple(role for role, _ in nodes if role)
            around = self._skeleton(prompts.task_name(tasks[0]), roles or (_USER,))
            if not roles:
                nodes[0] = nodes[0]._replace(role=_USER)
            return tuple(_join(*node) for node in in_skeleton(nodes, around))
        first, *rest = prompts.render(prompt, tasks, form=form)
        path = [_join(Piece(text=self._ends.head, trusted=True), *first), *rest]
        path[-1] = _join(*path[-1], Piece(text=self._ends.tail, trusted=True))
        return tuple(path)

    def _answer_shape(self, name: str) -> list[Grammar]:
        """The grammar of a task's answer and, for a reason after the verdict, of the explanation."""
        prompt = self._profile.tasks[name]
        if isinstance(prompt.grammar, AnswerForm):
            return [prompt.grammar.grammar(name)]
        match self._reasons, prompt.reasons:
            case "before", prompts.ReasonPrompt(before=reasoned):
                return [grammars.load_grammar(reasoned)]
            case "after", prompts.ReasonPrompt(after=explained):
                return [grammars.load_grammar(prompt.grammar), grammars.load_grammar(explained)]
        return [grammars.load_grammar(prompt.grammar)]

    def _form(self, prompt: prompts.TaskPrompt) -> str:
        return prompt.reasons.form if self._reasons == "before" and prompt.reasons else prompt.form


def require(profile: prompts.PromptProfile, reasons: Reasons, protocol: JudgingProtocol) -> None:
    """Raise UsageError if the profile cannot ask for these reasons or in this protocol."""
    if protocol == "joint" and prompts.JOINT not in profile.tasks:
        raise UsageError(
            f"the prompt profile {profile.name!r} cannot judge several statements in one answer",
            hint=f"leave out {option('protocol', 'joint')}, or name another model with {option('judge')}",
        )
    if protocol == "joint" and reasons == "after":
        raise UsageError(
            "a joint answer gives every reason before its verdict",
            hint=f"leave out {option('reasons', 'after')} or {option('protocol', 'joint')}",
        )
    mute = sorted(name for name, task in profile.tasks.items() if name != prompts.JOINT and not task.reasons)
    if reasons != "none" and mute:
        raise UsageError(
            f"the prompt profile {profile.name!r} cannot give reasons ({', '.join(mute)})",
            hint=f"leave out {option_name('reasons')}, or name another model with {option('judge')}",
        )


def _rendered_skeleton(
    profile: prompts.PromptProfile, chat: ChatEnds | None, name: str, roles: tuple[str, ...]
) -> Skeleton:
    if chat is None or chat.render is None:
        raise UsageError(
            f"the prompt profile {profile.name!r} asks inside the model's chat template, and there is none",
            hint=f"use a conversion of the model that holds it, or name another profile with {option('profile')}",
        )
    return skeleton(chat.render, roles, profile.tasks[name].template)


def _digest(shape: Sequence[Grammar]) -> str:
    return hashlib.sha256("\n".join(grammar.model_dump_json() for grammar in shape).encode()).hexdigest()


def _join(*pieces: Piece) -> tuple[Piece, ...]:
    """Neighbouring pieces of our own text become one, so that they are tokenised as one."""
    joined: list[Piece] = []
    for piece in pieces:
        if joined and joined[-1].trusted and piece.trusted:
            joined[-1] = Piece(text=joined[-1].text + piece.text, trusted=True)
        elif piece.text:
            joined.append(piece)
    return tuple(joined)
