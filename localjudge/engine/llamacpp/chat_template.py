"""Chat templates: what stands before and after a user's turn for one model.

    template(one user message holding a marker)  ->  head + marker + tail  ->  head, tail

The template is rendered once with a marker in place of the message. Only the two ends are used, so a message is never
trimmed or rewritten by a template, and user text never passes through one. There is no system message (some families
refuse it), no thinking where a switch exists, and a fixed date where a template asks for today's: a prompt
that changes at midnight cannot give the same numbers twice.

A profile that a model was trained on may need more: several roles, documents, arguments of the model's own.
`conversation` renders these, and gets marks in place of every text of the user's, too.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, NoReturn

from localjudge.errors import ModelError
from localjudge.types import ChatEnds

_MARKER = "localjudge-message-7f3a"
_CONVERSATIONS = (("system", "user", "assistant", "user"), ("user", "assistant", "user"), ("user",))
_GENERATION = re.compile(r"\{%(-?)\s*(?:end)?generation\s*(-?)%\}")
_FIXED_DATE = datetime(2025, 1, 1, tzinfo=UTC)
_NONE: Mapping[str, Any] = {}


def chat_ends(template: str, *, bos: str, eos: str) -> ChatEnds:
    """Render a model's chat template around a message.

    Raises ModelError if the template fails or does not show the message exactly once.
    """
    rendered = _render(template, [{"role": "user", "content": _MARKER}], bos=bos, eos=eos)
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
    unknown = sorted(arguments.keys() - _read_by(template))
    if unknown:
        raise ModelError(
            f"the model's chat template knows nothing of {', '.join(unknown)}, which the prompt profile gives it",
            hint="use a conversion of the model with its own chat template, or another profile",
        )
    rendered = _render(template, messages, bos=bos, eos=eos, arguments=arguments)
    return rendered + answer_opener(rendered)


def _read_by(template: str) -> set[str]:
    """Names that the template reads and does not set itself."""
    from jinja2 import Environment, TemplateError, meta

    try:
        return meta.find_undeclared_variables(
            Environment(extensions=["jinja2.ext.loopcontrols"]).parse(_without_marks(template))
        )
    except TemplateError as error:
        raise _unusable(error) from error


def between_turns(template: str, *, bos: str, eos: str) -> tuple[str, ...]:
    """What a template writes between the messages of a conversation, and before it, if that is the system's.

    Begin and end tokens are taken out. A template that refuses a system message, or several turns, is asked for a
    shorter conversation; () if it shows none.
    """
    for roles in _CONVERSATIONS:
        marks = [f"{_MARKER}-{place}" for place in range(len(roles))]
        messages = [{"role": role, "content": mark} for role, mark in zip(roles, marks, strict=True)]
        try:
            rendered = _render(template, messages, bos=bos, eos=eos)
        except ModelError:
            continue
        pattern = re.compile("|".join(marks))
        if pattern.findall(rendered) != marks:
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


def _unusable(error: Exception) -> ModelError:
    return ModelError(
        f"the model's chat template cannot be rendered: {error}", hint="use another conversion of the model"
    )


def _plain_json(value: object, ensure_ascii: bool = False, **how: Any) -> str:
    """JSON as the templates' makers render it: without the escapes for HTML that Jinja's own filter adds."""
    return json.dumps(value, ensure_ascii=ensure_ascii, **how)


def _render(
    template: str, messages: Sequence[Mapping[str, str]], *, bos: str, eos: str, arguments: Mapping[str, Any] = _NONE
) -> str:
    """The prompt for an answer to the messages. Raises ModelError if the template fails or refuses them."""
    from jinja2.exceptions import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> NoReturn:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = _FIXED_DATE.strftime
    environment.filters["tojson"] = _plain_json
    usual: dict[str, Any] = {
        "add_generation_prompt": True,
        "enable_thinking": False,
        "thinking": False,
        "date_string": _FIXED_DATE.strftime("%d %b %Y"),
    }
    try:
        return environment.from_string(_without_marks(template)).render(
            {**usual, **arguments, "messages": messages, "bos_token": bos, "eos_token": eos}
        )
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
        raise _unusable(error) from error
