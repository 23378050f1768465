"""Self-contained private HTML pages that load and send no data.

Templates in `page/` extend document.html and escape user text. The Content-Security-Policy allows
only their style and script, by sha256. `config` is ASCII JSON without `<`, so that user text cannot
end its element.
"""

import base64
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from localjudge.errors import InputError
from localjudge.judging.plan import FIRST_RUN
from localjudge.report.messages import Messages
from localjudge.resources import write_output
from localjudge.run_directory.directory import open_regular
from localjudge.words import printable, typed_path

_FOLDER = Path(__file__).with_name("page")
_BEGINNING = re.compile(
    rb'<!doctype html>\n<html lang="[a-z]{2}">\n<head>\n<meta charset="utf-8">\n'
    rb'<meta name="generator" content="localjudge">\n'
)
_BEGINNING_BYTES = 200
_LAST_OF_ONE_UNIT = "\uffff"
"""Last character with one UTF-16 code unit. Those after it have two."""


def page_parts(
    template: str,
    *,
    styles: Sequence[str],
    scripts: Sequence[str],
    config: Mapping[str, Any],
    messages: Messages | None = None,
    script_messages: Sequence[str] = (),
    **values: Any,
) -> Iterator[str]:
    """Yield the page in parts. Its script gets the messages in `script_messages`, too."""
    messages = messages or Messages()
    style = _join_files(styles)
    script = _join_files(scripts)
    environment = Environment(
        autoescape=True,
        finalize=_escape_controls,
        loader=FileSystemLoader(_FOLDER),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters.update(number=messages.number, cut=_cut, begin=_begin, typed=typed_path)
    return environment.get_template(template).generate(
        **values,
        t=messages,
        language=messages.language,
        config={**config, "messages": messages.section("number", "page", *script_messages)},
        version=version("localjudge"),
        policy=_policy(style, script),
        style=Markup(style),
        script=Markup(script),
    )


def _join_files(names: Sequence[str]) -> str:
    return "".join((_FOLDER / name).read_text(encoding="utf-8") for name in names)


def _escape_controls(value: Any) -> Any:
    """Escape control characters of a text. Markup, a subclass of str, has its escapes already."""
    if type(value) is str:
        return printable(value)
    return value


def _cut(text: str, letters: int = 48) -> str:
    if len(text) <= letters:
        return text
    return f"{text[:letters]}..."


def _begin(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)}; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    )


def _source(text: str) -> str:
    """Return the source of a policy that allows only this text."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest())
    return f"'sha256-{digest.decode('ascii')}'"


def write_page(path: Path, parts: Iterable[str], *, kind: str) -> None:
    """Write the page, replacing an earlier one. Raises InputError for another file of that name."""
    if path.is_dir():
        raise InputError(f"{path} is a directory", hint="name a file")
    if os.path.lexists(path):
        with open_regular(path) as file:
            if not _BEGINNING.match(file.read(_BEGINNING_BYTES)):
                raise InputError(f"{path} is not a {kind} of localjudge", hint="name another file")
    write_output(path, (part.encode() for part in parts))


def browser_offset(text: str, offset: int) -> int:
    """Convert an offset in code points to UTF-16 code units, in which scripts count."""
    if text.isascii():
        return offset
    return offset + sum(sign > _LAST_OF_ONE_UNIT for sign in text[:offset])


def name_run(directory: Path) -> str:
    """Return the name of a run, with its folder if `localjudge start` called it `run`."""
    if directory.name == FIRST_RUN or directory.name.startswith(f"{FIRST_RUN}-"):
        return f"{directory.parent.name}/{directory.name}"
    return directory.name
