"""Texts of pages in the reader's language. The English text is the key, as in gettext.

    languages/de.toml    "Repeat the check" = "Die Prüfung wiederholen"
                         "{labels:n} of {total:n} labels" = "{labels} von {total} Labels"

Pages translate their own texts by `words("Repeat the check")`. A sentence that another module composed is recognised by
a key with typed places: `{x:n}` is a number, `{x:s}` stays as it is (names, texts of users), and `{x:t}` is translated,
too. Texts without an entry stay English.
"""

import re
import tomllib
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from localjudge.types import Language
from localjudge.words import printable

FOLDER = Path(__file__).with_name("languages")
TYPED_PLACE = re.compile(r"\{(\w+):([nst])\}")
_NUMBER = r"[-+]?[0-9][0-9.,]*(?:e[-+]?[0-9]+)?"


class Words:
    """Texts of one language. `table` is empty for English; `missing` collects texts without an entry."""

    def __init__(self, language: Language = "en") -> None:
        self.language = language
        file = FOLDER / f"{language}.toml"
        self.table: dict[str, str] = {} if language == "en" else tomllib.loads(file.read_text(encoding="utf-8"))
        self.missing = set[str]()
        self._translated = lru_cache(maxsize=4096)(self._translate)
        self._signs = str.maketrans({sign: self.table.get(sign, sign) for sign in ".,"})

    def __call__(self, text: str, **values: Any) -> Markup:
        """Return our own text, which may contain markup, with escaped values."""
        template = self._entry(text) if self.table else text
        shown = {name: self.number(value) if type(value) is int else value for name, value in values.items()}
        safe = {name: printable(value) if type(value) is str else value for name, value in shown.items()}
        return Markup(template).format(**safe)

    def sentence(self, text: str) -> str:
        """Translate a sentence that another module composed."""
        if not self.table or not text:
            return text
        return self._translated(text) or self._entry(text)

    def of_script(self, script: str) -> dict[str, str]:
        """Return the entries of the texts in a script, and the signs of numbers."""
        return {key: text for key, text in self.table.items() if key in ".," or f'"{key}"' in script}

    def number(self, value: float | None) -> str:
        """Format a count as 1,234 and any other number as 0.708, with the signs of the language."""
        return self.signs("-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.3f}")

    def signs(self, number: str) -> str:
        return number.translate(self._signs)

    def _entry(self, text: str) -> str:
        if text not in self.table:
            self.missing.add(text)
        return self.table.get(text, text)

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], dict[str, str], str]]:
        """Patterns of keys with typed places, the most literal first."""
        keys = sorted(filter(TYPED_PLACE.search, self.table), key=lambda key: -len(TYPED_PLACE.sub("", key)))
        return [_pattern(key, self.table[key]) for key in keys]

    def _translate(self, text: str) -> str | None:
        if text in self.table:
            return self.table[text]
        for pattern, kinds, template in self._patterns:
            if match := pattern.fullmatch(text):
                values = {name: self._value(kinds[name], value) for name, value in match.groupdict().items()}
                if None not in values.values():
                    return template.format(**values)
        *first, last = text.rsplit("; ", 1)
        parts = [self._translated(part) for part in (*first, last)] if first else [None]
        return None if None in parts else "; ".join(filter(None, parts))

    def _value(self, kind: str, text: str) -> str | None:
        return self.signs(text) if kind == "n" else self._translated(text) if kind == "t" else text


def _pattern(key: str, template: str) -> tuple[re.Pattern[str], dict[str, str], str]:
    expression, place = "", 0
    for match in TYPED_PLACE.finditer(key):
        expression += f"{re.escape(key[place : match.start()])}(?P<{match[1]}>{_NUMBER if match[2] == 'n' else '.+?'})"
        place = match.end()
    return re.compile(expression + re.escape(key[place:]), re.DOTALL), dict(TYPED_PLACE.findall(key)), template
