"""Render the chat template of a model.

It is rendered without a system message, with a fixed date and, if possible, thinking off, in a
separate process (`render_template.py`), because a template is code from the model file.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from localjudge.errors import ModelError
from localjudge.types import ChatEnds

_MARKER = "localjudge-message-7f3a"
_CONVERSATIONS = (("system", "user", "assistant", "user"), ("user", "assistant", "user"), ("user",))
_GENERATION = re.compile(r"\{%(-?)\s*(?:end)?generation\s*(-?)%\}")
_USUAL = {
    "add_generation_prompt": True,
    "enable_thinking": False,
    "thinking": False,
    "date_string": "01 Jan 2025",
}
_LIMITS = {"seconds": 5, "mebibytes": 512, "characters": 100_000}
_MAX_SECONDS = 60  # for systems without a limit of processor time
_Prompt = dict[str, str]
"""The `text` of a rendered conversation, or an `error`."""


class ChatTemplate(NamedTuple):
    """Chat template with its begin and end tokens."""

    template: str
    bos: str
    eos: str

    @property
    def ends(self) -> ChatEnds:
        """Template around one message. Raises ModelError unless it shows the message once."""
        prompts, _ = self._render([[{"role": "user", "content": _MARKER}]])
        rendered = _only_prompt(prompts)
        if rendered.count(_MARKER) != 1:
            raise _unusable(f"it shows the message {rendered.count(_MARKER)} times instead of once")
        head, tail = rendered.split(_MARKER)
        return self.without_ends._replace(head=head, tail=tail + answer_opener(tail))

    @property
    def without_ends(self) -> ChatEnds:
        digest = hashlib.sha256(self.template.encode("utf-8", "surrogatepass")).hexdigest()
        return ChatEnds("", "", digest, self.conversation)

    def conversation(
        self, messages: Sequence[Mapping[str, str]], arguments: Mapping[str, Any]
    ) -> str:
        """Render the prompt for these messages.

        Raises ModelError if the template fails or ignores an argument.
        """
        prompts, variables = self._render([messages], arguments)
        if variables is not None and not arguments.keys() <= set(variables):
            unknown = ", ".join(sorted(arguments.keys() - variables))
            raise ModelError(
                f"the model's chat template does not use {unknown} of the prompt profile",
                hint="use a conversion of the model with its own chat template, or another profile",
            )
        rendered = _only_prompt(prompts)
        return rendered + answer_opener(rendered)

    def between_turns(self) -> tuple[str, ...]:
        """Return the text before a system message and between messages.

        The conversation is the longest one that the template can render.
        """
        conversations = [_mark_messages(roles) for roles in _CONVERSATIONS]
        prompts, _ = self._render(conversations)
        for messages, prompt in zip(conversations, prompts, strict=True):
            marks = [message["content"] for message in messages]
            pattern = re.compile("|".join(marks))
            rendered = prompt.get("text", "")
            if pattern.findall(rendered) != marks:
                continue
            head, *between = map(self._without_ends_of_text, pattern.split(rendered))
            if messages[0]["role"] == "system":
                # Llama 2 puts the system's message into the user's.
                between.insert(0, head.removeprefix(between[2]))
            return tuple(between)
        return ()

    def _without_ends_of_text(self, text: str) -> str:
        return text.replace(self.bos, "").replace(self.eos, "").strip()

    def _render(
        self,
        conversations: Sequence[Sequence[Mapping[str, str]]],
        arguments: Mapping[str, Any] = MappingProxyType({}),
    ) -> tuple[list[_Prompt], list[str] | None]:
        """Return the rendered conversations, and the template's variables.

        These are None if it cannot be parsed.
        """
        shared = {**_USUAL, **arguments, "bos_token": self.bos, "eos_token": self.eos}
        request = {
            # These tags mark text for the training loss. Jinja does not know them.
            "template": _GENERATION.sub(r"{#\1 \2#}", self.template),
            "conversations": [{**shared, "messages": messages} for messages in conversations],
            "now": "2025-01-01T00:00:00+00:00",
            "limits": _LIMITS,
        }
        reply = _run_template(json.dumps(request))
        return reply["prompts"], reply["reads"]


def answer_opener(tail: str) -> str:
    """Return the text between the rendered prompt and the visible answer.

    It is "" for most model families.
    """
    for opener in _openers():
        if tail.endswith(opener["after"]):
            return opener["add"]
    return ""


def _only_prompt(prompts: Sequence[_Prompt]) -> str:
    """Return the text of the only conversation. Raises ModelError if rendering failed."""
    [prompt] = prompts
    if "error" in prompt:
        raise _unusable(prompt["error"])
    return prompt["text"]


def _mark_messages(roles: Sequence[str]) -> list[dict[str, str]]:
    """Return a conversation of these roles, with a different mark as each message."""
    messages = []
    for place, role in enumerate(roles):
        messages.append({"role": role, "content": f"{_MARKER}-{place}"})
    return messages


@cache
def _openers() -> list[dict[str, str]]:
    file = Path(__file__).with_name("answer_openers.toml")
    return list(tomllib.loads(file.read_text(encoding="utf-8"))["opener"])


def _unusable(why: str) -> ModelError:
    return ModelError(
        f"the model's chat template cannot be rendered: {why}",
        hint="use another conversion of it",
    )


@lru_cache(maxsize=64)
def _run_template(request: str) -> dict[str, Any]:
    why = f"it takes more than {_LIMITS['seconds']} s or {_LIMITS['mebibytes']} MiB, or fails"
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(Path(__file__).with_name("render_template.py"))],
            input=request,
            capture_output=True,
            encoding="ascii",
            errors="replace",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            timeout=_MAX_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _unusable(why) from error
    if done.returncode:
        ending = f"status {done.returncode}"
        lines = done.stderr.strip().splitlines()
        if lines:
            ending = lines[-1][:300]
        raise _unusable(f"{why}: {ending}")
    reply: dict[str, Any] = json.loads(done.stdout)
    return reply
