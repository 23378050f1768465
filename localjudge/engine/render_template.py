"""Render a chat template in a separate process, because a template is code from the model file.

    standard input     {"template": text, "conversations": [variables, ...], "now": date,
                        "limits": {...}}
    standard output    {"reads": names, "prompts": [{"text": prompt} or {"error": message}, ...]}

Jinja's sandbox blocks files and Python internals, but not a gigabyte of output, so the system
limits processor time and memory. Without imports from localjudge, the process starts in a tenth of
a second.
"""

import json
import random
import sys
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any, NoReturn

from jinja2 import TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

if sys.platform != "win32":
    import resource


def main() -> None:
    request = json.load(sys.stdin)
    limits = request.pop("limits")
    if sys.platform != "win32":
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_CPU, limits["seconds"])
        _limit(resource.RLIMIT_AS, limits["mebibytes"] * 2**20)
    random.seed(0)  # `random` and `lipsum` give the same text every time
    json.dump(_reply(**request, max_characters=limits["characters"]), sys.stdout)


def _limit(kind: int, limit: int) -> None:
    """Set a soft limit, because only the soft limit of time has a signal."""
    if sys.platform != "win32":
        _, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        resource.setrlimit(kind, (limit, hard))


def _reply(
    template: str, conversations: list[dict[str, Any]], now: str, max_characters: int
) -> dict[str, Any]:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals |= {
        "raise_exception": _refuse,
        "strftime_now": datetime.fromisoformat(now).strftime,
    }
    # Without the HTML escapes of Jinja's own filter, as authors of templates expect.
    environment.filters["tojson"] = partial(json.dumps, ensure_ascii=False)
    prompts = [
        _prompt(environment, template, variables, max_characters) for variables in conversations
    ]
    try:
        reads = sorted(meta.find_undeclared_variables(environment.parse(template)))
    except (TemplateError, RecursionError):
        reads = None  # every prompt contains the error
    return {"reads": reads, "prompts": prompts}


def _prompt(
    environment: ImmutableSandboxedEnvironment,
    template: str,
    variables: Mapping[str, Any],
    max_characters: int,
) -> dict[str, str]:
    try:
        text = environment.from_string(template).render(variables)
    except (
        TemplateError,
        TypeError,
        ValueError,
        ArithmeticError,
        LookupError,
        RecursionError,
    ) as error:
        return {"error": str(error)[:300]}
    if len(text) > max_characters:
        return {
            "error": f"it writes {len(text):,} characters; at most {max_characters:,} are allowed",
        }
    return {"text": text}


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


if __name__ == "__main__":
    main()
