"""Chat templates: what stands before and after a user's turn for one model.

    template(one user message holding a marker)  ->  head + marker + tail  ->  head, tail

The template is rendered once with a marker in place of the message. Only the two ends are used, so a message is never
trimmed or rewritten by a template, and user text never passes through one. There is no system message (some families
refuse it), no thinking where a switch exists, and a fixed date where a template asks for today's: a prompt
that changes at midnight cannot give the same numbers twice.

A profile that a model was trained on may need more: several roles, documents, arguments of the model's own.
`conversation` renders these, and gets marks in place of every text of the user's, too.

A template comes from the model's file. It is rendered by a process whose time, memory and output are limited
(`localjudge.engine.llamacpp.render_template`): 0.2 s for each model.
"""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.errors import ModelError
from localjudge.types import ChatEnds

_MARKER = "localjudge-message-7f3a"
_CONVERSATIONS = (("system", "user", "assistant", "user"), ("user", "assistant", "user"), ("user",))
_GENERATION = re.compile(r"\{%(-?)\s*(?:end)?generation\s*(-?)%\}")
_FIXED_DATE = datetime(2025, 1, 1, tzinfo=UTC)
_LIMITS = {"seconds": 5, "mebibytes": 512, "characters": 100_000}
_NONE: Mapping[str, Any] = {}


def chat_ends(template: str, *, bos: str, eos: str) -> ChatEnds:
    """Render a model's chat template around a message.

    Raises ModelError if the template fails or does not show the message exactly once.
    """
    rendered = _render(template, [{"role": "user", "content": _MARKER}], bos=bos, eos=eos).only_prompt()
    if rendered.count(_MARKER) != 1:
        raise ModelError(
            f"the model's chat template shows the message {rendered.count(_MARKER)} times instead of once",
            hint="use another conversion of the model",
        )
    head, tail = rendered.split(_MARKER)
    tail += answer_opener(tail)
    return without_ends(template, bos=bos, eos=eos)._replace(head=head, tail=tail)


def without_ends(template: str, *, bos: str, eos: str) -> ChatEnds:
    """The template for conversations alone: it may need arguments that a lone message does not come with."""
    digest = hashlib.sha256(template.encode("utf-8", "surrogatepass")).hexdigest()
    return ChatEnds("", "", digest, partial(conversation, template, bos=bos, eos=eos))


def conversation(
    template: str, messages: Sequence[Mapping[str, str]], arguments: Mapping[str, Any], *, bos: str, eos: str
) -> str:
    """The prompt for an answer to these messages, up to where the answer begins.

    Raises ModelError if the template fails, or does not look at one of the arguments.
    """
    reply = _render(template, messages, bos=bos, eos=eos, arguments=arguments)
    unknown = sorted(arguments.keys() - reply.reads) if reply.reads is not None else []
    if unknown:
        raise ModelError(
            f"the model's chat template knows nothing of {', '.join(unknown)}, which the prompt profile gives it",
            hint="use a conversion of the model with its own chat template, or another profile",
        )
    rendered = reply.only_prompt()
    return rendered + answer_opener(rendered)


def between_turns(template: str, *, bos: str, eos: str) -> tuple[str, ...]:
    """What a template writes between the messages of a conversation, and before it, if that is the system's.

    Begin and end tokens are taken out. A template that refuses a system message, or several turns, is asked for a
    shorter conversation; () if it shows none.
    """
    marks = [f"{_MARKER}-{place}" for place in range(max(map(len, _CONVERSATIONS)))]
    conversations = [
        [{"role": role, "content": mark} for role, mark in zip(roles, marks, strict=False)] for roles in _CONVERSATIONS
    ]
    pattern = re.compile("|".join(marks))
    for roles, prompt in zip(_CONVERSATIONS, _render(template, *conversations, bos=bos, eos=eos).prompts, strict=True):
        rendered = prompt.get("text", "")
        if pattern.findall(rendered) != marks[: len(roles)]:
            continue
        before, *between = (text.replace(bos, "").replace(eos, "").strip() for text in pattern.split(rendered))
        if roles[0] == "system":
            between.insert(0, before.removeprefix(between[2]))  # Llama 2 puts the system's message into the user's
        return tuple(between)
    return ()


def answer_opener(tail: str) -> str:
    """What must follow the end of a rendered prompt before the answer for the reader begins; "" for most families."""
    return next((add for after, add in _openers() if tail.endswith(after)), "")


@cache
def _openers() -> tuple[tuple[str, str], ...]:
    file = Path(__file__).with_name("answer_openers.toml")
    return tuple((row["after"], row["add"]) for row in tomllib.loads(file.read_text(encoding="utf-8"))["opener"])


def _without_marks(template: str) -> str:
    """Without the tags that say where training computes its loss: they are not Jinja's own."""
    return _GENERATION.sub(r"{#\1 \2#}", template)


class _Rendered(NamedTuple):
    """What a template makes of conversations; `reads` names its variables, None if it cannot be parsed."""

    reads: list[str] | None
    prompts: list[dict[str, str]]

    def only_prompt(self) -> str:
        """The prompt for the only conversation. Raises ModelError if the template fails or refuses it."""
        [prompt] = self.prompts
        if "error" in prompt:
            raise _unusable(prompt["error"])
        return prompt["text"]


def _unusable(why: str) -> ModelError:
    return ModelError(
        f"the model's chat template cannot be rendered: {why}", hint="use another conversion of the model"
    )


def _render(
    template: str,
    *conversations: Sequence[Mapping[str, str]],
    bos: str,
    eos: str,
    arguments: Mapping[str, Any] = _NONE,
) -> _Rendered:
    """The prompts for answers to conversations. Raises ModelError if rendering takes too much of the machine."""
    usual: dict[str, Any] = {
        "add_generation_prompt": True,
        "enable_thinking": False,
        "thinking": False,
        "date_string": _FIXED_DATE.strftime("%d %b %Y"),
    }
    variables = [
        {**usual, **arguments, "messages": messages, "bos_token": bos, "eos_token": eos} for messages in conversations
    ]
    request = {"template": _without_marks(template), "conversations": variables, "now": _FIXED_DATE.isoformat()}
    return _reply(json.dumps({**request, "limits": _LIMITS}))


@lru_cache(maxsize=64)
def _reply(request: str) -> _Rendered:
    """What a process under limits says of a request. The same one is asked once."""
    done = subprocess.run(
        [sys.executable, "-P", str(Path(__file__).with_name("render_template.py"))],
        input=request,
        capture_output=True,
        encoding="ascii",
        errors="replace",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    if done.returncode == -signal.SIGXCPU:
        raise _unusable(f"it takes longer than {_LIMITS['seconds']} s")
    if "MemoryError" in done.stderr:
        raise _unusable(f"it takes more memory than {_LIMITS['mebibytes']} MiB")
    if done.returncode:
        last_line = done.stderr.strip().rpartition("\n")[2][:300]
        raise _unusable(last_line or f"the process that renders it ended with status {done.returncode}")
    return _Rendered(**json.loads(done.stdout))
