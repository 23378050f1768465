"""Chat templates: what stands before and after a user's turn for one model.

    template(one user message holding a marker)  ->  head + marker + tail  ->  head, tail

The template is rendered once with a marker in place of the message. Only the two ends are used, so a message is never
trimmed or rewritten by a template, and user text never passes through one. There is no system message (some families
refuse it), no thinking where a switch exists, and a fixed date where a template asks for today's: a prompt
that changes at midnight cannot give the same numbers twice.
"""

import hashlib
import re
import tomllib
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple, NoReturn

from localjudge.errors import ModelError

_MARKER = "localjudge-message-7f3a"
_GENERATION = re.compile(r"\{%(-?)\s*(?:end)?generation\s*(-?)%\}")
_FIXED_DATE = datetime(2025, 1, 1, tzinfo=UTC)


class ChatEnds(NamedTuple):
    """Text before and after the user's message, up to where the answer begins."""

    head: str
    tail: str
    sha256: str


def chat_ends(template: str, *, bos: str, eos: str) -> ChatEnds:
    """Render a model's chat template around a message.

    Raises ModelError if the template fails or does not show the message exactly once.
    """
    from jinja2 import TemplateError

    try:
        rendered = _render(template, bos=bos, eos=eos)
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
        raise ModelError(
            f"the model's chat template cannot be rendered: {error}", hint="use another conversion of the model"
        ) from error
    if rendered.count(_MARKER) != 1:
        raise ModelError(
            f"the model's chat template shows the message {rendered.count(_MARKER)} times instead of once",
            hint="use another conversion of the model",
        )
    head, tail = rendered.split(_MARKER)
    tail += answer_opener(tail)
    return ChatEnds(head, tail, hashlib.sha256(template.encode("utf-8", "surrogatepass")).hexdigest())


def answer_opener(tail: str) -> str:
    """What must follow the end of a rendered prompt before the answer for the reader begins; "" for most families."""
    return next((add for after, add in _openers() if tail.endswith(after)), "")


@cache
def _openers() -> tuple[tuple[str, str], ...]:
    file = Path(__file__).parent / "prompts" / "openers.toml"
    return tuple((row["after"], row["add"]) for row in tomllib.loads(file.read_text(encoding="utf-8"))["opener"])


def _render(template: str, *, bos: str, eos: str) -> str:
    from jinja2.exceptions import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> NoReturn:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = _FIXED_DATE.strftime
    without_marks = _GENERATION.sub(r"{#\1 \2#}", template)  # where training computes its loss: not Jinja's own
    return environment.from_string(without_marks).render(
        messages=[{"role": "user", "content": _MARKER}],
        add_generation_prompt=True,
        enable_thinking=False,
        thinking=False,
        date_string=_FIXED_DATE.strftime("%d %b %Y"),
        bos_token=bos,
        eos_token=eos,
    )
