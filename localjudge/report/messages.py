"""Messages of the label page and the certificate in the reader's language.

    [label]                                        languages/en.toml
    progress = "{n} of {total} labelled"
    open.one = "1 statement without an answer"
    open.other = "{n} statements without an answer"

    messages = Messages("de")
    messages("label.progress", n=2, total=50)      2 von 50 gelabelt

A message with two forms uses `one` if its value `n` is 1. English is the source of all messages,
except for the questions and sentences about a metric: their English text is in the metric's file.
"""

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from localjudge.labels.labelled_units import labelled_template
from localjudge.metrics import catalog
from localjudge.metrics.metric import parse_name
from localjudge.types import Language
from localjudge.words import printable, three_digits

FOLDER = Path(__file__).with_name("languages")
Message = str | dict[str, str]


class Messages:
    """The messages of one language."""

    def __init__(self, language: Language = "en") -> None:
        self.language = language
        self._sections = read_messages(language)

    def __call__(self, key: str, /, **values: Any) -> Markup:
        """Return the message `section.name` for a page, with markup and escaped values."""
        return Markup(self._template(key, values)).format(**self._show(values))

    def plain(self, key: str, /, **values: Any) -> str:
        """Return the message `section.name` as plain text."""
        return self._template(key, values).format(**self._show(values))

    def section(self, *names: str) -> dict[str, Message]:
        """Return all messages of these sections by name, for a script."""
        messages: dict[str, Message] = {}
        for name in names:
            messages |= self._sections[name]
        return messages

    def number(self, value: float | None) -> str:
        """Format a count as 1,234 and any other number as 0.708, with the signs of the language."""
        if value is None:
            return "-"
        if isinstance(value, int):
            text = f"{value:,}"
        else:
            text = three_digits(value)
        return self.digits(text)

    def digits(self, text: str) -> str:
        """Return a formatted number, such as +1,234.5, with the signs of the language."""
        thousands = self.plain("number.thousands")
        decimal = self.plain("number.decimal")
        return text.translate({ord(","): thousands, ord("."): decimal})

    def question(self, metric: str) -> str | None:
        """Return the translated question about a unit of a metric, or None."""
        return self._for_metric("question", metric)

    def headline(self, metric: str) -> str | None:
        """Return the sentence about the mean of a metric, with `{share}` for its value, or None."""
        in_english = catalog.about(metric).headline.replace("{}", "{share}")
        return self._for_metric("headline", metric) or in_english or None

    def labelled(self, metric: str) -> str | None:
        """Return the sentence about its labels, with `{supported}` and `{n}`, or None."""
        return self._for_metric("labelled", metric) or labelled_template(metric)

    def _for_metric(self, section: str, metric: str) -> str | None:
        """Look up `hit_rate@3(compare_by=id)` with its options, then without, as `hit_rate@k`."""
        name = parse_name(metric)
        if name is None or catalog.ours(metric) is None:
            return None
        base, k, options = name
        if k is not None:
            base = f"{base}@k"
        messages = self._sections.get(section, {})
        message = messages.get(f"{base}({options})") or messages.get(base)
        if not isinstance(message, str):
            return None
        return message.replace("{k}", str(k))

    def _template(self, key: str, values: dict[str, Any]) -> str:
        section, _, name = key.partition(".")
        message = self._sections[section][name]
        if isinstance(message, str):
            return message
        if values["n"] == 1:
            return message["one"]
        return message["other"]

    def _show(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values with numbers in the language, and texts with escapes."""
        shown = dict(values)
        for name, value in values.items():
            if isinstance(value, int | float):
                shown[name] = self.number(value)
            # Markup is a subclass of str, and has its escapes already.
            elif type(value) is str:
                shown[name] = printable(value)
        return shown


@lru_cache(maxsize=8)
def read_messages(language: Language) -> dict[str, dict[str, Message]]:
    return tomllib.loads((FOLDER / f"{language}.toml").read_text(encoding="utf-8"))
