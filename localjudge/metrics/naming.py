"""A metric's name says all that sets it apart: which definition, how many documents, which options.

    document_map    document_map(compare_by=id)    hit_rate@3    hit_rate@3(compare_by=meta.doc)

An option is a keyword-only field of the metric's dataclass that holds a text. One that has its default value is not
written, so that the same metric has one name.
"""

import re
from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass
from typing import Any, NamedTuple

from localjudge.errors import UsageError

# At most nine digits: no ranking is longer.
_FORM = re.compile(r"\s*(?P<base>\w+)(?:@(?P<k>[1-9]\d{0,8}))?\s*(?:\((?P<options>.*)\)\s*)?")


class MetricName(NamedTuple):
    """A name in its parts: `hit_rate@3(compare_by=id)` is `hit_rate`, 3 and `compare_by=id`."""

    base: str
    k: int | None
    options: str


def parse(name: str) -> MetricName | None:
    """The parts of a name; None for a text that has not the form of one."""
    parts = _FORM.fullmatch(name)
    return parts and MetricName(parts["base"], int(parts["k"]) if parts["k"] else None, parts["options"] or "")


def parse_options(name: MetricName) -> dict[str, str]:
    """The options of a name. Raises UsageError for one that is not OPTION=VALUE, or that is given twice."""
    options: dict[str, str] = {}
    for given in name.options.split(",") if name.options.strip() else ():
        option, _, value = (part.strip() for part in given.partition("="))
        if not (option and value):
            raise UsageError(
                f"{given.strip()!r} is not an option of the metric {name.base}",
                hint=f"write it like this: {name.base}(option=value)",
            )
        if option in options:
            raise UsageError(f"the option {option!r} of the metric {name.base} is given twice", hint="give it once")
        options[option] = value
    return options


def with_options(base: str, metric: object) -> str:
    """The name of a metric: `base`, and its options where they are not the default."""
    given = [f"{option.name}={value}" for option, value in _options(metric) if value != option.default]
    return f"{base}({','.join(given)})" if given else base


def options_of(metric: object) -> dict[str, str]:
    """All options of a metric and their values, the defaults too."""
    return {option.name: value for option, value in _options(metric)}


def _options(metric: object) -> Iterator[tuple[Field[Any], str]]:
    for field in fields(metric) if is_dataclass(metric) and not isinstance(metric, type) else ():
        value = getattr(metric, field.name)
        if field.kw_only and isinstance(value, str):
            yield field, value
